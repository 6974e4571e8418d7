//! Tests of adoption (spec O-31).

use super::*;
use crate::ledger::PLAUSIBLE_ID;

/// Ids up to 20 are reserved, 1 to 3 have ended, 4 to 6 were bound.
fn successor() -> Store {
    Store::before_adoption(Inheritance {
        reserved: Some(id(20)),
        ended: ids(1..=3),
        bound: ids(4..=6),
        ..Inheritance::default()
    })
}

fn inherited(id: u64, uid: &str, version: u64) -> Pod {
    of_predecessor(running(id, uid, version))
}

// spec: O-31, L-34
#[test]
fn found_executors_are_bound_missing_ones_are_lost_and_other_reserved_ids_have_ended() {
    let mut store = successor();
    let outcome = store.quorum_list(50, vec![inherited(4, "u4", 20), inherited(8, "u8", 30)]);
    assert!(outcome.is_full() && store.snapshot().adopted);
    assert_eq!((store.state(4), store.state(8)), ("Running", "Running"));
    assert!(store.entry(4).adopted && store.entry(4).incarnation == Incarnation(1));
    for lost in [5, 6] {
        assert_eq!(store.how_gone(lost), GoneEvidence::LostBeforeStart);
        assert!(store.entry(lost).has_unreported_end());
        store.reported(lost);
        assert!(!store.entry(lost).has_unreported_end());
    }
    store.deliver();
    let snapshot = store.snapshot();
    for number in (1..=20).filter(|n| ![4, 8].contains(n)) {
        assert_eq!(store.state(number), "ended", "{number}");
    }
    assert_eq!(snapshot.first_free, Some(id(21)));
    assert_eq!(snapshot.counts(&profile()).live(), 2);
    assert_eq!(snapshot.ended.interval_count(), 3);
}

// spec: S-15, O-31, I-9
#[test]
fn a_pod_that_is_unreadable_at_the_start_is_adopted_as_odd_and_not_lost() {
    let of_spot = |mut pod: Pod| {
        if let PodIdentity::Executor { profile, .. } = &mut pod.identity {
            *profile = Some("spot".into());
        }
        pod
    };
    let labels_too = Unreadable {
        identity: None,
        version: None,
        ..unreadable(&inherited(5, "u5", 20))
    };
    let unrecognised = Unreadable {
        identity: Some(relabelled(inherited(6, "u6", 20)).identity),
        ..unreadable(&inherited(6, "u6", 20))
    };
    let mut store = successor();
    let ticket = store.begin_list();
    let odd = [
        unreadable(&of_spot(inherited(4, "u4", 20))),
        labels_too,
        unrecognised,
    ];
    store.list_arrives(
        ticket,
        50,
        ListKind::PollNewest,
        odd.map(Sighting::Unreadable).into(),
    );
    assert_eq!((store.state(4), store.state(5)), ("Odd", "Odd"));
    assert_eq!(store.entry(4).profile, "spot".into());
    assert_eq!(store.how_gone(6), GoneEvidence::LostBeforeStart);

    // Its labels become readable and contain its profile.
    store.list(
        60,
        vec![
            of_spot(inherited(4, "u4", 20)),
            of_spot(inherited(5, "u5", 30)),
        ],
    );
    assert_eq!((store.state(4), store.state(5)), ("Running", "Running"));
    assert_eq!(store.snapshot().counts(&"spot".into()).running, 2);
    assert_eq!(store.snapshot().counts(&profile()).live(), 0);
    assert!(store.snapshot().orphans.is_empty());
}

// spec: O-31
#[test]
fn ids_begin_at_one_in_an_empty_cluster() {
    let store = Store::new();
    assert_eq!(store.snapshot().first_free, Some(ExecutorId::FIRST));
    assert!(store.snapshot().ended.is_empty());
}

// spec: O-31
#[test]
fn ids_begin_beyond_every_seen_id_even_if_it_is_not_in_the_record() {
    let mut store = Store::before_adoption(Inheritance::default());
    store.quorum_list(50, vec![inherited(31, "u31", 20)]);
    assert_eq!(store.snapshot().first_free, Some(id(32)));
    assert_eq!((store.state(30), store.state(32)), ("ended", "–"));
}

// spec: O-31, I-8
#[test]
fn an_absurd_id_uses_up_no_other_ids_even_after_it_has_ended() {
    let max = ExecutorId::MAX.get();
    let mut store = successor();
    store.quorum_list(50, vec![inherited(max, "max", 20), inherited(8, "u8", 30)]);
    assert_eq!(store.snapshot().first_free, Some(id(21)));
    assert_eq!(store.state(max), "Running", "it is counted all the same");

    let mut ended = ids(1..=3);
    ended.insert(ExecutorId::MAX);
    let mut next = Store::before_adoption(Inheritance {
        ended,
        ..Inheritance::default()
    });
    next.quorum_list(50, vec![]);
    assert_eq!(next.snapshot().first_free, Some(id(4)));
    assert_eq!(next.state(4), "–");
}

// spec: O-31
#[test]
fn the_highest_plausible_id_is_followed_by_the_next_and_the_first_absurd_id_is_not() {
    let first_free = |found: u64| {
        let mut store = successor();
        store.quorum_list(50, vec![inherited(found, "u", 20)]);
        store.snapshot().first_free
    };
    assert_eq!(first_free(PLAUSIBLE_ID - 1), Some(id(PLAUSIBLE_ID)));
    assert_eq!(first_free(PLAUSIBLE_ID), Some(id(21)));
}

// spec: O-31, E-3
#[test]
fn a_pod_of_an_id_that_had_ended_and_a_second_pod_of_one_id_are_orphans() {
    let mut store = successor();
    store.quorum_list(
        50,
        vec![
            inherited(2, "u2", 20),
            inherited(4, "u4", 21),
            inherited(4, "copy", 22),
        ],
    );
    assert_eq!((store.state(2), store.state(4)), ("ended", "Running"));
    assert_eq!(store.entry(4).uid(), Some(&"u4".into()));
    assert_eq!(store.orphans(), vec!["copy".to_owned(), "u2".to_owned()]);
}

// spec: O-31, A-2
#[test]
fn only_a_quorum_list_adopts_and_only_once() {
    let mut store = successor();
    assert!(store.list(50, vec![inherited(4, "u4", 20)]).is_full());
    assert!(!store.snapshot().adopted && store.snapshot().entries.is_empty());
    store.quorum_list(60, vec![inherited(4, "u4", 20)]);
    assert_eq!(store.state(4), "Running");
    store.quorum_list(70, vec![inherited(4, "u4", 20), inherited(30, "u30", 65)]);
    assert_eq!(
        (store.state(30), store.orphans()),
        ("–", vec!["u30".to_owned()])
    );
}

// spec: O-31
#[test]
fn finished_and_terminating_executors_are_adopted_so_that_their_ends_are_reported() {
    let mut store = successor();
    let dying = terminating(inherited(5, "u5", 21));
    store.quorum_list(
        50,
        vec![
            of_predecessor(failed(4, "u4", 20)),
            dying,
            inherited(6, "u6", 22),
        ],
    );
    assert_eq!(
        (store.state(4), store.state(5)),
        ("Finished", "Terminating")
    );
    assert!(store.entry(4).has_unreported_end());
    assert_eq!(store.entry(6).profile, profile());
}

// spec: L-33, O-31
#[test]
fn an_end_that_was_reported_before_is_not_reported_again() {
    let mut store = Store::before_adoption(Inheritance {
        bound: ids(4..=8),
        reported: ids(5..=8),
        ..Inheritance::default()
    });
    store.quorum_list(
        50,
        vec![
            of_predecessor(failed(4, "u4", 20)),
            of_predecessor(failed(5, "u5", 21)),
            terminating(inherited(6, "u6", 22)),
            inherited(7, "u7", 23),
        ],
    );
    assert!(store.entry(4).has_unreported_end());
    // Its pod is still there, to be deleted or kept.
    assert!(store.entry(5).has_ended() && store.entry(5).is_reported());
    assert!(store.entry(6).is_reported());
    // It ended for its application, so its pod must go.
    assert_eq!(
        (store.state(7), store.orphans()),
        ("ended", vec!["u7".to_owned()])
    );
    assert_eq!(store.state(8), "ended");
}

// spec: O-31, I-11
#[test]
fn a_damaged_record_does_not_prevent_a_start() {
    let mut bound = IdSet::new();
    bound.insert_interval(ExecutorId::FIRST, ExecutorId::MAX);
    let mut store = Store::before_adoption(Inheritance {
        bound,
        ..Inheritance::default()
    });
    let ticket = store.begin_list();
    let (_, applied) = store.list_arrives(
        ticket,
        50,
        ListKind::PollNewest,
        vec![read(inherited(3, "u3", 20))],
    );
    let lost = applied.notes.iter().find_map(|note| match note {
        Note::Adopted { lost, .. } => Some(*lost),
        _ => None,
    });
    assert_eq!(lost, Some(99_999));
    assert_eq!(store.state(3), "Running");
}

// spec: O-31, A-1
#[test]
fn a_pod_that_terminates_when_it_is_found_is_remembered_as_such() {
    let mut store = successor();
    let leaving = terminating(inherited(4, "u4", 20));
    store.quorum_list(50, vec![leaving, inherited(8, "u8", 30)]);
    assert!(store.entry(4).found_terminating);
    assert!(!store.entry(8).found_terminating);
    assert_eq!(store.snapshot().counts(&profile()).live(), 1);
}

// spec: O-31, S-13
#[test]
fn a_pod_that_a_restored_server_shows_before_its_deletion_does_not_terminate_any_more() {
    let mut store = successor();
    store.quorum_list(50, vec![terminating(inherited(4, "u4", 20))]);
    let outcome = store.quorum_list(40, vec![inherited(4, "u4", 15)]);
    assert!(outcome.begins_epoch());
    assert!(!store.entry(4).found_terminating);
}
