//! What the driver's backend does about demands: it shows the scalers who is idle, and carries out their steps.

use std::collections::BTreeMap;

use actix::Handler;

use super::messages::{PostDemand, RefusedDemand};
use super::{Scaler, Settings, Step};
use crate::actors::driver_backend::DriverBackend;
use crate::actors::driver_backend::messages::KeepTargets;
use crate::actors::profiles::messages::Bounds;
use crate::actors::snapshot_store::messages::Tell;
use crate::model::executor::{Class, How, Why};
use crate::model::news::{Aim, News};
use crate::model::{Batch, Entry, ExecutorId, ProfileName, Tick};

/// All profiles that are scaled: none where that is off.
#[derive(Debug, Default)]
pub struct Scalers {
    settings: Option<Settings>,
    by_profile: BTreeMap<ProfileName, Scaler>,
    /// Whether the first snapshot after adoption has been looked at, all of it.
    begun: bool,
}

impl Scalers {
    /// Of these profiles.
    pub fn new(settings: Settings, bounds: BTreeMap<ProfileName, Bounds>) -> Self {
        let scaler = |(profile, bounds)| (profile, Scaler::new(settings, bounds));
        Self {
            settings: Some(settings),
            by_profile: bounds.into_iter().map(scaler).collect(),
            begun: false,
        }
    }

    /// There is one more profile.
    pub fn add(&mut self, profile: ProfileName, bounds: Bounds) {
        if let Some(settings) = self.settings {
            self.by_profile
                .insert(profile, Scaler::new(settings, bounds));
        }
    }

    /// Shows them who is idle: O(changes), but for the first time.
    fn see(&mut self, batch: &Batch, now: Tick) {
        let latest = batch.latest();
        let mut see = |id: ExecutorId, entry: Option<&Entry>| {
            for (profile, scaler) in &mut self.by_profile {
                let own = entry.filter(|entry| entry.profile == *profile);
                scaler.see(id, own.is_some_and(is_idle), now);
            }
        };
        if std::mem::replace(&mut self.begun, true) {
            for id in batch.changed_executors() {
                see(id, latest.entry(id).map(AsRef::as_ref));
            }
        } else {
            for (id, entry) in latest.entries.iter() {
                see(id, Some(entry));
            }
        }
    }
}

/// Whether it is known to have nothing to do: one without a session may be busy.
fn is_idle(entry: &Entry) -> bool {
    entry.class() == Class::Running && entry.session.registered && entry.session.idle
}

impl DriverBackend {
    /// Carries out the steps that are due. While executors are held none is wanted, whatever there is to do.
    pub(in crate::actors::driver_backend) fn scale(&mut self, batch: &Batch) {
        if self.scalers.by_profile.is_empty() || !batch.latest().adopted {
            return;
        }
        let now = self.clock.now().tick;
        self.scalers.see(batch, now);
        if self.commands.held().is_some() {
            return;
        }
        let mut steps = Vec::new();
        for (profile, scaler) in &mut self.scalers.by_profile {
            let target = self.targets.get(profile).copied().unwrap_or_default();
            if let Some(step) = scaler.decide(target, now) {
                steps.push((profile.clone(), step));
            }
        }
        for (profile, Step { target, retire }) in steps {
            tracing::info!(
                profile = profile.as_str(),
                target,
                retired = retire.len(),
                "target set by autoscaling"
            );
            let targets = BTreeMap::from([(profile, target)]);
            self.targets.extend(targets.clone());
            self.keep.do_send(KeepTargets(targets.clone()));
            self.store.do_send(Tell(if retire.is_empty() {
                News::Targets(targets)
            } else {
                News::Retire {
                    ids: retire,
                    aim: Aim::Become(targets),
                    why: Why::Decommissioned("autoscaling".into()),
                    how: How::Drain {
                        within: self.commands.decommission_timeout(),
                    },
                }
            }));
        }
    }
}

impl Handler<PostDemand> for DriverBackend {
    type Result = Result<BTreeMap<ProfileName, u32>, RefusedDemand>;

    fn handle(&mut self, PostDemand(demands): PostDemand, _: &mut Self::Context) -> Self::Result {
        let scalers = &mut self.scalers.by_profile;
        if scalers.is_empty() {
            return Err(RefusedDemand::Off);
        }
        if let Some(unknown) = demands.keys().find(|name| !scalers.contains_key(*name)) {
            return Err(RefusedDemand::UnknownProfile(unknown.clone()));
        }
        let now = self.clock.now().tick;
        let wanted = demands.into_iter().filter_map(|(profile, demand)| {
            let wanted = scalers.get_mut(&profile)?.demanded(demand, now);
            Some((profile, wanted))
        });
        Ok(wanted.collect())
    }
}
