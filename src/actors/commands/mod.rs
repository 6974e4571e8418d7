//! Commands: what an application and its operators ask for: targets, kill, decommission, hold, resume, stop (spec B-25, B-28
//! to B-35).
//!
//! [`targets`], [`picking`] and [`liveness`] decide, `handlers` ask the store and answer. The store marks the executors that
//! are to leave, together with the targets that fall with them, so that no snapshot shows one without the other (spec E-5).
//! One actor has all of it, so that no command comes between the steps of another one. It uses the messages of the store, of
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
use messages::{Asked, KeepHeld, KeepTargets, Stop};
use targets::Targets;

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
    /// The targets of all profiles at the start; the ledger has them already.
    pub targets: BTreeMap<ProfileName, u32>,
    /// What is held from before this start.
    pub held: Option<Held>,
    /// Keeps targets over a restart.
    pub keep_targets: Recipient<KeepTargets>,
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
    targets: Targets,
    liveness: Option<liveness::Liveness>,
    keep_targets: Recipient<KeepTargets>,
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
    /// With the targets of the wiring.
    pub fn new(wiring: Wiring) -> Self {
        let Wiring {
            settings,
            profiles,
            targets,
            held,
            keep_targets,
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
            targets: Targets::new(profiles, targets, held),
            liveness: (settings.ttl).map(|ttl| liveness::Liveness::new(ttl, now)),
            keep_targets,
            keep_held,
            stop,
            events,
            store,
            clock,
            timing,
            ending: false,
        }
    }

    fn asked(&self) -> Asked {
        Asked {
            targets: self.targets.asked().clone(),
            held: self.targets.held().cloned(),
        }
    }

    fn set_held(&mut self, held: Option<Held>) {
        self.targets.set_held(held);
        self.keep_what_is_held();
    }

    fn keep_what_is_held(&self) {
        self.keep_held
            .do_send(KeepHeld(self.targets.held().cloned()));
    }

    fn happened(&self, what: What) {
        self.events.do_send(Happened(what));
    }
}

#[cfg(test)]
mod tests;
