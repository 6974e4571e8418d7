//! DriverBackend: the application's status and readiness, and its numbers over the last hour (spec B-20, O-42, O-82).
//!
//! DriverBackend gets batches. Other actors send what no batch shows: the number of registered
//! executors (ExecutorRegistry) and the paused profiles (PodAllocator). From these it decides when
//! the application is ready, and answers status requests. ExecutorRegistry, EventHistory, Commands,
//! Autoscaler, Roller and Profiles are actors of their own. It uses the messages of the store, of
//! ExecutorRegistry, EventHistory, Commands and PodAllocator (pauses).

pub mod counts;
pub mod messages;
mod pauses;
pub mod readiness;
pub mod views;

use std::collections::VecDeque;

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, MessageResult, Recipient,
    ResponseActFuture, WrapFuture,
};

use tokio::sync::watch;

use crate::actors::commands::messages::GetHeld;
use crate::actors::event_history::event::What;
use crate::actors::event_history::messages::Happened;
use crate::actors::executor_registry::messages::SessionsChanged;
use crate::actors::executor_registry::registry::LOOK;
use crate::actors::pod_allocator::pause::Paused;
use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::messages::{Decided, Round, Subscribe, Subscriber};
use crate::clock::Clock;
use crate::kubernetes::record::Held;
use crate::model::delivery::Timing;
use crate::model::{AppId, Batch, Ending, Incarnation, ProfileName, Snapshot};

use counts::CountsHistory;
use messages::{GetCounts, GetStatus};
use readiness::Readiness;
use views::{DegradedView, HeldView, LOSSES, LossView, StatusView};

pub struct DriverBackend {
    app: AppId,
    incarnation: Incarnation,
    readiness: Readiness,
    /// The last batch's snapshot; `None` before adoption.
    snapshot: Option<Snapshot>,
    /// Whether there is one.
    adopted: watch::Sender<bool>,
    sessions: SessionsChanged,
    /// The profiles whose executors are not requested (spec A-31).
    paused: Paused,
    counts: CountsHistory,
    /// The last losses, newest first.
    losses: VecDeque<LossView>,
    held: Recipient<GetHeld>,
    events: Recipient<Happened>,
    store: Addr<SnapshotStore>,
    clock: Clock,
    timing: Timing,
}

pub struct Wiring {
    pub app: AppId,
    pub incarnation: Incarnation,
    pub readiness: readiness::Settings,
    /// The sum of the targets at the start.
    pub wanted: u32,
    /// Answers with the current hold.
    pub held: Recipient<GetHeld>,
    pub events: Recipient<Happened>,
    pub store: Addr<SnapshotStore>,
    pub clock: Clock,
    pub timing: Timing,
}

impl DriverBackend {
    pub fn new(wiring: Wiring) -> Self {
        Self {
            app: wiring.app,
            incarnation: wiring.incarnation,
            readiness: Readiness::new(wiring.readiness, wiring.wanted),
            snapshot: None,
            adopted: watch::Sender::new(false),
            sessions: SessionsChanged::default(),
            paused: Paused::default(),
            counts: CountsHistory::default(),
            losses: VecDeque::new(),
            held: wiring.held,
            events: wiring.events,
            store: wiring.store,
            clock: wiring.clock,
            timing: wiring.timing,
        }
    }

    /// Becomes true with the first status that tells of executors (spec B-55).
    pub fn adopted(&self) -> watch::Receiver<bool> {
        self.adopted.subscribe()
    }

    /// Records an event that no snapshot shows.
    fn happened(&self, what: What) {
        self.events.do_send(Happened(what));
    }

    /// Checks readiness now and every second, because the wait for it can time out, and keeps the numbers.
    fn look(&mut self, ctx: &mut Context<Self>) {
        self.look_whether_ready();
        if let Some(snapshot) = &self.snapshot {
            let now = self.clock.now();
            (self.counts).look(snapshot, &self.sessions.registered, now);
        }
        ctx.run_later(LOOK, Self::look);
    }

    fn look_whether_ready(&mut self) {
        let Some(snapshot) = self.snapshot.as_ref() else {
            return;
        };
        if self.readiness.is_ready() {
            return;
        }
        let now = self.clock.now().tick;
        let registered = &self.sessions.registered;
        let (there, becomes) = if self.readiness.counts_registered() {
            let there = registered.values().sum();
            let of = |profile: &ProfileName| registered.get(profile).copied().unwrap_or(0);
            (there, self.readiness.look(there, of, now))
        } else {
            let there = running(snapshot);
            let of = |profile: &ProfileName| snapshot.counts(profile).running;
            (there, self.readiness.look(there, of, now))
        };
        if becomes {
            let (executors, wanted) = (there, self.readiness.wanted());
            tracing::info!(executors, wanted, "ready");
            self.happened(What::Ready { executors, wanted });
        }
    }

    fn note_losses(&mut self, batch: &Batch) {
        let time = self.clock.now().wall;
        for Ending { entry, reason } in batch.ends() {
            self.losses.truncate(LOSSES - 1);
            self.losses.push_front(LossView {
                executor: entry.id.get(),
                profile: entry.profile.to_string(),
                time,
                reason: reason.class.to_string(),
                why: reason.message.clone(),
            });
        }
    }

    fn degraded(&self) -> Option<DegradedView> {
        let (why, since) = self.sessions.doubt?;
        Some(DegradedView {
            why: why.to_string(),
            for_seconds: self.clock.now().tick.since(since).as_secs(),
        })
    }

    fn status(&self, held: Option<&Held>) -> StatusView {
        let now = self.clock.now();
        let app = self.app.to_string();
        let mut status = StatusView::before_adoption(app, self.incarnation, now.wall);
        if let Some(snapshot) = &self.snapshot {
            let registered = &self.sessions.registered;
            status.adopted = true;
            status.ready = self.readiness.is_ready();
            status.degraded = self.degraded();
            status.profiles = views::profiles(snapshot, registered, &self.paused.0, now.tick);
            status.held = held.map(HeldView::of);
            status.losses = self.losses.iter().cloned().collect();
        }
        status
    }
}

fn running(snapshot: &Snapshot) -> u32 {
    snapshot.counts.values().map(|counts| counts.running).sum()
}

impl Actor for DriverBackend {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.store.do_send(Subscribe {
            subscriber: Subscriber::Backend,
            timing: self.timing,
            recipient: ctx.address().recipient(),
        });
        self.look(ctx);
    }
}

impl Handler<Round> for DriverBackend {
    type Result = ();

    fn handle(&mut self, Round(batch): Round, _: &mut Self::Context) {
        if batch.latest().adopted {
            self.snapshot = Some(batch.latest().clone());
            self.adopted
                .send_if_modified(|adopted| !std::mem::replace(adopted, true));
            self.note_losses(&batch);
            self.look_whether_ready();
        }
        self.store.do_send(Decided(Subscriber::Backend));
    }
}

impl Handler<SessionsChanged> for DriverBackend {
    type Result = ();

    fn handle(&mut self, sessions: SessionsChanged, _: &mut Self::Context) {
        self.sessions = sessions;
        self.look_whether_ready();
    }
}

impl Handler<GetStatus> for DriverBackend {
    type Result = ResponseActFuture<Self, StatusView>;

    fn handle(&mut self, _: GetStatus, _: &mut Self::Context) -> Self::Result {
        let held = self.held.send(GetHeld).into_actor(self);
        // Commands has stopped only if the driver is ending; then there is no hold.
        Box::pin(held.map(|held, this, _| this.status(held.unwrap_or_default().as_ref())))
    }
}

impl Handler<GetCounts> for DriverBackend {
    type Result = MessageResult<GetCounts>;

    fn handle(&mut self, _: GetCounts, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.counts.view())
    }
}
