use super::*;
use crate::actors::pod_allocator::crash_loop::CrashLoop;
use crate::model::news::Outcome;
use crate::model::reason::Evidence;
use crate::model::reasoning::EarlyEnd;
use crate::model::recorded_end::RecordedEnd;
use crate::model::{LossClass, LossReason};
use crate::testing::Scenario;

fn settings(max: Option<u32>, window: u64) -> FailureBudget {
    FailureBudget {
        max,
        window: Duration::from_secs(window),
        rules: Vec::new(),
        node_max: None,
        node_if_possible: false,
    }
}

fn failures(max: Option<u32>, window: u64) -> Failures {
    Failures::resume(settings(max, window), &KeptFailures::default(), now(0))
}

fn now(millis: u64) -> Now {
    let since = Duration::from_millis(millis);
    let wall = jiff::Timestamp::UNIX_EPOCH.checked_add(since).unwrap();
    Now::new(Tick::after_start(since), wall)
}

fn reason(class: LossClass, exit_code: Option<i32>) -> LossReason {
    LossReason {
        class,
        exit_code,
        by_application: class.by_application(),
        failure: class.is_failure(exit_code),
        message: "ended with exit 1".to_owned(),
        evidence: Evidence::default(),
    }
}

fn entry(n: u64) -> Arc<Entry> {
    let mut scenario = Scenario::new(&[("default", 1)]);
    let profile = "default".into();
    scenario.requested(n, Outcome::Sent { profile });
    Arc::clone(scenario.entry(n).unwrap())
}

/// Executor `n` exits with 1 at this time. Returns whether that exceeded the limit.
fn fail(failures: &mut Failures, n: u64, millis: u64) -> Option<Spent> {
    let reason = reason(LossClass::Exited, Some(1));
    failures.ended(&entry(n), &reason, None, now(millis))
}

// spec: L-30
#[test]
fn exactly_at_the_limit_the_application_continues_and_one_more_failure_ends_it_once() {
    let mut failures = failures(Some(3), 3_600);
    for n in 1..=3 {
        assert_eq!(fail(&mut failures, n, n), None);
    }
    let Spent(why) = fail(&mut failures, 4, 4).unwrap();
    assert_eq!(
        &*why,
        "4 failures within 1h, and failures.max allows 3; the last: executor 4: Exited: ended with exit 1"
    );
    assert_eq!(fail(&mut failures, 5, 5), None, "said once");
    assert_eq!(failures.spent(now(6).tick), None);
}

// spec: L-30
#[test]
fn a_failure_beyond_the_limit_ends_the_application_only_within_the_window() {
    let mut inside = failures(Some(2), 2);
    fail(&mut inside, 1, 0);
    fail(&mut inside, 2, 1_000);
    assert!(fail(&mut inside, 3, 1_999).is_some());
    let mut outside = failures(Some(2), 2);
    fail(&mut outside, 1, 0);
    fail(&mut outside, 2, 1_000);
    assert_eq!(fail(&mut outside, 3, 2_000), None);
    assert!(fail(&mut outside, 4, 2_999).is_some());
}

// spec: L-30
#[test]
fn the_default_limit_follows_the_largest_total_target() {
    for (wanted, limit) in [
        (&[0][..], 3),
        (&[1], 3),
        (&[2], 4),
        (&[10, 0], 20),
        (&[u32::MAX], u32::MAX),
    ] {
        let mut failures = failures(None, 0);
        wanted.iter().for_each(|n| failures.wanted(*n));
        assert_eq!(failures.limit(), limit, "{wanted:?}");
    }
    let mut none = failures(Some(0), 0);
    assert!(fail(&mut none, 1, 0).is_some(), "none is put up with");
}

// spec: L-30
#[test]
fn disruptions_and_clean_exits_are_never_counted() {
    let mut failures = failures(Some(0), 0);
    for (n, class) in (1..).zip([
        LossClass::Evicted,
        LossClass::Preempted,
        LossClass::NodeLost,
    ]) {
        let reason = reason(class, Some(137));
        assert_eq!(failures.ended(&entry(n), &reason, None, now(0)), None);
    }
    let clean = reason(LossClass::Exited, Some(0));
    assert_eq!(failures.ended(&entry(9), &clean, None, now(0)), None);
    assert_eq!(failures.keep(), None, "and there is nothing to write");
}

// spec: L-30, L-38, O-30
#[test]
fn an_exceeded_limit_survives_a_restart_even_if_the_failures_have_left_the_window() {
    let mut spent = failures(Some(0), 2);
    let why = fail(&mut spent, 1, 0).unwrap();
    let kept = spent.keep().unwrap();
    let mut successor = Failures::resume(settings(Some(0), 2), &kept, now(60_000));
    assert_eq!(successor.spent(now(60_000).tick), Some(why));
    assert_eq!(successor.spent(now(60_001).tick), None, "said once");
    assert_eq!(successor.keep(), None, "and there is nothing new to write");
}

// spec: L-31, O-30
#[test]
fn a_rule_that_stops_the_application_stops_its_successor_too() {
    let mut stopped = failures(Some(9), 0);
    stopped.settings.rules = vec![Rule {
        exit_codes: [1].into(),
        classes: Default::default(),
        conditions: Default::default(),
        action: Verdict::Stop,
    }];
    let why = fail(&mut stopped, 1, 0).unwrap();
    let kept = stopped.keep().unwrap();
    let mut successor = Failures::resume(settings(Some(9), 0), &kept, now(1));
    assert_eq!(successor.spent(now(1).tick), Some(why));
}

// spec: L-38, L-33, O-30
#[test]
fn counts_survive_a_restart_and_an_end_that_is_reported_again_counts_once() {
    let mut before = failures(Some(2), 3_600);
    before.wanted(7);
    fail(&mut before, 1, 0);
    fail(&mut before, 2, 0);
    let kept = before.keep().unwrap();
    assert_eq!(before.keep(), None, "written when it changes");
    let mut after = Failures::resume(settings(Some(2), 3_600), &kept, now(1_000));
    assert_eq!(fail(&mut after, 2, 1_000), None, "its pod was still there");
    assert!(fail(&mut after, 3, 1_000).is_some());
    // An exceeded limit that was not acted upon is reported by the next driver.
    let kept = after.keep().unwrap();
    let mut third = Failures::resume(settings(Some(2), 3_600), &kept, now(2_000));
    assert!(third.spent(now(2_000).tick).is_some());
}

// spec: L-33, L-38, O-30
#[test]
fn an_end_that_was_recorded_but_not_counted_before_a_crash_is_counted_by_the_successor_once() {
    let end = |n, profile: &str, class, counted| RecordedEnd {
        executor: entry(n).id,
        profile: profile.into(),
        reason: class,
        exit_code: None,
        why: "why".into(),
        pod: None,
        node: None,
        at: jiff::Timestamp::UNIX_EPOCH,
        counted,
    };
    let ends = [
        end(1, "a", LossClass::OomKilled, true),
        end(2, "a", LossClass::OomKilled, false),
        end(3, "a", LossClass::OomKilled, false),
        end(4, "b", LossClass::OomKilled, false),
        end(5, "b", LossClass::NodeLost, false),
    ];
    let mut successor = failures(Some(2), 0).catch_up(&ends, now(0));
    assert_eq!(successor.spent(now(0).tick), None, "one of each profile");
    let kept = successor.keep().unwrap();
    assert_eq!(
        kept.counted,
        [2, 3, 4].map(|n| entry(n).id).into_iter().collect()
    );
    let mut third = Failures::resume(settings(Some(2), 0), &kept, now(1)).catch_up(&ends, now(1));
    assert_eq!((third.spent(now(1).tick), third.keep()), (None, None));
    assert!(fail(&mut third, 6, 1).is_some());
}

// spec: A-98, L-30
#[test]
fn early_ends_of_one_backoff_period_count_once() {
    let backoff = boatswain_agent::backoff::Backoff {
        initial: Duration::from_secs(1),
        max: Duration::from_secs(60),
    };
    let (mut failures, mut looping) = (failures(Some(100), 0), CrashLoop::default());
    let mut end = |failures: &mut Failures, n: u64| {
        let entry = entry(n);
        let reason = reason(LossClass::Exited, Some(1));
        let early = Some(EarlyEnd::ByItself);
        looping.ended(entry.id, early, &reason, &backoff, now(0).tick);
        looping.tick(4, &backoff, Duration::from_secs(60), now(0).tick);
        let period = looping.period_of(entry.id);
        failures.ended(&entry, &reason, period, now(0));
        failures.all.count(now(0).tick)
    };
    assert_eq!(end(&mut failures, 1), 1);
    assert_eq!(end(&mut failures, 2), 2, "with it the backoff begins");
    for n in 3..50 {
        assert_eq!(end(&mut failures, n), 2);
    }
    assert!(failures.keep().unwrap().counted.contains(entry(49).id));
}

// spec: A-23, L-30
#[test]
fn a_refused_template_counts_unless_a_rule_ignores_it() {
    let refusal = LossReason::of_a_refusal("spec.containers[0].image: Required value");
    let mut failures = failures(Some(0), 0);
    let Spent(why) = failures.refused(&"gpu".into(), &refusal, now(0)).unwrap();
    assert!(
        why.contains("profile gpu: TemplateRefused: spec.containers[0].image"),
        "{why}"
    );
    let rules = vec![Rule {
        exit_codes: Default::default(),
        classes: [LossClass::TemplateRefused].into(),
        conditions: Default::default(),
        action: Verdict::Ignore,
    }];
    let lenient = FailureBudget {
        rules,
        ..settings(Some(0), 0)
    };
    let mut failures = Failures::resume(lenient, &KeptFailures::default(), now(0));
    assert_eq!(failures.refused(&"gpu".into(), &refusal, now(0)), None);
}

// spec: L-31
#[test]
fn a_stop_rule_ends_the_application_at_once() {
    let rules = vec![Rule {
        exit_codes: [77].into(),
        classes: Default::default(),
        conditions: Default::default(),
        action: Verdict::Stop,
    }];
    let settings = FailureBudget {
        rules,
        ..settings(Some(100), 0)
    };
    let mut failures = Failures::resume(settings, &KeptFailures::default(), now(0));
    assert_eq!(fail(&mut failures, 1, 0), None);
    let seen = reason(LossClass::Exited, Some(77));
    let Spent(why) = failures.ended(&entry(2), &seen, None, now(0)).unwrap();
    assert!(
        why.starts_with("a rule of failures.rules says so: executor 2"),
        "{why}"
    );
    assert_eq!(
        failures.ended(&entry(3), &seen, None, now(0)),
        None,
        "said once"
    );
}

// spec: L-32
#[test]
fn nodes_are_avoided_by_affinity_or_if_so_configured_by_preference_only() {
    for if_possible in [false, true] {
        let mut failures = failures(Some(9), 0);
        failures.settings.node_if_possible = if_possible;
        failures.nodes = Nodes::resume(
            Some(1),
            Duration::ZERO,
            &BTreeMap::from([("node-1".to_owned(), vec![(0, 1)])]),
            now(0),
        );
        let mut scenario = Scenario::new(&[("default", 1)]);
        let profile = "default".into();
        scenario.requested(1, Outcome::Sent { profile });
        let pod = crate::model::Pod {
            node: Some("node-2".into()),
            ..crate::testing::running(scenario.pod(1))
        };
        scenario.observe(pod);
        failures.observe(scenario.entry(1).unwrap(), now(0).tick);
        let avoid = failures.avoid(now(0).tick);
        let (avoided, not_avoided) = match if_possible {
            false => (avoid.never, avoid.rather_not),
            true => (avoid.rather_not, avoid.never),
        };
        assert_eq!(avoided, ["node-1".into()]);
        assert!(not_avoided.is_empty());
    }
}

// spec: C-6, L-30
#[test]
fn a_new_limit_counts_the_failures_so_far() {
    let mut failures = failures(Some(5), 3_600);
    for n in 1..=3 {
        let spent = failures.ended(&entry(n), &reason(LossClass::Exited, Some(1)), None, now(n));
        assert_eq!(spent, None);
    }
    assert!(failures.keep().is_some() && failures.keep().is_none());
    failures.allow(None);
    assert!(
        failures.keep().is_some(),
        "the record needs the largest target"
    );
    assert_eq!(failures.spent(now(9).tick), None);
    failures.allow(Some(2));
    assert!(failures.spent(now(9).tick).is_some());
}
