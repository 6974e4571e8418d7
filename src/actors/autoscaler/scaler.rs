//! Autoscaling: from what an application has to do to how many executors it gets: `(state, now) → step`, pure (spec B-40
//! to B-42).
//!
//! Up by one, two, four … while more is wanted than is there; down by letting those go that have had nothing to do for a
//! while, a quarter at most at a time. Without news from the application nothing changes.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::actors::profiles::messages::Bounds;
use crate::model::{ExecutorId, Tick};

/// A target falls by this part of it at most in one step; by one at least.
const MOST_AT_A_TIME: u32 = 4;

/// How it is scaled, whatever the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How many slots are wanted for each that has work, in thousandths.
    pub ratio: u32,
    /// How long more has to be wanted before the first step up.
    pub backlog_timeout: Duration,
    /// From one step to the next.
    pub sustained_timeout: Duration,
    /// How long an executor has to have nothing to do before it goes.
    pub idle_timeout: Duration,
    /// How long a demand stands that is not renewed.
    pub demand_ttl: Duration,
}

/// What an application has to do: in slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Demand {
    /// Work that waits for a slot.
    pub pending: u32,
    /// Work that has one.
    pub running: u32,
}

impl Demand {
    /// How many executors that takes: the work times the ratio, by the slots of each, rounded up, within bounds.
    pub fn wanted(self, ratio: u32, bounds: Bounds) -> u32 {
        let slots = (u64::from(self.pending) + u64::from(self.running)) * u64::from(ratio);
        let each = u64::from(bounds.slots.max(1)) * 1_000;
        let executors = u32::try_from(slots.div_ceil(each)).unwrap_or(u32::MAX);
        executors
            .min(bounds.most)
            .max(bounds.least.min(bounds.most))
    }
}

/// What becomes of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// How many executors are wanted now.
    pub target: u32,
    /// Those that go with it: as many as the target falls by.
    pub retire: Vec<ExecutorId>,
}

/// How one profile is scaled.
#[derive(Debug, Clone)]
pub struct Scaler {
    settings: Settings,
    bounds: Bounds,
    demand: Option<(Demand, Tick)>,
    backlog: Option<Backlog>,
    /// Who has had nothing to do, and since when.
    idle: BTreeMap<ExecutorId, Tick>,
    /// The next step down is not before then.
    down_at: Tick,
}

/// More is wanted than is there.
#[derive(Debug, Clone, Copy)]
struct Backlog {
    /// The next step up.
    next: Tick,
    /// By so many.
    by: u32,
}

impl Scaler {
    /// Of which nothing is demanded yet.
    pub fn new(settings: Settings, bounds: Bounds) -> Self {
        Self {
            settings,
            bounds,
            demand: None,
            backlog: None,
            idle: BTreeMap::new(),
            down_at: Tick::default(),
        }
    }

    /// The application says what it has to do; answered with how many executors that takes.
    pub fn demanded(&mut self, demand: Demand, now: Tick) -> u32 {
        self.demand = Some((demand, now));
        demand.wanted(self.settings.ratio, self.bounds)
    }

    /// Whether an executor has nothing to do.
    pub fn see(&mut self, id: ExecutorId, idle: bool, now: Tick) {
        if idle {
            self.idle.entry(id).or_insert(now);
        } else {
            self.idle.remove(&id);
        }
    }

    /// What becomes of the profile, if anything does now.
    pub fn decide(&mut self, target: u32, now: Tick) -> Option<Step> {
        let fresh = |(_, at): &(Demand, Tick)| now.since(*at) < self.settings.demand_ttl;
        let Some((demand, _)) = self.demand.filter(fresh) else {
            self.backlog = None;
            return None;
        };
        let wanted = demand.wanted(self.settings.ratio, self.bounds);
        if wanted > target {
            return self.up(target, wanted, now);
        }
        self.backlog = None;
        self.down(target, wanted, now)
    }

    fn up(&mut self, target: u32, wanted: u32, now: Tick) -> Option<Step> {
        let backlog = self.backlog.get_or_insert(Backlog {
            next: now + self.settings.backlog_timeout,
            by: 1,
        });
        if now < backlog.next {
            return None;
        }
        let by = backlog.by.min(wanted - target);
        backlog.next = now + self.settings.sustained_timeout;
        backlog.by = backlog.by.saturating_mul(2);
        Some(Step {
            target: target + by,
            retire: Vec::new(),
        })
    }

    fn down(&mut self, target: u32, wanted: u32, now: Tick) -> Option<Step> {
        if target == wanted || now < self.down_at {
            return None;
        }
        let most = (target / MOST_AT_A_TIME).max(1).min(target - wanted);
        let over = |since: Tick| now.since(since) >= self.settings.idle_timeout;
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
        self.down_at = now + self.settings.sustained_timeout;
        Some(Step {
            target: target - fewer,
            retire,
        })
    }
}

#[cfg(test)]
mod tests;
