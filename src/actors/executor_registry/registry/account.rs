//! The registry's state of one registered executor.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use serde::Serialize;

use super::super::rate::Used;
use super::ConnId;
use crate::model::executor::Session;
use crate::model::failures::Growth;
use crate::model::{PodUid, ProfileName, Tick};
use boatswain_agent::protocol::{Demand, Heartbeat, Order, Register, ToExecutor, Usage};

/// An executor that uses this much of its memory limit is near it (spec L-44).
const NEAR_PERCENT: u128 = 90;

#[derive(Debug, Clone)]
pub struct Account {
    pub profile: ProfileName,
    pub uid: PodUid,
    /// The number of the newest session.
    pub session: u64,
    pub reach: Reach,
    /// The time of the last sign of life.
    pub last_sign: Tick,
    pub about: About,
    /// The busy slots of the last heartbeat; `None` before the first.
    pub busy_slots: Option<u32>,
    /// The metrics of the last heartbeat that had any.
    pub metrics: BTreeMap<String, f64>,
    /// What its container used at the last heartbeat; `None` if that did not say.
    pub usage: Option<Usage>,
    /// How its memory may grow while it runs, if it may (spec L-44).
    pub(super) growth: Option<Growth>,
    /// Whether it has reported that it exits; the end of its connection is then no loss.
    pub is_exiting: bool,
    /// Whether it is leaving, so that it is not given up any more.
    pub is_going: bool,
    /// Whether it has asked to be decommissioned, which is done once.
    pub(super) has_asked_to_go: bool,
    /// Of the rate of its messages.
    pub(super) messages: Used,
    /// The next check; never later than the time at which the executor would have to be given up.
    pub(super) due: Option<Tick>,
}

/// How messages reach an executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Over this connection, at any time.
    Connected(ConnId),
    /// Only with the answer to its next request.
    Asking,
    /// The connection was lost at this time: the executor is disabled.
    Lost(Tick),
}

/// What an executor reports about itself when it registers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct About {
    /// Where the application reaches the executor.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// The number of tasks that it runs at a time.
    pub slots: u32,
    /// Any further attributes.
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
    /// Whether it is idle (spec B-21). An executor that has sent no heartbeat is not.
    pub fn is_idle(&self) -> bool {
        self.busy_slots == Some(0)
    }

    /// Whether its connection is lost for a reason that is not known yet (spec B-14).
    pub fn is_disabled(&self) -> bool {
        matches!(self.reach, Reach::Lost(_))
    }

    /// What the ledger is to contain of its session.
    pub(super) fn session(&self) -> Session {
        Session {
            memory: self.growth.and_then(|growth| self.outgrown(growth)),
            ..Session::open(self.is_idle())
        }
    }

    /// The memory limit, in bytes, that it should have because it is near its own.
    // spec: L-44
    fn outgrown(&self, growth: Growth) -> Option<NonZeroU64> {
        let usage = self.usage?;
        let limit = usage.memory_limit_bytes?;
        let is_near = u128::from(usage.memory_bytes) * 100 >= u128::from(limit) * NEAR_PERCENT;
        NonZeroU64::new(growth.after(limit).filter(|_| is_near)?)
    }

    pub(super) fn beat(&mut self, heartbeat: &Heartbeat) {
        self.busy_slots = Some(heartbeat.busy_slots);
        self.metrics.clone_from(&heartbeat.metrics);
        self.usage = heartbeat.usage;
    }
}

/// An order that stays valid until the executor ends.
#[derive(Debug, Clone)]
pub(super) struct StandingOrder {
    demand: Demand,
    by: Tick,
    why: String,
}

impl StandingOrder {
    pub(super) fn new(order: Order, now: Tick) -> Self {
        let by = now + order.within;
        Self {
            demand: order.demand,
            by,
            why: order.why,
        }
    }

    /// Whether this order is stricter than the earlier one, or due sooner.
    pub(super) fn outdoes(&self, earlier: &Self) -> bool {
        self.demand > earlier.demand || (self.demand == earlier.demand && self.by < earlier.by)
    }

    /// Whether the executor may finish its work.
    pub(super) fn is_drain(&self) -> bool {
        self.demand == Demand::Drain
    }

    /// The message, with the time that is left now.
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
