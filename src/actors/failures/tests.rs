use super::*;
use crate::actors::pod_allocator::crash_loop::CrashLoop;
use crate::model::news::{News, Outcome};
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
        configured: ["default".into(), "other".into()].into(),
        alone: false,
        node_max: None,
        node_if_possible: false,
        growth: BTreeMap::new(),
    }
}

fn failures(max: Option<u32>, window: u64) -> Failures {
    with(settings(max, window))
}

fn with(settings: FailureBudget) -> Failures {
    resumed(settings, &KeptFailures::default(), 0)
}

/// Continues from these failures. The profiles `default`, `other` and `added` are wanted.
fn resumed(settings: FailureBudget, kept: &KeptFailures, millis: u64) -> Failures {
    let mut failures = Failures::resume(settings, kept, now(millis));
    failures.follow(ledger(&[("default", 1), ("other", 1), ("added", 1)]).current());
    failures
}

fn ledger(targets: &[(&str, u32)]) -> Scenario {
    Scenario::new(targets)
}

fn stop_on(code: i32) -> Vec<Rule> {
    vec![Rule {
        exit_codes: [code].into(),
        classes: Default::default(),
        conditions: Default::default(),
        action: Verdict::Stop,
    }]
}

fn why(spent: &[Spent]) -> &str {
    let [Spent::Application(why)] = spent else {
        panic!("{spent:?}");
    };
    why
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
    entry_of("default", n)
}

fn entry_of(profile: &str, n: u64) -> Arc<Entry> {
    let mut scenario = Scenario::new(&[(profile, 1)]);
    let profile = profile.into();
    scenario.requested(n, Outcome::Sent { profile });
    Arc::clone(scenario.entry(n).unwrap())
}

/// Executor `n` exits with 1 at this time. Returns what that has spent.
fn fail(failures: &mut Failures, n: u64, millis: u64) -> Vec<Spent> {
    fail_of("default", failures, n, millis)
}

fn fail_of(profile: &str, failures: &mut Failures, n: u64, millis: u64) -> Vec<Spent> {
    end(
        failures,
        profile,
        n,
        &reason(LossClass::Exited, Some(1)),
        millis,
    )
}

fn end(
    failures: &mut Failures,
    profile: &str,
    n: u64,
    why: &LossReason,
    millis: u64,
) -> Vec<Spent> {
    failures.ended(&entry_of(profile, n), why, None, now(millis));
    failures.spent(now(millis).tick)
}

// spec: L-30
#[test]
fn exactly_at_the_limit_the_application_continues_and_one_more_failure_ends_it_once() {
    let mut failures = failures(Some(3), 3_600);
    for n in 1..=3 {
        assert_eq!(fail(&mut failures, n, n), []);
    }
    let spent = fail(&mut failures, 4, 4);
    assert_eq!(
        why(&spent),
        "profile default: 4 failures within 1h, and failures.max allows 3; 4 of the last 4: Exited: ended with exit 1; the last: executor 4"
    );
    assert_eq!(fail(&mut failures, 5, 5), [], "said once");
    assert!(failures.are_too_many());
}

// spec: L-30
#[test]
fn a_failure_beyond_the_limit_ends_the_application_only_within_the_window() {
    let mut inside = failures(Some(2), 2);
    fail(&mut inside, 1, 0);
    fail(&mut inside, 2, 1_000);
    assert_eq!(fail(&mut inside, 3, 1_999).len(), 1);
    let mut outside = failures(Some(2), 2);
    fail(&mut outside, 1, 0);
    fail(&mut outside, 2, 1_000);
    assert_eq!(fail(&mut outside, 3, 2_000), []);
    assert_eq!(fail(&mut outside, 4, 2_999).len(), 1);
}

// spec: L-30
#[test]
fn the_default_limit_follows_the_profiles_own_largest_target() {
    let cases = [
        (&[0][..], 3),
        (&[1], 3),
        (&[2], 4),
        (&[10, 0], 20),
        (&[u32::MAX], u32::MAX),
    ];
    for (wanted, limit) in cases {
        let mut failures = failures(None, 0);
        for executors in wanted {
            failures.follow(ledger(&[("default", *executors), ("other", 90)]).current());
        }
        let budget = &failures.profiles[&ProfileName::from("default")];
        assert_eq!(budget.limit(None), limit, "{wanted:?}");
    }
    let mut none = failures(Some(0), 0);
    assert_eq!(fail(&mut none, 1, 0).len(), 1, "none is put up with");
}

// spec: L-30
#[test]
fn each_profile_has_a_budget_of_its_own() {
    let mut failures = failures(Some(1), 0);
    for (profile, n) in [("default", 1), ("other", 2), ("added", 3)] {
        assert_eq!(fail_of(profile, &mut failures, n, 0), [], "{profile}");
    }
    let spent = fail_of("other", &mut failures, 4, 0);
    assert!(why(&spent).starts_with("profile other: 2 failures"));
}

// spec: L-40
#[test]
fn a_profile_that_was_added_fails_alone_and_so_does_one_of_the_configuration_if_that_says_so() {
    let everyone = FailureBudget {
        alone: true,
        ..settings(Some(0), 0)
    };
    for (settings, profile) in [(settings(Some(0), 0), "added"), (everyone, "default")] {
        let mut failures = with(settings);
        let spent = fail_of(profile, &mut failures, 1, 0);
        let what = "1 failures, and failures.max allows 0; executor 1: Exited: ended with exit 1";
        assert_eq!(spent, [Spent::Profile(profile.into(), what.into())]);
        assert!(!failures.are_too_many());
        assert_eq!(fail_of(profile, &mut failures, 2, 0), [], "said once");
        let kept = failures.keep().unwrap();
        let failed: Vec<_> = kept.failed().collect();
        assert_eq!(failed, [(profile.into(), what.into())]);
        assert_eq!(kept.spent, None);
    }
}

// spec: L-40, C-6
#[test]
fn a_profile_that_the_configuration_gets_while_the_driver_runs_ends_the_application() {
    let mut failures = failures(Some(0), 0);
    failures.add_configured("added".into());
    let spent = fail_of("added", &mut failures, 1, 0);
    assert!(why(&spent).starts_with("profile added: "));
}

// spec: L-41
#[test]
fn a_profile_that_the_ledger_has_reset_begins_anew() {
    let mut failures = failures(Some(1), 0);
    let mut ledger = ledger(&[("default", 1), ("added", 1)]);
    fail_of("added", &mut failures, 1, 0);
    let spent = fail_of("added", &mut failures, 2, 0);
    let [Spent::Profile(profile, why)] = &spent[..] else {
        panic!("{spent:?}");
    };
    let (profile, why) = (profile.clone(), Arc::clone(why));
    ledger.tell(News::Failed { profile, why });
    assert_eq!(failures.follow(ledger.current()), []);
    assert_eq!(
        fail_of("added", &mut failures, 3, 0),
        [],
        "of it nothing counts"
    );
    ledger.tell(News::Reset("added".into()));
    assert_eq!(failures.follow(ledger.current()), ["added".into()]);
    assert_eq!(failures.follow(ledger.current()), [], "once");
    assert!(failures.keep().unwrap().failed().next().is_none());
    assert_eq!(fail_of("added", &mut failures, 4, 0), []);
    assert_eq!(fail_of("added", &mut failures, 5, 0).len(), 1);
}

// spec: L-40, O-30
#[test]
fn a_failed_profile_stays_failed_after_a_restart() {
    let mut before = failures(Some(0), 2);
    fail_of("added", &mut before, 1, 0);
    let kept = before.keep().unwrap();
    let failed: Vec<_> = kept.failed().collect();
    let ledger = ledger(&[("default", 1), ("added", 1)]).with_profiles_failed(failed);
    assert_eq!(ledger.current().target(&"added".into()), 0);
    let mut after = Failures::resume(settings(Some(0), 2), &kept, now(60_000));
    assert_eq!(after.follow(ledger.current()), []);
    assert_eq!(fail_of("added", &mut after, 2, 60_000), []);
    assert!(!after.are_too_many());
}

// spec: L-30, B-57, I-8
#[test]
fn a_profile_that_the_ledger_does_not_know_has_no_failures() {
    let mut failures = failures(Some(0), 0);
    assert_eq!(fail_of("unknown", &mut failures, 1, 0), []);
    fail_of("added", &mut failures, 2, 0);
    failures.follow(ledger(&[("default", 1)]).current());
    let kept = failures.keep().unwrap();
    let names: Vec<_> = kept.profiles.keys().map(ProfileName::as_str).collect();
    assert_eq!(names, ["default"]);
}

// spec: L-30
#[test]
fn disruptions_and_clean_exits_are_never_counted() {
    let mut failures = failures(Some(0), 0);
    failures.keep();
    for (n, class) in (1..).zip([
        LossClass::Evicted,
        LossClass::Preempted,
        LossClass::NodeLost,
    ]) {
        let reason = reason(class, Some(137));
        assert_eq!(end(&mut failures, "default", n, &reason, 0), []);
    }
    let clean = reason(LossClass::Exited, Some(0));
    assert_eq!(end(&mut failures, "default", 9, &clean, 0), []);
    assert_eq!(failures.keep(), None, "and there is nothing to write");
}

// spec: L-30, L-38, O-30
#[test]
fn an_exceeded_limit_survives_a_restart_even_if_the_failures_have_left_the_window() {
    let mut before = failures(Some(0), 2);
    let spent = fail(&mut before, 1, 0);
    let kept = before.keep().unwrap();
    let mut successor = Failures::resume(settings(Some(0), 2), &kept, now(60_000));
    assert_eq!(successor.spent(now(60_000).tick), spent);
    assert_eq!(successor.spent(now(60_001).tick), [], "said once");
    assert_eq!(successor.keep(), None, "and there is nothing new to write");
}

// spec: L-31, O-30
#[test]
fn a_rule_that_stops_the_application_stops_its_successor_too() {
    let mut stopped = failures(Some(9), 0);
    stopped.settings.rules = stop_on(1);
    let spent = fail(&mut stopped, 1, 0);
    let kept = stopped.keep().unwrap();
    let mut successor = resumed(settings(Some(9), 0), &kept, 1);
    assert_eq!(successor.spent(now(1).tick), spent);
}

// spec: L-38, L-33, O-30
#[test]
fn counts_survive_a_restart_and_an_end_that_is_reported_again_counts_once() {
    let mut before = failures(Some(2), 3_600);
    fail(&mut before, 1, 0);
    fail(&mut before, 2, 0);
    let kept = before.keep().unwrap();
    assert_eq!(before.keep(), None, "written when it changes");
    let mut after = resumed(settings(Some(2), 3_600), &kept, 1_000);
    assert_eq!(fail(&mut after, 2, 1_000), [], "its pod was still there");
    assert_eq!(fail(&mut after, 3, 1_000).len(), 1);
    // An exceeded limit that was not acted upon is reported by the next driver.
    let kept = after.keep().unwrap();
    let mut third = resumed(settings(Some(2), 3_600), &kept, 2_000);
    assert_eq!(third.spent(now(2_000).tick).len(), 1);
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
        memory_limit: None,
        at: jiff::Timestamp::UNIX_EPOCH,
        counted,
    };
    let ends = [
        end(1, "default", LossClass::OomKilled, true),
        end(2, "default", LossClass::OomKilled, false),
        end(3, "default", LossClass::OomKilled, false),
        end(4, "other", LossClass::OomKilled, false),
        end(5, "other", LossClass::NodeLost, false),
    ];
    let mut successor = failures(Some(1), 0).catch_up(&ends, now(0));
    assert_eq!(successor.spent(now(0).tick), [], "one of each profile");
    let kept = successor.keep().unwrap();
    assert_eq!(
        kept.counted,
        [2, 3, 4].map(|n| entry(n).id).into_iter().collect()
    );
    let mut third = resumed(settings(Some(1), 0), &kept, 1).catch_up(&ends, now(1));
    assert_eq!((third.spent(now(1).tick), third.keep()), (vec![], None));
    assert_eq!(fail(&mut third, 6, 1).len(), 1);
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
        let budget = failures.profiles.get_mut(&entry.profile).unwrap();
        budget.failures.count(now(0).tick)
    };
    assert_eq!(end(&mut failures, 1), 1);
    assert_eq!(end(&mut failures, 2), 2, "with it the backoff begins");
    for n in 3..50 {
        assert_eq!(end(&mut failures, n), 2);
    }
    assert!(failures.keep().unwrap().counted.contains(entry(49).id));
}

// spec: L-30, A-31
#[test]
fn the_reason_says_what_most_of_the_latest_failures_have_in_common() {
    let mut failures = failures(Some(3), 0);
    let mut lost = reason(LossClass::StartFailed, None);
    lost.message = "no image".to_owned();
    end(&mut failures, "default", 1, &lost, 0);
    for n in 2..=3 {
        fail(&mut failures, n, 0);
    }
    let spent = fail(&mut failures, 4, 0);
    let common = "4 failures, and failures.max allows 3; 3 of the last 4: Exited: ended with exit 1; \
                  the last: executor 4";
    assert_eq!(why(&spent), format!("profile default: {common}"));
}

// spec: A-23, L-30
#[test]
fn a_refused_template_counts_unless_a_rule_ignores_it() {
    let refusal = LossReason::of_a_refusal("spec.containers[0].image: Required value");
    let refused = |failures: &mut Failures| {
        failures.refused(&"default".into(), &refusal, now(0));
        failures.spent(now(0).tick)
    };
    let spent = refused(&mut failures(Some(0), 0));
    let last = "a request: TemplateRefused: spec.containers[0].image";
    assert!(why(&spent).contains(last), "{spent:?}");
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
    assert_eq!(refused(&mut with(lenient)), []);
}

// spec: L-31
#[test]
fn a_stop_rule_is_as_one_failure_too_many() {
    let settings = FailureBudget {
        rules: stop_on(77),
        ..settings(Some(100), 0)
    };
    let seen = reason(LossClass::Exited, Some(77));
    let begin = "a rule of failures.rules says so: executor 2";
    let mut failures = with(settings.clone());
    assert_eq!(fail(&mut failures, 1, 0), []);
    let spent = end(&mut failures, "default", 2, &seen, 0);
    let what = why(&spent);
    assert!(
        what.starts_with(&format!("profile default: {begin}")),
        "{what}"
    );
    let again = end(&mut failures, "default", 3, &seen, 0);
    assert_eq!(again, [], "said once");
    let spent = end(&mut with(settings), "added", 2, &seen, 0);
    let [Spent::Profile(_, what)] = &spent[..] else {
        panic!("{spent:?}");
    };
    assert!(what.starts_with(begin), "{what}");
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
        let avoid = failures.avoid(&Default::default(), now(0).tick);
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
        assert_eq!(fail(&mut failures, n, n), []);
    }
    assert!(failures.keep().is_some() && failures.keep().is_none());
    failures.allow(None);
    assert!(
        failures.keep().is_some(),
        "the record needs the largest target"
    );
    assert_eq!(failures.spent(now(9).tick), []);
    failures.allow(Some(2));
    assert_eq!(failures.spent(now(9).tick).len(), 1);
}
