//! Follows the event log on behalf of components inside the cluster: the garbage collector, the controllers and the
//! node.

use std::sync::Arc;

use super::publish::Reader;
use super::server::{Published, Store};
use super::store::{Event, State};

/// How many events are delivered at once, so that the follower sees a recent state from time to time.
const BATCH: usize = 256;

/// A position in the event log.
#[derive(Debug)]
pub(crate) struct Follower {
    published: Reader,
    /// The version up to which events were delivered, and the count of resets at that time; `None` at the start.
    read: Option<(u64, u64)>,
}

/// What has changed.
#[derive(Debug)]
pub(crate) enum Update {
    /// The follower must rebuild its view from this state. Sent at the start, after a reset, and after the follower
    /// fell behind the log.
    Reset(State),
    /// New events, with the state after them.
    Events(Vec<Arc<Event>>, State),
}

impl Follower {
    pub(crate) fn new(store: &Store) -> Self {
        Self {
            published: store.published(),
            read: None,
        }
    }

    /// The next update; `None` once the cluster stops. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Update> {
        loop {
            let now = self.published.borrow_and_update().clone();
            if now.stopping {
                return None;
            }
            if let Some(update) = self.read(now) {
                return Some(update);
            }
            self.published.changed().await.ok()?;
        }
    }

    fn read(&mut self, now: Published) -> Option<Update> {
        let Published { state, resets, .. } = now;
        let Some((read, life)) = self.read.filter(|(_, life)| *life == resets) else {
            self.read = Some((state.resource_version(), resets));
            return Some(Update::Reset(state));
        };
        let mut events = Vec::new();
        let mut cursor = read;
        while events.len() < BATCH {
            match state.event_after(cursor) {
                Ok(Some(event)) => {
                    cursor = event.object().resource_version();
                    events.push(event.clone());
                }
                Ok(None) => break,
                Err(_) => {
                    self.read = Some((state.resource_version(), life));
                    return Some(Update::Reset(state));
                }
            }
        }
        self.read = Some((cursor, life));
        (!events.is_empty()).then_some(Update::Events(events, state))
    }
}
