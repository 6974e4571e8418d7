//! Spares: they ask to register, and are told to wait until they are promoted (spec B-77).

use std::time::Duration;

use super::registration::later;
use super::{Effect, Registry, Via};
use crate::model::{Entry, Tick};
use boatswain_agent::protocol::ToExecutor;

/// How long a spare waits before it asks again. Over a connection it is told sooner.
const OVER_A_CONNECTION: Duration = Duration::from_secs(10);

/// The same for one that sends requests.
const BY_REQUESTS: Duration = Duration::from_secs(1);

impl Registry {
    /// The answer to a spare's registration. That it asks is its sign of life, but after its promotion it has to begin in time,
    /// whatever keeps its pod from being labelled.
    pub(super) fn hold_back(&mut self, entry: &Entry, via: Via, now: Tick) -> ToExecutor {
        let id = entry.id;
        self.last_sign = Some(now);
        if entry.profile.is_of_spares() && self.awaited.contains_key(&id) {
            self.stop_waiting_for(id);
            self.wait_from(id, now, None);
        }
        match via {
            Via::Connection(connection) => {
                self.held_back.insert(id, connection);
                later(OVER_A_CONNECTION)
            }
            Via::Request => later(BY_REQUESTS),
        }
    }

    /// An executor's entry has changed: if its pod says now that it is a spare no more, it is asked to register.
    pub(super) fn let_begin(&mut self, entry: &Entry, effects: &mut Vec<Effect>) {
        if entry.is_spare() {
            return;
        }
        let connection = self.held_back.remove(&entry.id);
        effects.extend(connection.map(|one| Effect::Send(one, ToExecutor::Register)));
    }
}
