//! Ends that are reported as soon as the record contains them (spec L-1): pure.
//!
//! A successor that reads the record knows which ends its predecessor has reported, so it does not report them again
//! with another reason.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::model::{ExecutorId, LossReason, Tick};
use crate::planted::{self, Planted};

/// An end is reported after this time, even if the record could not be written: the application must not wait for a
/// loss until an outage is over.
pub const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub struct Reports {
    waiting: BTreeMap<ExecutorId, Arc<LossReason>>,
    /// When each of them is reported at the latest, the oldest first; also those that are reported already.
    deadlines: VecDeque<(Tick, ExecutorId)>,
}

impl Reports {
    /// Returns whether the end is new.
    pub fn insert(&mut self, id: ExecutorId, reason: Arc<LossReason>, now: Tick) -> bool {
        let patience = match planted::is(Planted::ReportedUnrecorded) {
            true => Duration::ZERO,
            false => PATIENCE,
        };
        let is_new = self.waiting.insert(id, reason).is_none();
        if is_new {
            self.deadlines.push_back((now + patience, id));
        }
        is_new
    }

    pub fn contains(&self, id: ExecutorId) -> bool {
        self.waiting.contains_key(&id)
    }

    /// Removes and returns the ends that the record contains.
    pub fn recorded(
        &mut self,
        is_recorded: impl Fn(ExecutorId) -> bool,
    ) -> Vec<(ExecutorId, Arc<LossReason>)> {
        (self.waiting.extract_if(.., |id, _| is_recorded(*id))).collect()
    }

    /// Removes and returns the ends that have waited too long.
    pub fn overdue(&mut self, now: Tick) -> Vec<(ExecutorId, Arc<LossReason>)> {
        let mut overdue = Vec::new();
        while let Some((at, id)) = self.deadlines.front().copied() {
            if self.waiting.contains_key(&id) && at > now {
                break;
            }
            self.deadlines.pop_front();
            overdue.extend(self.waiting.remove(&id).map(|reason| (id, reason)));
        }
        overdue
    }

    /// When the next end has waited too long.
    pub fn next_at(&self) -> Option<Tick> {
        self.deadlines.front().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::IdSet;

    fn at(seconds: u64) -> Tick {
        Tick::after_start(Duration::from_secs(seconds))
    }

    fn id(number: u64) -> ExecutorId {
        ExecutorId::new(number).unwrap()
    }

    fn ids(reports: Vec<(ExecutorId, Arc<LossReason>)>) -> Vec<u64> {
        reports.into_iter().map(|(id, _)| id.get()).collect()
    }

    // spec: L-1
    #[test]
    fn an_end_is_reported_once_when_it_is_recorded_or_has_waited_too_long() {
        let reason = Arc::new(LossReason::of_a_refusal("why"));
        let mut reports = Reports::default();
        assert!(reports.insert(id(1), Arc::clone(&reason), at(0)));
        assert!(!reports.insert(id(1), Arc::clone(&reason), at(1)), "known");
        assert!(reports.insert(id(2), Arc::clone(&reason), at(2)));
        assert!(reports.insert(id(3), reason, at(2)));
        assert_eq!(ids(reports.overdue(at(4))), [0; 0]);
        let written = IdSet::from_iter([id(1), id(3)]);
        let recorded = |id| written.contains(id);
        assert_eq!(ids(reports.recorded(recorded)), [1, 3]);
        assert_eq!(ids(reports.recorded(recorded)), [0; 0]);
        assert_eq!(ids(reports.overdue(at(6))), [0; 0]);
        assert_eq!(reports.next_at(), Some(at(7)));
        assert_eq!(ids(reports.overdue(at(7))), [2]);
        assert_eq!(reports.next_at(), None);
    }
}
