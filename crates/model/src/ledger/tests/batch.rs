//! Tests of batches and of removed entries (spec S-1, S-2, S-14, S-21 to S-24).

use crate::Batch;
use crate::delivery::{Delivery, Timing};
use crate::executor::Session;

use super::*;

const QUICK: Timing = Timing {
    interval: Duration::from_millis(200),
    quiet_latency: Duration::from_millis(10),
    min_gap: Duration::from_millis(50),
    max_buffered: 10_000,
};
const SLOW: Timing = Timing {
    interval: Duration::from_secs(1),
    quiet_latency: Duration::from_millis(300),
    min_gap: Duration::from_millis(700),
    max_buffered: 10,
};

fn at(millis: u64) -> Tick {
    Tick::after_start(Duration::from_millis(millis))
}

/// Does what the actor does: passes each snapshot to every subscriber.
struct Fan {
    store: Store,
    subscribers: Vec<Delivery>,
}

impl Fan {
    fn new(timings: &[Timing]) -> Self {
        let store = Store::new();
        let subscribe = |timing: &Timing| Delivery::new(*timing, &store.snapshot(), at(0));
        let subscribers = timings.iter().map(subscribe).collect();
        Self { store, subscribers }
    }

    fn hand_out(&mut self, applied: Applied, now: Tick) {
        if let Some(snapshot) = applied.snapshot {
            for subscriber in &mut self.subscribers {
                if applied.worth_a_batch {
                    subscriber.push(&snapshot, now);
                } else {
                    subscriber.push_quietly(&snapshot);
                }
            }
        }
    }

    fn release(&mut self, now: Tick) {
        let delivered = self.subscribers.iter().map(Delivery::decided_up_to).min();
        let applied = (self.store.ledger).release(delivered.unwrap_or(0), self.store.now());
        self.hand_out(applied, now);
    }

    fn take(&mut self, subscriber: usize, now: Tick) -> Option<Batch> {
        let delivery = &mut self.subscribers[subscriber];
        let due = delivery.due().is_some_and(|due| due <= now);
        due.then(|| delivery.take(self.store.ledger.current(), now))
    }
}

// spec: S-1
#[test]
fn a_snapshot_never_changes_after_it_is_made() {
    let mut store = Store::new().with(pod(1, "u1", 20));
    let kept = store.snapshot();
    let (entry, targets) = (kept.entry(id(1)).cloned(), kept.targets.clone());
    store.seen(failed(1, "u1", 30));
    store.request(2);
    store.tell(News::Targets(BTreeMap::from([(profile(), 9)])));
    assert_eq!(kept.entry(id(1)).cloned(), entry);
    assert_eq!((kept.entries.len(), &kept.targets), (1, &targets));
    assert_eq!(kept.counts(&profile()).pending, 1);
}

// spec: S-2
#[test]
fn what_did_not_change_is_shared_with_the_snapshot_before() {
    let mut store = Store::new();
    for n in 1..=100 {
        store = store.with(pod(n, &format!("u{n}"), 20 + n));
    }
    let before = store.snapshot();
    let after = store.seen(running(50, "u50", 200)).snapshot.unwrap();
    assert_eq!(after.changes.executors, vec![id(50)]);
    let shared = |n: &u64| {
        let (old, new) = (before.entry(id(*n)).unwrap(), after.entry(id(*n)).unwrap());
        Arc::ptr_eq(old, new)
    };
    assert_eq!(
        (1..=100).filter(|n| !shared(n)).collect::<Vec<_>>(),
        vec![50]
    );
}

// spec: S-21, S-22
#[test]
fn two_subscribers_with_intervals_of_their_own_see_every_snapshot_once_and_in_order() {
    let mut fan = Fan::new(&[QUICK, SLOW]);
    let mut seen: [Vec<u64>; 2] = [vec![], vec![]];
    let mut batches = [0, 0];
    let first = fan.store.snapshot().seq;
    for tick in 0..500_u64 {
        let now = at(tick * 10);
        if tick % 3 == 0 && tick < 400 {
            let number = tick / 3 + 1;
            let applied = fan.store.request(number);
            fan.hand_out(applied, now);
        }
        for subscriber in 0..2 {
            if let Some(batch) = fan.take(subscriber, now) {
                batches[subscriber] += usize::from(!batch.snapshots().is_empty());
                seen[subscriber].extend(batch.snapshots().iter().map(|s| s.seq));
                let changed = batch.changed_executors();
                assert!(changed.iter().all(|id| batch.latest().entry(*id).is_some()));
                fan.subscribers[subscriber].decided(None);
            }
        }
    }
    let quick: Vec<u64> = (first..=fan.store.snapshot().seq).collect();
    assert_eq!(seen[0], quick);
    assert!(seen[1].is_sorted_by(|a, b| a < b), "in order, none twice");
    assert_eq!(seen[1].last(), quick.last());
    assert!(
        batches[0] > 5 * batches[1],
        "each by its own timer: {batches:?}"
    );
}

// spec: S-23, S-14, L-1
#[test]
fn a_stalled_subscriber_delays_no_other_and_gets_each_end_once() {
    let mut fan = Fan::new(&[QUICK, SLOW]);
    let stalled = fan.take(1, at(0)).unwrap();
    assert_eq!(stalled.snapshots().len(), 1, "it is never decided on");
    let mut reported = BTreeSet::new();
    let mut ends: Vec<ExecutorId> = Vec::new();
    for n in 1..=30 {
        let now = at(n * 1_000);
        let uid = format!("u{n}");
        for applied in [
            fan.store.request(n),
            fan.store.created(n, running(n, &uid, n * 100)),
            fan.store
                .deleted(terminating(running(n, &uid, n * 100 + 1))),
        ] {
            fan.hand_out(applied, now);
        }
        let batch = fan.take(0, at(n * 1_000 + 500)).unwrap();
        ends.extend(batch.ends().map(|end| end.entry.id));
        for id in batch.changed_executors() {
            let owes = batch
                .latest()
                .entry(id)
                .is_some_and(|entry| entry.has_unreported_end());
            if owes && reported.insert(id) {
                let applied = fan.store.reported(id.get());
                fan.hand_out(applied, now);
            }
        }
        fan.subscribers[0].decided(None);
        fan.release(now);
    }
    assert_eq!(reported.len(), 30, "the other one is not held up");
    assert_eq!(
        fan.store.snapshot().entries.len(),
        30,
        "none leaves before all have seen it"
    );

    fan.subscribers[1].decided(None);
    let batch = fan.take(1, at(40_000)).unwrap();
    assert!(
        batch.snapshots().len() <= 61,
        "merged: {}",
        batch.snapshots().len()
    );
    let late: Vec<ExecutorId> = batch.ends().map(|end| end.entry.id).collect();
    assert_eq!(
        late,
        (1..=30).map(id).collect::<Vec<_>>(),
        "no end is lost or doubled"
    );
    fan.subscribers[1].decided(None);
    let batch = fan.take(0, at(40_000)).unwrap();
    ends.extend(batch.ends().map(|end| end.entry.id));
    assert_eq!(ends, late);
    assert!(batch.latest().seq >= stalled.latest().seq);
    fan.subscribers[0].decided(None);
    fan.release(at(40_001));
    assert!(fan.store.snapshot().entries.is_empty());
    assert_eq!(fan.store.snapshot().ended.len(), 30);
}

// spec: S-24
#[test]
fn session_facts_are_not_worth_a_batch_and_no_news_is_no_snapshot() {
    let mut store = Store::new().with(running(1, "u1", 20));
    let facts = |idle| News::Session(id(1), Session::open(idle));
    let applied = store.tell(facts(true));
    assert!(applied.snapshot.is_some() && !applied.worth_a_batch);
    assert!(store.tell(facts(true)).snapshot.is_none());
    assert!(store.seen(running(1, "u1", 25)).worth_a_batch);
    assert!(store.entry(1).session.idle);
}
