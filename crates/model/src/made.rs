//! The number of executors for which a pod was created over the application's life (spec A-5).

use super::executor::Entry;
use super::ids::ExecutorId;
use super::intervals::IdSet;

/// Counts each executor once, also across restarts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CreatedCount {
    count: u64,
    /// The counted executors that may still be in the ledger.
    open: IdSet,
}

impl CreatedCount {
    /// The count of an earlier incarnation, and the executors in it that may still be in the ledger.
    pub fn inherited(count: u64, open: IdSet) -> Self {
        Self { count, open }
    }

    /// Must be called for each executor that was changed or, with `None`, removed from the ledger.
    pub fn observe(&mut self, id: ExecutorId, entry: Option<&Entry>) {
        match entry {
            None => self.open.remove(id),
            Some(entry) if entry.uid().is_some() && !self.open.contains(id) => {
                self.open.insert(id);
                self.count = self.count.saturating_add(1);
            }
            Some(_) => {}
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::news::Outcome;
    use crate::testing::{Scenario, id};

    // spec: A-5
    #[test]
    fn each_executor_with_a_pod_is_counted_once_and_refused_requests_are_not() {
        let mut scenario = Scenario::new(&[("default", 3)]);
        let mut made = CreatedCount::inherited(7, [id(1)].into_iter().collect());
        for n in 1..=3 {
            let profile = "default".into();
            scenario.requested(n, Outcome::Sent { profile });
        }
        scenario.created(1);
        scenario.created(2);
        scenario.requested(3, Outcome::Refused("quota".into()));
        for _ in 0..3 {
            for n in 1..=3 {
                made.observe(id(n), scenario.entry(n).map(AsRef::as_ref));
            }
            scenario.runs(2);
        }
        assert_eq!(made.count(), 8, "1 was counted before");
        made.observe(id(2), None);
        assert_eq!((made.count(), made.open.len()), (8, 1));
    }
}
