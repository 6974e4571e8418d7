//! DriverBackend: who is there, what is wanted, what happened.
//!
//! It keeps the [`event history`] and the [`registry`] of executors that speak to the driver.

pub mod autoscaling;
pub mod commands;
pub mod event_history;
pub mod messages;
mod pauses;
pub mod profiles;
pub mod readiness;
pub mod registry;
pub mod rolling;
pub mod sessions;
pub mod views;

use std::collections::{BTreeMap, VecDeque};

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, AtomicResponse, Context, Handler, MessageResult,
    WrapFuture,
};
use tokio::sync::watch;

use crate::actors::pod_allocator::pause::Paused;
use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::delivery::Timing;
use crate::actors::snapshot_store::messages::{AskFor, Decided, Round, Subscribe, Subscriber};
use crate::clock::Clock;
use crate::model::{AppId, Batch, Ending, Incarnation, ProfileName};

use autoscaling::Bounds;
use autoscaling::driving::Scalers;
use commands::Commands;
use event_history::event::What;
use event_history::{EventHistory, Reading};
use messages::{
    EventsRead, Explain, Explanation, FollowEvents, GetExecutors, GetStatus, Growth, ReadEvents,
    RefusedTargets, SetTargets,
};
use profiles::Profiles;
use rolling::Roller;
use sessions::Sessions;
use views::{DegradedView, ExecutorView, HeldView, LOSSES, LossView, StatusView};

/// The application's side of the driver.
pub struct DriverBackend {
    app: AppId,
    incarnation: Incarnation,
    /// All profiles that there are.
    profiles: BTreeMap<ProfileName, Bounds>,
    store: Addr<SnapshotStore>,
    clock: Clock,
    timing: Timing,
    event_history: EventHistory,
    /// The last losses, the newest first.
    losses: VecDeque<LossView>,
    growth: watch::Sender<u64>,
    sessions: Sessions,
    commands: Commands,
    scalers: Scalers,
    roller: Option<Roller>,
    added: Profiles,
    /// The profiles of which nothing is asked for (spec A-31).
    paused: Paused,
}

/// What DriverBackend is made of.
pub struct Wiring {
    /// The application.
    pub app: AppId,
    /// Which start of the driver this is.
    pub incarnation: Incarnation,
    /// The profiles that there are.
    pub profiles: BTreeMap<ProfileName, Bounds>,
    /// How many executors of each profile are asked for at the start; readiness follows from it.
    pub targets: BTreeMap<ProfileName, u32>,
    /// Where news goes.
    pub store: Addr<SnapshotStore>,
    /// The time.
    pub clock: Clock,
    /// When batches come.
    pub timing: Timing,
    /// How executors speak to the driver.
    pub sessions: sessions::Wiring,
    /// What can be asked for beyond targets.
    pub commands: commands::Wiring,
    /// How targets follow demand, where they do.
    pub autoscaling: Option<autoscaling::Settings>,
    /// How executors are replaced one after the other, where they are.
    pub rolling: Option<rolling::Settings>,
    /// How profiles are added.
    pub adding: profiles::Wiring,
}

impl DriverBackend {
    /// With nothing told yet.
    pub fn new(wiring: Wiring) -> Self {
        let Wiring {
            app,
            incarnation,
            profiles,
            targets,
            store,
            clock,
            timing,
            sessions,
            commands,
            autoscaling,
            rolling,
            adding,
        } = wiring;
        let wanted = (targets.values()).fold(0, |sum: u32, n| sum.saturating_add(*n));
        let scalers = autoscaling.map(|settings| Scalers::new(settings, profiles.clone()));
        Self {
            app,
            incarnation,
            profiles,
            store,
            clock,
            timing,
            event_history: EventHistory::new(incarnation),
            losses: VecDeque::new(),
            growth: watch::Sender::new(0),
            sessions: Sessions::new(sessions, wanted),
            commands: Commands::new(commands, clock.now().tick),
            scalers: scalers.unwrap_or_default(),
            added: Profiles::new(adding),
            paused: Paused::default(),
            roller: rolling.map(|settings| Roller::new(settings, clock.now().tick)),
        }
    }

    /// Has those who follow events read on.
    fn grown(&self) {
        let last = self.event_history.last().number;
        self.growth.send_if_modified(|number| {
            let grows = *number != last;
            *number = last;
            grows
        });
    }

    /// What is asked for while executors are held is remembered with them.
    fn remember_while_held(&mut self, asked: Option<&BTreeMap<ProfileName, u32>>) {
        if let Some((mut held, asked)) = self.commands.held().cloned().zip(asked) {
            held.targets.extend(asked.clone());
            self.commands.set_held(Some(held));
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

    /// Something happened that no snapshot shows.
    fn happened(&mut self, what: What) {
        self.event_history.note(what, self.clock.now());
        self.grown();
    }

    fn degraded(&self) -> Option<DegradedView> {
        let (why, since) = self.sessions.registry.doubt()?;
        Some(DegradedView {
            why: why.to_string(),
            for_seconds: self.clock.now().tick.since(since).as_secs(),
        })
    }

    fn living(&self) -> Vec<ExecutorView> {
        let now = self.clock.now().tick;
        let registry = &self.sessions.registry;
        (self.event_history.snapshot())
            .map_or_else(Vec::new, |snapshot| views::living(snapshot, registry, now))
    }
}

/// Why these targets cannot be, if they cannot (spec B-25).
fn refused(
    profiles: &BTreeMap<ProfileName, Bounds>,
    targets: &BTreeMap<ProfileName, u32>,
) -> Option<RefusedTargets> {
    targets.iter().find_map(|(profile, target)| {
        let profile = profile.clone();
        let Some(bounds) = profiles.get(&profile) else {
            let known: Vec<&str> = profiles.keys().map(ProfileName::as_str).collect();
            let known = known.join(", ");
            return Some(RefusedTargets::UnknownProfile { profile, known });
        };
        let (target, most) = (*target, bounds.most);
        let refused = RefusedTargets::TooMany {
            profile,
            target,
            most,
        };
        (target > most).then_some(refused)
    })
}

impl Actor for DriverBackend {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.store.do_send(Subscribe {
            subscriber: Subscriber::Backend,
            timing: self.timing,
            recipient: ctx.address().recipient(),
        });
        self.look_after_sessions(ctx);
    }
}

impl Handler<Round> for DriverBackend {
    type Result = ();

    fn handle(&mut self, Round(batch): Round, ctx: &mut Self::Context) {
        self.check_liveness(ctx);
        self.event_history.round(&batch, self.clock.now());
        self.note_losses(&batch);
        self.sessions_round(&batch);
        self.scale(&batch);
        self.roll(&batch);
        self.store.do_send(Decided(Subscriber::Backend));
        self.grown();
    }
}

impl Handler<SetTargets> for DriverBackend {
    type Result = AtomicResponse<Self, Result<BTreeMap<ProfileName, u32>, RefusedTargets>>;

    /// Answered with what the ledger has then. Nothing else is handled meanwhile, so that no other command comes in
    /// between.
    fn handle(&mut self, SetTargets(targets): SetTargets, _: &mut Self::Context) -> Self::Result {
        let refused = refused(&self.profiles, &targets);
        if refused.is_none() {
            for (profile, target) in &targets {
                tracing::info!(profile = profile.as_str(), target, "target set");
            }
        }
        let store = self.store.clone();
        let asking = async move {
            match refused {
                Some(refused) => Err(refused),
                // Where the store is gone the driver ends.
                None => Ok(store.send(AskFor(targets)).await.unwrap_or_default()),
            }
        };
        AtomicResponse::new(Box::pin(asking.into_actor(self).map(|asked, this, _| {
            this.remember_while_held(asked.as_ref().ok());
            asked
        })))
    }
}

impl Handler<GetStatus> for DriverBackend {
    type Result = MessageResult<GetStatus>;

    fn handle(&mut self, _: GetStatus, _: &mut Self::Context) -> Self::Result {
        let time = self.clock.now().wall;
        let app = self.app.to_string();
        let mut status = StatusView::before_adoption(app, self.incarnation, time);
        if let Some(snapshot) = self.event_history.snapshot() {
            status.adopted = true;
            status.ready = self.sessions.readiness.is_ready();
            status.degraded = self.degraded();
            let registry = &self.sessions.registry;
            let now = self.clock.now().tick;
            status.profiles = views::profiles(snapshot, registry, &self.paused.0, now);
            status.held = self.commands.held().map(HeldView::of);
            status.losses = self.losses.iter().cloned().collect();
        }
        MessageResult(status)
    }
}

impl Handler<GetExecutors> for DriverBackend {
    type Result = MessageResult<GetExecutors>;

    fn handle(&mut self, _: GetExecutors, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.living())
    }
}

impl Handler<Explain> for DriverBackend {
    type Result = MessageResult<Explain>;

    fn handle(&mut self, Explain(id): Explain, _: &mut Self::Context) -> Self::Result {
        let now = self.clock.now().tick;
        let explanation = self.event_history.history(id).map(|history| Explanation {
            now: (self.event_history.snapshot())
                .and_then(|snapshot| snapshot.entry(id))
                .filter(|entry| !entry.has_ended())
                .map(|entry| ExecutorView::of(entry, self.sessions.registry.account(id), now)),
            history: history.clone(),
        });
        MessageResult(explanation)
    }
}

impl Handler<ReadEvents> for DriverBackend {
    type Result = MessageResult<ReadEvents>;

    fn handle(&mut self, ask: ReadEvents, _: &mut Self::Context) -> Self::Result {
        let reading = self.event_history.after(ask.after, ask.most);
        let living = match reading {
            Reading::Next(_) => Vec::new(),
            Reading::Anew(_) => self.living(),
        };
        MessageResult(EventsRead { reading, living })
    }
}

impl Handler<FollowEvents> for DriverBackend {
    type Result = MessageResult<FollowEvents>;

    fn handle(&mut self, _: FollowEvents, _: &mut Self::Context) -> Self::Result {
        MessageResult(Growth(self.growth.subscribe()))
    }
}
