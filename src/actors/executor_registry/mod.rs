//! ExecutorRegistry: the sessions of executors with this driver (spec B-1 to B-16).
//!
//! Passes executors' messages to the pure [`registry`] and carries out the effects: answers, sends
//! orders, reports sessions to the store, and has silent executors given up. Session steps that no
//! snapshot shows go to the event history, the number of registered executors to DriverBackend.
//! Uses the messages of the store, of LifecycleManager (orders) and of the profiles.

mod mailboxes;
pub mod messages;
pub mod rate;
pub mod registry;
pub mod view;

use actix::{
    Actor, ActorFutureExt as _, Addr, AsyncContext, Context, Handler, MessageResult, Recipient,
    ResponseActFuture, WrapFuture as _,
};
use tokio::sync::watch;

use crate::actors::api_health::Health;
use crate::actors::lifecycle_manager::{self, messages::Instruct};
use crate::actors::profile_messages::{NewConfig, ProfileAdded, ProfileGone};
use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::messages::{LookNow, Next, Round, Tell};
use crate::clock::Clock;
use crate::kubernetes::pod_template::TemplateError;
use crate::metrics::{Measure, Metrics, whole};
use crate::model::executor::{LeaveMethod, LeaveReason};
use crate::model::news::{News, TargetChange};
use crate::model::{ExecutorId, Snapshot};
use boatswain_agent::protocol::{Demand, FromExecutor, Order, ToExecutor};

use mailboxes::Mailboxes;
use messages::{
    GetSessions, Lost, Open, Outgoing, ReadRecord, Say, SessionEvent, SessionsChanged,
    TokensVerified,
};
use registry::{Effect, OfProfile, Reach, Registry, SessionStep, WhyDoubt};
use view::SessionView;

pub struct ExecutorRegistry {
    registry: Registry,
    store: Addr<SnapshotStore>,
    record: Recipient<ReadRecord>,
    events: Recipient<SessionEvent>,
    changes: Recipient<SessionsChanged>,
    clock: Clock,
    metrics: Metrics,
    api_server: watch::Receiver<Health>,
    mailboxes: Mailboxes,
    /// The last batch's snapshot; `None` before adoption.
    snapshot: Option<Snapshot>,
    /// What DriverBackend was last sent.
    changed: SessionsChanged,
}

pub struct Wiring {
    pub registry: Registry,
    pub store: Addr<SnapshotStore>,
    pub record: Recipient<ReadRecord>,
    pub events: Recipient<SessionEvent>,
    pub changes: Recipient<SessionsChanged>,
    pub clock: Clock,
    pub metrics: Metrics,
    /// Whether the API server answers.
    pub api_server: watch::Receiver<Health>,
}

impl ExecutorRegistry {
    pub fn new(wiring: Wiring) -> Self {
        Self {
            registry: wiring.registry,
            store: wiring.store,
            record: wiring.record,
            events: wiring.events,
            changes: wiring.changes,
            clock: wiring.clock,
            metrics: wiring.metrics,
            api_server: wiring.api_server,
            mailboxes: Mailboxes::default(),
            snapshot: None,
            changed: SessionsChanged::default(),
        }
    }

    /// Checks for silent executors, now and every second.
    fn look_each_second(&mut self, ctx: &mut Context<Self>) {
        self.look(ctx);
        ctx.run_later(registry::LOOK, Self::look_each_second);
    }

    fn look(&mut self, ctx: &mut Context<Self>) {
        let (now, mut effects) = (self.clock.now().tick, Vec::new());
        let unanswered = self.api_server.borrow().unanswered_since;
        self.registry.unanswered(unanswered);
        (self.registry).look(self.snapshot.as_ref(), now, &mut effects);
        if effects.contains(&Effect::ReadRecord) {
            self.read_record(ctx);
        }
        self.carry_out(effects);
    }

    /// Waited for as long as the API server does not answer: meanwhile no executor can be deleted.
    fn read_record(&mut self, ctx: &mut Context<Self>) {
        let read = self.record.send(ReadRecord).into_actor(self);
        ctx.spawn(read.map(|is_own, this, ctx| {
            let is_own = is_own.unwrap_or_default();
            this.registry.record_read(is_own);
            if is_own {
                this.look(ctx);
            }
        }));
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(connection, message) => {
                    self.mailboxes.post(connection, Outgoing::Say(message));
                }
                Effect::Close(connection) => self.mailboxes.post(connection, Outgoing::Close),
                Effect::Session(id, session) => {
                    self.store.do_send(Tell(News::Session(id, session)));
                }
                Effect::Retire(id, why) => self.store.do_send(Tell(News::Retire {
                    ids: vec![id],
                    aim: TargetChange::Stay,
                    why,
                    how: LeaveMethod::Delete,
                })),
                Effect::ReadRecord => {}
                Effect::AsksToGo(id, why) => self.asks_to_go(id, &why),
                Effect::Happened(id, profile, step) => {
                    log(id, &step);
                    self.events.do_send(SessionEvent::Step(id, profile, step));
                }
                Effect::Used(id, usage) => self.events.do_send(SessionEvent::Used(id, usage)),
                Effect::Degraded(why) => {
                    tracing::warn!(
                        why = why.to_string(),
                        "degraded: no executor is given up for its silence"
                    );
                    self.events.do_send(SessionEvent::Degraded(why));
                }
                Effect::Recovered => {
                    tracing::info!("recovered: every executor has one more timeout from now");
                    self.events.do_send(SessionEvent::Recovered);
                }
            }
        }
        self.report_changes();
    }

    /// Sends the number of registered executors and the degraded state if either has changed.
    fn report_changes(&mut self) {
        let doubt = self.registry.doubt();
        if self.changed.doubt == doubt && self.changed.registered == *self.registry.registered() {
            return;
        }
        let registered = self.registry.registered().clone();
        self.changed = SessionsChanged { registered, doubt };
        self.changes.do_send(self.changed.clone());
    }

    /// An executor must end soon and requests decommissioning; another one replaces it (spec B-30).
    fn asks_to_go(&mut self, id: ExecutorId, why: &str) {
        tracing::info!(
            executor = id.get(),
            why,
            "executor asks to be decommissioned"
        );
        let by = match why {
            "" => "itself".to_owned(),
            why => format!("itself: {why}"),
        };
        self.store.do_send(Tell(News::Retire {
            ids: vec![id],
            aim: TargetChange::Stay,
            why: LeaveReason::AskedToGo(by.into()),
            how: LeaveMethod::Drain {
                within: self.registry.decommission_timeout(),
            },
        }));
    }

    /// Answers a message by this snapshot, or by the last batch's.
    fn receive(&mut self, say: &Say, newest: Option<&Snapshot>) -> Vec<ToExecutor> {
        let (now, mut effects) = (self.clock.now().tick, Vec::new());
        let snapshot = newest.or(self.snapshot.as_ref());
        let answer = self.registry.receive(
            &say.proof,
            say.via,
            &say.message,
            snapshot,
            now,
            &mut effects,
        );
        self.carry_out(effects);
        self.metrics.messages.of([say.message.kind().into()]).inc();
        for code in answer.iter().filter_map(ToExecutor::refusal) {
            self.metrics.refused.of([code.to_owned().into()]).inc();
        }
        answer
    }

    fn measure(&self, metrics: &Metrics) {
        let now = self.registry.doubt().map(|(why, _)| why.word());
        for word in WhyDoubt::WORDS {
            let is_why = i64::from(now == Some(word));
            metrics.degraded.of([word.into()]).set(is_why);
        }
        let [mut connected, mut asking, mut disabled] = [0; 3];
        for (_, account) in self.registry.accounts() {
            *match account.reach {
                Reach::Connected(_) => &mut connected,
                Reach::Asking => &mut asking,
                Reach::Lost(_) => &mut disabled,
            } += 1;
        }
        let unregistered = self.mailboxes.len().saturating_sub(connected);
        for (state, number) in [
            ("connected", connected),
            ("asking", asking),
            ("disabled", disabled),
            ("unregistered", unregistered),
        ] {
            metrics.sessions.of([state.into()]).set(whole(number));
        }
        let unsent = metrics.depths.of(["session-messages".into()]);
        unsent.set(whole(self.mailboxes.unsent()));
    }
}

fn log(id: ExecutorId, step: &SessionStep) {
    let executor = id.get();
    match step {
        SessionStep::Registered {
            address,
            slots,
            session,
        } => {
            tracing::info!(executor, address, slots, session, "executor registered");
        }
        SessionStep::Disabled => {
            tracing::info!(executor, "executor disabled: its connection is lost");
        }
        SessionStep::Enabled => {
            tracing::info!(executor, "executor enabled: it is heard of again");
        }
        SessionStep::Exiting { code, why } => {
            tracing::debug!(executor, code, why, "executor says that it exits");
        }
    }
}

impl Actor for ExecutorRegistry {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.look_each_second(ctx);
    }
}

impl Handler<Round> for ExecutorRegistry {
    type Result = Next;

    fn handle(&mut self, Round(batch): Round, _: &mut Self::Context) -> Next {
        self.snapshot = Some(batch.latest().clone());
        let (now, mut effects) = (self.clock.now().tick, Vec::new());
        self.registry.round(&batch, now, &mut effects);
        self.carry_out(effects);
        Next::default()
    }
}

impl Handler<Open> for ExecutorRegistry {
    type Result = MessageResult<Open>;

    fn handle(&mut self, Open { proof }: Open, _: &mut Self::Context) -> Self::Result {
        let (opened, mut effects) = (self.mailboxes.open(), Vec::new());
        (self.registry).opened(opened.connection, proof, &mut effects);
        self.carry_out(effects);
        MessageResult(opened)
    }
}

impl Handler<Lost> for ExecutorRegistry {
    type Result = ();

    fn handle(&mut self, Lost(connection): Lost, _: &mut Self::Context) {
        self.mailboxes.close(connection);
        let (now, mut effects) = (self.clock.now().tick, Vec::new());
        (self.registry).lost(connection, now, &mut effects);
        self.carry_out(effects);
    }
}

impl Handler<Say> for ExecutorRegistry {
    type Result = ResponseActFuture<Self, Vec<ToExecutor>>;

    /// A pod can be faster than a batch: if the last batch lacks the executor, the store is asked.
    fn handle(&mut self, say: Say, _: &mut Self::Context) -> Self::Result {
        let registers = matches!(say.message, FromExecutor::Register(_));
        let known = |snapshot: &Snapshot| self.registry.knows(&say.proof, snapshot);
        if !registers || self.snapshot.as_ref().is_none_or(known) {
            let answer = self.receive(&say, None);
            return Box::pin(actix::fut::ready(answer));
        }
        let looking = self.store.send(LookNow).into_actor(self);
        Box::pin(looking.map(move |look, this: &mut Self, _| {
            let newest = look.ok().map(|look| look.0);
            this.receive(&say, newest.as_ref())
        }))
    }
}

impl Handler<Instruct> for ExecutorRegistry {
    type Result = ();

    /// The order to drain or stop is sent at once over a connection, or with the next answer.
    fn handle(&mut self, instruct: Instruct, _: &mut Self::Context) {
        let Instruct {
            executor,
            order,
            until,
            why,
        } = instruct;
        let (now, mut effects) = (self.clock.now().tick, Vec::new());
        let demand = match order {
            lifecycle_manager::messages::Order::Stop => Demand::Stop,
            lifecycle_manager::messages::Order::Drain => Demand::Drain,
        };
        let within = now.until(until);
        let order = Order {
            demand,
            within,
            why,
        };
        (self.registry).order(executor, order, now, &mut effects);
        self.carry_out(effects);
    }
}

impl Handler<GetSessions> for ExecutorRegistry {
    type Result = MessageResult<GetSessions>;

    fn handle(&mut self, GetSessions(one): GetSessions, _: &mut Self::Context) -> Self::Result {
        let now = self.clock.now().tick;
        MessageResult(match one {
            Some(id) => (self.registry.account(id).into_iter())
                .map(|account| (id, SessionView::of(account, now)))
                .collect(),
            None => (self.registry.accounts())
                .map(|(id, account)| (id, SessionView::of(account, now)))
                .collect(),
        })
    }
}

impl Handler<Measure> for ExecutorRegistry {
    type Result = ();

    fn handle(&mut self, Measure(metrics): Measure, _: &mut Self::Context) {
        self.measure(&metrics);
    }
}

impl Handler<TokensVerified> for ExecutorRegistry {
    type Result = ();

    fn handle(&mut self, verified: TokensVerified, _: &mut Self::Context) {
        self.registry.tokens(verified.0);
    }
}

impl Handler<NewConfig> for ExecutorRegistry {
    type Result = ();

    fn handle(&mut self, NewConfig(config): NewConfig, _: &mut Self::Context) {
        self.registry.reconfigure(config, self.clock.now().tick);
    }
}

impl Handler<ProfileAdded> for ExecutorRegistry {
    type Result = Result<(), TemplateError>;

    fn handle(&mut self, ProfileAdded(added): ProfileAdded, _: &mut Self::Context) -> Self::Result {
        let profile = OfProfile::new(added.spec.termination_grace, added.spec.growth);
        self.registry.add_profile(added.name.clone(), profile);
        Ok(())
    }
}

impl Handler<ProfileGone> for ExecutorRegistry {
    type Result = bool;

    fn handle(&mut self, gone: ProfileGone, _: &mut Self::Context) -> bool {
        self.registry.remove_profile(&gone.name);
        true
    }
}

#[cfg(test)]
mod tests;
