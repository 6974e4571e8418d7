//! Decides when a subscriber gets its next batch, and what it contains (spec S-20 to S-24).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::planted::{self, Planted};
use crate::snapshot::Changes;
use crate::{Batch, Snapshot, Tick};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Without changes, a round runs at this interval, so that deadlines are checked.
    pub interval: Duration,
    /// The delay of a change after a period without changes.
    pub quiet_latency: Duration,
    /// The least interval between batches under continuous change.
    pub min_gap: Duration,
    /// Waiting changes beyond this number are merged.
    pub max_buffered: usize,
}

/// The snapshots that wait for one subscriber, and when they are due.
#[derive(Debug)]
pub struct Delivery {
    timing: Timing,
    /// Snapshots not yet delivered. They contain at most `max_buffered` changes or, if more
    /// executors have changed, at most twice their number.
    waiting: Vec<Arc<Snapshot>>,
    waiting_changes: usize,
    merge_beyond: usize,
    first_waiting: Option<Tick>,
    last_round: Tick,
    round_asked: bool,
    /// When the subscriber wants its next round at the latest, as it said in its last one.
    wake: Option<Tick>,
    /// The last snapshot in the batch in flight.
    deciding: Option<u64>,
    decided: u64,
}

impl Delivery {
    /// A new subscriber gets the current snapshot at once, in which all has changed (spec S-20).
    pub fn new(timing: Timing, current: &Snapshot, now: Tick) -> Self {
        let first = current.with_everything_changed();
        Self {
            timing,
            waiting_changes: first.changes.len(),
            waiting: vec![Arc::new(first)],
            merge_beyond: timing.max_buffered,
            first_waiting: Some(now),
            last_round: now,
            round_asked: true,
            wake: None,
            deciding: None,
            decided: 0,
        }
    }

    /// Adds a snapshot. O(1), except for an occasional merge.
    pub fn push(&mut self, snapshot: &Arc<Snapshot>, now: Tick) {
        self.first_waiting.get_or_insert(now);
        self.push_quietly(snapshot);
    }

    /// Adds a snapshot that causes no batch, but is part of the next one (spec S-24).
    pub fn push_quietly(&mut self, snapshot: &Arc<Snapshot>) {
        self.waiting_changes += snapshot.changes.len();
        self.waiting.push(Arc::clone(snapshot));
        if self.waiting_changes > self.merge_beyond {
            self.merge();
        }
    }

    /// Makes a round due now. Several calls cause one round (spec S-24).
    pub fn ask(&mut self) {
        self.round_asked = true;
    }

    /// When the next batch is due; `None` while a batch is in flight (spec S-22).
    pub fn due(&self) -> Option<Tick> {
        if self.deciding.is_some() {
            return None;
        }
        if self.round_asked {
            return Some(self.last_round);
        }
        let idle = self.last_round + self.timing.interval;
        let idle = self.wake.map_or(idle, |wake| wake.min(idle));
        Some(match self.first_waiting {
            Some(first) => idle.min(
                (first + self.timing.quiet_latency).max(self.last_round + self.timing.min_gap),
            ),
            None => idle,
        })
    }

    pub fn take(&mut self, current: &Snapshot, now: Tick) -> Batch {
        self.deciding = Some(current.seq);
        self.last_round = now;
        self.round_asked = false;
        self.wake = None;
        self.first_waiting = None;
        self.waiting_changes = 0;
        self.merge_beyond = self.timing.max_buffered;
        Batch::new(std::mem::take(&mut self.waiting), current.clone())
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The subscriber has decided, and wants its next round at `wake` at the latest.
    pub fn decided(&mut self, wake: Option<Tick>) {
        self.wake = wake;
        if let Some(seq) = self.deciding.take() {
            self.decided = seq;
        }
    }

    /// The last snapshot on which the subscriber has decided.
    pub fn decided_up_to(&self) -> u64 {
        self.decided
    }

    /// Keeps only the latest snapshot, with the changes of all. No end is lost: reported ends are
    /// carried over, and their entries stay in the snapshot until every subscriber has decided on
    /// them (spec S-14). That also bounds their number.
    fn merge(&mut self) {
        let mut executors = BTreeSet::new();
        let mut ends = Vec::new();
        let mut orphans = BTreeSet::new();
        let mut other = false;
        let lost = planted::is(Planted::MergedEndLost);
        let kept = if lost { self.waiting.len() - 1 } else { 0 };
        for snapshot in &self.waiting[kept..] {
            executors.extend(snapshot.changes.executors.iter().copied());
            ends.extend(snapshot.changes.ends.iter().cloned());
            orphans.extend(snapshot.changes.orphans.iter().cloned());
            other |= snapshot.changes.other;
        }
        if let Some(mut latest) = self.waiting.pop() {
            Arc::make_mut(&mut latest).changes = Arc::new(Changes {
                executors: executors.into_iter().collect(),
                ends,
                orphans: orphans.into_iter().collect(),
                other,
            });
            self.waiting_changes = latest.changes.len();
            self.merge_beyond = self.timing.max_buffered.max(2 * self.waiting_changes);
            self.waiting = vec![latest];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entry, Epoch, ExecutorId, Incarnation};

    const TIMING: Timing = Timing {
        interval: Duration::from_secs(1),
        quiet_latency: Duration::from_millis(10),
        min_gap: Duration::from_millis(50),
        max_buffered: 10,
    };

    fn at(millis: u64) -> Tick {
        Tick::after_start(Duration::from_millis(millis))
    }

    fn snapshot(seq: u64, executor: u64) -> Arc<Snapshot> {
        let executors = vec![ExecutorId::new(executor).unwrap()];
        let changes = Arc::new(Changes {
            executors,
            ..Changes::default()
        });
        Arc::new(Snapshot {
            seq,
            changes,
            ..Snapshot::default()
        })
    }

    fn quiet(now: Tick) -> Delivery {
        let mut delivery = Delivery::new(TIMING, &snapshot(1, 1), now);
        delivery.take(&snapshot(1, 1), now);
        delivery.decided(None);
        delivery
    }

    // spec: S-20
    #[test]
    fn a_new_subscriber_gets_the_current_snapshot_at_once() {
        let mut delivery = Delivery::new(TIMING, &snapshot(7, 1), at(500));
        assert_eq!(delivery.due(), Some(at(500)));
        let batch = delivery.take(&snapshot(7, 1), at(500));
        assert_eq!(batch.snapshots().len(), 1);
        assert_eq!(batch.latest().seq, 7);
    }

    // spec: S-21
    #[test]
    fn a_change_after_a_quiet_time_comes_after_the_quiet_latency() {
        let mut delivery = quiet(at(0));
        delivery.push(&snapshot(2, 1), at(400));
        assert_eq!(delivery.due(), Some(at(410)));
    }

    // spec: S-21
    #[test]
    fn under_continuous_change_batches_keep_the_minimum_gap() {
        let mut delivery = quiet(at(0));
        delivery.push(&snapshot(2, 1), at(5));
        assert_eq!(delivery.due(), Some(at(50)));
        delivery.push(&snapshot(3, 1), at(20));
        assert_eq!(
            delivery.due(),
            Some(at(50)),
            "a later change does not put it off"
        );
    }

    // spec: S-21
    #[test]
    fn without_changes_a_round_runs_at_each_interval() {
        let mut delivery = quiet(at(0));
        assert_eq!(delivery.due(), Some(at(1_000)));
        let batch = delivery.take(&snapshot(1, 1), at(1_000));
        assert!(batch.snapshots().is_empty());
        delivery.decided(None);
        assert_eq!(delivery.due(), Some(at(2_000)));
    }

    // spec: S-22
    #[test]
    fn the_next_batch_waits_for_the_last_decision_and_contains_each_snapshot_once_in_order() {
        let mut delivery = quiet(at(0));
        delivery.push(&snapshot(2, 1), at(100));
        let first = delivery.take(&snapshot(2, 1), at(110));
        delivery.push(&snapshot(3, 2), at(120));
        delivery.push(&snapshot(4, 3), at(130));
        assert_eq!(delivery.due(), None);
        delivery.decided(None);
        assert_eq!(delivery.decided_up_to(), 2);
        assert_eq!(delivery.due(), Some(at(160)));
        let second = delivery.take(&snapshot(4, 3), at(160));
        let seqs = |batch: &Batch| batch.snapshots().iter().map(|s| s.seq).collect::<Vec<_>>();
        assert_eq!((seqs(&first), seqs(&second)), (vec![2], vec![3, 4]));
    }

    // spec: S-23
    #[test]
    fn waiting_changes_beyond_the_limit_are_merged_and_none_is_lost() {
        let mut delivery = quiet(at(0));
        for n in 2..=40 {
            delivery.push(&snapshot(n, n % 7 + 1), at(n));
            assert!(
                delivery.waiting.len() <= 11,
                "{} snapshots wait",
                delivery.waiting.len()
            );
        }
        let batch = delivery.take(&snapshot(40, 1), at(100));
        assert_eq!(batch.changed_executors().len(), 7);
        assert_eq!(batch.snapshots().last().unwrap().seq, 40);
    }

    // spec: S-23
    #[test]
    fn merges_stay_rare_when_more_executors_change_than_may_wait() {
        let mut delivery = quiet(at(0));
        let mut merges = 0;
        for n in 2..=2_000 {
            let before = delivery.waiting.len();
            delivery.push(&snapshot(n, n), at(n));
            merges += usize::from(delivery.waiting.len() <= before);
        }
        assert!(merges < 12, "{merges} merges");
    }

    // spec: S-24
    #[test]
    fn a_change_of_session_facts_causes_no_batch_and_is_in_the_next_one() {
        let mut delivery = quiet(at(0));
        delivery.push_quietly(&snapshot(2, 5));
        assert_eq!(delivery.due(), Some(at(1_000)));
        delivery.push(&snapshot(3, 6), at(400));
        assert_eq!(delivery.due(), Some(at(410)));
        let batch = delivery.take(&snapshot(3, 6), at(410));
        assert_eq!(batch.snapshots().len(), 2);
        assert_eq!(batch.changed_executors().len(), 2);
    }

    // spec: S-20
    #[test]
    fn the_first_snapshot_of_a_subscriber_has_everything_changed() {
        let mut current = Snapshot::clone(&snapshot(7, 1));
        for id in [2, 3] {
            let (id, of) = (crate::testing::id(id), Incarnation(1));
            let entry = Entry::requested(id, "default".into(), of, at(0), Epoch(0));
            current.entries.insert(Arc::new(entry));
        }
        let mut delivery = Delivery::new(TIMING, &current, at(0));
        let changed = delivery.take(&current, at(0)).changed_executors();
        assert_eq!(
            changed.iter().map(|id| id.get()).collect::<Vec<_>>(),
            [2, 3]
        );
    }

    // spec: S-21
    #[test]
    fn a_round_comes_when_the_subscriber_wants_to_wake_or_earlier() {
        for (wake, due) in [(Some(300), 300), (Some(1_700), 1_000), (None, 1_000)] {
            let mut delivery = Delivery::new(TIMING, &snapshot(1, 1), at(0));
            delivery.take(&snapshot(1, 1), at(0));
            delivery.decided(wake.map(at));
            assert_eq!(delivery.due(), Some(at(due)), "{wake:?}");
            delivery.push(&snapshot(2, 1), at(100));
            assert_eq!(delivery.due(), Some(at(110)), "{wake:?}");
        }
    }

    // spec: S-24
    #[test]
    fn several_requests_cause_one_immediate_round() {
        let mut delivery = quiet(at(0));
        delivery.ask();
        delivery.ask();
        assert_eq!(delivery.due(), Some(at(0)));
        delivery.take(&snapshot(1, 1), at(3));
        delivery.decided(None);
        assert_eq!(delivery.due(), Some(at(1_003)));
    }
}
