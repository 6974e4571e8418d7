//! Tests of pods made by sets, whose executor is known by a label only (spec A-80).

use super::*;

/// Ids up to 20 are reserved, 1 to 3 have ended, 4 to 6 were bound. The first list (version 50) has
/// the pod of 4, and of `unread` only the names and uids.
fn successor(unread: &[Pod]) -> Store {
    let store = Store::before_adoption(Inheritance {
        reserved: Some(id(20)),
        ended: ids(1..=3),
        bound: ids(4..=6),
        ..Inheritance::default()
    });
    let mut store = Store {
        ledger: store.ledger.of_sets(),
        ..store
    };
    let mut items = vec![read(inherited(4, "u4", 20))];
    items.extend(unread.iter().map(unlabelled));
    let ticket = store.begin_list();
    let (outcome, _) = store.list_arrives(ticket, 50, ListKind::PollNewest, items);
    assert!(outcome.is_full() && store.snapshot().adopted);
    store
}

fn inherited(id: u64, uid: &str, version: u64) -> Pod {
    of_predecessor(running(id, uid, version))
}

/// A pod with unreadable labels, or with nothing readable but name, uid and version.
fn unlabelled(pod: &Pod) -> Sighting {
    Sighting::Unreadable(Unreadable {
        identity: None,
        ..unreadable(pod)
    })
}

// spec: A-80, O-31, S-15, S-27, I-5, E-4
#[test]
fn a_pod_with_unreadable_labels_at_the_start_is_the_same_executor_once_they_are_readable() {
    let (bound, not_recorded) = (inherited(5, "u5", 30), inherited(9, "u9", 31));
    let mut store = successor(&[bound.clone(), not_recorded.clone()]);
    assert_eq!(store.snapshot().first_free, Some(id(21)));
    let states = [4, 5, 6, 9].map(|n| store.state(n));
    assert_eq!(states, ["Running", "–", "–", "–"], "nobody knows which");
    assert_eq!(store.snapshot().not_found, ids(4..=6));

    store.seen(Pod {
        version: 60.into(),
        ..bound
    });
    assert_eq!(store.state(5), "Running");
    assert!(store.entry(5).adopted);
    assert_eq!(store.state(6), "–", "the other may be this one");
    store.list(
        61,
        vec![inherited(4, "u4", 20), inherited(5, "u5", 60), not_recorded],
    );
    assert_eq!((store.state(9), store.orphans()), ("Running", vec![]));
    assert_eq!(store.how_gone(6), GoneEvidence::LostBeforeStart);
    assert!(store.snapshot().not_found.is_empty() && store.snapshot().unassigned.is_empty());
    for closed in [7, 8, 10, 20] {
        assert_eq!(store.state(closed), "ended", "{closed}");
    }
}

// spec: A-80, L-34, S-27
#[test]
fn losses_are_reported_once_no_pod_with_an_unreadable_id_is_left() {
    let pod = inherited(5, "u5", 30);
    let mut store = successor(std::slice::from_ref(&pod));
    // The pod is still unreadable.
    let ticket = store.begin_list();
    let items = vec![read(inherited(4, "u4", 20)), unlabelled(&pod)];
    store.list_arrives(ticket, 60, ListKind::PollNewest, items);
    assert_eq!((store.state(5), store.state(6)), ("–", "–"));
    // The pod is deleted without ever being readable.
    store.list(70, vec![inherited(4, "u4", 20)]);
    for lost in [5, 6] {
        assert_eq!(
            store.how_gone(lost),
            GoneEvidence::LostBeforeStart,
            "{lost}"
        );
        assert!(store.entry(lost).has_unreported_end());
    }
    store.deliver();
    assert_eq!(store.state(20), "ended");
}

// spec: A-80, S-27
#[test]
fn a_pod_that_turns_out_to_be_foreign_or_to_have_no_id_delays_no_report() {
    let (strange, new) = (inherited(5, "u5", 30), inherited(9, "u9", 31));
    let mut store = successor(&[strange.clone(), new.clone()]);
    let (pod, epoch) = (unreadable(&relabelled(strange)), store.epoch());
    let pod = Sighting::Unreadable(pod);
    store.tell(News::Seen { pod, epoch });
    assert_eq!((store.state(5), store.state(6)), ("–", "–"));
    store.seen(Pod {
        identity: PodIdentity::UnassignedPod { profile: None },
        version: 60.into(),
        ..new
    });
    for lost in [5, 6] {
        assert_eq!(
            store.how_gone(lost),
            GoneEvidence::LostBeforeStart,
            "{lost}"
        );
    }
    let unassigned = store.snapshot().unassigned;
    let unassigned: Vec<_> = unassigned.values().map(|pod| pod.unread).collect();
    assert_eq!(unassigned, [false], "it is given an id");
}
