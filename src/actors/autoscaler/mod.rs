//! Autoscaler: targets that follow what the application has to do (spec B-40 to B-42).
//!
//! One pure [`scaler`] a profile decides. On each of its batches this actor shows the scalers which executors are idle, and
//! sends the steps that are due to the store. It uses the messages of the store and of the profiles.

pub mod messages;
pub mod scaler;

use std::collections::BTreeMap;
use std::time::Duration;

use actix::{Actor, Addr, AsyncContext, Context, Handler};

use crate::actors::profiles::messages::{Bounds, ProfileAdded};
use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::delivery::Timing;
use crate::actors::snapshot_store::messages::{Decided, Round, Subscribe, Subscriber, Tell};
use crate::clock::Clock;
use crate::kubernetes::pod_template::TemplateError;
use crate::model::executor::{Class, How, Why};
use crate::model::news::{Aim, News};
use crate::model::{Batch, Entry, ExecutorId, ProfileName, Snapshot, Tick};

use messages::{PostDemand, RefusedDemand};
use scaler::{Scaler, Settings, Step};

/// Scales all profiles, or none where autoscaling is off.
pub struct Autoscaler {
    settings: Option<Settings>,
    by_profile: BTreeMap<ProfileName, Scaler>,
    /// Whether the first snapshot after adoption has been looked at, all of it.
    begun: bool,
    decommission_timeout: Duration,
    store: Addr<SnapshotStore>,
    clock: Clock,
    timing: Timing,
}

/// What Autoscaler is made of.
pub struct Wiring {
    /// How targets follow demand; `None`: they do not.
    pub settings: Option<Settings>,
    /// All profiles.
    pub profiles: BTreeMap<ProfileName, Bounds>,
    /// How long an executor that is decommissioned may take (spec B-30).
    pub decommission_timeout: Duration,
    /// Where news goes.
    pub store: Addr<SnapshotStore>,
    /// The time.
    pub clock: Clock,
    /// When batches come.
    pub timing: Timing,
}

impl Autoscaler {
    /// Without any demand yet.
    pub fn new(wiring: Wiring) -> Self {
        let Wiring {
            settings,
            profiles,
            decommission_timeout,
            store,
            clock,
            timing,
        } = wiring;
        let mut autoscaler = Self {
            settings,
            by_profile: BTreeMap::new(),
            begun: false,
            decommission_timeout,
            store,
            clock,
            timing,
        };
        for (profile, bounds) in profiles {
            autoscaler.add(profile, bounds);
        }
        autoscaler
    }

    fn add(&mut self, profile: ProfileName, bounds: Bounds) {
        if let Some(settings) = self.settings {
            self.by_profile
                .insert(profile, Scaler::new(settings, bounds));
        }
    }

    /// Shows the scalers which executors are idle: O(changes), but for the first time.
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

    /// The steps that are due. While executors are held none is, whatever there is to do.
    fn decide(&mut self, latest: &Snapshot, now: Tick) -> Vec<(ProfileName, Step)> {
        if latest.held {
            return Vec::new();
        }
        let mut steps = Vec::new();
        for (profile, scaler) in &mut self.by_profile {
            let target = latest.targets.get(profile);
            let target = target.map_or(0, |target| target.asked);
            if let Some(step) = scaler.decide(target, now) {
                steps.push((profile.clone(), step));
            }
        }
        steps
    }

    fn carry_out(&self, profile: ProfileName, Step { target, retire }: Step) {
        tracing::info!(
            profile = profile.as_str(),
            target,
            retired = retire.len(),
            "target set by autoscaling"
        );
        let targets = BTreeMap::from([(profile, target)]);
        self.store.do_send(Tell(if retire.is_empty() {
            News::Targets(targets)
        } else {
            News::Retire {
                ids: retire,
                aim: Aim::Become(targets),
                why: Why::Decommissioned("autoscaling".into()),
                how: How::Drain {
                    within: self.decommission_timeout,
                },
            }
        }));
    }
}

/// Whether an executor is known to have nothing to do: one without a session may be busy.
fn is_idle(entry: &Entry) -> bool {
    entry.class() == Class::Running && entry.session.registered && entry.session.idle
}

impl Actor for Autoscaler {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if self.settings.is_some() {
            self.store.do_send(Subscribe {
                subscriber: Subscriber::Autoscaler,
                timing: self.timing,
                recipient: ctx.address().recipient(),
            });
        }
    }
}

impl Handler<Round> for Autoscaler {
    type Result = ();

    fn handle(&mut self, Round(batch): Round, _: &mut Self::Context) {
        if batch.latest().adopted {
            let now = self.clock.now().tick;
            self.see(&batch, now);
            for (profile, step) in self.decide(batch.latest(), now) {
                self.carry_out(profile, step);
            }
        }
        self.store.do_send(Decided(Subscriber::Autoscaler));
    }
}

impl Handler<PostDemand> for Autoscaler {
    type Result = Result<BTreeMap<ProfileName, u32>, RefusedDemand>;

    fn handle(&mut self, PostDemand(demands): PostDemand, _: &mut Self::Context) -> Self::Result {
        let scalers = &mut self.by_profile;
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

impl Handler<ProfileAdded> for Autoscaler {
    type Result = Result<(), TemplateError>;

    fn handle(&mut self, ProfileAdded(added): ProfileAdded, _: &mut Self::Context) -> Self::Result {
        self.add(added.name.clone(), added.bounds);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
