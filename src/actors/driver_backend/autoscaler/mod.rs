//! Autoscaler: targets that follow the application's demand (spec B-40 to B-42).
//!
//! One [`scaler`] per profile decides. Each batch tells it which executors are idle.

pub mod scaler;

use std::collections::BTreeMap;
use std::time::Duration;

use super::messages::{PostDemand, RefusedDemand};
use super::plan::Plan;
use super::profiles::Profiles;
use crate::actors::pod_allocator::messages::PreferNodes;
use crate::model::executor::{Class, LeaveMethod, LeaveReason};
use crate::model::news::{News, TargetChange};
use crate::model::{Batch, Entry, ProfileName, Snapshot, Tick};

use scaler::{Scaler, Settings, Step};

#[derive(Debug)]
pub struct Autoscaler {
    /// `None` if autoscaling is off.
    settings: Option<Settings>,
    /// The time limit of a decommissioning (spec B-30).
    decommission_timeout: Duration,
    by_profile: BTreeMap<ProfileName, Scaler>,
}

impl Autoscaler {
    pub fn new(settings: Option<Settings>, decommission_timeout: Duration) -> Self {
        Self {
            settings,
            decommission_timeout,
            by_profile: BTreeMap::new(),
        }
    }

    /// Updates the scalers with the idle executors: O(changes).
    pub fn observe(&mut self, batch: &Batch, profiles: &Profiles, now: Tick) {
        if self.settings.is_none() {
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

    /// The due steps; none while executors are held.
    pub fn decide(&mut self, latest: &Snapshot, profiles: &Profiles, now: Tick) -> Plan {
        let mut plan = Plan::default();
        let Some(settings) = self.settings.filter(|_| latest.held.is_none()) else {
            return plan;
        };
        for (profile, scaler) in &mut self.by_profile {
            let target = latest.targets.get(profile);
            let target = target.map_or(0, |target| target.asked);
            let Some(bounds) = profiles.bounds(profile) else {
                continue;
            };
            if let Some(step) = scaler.decide(target, &settings, bounds, now) {
                plan.news
                    .push(news(profile, step, self.decommission_timeout));
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
        let settings = self.settings.ok_or(RefusedDemand::Off)?;
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
            wanted.insert(name, demand.wanted(settings.ratio, bounds));
        }
        Ok((wanted, PreferNodes(preferred)))
    }

    /// Takes over settings of the configuration, unless autoscaling is off (spec C-6).
    pub fn reconfigure(&mut self, settings: Settings) {
        self.settings = self.settings.map(|_| settings);
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
