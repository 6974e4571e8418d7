//! Tests of ends: late news reverts none (spec E-9, S-14, L-1, A-12 to A-14).

use super::*;

fn gone(id: u64) -> Store {
    let mut store = Store::new().with(running(id, "u", 20));
    store.deleted(terminating(running(id, "u", 30)));
    assert_eq!(store.state(id), "Gone");
    store
}

// spec: S-14, L-1, E-9
#[test]
fn a_gone_entry_is_removed_after_every_subscriber_has_decided_on_its_reported_end() {
    let mut store = gone(1);
    assert!(store.deliver().snapshot.is_none(), "not reported yet");
    let report = store.reported(1).snapshot.unwrap();
    assert!(
        store.deliver_up_to(report.seq - 1).snapshot.is_none(),
        "somebody has not decided on the report yet"
    );
    let released = store.deliver_up_to(report.seq).snapshot.unwrap();
    assert_eq!(released.changes.executors, vec![id(1)]);
    assert_eq!(store.state(1), "ended");
}

// spec: L-1, E-9
#[test]
fn an_end_is_in_the_changes_of_the_one_snapshot_that_reports_it_with_its_reason() {
    let mut store = Store::new().with(running(1, "u", 20));
    let seen = store.seen(failed(1, "u", 25)).snapshot.unwrap();
    assert!(seen.changes.ends.is_empty(), "not reported yet");
    let report = store.reported(1);
    assert!(report.worth_a_batch);
    let changes = &report.snapshot.unwrap().changes;
    let ends = [Ending {
        entry: store.entry(1),
        reason: some_reason(),
    }];
    assert_eq!(
        (&*changes.ends, &*changes.executors),
        (&ends[..], &[id(1)][..])
    );
    assert_eq!(store.entry(1).end, Some(some_reason()));
    assert!(store.reported(1).snapshot.is_none());
    let later = [
        store.seen(terminating(failed(1, "u", 28))).snapshot,
        store.deleted(terminating(failed(1, "u", 30))).snapshot,
        store.deliver().snapshot,
    ];
    for snapshot in later {
        assert!(snapshot.unwrap().changes.ends.is_empty());
    }
}

// spec: L-34
#[test]
fn no_end_is_reported_of_an_executor_without_a_pod_nor_of_one_that_has_left() {
    let mut store = Store::new();
    store.request(1);
    assert!(store.reported(1).snapshot.is_none());
    store.outcome(1, Outcome::Refused("forbidden".into()));
    assert!(store.reported(1).snapshot.is_none());
    assert!(store.reported(2).snapshot.is_none());
}

// spec: S-14, A-12
#[test]
fn an_entry_that_was_never_bound_needs_no_report() {
    let mut store = Store::new();
    store.request(1);
    store.outcome(1, Outcome::Refused("forbidden".into()));
    assert_eq!(
        store.how_gone(1),
        GoneEvidence::NotCreated("forbidden".into())
    );
    assert!(!store.entry(1).has_unreported_end());
    assert_eq!(
        store.snapshot().counts(&profile()).live(),
        0,
        "its slot is free at once"
    );
    store.deliver();
    assert_eq!(store.state(1), "ended");
}

// spec: L-1
#[test]
fn an_end_is_reported_once_however_often_and_from_whichever_source_it_is_seen() {
    let mut store = Store::new().with(running(1, "u", 20));
    let ends: Vec<fn(&mut Store)> = vec![
        |store| _ = store.seen(failed(1, "u", 25)),
        |store| _ = store.list(26, vec![failed(1, "u", 25)]),
        |store| _ = store.seen(terminating(failed(1, "u", 28))),
        |store| _ = store.deleted(terminating(failed(1, "u", 30))),
        |store| _ = store.deleted(terminating(failed(1, "u", 30))),
        |store| _ = store.list(31, vec![]),
        |store| _ = store.look_up(1, Found::Nothing),
    ];
    let mut reports = 0;
    for end in ends {
        end(&mut store);
        if store.entry(1).has_unreported_end() {
            reports += 1;
            store.reported(1);
        }
        assert!(
            store.reported(1).snapshot.is_none(),
            "a second report changes nothing"
        );
    }
    assert_eq!(reports, 1);
}

// spec: L-1, E-9
#[test]
fn an_end_can_be_reported_while_the_pod_is_stuck_terminating_and_is_not_reported_again() {
    let mut store = Store::new().with(terminating(running(1, "u", 20)));
    assert!(!store.entry(1).has_unreported_end());
    store.reported(1);
    assert_eq!(store.state(1), "Terminating");
    store.deleted(terminating(running(1, "u", 30)));
    assert!(!store.entry(1).has_unreported_end());
    store.deliver();
    assert_eq!(store.state(1), "ended");
}

// spec: S-14
#[test]
fn nothing_late_brings_an_ended_executor_back() {
    let mut store = gone(1);
    store.reported(1);
    store.deliver();
    let late = |store: &mut Store| {
        store.created(1, pod(1, "u", 20));
        store.seen(running(1, "u", 25));
        store.deleted(terminating(running(1, "u", 30)));
        store.looked_up(1, Tick::default(), found(running(1, "u", 25)));
        store.retire(1);
        store.reported(1);
        assert_eq!((store.state(1), store.orphans()), ("ended", vec![]));
    };
    late(&mut store);
    let under_way = store.begin_list();
    store.list_arrives(under_way, 35, ListKind::PollCached, vec![]);
    assert_eq!(
        store.ledger.tombstone_count(),
        0,
        "a full list was asked for after that"
    );
}

// spec: S-14
#[test]
fn a_tombstone_outlives_lists_that_were_requested_before_it() {
    let mut store = gone(1);
    let under_way = store.begin_list();
    store.reported(1);
    store.deliver();
    let items = vec![read(running(1, "u", 25))];
    store.list_arrives(under_way, 30, ListKind::PollCached, items);
    assert_eq!(
        (store.orphans(), store.ledger.tombstone_count()),
        (vec![], 1)
    );
}

// spec: E-9, I-8
#[test]
fn memory_depends_on_living_executors_not_on_history() {
    let mut store = Store::new();
    for n in 1..=500 {
        let (uid, version) = (format!("u{n}"), 20 + 10 * n);
        store.request(n);
        store.created(n, pod(n, &uid, version));
        store.deleted(terminating(pod(n, &uid, version + 1)));
        store.reported(n);
        store.deliver();
        if n % 50 == 0 {
            store.list(version + 2, vec![]);
        }
    }
    let snapshot = store.snapshot();
    assert_eq!(
        (snapshot.ended.interval_count(), snapshot.ended.len()),
        (1, 500)
    );
    assert!(snapshot.entries.is_empty() && store.ledger.tombstone_count() == 0);
}

// spec
#[test]
fn a_pod_whose_deletion_is_its_first_news_was_bound_and_has_ended() {
    for answer_comes in ["before release", "after release", "after the next list"] {
        let mut store = Store::new();
        store.request(1);
        store.deleted(terminating(running(1, "u", 30)));
        assert_eq!(store.how_gone(1), GoneEvidence::Deleted);
        assert!(store.entry(1).has_unreported_end());
        if answer_comes == "before release" {
            store.created(1, pod(1, "u", 20));
        }
        store.reported(1);
        store.deliver();
        if answer_comes == "after the next list" {
            store.list(40, vec![]);
        }
        store.created(1, pod(1, "u", 20));
        assert_eq!(store.state(1), "ended");
        let expected = usize::from(answer_comes == "after the next list");
        assert_eq!(
            store.orphans().len(),
            expected,
            "laid by its delete: {answer_comes}"
        );
    }
}

// spec: A-13
#[test]
fn a_refused_repeat_proves_nothing() {
    let mut store = Store::new();
    store.request(1);
    store.broke(1);
    store.outcome(1, Outcome::SentAgain);
    store.outcome(1, Outcome::Refused("quota".into()));
    assert_eq!(store.state(1), "Unknown");
    store.outcome(1, Outcome::SentAgain);
    store.outcome(1, Outcome::NameTaken);
    assert_eq!(
        store.state(1),
        "Unknown",
        "its own name, perhaps: looked up"
    );
    store.seen(pod(1, "u", 20));
    assert_eq!(store.state(1), "Pending");
}

// spec
#[test]
fn a_look_up_that_finds_another_pod_under_the_name_settles_like_a_404() {
    let mut store = Store::new();
    store.request(1);
    store.broke(1);
    store.second += 60;
    store.look_up(1, found(of_predecessor(running(1, "other", 20))));
    assert_eq!(
        store.how_gone(1),
        GoneEvidence::NotCreated("timeout".into())
    );
    assert_eq!(store.orphans(), vec!["other".to_owned()]);

    store.request(2);
    store.broke(2);
    store.look_up(2, found(of_predecessor(running(2, "other2", 21))));
    assert_eq!(store.state(2), "Unknown", "too early to tell");
}

// spec: A-43, L-14
#[test]
fn a_mark_survives_every_later_state() {
    let mut store = Store::new();
    store.request(1);
    store.retire(1);
    assert_eq!(store.snapshot().counts(&profile()).live(), 0);
    store.broke(1);
    store.seen(pod(1, "u", 20));
    store.seen(running(1, "u", 21));
    store.list(30, vec![]);
    assert_eq!(store.state(1), "Leaving");
    assert!(store.retire(1).snapshot.is_none(), "marked once");
    store.seen(terminating(running(1, "u", 31)));
    assert_eq!(store.state(1), "Terminating");
    assert!(store.entry(1).leaving.is_some());
}
