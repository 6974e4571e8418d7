//! Autoscaler: targets that follow what the application has to do (spec B-40 to B-42).
//!
//! One pure [`scaler`] a profile decides. On each of its batches this actor shows the scalers which executors are idle, asks
//! Commands for the targets that were asked for, and has Commands carry out the steps that are due. It uses the messages of
//! the store, of Commands and of the profiles.

pub mod messages;
pub mod scaler;

use std::collections::BTreeMap;

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, ContextFutureSpawner, Handler, Recipient,
    WrapFuture,
};

use crate::actors::commands::messages::{AdjustTarget, Asked, GetTargets};
use crate::actors::profiles::messages::{Bounds, ProfileAdded};
use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::delivery::Timing;
use crate::actors::snapshot_store::messages::{Decided, Round, Subscribe, Subscriber};
use crate::clock::Clock;
use crate::kubernetes::pod_template::TemplateError;
use crate::model::executor::Class;
use crate::model::{Batch, Entry, ExecutorId, ProfileName, Tick};

use messages::{PostDemand, RefusedDemand};
use scaler::{Scaler, Settings};

/// Scales all profiles, or none where autoscaling is off.
pub struct Autoscaler {
    settings: Option<Settings>,
    by_profile: BTreeMap<ProfileName, Scaler>,
    /// Whether all of a snapshot has been looked at. From then on only the changes of a batch are.
    begun: bool,
    targets: Recipient<GetTargets>,
    adjust: Recipient<AdjustTarget>,
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
    /// Knows the targets that were asked for.
    pub targets: Recipient<GetTargets>,
    /// Changes targets.
    pub adjust: Recipient<AdjustTarget>,
    /// Where batches come from.
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
            targets,
            adjust,
            store,
            clock,
            timing,
        } = wiring;
        let mut autoscaler = Self {
            settings,
            by_profile: BTreeMap::new(),
            begun: false,
            targets,
            adjust,
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
    fn decide(&mut self, asked: &Asked) -> Vec<AdjustTarget> {
        if asked.held.is_some() {
            return Vec::new();
        }
        let now = self.clock.now().tick;
        let mut steps = Vec::new();
        for (profile, scaler) in &mut self.by_profile {
            let target = asked.targets.get(profile).copied().unwrap_or_default();
            if let Some(step) = scaler.decide(target, now) {
                steps.push(AdjustTarget {
                    profile: profile.clone(),
                    asked: target,
                    target: step.target,
                    kept: true,
                    retire: step.retire,
                    by: "autoscaling".into(),
                });
            }
        }
        steps
    }
}

/// Has Commands carry out these steps; whether each of them was.
async fn carry_out(adjust: Recipient<AdjustTarget>, steps: Vec<AdjustTarget>) -> bool {
    let mut all = true;
    for step in steps {
        let (profile, target, retired) = (step.profile.clone(), step.target, step.retire.len());
        if adjust.send(step).await.unwrap_or(false) {
            tracing::info!(
                profile = profile.as_str(),
                target,
                retired,
                "target set by autoscaling"
            );
        } else {
            all = false;
        }
    }
    all
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

    /// Nothing else is handled until its steps are carried out: each decision stands on what came of the one before.
    fn handle(&mut self, Round(batch): Round, ctx: &mut Self::Context) {
        if !batch.latest().adopted {
            self.store.do_send(Decided(Subscriber::Autoscaler));
            return;
        }
        self.see(&batch, self.clock.now().tick);
        let asked = self.targets.send(GetTargets).into_actor(self);
        asked
            .then(|asked, this, _| {
                // Where Commands is gone the driver ends.
                let steps = asked.map_or_else(|_| Vec::new(), |asked| this.decide(&asked));
                carry_out(this.adjust.clone(), steps).into_actor(this)
            })
            .map(|all, this, _| {
                // The scaler counts the executors of a step as gone. Where it was not carried out they are looked at anew.
                this.begun &= all;
                this.store.do_send(Decided(Subscriber::Autoscaler));
            })
            .wait(ctx);
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
