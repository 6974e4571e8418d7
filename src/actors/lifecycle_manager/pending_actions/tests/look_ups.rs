//! When look-ups are made, and what they settle.

use super::*;

// spec: L-4
#[test]
fn an_executor_that_a_list_lacks_is_looked_up_and_reported_missing_if_not_found() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.scenario.list(Vec::new());
    assert_eq!(manager.round(), [Call::LookUp(1)]);
    assert!(manager.reported.is_empty());
    manager.looked_up(1, Found::NoAnswer);
    manager.answer(false);
    assert_eq!(manager.seconds(1), [(1, Call::LookUp(1))]);
    manager.looked_up(1, Found::Nothing);
    manager.answer(true);
    manager.rounds();
    assert_eq!(manager.reported, [(1, LossClass::Missing)]);
}

// spec: L-4
#[test]
fn an_executor_that_a_list_lacks_and_a_look_up_finds_is_kept() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.scenario.list(Vec::new());
    manager.round();
    let there = manager.scenario.pod(1);
    manager.looked_up(1, found(there));
    manager.answer(true);
    assert_eq!(manager.seconds(60), []);
    assert!(manager.reported.is_empty());
    assert_eq!(manager.pending_actions.outstanding(), 0);
}

// spec: A-14
#[test]
fn an_unknown_request_is_looked_up_after_creation_timeout_and_never_before_the_server_timeout() {
    let mut manager = Manager::new();
    manager.request(1);
    manager.scenario.requested(1, Outcome::Broke("?".into()));
    assert_eq!(manager.seconds(70), [(60, Call::LookUp(1))]);

    let mut manager = Manager::new();
    manager.request(1);
    manager.scenario.requested(1, Outcome::Broke("?".into()));
    manager.scenario.pass(57_000);
    manager.scenario.requested(1, Outcome::SentAgain);
    manager.scenario.requested(1, Outcome::Broke("?".into()));
    assert_eq!(manager.seconds(30), [(67, Call::LookUp(1))]);
}

// spec
#[test]
fn an_unknown_request_whose_repeat_was_refused_is_looked_up_after_the_server_timeout() {
    for outcome in [Outcome::NameTaken, Outcome::Refused("full".into())] {
        let mut manager = Manager::new();
        manager.request(1);
        manager.scenario.requested(1, Outcome::Broke("?".into()));
        manager.round();
        manager.scenario.pass(2_000);
        manager.scenario.requested(1, Outcome::SentAgain);
        manager.scenario.requested(1, outcome);
        assert_eq!(manager.seconds(30), [(12, Call::LookUp(1))]);
        manager.looked_up(1, Found::Nothing);
        manager.answer(true);
        manager.rounds();
        manager.rounds();
        assert!(manager.scenario.entry(1).is_none(), "not created");
        assert!(manager.reported.is_empty());
    }
}

// spec: A-14
#[test]
fn while_a_repeat_is_in_flight_nothing_is_looked_up() {
    let mut manager = Manager::new();
    manager.request(1);
    manager.scenario.requested(1, Outcome::Broke("?".into()));
    manager.scenario.requested(1, Outcome::SentAgain);
    assert_eq!(manager.seconds(100), []);
}

// spec: L-14
#[test]
fn an_unknown_request_that_is_leaving_is_looked_up_once_that_can_settle_it() {
    for leaves_after in [0, 30] {
        let mut manager = Manager::new();
        manager.request(1);
        manager.scenario.requested(1, Outcome::Broke("?".into()));
        manager.seconds(leaves_after);
        manager.retire(1, LeaveReason::ApplicationEnded);
        let at = leaves_after.max(10);
        let mut made: Vec<(u64, Call)> = (manager.rounds().into_iter())
            .map(|call| (leaves_after, call))
            .collect();
        made.extend(manager.seconds(30));
        assert_eq!(made, [(at, Call::LookUp(1))]);
        let there = manager.scenario.pod(1);
        manager.looked_up(1, found(there));
        manager.answer(true);
        assert_eq!(
            manager.rounds(),
            [Call::Delete("u1")],
            "there: deleted by uid"
        );
    }
}

// spec: L-20, E-10
#[test]
fn an_executor_whose_labels_are_no_longer_ours_is_looked_up_and_then_deleted_by_uid() {
    let mut manager = Manager::new();
    manager.start(1);
    let foreign = Pod {
        identity: PodIdentity::Foreign {
            label: "app-id".into(),
        },
        ..manager.scenario.pod(1)
    };
    manager.scenario.observe(foreign.clone());
    assert_eq!(manager.round(), [Call::LookUp(1)]);
    manager.looked_up(1, found(foreign));
    manager.answer(true);
    assert_eq!(manager.round(), [Call::Delete("u1")]);
    manager.scenario.goes(1);
    manager.answer(true);
    manager.rounds();
    assert_eq!(manager.reported, [(1, LossClass::Mislabelled)]);
}
