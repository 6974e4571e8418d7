//! Counts the restarts of executors' containers in their pods (spec A-84).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::pod::ContainerState;
use crate::model::{Entry, ExecutorId, State};

/// The restarts of each executor's container that were counted.
#[derive(Debug, Default)]
pub struct Restarts(BTreeMap<ExecutorId, u32>);

impl Restarts {
    /// Restarts up to this number are not this executor's, or were counted by an earlier driver.
    pub fn begin(&mut self, id: ExecutorId, count: u32) {
        self.0.entry(id).or_insert(count);
    }

    /// An executor has changed; returns how often its container was restarted since it was seen last.
    pub fn observe(&mut self, entry: &Entry) -> u32 {
        let Some(pod) = entry.pod() else { return 0 };
        let count = pod.restart_count();
        let before = *self.0.entry(entry.id).or_insert(count);
        // A restored server shows fewer restarts for a while, all of them counted.
        self.0.insert(entry.id, count.max(before));
        count.saturating_sub(before)
    }

    /// An executor has left the ledger.
    pub fn removed(&mut self, id: ExecutorId) {
        self.0.remove(&id);
    }
}

/// The entry in the state in which its last program ended.
pub fn as_it_ended(entry: &Entry) -> Entry {
    let mut ended = entry.clone();
    if let State::Bound(bound) = &mut ended.state {
        let mut pod = (*bound.pod).clone();
        let last = (pod.restarts.as_ref()).and_then(|restarts| restarts.last.clone());
        pod.executor = match last {
            Some(last) => ContainerState::Terminated(last),
            None => ContainerState::Absent,
        };
        bound.pod = Arc::new(pod);
    }
    ended
}
