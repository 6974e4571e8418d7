//! Spares become executors of the profile that they are spares of.

use super::*;
use crate::testing::{Scenario, id, running};

fn scenario() -> Scenario {
    let mut scenario = Scenario::new(&[("default", 1), ("default-spares", 1)]);
    for (n, profile) in [(1, "default"), (2, "default-spares")] {
        let profile = profile.into();
        scenario.requested(n, crate::news::Outcome::Sent { profile });
    }
    scenario
}

fn promote(scenario: &mut Scenario) {
    let all = vec![id(1), id(2), id(3)];
    scenario.tell(crate::news::News::Promote(all));
}

/// The pod as it is once it was labelled.
fn labelled(scenario: &Scenario, label: &str) -> Pod {
    let mut pod = running(scenario.pod(2));
    if let PodIdentity::Executor { profile, .. } = &mut pod.identity {
        *profile = Some(label.into());
    }
    pod
}

// spec: A-118
#[test]
fn a_promoted_spare_counts_for_the_profile_at_once_and_its_pods_label_is_owed() {
    let mut scenario = scenario();
    promote(&mut scenario);
    assert_eq!(
        scenario.profile_of(2).as_str(),
        "default-spares",
        "no pod yet"
    );
    scenario.created(2);
    scenario.runs(2);
    assert!(scenario.entry(2).unwrap().is_spare());
    assert_eq!(scenario.entry(2).unwrap().owed_label(), None);
    scenario.pass(60_000);
    promote(&mut scenario);
    let promoted = scenario.entry(2).unwrap();
    assert_eq!(
        (
            scenario.counts("default").running,
            scenario.counts("default-spares").live()
        ),
        (1, 0)
    );
    assert_eq!(promoted.owed_label(), Some(&"default".into()));
    assert!(promoted.is_spare(), "until its pod says otherwise");
    let since = promoted.bound().and_then(|bound| bound.running_since);
    assert_eq!(since, Some(scenario.now().tick), "its program begins now");
    // News of the pod as it was before the call.
    scenario.runs(2);
    assert_eq!(scenario.profile_of(2).as_str(), "default");
    let pod = labelled(&scenario, "default");
    scenario.observe(pod);
    let promoted = scenario.entry(2).unwrap();
    assert!(!promoted.is_spare() && promoted.owed_label().is_none());
    assert_eq!(promoted.profile.as_str(), "default");
}

// spec: A-118
#[test]
fn a_spare_that_an_earlier_driver_promoted_is_one_no_more_as_soon_as_its_pod_says_so() {
    let mut scenario = scenario();
    scenario.created(2);
    let pod = labelled(&scenario, "gpu");
    scenario.observe(pod);
    assert_eq!(
        scenario.profile_of(2).as_str(),
        "default-spares",
        "it is no spare of that"
    );
    let pod = labelled(&scenario, "default");
    scenario.observe(pod);
    assert_eq!(scenario.profile_of(2).as_str(), "default");
    // A restored API server has forgotten it.
    let pod = labelled(&scenario, "default-spares");
    scenario.observe(pod);
    assert_eq!(
        scenario.entry(2).unwrap().owed_label(),
        Some(&"default".into())
    );
}

// spec: A-118
#[test]
fn a_spare_that_leaves_or_has_ended_is_not_promoted() {
    for ends in [true, false] {
        let mut scenario = scenario();
        scenario.created(2);
        match ends {
            true => scenario.exits(2, 0),
            false => scenario.terminates(2),
        }
        promote(&mut scenario);
        assert_eq!(scenario.profile_of(2).as_str(), "default-spares");
    }
}
