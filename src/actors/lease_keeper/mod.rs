//! LeaseKeeper: acquires and renews the Lease under which a driver writes, and stands by while another driver holds it
//! (spec O-32).
//!
//! [`machine`] decides, the actor makes the calls. It runs before all other actors do, on connections of its own, and
//! publishes two values: the permit, which every write has to pass ([`WriteGate`]), and the [`LeaseState`], which the
//! driver's start and end wait for.

pub mod machine;

use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, SpawnHandle, StreamHandler,
    WrapFuture,
};
use futures::StreamExt;
use serde_json::Value;
use tokio::sync::watch as channel;

use crate::clock::Clock;
use crate::kubernetes::calls::{Lease, lease_object};
use crate::kubernetes::gate::Permit;
use crate::kubernetes::{Calls, Failure, FailureKind, WatchLine, WriteGate};
use crate::model::Tick;

use machine::{Answer, Effect, LeaseTimes, Loss, Machine, Op};

/// The timeout of the watch, in seconds. Then it is opened again.
const WATCH_SECONDS: u32 = 300;

/// When a watch that the server has not ended is cancelled.
const WATCH_DEADLINE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 10);

/// The pause before a watch is opened again.
const WATCH_AGAIN: Duration = Duration::from_secs(5);

/// This many calls that are not answered fit into the time in which the Lease has to be renewed.
const CALLS: u32 = 4;

/// Whether this driver may write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseState {
    /// Not known yet.
    Unknown,
    StandBy {
        /// Who holds the Lease.
        holder: Arc<str>,
    },
    Held,
    Lost(Loss),
    Refused(Failure),
    /// Given up on request.
    Released,
}

pub struct Wiring {
    pub settings: LeaseTimes,
    pub calls: Calls,
    /// The Lease's name.
    pub name: String,
    /// What the Lease is deleted with; `None` outside a cluster.
    pub owner: Option<Value>,
    pub clock: Clock,
}

/// The values that a LeaseKeeper publishes.
pub struct Published {
    pub gate: WriteGate,
    pub state: channel::Receiver<LeaseState>,
}

pub struct LeaseKeeper {
    machine: Machine,
    calls: Calls,
    name: String,
    owner: Option<Value>,
    clock: Clock,
    renew_deadline: Duration,
    duration: Duration,
    permit: channel::Sender<Option<Permit>>,
    state: channel::Sender<LeaseState>,
    armed: Option<Tick>,
    /// The watch that is open or being opened, and when it may be opened.
    watch: Option<SpawnHandle>,
    watch_at: Tick,
    renewing_credentials: bool,
}

/// Gives the Lease up. No write is sent any more.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Release;

impl LeaseKeeper {
    pub fn new(wiring: Wiring) -> (Self, Published) {
        let (permit, permitted) = channel::channel(None);
        let (state, stands) = channel::channel(LeaseState::Unknown);
        let keeper = Self {
            renew_deadline: wiring.settings.renew_deadline,
            duration: wiring.settings.duration,
            machine: Machine::new(wiring.settings),
            calls: wiring.calls,
            name: wiring.name,
            owner: wiring.owner,
            clock: wiring.clock,
            permit,
            state,
            armed: None,
            watch: None,
            watch_at: Tick::default(),
            renewing_credentials: false,
        };
        let published = Published {
            gate: WriteGate::new(permitted),
            state: stands,
        };
        (keeper, published)
    }

    fn pump(&mut self, ctx: &mut Context<Self>) {
        let now = self.clock.now();
        let effects = self.machine.tick(now);
        self.carry_out(effects, ctx);
        if let Some(op) = self.machine.next(now) {
            self.call(op, ctx);
        }
        self.rewatch(now.tick, ctx);
        let watch_at = self.machine.wants_watch() && self.watch.is_none();
        let next = (self.machine.next_at().into_iter())
            .chain(watch_at.then_some(self.watch_at))
            .min();
        if let Some(at) = next
            && self.armed != Some(at)
        {
            self.armed = Some(at);
            ctx.run_later(now.tick.until(at), move |this, ctx| {
                if this.armed == Some(at) {
                    this.armed = None;
                    this.pump(ctx);
                }
            });
        }
    }

    fn call(&mut self, op: Op, ctx: &mut Context<Self>) {
        let (calls, name, owner) = (self.calls.clone(), self.name.clone(), self.owner.clone());
        let limit = self
            .calls
            .request_timeout()
            .min(self.renew_deadline / CALLS);
        let call = async move {
            let answer = match op {
                Op::Get => calls.get_lease(&name, limit).await.map(Answer::Got),
                Op::Create(spec) => {
                    let lease = lease_object(&name, owner.as_ref(), &spec, None);
                    calls.create_lease(&lease, limit).await.map(Answer::Written)
                }
                Op::Replace(spec, uid, version) => {
                    let replaces = Some((&uid, &version));
                    let lease = lease_object(&name, owner.as_ref(), &spec, replaces);
                    (calls.replace_lease(&name, &lease, limit).await).map(Answer::Written)
                }
            };
            answer.unwrap_or_else(Answer::Failed)
        };
        ctx.spawn(call.into_actor(self).map(|answer, this, ctx| {
            if let Answer::Failed(failure) = &answer
                && failure.kind == FailureKind::Credentials
            {
                this.renew_credentials(ctx);
            }
            let effects = this.machine.answered(answer, this.clock.now());
            this.carry_out(effects, ctx);
            this.pump(ctx);
        }));
    }

    /// A standby has no other actor that would do this (spec A-22).
    fn renew_credentials(&mut self, ctx: &mut Context<Self>) {
        if std::mem::replace(&mut self.renewing_credentials, true) {
            return;
        }
        let calls = self.calls.clone();
        let renewal = async move { calls.renew_credentials().await };
        ctx.spawn(renewal.into_actor(self).map(|renewed, this, _| {
            this.renewing_credentials = false;
            if let Err(error) = renewed {
                tracing::warn!(%error, "the credentials for the lease cannot be read again");
            }
        }));
    }

    fn carry_out(&mut self, effects: Vec<Effect>, ctx: &mut Context<Self>) {
        for effect in effects {
            match effect {
                Effect::StandBy { holder } => {
                    self.state.send_replace(LeaseState::StandBy { holder });
                }
                Effect::Held { since } => {
                    let permit = Permit {
                        send_until: self.clock.instant(since + self.renew_deadline),
                        done_until: self.clock.instant(since + self.duration),
                    };
                    self.permit.send_replace(Some(permit));
                    self.stand(LeaseState::Held, ctx);
                }
                Effect::Lost(loss) => self.stand(LeaseState::Lost(loss), ctx),
                Effect::Refused(failure) => self.stand(LeaseState::Refused(failure), ctx),
                Effect::Released => self.stand(LeaseState::Released, ctx),
                Effect::Troubled(error) => {
                    tracing::warn!(%error, "the lease cannot be read or renewed: trying again");
                }
                Effect::Recovered => tracing::info!("the lease can be read and renewed again"),
            }
        }
    }

    fn stand(&mut self, state: LeaseState, ctx: &mut Context<Self>) {
        if state != LeaseState::Held {
            self.permit.send_replace(None);
        }
        if let Some(watch) = self.watch.take() {
            ctx.cancel_future(watch);
        }
        let changes = |before: &mut LeaseState| {
            let changes = *before != state;
            *before = state;
            changes
        };
        self.state.send_if_modified(changes);
    }

    fn rewatch(&mut self, now: Tick, ctx: &mut Context<Self>) {
        if !self.machine.wants_watch() || self.watch.is_some() || now < self.watch_at {
            return;
        }
        let (calls, name) = (self.calls.clone(), self.name.clone());
        let open = async move { calls.watch_lease(&name, WATCH_SECONDS).await };
        let opening = ctx.spawn(open.into_actor(self).map(|opened, this, ctx| match opened {
            Ok(lines) => {
                let deadline = tokio::time::sleep(WATCH_DEADLINE);
                this.watch = Some(ctx.add_stream(lines.take_until(Box::pin(deadline))));
            }
            Err(failure) => {
                let error = &failure.message;
                tracing::debug!(%error, "the watch on the lease did not begin");
                this.watch_ended(ctx);
            }
        }));
        self.watch = Some(opening);
    }

    /// Without the watch the Lease is still read every retry period.
    fn watch_ended(&mut self, ctx: &mut Context<Self>) {
        self.watch = None;
        self.watch_at = self.clock.now().tick + WATCH_AGAIN;
        self.pump(ctx);
    }
}

impl Actor for LeaseKeeper {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.pump(ctx);
    }
}

impl Handler<Release> for LeaseKeeper {
    type Result = ();

    fn handle(&mut self, _: Release, ctx: &mut Self::Context) {
        self.permit.send_replace(None);
        let effects = self.machine.release();
        self.carry_out(effects, ctx);
        self.pump(ctx);
    }
}

impl StreamHandler<Result<WatchLine<Lease>, Failure>> for LeaseKeeper {
    fn handle(&mut self, line: Result<WatchLine<Lease>, Failure>, ctx: &mut Self::Context) {
        let now = self.clock.now();
        let effects = match line {
            Ok(WatchLine::Seen(lease)) => self.machine.watched(Some(lease), now),
            Ok(WatchLine::Deleted(_)) => self.machine.watched(None, now),
            // The Lease is read every retry period in any case.
            _ => Vec::new(),
        };
        self.carry_out(effects, ctx);
        self.pump(ctx);
    }

    fn finished(&mut self, ctx: &mut Self::Context) {
        self.watch_ended(ctx);
    }
}
