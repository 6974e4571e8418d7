//! Pods that sets have made, of which only a label says which executor each is (spec A-80).

use super::*;

/// Ids up to 20 are reserved; 1 to 3 have ended; 4, 5 and 6 were bound. The first list of version 50 has the pod of 4, and
/// of `unread` only their names and uids.
fn successor(unread: &[Pod]) -> Store {
    let store = Store::before_adoption(Inheritance {
        reserved: Some(id(20)),
        ended: ids(1..=3),
        bound: ids(4..=6),
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

/// Nobody can read its labels, or anything of it but what it is called.
fn unlabelled(pod: &Pod) -> Sighting {
    Sighting::Unreadable(Unreadable {
        claim: None,
        ..unreadable(pod)
    })
}

// spec: A-80, O-31, S-15, I-5, E-4
#[test]
fn one_whose_labels_cannot_be_read_at_the_start_is_the_executor_that_it_was_once_they_can() {
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
    assert_eq!(store.how_gone(6), HowGone::LostBeforeStart);
    assert!(store.snapshot().not_found.is_empty() && store.snapshot().unassigned.is_empty());
    for closed in [7, 8, 10, 20] {
        assert_eq!(store.state(closed), "ended", "{closed}");
    }
}

// spec: A-80, L-1, S-15
#[test]
fn what_was_lost_is_told_once_no_pod_is_left_of_which_nobody_can_read_who_it_is() {
    let pod = inherited(5, "u5", 30);
    let mut store = successor(std::slice::from_ref(&pod));
    // As long as it is there, and as it is.
    let ticket = store.begin_list();
    let items = vec![read(inherited(4, "u4", 20)), unlabelled(&pod)];
    store.list_arrives(ticket, 60, ListKind::PollNewest, items);
    assert_eq!((store.state(5), store.state(6)), ("–", "–"));
    // It goes without ever having been read.
    store.list(70, vec![inherited(4, "u4", 20)]);
    for lost in [5, 6] {
        assert_eq!(store.how_gone(lost), HowGone::LostBeforeStart, "{lost}");
        assert!(store.entry(lost).has_unreported_end());
    }
    store.deliver();
    assert_eq!(store.state(20), "ended");
}

// spec: A-80, S-15
#[test]
fn one_that_turns_out_to_be_none_or_to_have_no_id_keeps_nobody_waiting() {
    let (strange, new) = (inherited(5, "u5", 30), inherited(9, "u9", 31));
    let mut store = successor(&[strange.clone(), new.clone()]);
    let (pod, epoch) = (unreadable(&relabelled(strange)), store.epoch());
    let pod = Sighting::Unreadable(pod);
    store.tell(News::Seen { pod, epoch });
    assert_eq!((store.state(5), store.state(6)), ("–", "–"));
    store.seen(Pod {
        claim: Claim::UnassignedPod { profile: None },
        version: 60.into(),
        ..new
    });
    for lost in [5, 6] {
        assert_eq!(store.how_gone(lost), HowGone::LostBeforeStart, "{lost}");
    }
    let unassigned = store.snapshot().unassigned;
    let unassigned: Vec<_> = unassigned.values().map(|pod| pod.unread).collect();
    assert_eq!(unassigned, [false], "it is given an id");
}
