//! Roller: replaces executors one by one (spec B-32).
//!
//! The pure [`rolling`] decides. On each batch this actor gets the metrics that the policy needs
//! from ExecutorRegistry, and sends the due step to the store. Uses the messages of both.

pub mod rolling;

use std::collections::BTreeMap;
use std::time::Duration;

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, ContextFutureSpawner, Handler, Recipient,
    WrapFuture,
};

use crate::actors::executor_registry::messages::GetSessions;
use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::messages::{Decided, Round, Subscribe, Subscriber, Tell};
use crate::clock::Clock;
use crate::model::delivery::Timing;
use crate::model::executor::{How, Why};
use crate::model::news::{Aim, News};
use crate::model::snapshot::asked;
use crate::model::{ExecutorId, Snapshot};

use rolling::{Rolling, Settings, Step};

/// The latest metrics of each executor.
type Figures = BTreeMap<ExecutorId, BTreeMap<String, f64>>;

pub struct Roller {
    rolling: Rolling,
    decommission_timeout: Duration,
    sessions: Recipient<GetSessions>,
    store: Addr<SnapshotStore>,
    clock: Clock,
    timing: Timing,
}

pub struct Wiring {
    pub settings: Settings,
    /// The time limit of a decommissioning (spec B-30).
    pub decommission_timeout: Duration,
    /// Answers with the executors' metrics.
    pub sessions: Recipient<GetSessions>,
    pub store: Addr<SnapshotStore>,
    pub clock: Clock,
    pub timing: Timing,
}

impl Roller {
    /// The first replacement begins one interval from now.
    pub fn new(wiring: Wiring) -> Self {
        Self {
            rolling: Rolling::new(wiring.settings, wiring.clock.now().tick),
            decommission_timeout: wiring.decommission_timeout,
            sessions: wiring.sessions,
            store: wiring.store,
            clock: wiring.clock,
            timing: wiring.timing,
        }
    }

    /// Decides on a snapshot, and sends the due step to the store.
    fn roll(&mut self, latest: &Snapshot, figures: &Figures) {
        let figure = |id, metric: &str| figures.get(&id)?.get(metric).copied();
        let (asked, now) = (asked(&latest.targets), self.clock.now().tick);
        let Some(step) = self.rolling.decide(latest, &asked, figure, now) else {
            return;
        };
        log(&step);
        self.store.do_send(Tell(match step {
            Step::Begin { profile, .. } => News::Surge {
                profile,
                under_way: true,
            },
            Step::Finish { old } => News::Retire {
                ids: vec![old],
                aim: Aim::EndSurge,
                why: Why::Decommissioned("the roll".into()),
                how: How::Drain {
                    within: self.decommission_timeout,
                },
            },
            Step::GiveUp { profile, .. } => News::Surge {
                profile,
                under_way: false,
            },
            Step::Forget { .. } => return,
        }));
    }
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

/// The latest metrics, if they are needed.
async fn figures(sessions: Recipient<GetSessions>, needed: bool) -> Figures {
    if !needed {
        return Figures::new();
    }
    // The registry has stopped only if the driver is ending.
    let sessions = sessions.send(GetSessions(None)).await.unwrap_or_default();
    (sessions.into_iter())
        .map(|(id, session)| (id, session.metrics))
        .collect()
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

    /// The next batch comes after the step was sent, so that each decision knows the previous one.
    fn handle(&mut self, Round(batch): Round, ctx: &mut Self::Context) {
        let latest = batch.latest().clone();
        if !latest.adopted {
            self.store.do_send(Decided(Subscriber::Roller));
            return;
        }
        let now = self.clock.now().tick;
        let needed = (self.rolling).needs_metrics(&latest, &asked(&latest.targets), now);
        figures(self.sessions.clone(), needed)
            .into_actor(self)
            .map(move |figures, this, _| {
                this.roll(&latest, &figures);
                this.store.do_send(Decided(Subscriber::Roller));
            })
            .wait(ctx);
    }
}

#[cfg(test)]
mod tests;
