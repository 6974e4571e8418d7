//! Steering: what an application and its operators ask for beyond how many executors there are (spec B-28 to B-35).
//!
//! [`picking`] and [`liveness`] decide, `handlers` ask the store and answer. Who goes is marked by the store, together with
//! the targets that fall with it, so that no step is seen in between (spec E-5).

mod handlers;
pub mod liveness;
pub mod messages;
pub mod picking;

use std::time::Duration;

use actix::Recipient;

use crate::kubernetes::record::Held;
use messages::{KeepHeld, Stop};

/// The exit code of an application that was silent for too long (spec B-35).
pub const ABANDONED: u8 = 12;

/// How what is asked for is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How long one that is killed may take (spec B-28).
    pub kill_grace: Duration,
    /// How long one that is decommissioned may take (spec B-30).
    pub decommission_timeout: Duration,
    /// How long the application may be silent (spec B-35).
    pub ttl: Option<Duration>,
}

/// What the commands is made of.
pub struct Wiring {
    /// How it is carried out.
    pub settings: Settings,
    /// What is held from before this start.
    pub held: Option<Held>,
    /// Who keeps over a restart what is held.
    pub keep: Recipient<KeepHeld>,
    /// Who ends the driver.
    pub stop: Recipient<Stop>,
}

/// What was asked for, and how it is carried out.
pub(super) struct Commands {
    settings: Settings,
    held: Option<Held>,
    liveness: Option<liveness::Liveness>,
    keep: Recipient<KeepHeld>,
    stop: Recipient<Stop>,
    /// The driver was told to stop.
    ending: bool,
}

impl Commands {
    pub(super) fn new(wiring: Wiring, now: crate::model::Tick) -> Self {
        let Wiring {
            settings,
            held,
            keep,
            stop,
        } = wiring;
        Self {
            settings,
            held,
            liveness: settings.ttl.map(|ttl| liveness::Liveness::new(ttl, now)),
            keep,
            stop,
            ending: false,
        }
    }

    /// How long one that is decommissioned may take, where nobody says.
    pub(super) fn decommission_timeout(&self) -> Duration {
        self.settings.decommission_timeout
    }

    /// What is held, if anything is.
    pub(super) fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    /// The same, to be changed; it is kept afterwards.
    pub(super) fn set_held(&mut self, held: Option<Held>) {
        self.held.clone_from(&held);
        self.keep.do_send(KeepHeld(held));
    }
}
