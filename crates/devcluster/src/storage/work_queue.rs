//! The work queue of the garbage collector and the controllers: objects affected by events, and objects due for a later
//! check.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::follow::{Follower, Update};
use super::server::Store;
use super::store::{Event, State};
use crate::objects::object::Key;

/// Follows the event log, and remembers when objects are due for a check.
#[derive(Debug)]
pub(crate) struct WorkQueue {
    follower: Follower,
    later: BTreeSet<(Instant, Key)>,
}

impl WorkQueue {
    pub(crate) fn new(store: &Store) -> Self {
        Self {
            follower: Follower::new(store),
            later: BTreeSet::new(),
        }
    }

    /// The objects to check next: those that `affected` derives from new events or, after a reset, all objects that
    /// are `ours`. Empty if only the time of a later check has come; `None` once the cluster stops.
    pub(crate) async fn next(
        &mut self,
        ours: impl Fn(&Key) -> bool,
        affected: impl Fn(&State, &Event, &mut BTreeSet<Key>),
    ) -> Option<BTreeSet<Key>> {
        let next = self.later.first().map(|(at, _)| *at);
        let update = tokio::select! {
            biased;
            update = self.follower.next() => Some(update?),
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => None,
        };
        let mut keys = BTreeSet::new();
        match update {
            Some(Update::Reset(state)) => {
                let all = state.objects().keys();
                keys.extend(all.filter(|key| ours(key)).cloned());
            }
            Some(Update::Events(events, state)) => {
                for event in events {
                    affected(&state, &event, &mut keys);
                }
            }
            None => {}
        }
        Some(keys)
    }

    pub(crate) fn later(&mut self, key: Key, wait: Duration) {
        self.later.insert((Instant::now() + wait, key));
    }

    /// Removes and returns an object whose check is due.
    pub(crate) fn due(&mut self) -> Option<Key> {
        let is_due = |(at, _): &&(Instant, Key)| *at <= Instant::now();
        self.later.first().filter(is_due)?;
        self.later.pop_first().map(|(_, key)| key)
    }
}
