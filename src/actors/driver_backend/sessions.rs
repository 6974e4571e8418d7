//! DriverBackend's part in sessions: it hands what executors say to the registry, and carries out what follows.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{
    ActorFutureExt as _, AsyncContext, Context, Handler, Message, MessageResult, ResponseActFuture,
    WrapFuture as _,
};
use tokio::sync::mpsc;

use super::DriverBackend;
use super::event_history::event::{Step, What};
use super::readiness::{self, Readiness};
use super::registry::{self, ConnectionId, Effect, Proof, Reach, Registry, Via};
use crate::actors::lifecycle_manager::{self, messages::Instruct};
use crate::actors::metrics::messages::{AskDepths, Depths, MeasureSessions, SessionMeasures};
use crate::actors::snapshot_store::messages::{LookNow, Tell};
use crate::kubernetes::calls::CallMade;
use crate::model::executor::{How, Why};
use crate::model::news::{Aim, News};
use crate::model::{Batch, ExecutorId, ProfileName, Snapshot};
use boatswain_agent::protocol::{Demand, FromExecutor, Order, ToExecutor};

/// So many messages may wait to be sent over a connection. An executor is rarely told more than one thing; one that
/// does not take that many in reads nothing, and is cut off.
const MAILBOX: usize = 16;

/// What goes out over a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outgoing {
    /// A message.
    Say(ToExecutor),
    /// The end of the connection.
    Close,
}

/// A connection is open: answered with its number, and with what is to go out over it.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Opened")]
pub struct Open;

/// A connection as DriverBackend knows it.
#[derive(Debug)]
pub struct Opened {
    /// Its number.
    pub connection: ConnectionId,
    /// What is to go out over it; where this ends, the connection does.
    pub outgoing: mpsc::Receiver<Outgoing>,
}

/// A connection has ended.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct Lost(pub ConnectionId);

/// An executor has said something: answered with at least one message.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Vec<ToExecutor>")]
pub struct Say {
    /// Who it has proved to be.
    pub proof: Arc<Proof>,
    /// How it came.
    pub via: Via,
    /// What it said.
    pub message: FromExecutor,
}

/// Something was said that nobody could read, or that somebody said who may not.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct NotTakenIn {
    /// Why, in one word.
    pub code: &'static str,
}

/// What was said, counted.
#[derive(Debug, Default)]
struct Tally {
    heard: BTreeMap<&'static str, u64>,
    /// By codes of the driver's own; so there are few.
    refused: BTreeMap<String, u64>,
}

impl Tally {
    fn say(&mut self, message: &FromExecutor, answers: &[ToExecutor]) {
        *self.heard.entry(message.kind()).or_default() += 1;
        for code in answers.iter().filter_map(ToExecutor::refusal) {
            self.refuse(code);
        }
    }

    fn refuse(&mut self, code: &str) {
        match self.refused.get_mut(code) {
            Some(count) => *count += 1,
            None => {
                self.refused.insert(code.to_owned(), 1);
            }
        }
    }
}

/// Sessions, as DriverBackend has them.
pub(super) struct Sessions {
    pub(super) registry: Registry,
    pub(super) readiness: Readiness,
    mailboxes: BTreeMap<ConnectionId, mpsc::Sender<Outgoing>>,
    connections: u64,
    begun: bool,
    /// What happened to executors that no batch has shown yet; each is in the next one.
    untold: Vec<(ExecutorId, ProfileName, Step)>,
    tally: Tally,
}

/// What sessions are made of.
pub struct Wiring {
    /// Who is given an account, and who is given up.
    pub registry: registry::Settings,
    /// When the application may begin.
    pub readiness: readiness::Settings,
}

impl Sessions {
    pub(super) fn new(wiring: Wiring, targets: u32) -> Self {
        Self {
            registry: Registry::new(wiring.registry),
            readiness: Readiness::new(wiring.readiness, targets),
            mailboxes: BTreeMap::new(),
            connections: 0,
            begun: false,
            untold: Vec::new(),
            tally: Tally::default(),
        }
    }

    fn measures(&self) -> SessionMeasures {
        let mut measures = SessionMeasures {
            heard: self.tally.heard.clone(),
            refused: self.tally.refused.clone(),
            ..SessionMeasures::default()
        };
        for (_, account) in self.registry.accounts() {
            *match account.reach {
                Reach::Connected(_) => &mut measures.connected,
                Reach::Asking => &mut measures.asking,
                Reach::Lost(_) => &mut measures.disabled,
            } += 1;
        }
        measures.unregistered = self.mailboxes.len().saturating_sub(measures.connected);
        measures
    }

    /// What waits to be told to the executor that takes in the least.
    fn unsent(&self) -> usize {
        let waiting = |mailbox: &mpsc::Sender<Outgoing>| MAILBOX - mailbox.capacity();
        self.mailboxes.values().map(waiting).max().unwrap_or(0)
    }

    /// Puts something into a mailbox; a connection that does not take in what it is told ends.
    fn post(&mut self, connection: ConnectionId, outgoing: Outgoing) {
        let Some(mailbox) = self.mailboxes.get(&connection) else {
            return;
        };
        if let Err(mpsc::error::TrySendError::Full(_)) = mailbox.try_send(outgoing) {
            let connection_id = connection.0;
            tracing::warn!(
                connection = connection_id,
                "a connection is cut: its executor reads nothing"
            );
            self.mailboxes.remove(&connection);
        }
    }
}

impl DriverBackend {
    /// Looks at who is silent, now and each second from then on.
    pub(super) fn look_after_sessions(&mut self, ctx: &mut Context<Self>) {
        let now = self.clock.now();
        let mut effects = Vec::new();
        let snapshot = self.event_history.snapshot();
        (self.sessions.registry).look(snapshot, now.tick, &mut effects);
        self.carry_out(effects);
        self.look_whether_ready();
        ctx.run_later(registry::LOOK, Self::look_after_sessions);
    }

    /// The registry's share of a round.
    pub(super) fn sessions_round(&mut self, batch: &Batch) {
        if !batch.latest().adopted {
            return;
        }
        self.tell_steps();
        let first = !std::mem::replace(&mut self.sessions.begun, true);
        let (now, mut effects) = (self.clock.now().tick, Vec::new());
        (self.sessions.registry).round(batch, first, now, &mut effects);
        self.carry_out(effects);
        self.look_whether_ready();
    }

    fn look_whether_ready(&mut self) {
        if self.sessions.readiness.is_ready() {
            return;
        }
        let Some(snapshot) = self.event_history.snapshot() else {
            return;
        };
        let Sessions {
            registry,
            readiness,
            ..
        } = &mut self.sessions;
        let now = self.clock.now();
        let (there, becomes) = if readiness.counts_registered() {
            let there = u32::try_from(registry.accounts().len()).unwrap_or(u32::MAX);
            let of = |profile: &ProfileName| registry.registered(profile);
            (there, readiness.look(there, of, now.tick))
        } else {
            let there = running(snapshot);
            let of = |profile: &ProfileName| snapshot.counts(profile).running;
            (there, readiness.look(there, of, now.tick))
        };
        if becomes {
            let wanted = self.sessions.readiness.wanted();
            tracing::info!(executors = there, wanted, "ready");
            let executors = there;
            self.event_history
                .note(What::Ready { executors, wanted }, now);
            self.grown();
        }
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(connection, message) => {
                    self.sessions.post(connection, Outgoing::Say(message));
                }
                Effect::Close(connection) => self.sessions.post(connection, Outgoing::Close),
                Effect::Session {
                    id,
                    registered,
                    idle,
                } => self.store.do_send(Tell(News::Session {
                    id,
                    registered,
                    idle,
                })),
                Effect::Retire(id, why) => self.store.do_send(Tell(News::Retire {
                    ids: vec![id],
                    aim: Aim::Stay,
                    why,
                    how: How::Delete,
                })),
                Effect::AsksToGo(id, why) => self.asks_to_go(id, &why),
                Effect::Happened(id, profile, step) => {
                    log(id, &step);
                    self.sessions.untold.push((id, profile, step));
                    self.tell_steps();
                }
                Effect::Degraded(why) => {
                    let why = why.to_string();
                    tracing::warn!(why, "degraded: no executor is given up for its silence");
                    self.happened(What::Degraded { why });
                }
                Effect::Recovered => {
                    tracing::info!("recovered: every executor has one more timeout from now");
                    self.happened(What::Recovered);
                }
            }
        }
    }

    /// Tells what happened over sessions; of an executor that no batch has shown yet, after that batch.
    fn tell_steps(&mut self) {
        let Some(snapshot) = self.event_history.snapshot().cloned() else {
            return;
        };
        let now = self.clock.now();
        for (id, profile, step) in std::mem::take(&mut self.sessions.untold) {
            match snapshot.entry(id) {
                Some(_) => self.event_history.step(id, &profile, step, now),
                None if snapshot.ended.contains(id) => {}
                None => self.sessions.untold.push((id, profile, step)),
            }
        }
        self.grown();
    }

    /// An executor has to go soon, and asks to be decommissioned; another one takes its place (spec B-30).
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
            aim: Aim::Stay,
            why: Why::Decommissioned(by.into()),
            how: How::Drain {
                within: self.commands.decommission_timeout(),
            },
        }));
    }
}

impl DriverBackend {
    /// What is answered, by this snapshot or by the last one that came.
    fn said(&mut self, say: &Say, newest: Option<&Snapshot>) -> Vec<ToExecutor> {
        let (now, mut effects) = (self.clock.now().tick, Vec::new());
        let snapshot = newest.or(self.event_history.snapshot());
        let registry = &mut self.sessions.registry;
        let answer = registry.said(
            &say.proof,
            say.via,
            &say.message,
            snapshot,
            now,
            &mut effects,
        );
        self.carry_out(effects);
        if matches!(say.message, FromExecutor::Register(_)) {
            self.look_whether_ready();
        }
        self.sessions.tally.say(&say.message, &answer);
        answer
    }
}

fn running(snapshot: &Snapshot) -> u32 {
    snapshot.counts.values().map(|counts| counts.running).sum()
}

fn log(id: ExecutorId, step: &Step) {
    let executor = id.get();
    match step {
        Step::Registered {
            address,
            slots,
            session,
        } => {
            tracing::info!(executor, address, slots, session, "executor registered");
        }
        Step::Disabled => tracing::info!(executor, "executor disabled: its connection is lost"),
        Step::Enabled => tracing::info!(executor, "executor enabled: it is heard of again"),
        Step::Exiting { code, why } => {
            tracing::debug!(executor, code, why, "executor says that it exits");
        }
        _ => {}
    }
}

impl Handler<Open> for DriverBackend {
    type Result = MessageResult<Open>;

    fn handle(&mut self, _: Open, _: &mut Self::Context) -> Self::Result {
        self.sessions.connections += 1;
        let connection = ConnectionId(self.sessions.connections);
        let (mailbox, outgoing) = mpsc::channel(MAILBOX);
        self.sessions.mailboxes.insert(connection, mailbox);
        MessageResult(Opened {
            connection,
            outgoing,
        })
    }
}

impl Handler<Lost> for DriverBackend {
    type Result = ();

    fn handle(&mut self, Lost(connection): Lost, _: &mut Self::Context) {
        self.sessions.mailboxes.remove(&connection);
        let (now, mut effects) = (self.clock.now().tick, Vec::new());
        (self.sessions.registry).lost(connection, now, &mut effects);
        self.carry_out(effects);
    }
}

impl Handler<Say> for DriverBackend {
    type Result = ResponseActFuture<Self, Vec<ToExecutor>>;

    /// A pod can be faster than a batch: whoever is not known here may be in the ledger already, which is asked.
    fn handle(&mut self, say: Say, _: &mut Self::Context) -> Self::Result {
        let snapshot = self.event_history.snapshot();
        let registers = matches!(say.message, FromExecutor::Register(_));
        let known = |snapshot: &Snapshot| self.sessions.registry.knows(&say.proof, snapshot);
        if !registers || snapshot.is_none_or(known) {
            let answer = self.said(&say, None);
            return Box::pin(actix::fut::ready(answer));
        }
        let looking = self.store.send(LookNow).into_actor(self);
        Box::pin(looking.map(move |look, backend: &mut Self, _| {
            let newest = look.ok().map(|look| look.0);
            backend.said(&say, newest.as_ref())
        }))
    }
}

impl Handler<Instruct> for DriverBackend {
    type Result = ();

    /// An executor that was told to drain or to stop hears of it, at once or when it speaks next.
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
        (self.sessions.registry).order(executor, order, now, &mut effects);
        self.carry_out(effects);
    }
}

impl Handler<NotTakenIn> for DriverBackend {
    type Result = ();

    fn handle(&mut self, NotTakenIn { code }: NotTakenIn, _: &mut Self::Context) {
        self.sessions.tally.refuse(code);
    }
}

impl Handler<MeasureSessions> for DriverBackend {
    type Result = SessionMeasures;

    fn handle(&mut self, _: MeasureSessions, _: &mut Self::Context) -> SessionMeasures {
        self.sessions.measures()
    }
}

impl Handler<AskDepths> for DriverBackend {
    type Result = Depths;

    fn handle(&mut self, _: AskDepths, _: &mut Self::Context) -> Depths {
        Depths(vec![
            ("session-messages", self.sessions.unsent()),
            ("session-events", self.sessions.untold.len()),
        ])
    }
}

/// Whether the API server is out of reach is told by the calls (spec B-13).
impl Handler<CallMade> for DriverBackend {
    type Result = ();

    fn handle(&mut self, call: CallMade, _: &mut Self::Context) {
        let now = self.clock.now().tick;
        self.sessions.registry.call(call.answered, now);
    }
}
