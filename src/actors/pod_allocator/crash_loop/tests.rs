use super::*;
use crate::model::LossClass;

const BACKOFF: Backoff = Backoff {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(300),
};
const STABLE: Duration = Duration::from_secs(60);

fn id(n: u64) -> ExecutorId {
    ExecutorId::new(n).unwrap()
}

fn at(seconds: u64) -> Tick {
    Tick::after_start(Duration::from_secs(seconds))
}

fn tick(looping: &mut CrashLoop, target: u32, second: u64) -> Option<Change> {
    looping.tick(target, &BACKOFF, STABLE, at(second))
}

fn reason(class: LossClass, exit_code: Option<i32>, message: &str) -> LossReason {
    LossReason {
        class,
        exit_code,
        by_application: class.by_application(),
        failure: class.is_failure(exit_code),
        message: message.to_owned(),
        evidence: Default::default(),
    }
}

fn ended(looping: &mut CrashLoop, n: u64, early: Option<EarlyEnd>, second: u64) {
    let reason = match early {
        Some(EarlyEnd::Interrupted) => reason(LossClass::Rejected, None, "OutOfcpu"),
        Some(EarlyEnd::ByItself) | None => reason(LossClass::Exited, Some(127), "no such file"),
    };
    looping.ended(id(n), early, &reason, &BACKOFF, at(second));
}

fn interrupt(looping: &mut CrashLoop, n: u64, target: u32, second: u64) -> Option<Change> {
    ended(looping, n, Some(EarlyEnd::Interrupted), second);
    tick(looping, target, second)
}

fn end_early(looping: &mut CrashLoop, n: u64, target: u32, second: u64) -> Option<Change> {
    ended(looping, n, Some(EarlyEnd::ByItself), second);
    tick(looping, target, second)
}

/// A profile with a target of four that began to back off at second 0.
fn backing_off() -> CrashLoop {
    let mut looping = CrashLoop::default();
    assert_eq!(end_early(&mut looping, 1, 4, 0), None);
    assert_eq!(
        end_early(&mut looping, 2, 4, 0),
        Some(Change::Began { until: at(1) })
    );
    looping
}

/// The same after the wait: its probe, executor 3, is requested at second 1.
fn probing() -> CrashLoop {
    let mut looping = backing_off();
    tick(&mut looping, 4, 1);
    looping.requested(id(3));
    looping
}

// spec: A-97
#[test]
fn a_profile_backs_off_when_more_than_one_and_more_than_a_twentieth_of_its_target_ended_early() {
    let mut small = CrashLoop::default();
    end_early(&mut small, 1, 4, 0);
    assert_eq!(small.permission(), Permission::Free);
    end_early(&mut small, 2, 4, 0);
    assert_eq!(small.permission(), Permission::NoneUntil(at(1)));

    let mut large = CrashLoop::default();
    for n in 1..=50 {
        end_early(&mut large, n, 1_000, 0);
    }
    assert_eq!(large.permission(), Permission::Free);
    end_early(&mut large, 51, 1_000, 0);
    assert_eq!(large.permission(), Permission::NoneUntil(at(1)));
}

// spec: A-97
#[test]
fn an_end_that_is_seen_twice_is_counted_once() {
    let mut looping = CrashLoop::default();
    for _ in 0..9 {
        end_early(&mut looping, 1, 4, 0);
    }
    assert_eq!(looping.permission(), Permission::Free);
}

// spec: A-97
#[test]
fn a_stable_executor_resets_the_count_of_early_ends() {
    let mut looping = CrashLoop::default();
    end_early(&mut looping, 1, 4, 0);
    looping.running(id(2), at(1), STABLE);
    tick(&mut looping, 4, 61);
    end_early(&mut looping, 3, 4, 62);
    assert_eq!(looping.permission(), Permission::Free);
}

// spec: A-99
#[test]
fn after_the_backoff_one_probe_goes_out_and_the_rest_follow_when_it_has_run_for_its_trial() {
    let mut looping = backing_off();
    tick(&mut looping, 4, 1);
    assert_eq!(looping.permission(), Permission::OneProbe);
    looping.requested(id(3));
    assert_eq!(looping.permission(), Permission::ProbeIsOut);
    looping.running(id(3), at(2), STABLE);
    assert_eq!(looping.due(STABLE), Some(at(7)));
    assert_eq!(tick(&mut looping, 4, 6), None);
    let ended = Some(Change::Ended {
        after: Duration::from_secs(7),
    });
    assert_eq!(tick(&mut looping, 4, 7), ended);
    assert_eq!(looping.permission(), Permission::Free);
}

// spec
#[test]
fn each_probe_that_ends_early_doubles_the_wait_up_to_five_minutes() {
    let mut looping = backing_off();
    let (mut second, mut waits) = (1, Vec::new());
    for n in 3..14 {
        tick(&mut looping, 4, second);
        looping.requested(id(n));
        end_early(&mut looping, n, 4, second);
        let Permission::NoneUntil(until) = looping.permission() else {
            panic!("{looping:?}")
        };
        let next = until.since(at(0)).as_secs();
        waits.push(next - second);
        second = next;
    }
    assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
}

// spec: A-30
#[test]
fn a_probe_passes_also_if_it_is_seen_to_run_only_long_after_it_began() {
    let mut looping = probing();
    // Its pod's phase was unknown until now.
    tick(&mut looping, 4, 100);
    assert_eq!(looping.permission(), Permission::ProbeIsOut);
    looping.running(id(3), at(10), STABLE);
    let after = Duration::from_secs(101);
    assert_eq!(tick(&mut looping, 4, 101), Some(Change::Ended { after }));
    assert_eq!(looping.permission(), Permission::Free);
}

// spec: A-99
#[test]
fn a_probe_that_ends_for_another_reason_is_followed_by_another() {
    let mut looping = probing();
    ended(&mut looping, 3, None, 2);
    assert_eq!(looping.permission(), Permission::OneProbe);
}

// spec: A-98
#[test]
fn many_ends_within_one_backoff_period_are_one_step() {
    let mut looping = backing_off();
    for n in 3..30 {
        end_early(&mut looping, n, 4, 0);
    }
    assert_eq!(looping.permission(), Permission::NoneUntil(at(1)));
}

// spec: A-98, L-30
#[test]
fn early_ends_of_one_backoff_period_have_the_same_period() {
    let mut looping = backing_off();
    let open = looping.period_of(id(1));
    let first = looping.period_of(id(2));
    assert!(open.is_none() && first.is_some());
    end_early(&mut looping, 3, 4, 0);
    ended(&mut looping, 4, None, 0);
    assert_eq!(
        (looping.period_of(id(3)), looping.period_of(id(4))),
        (first, None)
    );
    tick(&mut looping, 4, 1);
    looping.requested(id(5));
    end_early(&mut looping, 6, 4, 1);
    assert_eq!(looping.period_of(id(6)), first, "not the probe");
    end_early(&mut looping, 5, 4, 2);
    assert!(
        looping.period_of(id(5)) > first,
        "the probe makes the next step"
    );
}

// spec: A-98, O-30
#[test]
fn a_restart_does_not_forget_the_backoff() {
    let mut looping = backing_off();
    for (n, second) in [(3, 1), (4, 3), (5, 7)] {
        tick(&mut looping, 4, second);
        looping.requested(id(n));
        end_early(&mut looping, n, 4, second);
    }
    let kept = looping.keep(STABLE, at(10)).unwrap();
    assert_eq!(
        kept,
        BackoffState {
            step: 4,
            remaining: Duration::from_secs(5),
            trial: Some(LEAST_TRIAL),
        }
    );
    let resumed = CrashLoop::resume(kept, &BACKOFF, at(0));
    assert_eq!(resumed.permission(), Permission::NoneUntil(at(5)));
}

/// Runs executors from this second on. Their ids are one higher.
fn run(looping: &mut CrashLoop, ids: std::ops::Range<u64>, second: u64) {
    for n in ids {
        looping.running(id(n + 1), at(second), STABLE);
    }
}

/// Ends executors `ids` early, all in one batch.
fn die(looping: &mut CrashLoop, ids: std::ops::Range<u64>, target: u32, second: u64) {
    for n in ids {
        ended(looping, n + 1, Some(EarlyEnd::ByItself), second);
    }
    tick(looping, target, second);
}

// spec: A-97
#[test]
fn early_ends_are_outweighed_by_more_executors_that_have_run_as_long() {
    for (dead, free) in [
        (10, true),
        (33, true),
        (49, true),
        (50, false),
        (100, false),
    ] {
        let mut looping = CrashLoop::default();
        run(&mut looping, 0..100, 0);
        die(&mut looping, 0..dead, 100, 8);
        let is_free = looping.permission() == Permission::Free;
        assert_eq!(is_free, free, "{dead} of 100");
    }
}

// spec: A-97
#[test]
fn executors_that_have_not_run_as_long_outweigh_nothing_until_they_have() {
    let mut looping = CrashLoop::default();
    run(&mut looping, 0..10, 0);
    run(&mut looping, 10..100, 3);
    die(&mut looping, 0..10, 100, 8);
    assert_eq!(looping.permission(), Permission::NoneUntil(at(9)));
    tick(&mut looping, 100, 9);
    assert_eq!(looping.permission(), Permission::OneProbe);
    assert_eq!(looping.due(STABLE), Some(at(11)));
    let ended = tick(&mut looping, 100, 11);
    assert!(matches!(ended, Some(Change::Ended { .. })), "{ended:?}");
}

// spec: A-97
#[test]
fn of_two_early_ends_the_shorter_run_is_what_the_siblings_are_weighed_against() {
    let mut looping = CrashLoop::default();
    run(&mut looping, 1..2, 0);
    run(&mut looping, 2..3, 1);
    run(&mut looping, 3..9, 2);
    die(&mut looping, 1..2, 8, 10);
    // It ran for 12 s. The six that live have run for 11 s, which is longer than the first one's 10 s.
    die(&mut looping, 2..3, 8, 13);
    assert_eq!(looping.permission(), Permission::Free);
}

// spec: A-97
#[test]
fn executors_that_stayed_before_outweigh_nothing() {
    let mut looping = CrashLoop::default();
    run(&mut looping, 0..100, 0);
    tick(&mut looping, 100, 60);
    run(&mut looping, 100..110, 60);
    die(&mut looping, 100..110, 110, 65);
    assert_eq!(looping.permission(), Permission::NoneUntil(at(66)));
}

// spec: A-97
#[test]
fn a_bad_node_is_refilled_as_often_as_its_siblings_outweigh_and_then_no_more() {
    let mut looping = CrashLoop::default();
    run(&mut looping, 0..90, 0);
    let mut bursts = 0;
    for second in (2..60).step_by(2) {
        let ids = 100 * second..100 * second + 10;
        run(&mut looping, ids.clone(), second);
        die(&mut looping, ids, 100, second + 1);
        if looping.permission() != Permission::Free {
            break;
        }
        bursts += 1;
    }
    assert_eq!(bursts, 8, "the ninth makes as many dead as living");
}

// spec: A-98
#[test]
fn a_backoff_that_returns_before_an_executor_stayed_goes_on_where_it_was() {
    let mut looping = probing();
    run(&mut looping, 2..3, 1);
    tick(&mut looping, 4, 6);
    assert_eq!(looping.permission(), Permission::Free);
    run(&mut looping, 4..6, 6);
    die(&mut looping, 4..6, 4, 10);
    assert_eq!(looping.permission(), Permission::NoneUntil(at(12)), "2 s");

    let mut healed = probing();
    run(&mut healed, 2..3, 1);
    tick(&mut healed, 4, 6);
    tick(&mut healed, 4, 61);
    run(&mut healed, 4..6, 61);
    die(&mut healed, 4..6, 4, 65);
    assert_eq!(healed.permission(), Permission::NoneUntil(at(66)), "1 s");
}

// spec: A-99
#[test]
fn a_probe_runs_as_long_as_all_before_it_or_twice_as_long_as_half_of_them_whichever_is_shorter() {
    for (longest, ran, trial) in [(1, 1, 5), (9, 5, 9), (20, 5, 10), (50, 50, 50)] {
        let mut looping = CrashLoop::default();
        run(&mut looping, 0..2, 0);
        ended(&mut looping, 1, Some(EarlyEnd::ByItself), ran);
        ended(&mut looping, 2, Some(EarlyEnd::ByItself), longest);
        tick(&mut looping, 2, longest);
        let ran = longest;
        tick(&mut looping, 2, ran + 1);
        looping.requested(id(3));
        run(&mut looping, 2..3, ran + 1);
        assert_eq!(looping.due(STABLE), Some(at(ran + 1 + trial)), "{ran}");
    }
}

// spec: A-97
#[test]
fn a_profile_backs_off_when_more_executors_were_interrupted_than_it_has() {
    let mut looping = CrashLoop::default();
    for n in 1..=10 {
        assert_eq!(interrupt(&mut looping, n, 10, 0), None, "{n}");
    }
    let began = Some(Change::Began { until: at(1) });
    assert_eq!(interrupt(&mut looping, 11, 10, 0), began);
    tick(&mut looping, 10, 1);
    looping.requested(id(12));
    interrupt(&mut looping, 12, 10, 1);
    assert_eq!(looping.permission(), Permission::NoneUntil(at(3)));
}

// spec: A-97
#[test]
fn interruptions_that_an_executor_outlives_are_forgiven() {
    let mut looping = CrashLoop::default();
    interrupt(&mut looping, 1, 1, 0);
    looping.running(id(2), at(0), STABLE);
    tick(&mut looping, 1, 60);
    assert_eq!(interrupt(&mut looping, 2, 1, 60), None);
}

// spec: A-31
#[test]
fn a_crash_loop_says_what_most_of_the_latest_early_ends_have_in_common() {
    let mut looping = CrashLoop::default();
    assert_eq!(&*looping.why(), "executors end early, again and again");
    interrupt(&mut looping, 1, 4, 0);
    for n in 2..=4 {
        looping.running(id(n), at(0), STABLE);
        end_early(&mut looping, n, 4, 2);
    }
    let why = "executors end early, again and again: 3 of the last 4 ran less than 3s: Exited: no such file; the last: executor 4";
    assert_eq!(&*looping.why(), why);
}
