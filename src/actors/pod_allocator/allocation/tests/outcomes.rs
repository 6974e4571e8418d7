//! Requests that are refused or blocked, and an API server that fails.

use super::*;
use crate::actors::pod_allocator::messages::NewLimits;

/// How many of these notices begin a condition, and how many end one.
fn begun_and_ended(said: &[Notice]) -> (usize, usize) {
    let begins = |notice: &&Notice| {
        matches!(
            notice,
            Notice::BackoffBegan { .. } | Notice::RefusalBegan { .. } | Notice::Degraded { .. }
        )
    };
    let ends = |notice: &&Notice| {
        matches!(
            notice,
            Notice::BackoffEnded { .. } | Notice::RefusalEnded { .. } | Notice::Recovered { .. }
        )
    };
    (
        said.iter().filter(begins).count(),
        said.iter().filter(ends).count(),
    )
}

// spec: A-20
#[test]
fn retry_after_is_obeyed_and_is_no_failure() {
    let mut driver = Driver::new(&[("default", 20)]);
    for _ in 0..3 {
        driver.round();
        driver.answer_all(|_, _| Reply::Created);
    }
    driver.round();
    assert_eq!(driver.flights.len(), 8);
    let first = *driver.flights.keys().next().unwrap();
    let told_at = driver.scenario.millis;
    driver.answer(first.get(), Reply::Wait(7));
    driver.answer_all(|_, _| Reply::Created);
    driver.live(20_000, |driver| driver.answer_all(|_, _| Reply::Created));
    let (next, _) = driver.left[15];
    assert_eq!(next, told_at + 7_000);
    assert_eq!(driver.live_of("default"), 20);
    assert_eq!(begun_and_ended(&driver.said), (1, 1));
}

// spec: A-26
#[test]
fn an_outage_of_minutes_costs_few_requests_and_is_over_in_seconds() {
    for reply in [Reply::Broke, Reply::Unreachable] {
        let mut driver = Driver::new(&[("default", 50)]);
        driver.fill();
        driver.scenario.want("default", 100);
        driver.left.clear();
        let began = driver.scenario.millis;
        driver.live(300_000, |driver| driver.answer_all(|_, _| reply));
        let minute = driver.left_within(began + 120_000, began + 180_000);
        println!(
            "{reply:?}: {} requests in five minutes of outage, {minute} in the third",
            driver.left.len()
        );
        assert!(
            (10..=16).contains(&minute),
            "one every five seconds: {minute}"
        );
        assert_eq!(begun_and_ended(&driver.said), (1, 0), "said once");
        let paused = driver.pauses();
        assert!(
            matches!(paused[..], [(Cause::Failing, since, None)] if since < began + 2_000),
            "{paused:?}"
        );
        driver.live(5_000, |driver| {
            for n in driver.ids_where(|class| class == Class::Unknown) {
                if !driver.flights.contains_key(&id(n)) {
                    find_nothing(driver, n);
                }
            }
            driver.answer_all(|_, _| Reply::Created);
        });
        assert_eq!(driver.live_of("default"), 100);
        assert_eq!(begun_and_ended(&driver.said), (1, 1));
    }
}

// spec: A-26
#[test]
fn many_that_fail_together_are_one_step_of_the_backoff() {
    let mut driver = Driver::new(&[("default", 100)]);
    for _ in 0..5 {
        driver.round();
        driver.answer_all(|_, _| Reply::Created);
    }
    driver.round();
    assert_eq!(driver.flights.len(), 32);
    driver.answer_all(|_, _| Reply::Unreachable);
    driver.round();
    let wait = driver.wake.unwrap().since(driver.scenario.now().tick);
    assert!(wait <= Duration::from_millis(200), "{wait:?}");
}

// spec: A-21
#[test]
fn a_full_quota_is_tried_a_few_times_a_minute_and_at_once_when_an_executor_ends() {
    let mut driver = Driver::new(&[("default", 8)]);
    let full = |n: u64, _: &ProfileName| match n {
        1..=5 => Reply::Created,
        _ => Reply::Refused(RefusalKind::Quota),
    };
    driver.live(600_000, |driver| {
        driver.answer_all(full);
        for n in driver.ids_where(|class| matches!(class, Class::Pending(_))) {
            driver.scenario.runs(n);
        }
        driver.bury();
    });
    let minute = driver.left_within(540_000, 600_000);
    println!(
        "{} requests in ten minutes of a full quota, {minute} in the last",
        driver.left.len()
    );
    assert!((1..=2).contains(&minute), "{:?}", driver.left);
    assert!(driver.left.len() < 25);
    assert_eq!(begun_and_ended(&driver.said), (1, 0), "{:?}", driver.said);

    let before = driver.left.len();
    driver.scenario.exits(3, 1);
    let now = driver.scenario.millis;
    driver.round();
    assert_eq!(driver.left_within(now, now + 1), 1, "at once");
    driver.answer_all(full);
    driver.live(10_000, |driver| driver.answer_all(full));
    assert!(
        driver.left.len() - before >= 4,
        "and soon again, for quotas are reckoned late"
    );
    driver.live(60_000, |driver| driver.answer_all(|_, _| Reply::Created));
    assert_eq!(driver.live_of("default"), 8);
    assert_eq!(begun_and_ended(&driver.said), (1, 1));
}

/// A quota on pods has room for this many; `used` are there.
fn under_a_quota(driver: &mut Driver, used: &mut u32, most: u32) {
    driver.bury();
    for n in driver.flights.keys().copied().collect::<Vec<_>>() {
        if *used < most {
            *used += 1;
            driver.answer(n.get(), Reply::Created);
            driver.scenario.runs(n.get());
        } else {
            driver.answer(n.get(), Reply::Refused(RefusalKind::Quota));
        }
    }
}

// spec
#[test]
fn a_quota_that_gives_and_takes_all_the_time_is_one_pause() {
    let (mut driver, mut used, mut ends) = (Driver::new(&[("default", 400)]), 0, 0);
    driver.live(70_000, |driver| under_a_quota(driver, &mut used, 390));
    assert_eq!((used, begun_and_ended(&driver.said)), (390, (1, 0)));
    // All have stayed by now. Each that ends gives back a place, which the next try takes.
    driver.live(200_000, |driver| {
        if driver.scenario.millis >= 70_000 + ends * 1_200 {
            let oldest = driver.ids_where(|class| class == Class::Running)[0];
            driver.scenario.exits(oldest, 1);
            used -= 1;
            ends += 1;
        }
        under_a_quota(driver, &mut used, 390);
    });
    assert!(ends > 150, "{ends}");
    assert!(used >= 389, "each is replaced: {used}");
    assert_eq!(begun_and_ended(&driver.said), (1, 0), "{:?}", driver.said);
    let quota = Cause::Refused(RefusalKind::Quota);
    assert!(
        matches!(driver.pauses()[..], [(cause, since, _)] if cause == quota && since < 10_000),
        "{:?}",
        driver.pauses()
    );
    driver.live(30_000, |driver| under_a_quota(driver, &mut used, 400));
    assert_eq!((used, driver.pauses()), (400, Vec::new()));
    assert_eq!(begun_and_ended(&driver.said), (1, 1), "and its end is said");
}

// spec
#[test]
fn refusals_of_requests_sent_together_are_reported_once() {
    let mut driver = Driver::new(&[("default", 100)]);
    for _ in 0..5 {
        driver.round();
        driver.answer_all(|_, _| Reply::Created);
    }
    driver.round();
    driver.scenario.pass(20);
    driver.answer_all(|n, _| match n % 3 {
        0 => Reply::Created,
        _ => Reply::Refused(RefusalKind::Quota),
    });
    assert_eq!(begun_and_ended(&driver.said), (1, 0), "{:?}", driver.said);
    assert_eq!(driver.round(), [0u64; 0]);
    let wait = driver.wake.unwrap().since(driver.scenario.now().tick);
    assert_eq!(wait, Duration::from_secs(1));
}

// spec
#[test]
fn a_refused_template_blocks_its_profile_for_five_minutes_and_no_other() {
    let mut driver = Driver::new(&[("bad", 20), ("good", 30)]);
    let bad = |_: u64, profile: &ProfileName| match profile.as_str() {
        "bad" => Reply::Refused(RefusalKind::Blocked),
        _ => Reply::Created,
    };
    driver.live(1_000, |driver| driver.answer_all(bad));
    assert_eq!(driver.live_of("good"), 30);
    let now = driver.scenario.millis;
    driver.live(900_000, |driver| driver.answer_all(bad));
    assert_eq!(
        driver.left_within(now, now + 901_000),
        3,
        "{:?}",
        driver.left
    );
    assert_eq!(begun_and_ended(&driver.said), (1, 0), "{:?}", driver.said);
    assert_eq!(driver.live_of("bad"), 0);
    driver.live(312_000, |driver| driver.answer_all(|_, _| Reply::Created));
    assert_eq!(driver.live_of("bad"), 20);
    assert_eq!(begun_and_ended(&driver.said), (1, 1));
}

// spec: A-114
#[test]
fn a_template_that_was_accepted_before_is_tried_within_seconds_and_its_refusal_is_no_failure() {
    let mut rules = settings();
    rules.failures.max = Some(1);
    let mut driver = Driver::with(rules, Scenario::new(&[("default", 3)]));
    driver.fill();
    driver.scenario.exits(1, 1);
    driver.bury();
    let denied = |_: u64, _: &ProfileName| Reply::Refused(RefusalKind::Blocked);
    driver.live(3_600_000, |driver| driver.answer_all(denied));
    let minute = driver.left_within(3_540_000, 3_600_000);
    assert!((5..=7).contains(&minute), "{minute}");
    // One failure is allowed, and that was the executor's.
    assert_eq!(begun_and_ended(&driver.said), (1, 0), "{:?}", driver.said);
    driver.live(11_000, |driver| driver.answer_all(|_, _| Reply::Created));
    assert_eq!(driver.live_of("default"), 3);
}

// spec: A-114
#[test]
fn a_larger_target_or_another_configuration_has_a_refused_profile_tried_at_once() {
    let mut driver = Driver::new(&[("bad", 2), ("good", 1)]);
    let bad = |_: u64, profile: &ProfileName| match profile.as_str() {
        "bad" => Reply::Refused(RefusalKind::Blocked),
        _ => Reply::Created,
    };
    driver.live(20_000, |driver| driver.answer_all(bad));
    driver.left.clear();
    driver.scenario.want("bad", 1);
    driver.live(20_000, |driver| driver.answer_all(bad));
    assert!(driver.left.is_empty(), "fewer are no reason to try");
    driver.scenario.want("bad", 3);
    driver.live(20_000, |driver| driver.answer_all(bad));
    assert_eq!(driver.left.len(), 1);
    let (now, rules) = (driver.scenario.now().tick, settings());
    let limits = NewLimits {
        batch_size: rules.batch_size,
        max_rate: None,
        max_pending: None,
        max_pending_of: BTreeMap::new(),
        over_life: None,
        waiting: rules.waiting,
        cancel_delay: rules.victims.cancel_delay,
        crash_backoff: rules.crash_backoff,
        max_failures: rules.failures.max,
        look_every: Duration::ZERO,
    };
    driver.allocation.reconfigure(limits, now);
    driver.live(1_000, |driver| driver.answer_all(|_, _| Reply::Created));
    assert_eq!(driver.live_of("bad"), 3);
}

// spec: A-45
#[test]
fn a_profile_whose_requests_always_break_starves_no_other() {
    let mut driver = Driver::new(&[("a", 50), ("b", 50)]);
    let reply = |_: u64, profile: &ProfileName| match profile.as_str() {
        "a" => Reply::Broke,
        _ => Reply::Created,
    };
    driver.live(60_000, |driver| {
        driver.scenario.pass(5);
        driver.answer_all(reply);
    });
    let live = driver.scenario.counts("b").live();
    println!("beside a profile whose requests always break, {live} of 50 within a minute");
    assert_eq!(live, 50);
}

// spec: A-24
#[test]
fn rights_template_and_namespace_are_fatal_only_while_there_never_was_an_executor() {
    for kind in [
        RefusalKind::Rights,
        RefusalKind::Blocked,
        RefusalKind::Namespace,
    ] {
        let mut driver = Driver::new(&[("default", 3)]);
        driver.round();
        driver.answer(1, Reply::Refused(kind));
        assert!(matches!(driver.said[..], [Notice::Fatal { kind: said, .. }] if said == kind));

        let mut driver = Driver::new(&[("default", 3)]);
        driver.round();
        driver.answer(1, Reply::Created);
        driver.scenario.exits(1, 0);
        driver.bury();
        driver.round();
        driver.answer(2, Reply::Refused(kind));
        assert!(
            matches!(driver.said[..], [Notice::RefusalBegan { kind: said, .. }] if said == kind)
        );
    }
    for kind in [RefusalKind::Quota, RefusalKind::Credentials] {
        let mut driver = Driver::new(&[("default", 3)]);
        driver.round();
        driver.answer(1, Reply::Refused(kind));
        assert!(matches!(driver.said[..], [Notice::RefusalBegan { .. }]));
    }
}

// spec: A-24
#[test]
fn a_refusal_is_not_fatal_while_a_request_without_an_answer_may_have_made_an_executor() {
    let mut driver = Driver::new(&[("default", 3)]);
    driver.round();
    driver.answer(1, Reply::Broke);
    driver.scenario.pass(5_000);
    driver.round();
    driver.answer_all(|_, _| Reply::Refused(RefusalKind::Rights));
    assert!(
        matches!(driver.said[..], [.., Notice::RefusalBegan { .. }]),
        "{:?}",
        driver.said
    );
}

// spec
#[test]
fn a_refused_profile_ends_no_application_of_which_another_profile_may_start() {
    for (bad, good) in [("a", "z"), ("z", "a")] {
        let mut driver = Driver::new(&[(bad, 2), (good, 3), ("none", 0)]);
        let reply = |_: u64, profile: &ProfileName| match profile.as_str() == bad {
            true => Reply::Refused(RefusalKind::Blocked),
            false => Reply::Created,
        };
        driver.live(1_000, |driver| driver.answer_all(reply));
        assert_eq!(driver.live_of(good), 3);
        assert!(
            matches!(&driver.said[..], [Notice::RefusalBegan { profile, .. }] if profile.as_str() == bad),
            "{:?}",
            driver.said
        );
        driver.live(301_000, |driver| driver.answer_all(|_, _| Reply::Created));
        assert_eq!(driver.live_of(bad), 2, "it is tried again");
    }
    let mut driver = Driver::new(&[("a", 2), ("b", 2)]);
    driver.live(1_000, |driver| {
        driver.answer_all(|_, _| Reply::Refused(RefusalKind::Blocked));
    });
    let fatal = |notice: &Notice| matches!(notice, Notice::Fatal { .. });
    assert!(driver.said.iter().any(fatal), "{:?}", driver.said);
}

// spec: A-31
#[test]
fn a_profile_is_shown_as_paused_while_it_is_refused_and_lacks_executors() {
    let mut driver = Driver::new(&[("default", 2)]);
    driver.round();
    driver.answer(1, Reply::Created);
    driver.round();
    assert_eq!(driver.pauses(), []);
    driver.answer(2, Reply::Refused(RefusalKind::Quota));
    let quota = Cause::Refused(RefusalKind::Quota);
    driver.round();
    assert_eq!(driver.pauses(), [(quota, 0, Some(1_000))]);
    driver.scenario.pass(1_000);
    driver.round();
    assert_eq!(driver.pauses(), [(quota, 0, None)], "one is tried");
    driver.answer(3, Reply::Refused(RefusalKind::Blocked));
    let blocked = Cause::Refused(RefusalKind::Blocked);
    assert_eq!(driver.pauses(), [(blocked, 0, Some(2_000))]);
    driver.scenario.want("default", 1);
    assert_eq!(driver.pauses(), [], "nobody wants more");
}

// spec
#[test]
fn a_profile_whose_executors_end_early_is_shown_as_paused_until_one_has_stayed() {
    let mut driver = Driver::new(&[("default", 1)]);
    for n in 1..=2 {
        driver.round();
        driver.answer(n, Reply::Created);
        driver.scenario.runs(n);
        driver.scenario.exits(n, 1);
    }
    driver.round();
    let now = driver.scenario.now().tick.since(at(0)).as_millis() as u64;
    assert_eq!(
        driver.pauses(),
        [(Cause::CrashLoop, now, Some(now + 1_000))]
    );
    driver.scenario.pass(1_000);
    driver.round();
    assert_eq!(
        driver.pauses(),
        [(Cause::CrashLoop, now, None)],
        "the probe is out"
    );
    driver.answer(3, Reply::Created);
    driver.scenario.runs(3);
    driver.scenario.pass(60_000);
    driver.round();
    assert_eq!(driver.pauses(), []);
}

// spec: A-31
#[test]
fn a_new_reason_of_a_refusal_is_reported() {
    let mut driver = Driver::new(&[("default", 2)]);
    driver.round();
    driver.answer(1, Reply::Created);
    driver.round();
    driver.answer(2, Reply::Refused(RefusalKind::Quota));
    driver.scenario.pass(1_000);
    driver.round();
    driver.answer(3, Reply::Refused(RefusalKind::Blocked));
    let kinds: Vec<RefusalKind> = (driver.said.iter())
        .filter_map(|notice| match notice {
            Notice::RefusalBegan { kind, .. } => Some(*kind),
            _ => None,
        })
        .collect();
    assert_eq!(kinds, [RefusalKind::Quota, RefusalKind::Blocked]);
}
