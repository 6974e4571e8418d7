use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::super::rules::Rule;
use super::super::{FailureBudget, Spent};
use super::*;
use crate::model::failures::KeptFailures;
use crate::model::news::{News, Outcome};
use crate::model::pod::FailedSidecar;
use crate::model::reasoning::reason_of;
use crate::model::recorded_end::RecordedEnd;
use crate::model::{Ending, LossClass, Now, Pod, Tick};
use crate::testing::{Scenario, ended, exited, running};

const MIB: u64 = 1 << 20;

fn settings(rules: Vec<Rule>) -> FailureBudget {
    let growth = Growth {
        from: 100 * MIB,
        max: 300 * MIB,
        thousandths: 1_500,
        in_place: false,
    };
    FailureBudget {
        max: Some(0),
        window: Duration::from_secs(3_600),
        rules,
        configured: ["default".into(), "other".into()].into(),
        alone: false,
        node_max: None,
        node_if_possible: false,
        growth: BTreeMap::from([("default".into(), growth)]),
    }
}

fn now() -> Now {
    Now::new(Tick::default(), jiff::Timestamp::UNIX_EPOCH)
}

fn failures(rules: Vec<Rule>) -> (Failures, Scenario) {
    let scenario = Scenario::new(&[("default", 3), ("other", 3)]);
    let mut failures = Failures::resume(settings(rules), &KeptFailures::default(), now());
    failures.follow(scenario.current());
    (failures, scenario)
}

/// Executor `n`, with this memory limit in MiB, was killed because its memory was exhausted.
fn killed(scenario: &mut Scenario, profile: &str, n: u64, limit: Option<u32>) -> Arc<Entry> {
    let profile = profile.into();
    scenario.requested(n, Outcome::Sent { profile });
    scenario.created(n);
    let mut end = ended(137);
    end.reason = Some("OOMKilled".into());
    let pod = Pod {
        memory_limit: limit.and_then(NonZeroU32::new),
        ..exited(running(scenario.pod(n)), 137)
    };
    let executor = crate::model::pod::ContainerState::Terminated(end);
    scenario.observe(Pod { executor, ..pod });
    Arc::clone(scenario.entry(n).unwrap())
}

/// What was spent by this end, and to how many MiB it has made the memory of a profile grow.
fn ends(failures: &mut Failures, entry: &Entry) -> (Vec<Spent>, Vec<u64>) {
    let before = failures.memory_limits();
    failures.ended(entry, &reason_of(entry), None, now());
    let mut grown = failures.memory_limits();
    grown.retain(|profile, limit| before.get(profile) != Some(limit));
    let grown = grown.into_values().map(|limit| limit / MIB);
    (failures.spent(now().tick), grown.collect())
}

// spec: L-43
#[test]
fn memory_grows_by_what_the_killed_had_and_a_killed_one_that_had_all_is_a_failure() {
    let (mut failures, mut scenario) = failures(Vec::new());
    for (n, had, grown) in [
        (1, 100, &[150][..]),
        (2, 100, &[]),
        (3, 150, &[225]),
        (4, 100, &[]),
        (5, 225, &[300]),
    ] {
        let entry = killed(&mut scenario, "default", n, Some(had));
        assert_eq!(ends(&mut failures, &entry), (vec![], grown.to_vec()), "{n}");
    }
    let limits = failures.memory_limits().into_values();
    assert_eq!(limits.collect::<Vec<_>>(), [300 * MIB]);
    let entry = killed(&mut scenario, "default", 6, Some(300));
    assert_eq!(ends(&mut failures, &entry).0.len(), 1);
}

// spec: L-43, L-30
#[test]
fn no_other_end_makes_memory_grow() {
    let is_failure = |profile: &str, limit, change: fn(Pod) -> Pod, rules: Vec<Rule>| {
        let (mut failures, mut scenario) = failures(rules);
        killed(&mut scenario, profile, 1, limit);
        let pod = change(scenario.pod(1));
        scenario.observe(pod);
        let entry = Arc::clone(scenario.entry(1).unwrap());
        let (spent, grown) = ends(&mut failures, &entry);
        assert!(grown.is_empty());
        spent.len() == 1
    };
    let same = |pod| pod;
    assert!(is_failure("other", Some(100), same, Vec::new()));
    assert!(
        is_failure("default", None, same, Vec::new()),
        "has no limit"
    );
    let exits = |pod| exited(pod, 1);
    assert!(is_failure("default", Some(100), exits, Vec::new()));
    let stop = Rule {
        exit_codes: Default::default(),
        classes: [LossClass::OomKilled].into(),
        conditions: Default::default(),
        action: Verdict::Stop,
    };
    assert!(is_failure("default", Some(100), same, vec![stop]));
    let beside = |pod: Pod| {
        let mut end = ended(137);
        end.reason = Some("OOMKilled".into());
        let name = "sidecar".into();
        let failed = FailedSidecar { name, end };
        Pod {
            failed_sidecar: Some(Arc::new(failed)),
            ..running(pod)
        }
    };
    assert!(is_failure("default", Some(100), beside, Vec::new()));
}

// spec: L-43, L-41
#[test]
fn what_the_ledger_says_of_memory_is_in_the_record_until_it_is_reset() {
    let (mut failures, mut scenario) = failures(Vec::new());
    let entry = killed(&mut scenario, "default", 1, Some(100));
    ends(&mut failures, &entry);
    let limit = 150 * MIB;
    let profile = "default".into();
    scenario.tell(News::Grown { profile, limit });
    failures.follow(scenario.current());
    let kept = failures.keep().unwrap();
    assert!(kept.counted.contains(entry.id), "no successor counts it");
    assert_eq!(
        kept.memory_limits()
            .map(|(_, limit)| limit)
            .collect::<Vec<_>>(),
        [limit]
    );
    let mut successor = Failures::resume(settings(Vec::new()), &kept, now());
    successor.follow(scenario.current());
    assert_eq!(successor.memory_limits().len(), 1);
    scenario.tell(News::Reset("default".into()));
    successor.follow(scenario.current());
    assert!(successor.memory_limits().is_empty());
    assert_eq!(successor.keep().unwrap().memory_limits().count(), 0);
}

// spec: L-43, A-98
#[test]
fn an_end_that_was_recorded_and_not_counted_is_a_failure_only_without_room_to_grow() {
    // The record has a grown limit before it says that the end was dealt with.
    let mut kept = KeptFailures::default();
    let budget = kept.profiles.entry("default".into()).or_default();
    budget.memory_limit = Some(300 * MIB);
    for (had, counted) in [(225, 0), (300, 1)] {
        let (_, mut scenario) = failures(Vec::new());
        let entry = killed(&mut scenario, "default", 1, Some(had));
        let end = RecordedEnd::new(&Ending::of(&entry), now().wall);
        let failures = Failures::resume(settings(Vec::new()), &kept, now());
        let mut failures = failures.catch_up(&[end], now());
        let counts = failures.counted(now().tick).map(|(_, count, _)| count);
        assert_eq!(counts.sum::<u32>(), counted, "with {had} MiB");
    }
}
