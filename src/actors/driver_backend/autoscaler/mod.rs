//! Autoscaler: targets that follow the application's demand (spec B-40 to B-42).
//!
//! One [`scaler`] per profile decides. Each batch tells it which executors are idle.

pub mod scaler;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::messages::{PostDemand, RefusedDemand};
use super::plan::Plan;
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
    by_profile: BTreeMap<ProfileName, Scaler>,
}

impl Autoscaler {
    pub fn new(config: Arc<Config>) -> Self {
        Self {
            config,
            by_profile: BTreeMap::new(),
        }
    }

    /// Updates the scalers with the idle executors: O(changes).
    pub fn observe(&mut self, batch: &Batch, profiles: &Profiles, now: Tick) {
        if !self.config.autoscaling.enabled {
            return;
        }
        (self.by_profile).retain(|name, _| profiles.bounds(name).is_some());
        for name in profiles.names() {
            self.by_profile.entry(name.clone()).or_default();
        }
        let latest = batch.latest();
        for id in batch.changed_executors() {
            for (profile, scaler) in &mut self.by_profile {
                let entry = latest.entry(id).filter(|entry| entry.profile == *profile);
                scaler.observe(id, entry.is_some_and(|entry| is_idle(entry)), now);
            }
        }
    }

    /// The due steps; none while executors are held, nor of a failed profile.
    pub fn decide(&mut self, latest: &Snapshot, profiles: &Profiles, now: Tick) -> Plan {
        let mut plan = Plan::default();
        let config = &self.config;
        if !config.autoscaling.enabled || latest.held.is_some() {
            return plan;
        }
        let scalers = self.by_profile.iter_mut();
        for (profile, scaler) in scalers.filter(|(name, _)| !latest.failed.contains_key(*name)) {
            let target = latest.targets.get(profile);
            let target = target.map_or(0, |target| target.asked);
            let Some(bounds) = profiles.bounds(profile) else {
                continue;
            };
            if let Some(step) = scaler.decide(target, &config.autoscaling, bounds, now) {
                let within = config.backend.decommission_timeout;
                plan.news.push(news(profile, step, within));
            }
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
            match profiles.bounds(&name) {
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
            let scaler = self.by_profile.entry(name.clone()).or_default();
            scaler.demanded(demand, now);
            preferred.insert(name.clone(), nodes.remove(&name).unwrap_or_default());
            wanted.insert(name, demand.wanted(self.config.autoscaling.ratio, bounds));
        }
        Ok((wanted, PreferNodes(preferred)))
    }

    /// Takes over a configuration that was read again (spec C-6).
    pub fn reconfigure(&mut self, config: Arc<Config>) {
        self.config = config;
    }
}

fn news(profile: &ProfileName, Step { target, retire }: Step, within: Duration) -> News {
    tracing::info!(
        profile = profile.as_str(),
        target,
        retired = retire.len(),
        "target set by autoscaling"
    );
    let targets = BTreeMap::from([(profile.clone(), target)]);
    if retire.is_empty() {
        return News::Targets(targets);
    }
    News::Retire {
        ids: retire,
        aim: TargetChange::Become(targets),
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
