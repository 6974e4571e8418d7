//! Commands: what an application and its operators ask for: targets, kill, decommission, hold, resume, stop (spec B-25, B-28
//! to B-35).
//!
//! [`targets`], [`picking`] and [`liveness`] decide, `handlers` ask the store and answer. The ledger alone has the targets. It
//! marks the executors that are to leave together with the targets that fall with them, so that no snapshot shows one without
//! the other (spec E-5). One actor has all commands, so that none comes between the steps of another one. It uses the messages of the store, of
//! EventHistory and of the profiles.

mod handlers;
pub mod liveness;
pub mod messages;
pub mod picking;
pub mod targets;

use std::collections::BTreeMap;
use std::time::Duration;

use actix::{Addr, Recipient};

use crate::actors::event_history::event::What;
use crate::actors::event_history::messages::Happened;
use crate::actors::profiles::messages::Bounds;
use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::delivery::Timing;
use crate::clock::Clock;
use crate::kubernetes::record::Held;
use crate::model::ProfileName;
use messages::{KeepHeld, Stop};

/// The exit code of an application that was silent for too long (spec B-35).
pub const ABANDONED: u8 = 12;

/// How commands are carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How long an executor that is killed may take (spec B-28).
    pub kill_grace: Duration,
    /// How long an executor that is decommissioned may take (spec B-30).
    pub decommission_timeout: Duration,
    /// How long the application may be silent (spec B-35).
    pub ttl: Option<Duration>,
}

/// What Commands is made of.
pub struct Wiring {
    /// How commands are carried out.
    pub settings: Settings,
    /// All profiles.
    pub profiles: BTreeMap<ProfileName, Bounds>,
    /// What is held from before this start.
    pub held: Option<Held>,
    /// Keeps over a restart what is held.
    pub keep_held: Recipient<KeepHeld>,
    /// Ends the driver.
    pub stop: Recipient<Stop>,
    /// The event history.
    pub events: Recipient<Happened>,
    /// Where news goes.
    pub store: Addr<SnapshotStore>,
    /// The time.
    pub clock: Clock,
    /// When batches come, where the application's silence is watched.
    pub timing: Timing,
}

/// Carries out commands.
pub struct Commands {
    settings: Settings,
    profiles: BTreeMap<ProfileName, Bounds>,
    /// What the ledger wants again once executors are held no longer.
    held: Option<Held>,
    liveness: Option<liveness::Liveness>,
    keep_held: Recipient<KeepHeld>,
    stop: Recipient<Stop>,
    events: Recipient<Happened>,
    store: Addr<SnapshotStore>,
    clock: Clock,
    timing: Timing,
    /// The driver was asked to stop.
    ending: bool,
}

impl Commands {
    /// With what the wiring says is held.
    pub fn new(wiring: Wiring) -> Self {
        let Wiring {
            settings,
            profiles,
            held,
            keep_held,
            stop,
            events,
            store,
            clock,
            timing,
        } = wiring;
        let now = clock.now().tick;
        Self {
            settings,
            profiles,
            held,
            liveness: (settings.ttl).map(|ttl| liveness::Liveness::new(ttl, now)),
            keep_held,
            stop,
            events,
            store,
            clock,
            timing,
            ending: false,
        }
    }

    fn set_held(&mut self, held: Option<Held>) {
        self.held.clone_from(&held);
        self.keep_held.do_send(KeepHeld(held));
    }

    /// What is asked for while executors are held is held with them.
    fn hold_as_well(&mut self, asked: &BTreeMap<ProfileName, u32>) {
        if let Some(mut held) = self.held.clone() {
            held.targets.extend(asked.clone());
            self.set_held(Some(held));
        }
    }

    fn happened(&self, what: What) {
        self.events.do_send(Happened(what));
    }
}

#[cfg(test)]
mod tests;
