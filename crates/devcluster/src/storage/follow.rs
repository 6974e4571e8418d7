//! Following what happens, for what works inside the cluster: the collector and the node.

use std::sync::Arc;

use super::publish::Reader;
use super::server::{Published, Store};
use super::store::{Event, State};

/// How many events are handed over at once, so that who follows looks at the newest state now and then.
const BATCH: usize = 256;

/// A place in the event log.
#[derive(Debug)]
pub(crate) struct Follower {
    published: Reader,
    /// The version up to which all was handed over, and in which life of the store; none at the beginning.
    read: Option<(u64, u64)>,
}

/// What became of the cluster.
#[derive(Debug)]
pub(crate) enum News {
    /// All that was known is void: this is how things are. At the beginning, after a reset, and after falling behind.
    StartOver(State),
    /// This happened, and this is how things are.
    Events(Vec<Arc<Event>>, State),
}

impl Follower {
    pub(crate) fn new(store: &Store) -> Self {
        Self {
            published: store.published(),
            read: None,
        }
    }

    /// What comes next; nothing once the cluster is being stopped. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Option<News> {
        loop {
            let now = self.published.borrow_and_update().clone();
            if now.stopping {
                return None;
            }
            if let Some(news) = self.read(now) {
                return Some(news);
            }
            self.published.changed().await.ok()?;
        }
    }

    fn read(&mut self, now: Published) -> Option<News> {
        let Published { state, resets, .. } = now;
        let Some((read, life)) = self.read.filter(|(_, life)| *life == resets) else {
            self.read = Some((state.resource_version(), resets));
            return Some(News::StartOver(state));
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
                    return Some(News::StartOver(state));
                }
            }
        }
        self.read = Some((cursor, life));
        (!events.is_empty()).then_some(News::Events(events, state))
    }
}
