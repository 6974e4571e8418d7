//! How many executors the application has had over its life (spec A-5): those that a pod was made for.

use std::collections::BTreeSet;

use super::executor::Entry;
use super::ids::ExecutorId;

/// A count that each executor enters once, over restarts too.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Made {
    count: u64,
    /// Those among them that may still be in the ledger.
    open: BTreeSet<ExecutorId>,
}

impl Made {
    /// As an earlier incarnation left it: so many, among them these.
    pub fn inherited(count: u64, open: impl IntoIterator<Item = ExecutorId>) -> Self {
        let open = open.into_iter().collect();
        Self { count, open }
    }

    /// An executor has changed, or has left the ledger.
    pub fn see(&mut self, id: ExecutorId, entry: Option<&Entry>) {
        match entry {
            None => {
                self.open.remove(&id);
            }
            Some(entry) if entry.uid().is_some() && self.open.insert(id) => self.count += 1,
            Some(_) => {}
        }
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::news::Outcome;
    use crate::testing::{Scenario, id};

    // spec: A-5
    #[test]
    fn each_executor_with_a_pod_is_counted_once_and_what_was_refused_is_not() {
        let mut scenario = Scenario::new(&[("default", 3)]);
        let mut made = Made::inherited(7, [id(1)]);
        for n in 1..=3 {
            let profile = "default".into();
            scenario.requested(n, Outcome::Sent { profile });
        }
        scenario.created(1);
        scenario.created(2);
        scenario.requested(3, Outcome::Refused("quota".into()));
        for _ in 0..3 {
            for n in 1..=3 {
                made.see(id(n), scenario.entry(n).map(AsRef::as_ref));
            }
            scenario.runs(2);
        }
        assert_eq!(made.count(), 8, "1 was counted before");
        made.see(id(2), None);
        assert_eq!((made.count(), made.open.len()), (8, 1));
    }
}
