//! Which ends are reported, and with which reason.

use super::*;

// spec: L-1
#[test]
fn an_end_is_reported_once_however_often_and_in_whatever_order_it_is_seen() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.round();
    manager.scenario.exits(1, 3);
    manager.rounds();
    for _ in 0..3 {
        let again = manager.scenario.pod(1);
        manager.scenario.observe(again);
        manager.rounds();
    }
    manager.scenario.terminates(1);
    manager.rounds();
    manager.scenario.goes(1);
    let late = manager.scenario.pod(1);
    manager.rounds();
    manager.scenario.observe(late);
    manager.rounds();
    assert_eq!(manager.reported, [(1, LossClass::Exited)]);
    assert!(manager.scenario.entry(1).is_none() && manager.scenario.current().orphans.is_empty());
}

// spec: L-1
#[test]
fn a_pod_that_was_deleted_before_its_end_was_seen_is_reported() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.scenario.goes(1);
    manager.rounds();
    assert_eq!(manager.reported, [(1, LossClass::Deleted)]);
    assert!(manager.scenario.entry(1).is_none());
}

// spec: L-34
#[test]
fn an_executor_that_was_never_created_is_removed_without_a_report() {
    let mut manager = Manager::new();
    manager.request(1);
    manager.scenario.requested(1, Outcome::Refused("no".into()));
    assert_eq!(manager.rounds(), []);
    manager.rounds();
    assert!(manager.reported.is_empty() && manager.scenario.entry(1).is_none());
}

// spec: L-34
#[test]
fn an_executor_of_the_record_that_adoption_does_not_find_is_reported_lost() {
    let mut inheritance = Inheritance {
        reserved: Some(id(50)),
        ..Inheritance::default()
    };
    inheritance.bound.insert(id(4));
    let mut scenario = Scenario::before_adoption(&[("default", 1)], inheritance);
    scenario.list(Vec::new());
    let mut manager = Manager::with(settings(), scenario);
    manager.rounds();
    assert_eq!(manager.reported, [(4, LossClass::Lost)]);
}

// spec: L-5
#[test]
fn an_end_that_a_later_snapshot_of_the_batch_no_longer_shows_is_reported_as_first_seen() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.start(2);
    manager.scenario.exits(1, 9);
    manager.scenario.goes(1);
    manager.scenario.exits(2, 0);
    let relabelled = Pod {
        identity: PodIdentity::Foreign {
            label: "app-id".into(),
        },
        ..manager.scenario.pod(2)
    };
    manager.scenario.observe(relabelled);
    manager.rounds();
    assert_eq!(
        manager.reported,
        [(1, LossClass::Exited), (2, LossClass::Exited)]
    );
}

// spec: L-37
#[test]
fn a_better_reason_after_the_report_is_logged_once() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.scenario.exits(1, 137);
    manager.rounds();
    for _ in 0..3 {
        let evicted = Pod {
            disruption: Some(Disruption {
                reason: "EvictionByEvictionAPI".into(),
                message: None,
            }),
            ..manager.scenario.pod(1)
        };
        manager.scenario.observe(evicted);
        manager.rounds();
    }
    manager.scenario.goes(1);
    manager.rounds();
    assert_eq!(manager.reported, [(1, LossClass::Exited)]);
    assert_eq!(manager.corrected, [(1, LossClass::Disrupted)]);
}

// spec: L-37
#[test]
fn our_own_delete_of_an_ended_pod_is_no_better_reason() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.scenario.exits(1, 1);
    manager.rounds();
    manager.scenario.terminates(1);
    manager.rounds();
    manager.scenario.goes(1);
    manager.rounds();
    assert!(manager.corrected.is_empty(), "{:?}", manager.corrected);
}

// spec: L-37
#[test]
fn the_best_reason_in_a_batch_is_reported() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.scenario.exits(1, 137);
    let preempted = Pod {
        disruption: Some(Disruption {
            reason: "PreemptionByScheduler".into(),
            message: None,
        }),
        ..manager.scenario.pod(1)
    };
    manager.scenario.observe(preempted);
    manager.rounds();
    assert_eq!(manager.reported, [(1, LossClass::Preempted)]);
    assert!(manager.corrected.is_empty());
}

// spec: L-1, L-2
#[test]
fn an_end_that_is_not_yet_reported_is_reported_once_and_its_pod_is_left() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.reports_wait = true;
    manager.scenario.exits(1, 3);
    assert_eq!(manager.rounds(), []);
    assert_eq!(manager.reported, [(1, LossClass::Exited)]);
    manager.scenario.goes(1);
    assert_eq!(manager.rounds(), []);
    assert_eq!(manager.reported, [(1, LossClass::Exited)]);
    assert!(manager.scenario.entry(1).is_some(), "until it is reported");
    assert!(manager.corrected.is_empty());
}

// spec: L-37
#[test]
fn how_a_deleted_executor_then_exited_is_no_better_reason() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.scenario.terminates(1);
    let terminating = manager.scenario.entry(1).unwrap().pod().unwrap();
    let deletion = terminating.deletion;
    manager.scenario.exits(1, 143);
    let ended = Pod {
        deletion,
        ..manager.scenario.pod(1)
    };
    manager.scenario.observe(ended);
    manager.rounds();
    let first = manager.reported.clone();
    // The exit, as it looks without the deletion.
    manager.scenario.exits(1, 143);
    manager.rounds();
    manager.scenario.goes(1);
    manager.rounds();
    assert_eq!(manager.reported, first);
    assert!(manager.corrected.is_empty(), "{:?}", manager.corrected);
}
