//! Autoscaler: sets targets that follow the application's demand (spec B-40 to B-42).
//!
//! One pure [`scaler`] per profile decides. On each batch this actor updates the scalers with the
//! idle executors, and sends the due steps to the store. Preferred nodes go to PodAllocator. Uses the messages of the
//! store, the profiles and PodAllocator.

pub mod messages;
pub mod scaler;

use std::collections::BTreeMap;
use std::time::Duration;

use actix::{Actor, Addr, AsyncContext, Context, Handler, Recipient};

use crate::actors::pod_allocator::messages::PreferNodes;
use crate::actors::profiles::messages::{Bounds, ProfileAdded, ProfileRemoved};
use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::messages::{Decided, Round, Subscribe, Subscriber, Tell};
use crate::clock::Clock;
use crate::kubernetes::pod_template::TemplateError;
use crate::model::delivery::Timing;
use crate::model::executor::{Class, How, Why};
use crate::model::news::{Aim, News};
use crate::model::{Batch, Entry, ExecutorId, ProfileName, Snapshot, Tick};

use messages::{NewSettings, PostDemand, RefusedDemand};
use scaler::{Scaler, Settings, Step};

pub struct Autoscaler {
    settings: Option<Settings>,
    by_profile: BTreeMap<ProfileName, Scaler>,
    /// Whether the scalers have processed a whole snapshot; later batches only update them.
    begun: bool,
    decommission_timeout: Duration,
    prefer: Option<Recipient<PreferNodes>>,
    store: Addr<SnapshotStore>,
    clock: Clock,
    timing: Timing,
}

pub struct Wiring {
    /// `None` if autoscaling is off.
    pub settings: Option<Settings>,
    pub profiles: BTreeMap<ProfileName, Bounds>,
    /// The time limit of a decommissioning (spec B-30).
    pub decommission_timeout: Duration,
    /// Has new executors prefer nodes; `None` where sets make the pods.
    pub prefer: Option<Recipient<PreferNodes>>,
    pub store: Addr<SnapshotStore>,
    pub clock: Clock,
    pub timing: Timing,
}

impl Autoscaler {
    pub fn new(wiring: Wiring) -> Self {
        let mut autoscaler = Self {
            settings: wiring.settings,
            by_profile: BTreeMap::new(),
            begun: false,
            decommission_timeout: wiring.decommission_timeout,
            prefer: wiring.prefer,
            store: wiring.store,
            clock: wiring.clock,
            timing: wiring.timing,
        };
        for (profile, bounds) in wiring.profiles {
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

    /// Updates the scalers with the idle executors: O(changes), except for the first batch.
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

    /// The due steps; none while executors are held.
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

/// Whether an executor is known to be idle. Without a session it may be busy.
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

    fn handle(&mut self, post: PostDemand, _: &mut Self::Context) -> Self::Result {
        let PostDemand { demands, mut nodes } = post;
        let scalers = &mut self.by_profile;
        if scalers.is_empty() {
            return Err(RefusedDemand::Off);
        }
        if let Some(unknown) = demands.keys().find(|name| !scalers.contains_key(*name)) {
            return Err(RefusedDemand::UnknownProfile(unknown.clone()));
        }
        nodes.retain(|_, nodes| !nodes.is_empty());
        if let Some(prefer) = &self.prefer {
            let of = |profile: &ProfileName| {
                let nodes = nodes.remove(profile).unwrap_or_default();
                (profile.clone(), nodes)
            };
            prefer.do_send(PreferNodes(demands.keys().map(of).collect()));
        } else if let Some(profile) = nodes.into_keys().next() {
            return Err(RefusedDemand::OfASet(profile));
        }
        let now = self.clock.now().tick;
        let wanted = demands.into_iter().filter_map(|(profile, demand)| {
            let wanted = scalers.get_mut(&profile)?.demanded(demand, now);
            Some((profile, wanted))
        });
        Ok(wanted.collect())
    }
}

impl Handler<NewSettings> for Autoscaler {
    type Result = ();

    fn handle(&mut self, NewSettings { settings, most }: NewSettings, _: &mut Self::Context) {
        if self.settings.is_none() {
            return;
        }
        self.settings = Some(settings);
        for (profile, scaler) in &mut self.by_profile {
            scaler.reconfigure(settings, most.get(profile).copied());
        }
    }
}

impl Handler<ProfileAdded> for Autoscaler {
    type Result = Result<(), TemplateError>;

    fn handle(&mut self, ProfileAdded(added): ProfileAdded, _: &mut Self::Context) -> Self::Result {
        self.add(added.name.clone(), added.bounds);
        Ok(())
    }
}

impl Handler<ProfileRemoved> for Autoscaler {
    type Result = ();

    fn handle(&mut self, ProfileRemoved(name): ProfileRemoved, _: &mut Self::Context) {
        self.by_profile.remove(&name);
    }
}

#[cfg(test)]
mod tests;
