//! Property tests with any news in any order.

use crate::executor::Session;
use proptest::prelude::*;

use super::world::World;
use super::*;

/// Within one epoch no entry's version decreases and no uid changes (spec I-5, I-1).
fn assert_forward(before: &Snapshot, after: &Snapshot) {
    assert!(before.seq <= after.seq && before.epoch <= after.epoch);
    for (id, old) in before.entries.iter() {
        let Some((old, new)) = old.bound().zip(after.entry(id).and_then(|new| new.bound())) else {
            continue;
        };
        assert_eq!(old.pod.uid, new.pod.uid, "{id} keeps its pod");
        assert!(old.epoch <= new.epoch, "{id} goes back in epochs");
        let falls = old.epoch == new.epoch && new.pod.version < old.pod.version;
        assert!(
            !falls,
            "{id} goes back from {} to {}",
            old.pod.version, new.pod.version
        );
    }
    for id in before.entries.keys() {
        let lost = after.entry(id).is_none() && !after.ended.contains(id);
        assert!(!lost, "{id} is lost");
    }
}

/// The reported changes are the actual ones (spec S-2).
fn assert_changes_are_reported(before: &Snapshot, after: &Snapshot) {
    if after.seq != before.seq + 1 {
        return;
    }
    let ids: BTreeSet<_> = before.entries.keys().chain(after.entries.keys()).collect();
    for id in ids {
        let reported = after.changes.executors.binary_search(&id).is_ok();
        let changed = before.entry(id) != after.entry(id);
        assert_eq!(reported, changed, "{:?}", after.entry(id));
    }
    let uids: BTreeSet<_> = before.orphans.keys().chain(after.orphans.keys()).collect();
    for uid in uids {
        let reported = after.changes.orphans.contains(uid);
        let changed = before.orphans.get(uid) != after.orphans.get(uid);
        assert!(reported || !changed, "the orphan {uid} changed");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    // spec: I-1, I-2, I-5, I-6
    #[test]
    fn one_full_list_corrects_the_ledger_after_any_news_in_any_order(
        steps in prop::collection::vec((any::<u8>(), 0usize..4096, 0usize..4096), 1..150)
    ) {
        let mut world = World::new();
        for (what, a, b) in steps {
            let before = world.store.snapshot();
            world.step(what, a, b);
            let after = world.store.snapshot();
            assert_forward(&before, &after);
            assert_changes_are_reported(&before, &after);
        }
        world.settle();
        world.assert_that_the_ledger_equals_the_truth();
    }
}

/// A pod whose phase and readable part are chosen by `b`.
fn any_sighting(number: u64, uid: &str, version: u64, b: usize) -> Sighting {
    let phase = ["Pending", "Running", "Failed", "Odd"][b % 4];
    let mut about = Pod {
        phase: Phase::parse(phase),
        ..pod(number, uid, version)
    };
    if b % 5 == 1 {
        about = terminating(about);
    }
    about = match b % 7 {
        1 => relabelled(about),
        2 => of_predecessor(about),
        _ => about,
    };
    match b % 11 {
        1 => Sighting::Unreadable(unreadable(&about)),
        2 => Sighting::Unreadable(Unreadable {
            uid: None,
            version: None,
            ..unreadable(&about)
        }),
        3 => Sighting::Unreadable(Unreadable {
            name: None,
            ..unreadable(&about)
        }),
        _ => read(about),
    }
}

/// Any news, true or not, about a few executors, including absurd ids and versions.
fn any_news(epoch: Epoch) -> impl Strategy<Value = News> {
    let number = prop_oneof![9 => 1u64..6, 1 => Just(ExecutorId::MAX.get())];
    let version = prop_oneof![9 => 0u64..60, 1 => Just(u64::MAX)];
    let epoch = prop_oneof![8 => Just(epoch), 1 => Just(Epoch(epoch.0 + 1)), 1 => Just(Epoch(0))];
    (0u8..16, number, version, 0usize..64, epoch, 0u64..200).prop_map(
        |(what, number, version, b, epoch, second)| {
            let uid = format!("u{number}{}", b % 3);
            let pod = any_sighting(number, &uid, version, b);
            let (id, uid) = (id(number), PodUid::from(uid));
            let sent = Tick::after_start(Duration::from_secs(second));
            let requested = |outcome| News::Requested { id, outcome };
            match what {
                0 => News::Seen { pod, epoch },
                1 => News::Deleted { pod, epoch },
                2 => News::Bookmark {
                    version: version.into(),
                    epoch,
                },
                3 => requested(Outcome::Sent { profile: profile() }),
                4 => requested(Outcome::SentAgain),
                5 => requested(Outcome::Created(pod)),
                6 => requested(Outcome::Refused("no".into())),
                7 => requested(Outcome::Broke("broke".into())),
                8 => requested(Outcome::NameTaken),
                9 => News::LookedUp {
                    id,
                    sent,
                    epoch,
                    found: Found::Pod(pod),
                },
                10 => News::LookedUp {
                    id,
                    sent,
                    epoch,
                    found: Found::Nothing,
                },
                11 => News::DeleteFoundNothing {
                    uid,
                    name: "a-exec-1".into(),
                },
                12 => News::Inactive { id, uid },
                13 => News::Reported {
                    id,
                    reason: some_reason(),
                },
                14 => News::Retire {
                    ids: vec![id],
                    aim: crate::news::TargetChange::Become(BTreeMap::from([(profile(), b as u32)])),
                    why: LeaveReason::ScaledDown,
                    how: LeaveMethod::Delete,
                },
                _ => News::Session(
                    id,
                    Session {
                        registered: b % 2 == 0,
                        ..Session::open(b % 3 == 0)
                    },
                ),
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    // spec: I-2, I-11
    #[test]
    fn news_that_contradicts_itself_breaks_nothing(
        news in prop::collection::vec((any_news(Epoch(0)), any::<bool>(), 0u64..80), 1..80)
    ) {
        let mut store = Store::new();
        for (news, release, version) in news {
            let before = store.snapshot();
            if let News::Requested { id, outcome: Outcome::Sent { .. } } = &news {
                store.fixed.insert(*id);
            }
            store.tell(news.clone());
            assert_changes_are_reported(&before, &store.snapshot());
            if release {
                store.deliver();
            }
            if let News::Seen { pod, .. } = news {
                let ticket = store.begin_list();
                let kind = match version % 3 {
                    0 => ListKind::PollNewest,
                    _ => ListKind::PollCached,
                };
                store.list_arrives(ticket, version, kind, vec![pod]);
            }
        }
    }
}
