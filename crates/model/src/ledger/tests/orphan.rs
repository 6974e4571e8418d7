//! Tests of orphan pods: late pods and copies (spec E-3).

use super::*;

fn laid(uid: &str) -> News {
    News::DeleteFoundNothing {
        uid: uid.into(),
        name: "a-exec-1".into(),
    }
}

// spec: E-3, I-1
#[test]
fn a_request_that_commits_after_it_was_given_up_makes_an_orphan_pod() {
    for late_sight in [true, false] {
        let mut store = Store::new();
        store.request(1);
        store.broke(1);
        store.second += 60;
        store.look_up(1, Found::Nothing);
        assert_eq!(
            store.how_gone(1),
            GoneEvidence::NotCreated("timeout".into())
        );
        store.deliver();
        assert_eq!(store.state(1), "ended");
        let applied = if late_sight {
            store.seen(pod(1, "late", 40))
        } else {
            store.created(1, relabelled(pod(1, "late", 40)))
        };
        assert_eq!(store.orphans(), vec!["late".to_owned()]);
        assert!(
            applied
                .notes
                .iter()
                .any(|note| matches!(note, Note::OrphanPod(_)))
        );
        assert_eq!(
            applied.snapshot.unwrap().changes.orphans,
            vec!["late".into()]
        );
        assert!(
            !store
                .snapshot()
                .orphans
                .values()
                .any(|orphan| orphan.terminating)
        );
    }
}

// spec: E-3, E-16, S-13
#[test]
fn a_late_answer_from_before_a_restore_makes_an_orphan_pod_that_the_next_full_list_removes() {
    let mut store = Store::new();
    store.list(90, vec![]);
    store.request(1);
    store.broke(1);
    store.quorum_list(50, vec![]);
    assert_eq!(store.epoch(), Epoch(1));
    store.second += 60;
    store.look_up(1, Found::Nothing);
    store.created(1, pod(1, "late", 91));
    assert_eq!(store.orphans(), vec!["late".to_owned()]);
    store.list(60, vec![]);
    assert_eq!(store.orphans(), Vec::<String>::new());
}

// spec: E-3, S-15
#[test]
fn a_late_unreadable_answer_makes_an_orphan_pod_too() {
    let mut store = Store::new();
    store.request(1);
    store.outcome(1, Outcome::Refused("forbidden".into()));
    let answer = unreadable(&pod(1, "late", 40));
    store.outcome(1, Outcome::Created(Sighting::Unreadable(answer)));
    assert_eq!(store.orphans(), vec!["late".to_owned()]);
}

// spec: E-16
#[test]
fn an_orphan_stays_until_its_end_is_seen_so_that_a_failed_delete_is_repeated() {
    let mut store = Store::new();
    store.seen(pod(1, "g", 40));
    store.list(50, vec![pod(1, "g", 40)]);
    assert_eq!(store.orphans(), vec!["g".to_owned()]);
    store.seen(terminating(pod(1, "g", 51)));
    assert!(
        store
            .snapshot()
            .orphans
            .values()
            .all(|orphan| orphan.terminating)
    );
    store.seen(pod(1, "g", 45));
    assert!(
        store
            .snapshot()
            .orphans
            .values()
            .all(|orphan| orphan.terminating),
        "late news"
    );
    store.deleted(terminating(pod(1, "g", 52)));
    assert_eq!(store.orphans(), Vec::<String>::new());
}

// spec: E-16
#[test]
fn an_orphan_is_removed_when_a_delete_finds_nothing_or_a_full_list_lacks_it() {
    let mut store = Store::new();
    store.seen(pod(1, "g", 40));
    let applied = store.tell(laid("g"));
    assert_eq!(applied.snapshot.unwrap().changes.orphans, vec!["g".into()]);
    store.seen(pod(1, "h", 41));
    let ticket = store.begin_list();
    store.seen(pod(2, "i", 45));
    store.list_arrives(ticket, 50, ListKind::PollCached, vec![]);
    assert_eq!(
        store.orphans(),
        vec!["i".to_owned()],
        "first seen after the list was asked for"
    );
    store.list(44, vec![]);
    assert_eq!(store.orphans(), vec!["i".to_owned()], "a stale list");
    store.list(60, vec![]);
    assert_eq!(store.orphans(), Vec::<String>::new());
}

// spec: E-16, S-15
#[test]
fn an_orphan_whose_item_cannot_be_read_is_still_there() {
    let mut store = Store::new();
    store.seen(pod(1, "g", 40));
    for uid in [Some("g".into()), None] {
        let part = Unreadable {
            uid,
            ..unreadable(&pod(1, "g", 41))
        };
        let ticket = store.begin_list();
        store.list_arrives(
            ticket,
            50,
            ListKind::PollCached,
            vec![Sighting::Unreadable(part)],
        );
        assert_eq!(store.orphans(), vec!["g".to_owned()]);
    }
    let (pod, epoch) = (
        Sighting::Unreadable(unreadable(&pod(1, "g", 60))),
        store.epoch(),
    );
    store.tell(News::Deleted { pod, epoch });
    assert_eq!(store.orphans(), Vec::<String>::new());
}

// spec: E-16, I-7
#[test]
fn an_orphan_that_loses_our_labels_is_not_touched_any_more() {
    let mut store = Store::new();
    store.seen(pod(1, "g", 40));
    store.seen(relabelled(pod(1, "g", 41)));
    assert_eq!(store.orphans(), Vec::<String>::new());
    store.seen(pod(1, "h", 42));
    store.deleted(pod(1, "h", 43));
    assert_eq!(
        store.orphans(),
        Vec::<String>::new(),
        "it left the selector"
    );
}

// spec: E-15, E-3
#[test]
fn a_requested_pod_whose_incarnation_a_webhook_removed_is_bound_at_first_sight() {
    let mut store = Store::new();
    store.request(1);
    let mut unsigned = pod(1, "u1", 20);
    unsigned.identity = PodIdentity::Executor {
        id: id(1),
        profile: None,
        incarnation: None,
    };
    store.seen(unsigned.clone());
    assert_eq!((store.state(1), store.orphans()), ("Pending", vec![]));
    store.deleted(terminating(unsigned.clone()));
    assert_eq!(store.state(1), "Gone", "also before the answer");
    store.created(1, unsigned);
    assert_eq!(store.state(1), "Gone");
}

// spec: E-3, E-15
#[test]
fn a_suspected_orphan_is_none_once_the_answer_binds_it() {
    let mut store = Store::new();
    store.request(1);
    let altered = of_predecessor(pod(1, "u1", 20));
    store.seen(altered.clone());
    assert_eq!(store.orphans(), vec!["u1".to_owned()]);
    let applied = store.created(1, altered);
    assert_eq!((store.state(1), store.orphans()), ("Pending", vec![]));
    assert_eq!(applied.snapshot.unwrap().changes.orphans, vec!["u1".into()]);
}

// spec: E-3, E-15
#[test]
fn a_pod_that_had_the_name_before_the_request_binds_no_executor() {
    let mut store = Store::new();
    store.seen(pod(1, "forged", 20));
    store.request(1);
    store.seen(terminating(pod(1, "forged", 21)));
    assert_eq!(
        (store.state(1), store.orphans()),
        ("Sent", vec!["forged".to_owned()])
    );
    store.deleted(terminating(pod(1, "forged", 22)));
    store.created(1, pod(1, "u1", 23));
    assert_eq!((store.state(1), store.orphans()), ("Pending", vec![]));
    assert_eq!(store.entry(1).uid(), Some(&"u1".into()));
}

// spec: E-3, O-31
#[test]
fn before_adoption_no_pod_is_an_orphan() {
    let mut store = Store::before_adoption(Inheritance::default());
    store.seen(of_predecessor(running(1, "u1", 20)));
    assert!(
        store
            .list(30, vec![of_predecessor(running(1, "u1", 20))])
            .is_full()
    );
    assert_eq!(store.orphans(), Vec::<String>::new());
    store.quorum_list(40, vec![of_predecessor(running(1, "u1", 20))]);
    assert_eq!((store.state(1), store.orphans()), ("Running", vec![]));
}

// spec: E-3, S-11
#[test]
fn news_older_than_the_last_full_list_makes_no_orphan() {
    let mut store = Store::new();
    store.list(50, vec![]);
    store.seen(pod(1, "g", 40));
    assert_eq!(store.orphans(), Vec::<String>::new(), "it has gone since");
    store.seen(pod(1, "g", 51));
    assert_eq!(store.orphans(), vec!["g".to_owned()]);
}

// spec: W-12, I-10, I-12
#[test]
fn a_later_incarnations_pod_is_no_orphan_and_nothing_is_requested_until_the_record_is_read_again() {
    let mut store = Store::new();
    let mut younger = pod(7, "theirs", 40);
    younger.identity = PodIdentity::Executor {
        id: ExecutorId::new(7).unwrap(),
        profile: Some("default".into()),
        incarnation: Some(Incarnation(u64::MAX)),
    };
    assert!(store.snapshot().record.is_some());
    let told = store.seen(younger.clone()).snapshot;
    assert_eq!(store.orphans(), Vec::<String>::new());
    assert_eq!(store.snapshot().record, None);
    assert_eq!(
        told.map(|told| told.record.clone()),
        Some(None),
        "subscribers are told at once"
    );
    let epoch = store.snapshot().epoch;
    let uid = "record".into();
    store.tell(News::RecordSeen { uid, epoch });
    younger.version = 41.into();
    store.seen(younger);
    assert!(store.snapshot().record.is_some(), "it is asked about once");
}

// spec: W-12
#[test]
fn a_later_incarnation_is_told_to_the_record_keeper_if_it_is_plausible() {
    let mut store = Store::new();
    let mut younger = |uid: &str, lead: u64| {
        let mut pod = pod(7, uid, 40);
        pod.identity = PodIdentity::Executor {
            id: id(7),
            profile: None,
            incarnation: Some(Incarnation(INCARNATION.0 + lead)),
        };
        store.seen(pod);
        store.snapshot().later.map(|later| later.0 - INCARNATION.0)
    };
    assert_eq!(younger("made up", 1_001), None);
    assert_eq!(younger("a", 3), Some(3));
    assert_eq!(younger("b", 2), Some(3), "the highest counts");
}

// spec: W-13, E-15, E-3, I-12
#[test]
fn a_pod_of_a_record_that_this_driver_never_held_is_judged_after_the_record_was_read_again() {
    let mut store = Store::new();
    let theirs = |uid: &str| Pod {
        owner: Some("their record".into()),
        ..running(7, uid, 40)
    };
    let none = Vec::<String>::new();
    store.seen(theirs("a"));
    assert_eq!(
        (store.orphans(), store.snapshot().record),
        (none.clone(), None)
    );
    store.list(50, vec![theirs("a")]);
    assert_eq!(store.orphans(), none, "the record is still unknown");
    let epoch = store.snapshot().epoch;
    let uid = "record".into();
    store.tell(News::RecordSeen { uid, epoch });
    store.list(60, vec![theirs("a")]);
    assert_eq!(store.orphans(), ["a"], "this driver is current");
    store.list(70, vec![theirs("a"), theirs("b")]);
    assert_eq!(store.orphans(), ["a", "b"], "it is asked about once");
    assert!(store.snapshot().record.is_some());

    let mut requested = Store::new();
    requested.request(1);
    requested.seen(Pod {
        owner: Some("their record".into()),
        ..pod(1, "theirs", 40)
    });
    assert_eq!(requested.state(1), "Sent", "its name alone binds nothing");
}

// spec: E-3, I-9, I-10
#[test]
fn a_later_incarnations_pod_is_no_orphan_to_a_driver_that_has_not_read_the_new_record() {
    let mut store = Store::new();
    let mut younger = running(2_001, "younger", 40);
    younger.identity = PodIdentity::Executor {
        id: id(2_001),
        profile: None,
        incarnation: Some(Incarnation(INCARNATION.0 + 1)),
    };
    store.seen(younger.clone());
    store.list(50, vec![younger]);
    assert_eq!(store.orphans(), Vec::<String>::new());
    assert_eq!(store.state(2_001), "–");
}

// spec: E-3, S-14
#[test]
fn an_answer_after_the_orphans_end_does_not_restore_it() {
    for gone in ["seen", "found nothing"] {
        let mut store = Store::new();
        store.seen(pod(1, "g", 40));
        match gone {
            "seen" => drop(store.deleted(terminating(pod(1, "g", 42)))),
            _ => drop(store.tell(laid("g"))),
        }
        store.seen(terminating(pod(1, "g", 43)));
        assert_eq!(store.orphans(), Vec::<String>::new(), "{gone}");
        store.list(50, vec![]);
        store.list(60, vec![pod(1, "g", 55)]);
        assert_eq!(store.orphans(), vec!["g".to_owned()], "put back");
    }
}

// spec: S-12, E-3
#[test]
fn an_orphan_that_has_changed_since_a_list_is_not_removed_by_that_list() {
    for (changed, left) in [(60, vec!["g".to_owned()]), (50, vec![])] {
        let mut store = Store::new();
        store.seen(pod(1, "g", 40));
        let ticket = store.begin_list();
        store.seen(pod(1, "g", changed));
        let (outcome, _) = store.list_arrives(ticket, 50, ListKind::PollCached, vec![]);
        assert!(outcome.is_full());
        assert_eq!(store.orphans(), left, "{changed}");
    }
}

// spec: E-3, S-26
#[test]
fn an_orphan_that_an_unnoticed_restore_brings_back_is_deleted_again() {
    let mut store = Store::new();
    store.seen(terminating(pod(1, "g", 50)));
    store.list(45, vec![pod(1, "g", 30)]);
    let terminating = |store: &Store| store.snapshot().orphans.values().all(|g| g.terminating);
    assert!(terminating(&store), "a stale list");
    store.list(60, vec![pod(1, "g", 30)]);
    assert!(!terminating(&store));
}
