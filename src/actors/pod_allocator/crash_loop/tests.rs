use super::*;

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

fn end_early(looping: &mut CrashLoop, n: u64, target: u32, second: u64) -> Option<Change> {
    looping.ended(id(n), true, target, &BACKOFF, at(second))
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

// spec: A-30
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

// spec: A-30
#[test]
fn an_end_that_is_seen_twice_is_counted_once() {
    let mut looping = CrashLoop::default();
    for _ in 0..9 {
        end_early(&mut looping, 1, 4, 0);
    }
    assert_eq!(looping.permission(), Permission::Free);
}

// spec: A-30
#[test]
fn a_stable_executor_resets_the_count_of_early_ends() {
    let mut looping = CrashLoop::default();
    end_early(&mut looping, 1, 4, 0);
    looping.running(id(2), at(1), STABLE);
    looping.tick(STABLE, at(61));
    end_early(&mut looping, 3, 4, 62);
    assert_eq!(looping.permission(), Permission::Free);
}

// spec: A-30
#[test]
fn after_the_backoff_one_probe_is_requested_and_the_rest_once_it_is_stable() {
    let mut looping = backing_off();
    looping.tick(STABLE, at(1));
    assert_eq!(looping.permission(), Permission::OneProbe);
    looping.requested(id(3));
    assert_eq!(looping.permission(), Permission::ProbeIsOut);
    looping.running(id(3), at(2), STABLE);
    assert_eq!(looping.tick(STABLE, at(61)), None);
    let ended = Some(Change::Ended {
        after: Duration::from_secs(62),
    });
    assert_eq!(looping.tick(STABLE, at(62)), ended);
    assert_eq!(looping.permission(), Permission::Free);
}

// spec: A-30
#[test]
fn each_probe_that_ends_early_doubles_the_wait_up_to_five_minutes() {
    let mut looping = backing_off();
    let (mut second, mut waits) = (1, Vec::new());
    for n in 3..14 {
        looping.tick(STABLE, at(second));
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
fn a_probe_that_ends_for_another_reason_is_followed_by_another() {
    let mut looping = backing_off();
    looping.tick(STABLE, at(1));
    looping.requested(id(3));
    looping.ended(id(3), false, 4, &BACKOFF, at(2));
    assert_eq!(looping.permission(), Permission::OneProbe);
}

// spec: A-30
#[test]
fn many_ends_within_one_backoff_period_are_one_step() {
    let mut looping = backing_off();
    for n in 3..30 {
        end_early(&mut looping, n, 4, 0);
    }
    assert_eq!(looping.permission(), Permission::NoneUntil(at(1)));
}

// spec: A-30, L-30
#[test]
fn early_ends_of_one_backoff_period_have_the_same_period() {
    let mut looping = backing_off();
    let open = looping.period_of(id(1));
    let first = looping.period_of(id(2));
    assert!(open.is_none() && first.is_some());
    end_early(&mut looping, 3, 4, 0);
    looping.ended(id(4), false, 4, &BACKOFF, at(0));
    assert_eq!(
        (looping.period_of(id(3)), looping.period_of(id(4))),
        (first, None)
    );
    looping.tick(STABLE, at(1));
    looping.requested(id(5));
    end_early(&mut looping, 6, 4, 1);
    assert_eq!(looping.period_of(id(6)), first, "not the probe");
    end_early(&mut looping, 5, 4, 2);
    assert!(
        looping.period_of(id(5)) > first,
        "the probe makes the next step"
    );
}

// spec: A-30, O-30
#[test]
fn a_restart_does_not_forget_the_backoff() {
    let mut looping = backing_off();
    for (n, second) in [(3, 1), (4, 3), (5, 7)] {
        looping.tick(STABLE, at(second));
        looping.requested(id(n));
        end_early(&mut looping, n, 4, second);
    }
    let kept = looping.keep(at(10)).unwrap();
    assert_eq!(
        kept,
        Kept {
            step: 4,
            remaining: Duration::from_secs(5)
        }
    );
    let resumed = CrashLoop::resume(kept, &BACKOFF, at(0));
    assert_eq!(resumed.permission(), Permission::NoneUntil(at(5)));
}
