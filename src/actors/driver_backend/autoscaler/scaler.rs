//! Decides a profile's target from the demand: `(state, now) → step`, pure (spec B-40 to B-42).
//!
//! A target rises by 1, 2, 4 … while demand exceeds it. It falls by the executors that have been
//! idle for a while, at most a quarter per step. It does not change if the demand is out of date.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::actors::profile_messages::Bounds;
use crate::config::Autoscaling;
use crate::model::{ExecutorId, Tick};

/// A step down is at most the target divided by this, and at least 1.
const MOST_AT_A_TIME: u32 = 4;

/// The application's demand, in slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Demand {
    /// Work that waits for a slot.
    pub pending: u32,
    /// Work that has a slot.
    pub running: u32,
}

impl Demand {
    /// The executors that this takes: work × ratio ÷ slots of each, rounded up, within the bounds.
    pub fn wanted(self, ratio: u32, bounds: Bounds) -> u32 {
        let slots = (u64::from(self.pending) + u64::from(self.running)) * u64::from(ratio);
        let each = u64::from(bounds.slots.max(1)) * 1_000;
        let executors = u32::try_from(slots.div_ceil(each)).unwrap_or(u32::MAX);
        executors
            .min(bounds.most)
            .max(bounds.least.min(bounds.most))
    }
}

/// A change of a profile's target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub target: u32,
    /// The executors to retire, as many as the target falls by.
    pub retire: Vec<ExecutorId>,
}

/// The autoscaling of one profile.
#[derive(Debug, Clone, Default)]
pub struct Scaler {
    demand: Option<(Demand, Tick)>,
    backlog: Option<Backlog>,
    /// The idle executors, and since when each is idle.
    idle: BTreeMap<ExecutorId, Tick>,
    /// The earliest time of the next step down.
    down_at: Tick,
}

/// The state while demand exceeds the target.
#[derive(Debug, Clone, Copy)]
struct Backlog {
    /// The time of the next step up.
    next: Tick,
    /// The size of the next step.
    by: u32,
}

impl Scaler {
    /// Records the demand.
    pub fn demanded(&mut self, demand: Demand, now: Tick) {
        self.demand = Some((demand, now));
    }

    /// Records whether an executor is idle.
    pub fn observe(&mut self, id: ExecutorId, idle: bool, now: Tick) {
        if idle {
            self.idle.entry(id).or_insert(now);
        } else {
            self.idle.remove(&id);
        }
    }

    /// The step that is due, if any.
    pub fn decide(
        &mut self,
        target: u32,
        config: &Autoscaling,
        bounds: Bounds,
        now: Tick,
    ) -> Option<Step> {
        let fresh = |(_, at): &(Demand, Tick)| now.since(*at) < config.demand_ttl;
        let Some((demand, _)) = self.demand.filter(fresh) else {
            self.backlog = None;
            return None;
        };
        let wanted = demand.wanted(config.ratio, bounds);
        if wanted > target {
            return self.up(target, wanted, config, now);
        }
        self.backlog = None;
        self.down(target, wanted, config, now)
    }

    fn up(&mut self, target: u32, wanted: u32, config: &Autoscaling, now: Tick) -> Option<Step> {
        let backlog = self.backlog.get_or_insert(Backlog {
            next: now + config.backlog_timeout,
            by: 1,
        });
        if now < backlog.next {
            return None;
        }
        let by = backlog.by.min(wanted - target);
        backlog.next = now + config.sustained_timeout;
        backlog.by = backlog.by.saturating_mul(2);
        Some(Step {
            target: target + by,
            retire: Vec::new(),
        })
    }

    fn down(&mut self, target: u32, wanted: u32, config: &Autoscaling, now: Tick) -> Option<Step> {
        if target == wanted || now < self.down_at {
            return None;
        }
        let most = (target / MOST_AT_A_TIME).max(1).min(target - wanted);
        let over = |since: Tick| now.since(since) >= config.idle_timeout;
        let mut due: Vec<(Tick, Reverse<ExecutorId>)> = (self.idle.iter())
            .filter(|(_, since)| over(**since))
            .map(|(id, since)| (*since, Reverse(*id)))
            .collect();
        due.sort_unstable();
        due.truncate(most as usize);
        let retire: Vec<ExecutorId> = due.into_iter().map(|(_, Reverse(id))| id).collect();
        let fewer = u32::try_from(retire.len()).unwrap_or(most);
        if fewer == 0 {
            return None;
        }
        for id in &retire {
            self.idle.remove(id);
        }
        self.down_at = now + config.sustained_timeout;
        Some(Step {
            target: target - fewer,
            retire,
        })
    }
}

#[cfg(test)]
mod tests;
