//! Deletes and labels: in order, limited, until nothing is left.

use super::*;

// spec: L-2, L-11, L-35
#[test]
fn a_finished_pod_is_reported_and_then_deleted_by_uid_until_its_deletion_has_begun() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.scenario.exits(1, 1);
    assert_eq!(manager.round(), [], "reported first");
    assert_eq!(manager.reported.len(), 1);
    assert_eq!(manager.round(), [Call::Delete("u1")]);
    let (_, pod_call) = manager.calls.last().unwrap();
    assert!(matches!(pod_call, PodCall::Delete { name, .. } if &**name == "a-exec-1"));
    let again = manager.scenario.pod(1);
    manager.scenario.observe(again);
    assert_eq!(manager.seconds(60), [], "one call at a time");
    manager.answer(true);
    manager.scenario.terminates(1);
    assert_eq!(manager.seconds(60), []);
    assert_eq!(manager.pending_actions.outstanding(), 0);
}

// spec: L-35
#[test]
fn a_failed_delete_is_repeated_with_backoff_and_without_limit() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.retire(1, LeaveReason::ScaledDown);
    let mut at = Vec::new();
    for second in 0..600 {
        at.extend(manager.rounds().iter().map(|_| second));
        if !manager.calls.is_empty() {
            manager.answer(false);
        }
        manager.scenario.pass(1_000);
    }
    let gaps: Vec<i32> = at.windows(2).map(|two| two[1] - two[0]).collect();
    let doubling = [1..=1, 2..=2, 3..=4, 6..=8, 12..=16, 23..=30, 23..=30];
    for (gap, expected) in gaps.iter().zip(doubling) {
        assert!(expected.contains(gap), "{gaps:?}");
    }
    assert!(
        gaps.len() > 20 && gaps.iter().all(|gap| *gap <= 30),
        "{gaps:?}"
    );
}

// spec: L-11
#[test]
fn the_manager_wakes_only_for_the_next_attempt() {
    let mut manager = Manager::new();
    manager.start(1);
    assert_eq!(manager.pending_actions.next_try(), None);
    manager.retire(1, LeaveReason::ScaledDown);
    assert_eq!(manager.rounds(), [Call::Delete("u1")]);
    assert_eq!(
        manager.pending_actions.next_try(),
        None,
        "an answer has to come first"
    );
    manager.answer(false);
    let wait = manager
        .pending_actions
        .next_try()
        .unwrap()
        .since(manager.scenario.now().tick);
    assert!((750..=1_000).contains(&wait.as_millis()), "{wait:?}");
}

// spec: L-35
#[test]
fn an_accepted_delete_without_effect_is_repeated() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.retire(1, LeaveReason::ScaledDown);
    let mut calls = 0;
    for _ in 0..120 {
        calls += manager.rounds().len();
        if !manager.calls.is_empty() {
            manager.answer(true);
        }
        manager.scenario.pass(1_000);
    }
    assert!((5..=10).contains(&calls), "less and less often: {calls}");
}

// spec: L-35
#[test]
fn a_delete_that_finds_nothing_ends_the_executor() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.retire(1, LeaveReason::ScaledDown);
    assert_eq!(manager.rounds(), [Call::Delete("u1")]);
    manager.scenario.tell(News::DeleteFoundNothing {
        uid: "u1".into(),
        name: "a-exec-1".into(),
    });
    manager.answer(true);
    assert_eq!(manager.seconds(5), []);
    assert_eq!(manager.reported, [(1, LossClass::ScaledDown)]);
    assert_eq!(manager.pending_actions.outstanding(), 0);
}

// spec: L-10, L-11
#[test]
fn a_mark_is_carried_out_once_there_is_a_pod() {
    let mut manager = Manager::new();
    manager.request(1);
    manager.retire(1, LeaveReason::ApplicationEnded);
    assert_eq!(
        manager.seconds(100),
        [],
        "the answer to its request is awaited"
    );
    manager.scenario.created(1);
    assert_eq!(manager.round(), [Call::Delete("u1")]);
}

// spec: E-16
#[test]
fn an_orphan_pod_is_deleted_by_uid_until_it_is_gone() {
    let mut manager = Manager::new();
    manager.start(1);
    let orphan = Pod {
        uid: "copy".into(),
        ..manager.scenario.pod(1)
    };
    manager.scenario.observe(orphan.clone());
    assert_eq!(manager.round(), [Call::Delete("copy")]);
    manager.answer(false);
    assert_eq!(manager.seconds(2), [(1, Call::Delete("copy"))]);
    manager.answer(true);
    manager.scenario.observe(terminating(orphan));
    assert_eq!(manager.seconds(60), []);
    assert_eq!(manager.pending_actions.outstanding(), 0);
    assert!(manager.reported.is_empty(), "it was no executor");
}

// spec: E-3, O-31
#[test]
fn nothing_is_deleted_before_adoption() {
    let mut scenario = Scenario::before_adoption(&[("default", 1)], Inheritance::default());
    let seen_early = running(scenario.pod(1));
    scenario.observe(seen_early);
    let mut manager = Manager::with(settings(), scenario);
    assert_eq!(manager.rounds(), []);
}

// spec: L-6
#[test]
fn a_round_without_changes_does_nothing_and_one_change_concerns_one_executor() {
    let mut manager = Manager::new();
    for n in 1..=1_000 {
        manager.start(n);
    }
    manager.rounds();
    assert_eq!(
        (manager.rounds(), manager.pending_actions.outstanding()),
        (vec![], 0)
    );
    manager.scenario.exits(500, 1);
    assert_eq!(manager.rounds(), [Call::Delete("u500")]);
    assert_eq!(manager.pending_actions.outstanding(), 1);
}

// spec: L-11
#[test]
fn ten_thousand_deletes_are_sent_in_order_within_the_limit() {
    let mut manager = Manager::new();
    for n in 1..=10_000 {
        manager.start(n);
    }
    manager.rounds();
    for n in 1..=10_000 {
        manager.retire(n, LeaveReason::ApplicationEnded);
    }
    let mut order = Vec::new();
    while order.len() < 10_000 {
        for call in manager.rounds() {
            let Call::Delete(uid) = call else {
                panic!("{call:?}")
            };
            order.push(uid[1..].parse::<u64>().unwrap());
        }
        assert_eq!(
            manager.calls.len(),
            32.min(10_000 - (order.len() - manager.calls.len()))
        );
        // News of a waiting executor must not put it behind all others.
        if order.len() < 9_000 {
            manager.scenario.runs(9_000);
            let noisy = Pod {
                message: Some(order.len().to_string().as_str().into()),
                ..manager.scenario.pod(9_000)
            };
            manager.scenario.observe(noisy);
        }
        manager.scenario.pass(1);
        while let Some((Subject::Executor(id), _)) = manager.calls.first().cloned() {
            manager.scenario.terminates(id.get());
            manager.answer(true);
        }
    }
    assert!(
        order.is_sorted(),
        "{:?}",
        order.windows(2).find(|w| w[0] > w[1])
    );
    manager.rounds();
    assert_eq!(manager.pending_actions.outstanding(), 0);
}

// spec: L-11
#[test]
fn an_answer_to_an_earlier_call_is_not_taken_for_that_of_a_new_equal_one() {
    let settings = PodRules {
        max_in_flight: 2,
        ..settings()
    };
    let mut manager = Manager::with(settings, Scenario::new(&[("default", 9)]));
    for n in 1..=3 {
        manager.start(n);
    }
    manager.scenario.list(Vec::new());
    assert_eq!(manager.round(), [Call::LookUp(1), Call::LookUp(2)]);
    // Seen and missed again while the look-up is in flight.
    for _ in 0..5 {
        let there = manager.scenario.pod(1);
        manager.scenario.observe(there);
        manager.scenario.pass(100);
        assert_eq!(manager.round(), []);
        manager.scenario.list(vec![]);
        manager.scenario.pass(100);
        assert_eq!(manager.round(), [], "one call for one pod at a time");
    }
    manager.answer(true);
    assert_eq!(
        manager.round(),
        [Call::LookUp(3)],
        "it has waited for longer"
    );
    manager.answer(true);
    assert_eq!(
        manager.round(),
        [Call::LookUp(1)],
        "asked since it was missed last, without any backoff"
    );
    manager.answer(true);
    manager.answer(true);
    for n in 1..=3 {
        manager.looked_up(n, Found::Nothing);
    }
    manager.rounds();
    assert_eq!(
        (
            manager.reported.len(),
            manager.pending_actions.outstanding()
        ),
        (3, 0)
    );
    for n in 4..=6 {
        manager.start(n);
        manager.retire(n, LeaveReason::ScaledDown);
    }
    assert_eq!(
        manager.rounds().len(),
        2,
        "nothing of the window has leaked"
    );
}

// spec: L-11
#[test]
fn a_different_pending_call_follows_the_one_in_flight_without_backoff() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.scenario.list(Vec::new());
    assert_eq!(manager.round(), [Call::LookUp(1)]);
    let there = manager.scenario.pod(1);
    manager.scenario.observe(there);
    manager.retire(1, LeaveReason::ScaledDown);
    assert_eq!(manager.round(), []);
    manager.answer(false);
    assert_eq!(manager.round(), [Call::Delete("u1")]);
    manager.answer(false);
    assert_eq!(manager.round(), [], "its own failure is backed off");
}

// spec: O-11
#[test]
fn nothing_is_left_when_every_end_is_reported_and_every_pod_gone() {
    let mut manager = Manager::new();
    assert!(nothing_left(manager.scenario.current()));
    manager.start(1);
    assert!(!nothing_left(manager.scenario.current()));
    manager.scenario.terminates(1);
    assert!(!nothing_left(manager.scenario.current()));
    manager.scenario.goes(1);
    assert!(!nothing_left(manager.scenario.current()));
    manager.rounds();
    assert!(nothing_left(manager.scenario.current()));
    manager.request(2);
    assert!(!nothing_left(manager.scenario.current()));
    manager.scenario.requested(2, Outcome::Refused("no".into()));
    assert!(nothing_left(manager.scenario.current()));
    let orphan = Pod {
        uid: "copy".into(),
        identity: PodIdentity::Executor {
            id: id(1),
            profile: None,
            incarnation: Some(Incarnation(0)),
        },
        ..running(manager.scenario.pod(9))
    };
    let orphan = Pod {
        name: "a-exec-1".into(),
        ..orphan
    };
    manager.scenario.observe(orphan);
    assert!(!nothing_left(manager.scenario.current()));
    assert_eq!(at(0), manager.scenario.now().tick);
}
