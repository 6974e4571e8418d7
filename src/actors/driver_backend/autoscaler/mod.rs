//! Autoscaler: targets that follow the application's demand (spec B-40 to B-42).
//!
//! One [`scaler`] per profile or pool decides. Each batch tells it which executors are idle.

pub mod scaler;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::messages::{PostDemand, RefusedDemand};
use super::plan::Plan;
use super::pools::Pools;
use super::profiles::Profiles;
use crate::actors::pod_allocator::messages::PreferNodes;
use crate::config::Config;
use crate::model::executor::{Class, LeaveMethod, LeaveReason};
use crate::model::news::{News, TargetChange};
use crate::model::{Batch, Entry, ProfileName, Snapshot, Tick};

use scaler::{Scaler, Step};

#[derive(Debug)]
pub struct Autoscaler {
    config: Arc<Config>,
    /// By profile, or by pool (spec B-74).
    scalers: BTreeMap<ProfileName, Scaler>,
}

impl Autoscaler {
    pub fn new(config: Arc<Config>) -> Self {
        Self {
            config,
            scalers: BTreeMap::new(),
        }
    }

    /// Updates the scalers with the idle executors: O(changes).
    pub fn observe(&mut self, batch: &Batch, pools: &Pools, profiles: &Profiles, now: Tick) {
        if !self.config.autoscaling.enabled {
            return;
        }
        (self.scalers).retain(|name, _| pools.bounds(name, profiles).is_some());
        for name in profiles.names().filter(|name| !name.is_of_spares()) {
            self.scalers.entry(pools.group(name).clone()).or_default();
        }
        let latest = batch.latest();
        for id in batch.changed_executors() {
            for (name, scaler) in &mut self.scalers {
                let of = |entry: &&Arc<Entry>| pools.group(&entry.profile) == name;
                let entry = latest.entry(id).filter(of);
                scaler.observe(id, entry.is_some_and(|entry| is_idle(entry)), now);
            }
        }
    }

    /// The due steps; none while executors are held, nor of a failed profile.
    pub fn decide(
        &mut self,
        latest: &Snapshot,
        pools: &Pools,
        profiles: &Profiles,
        now: Tick,
    ) -> Plan {
        let mut plan = Plan::default();
        let config = &self.config;
        if !config.autoscaling.enabled || latest.held.is_some() {
            return plan;
        }
        let scalers = self.scalers.iter_mut();
        for (name, scaler) in scalers.filter(|(name, _)| !latest.failed.contains_key(*name)) {
            let target = pools.target(name, latest);
            let Some(bounds) = pools.bounds(name, profiles) else {
                continue;
            };
            let Some(step) = scaler.decide(target, &config.autoscaling, bounds, now) else {
                continue;
            };
            let targets = BTreeMap::from([(name.clone(), step.target)]);
            // A pool of which too many profiles have failed stays as it is.
            let Ok(targets) = pools.expanded(targets, latest) else {
                continue;
            };
            let aim = match pools.is_pool(name) {
                // The profile of each has one less. Which of them has how many is the pool's matter.
                true => TargetChange::Fall,
                false => TargetChange::Become(targets.clone()),
            };
            let within = config.backend.decommission_timeout;
            plan.news.push(news(name, step, targets, aim, within));
        }
        plan
    }

    /// Takes over a demand: the executors that it takes, within bounds, and the nodes that new ones prefer. `prefers`:
    /// whether they can.
    ///
    /// # Errors
    /// Why none of it counts.
    pub fn demand(
        &mut self,
        post: PostDemand,
        pools: &Pools,
        profiles: &Profiles,
        prefers: bool,
        now: Tick,
    ) -> Result<(BTreeMap<ProfileName, u32>, PreferNodes), RefusedDemand> {
        let PostDemand { demands, mut nodes } = post;
        if !self.config.autoscaling.enabled {
            return Err(RefusedDemand::Off);
        }
        let mut known = Vec::new();
        for (name, demand) in demands {
            match pools.bounds(&name, profiles) {
                None => return Err(RefusedDemand::UnknownProfile(name)),
                Some(bounds) => known.push((name, demand, bounds)),
            }
        }
        nodes.retain(|_, nodes| !nodes.is_empty());
        if !prefers && let Some(profile) = nodes.keys().next() {
            return Err(RefusedDemand::OfASet(profile.clone()));
        }
        let (mut wanted, mut preferred) = (BTreeMap::new(), BTreeMap::new());
        for (name, demand, bounds) in known {
            let scaler = self.scalers.entry(name.clone()).or_default();
            scaler.demanded(demand, now);
            let nodes = nodes.remove(&name).unwrap_or_default();
            let each = pools.profiles(&name).into_iter();
            preferred.extend(each.map(|profile| (profile, nodes.clone())));
            wanted.insert(name, demand.wanted(self.config.autoscaling.ratio, bounds));
        }
        Ok((wanted, PreferNodes(preferred)))
    }

    /// Takes over a configuration that was read again (spec C-6).
    pub fn reconfigure(&mut self, config: Arc<Config>) {
        self.config = config;
    }
}

fn news(
    name: &ProfileName,
    Step { target, retire }: Step,
    targets: BTreeMap<ProfileName, u32>,
    aim: TargetChange,
    within: Duration,
) -> News {
    let (profile, retired) = (name.as_str(), retire.len());
    tracing::info!(profile, target, retired, "target set by autoscaling");
    if retire.is_empty() {
        return News::Targets(targets);
    }
    News::Retire {
        ids: retire,
        aim,
        why: LeaveReason::Decommissioned("autoscaling".into()),
        how: LeaveMethod::Drain { within },
    }
}

/// Whether an executor is known to be idle. Without a session it may be busy.
fn is_idle(entry: &Entry) -> bool {
    entry.class() == Class::Running && entry.session.registered && entry.session.idle
}

#[cfg(test)]
mod tests;
