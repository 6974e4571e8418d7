//! What the registry keeps of one executor that has registered.

use std::collections::BTreeMap;

use serde::Serialize;

use super::ConnId;
use crate::model::{PodUid, ProfileName, Tick};
use boatswain_agent::protocol::{Demand, Heartbeat, Order, Register, ToExecutor};

/// An executor's account.
#[derive(Debug, Clone)]
pub struct Account {
    /// Its shape.
    pub profile: ProfileName,
    /// The pod that it runs in.
    pub uid: PodUid,
    /// The newest session's number (spec B-2).
    pub session: u64,
    /// How it is reached.
    pub reach: Reach,
    /// When anything was last heard of it (spec B-10).
    pub last_sign: Tick,
    /// What it said of itself when it registered.
    pub about: About,
    /// How many slots had work, when it last said; `None`: it has not said yet.
    pub busy_slots: Option<u32>,
    /// Its own figures, when it last sent some.
    pub metrics: BTreeMap<String, f64>,
    /// Whether it has said that it exits: what follows is no loss.
    pub is_exiting: bool,
    /// Whether it is on its way out, so that nobody gives it up any more.
    pub is_going: bool,
    /// When it is looked at next; never later than it would have to be given up.
    pub(super) due: Option<Tick>,
}

/// How an executor is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Over this connection, at any time.
    Connected(ConnId),
    /// Only with the answer to what it asks.
    Asking,
    /// Its connection was lost, then: it is disabled (spec B-14).
    Lost(Tick),
}

/// What an executor said of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct About {
    /// Where the application reaches it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// How many pieces of work it does at a time.
    pub slots: u32,
    /// Whatever else.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// Where its log can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_url: Option<String>,
}

impl From<&Register> for About {
    fn from(register: &Register) -> Self {
        Self {
            address: register.address.clone(),
            slots: register.slots,
            attributes: register.attributes.clone(),
            log_url: register.log_url.clone(),
        }
    }
}

impl Account {
    /// Whether it has nothing to do (spec B-21). One that has not said is not idle.
    pub fn is_idle(&self) -> bool {
        self.busy_slots == Some(0)
    }

    /// Whether its connection is lost, and why is not known yet (spec B-14).
    pub fn is_disabled(&self) -> bool {
        matches!(self.reach, Reach::Lost(_))
    }

    /// Takes in what a heartbeat says.
    pub(super) fn beat(&mut self, heartbeat: &Heartbeat) {
        self.busy_slots = Some(heartbeat.busy_slots);
        self.metrics.clone_from(&heartbeat.metrics);
    }
}

/// An order that stands until the executor ends.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    demand: Demand,
    by: Tick,
    why: String,
}

impl Standing {
    /// As it was given.
    pub(super) fn new(order: Order, now: Tick) -> Self {
        let by = now + order.within;
        Self {
            demand: order.demand,
            by,
            why: order.why,
        }
    }

    /// Whether the executor is told more by this order than by the earlier one.
    pub(super) fn outdoes(&self, earlier: &Self) -> bool {
        self.demand > earlier.demand || (self.demand == earlier.demand && self.by < earlier.by)
    }

    /// Whether it lets the executor finish its work.
    pub(super) fn is_drain(&self) -> bool {
        self.demand == Demand::Drain
    }

    /// As it is told now.
    pub(super) fn message(&self, now: Tick) -> ToExecutor {
        let left = now.until(self.by).as_millis();
        let deadline_ms = u64::try_from(left).unwrap_or(u64::MAX);
        let why = self.why.clone();
        match self.demand {
            Demand::Stop => ToExecutor::Stop { deadline_ms, why },
            Demand::Drain => ToExecutor::Decommission { deadline_ms, why },
        }
    }
}
