//! DriverBackend: what the application and its operators want, and how the application is (spec B-20 to B-52, O-42,
//! O-82).
//!
//! It alone sends targets, marks and holds to the store that come from outside. Its parts decide, each pure and with a
//! state of its own: [`profiles`], [`commands`], [`autoscaler`], [`pools`], [`leaving_nodes`], [`roller`], [`status`]. Each
//! batch and each request goes to them in this order. What they decide is in the ledger before the actor handles its next
//! message, and the actor then knows the ledger with it. So no decision ignores the one before it, whichever part made
//! that.

pub mod autoscaler;
pub mod commands;
mod handlers;
pub mod leaving_nodes;
pub mod messages;
pub mod plan;
pub mod pools;
pub mod profiles;
mod publishing;
pub mod roller;
pub mod status;

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, AtomicResponse, Context, Handler, Recipient,
    ResponseActFuture, WrapFuture,
};
use tokio::sync::{mpsc, watch};

use crate::actors::event_history::messages::Happened;
use crate::actors::executor_registry::messages::GetSessions;
use crate::actors::executor_registry::registry::LOOK;
use crate::actors::pod_allocator::messages::PreferNodes;
use crate::actors::profile_messages::{ProfileAdded, ProfileGone};
use crate::actors::record_keeper::messages::RecordProfiles;
use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::messages::{Look, LookNow, Next, Round, Tell};
use crate::clock::Clock;
use crate::model::{ExecutorId, Snapshot};

use autoscaler::Autoscaler;
use commands::Commands;
use leaving_nodes::LeavingNodes;
use messages::{Refused, Stop};
use plan::Plan;
use pools::Pools;
use profiles::Profiles;
use roller::{Figures, Roller};
use status::Status;

pub struct DriverBackend {
    profiles: Profiles,
    commands: Commands,
    autoscaler: Autoscaler,
    pools: Pools,
    leaving_nodes: LeavingNodes,
    /// `None` if executors are not replaced.
    roller: Option<Roller>,
    status: Status,
    to: Receivers,
    clock: Clock,
    /// The newest snapshot of which this actor knows. It includes all that this actor has told the store.
    latest: Snapshot,
    /// Whether a batch came after adoption.
    adopted: watch::Sender<bool>,
    /// Whether the other actors are being asked to remove a profile.
    is_removing: bool,
}

/// The actors to which it sends.
pub struct Receivers {
    /// Those that must know a new profile, in this order: first the provisioner, which alone can refuse it.
    pub added: Vec<Recipient<ProfileAdded>>,
    /// The record, from which a successor learns of removals and resets.
    pub record: Recipient<RecordProfiles>,
    /// Those that remove a profile that is gone, in this order: last the record, which keeps it until then.
    pub gone: Vec<Recipient<ProfileGone>>,
    /// Has new executors prefer nodes; `None` where sets make the pods.
    pub prefer: Option<Recipient<PreferNodes>>,
    /// Answers with the executors' metrics.
    pub sessions: Recipient<GetSessions>,
    pub stop: mpsc::UnboundedSender<Stop>,
    pub events: Recipient<Happened>,
    pub store: Addr<SnapshotStore>,
}

pub struct Wiring {
    pub profiles: Profiles,
    pub commands: Commands,
    pub autoscaler: Autoscaler,
    pub pools: Pools,
    pub leaving_nodes: LeavingNodes,
    pub roller: Option<Roller>,
    pub status: Status,
    pub to: Receivers,
    pub clock: Clock,
}

impl DriverBackend {
    pub fn new(wiring: Wiring) -> Self {
        Self {
            profiles: wiring.profiles,
            commands: wiring.commands,
            autoscaler: wiring.autoscaler,
            pools: wiring.pools,
            leaving_nodes: wiring.leaving_nodes,
            roller: wiring.roller,
            status: wiring.status,
            to: wiring.to,
            clock: wiring.clock,
            latest: Snapshot::default(),
            adopted: watch::Sender::new(false),
            is_removing: false,
        }
    }

    /// Becomes true with the first status that tells of executors (spec B-55).
    pub fn adopted(&self) -> watch::Receiver<bool> {
        self.adopted.subscribe()
    }

    /// A batch may be older than what a command has looked at since.
    fn keep(&mut self, snapshot: Snapshot) {
        if snapshot.seq >= self.latest.seq {
            self.latest = snapshot;
        }
    }

    /// Becomes the executors that the ledger marked as leaving, once it has the news and this actor knows of that.
    fn carry_out(
        &mut self,
        plan: Plan,
    ) -> ResponseActFuture<Self, Result<Vec<ExecutorId>, Refused>> {
        let Plan { events, news, stop } = plan;
        for what in events {
            self.to.events.do_send(Happened(what));
        }
        if let Some(stop) = stop {
            // The driver's task may have ended already.
            let _ = self.to.stop.send(stop);
        }
        if news.is_empty() {
            return Box::pin(actix::fut::ready(Ok(Vec::new())));
        }
        let store = self.to.store.clone();
        let telling = async move {
            let mut marked = Vec::new();
            for news in news {
                marked.extend(store.send(Tell(news)).await?);
            }
            Ok((marked, store.send(LookNow).await?))
        };
        Box::pin(telling.into_actor(self).map(
            |told: Result<_, actix::MailboxError>, this: &mut Self, _| {
                let (marked, Look(latest)) = told.map_err(|_| Refused::Ending)?;
                this.keep(latest);
                Ok(marked)
            },
        ))
    }

    /// The executors' latest metrics, if the roller needs them.
    fn figures(&self) -> impl Future<Output = Figures> + use<> {
        let now = self.clock.now().tick;
        let needs = |roller: &Roller| roller.needs_figures(&self.latest, now);
        let asked = (self.roller.as_ref().is_some_and(needs))
            .then(|| self.to.sessions.send(GetSessions(None)));
        async move {
            let Some(asked) = asked else {
                return Figures::new();
            };
            // The registry has stopped only if the driver is ending.
            let sessions = asked.await.unwrap_or_default();
            (sessions.into_iter())
                .map(|(id, session)| (id, session.metrics))
                .collect()
        }
    }

    fn roll(&mut self, figures: &Figures) -> Plan {
        let (latest, now) = (&self.latest, self.clock.now().tick);
        let roller = self.roller.as_mut();
        roller.map_or_else(Plan::default, |roller| roller.decide(latest, figures, now))
    }

    fn look_whether_ready(&mut self) {
        let now = self.clock.now().tick;
        if let Some(ready) = self.status.becomes_ready(&self.latest, now) {
            self.to.events.do_send(Happened(ready));
        }
    }

    /// The one timer: what passes with time and not only with batches, whose interval is a setting.
    fn look(&mut self, ctx: &mut Context<Self>) {
        self.look_whether_ready();
        self.status.count(&self.latest, self.clock.now());
        self.look_after_silent(ctx);
        self.look_after_removals(ctx);
        ctx.run_later(LOOK, Self::look);
    }
}

impl Actor for DriverBackend {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.look(ctx);
    }
}

impl Handler<Round> for DriverBackend {
    type Result = AtomicResponse<Self, Next>;

    fn handle(&mut self, Round(batch): Round, _: &mut Self::Context) -> Self::Result {
        let now = self.clock.now();
        self.keep(batch.latest().clone());
        self.adopted
            .send_if_modified(|adopted| !std::mem::replace(adopted, true));
        (self.autoscaler).observe(&batch, &self.pools, &self.profiles, now.tick);
        self.pools.observe(&batch);
        self.status.note_losses(&batch, now);
        let plan = (self.commands).check_liveness(&self.latest, now.tick);
        let round = self
            .carry_out(plan)
            .then(move |_, this, _| {
                let (latest, pools) = (&this.latest, &this.pools);
                let plan = (this.autoscaler).decide(latest, pools, &this.profiles, now.tick);
                this.carry_out(plan)
            })
            .then(move |_, this, _| {
                let plan =
                    (this.pools).decide(&this.latest, |p| this.status.is_held_back(p), now.tick);
                this.carry_out(plan)
            })
            .then(move |_, this, _| {
                let plan = this.leaving_nodes.decide(&this.latest, now.tick);
                this.carry_out(plan)
            })
            .then(|_, this, _| this.figures().into_actor(this))
            .then(|figures, this, _| {
                let plan = this.roll(&figures);
                this.carry_out(plan)
            })
            .map(|_, this, _| {
                this.look_whether_ready();
                Next::default()
            });
        AtomicResponse::new(Box::pin(round))
    }
}

#[cfg(test)]
mod tests;
