//! DriverBackend: who is there, what is wanted, what happened.
//!
//! It owns the targets, is told of every end, and keeps the [`event history`] and the [`registry`] of executors that speak to
//! the driver.

pub mod autoscaling;
pub mod commands;
pub mod event_history;
pub mod messages;
mod pauses;
pub mod readiness;
pub mod registry;
pub mod rolling;
pub mod sessions;
pub mod views;

use std::collections::{BTreeMap, VecDeque};

use actix::{Actor, Addr, AsyncContext, Context, Handler, MessageResult, Recipient};
use tokio::sync::watch;

use crate::actors::lifecycle_manager::messages::Ended;
use crate::actors::pod_allocator::pause::Paused;
use crate::actors::profiles::messages::{Bounds, ProfileAdded};
use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::delivery::Timing;
use crate::actors::snapshot_store::messages::{Decided, Round, Subscribe, Subscriber, Tell};
use crate::clock::Clock;
use crate::kubernetes::pod_template::TemplateError;
use crate::model::news::News;
use crate::model::{AppId, Incarnation, ProfileName};

use autoscaling::driving::Scalers;
use commands::Commands;
use event_history::event::What;
use event_history::{EventHistory, Reading};
use messages::{
    EventsRead, Explain, Explanation, FollowEvents, GetExecutors, GetStatus, Growth, HearOfEnds,
    KeepTargets, ReadEvents, RefusedTargets, SetTargets,
};
use rolling::Roller;
use sessions::Sessions;
use views::{DegradedView, ExecutorView, HeldView, LOSSES, LossView, StatusView};

/// The application's side of the driver.
pub struct DriverBackend {
    app: AppId,
    incarnation: Incarnation,
    /// All profiles that there are.
    profiles: BTreeMap<ProfileName, Bounds>,
    /// The targets as they were set last; the ledger takes them in a moment later.
    targets: BTreeMap<ProfileName, u32>,
    store: Addr<SnapshotStore>,
    keep: Recipient<KeepTargets>,
    clock: Clock,
    timing: Timing,
    /// Those who hear of ends; one for each reader that the wiring attaches.
    readers: Vec<Recipient<Ended>>,
    event_history: EventHistory,
    /// The last losses, the newest first.
    losses: VecDeque<LossView>,
    growth: watch::Sender<u64>,
    sessions: Sessions,
    commands: Commands,
    scalers: Scalers,
    roller: Option<Roller>,
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
    /// The targets at the start, of every profile there is; the ledger has them already.
    pub targets: BTreeMap<ProfileName, u32>,
    /// Where news goes.
    pub store: Addr<SnapshotStore>,
    /// Who keeps targets over a restart.
    pub keep: Recipient<KeepTargets>,
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
            keep,
            clock,
            timing,
            sessions,
            commands,
            autoscaling,
            rolling,
        } = wiring;
        let wanted = (targets.values()).fold(0, |sum: u32, n| sum.saturating_add(*n));
        let scalers = autoscaling.map(|settings| Scalers::new(settings, profiles.clone()));
        Self {
            app,
            incarnation,
            profiles,
            targets,
            store,
            keep,
            clock,
            timing,
            readers: Vec::new(),
            event_history: EventHistory::new(incarnation),
            losses: VecDeque::new(),
            growth: watch::Sender::new(0),
            sessions: Sessions::new(sessions, wanted),
            commands: Commands::new(commands, clock.now().tick),
            scalers: scalers.unwrap_or_default(),
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
        self.sessions_round(&batch);
        self.scale(&batch);
        self.roll(&batch);
        self.store.do_send(Decided(Subscriber::Backend));
        self.grown();
    }
}

impl Handler<SetTargets> for DriverBackend {
    type Result = Result<BTreeMap<ProfileName, u32>, RefusedTargets>;

    fn handle(&mut self, SetTargets(targets): SetTargets, _: &mut Self::Context) -> Self::Result {
        if let Some(refused) = refused(&self.profiles, &targets) {
            return Err(refused);
        }
        for (profile, target) in &targets {
            tracing::info!(profile = profile.as_str(), target, "target set");
        }
        self.targets.extend(targets.clone());
        self.keep.do_send(KeepTargets(targets.clone()));
        if let Some(mut held) = self.commands.held().cloned() {
            held.targets.extend(targets);
            self.commands.set_held(Some(held));
        } else {
            self.store.do_send(Tell(News::Targets(targets)));
        }
        Ok(self.targets.clone())
    }
}

impl Handler<ProfileAdded> for DriverBackend {
    type Result = Result<(), TemplateError>;

    fn handle(&mut self, ProfileAdded(added): ProfileAdded, _: &mut Self::Context) -> Self::Result {
        let (name, bounds) = (added.name.clone(), added.bounds);
        self.profiles.insert(name.clone(), bounds);
        self.scalers.add(name.clone(), bounds);
        if let Some(grace) = added.spec.termination_grace {
            self.sessions.registry.know(name.clone(), grace);
        }
        self.targets.insert(name.clone(), added.executors);
        let targets = BTreeMap::from([(name, added.executors)]);
        match self.commands.held().cloned() {
            None => self.store.do_send(Tell(News::Targets(targets))),
            Some(mut held) => {
                let none = targets.keys().map(|name| (name.clone(), 0)).collect();
                self.store.do_send(Tell(News::Targets(none)));
                held.targets.extend(targets);
                self.commands.set_held(Some(held));
            }
        }
        Ok(())
    }
}

impl Handler<Ended> for DriverBackend {
    type Result = ();

    fn handle(&mut self, ended: Ended, _: &mut Self::Context) {
        let now = self.clock.now();
        self.event_history.end(&ended.0, now);
        self.losses.truncate(LOSSES - 1);
        self.losses.push_front(LossView {
            executor: ended.0.entry.id.get(),
            profile: ended.0.entry.profile.to_string(),
            time: now.wall,
            reason: ended.0.reason.class.to_string(),
            why: ended.0.reason.message.clone(),
        });
        self.readers.retain(Recipient::connected);
        for reader in &self.readers {
            reader.do_send(ended.clone());
        }
        self.grown();
    }
}

impl Handler<HearOfEnds> for DriverBackend {
    type Result = ();

    fn handle(&mut self, HearOfEnds(reader): HearOfEnds, _: &mut Self::Context) {
        self.readers.push(reader);
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
