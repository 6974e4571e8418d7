//! Roller: replaces one executor after the other (spec B-32).
//!
//! The pure [`rolling`] decides. On each of its batches this actor asks Commands for the targets that were asked for and, where
//! the policy needs them, ExecutorRegistry for the executors' figures; Commands carries the step out. It uses the messages of
//! the store, of Commands and of ExecutorRegistry.

pub mod rolling;

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, ContextFutureSpawner, Handler, Recipient,
    WrapFuture,
};

use crate::actors::commands::messages::{AdjustTarget, Asked, GetTargets};
use crate::actors::executor_registry::messages::GetSessions;
use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::delivery::Timing;
use crate::actors::snapshot_store::messages::{Decided, Round, Subscribe, Subscriber};
use crate::clock::Clock;
use crate::model::{ExecutorId, ProfileName, Snapshot};

use rolling::{Rolling, Settings, Step};

/// What executors last sent of the figure that the policy looks at.
type Figures = BTreeMap<ExecutorId, f64>;

/// Replaces executors.
pub struct Roller {
    rolling: Rolling,
    targets: Recipient<GetTargets>,
    adjust: Recipient<AdjustTarget>,
    sessions: Recipient<GetSessions>,
    store: Addr<SnapshotStore>,
    clock: Clock,
    timing: Timing,
}

/// What Roller is made of.
pub struct Wiring {
    /// How executors are replaced.
    pub settings: Settings,
    /// Knows the targets that were asked for.
    pub targets: Recipient<GetTargets>,
    /// Changes targets.
    pub adjust: Recipient<AdjustTarget>,
    /// Knows the executors' figures.
    pub sessions: Recipient<GetSessions>,
    /// Where batches come from.
    pub store: Addr<SnapshotStore>,
    /// The time.
    pub clock: Clock,
    /// When batches come.
    pub timing: Timing,
}

impl Roller {
    /// The first replacement begins an interval from now.
    pub fn new(wiring: Wiring) -> Self {
        let Wiring {
            settings,
            targets,
            adjust,
            sessions,
            store,
            clock,
            timing,
        } = wiring;
        Self {
            rolling: Rolling::new(settings, clock.now().tick),
            targets,
            adjust,
            sessions,
            store,
            clock,
            timing,
        }
    }

    /// What Commands is to change now, if anything.
    fn decide(
        &mut self,
        snapshot: &Snapshot,
        asked: &Asked,
        figures: &Figures,
    ) -> Option<AdjustTarget> {
        let figure = |id, _: &str| figures.get(&id).copied();
        let now = self.clock.now().tick;
        let step = (self.rolling).decide(snapshot, &asked.targets, figure, now)?;
        log(&step);
        adjustment(step, snapshot, &asked.targets)
    }
}

/// What a step changes. For the time of a replacement the ledger alone has one executor more.
fn adjustment(
    step: Step,
    snapshot: &Snapshot,
    asked: &BTreeMap<ProfileName, u32>,
) -> Option<AdjustTarget> {
    let (profile, surplus, retire) = match step {
        Step::Begin { profile, .. } => (profile, 1, Vec::new()),
        Step::Finish { old } => (snapshot.entry(old)?.profile.clone(), 0, vec![old]),
        Step::GiveUp { profile, .. } => (profile, 0, Vec::new()),
        Step::Forget { .. } => return None,
    };
    let target = asked.get(&profile).copied().unwrap_or_default();
    Some(AdjustTarget {
        profile,
        asked: target,
        target: target.saturating_add(surplus),
        kept: false,
        retire,
        by: "the roll".into(),
    })
}

fn log(step: &Step) {
    match step {
        Step::Begin { profile, old } => tracing::info!(
            executor = old.get(),
            profile = profile.as_str(),
            "rolling: it is to be replaced"
        ),
        Step::Finish { .. } => {}
        Step::GiveUp { profile, old } => tracing::warn!(
            executor = old.get(),
            profile = profile.as_str(),
            "rolling: given up, it has gone by itself, or no replacement came to run"
        ),
        Step::Forget { old } => tracing::info!(
            executor = old.get(),
            "rolling: given up, for another number is wanted now"
        ),
    }
}

/// What executors last sent of this figure.
async fn figures(sessions: Recipient<GetSessions>, metric: Option<Arc<str>>) -> Figures {
    let Some(metric) = metric else {
        return Figures::new();
    };
    // Where the registry is gone the driver ends.
    let sessions = sessions.send(GetSessions(None)).await.unwrap_or_default();
    let figures = sessions.into_iter().filter_map(|(id, session)| {
        let figure = session.metrics.get(&*metric)?;
        Some((id, *figure))
    });
    figures.collect()
}

impl Actor for Roller {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.store.do_send(Subscribe {
            subscriber: Subscriber::Roller,
            timing: self.timing,
            recipient: ctx.address().recipient(),
        });
    }
}

impl Handler<Round> for Roller {
    type Result = ();

    /// The next batch comes once the step is carried out: each decision stands on what came of the one before.
    fn handle(&mut self, Round(batch): Round, ctx: &mut Self::Context) {
        if !batch.latest().adopted {
            self.store.do_send(Decided(Subscriber::Roller));
            return;
        }
        let asked = self.targets.send(GetTargets).into_actor(self);
        asked
            .then(|asked, this, _| {
                // Where Commands is gone the driver ends.
                let asked = asked.unwrap_or_default();
                let (latest, now) = (batch.latest(), this.clock.now().tick);
                let metric = this.rolling.metric(latest, &asked.targets, now).cloned();
                let figures = figures(this.sessions.clone(), metric).into_actor(this);
                figures.map(move |figures, this, _| this.decide(batch.latest(), &asked, &figures))
            })
            .then(|step, this, _| {
                let adjust = this.adjust.clone();
                let carried_out = async move {
                    if let Some(step) = step {
                        // Where another target was asked for meanwhile, the next decision sees that.
                        let _ = adjust.send(step).await;
                    }
                };
                carried_out.into_actor(this)
            })
            .map(|(), this, _| this.store.do_send(Decided(Subscriber::Roller)))
            .wait(ctx);
    }
}

#[cfg(test)]
mod tests;
