//! Tests of what a list proves (spec S-3, S-10 to S-12, S-15).

use super::*;

// spec: S-3
#[test]
fn a_snapshot_carries_the_last_full_list() {
    let mut store = Store::new();
    let ticket = store.begin_list();
    let asked = ticket.tick;
    store.seen(running(9, "s", 50));
    store.list_arrives(ticket, 60, ListKind::PollCached, vec![]);
    let full = store.snapshot().full_list.unwrap();
    assert_eq!((full.version, full.asked), (60.into(), asked));
    assert!(!store.list(40, vec![]).is_full());
    assert_eq!(
        store.snapshot().full_list.unwrap().version,
        60.into(),
        "a stale one does not count"
    );
}

// spec: S-3
#[test]
fn of_two_lists_in_flight_the_older_one_does_not_replace_the_newer() {
    let mut store = Store::new();
    let (first, second) = (store.begin_list(), store.begin_list());
    store.list_arrives(second, 60, ListKind::PollCached, vec![]);
    store.list_arrives(first, 30, ListKind::PollCached, vec![]);
    assert_eq!(store.snapshot().full_list.unwrap().version, 60.into());
}

// spec: S-10
#[test]
fn news_not_newer_than_the_held_version_changes_nothing_from_any_source() {
    let mut store = Store::new().with(running(1, "u1", 30));
    let before = store.snapshot().seq;
    assert!(
        store.seen(running(1, "u1", 30)).snapshot.is_none(),
        "the same event twice"
    );
    assert!(
        store.seen(pod(1, "u1", 9)).snapshot.is_none(),
        "as text, 9 is more than 30"
    );
    store.list(30, vec![running(1, "u1", 30)]);
    store.list(20, vec![pod(1, "u1", 20)]);
    assert_eq!((store.state(1), store.snapshot().seq), ("Running", before));
    store.seen(failed(1, "u1", 100));
    assert_eq!(store.state(1), "Finished");
}

// spec: S-11
#[test]
fn a_list_older_than_the_version_seen_at_its_request_only_adds_newer_items() {
    let mut store = Store::new().with(pod(1, "u1", 20)).with(pod(2, "u2", 30));
    store.request(3);
    let listed = vec![running(1, "u1", 25), pod(3, "u3", 26), running(4, "u4", 24)];
    let outcome = store.list(29, listed);
    assert!(outcome.is_taken_in() && !outcome.is_full());
    assert_eq!(store.state(1), "Running", "newer than what was held");
    assert_eq!(store.state(2), "Pending", "lacking, but not absent");
    assert_eq!(store.state(3), "Pending", "waited for, and seen");
    assert_eq!(store.orphans(), Vec::<String>::new(), "no orphan");
}

// spec: S-11
#[test]
fn bookmarks_and_answers_raise_the_seen_version() {
    let mut store = Store::new();
    let epoch = store.epoch();
    store.tell(News::Bookmark {
        version: 50.into(),
        epoch,
    });
    assert!(!store.list(49, vec![]).is_full());
    assert!(store.list(50, vec![]).is_full(), "as high is high enough");
    let mut store = store.with(pod(1, "u1", 70));
    assert!(!store.list(69, vec![pod(1, "u1", 70)]).is_full());
}

// spec: S-11
#[test]
fn news_during_a_list_does_not_make_it_stale() {
    let mut store = Store::new();
    let ticket = store.begin_list();
    store.seen(running(9, "s", 100));
    let (outcome, _) = store.list_arrives(ticket, 90, ListKind::PollCached, vec![]);
    assert!(outcome.is_full());
}

// spec: S-12
#[test]
fn a_pod_that_a_full_list_lacks_is_absent_and_stays_live_until_it_is_looked_up() {
    let mut store = Store::new().with(running(1, "u1", 20));
    assert!(store.list(30, vec![]).is_full());
    assert_eq!(store.state(1), "Absent");
    assert_eq!(store.snapshot().counts(&profile()).live(), 1);
    store.look_up(1, Found::NoAnswer);
    assert_eq!(store.state(1), "Absent", "asked again");
    let mut found_again = Store::new().with(running(1, "u1", 20));
    found_again.list(30, vec![]);
    found_again.look_up(1, found(running(1, "u1", 20)));
    assert_eq!(found_again.state(1), "Running");
    store.look_up(1, Found::Nothing);
    assert_eq!(store.how_gone(1), GoneEvidence::Missing);
}

// spec: S-12
#[test]
fn a_list_requested_before_a_pod_was_bound_does_not_judge_it() {
    let mut store = Store::new();
    store.request(1);
    let ticket = store.begin_list();
    store.created(1, pod(1, "u1", 20));
    let (outcome, _) = store.list_arrives(ticket, 30, ListKind::PollCached, vec![]);
    assert!(outcome.is_full());
    assert_eq!(store.state(1), "Pending");
    store.list(31, vec![]);
    assert_eq!(store.state(1), "Absent", "the next one does");
}

// spec: S-12
#[test]
fn a_list_does_not_judge_newer_pods() {
    let mut store = Store::new().with(pod(1, "u1", 20));
    let ticket = store.begin_list();
    store.seen(running(1, "u1", 40));
    let (outcome, _) = store.list_arrives(ticket, 30, ListKind::PollCached, vec![]);
    assert!(outcome.is_full());
    assert_eq!(store.state(1), "Running");
}

// spec: S-12
#[test]
fn requests_in_flight_or_unknown_are_not_judged() {
    let mut store = Store::new();
    store.request(1);
    store.request(2);
    store.broke(2);
    store.list(30, vec![]);
    assert_eq!((store.state(1), store.state(2)), ("Sent", "Unknown"));
}

// spec: S-12
#[test]
fn a_terminating_or_reported_executor_is_gone_without_a_look_up() {
    let mut store = Store::new()
        .with(terminating(running(1, "u1", 20)))
        .with(failed(2, "u2", 21))
        .with(running(3, "u3", 22));
    store.reported(3);
    store.list(30, vec![]);
    assert_eq!(
        (store.state(1), store.state(2), store.state(3)),
        ("Gone", "Gone", "Gone")
    );
}

// spec: S-12, S-10
#[test]
fn an_older_list_does_not_restore_a_pod_that_a_newer_one_lacks() {
    let mut store = Store::new().with(running(1, "u1", 20));
    let older = store.begin_list();
    store.list(40, vec![]);
    let items = vec![read(running(1, "u1", 20))];
    let (outcome, _) = store.list_arrives(older, 30, ListKind::PollCached, items);
    assert!(
        outcome.is_full(),
        "it is as new as what was seen when it was asked for"
    );
    assert_eq!(store.state(1), "Absent");
    store.list(50, vec![running(1, "u1", 20)]);
    assert_eq!(store.state(1), "Running", "a newer one does");
}

// spec: S-12, E-3
#[test]
fn a_listed_pod_with_the_same_name_and_another_uid_is_not_the_executors_pod() {
    let mut store = Store::new().with(running(1, "u1", 20));
    store.list(30, vec![running(1, "copy", 25)]);
    assert_eq!(
        (store.state(1), store.orphans()),
        ("Absent", vec!["copy".to_owned()])
    );
    store.look_up(1, found(running(1, "copy", 25)));
    assert_eq!(store.how_gone(1), GoneEvidence::Missing);
    assert_eq!(store.orphans(), vec!["copy".to_owned()]);
}

// spec: S-15
#[test]
fn an_unreadable_item_is_present_and_odd_and_affects_no_other() {
    let mut store = Store::new()
        .with(running(1, "u1", 20))
        .with(pod(2, "u2", 21));
    let ticket = store.begin_list();
    let items = vec![
        Sighting::Unreadable(unreadable(&running(1, "u1", 25))),
        read(running(2, "u2", 26)),
    ];
    let (outcome, applied) = store.list_arrives(ticket, 30, ListKind::PollCached, items);
    assert!(outcome.is_full());
    assert_eq!((store.state(1), store.state(2)), ("Odd", "Running"));
    let said =
        |note: &Note| matches!(note, Note::Unreadable(part) if part.uid == Some("u1".into()));
    assert!(applied.notes.iter().any(said));
    store.list(31, vec![running(1, "u1", 25), running(2, "u2", 26)]);
    assert_eq!(
        store.state(1),
        "Running",
        "readable again, though unchanged"
    );
}

// spec: S-15
#[test]
fn an_unreadable_item_needs_no_more_than_its_name_to_be_present() {
    let mut store = Store::new().with(running(1, "u1", 20));
    let part = Unreadable {
        uid: None,
        version: None,
        ..unreadable(&running(1, "u1", 20))
    };
    let ticket = store.begin_list();
    store.list_arrives(
        ticket,
        30,
        ListKind::PollCached,
        vec![Sighting::Unreadable(part)],
    );
    assert_eq!(store.state(1), "Odd");
    assert_eq!(store.entry(1).uid(), Some(&"u1".into()));
}

// spec: S-15
#[test]
fn unreadable_news_of_other_pods_changes_no_entry() {
    let mut store = Store::new().with(running(1, "u1", 20));
    let nameless = Unreadable {
        name: None,
        ..unreadable(&running(1, "u1", 40))
    };
    let epoch = store.epoch();
    for part in [
        nameless,
        unreadable(&running(1, "copy", 41)),
        unreadable(&running(7, "x", 42)),
    ] {
        let pod = Sighting::Unreadable(part);
        store.tell(News::Seen { pod, epoch });
    }
    assert_eq!(store.state(1), "Running");
    assert_eq!(store.state(7), "–");
}

// spec: S-15
#[test]
fn a_deletion_that_cannot_be_read_is_looked_up() {
    let mut store = Store::new().with(running(1, "u1", 20));
    let epoch = store.epoch();
    let deleted = |version| News::Deleted {
        pod: Sighting::Unreadable(unreadable(&running(1, "u1", version))),
        epoch,
    };
    store.tell(deleted(15));
    assert_eq!(store.state(1), "Running", "older than what is held");
    store.tell(deleted(30));
    assert_eq!(store.state(1), "Absent");
}

// spec: S-15, A-14
#[test]
fn an_unreadable_answer_to_a_look_up_shows_that_the_pod_exists() {
    let mut store = Store::new().with(running(1, "u1", 20));
    store.list(30, vec![]);
    let there = |pod: &Pod| Found::Pod(Sighting::Unreadable(unreadable(pod)));
    store.look_up(1, there(&running(1, "u1", 25)));
    assert_eq!(store.state(1), "Odd");
    store.list(40, vec![]);
    store.look_up(1, there(&running(1, "another", 35)));
    assert_eq!(
        store.how_gone(1),
        GoneEvidence::Missing,
        "the name is another pod's by now"
    );

    store.request(2);
    store.broke(2);
    store.second += 60;
    store.look_up(2, there(&running(2, "u2", 45)));
    assert_eq!(store.state(2), "Unknown", "nobody can tell whose it is");
}

// spec: S-15
#[test]
fn an_answer_that_cannot_be_read_binds_by_its_uid_or_leaves_the_outcome_unknown() {
    let mut store = Store::new();
    store.request(1);
    let answer = unreadable(&pod(1, "u1", 20));
    store.outcome(1, Outcome::Created(Sighting::Unreadable(answer.clone())));
    assert_eq!(store.state(1), "Odd");
    store.seen(pod(1, "u1", 20));
    assert_eq!(store.state(1), "Pending");

    store.request(2);
    let answer = Unreadable {
        uid: None,
        ..answer
    };
    store.outcome(2, Outcome::Created(Sighting::Unreadable(answer)));
    assert_eq!(store.state(2), "Unknown");
}
