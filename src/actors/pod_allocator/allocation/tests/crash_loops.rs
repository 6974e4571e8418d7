use super::*;
use crate::model::Pod;
use crate::model::executor::Session;
use crate::model::ledger::Inheritance;
use crate::model::pod::Disruption;
use crate::testing::{running, terminating};

/// Every executor of this profile is created and exits at once with this code.
fn dies_at_once(driver: &mut Driver, profile: &str, code: i32) {
    driver.answer_all(|_, _| Reply::Created);
    for n in driver.ids_where(|class| matches!(class, Class::Pending(_))) {
        if driver.scenario.profile_of(n).as_str() == profile {
            driver.scenario.exits(n, code);
        } else {
            driver.scenario.runs(n);
        }
    }
    driver.bury();
}

/// The most requests within this time for a profile whose executors all end at once: those in
/// flight when the first early ends are seen, those before the tolerance is exceeded, and a probe
/// for each step of the backoff.
fn bound(target: usize, in_flight: usize, seconds: u64) -> usize {
    let tolerated = (target / 20).max(1) + 1;
    let (mut wait, mut at, mut probes) = (1, 1, 1);
    while at <= seconds {
        wait = (wait * 2).min(300);
        (at, probes) = (at + wait, probes + 1);
    }
    target.min(tolerated + in_flight) + tolerated + probes
}

pub(super) fn backoffs(said: &[Notice]) -> (usize, usize) {
    let began = |notice: &&Notice| matches!(notice, Notice::BackoffBegan { .. });
    let ended = |notice: &&Notice| matches!(notice, Notice::BackoffEnded { .. });
    (
        said.iter().filter(began).count(),
        said.iter().filter(ended).count(),
    )
}

// spec
#[test]
fn a_crash_looping_profile_is_requested_ever_less_often_and_reported_once() {
    for (target, code) in [(1, 1), (4, 1), (4, 0), (100, 137), (1_000, 1)] {
        let mut driver = Driver::new(&[("default", target)]);
        driver.live(600_000, |driver| dies_at_once(driver, "default", code));
        let (most, requests) = (bound(target as usize, 32, 600), driver.left.len());
        let minutes: Vec<usize> = (0..10)
            .map(|minute| driver.left_within(minute * 60_000, (minute + 1) * 60_000))
            .collect();
        println!(
            "{target} that exit {code}: {requests} requests (bound {most}), by minute {minutes:?}"
        );
        assert!(requests <= most, "{requests} > {most}");
        assert!(minutes[1..].iter().all(|n| *n <= 2), "{minutes:?}");
        assert!(
            minutes[4..].iter().sum::<usize>() >= 1,
            "and never given up"
        );
        assert_eq!(backoffs(&driver.said), (1, 0));
    }
}

// spec
#[test]
fn a_crash_loop_affects_no_other_profile_and_no_running_executor() {
    let mut driver = Driver::new(&[("bad", 6), ("good", 3)]);
    driver.fill();
    driver.all_stay();
    let of = |driver: &Driver, profile: &str| {
        let mut running = driver.ids_where(|class| class == Class::Running);
        running.retain(|n| driver.scenario.profile_of(*n).as_str() == profile);
        running
    };
    for n in of(&driver, "bad").into_iter().take(3) {
        driver.scenario.exits(n, 1);
    }
    let mut minutes = 0;
    driver.live(600_000, |driver| {
        dies_at_once(driver, "bad", 1);
        // The other profile loses one executor a minute and replaces it at once.
        let minute = driver.scenario.millis / 60_000;
        if minute > minutes && driver.scenario.counts("good").running == 3 {
            minutes = minute;
            let oldest = of(driver, "good")[0];
            driver.scenario.exits(oldest, 1);
            driver.round();
            assert_eq!(driver.live_of("good"), 3, "in the same round");
        }
    });
    assert!(minutes > 5);
    assert!(driver.retired.is_empty());
    assert_eq!(of(&driver, "bad").len(), 3, "these run on");
    assert_eq!(backoffs(&driver.said), (1, 0));
}

// spec
#[test]
fn a_stable_probe_ends_the_backoff_and_is_reported_once() {
    let mut driver = Driver::new(&[("default", 10)]);
    driver.live(100_000, |driver| dies_at_once(driver, "default", 1));
    assert_eq!(driver.live_of("default"), 0);
    let healthy = |driver: &mut Driver| {
        driver.answer_all(|_, _| Reply::Created);
        for n in driver.ids_where(|class| matches!(class, Class::Pending(_))) {
            driver.scenario.runs(n);
        }
    };
    driver.live(31_000, healthy);
    assert_eq!(driver.live_of("default"), 1, "the probe, alone");
    driver.live(6_000, healthy);
    assert_eq!(driver.live_of("default"), 10);
    assert_eq!(backoffs(&driver.said), (1, 1));
    driver.live(60_000, healthy);
    assert!(
        driver.keeps.last().unwrap().is_empty(),
        "forgotten in the record too"
    );
}

// spec: A-30
#[test]
fn a_profile_that_is_disrupted_without_end_is_slowed_down_and_has_no_failure() {
    let mut driver = Driver::new(&[("default", 10)]);
    driver.live(60_000, |driver| {
        driver.answer_all(|_, _| Reply::Created);
        for n in driver.ids_where(|class| matches!(class, Class::Pending(_))) {
            let disruption = Some(Disruption {
                reason: "DeletionByTaintManager".into(),
                message: None,
            });
            let pod = running(driver.scenario.pod(n));
            driver.scenario.observe(pod.clone());
            driver.scenario.observe(Pod { disruption, ..pod });
            driver.scenario.goes(n);
        }
        driver.bury();
        driver.scenario.pass(50);
    });
    let first = driver.said.first();
    assert!(
        matches!(first, Some(Notice::BackoffBegan { .. })),
        "{first:?}"
    );
    let made = driver.left.len();
    assert!(
        (20..40).contains(&made),
        "each once, then one by one: {made}"
    );
}

// spec: A-97
#[test]
fn news_of_a_long_stable_executor_does_not_reset_early_ends() {
    let mut driver = Driver::new(&[("default", 2)]);
    driver.fill();
    driver.all_stay();
    driver.scenario.exits(2, 1);
    driver.bury();
    let mut idle = false;
    driver.live(600_000, |driver| {
        driver.answer_all(|_, _| Reply::Created);
        for n in driver.ids_where(|class| matches!(class, Class::Pending(_))) {
            driver.scenario.exits(n, 1);
        }
        idle = !idle;
        driver
            .scenario
            .tell(News::Session(id(1), Session::open(idle)));
        driver.bury();
    });
    assert!(
        driver.left.len() <= 2 + bound(2, 1, 600),
        "{}",
        driver.left.len()
    );
    assert_eq!(backoffs(&driver.said), (1, 0));
}

// spec: A-30
#[test]
fn pods_deleted_before_they_ran_are_early_ends_even_if_they_stay_terminating() {
    let mut driver = Driver::new(&[("default", 4)]);
    driver.live(600_000, |driver| {
        driver.answer_all(|_, _| Reply::Created);
        for n in driver.ids_where(|class| matches!(class, Class::Pending(_))) {
            driver.scenario.terminates(n);
        }
    });
    println!(
        "pods that are terminated at once and never gone: {} in ten minutes",
        driver.left.len()
    );
    assert!(
        driver.left.len() <= bound(4, 32, 600),
        "{}",
        driver.left.len()
    );
}

/// A profile of four during a backoff, whose probe was just requested.
fn probing() -> (Driver, u64) {
    let mut driver = Driver::new(&[("default", 4)]);
    driver.live(900, |driver| dies_at_once(driver, "default", 1));
    dies_at_once(&mut driver, "default", 1);
    driver.round();
    assert!(driver.flights.is_empty());
    let before = driver.left.len();
    for _ in 0..20 {
        driver.scenario.pass(100);
        driver.round();
    }
    assert_eq!(driver.left.len(), before + 1);
    let probe = driver.left.last().unwrap().1;
    (driver, probe)
}

// spec: A-99
#[test]
fn a_probe_that_ends_for_another_reason_is_followed_by_another_at_once() {
    let (mut driver, probe) = probing();
    driver.answer(probe, Reply::Refused(RefusalKind::Quota));
    driver.scenario.pass(1_000);
    assert_eq!(driver.round(), [probe + 1], "refused");

    let (mut driver, probe) = probing();
    driver.answer(probe, Reply::Created);
    driver.scenario.runs(probe);
    driver.round();
    driver.scenario.pass(5_000);
    driver.scenario.terminates(probe);
    assert_eq!(
        driver.round(),
        [probe + 1],
        "deleted by someone while it ran; its node may be lost, and it never gone"
    );

    let (mut driver, probe) = probing();
    driver.answer(probe, Reply::Created);
    driver.scenario.want("default", 0);
    driver.scenario.pass(11_000);
    driver.round();
    assert_eq!(driver.retired, [probe]);
    driver.scenario.want("default", 4);
    assert_eq!(driver.round(), [probe + 1], "chosen to go");
}

// spec: A-99
#[test]
fn while_the_probe_is_pending_nothing_else_is_requested() {
    let (mut driver, probe) = probing();
    driver.answer(probe, Reply::Created);
    driver.scenario.runs(probe);
    let before = driver.left.len();
    driver.live(4_000, |_| {});
    assert_eq!(driver.left.len(), before);
    driver.live(2_000, |_| {});
    assert_eq!(
        driver.left.len(),
        before + 3 - 2,
        "slow start: 1, and on with its answer"
    );
    driver.settle(|_, _| Reply::Created);
    assert_eq!(driver.live_of("default"), 4);
}

// spec: O-30
#[test]
fn backoffs_are_written_when_a_step_begins_and_not_as_time_passes() {
    let mut driver = Driver::new(&[("default", 4)]);
    driver.live(600_000, |driver| dies_at_once(driver, "default", 1));
    let steps: Vec<Option<u32>> = (driver.keeps.iter())
        .map(|kept| kept.values().next().map(|kept| kept.step))
        .collect();
    let expected: Vec<Option<u32>> = (1..=steps.len()).map(|n| u32::try_from(n).ok()).collect();
    assert_eq!(steps, expected);
    assert!((9..=10).contains(&steps.len()), "{steps:?}");
}

// spec: O-30, A-98
#[test]
fn a_successor_continues_the_backoff() {
    let scenario = Scenario::before_adoption(&[("default", 4)], Inheritance::default());
    let kept = BTreeMap::from([(
        "default".into(),
        BackoffState {
            step: 5,
            remaining: Duration::from_secs(16),
            trial: None,
        },
    )]);
    let inherited = Inherited {
        reserved: Some(id(1_000)),
        backoffs: kept,
        ..Inherited::default()
    };
    let allocation = resuming(settings(), &inherited, scenario.now());
    let mut driver = Driver::of(allocation, scenario);
    driver.scenario.list(Vec::new());
    driver.live(16_000, |_| {});
    assert_eq!(driver.left.len(), 0);
    driver.live(1_000, |driver| dies_at_once(driver, "default", 1));
    assert_eq!(driver.left.len(), 1);
    driver.live(31_000, |driver| dies_at_once(driver, "default", 1));
    assert_eq!(driver.left.len(), 1, "the sixth step is 32 seconds");
    driver.live(2_000, |driver| dies_at_once(driver, "default", 1));
    assert_eq!(driver.left.len(), 2);
}

// spec: A-30
#[test]
fn an_early_end_is_judged_once_however_often_it_is_seen() {
    let mut driver = Driver::new(&[("default", 4)]);
    driver.fill();
    driver.all_stay();
    driver.scenario.want("default", 5);
    driver.settle(|_, _| Reply::Created);
    driver.scenario.exits(5, 1);
    driver.round();
    for _ in 0..5 {
        let pod = terminating(driver.scenario.pod(5));
        driver.scenario.observe(pod);
        driver.round();
    }
    driver.scenario.report(5);
    driver.round();
    driver.scenario.goes(5);
    driver.round();
    assert!(driver.said.is_empty(), "{:?}", driver.said);
    assert_eq!(driver.live_of("default"), 5);
}

/// Whether this executor dies, and at what age in milliseconds: its id, of the first hundred or a later one.
type Death = fn(u64) -> Option<u64>;

/// A profile of 100 whose executors die like this: how many were requested beyond the first 100 within 10 s and within
/// 5 min of the first death, and in which second after it all 100 ran.
fn pace(death: Death) -> (usize, usize, Option<u64>) {
    let mut driver = Driver::new(&[("default", 100)]);
    let (mut first_death, mut whole) = (None, None);
    driver.live(400_000, |driver| {
        driver.bury();
        driver.answer_all(|_, _| Reply::Created);
        for n in driver.ids_where(|class| matches!(class, Class::Pending(_))) {
            driver.scenario.runs(n);
        }
        let now = driver.scenario.millis;
        for n in driver.ids_where(|class| class == Class::Running) {
            let entry = driver.scenario.entry(n).unwrap();
            let since = entry.bound().and_then(|bound| bound.running_since);
            let age = since.map_or(0, |since| at(now).since(since).as_millis());
            if death(n).is_some_and(|dies_at| age >= u128::from(dies_at)) {
                driver.scenario.exits(n, 137);
                first_death.get_or_insert(now);
            }
        }
        let running = driver.scenario.counts("default").running;
        if let (Some(first), 100) = (first_death, running) {
            whole.get_or_insert((now - first) / 1_000);
        }
    });
    let first = first_death.unwrap_or_default();
    let beyond = |to| driver.left_within(0, first + to) - 100;
    (beyond(10_000), beyond(300_000), whole)
}

// spec: A-97
#[test]
fn a_profile_is_refilled_at_once_where_most_live_and_slowly_where_most_die() {
    let cases: [(&str, Death, usize, usize, Option<u64>); 5] = [
        (
            "all die once, at 8 s",
            |n| (n <= 100).then_some(8_000),
            100,
            100,
            Some(10),
        ),
        ("each dies at 5 s", |_| Some(5_000), 2, 8, None),
        (
            "10 die at 8 s",
            |n| (n <= 10).then_some(8_000),
            10,
            10,
            Some(0),
        ),
        (
            "a third die at 8 s",
            |n| n.is_multiple_of(3).then_some(8_000),
            45,
            50,
            Some(10),
        ),
        (
            "all on one node of ten die at 2 s",
            |n| (n <= 10 || n > 100).then_some(2_000),
            50,
            100,
            Some(0),
        ),
    ];
    for (name, death, soon, later, whole) in cases {
        let (in_10_s, in_5_min, second) = pace(death);
        println!("{name}: {in_10_s} more in 10 s, {in_5_min} in 5 min, whole after {second:?} s");
        assert!(in_10_s <= soon && in_5_min <= later, "{name}");
        assert_eq!(second.is_some(), whole.is_some(), "{name}");
        assert!(second.unwrap_or(0) <= whole.unwrap_or(0), "{name}");
    }
}

// spec
#[test]
fn what_a_node_takes_with_it_is_replaced_at_once_also_if_it_comes_back_and_goes_again() {
    let lost = |pod: Pod| Pod {
        reason: Some("NodeLost".into()),
        ..pod
    };
    let evicted = |pod: Pod| Pod {
        disruption: Some(Disruption {
            reason: "DeletionByTaintManager".into(),
            message: None,
        }),
        ..pod
    };
    for how in ["lost", "evicted by its taint"] {
        let mut driver = Driver::new(&[("default", 400)]);
        driver.fill();
        for _ in 0..2 {
            driver.live(30_000, |_| {});
            // Half of the executors, the youngest.
            let on_it = driver.ids_where(|class| class == Class::Running);
            for n in on_it.into_iter().skip(200) {
                let pod = driver.scenario.pod(n);
                let pod = if how == "lost" {
                    lost(pod)
                } else {
                    evicted(pod)
                };
                driver.scenario.observe(pod);
                driver.scenario.goes(n);
            }
            let went = driver.scenario.millis;
            driver.live(5_000, |driver| {
                driver.bury();
                driver.answer_all(|_, _| Reply::Created);
            });
            assert_eq!(driver.left_within(went, went + 5_000), 200, "{how}");
            for n in driver.ids_where(|class| matches!(class, Class::Pending(_))) {
                driver.scenario.runs(n);
            }
        }
        assert_eq!(driver.scenario.counts("default").running, 400);
        assert_eq!(backoffs(&driver.said), (0, 0), "{how}");
    }
}

// spec: A-30
#[test]
fn executors_that_an_engine_ends_after_it_lowered_the_target_are_no_crash_loop() {
    for (code, backs_off) in [(0, false), (1, true)] {
        let mut settings = settings();
        settings.victims.pending_only = true;
        let mut driver = Driver::with(settings, Scenario::new(&[("default", 6)]));
        driver.fill();
        driver.scenario.want("default", 2);
        driver.live(5_000, |_| ());
        for n in 1..=4 {
            driver.scenario.exits(n, code);
        }
        driver.round();
        driver.live(500, Driver::bury);
        assert_eq!(driver.live_of("default"), 2, "boatswain chose none");
        driver.scenario.want("default", 6);
        driver.live(500, |driver| driver.answer_all(|_, _| Reply::Created));
        let whole = driver.live_of("default") == 6;
        assert_eq!(whole, !backs_off, "exit code {code}");
    }
}
