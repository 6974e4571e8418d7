//! Commands: targets, kill, decommission, hold, resume, stop (spec B-25, B-28 to B-35).
//!
//! [`targets`], [`picking`] and [`liveness`] decide; `handlers` send news to the store and answer.
//! Only the ledger has the targets. It marks executors and lowers targets in one step, so that no
//! snapshot shows one without the other (spec E-5). One actor handles all commands, so that none
//! comes between the steps of another. Uses the messages of the store, of EventHistory and of the
//! profiles.

mod handlers;
pub mod liveness;
pub mod messages;
pub mod picking;
pub mod targets;

use std::collections::BTreeMap;
use std::time::Duration;

use actix::{Addr, Recipient};
use tokio::sync::mpsc;

use crate::actors::event_history::event::What;
use crate::actors::event_history::messages::Happened;
use crate::actors::profiles::messages::Bounds;
use crate::actors::snapshot_store::SnapshotStore;
use crate::clock::Clock;
use crate::kubernetes::record::Held;
use crate::model::ProfileName;
use crate::model::delivery::Timing;
use messages::{ForgetTargets, KeepHeld, Stop};

/// The exit code of an application that was silent for too long (spec B-35).
pub const ABANDONED: u8 = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The time limit of an executor that is killed (spec B-28).
    pub kill_grace: Duration,
    /// The time limit of an executor that is decommissioned (spec B-30).
    pub decommission_timeout: Duration,
    /// How long the application may be silent; `None`: forever (spec B-35).
    pub ttl: Option<Duration>,
}

pub struct Wiring {
    pub settings: Settings,
    pub profiles: BTreeMap<ProfileName, Bounds>,
    /// The hold from before this start.
    pub held: Option<Held>,
    /// Stores the hold for the next start.
    pub keep_held: Recipient<KeepHeld>,
    pub forget: Recipient<ForgetTargets>,
    pub stop: mpsc::UnboundedSender<Stop>,
    pub events: Recipient<Happened>,
    pub store: Addr<SnapshotStore>,
    pub clock: Clock,
    /// The interval of batches, which are needed only to watch for silence.
    pub timing: Timing,
}

pub struct Commands {
    settings: Settings,
    profiles: BTreeMap<ProfileName, Bounds>,
    /// The hold, with the targets to restore.
    held: Option<Held>,
    liveness: Option<liveness::Liveness>,
    keep_held: Recipient<KeepHeld>,
    forget: Recipient<ForgetTargets>,
    stop: mpsc::UnboundedSender<Stop>,
    events: Recipient<Happened>,
    store: Addr<SnapshotStore>,
    clock: Clock,
    timing: Timing,
    /// Whether the driver was asked to stop.
    ending: bool,
}

impl Commands {
    pub fn new(wiring: Wiring) -> Self {
        let now = wiring.clock.now().tick;
        Self {
            settings: wiring.settings,
            profiles: wiring.profiles,
            held: wiring.held,
            liveness: (wiring.settings.ttl).map(|ttl| liveness::Liveness::new(ttl, now)),
            keep_held: wiring.keep_held,
            forget: wiring.forget,
            stop: wiring.stop,
            events: wiring.events,
            store: wiring.store,
            clock: wiring.clock,
            timing: wiring.timing,
            ending: false,
        }
    }

    fn set_held(&mut self, held: Option<Held>) {
        self.held.clone_from(&held);
        self.keep_held.do_send(KeepHeld(held));
    }

    /// During a hold, new targets are kept with the others.
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
