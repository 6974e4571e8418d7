//! Tests of API servers that were restored or emptied (spec S-13).

use super::*;

/// Two running executors; everything up to version 100 is known.
fn two() -> Store {
    let mut store = Store::new()
        .with(running(1, "u1", 50))
        .with(running(2, "u2", 60));
    let epoch = store.epoch();
    store.tell(News::Bookmark {
        version: 100.into(),
        epoch,
    });
    store
}

// spec: S-13
#[test]
fn a_quorum_list_below_the_seen_version_begins_an_epoch_and_is_applied() {
    let mut store = two();
    let outcome = store.quorum_list(40, vec![pod(1, "u1", 30)]);
    assert!(outcome.begins_epoch() && outcome.is_full() && outcome.epoch == Epoch(1));
    assert_eq!(store.state(1), "Pending", "as the backup has it");
    assert_eq!(store.state(2), "Absent");
    store.seen(running(1, "u1", 45));
    assert_eq!(
        store.state(1),
        "Running",
        "versions held before count as nothing"
    );
    store.look_up(2, Found::Nothing);
    assert_eq!(store.how_gone(2), GoneEvidence::Missing);
    assert!(store.list(46, vec![running(1, "u1", 45)]).is_full());
}

// spec: S-13, S-11
#[test]
fn a_quorum_list_at_the_seen_version_is_full_and_of_the_same_epoch() {
    let mut store = two();
    let outcome = store.quorum_list(100, vec![]);
    assert!(outcome.is_full() && !outcome.begins_epoch());
    assert_eq!(store.epoch(), Epoch(0));
}

// spec: S-13
#[test]
fn a_cached_list_below_the_seen_version_is_only_stale() {
    let mut store = two();
    let outcome = store.list(40, vec![pod(1, "u1", 30)]);
    assert!(!outcome.begins_epoch() && !outcome.is_full() && outcome.epoch == Epoch(0));
    assert_eq!((store.state(1), store.state(2)), ("Running", "Running"));
}

// spec: S-13
#[test]
fn an_emptied_server_ends_every_executor_that_it_lacks() {
    let mut store = two();
    store.request(3);
    store.quorum_list(1, vec![]);
    assert_eq!((store.state(1), store.state(2)), ("Absent", "Absent"));
    assert_eq!(store.state(3), "Sent", "its answer is yet to come");
    for number in [1, 2] {
        store.look_up(number, Found::Nothing);
        store.reported(number);
    }
    store.deliver();
    assert_eq!((store.state(1), store.state(2)), ("ended", "ended"));
}

// spec: S-13
#[test]
fn late_news_of_the_old_epoch_is_dropped() {
    let mut store = two();
    store.quorum_list(40, vec![running(1, "u1", 30), running(2, "u2", 31)]);
    let old = Epoch(0);
    store.tell(News::Seen {
        pod: read(failed(1, "u1", 110)),
        epoch: old,
    });
    store.tell(News::Deleted {
        pod: read(terminating(running(2, "u2", 111))),
        epoch: old,
    });
    store.tell(News::LookedUp {
        id: id(1),
        sent: Tick::after_start(Duration::from_secs(9_999)),
        epoch: old,
        found: Found::Nothing,
    });
    store.tell(News::Bookmark {
        version: 112.into(),
        epoch: old,
    });
    assert_eq!((store.state(1), store.state(2)), ("Running", "Running"));
    assert!(
        store
            .list(41, vec![running(1, "u1", 30), running(2, "u2", 31)])
            .is_full()
    );
}

// spec: S-13
#[test]
fn of_two_quorum_lists_in_flight_over_a_restore_only_the_first_begins_an_epoch() {
    let mut store = two();
    let (first, second) = (store.begin_list(), store.begin_list());
    let (outcome, _) = store.list_arrives(
        first,
        40,
        ListKind::PollNewest,
        vec![read(running(1, "u1", 30))],
    );
    assert!(outcome.begins_epoch());
    let (outcome, applied) = store.list_arrives(second, 41, ListKind::PollNewest, vec![]);
    assert!(!outcome.is_taken_in() && !outcome.is_full() && outcome.epoch == Epoch(1));
    assert!(applied.snapshot.is_none());
    assert_eq!(store.state(1), "Running");
}

// spec: S-13, E-8
#[test]
fn an_answer_to_a_request_of_the_old_epoch_binds_and_the_new_history_prevails() {
    let mut store = two();
    store.request(3);
    let under_way = store.begin_list();
    store.quorum_list(40, vec![]);
    store.created(3, pod(3, "u3", 101));
    assert_eq!(store.state(3), "Pending");
    store.list_arrives(under_way, 42, ListKind::PollCached, vec![]);
    assert_eq!(store.state(3), "Pending", "a list of the old epoch");
    store.seen(running(3, "u3", 43));
    assert_eq!(store.state(3), "Running", "101 was of another history");
    store.list(50, vec![]);
    assert_eq!(store.state(3), "Absent");
}

// spec: S-26, S-10
#[test]
fn an_unnoticed_restore_is_detected_by_an_older_item_in_a_newer_list() {
    let mut store = two();
    store.list(200, vec![pod(1, "u1", 30), running(2, "u2", 60)]);
    assert_eq!(store.state(1), "Pending", "one history cannot show this");
    let mut store = two();
    let ticket = store.begin_list();
    store.seen(running(1, "u1", 250));
    store.list_arrives(
        ticket,
        200,
        ListKind::PollCached,
        vec![read(pod(1, "u1", 190)), read(running(2, "u2", 60))],
    );
    assert_eq!(
        store.state(1),
        "Running",
        "this it can: the pod changed after the list"
    );
}

// spec: S-26, S-10
#[test]
fn an_unnoticed_restore_is_detected_by_another_state_at_the_same_version() {
    let mut store = two();
    store.seen(terminating(running(1, "u1", 101)));
    store.seen(running(1, "u1", 101));
    assert_eq!(store.state(1), "Terminating", "an event proves nothing");
    store.list(200, vec![running(1, "u1", 101), running(2, "u2", 60)]);
    assert_eq!(store.state(1), "Running");
}

// spec: S-13, E-3
#[test]
fn a_removed_executors_pod_that_a_restored_server_brings_back_is_an_orphan_pod() {
    let mut store = two();
    store.deleted(terminating(running(1, "u1", 101)));
    store.reported(1);
    store.deliver();
    store.quorum_list(40, vec![running(1, "u1", 30), running(2, "u2", 31)]);
    assert_eq!(
        (store.state(1), store.orphans()),
        ("ended", vec!["u1".to_owned()])
    );
}

// spec: S-13, E-3
#[test]
fn orphans_are_judged_anew_in_a_new_epoch() {
    let mut store = two();
    store.seen(terminating(pod(7, "g", 110)));
    store.seen(pod(8, "h", 111));
    store.quorum_list(
        40,
        vec![pod(7, "g", 30), running(1, "u1", 31), running(2, "u2", 32)],
    );
    let snapshot = store.snapshot();
    assert_eq!(store.orphans(), vec!["g".to_owned()]);
    assert!(
        !snapshot.orphans[&PodUid::from("g")].terminating,
        "it is to be deleted again"
    );
}

// spec: S-13
#[test]
fn nothing_is_requested_before_the_record_is_seen_in_the_new_epoch() {
    let mut store = two();
    assert!(store.snapshot().record.is_some());
    store.tell(News::RecordLost);
    assert!(store.snapshot().record.is_none());
    let seen = |epoch| News::RecordSeen {
        uid: "record".into(),
        epoch,
    };
    store.tell(seen(Epoch(0)));
    assert!(store.snapshot().record.is_some());
    store.quorum_list(40, vec![]);
    assert!(store.snapshot().record.is_none());
    store.tell(seen(Epoch(0)));
    assert!(store.snapshot().record.is_none(), "seen in the old epoch");
    let applied = store.tell(seen(Epoch(1)));
    assert!(
        applied
            .snapshot
            .is_some_and(|snapshot| snapshot.record.is_some())
    );
    assert!(store.tell(seen(Epoch(1))).snapshot.is_none(), "no news");
}
