//! Which objects are to be looked at: those that something has happened to, and those whose time has come.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::follow::{Follower, News};
use super::server::Store;
use super::store::{Event, State};
use crate::objects::object::Key;

/// Follows what happens, and keeps in mind what is to be looked at later.
#[derive(Debug)]
pub(crate) struct Looks {
    follower: Follower,
    later: BTreeSet<(Instant, Key)>,
}

impl Looks {
    pub(crate) fn new(store: &Store) -> Self {
        Self {
            follower: Follower::new(store),
            later: BTreeSet::new(),
        }
    }

    /// What is to be looked at because of what comes next, as `concerned` has it of an event: of all that there is, where
    /// everything starts over, those that are `ours`. Empty where nothing has come but somebody's time; nothing once the
    /// cluster is being stopped.
    pub(crate) async fn next(
        &mut self,
        ours: impl Fn(&Key) -> bool,
        concerned: impl Fn(&State, &Event, &mut BTreeSet<Key>),
    ) -> Option<BTreeSet<Key>> {
        let next = self.later.first().map(|(at, _)| *at);
        let news = tokio::select! {
            biased;
            news = self.follower.next() => Some(news?),
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => None,
        };
        let mut keys = BTreeSet::new();
        match news {
            Some(News::StartOver(state)) => {
                let all = state.objects().keys();
                keys.extend(all.filter(|key| ours(key)).cloned());
            }
            Some(News::Events(events, state)) => {
                for event in events {
                    concerned(&state, &event, &mut keys);
                }
            }
            None => {}
        }
        Some(keys)
    }

    /// Has an object looked at after a while.
    pub(crate) fn later(&mut self, key: Key, wait: Duration) {
        self.later.insert((Instant::now() + wait, key));
    }

    /// One whose time has come.
    pub(crate) fn due(&mut self) -> Option<Key> {
        let is_due = |(at, _): &&(Instant, Key)| *at <= Instant::now();
        self.later.first().filter(is_due)?;
        self.later.pop_first().map(|(_, key)| key)
    }
}
