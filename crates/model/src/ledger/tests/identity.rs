//! Tests of which executor a pod belongs to (spec E-1 to E-9).

use super::*;

// spec: E-15
#[test]
fn the_answer_to_the_request_binds_the_uid_and_nothing_binds_another() {
    let mut store = Store::new().with(pod(1, "u1", 20));
    assert_eq!(store.entry(1).uid(), Some(&"u1".into()));
    store.seen(running(1, "namesake", 30));
    assert_eq!(store.entry(1).uid(), Some(&"u1".into()));
    assert_eq!(
        (store.state(1), store.orphans()),
        ("Pending", vec!["namesake".to_owned()])
    );
}

// spec: E-15
#[test]
fn the_first_sighting_binds_if_this_incarnation_requested_the_pod() {
    let mut store = Store::new();
    store.request(1);
    store.seen(running(1, "u1", 20));
    assert_eq!(store.state(1), "Running");
    store.created(1, pod(1, "u1", 15));
    assert_eq!(
        store.state(1),
        "Running",
        "the answer comes after the watch and is older"
    );
    assert_eq!(store.orphans(), Vec::<String>::new());

    store.request(2);
    store.broke(2);
    assert_eq!(store.state(2), "Unknown");
    store.list(30, vec![running(1, "u1", 20), running(2, "u2", 25)]);
    assert_eq!(store.state(2), "Running", "a list item is a sight too");
}

// spec: E-15, E-3
#[test]
fn the_sighting_of_a_pod_that_another_incarnation_requested_does_not_bind() {
    let mut store = Store::new();
    store.request(1);
    store.seen(of_predecessor(running(1, "late", 20)));
    assert_eq!(
        (store.state(1), store.orphans()),
        ("Sent", vec!["late".to_owned()])
    );
    store.outcome(1, Outcome::NameTaken);
    assert_eq!(
        store.how_gone(1),
        GoneEvidence::NotCreated("its name is taken".into())
    );
}

// spec: E-15
#[test]
fn nothing_else_binds() {
    let mut store = Store::new();
    store.seen(running(5, "u5", 20));
    assert_eq!(store.state(5), "–", "nobody asked for it");
    let absurd = running(ExecutorId::MAX.get(), "max", 21);
    store.seen(absurd);
    assert_eq!(store.orphans(), vec!["max".to_owned(), "u5".to_owned()]);
    assert!(store.snapshot().entries.is_empty());
}

// spec: E-2
#[test]
fn an_unrecognised_pod_is_logged_once_and_never_counted_or_touched() {
    let mut store = Store::new();
    let mut unrecognised = running(1, "s", 20);
    unrecognised.identity = PodIdentity::Unrecognised {
        why: "executor id -1".into(),
    };
    let warnings = |applied: &Applied| {
        let unrecognised = |note: &&Note| matches!(note, Note::Unrecognised(..));
        applied.notes.iter().filter(unrecognised).count()
    };
    assert_eq!(warnings(&store.seen(unrecognised.clone())), 1);
    assert_eq!(warnings(&store.seen(unrecognised.clone())), 0);
    store.list(30, vec![unrecognised]);
    let snapshot = store.snapshot();
    assert!(snapshot.entries.is_empty() && snapshot.orphans.is_empty());
}

// spec: E-2
#[test]
fn ten_thousand_unrecognised_pods_cost_no_more_than_a_thousand() {
    let mut store = Store::new();
    let mut warnings = 0;
    for n in 0..10_000 {
        let mut unrecognised = running(1, &format!("s{n}"), 20 + n);
        unrecognised.identity = PodIdentity::Unrecognised { why: "x".into() };
        warnings += store.seen(unrecognised).notes.len();
    }
    assert_eq!(warnings, 1_000);
}

// spec: E-5
#[test]
fn a_lower_target_and_the_marks_that_go_with_it_are_one_snapshot() {
    let mut store = Store::new().with(running(1, "u1", 20));
    let before = store.snapshot().seq;
    let applied = store.tell(News::Retire {
        ids: vec![id(1)],
        aim: crate::news::TargetChange::Become(BTreeMap::from([(profile(), 2)])),
        why: LeaveReason::ScaledDown,
        how: LeaveMethod::Delete,
    });
    let snapshot = applied.snapshot.unwrap();
    assert_eq!(snapshot.seq, before + 1);
    assert_eq!(snapshot.target(&profile()), 2);
    assert_eq!(snapshot.counts(&profile()).leaving, 1);
}

// spec: E-7
#[test]
fn an_entry_is_made_with_its_request_and_an_id_is_never_used_twice() {
    let mut store = Store::new().with(running(1, "u1", 20));
    store.request(1);
    assert_eq!(store.state(1), "Running");
    store.deleted(terminating(running(1, "u1", 30)));
    store.request(1);
    assert_eq!(store.state(1), "Gone");
    store.reported(1);
    store.deliver();
    store.request(1);
    assert_eq!(store.state(1), "ended");
}

// spec: E-8
#[test]
fn the_answer_to_a_delete_is_news_of_the_pod() {
    let mut store = Store::new().with(running(1, "u1", 20));
    store.seen(terminating(running(1, "u1", 25)));
    assert_eq!(store.state(1), "Terminating");
}

// spec: E-8, E-18
#[test]
fn a_webhook_that_strips_labels_makes_the_answer_bind_and_the_look_up_retire() {
    let mut store = Store::new();
    store.request(1);
    store.created(1, relabelled(pod(1, "u1", 20)));
    assert_eq!(store.state(1), "Absent", "no source will ever show it");
    store.look_up(1, found(relabelled(running(1, "u1", 22))));
    let entry = store.entry(1);
    assert_eq!(store.state(1), "Leaving");
    assert_eq!(
        entry.leaving.as_ref().unwrap().why,
        LeaveReason::Mislabelled("role".into())
    );
    assert_eq!(entry.pod().unwrap().version, 22.into());
    store.tell(News::DeleteFoundNothing {
        uid: "u1".into(),
        name: "a-exec-1".into(),
    });
    assert_eq!(store.state(1), "Gone");
}

// spec: A-13, E-18, E-10
#[test]
fn a_pod_whose_labels_a_webhook_removed_and_whose_answer_was_lost_is_recognised_by_its_owner() {
    let owned = |by: &str| Pod {
        owner: Some(by.into()),
        ..relabelled(running(1, "u1", 22))
    };
    let asked = || {
        let mut store = Store::new();
        store.request(1);
        store.broke(1);
        store.second += 60;
        store
    };
    let mut store = asked();
    let record = store.snapshot().record.clone().unwrap();
    store.look_up(1, found(owned(record.as_str())));
    assert_eq!(store.state(1), "Absent", "counted until it is retired");
    store.look_up(1, found(owned(record.as_str())));
    assert_eq!(store.state(1), "Leaving");

    // A pod with the same name and another owner is not the executor's.
    let mut store = asked();
    store.look_up(1, found(owned("another")));
    assert_eq!(
        store.how_gone(1),
        GoneEvidence::NotCreated("timeout".into())
    );
}

// spec: E-10, E-6
#[test]
fn a_relabelled_pod_is_live_until_a_look_up_shows_its_owner() {
    let mut store = Store::new().with(running(1, "u1", 20));
    store.deleted(running(1, "u1", 30));
    assert_eq!(store.state(1), "Absent");
    assert_eq!(store.snapshot().counts(&profile()).live(), 1);
    store.seen(running(1, "u1", 25));
    assert_eq!(store.state(1), "Absent", "late news of how it was before");
    store.looked_up(1, Tick::default(), found(running(1, "u1", 15)));
    assert_eq!(
        store.state(1),
        "Absent",
        "a late answer of how it was before"
    );

    let mut back = Store::new().with(running(1, "u1", 20));
    back.deleted(running(1, "u1", 30));
    back.seen(running(1, "u1", 31));
    assert_eq!(back.state(1), "Running", "it came back into the selector");
    back.deleted(running(1, "u1", 30));
    assert_eq!(back.state(1), "Running", "the same event again");

    store.look_up(1, found(relabelled(running(1, "u1", 30))));
    assert_eq!(store.state(1), "Leaving");
    assert_eq!(
        store.entry(1).pod().unwrap().identity.executor(),
        None,
        "its newest labels are kept"
    );
}

// spec: E-10
#[test]
fn a_late_look_up_answer_marks_no_executor() {
    let mut store = Store::new().with(running(1, "u1", 20));
    let sent = store.tick();
    store.seen(running(1, "u1", 40));
    store.looked_up(1, sent, found(relabelled(running(1, "u1", 30))));
    assert_eq!(store.state(1), "Running");
}

// spec: S-10, I-5
#[test]
fn a_look_up_that_was_overtaken_by_an_event_reverts_nothing() {
    let mut store = Store::new().with(running(1, "u1", 20));
    store.seen(relabelled(running(1, "u1", 30)));
    let sent = store.tick();
    store.seen(relabelled(running(1, "u1", 31)));
    store.looked_up(1, sent, found(relabelled(running(1, "u1", 30))));
    assert_eq!(store.state(1), "Absent", "asked again");
    assert_eq!(store.entry(1).pod().unwrap().version, 31.into());
    store.look_up(1, found(relabelled(running(1, "u1", 31))));
    assert_eq!(store.state(1), "Leaving");
}

// spec: E-10
#[test]
fn a_404_from_before_the_pod_was_bound_proves_nothing() {
    let mut store = Store::new();
    store.request(1);
    store.broke(1);
    store.second += 60;
    let sent = store.tick();
    store.seen(running(1, "u1", 20));
    store.looked_up(1, sent, Found::Nothing);
    assert_eq!(store.state(1), "Running");
}

// spec: E-9
#[test]
fn reported_and_ended_are_independent() {
    let mut store = Store::new().with(failed(1, "u1", 20));
    assert!(store.entry(1).has_unreported_end());
    store.reported(1);
    store.deliver();
    assert_eq!(
        store.state(1),
        "Finished",
        "told, but its pod is still there"
    );
    assert!(!store.entry(1).has_unreported_end());
    store.deleted(terminating(failed(1, "u1", 30)));
    assert!(store.entry(1).is_reported());
    store.deliver();
    assert_eq!(store.state(1), "ended");
}

// spec: E-9
#[test]
fn a_kept_pod_has_ended_once_its_label_is_confirmed_and_late_news_changes_nothing() {
    let mut store = Store::new().with(failed(1, "u1", 20));
    store.reported(1);
    let (id, uid) = (id(1), PodUid::from("another"));
    store.tell(News::Inactive { id, uid });
    assert_eq!(store.state(1), "Finished", "the label of another pod");
    let uid = PodUid::from("u1");
    store.tell(News::Inactive { id, uid });
    assert_eq!(store.how_gone(1), GoneEvidence::Kept);
    store.deliver();
    store.seen(failed(1, "u1", 21));
    assert_eq!((store.state(1), store.orphans()), ("ended", vec![]));
    // The same after the tombstone is removed, while the watch lags behind the poll.
    store.list(40, vec![]);
    store.seen(failed(1, "u1", 22));
    assert_eq!((store.state(1), store.orphans()), ("ended", vec![]));
}
