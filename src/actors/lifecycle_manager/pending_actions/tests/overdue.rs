//! Pods that are Terminating for too long.

use super::*;
use crate::model::pod::Deletion;

impl Manager {
    /// The pod of `n` is deleted with this grace period in seconds.
    fn deleted(&mut self, n: u64, grace: u64, change: impl FnOnce(Pod) -> Pod) {
        let pod = Pod {
            deletion: Some(Deletion {
                deadline: None,
                grace: Some(Duration::from_secs(grace)),
            }),
            ..self.scenario.pod(n)
        };
        self.scenario.observe(change(pod));
    }
}

fn disrupted(reason: &str) -> impl FnOnce(Pod) -> Pod {
    let disruption = Some(Disruption {
        reason: reason.into(),
        message: None,
    });
    move |pod| Pod { disruption, ..pod }
}

// spec: L-3
#[test]
fn an_overdue_executor_is_reported_a_minute_beyond_its_grace_and_stays_until_it_is_gone() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.deleted(1, 30, |pod| pod);
    manager.rounds();
    manager.seconds(89);
    assert_eq!(manager.reported, []);
    manager.seconds(1);
    assert_eq!(manager.reported, [(1, LossClass::Stuck)]);
    manager.seconds(600);
    assert!(
        manager
            .scenario
            .entry(1)
            .is_some_and(|entry| entry.is_reported())
    );
    manager.scenario.goes(1);
    manager.rounds();
    assert_eq!(manager.scenario.entry(1), None);
    assert_eq!(
        (manager.reported.len(), &*manager.corrected),
        (1, &[][..]),
        "reported once"
    );
}

// spec: L-3
#[test]
fn an_overdue_executor_on_a_lost_node_is_reported_as_node_lost() {
    let lost = |pod| Pod {
        reason: Some("NodeLost".into()),
        ..pod
    };
    let mut manager = Manager::new();
    (1..=4).for_each(|n| manager.start(n));
    manager.deleted(1, 1, lost);
    manager.deleted(2, 1, disrupted("DeletionByTaintManager"));
    manager.deleted(3, 1, disrupted("DeletionByPodGC"));
    manager.deleted(4, 1, disrupted("EvictionByEvictionAPI"));
    manager.rounds();
    manager.seconds(61);
    let lost = LossClass::NodeLost;
    assert_eq!(
        manager.reported,
        [(1, lost), (2, lost), (3, lost), (4, LossClass::Stuck)]
    );
    for n in 1..=4 {
        manager.scenario.goes(n);
    }
    manager.rounds();
    assert_eq!(manager.corrected, [(4, LossClass::Disrupted)]);
}

// spec: L-3, L-13
#[test]
fn an_overdue_leaving_executor_is_reported_with_the_reason_of_its_mark() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.retire(1, LeaveReason::ScaledDown);
    manager.deleted(1, 30, |pod| pod);
    manager.rounds();
    manager.seconds(90);
    assert_eq!(manager.reported, [(1, LossClass::ScaledDown)]);
}

// spec: L-3
#[test]
fn a_shorter_grace_counts_from_the_same_beginning_and_an_end_in_time_has_its_own_reason() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.start(2);
    manager.deleted(1, 600, |pod| pod);
    manager.deleted(2, 30, |pod| pod);
    manager.rounds();
    manager.seconds(10);
    manager.deleted(1, 0, |pod| pod);
    manager.rounds();
    manager.scenario.goes(2);
    manager.seconds(49);
    assert_eq!(manager.reported, [(2, LossClass::Deleted)]);
    manager.seconds(1);
    assert_eq!(manager.reported.last(), Some(&(1, LossClass::Stuck)));
}

// spec: L-3, L-37
#[test]
fn an_end_after_the_overdue_report_is_not_reported_again() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.deleted(1, 0, |pod| pod);
    manager.rounds();
    manager.seconds(60);
    assert_eq!(manager.reported, [(1, LossClass::Stuck)]);
    manager.scenario.exits(1, 3);
    manager.rounds();
    assert_eq!(manager.reported.len(), 1);
}

// spec: L-3, O-11
#[test]
fn when_nobody_waits_any_more_what_was_deleted_and_is_there_still_has_its_end() {
    let mut manager = Manager::new();
    (1..=4).for_each(|n| manager.start(n));
    manager.deleted(1, 30, |pod| pod);
    manager.deleted(2, 30, |pod| pod);
    manager.deleted(3, 30, |pod| pod);
    manager.scenario.goes(2);
    manager.scenario.report(3);
    let ledger = manager.scenario.current();
    let ends = unawaited_ends(ledger, |pod| pod.deletion.is_some());
    let told: Vec<u64> = ends.iter().map(|end| end.entry.id.get()).collect();
    assert_eq!(told, [1], "2 is gone, 3 has its end, and nobody deleted 4");
    let why = &ends[0].reason.message;
    assert!(
        why.ends_with("; deleted, its end was not waited for"),
        "{why}"
    );
}
