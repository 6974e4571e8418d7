//! ApiHealth: whether the API server answers (spec W-8) and accepts the driver's credentials (spec A-22).
//!
//! [`reachability`] and [`acceptance`] decide, by the outcomes of calls. Once calls have failed, this actor tries a
//! cheap call of its own about every second; the first answer to a call that began meanwhile ends the backoffs of all
//! callers, which are sent [`ServerIsBack`]. Credentials that are refused are reloaded until they are accepted. All
//! actors make their calls with copies of the same [`Calls`], which share the reloaded credentials, so no other actor
//! has to know that they change. Writes that are refused for long are said here, whichever actor makes them
//! ([`refused_writes`]).

pub mod acceptance;
pub mod reachability;
pub mod refused_writes;
mod reloading;

use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorContext, ActorFutureExt, Addr, AsyncContext, Context, Handler, Recipient,
    SpawnHandle, WrapFuture,
};
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::clock::Clock;
use crate::kubernetes::calls::{CallMade, ServerIsBack, StopCalling};
use crate::kubernetes::record::record_name;
use crate::kubernetes::{Calls, FailureKind};
use crate::model::Tick;
use crate::planted::{self, Planted};
use crate::telemetry::millis;

use reachability::{CallResult, Effect, Event, Reachability};
use refused_writes::{Change, RefusedWrite, RefusedWrites};
use reloading::Reloading;

/// A probe that is not answered for this long counts as failed.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// How often it is looked for refused writes that are not wanted any more.
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// What is known of the API server, for those who need not ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Since when no call was answered; `None`: the last one was.
    pub unanswered_since: Option<Tick>,
    /// Whether it answers and accepts the credentials, and refuses no write, as far as is known.
    pub is_good: bool,
    /// The writes that it has refused for long.
    pub refused: Arc<[RefusedWrite]>,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            unanswered_since: None,
            is_good: true,
            refused: Arc::default(),
        }
    }
}

/// Reports the outcomes of calls.
#[derive(Clone)]
pub struct Outcomes {
    pub to: Addr<ApiHealth>,
    pub health: watch::Receiver<Health>,
}

impl Outcomes {
    /// An answer is no news while all is good. One that comes between a failed call and its report is not reported
    /// either; then the probe shows the same.
    pub fn report(&self, call: CallMade) {
        let refused = |call: &CallMade| call.write.as_ref()?.refusal.clone();
        let is_good = call.is_answered()
            && call.failure != Some(FailureKind::Credentials)
            && refused(&call).is_none();
        if !is_good || !self.health.borrow().is_good {
            self.to.do_send(call);
        }
    }
}

pub struct ApiHealth {
    reachability: Reachability,
    reloading: Reloading,
    /// Rings when a probe is due.
    timer: Option<SpawnHandle>,
    unanswered_since: Option<Tick>,
    refused_writes: RefusedWrites,
    /// Whether a timer runs after which they are looked at.
    forgets: bool,
    health: watch::Sender<Health>,
    calls: Calls,
    /// The name of the application record, which the probe reads: a read of one object passes
    /// through all of the API server, its storage included, and needs no further right.
    record: String,
    clock: Clock,
    callers: Vec<Recipient<ServerIsBack>>,
}

impl ApiHealth {
    /// The callers are who makes calls and waits after failed ones; the random numbers are for the times of probes and
    /// of reloads.
    pub fn new(
        calls: Calls,
        prefix: &str,
        clock: Clock,
        health: watch::Sender<Health>,
        callers: Vec<Recipient<ServerIsBack>>,
        [probes, reloads]: [StdRng; 2],
    ) -> Self {
        Self {
            reachability: Reachability::new(probes),
            reloading: Reloading::new(&calls, reloads),
            timer: None,
            unanswered_since: None,
            refused_writes: RefusedWrites::default(),
            forgets: false,
            health,
            calls,
            record: record_name(prefix),
            clock,
            callers,
        }
    }

    fn step(&mut self, event: Event, ctx: &mut Context<Self>) {
        let now = self.clock.now().tick;
        match self.reachability.step(event, now) {
            None => {}
            Some(Effect::Arm { after }) => {
                let armed = ctx.run_later(after, |this, ctx| this.step(Event::Alarm, ctx));
                if let Some(before) = self.timer.replace(armed) {
                    ctx.cancel_future(before);
                }
            }
            Some(Effect::Probe) => self.probe(ctx),
            Some(Effect::Back { after }) => self.server_is_back(after, ctx),
        }
        self.show();
    }

    fn show(&self) {
        let health = Health {
            unanswered_since: self.unanswered_since,
            is_good: self.unanswered_since.is_none()
                && self.reachability.works()
                && !self.reloading.is_refused()
                && self.refused_writes.is_empty(),
            refused: self.refused_writes.said().into(),
        };
        (self.health).send_if_modified(|shown| {
            let changes = *shown != health;
            *shown = health;
            changes
        });
    }

    /// Processes what a call shows of refused writes. During an outage nothing is refused for a reason of its own.
    fn written(&mut self, call: &CallMade, ctx: &mut Context<Self>) {
        let is_clear = call.write.as_ref().filter(|write| {
            write.refusal.is_none() && call.is_answered() || self.reachability.works()
        });
        if let Some(write) = is_clear {
            let now = self.clock.now().tick;
            let change = self.refused_writes.called(call.verb, write, now);
            self.say(change.as_slice());
            self.forget_later(ctx);
        }
    }

    fn forget_later(&mut self, ctx: &mut Context<Self>) {
        if self.forgets || self.refused_writes.is_empty() {
            return;
        }
        self.forgets = true;
        ctx.run_later(FORGET_EVERY, |this, ctx| {
            this.forgets = false;
            let over = this.refused_writes.forget(this.clock.now().tick);
            this.say(&over);
            this.show();
            this.forget_later(ctx);
        });
    }

    fn say(&self, changes: &[Change]) {
        let now = self.clock.now().tick;
        for change in changes {
            let (Change::Refused(write) | Change::Over(write)) = change;
            let (verb, resource) = (write.verb, &*write.resource);
            let duration_ms = millis(now.since(write.since));
            match change {
                Change::Refused(_) => tracing::warn!(
                    verb,
                    resource,
                    error = &*write.why,
                    duration_ms,
                    "degraded: the API server refuses these writes: they are tried again"
                ),
                Change::Over(_) => tracing::info!(
                    verb,
                    resource,
                    duration_ms,
                    "the API server no longer refuses these writes, or they are not wanted any more"
                ),
            }
        }
    }

    fn probe(&self, ctx: &mut Context<Self>) {
        let (calls, record) = (self.calls.clone(), self.record.clone());
        let probe = async move { timeout(PROBE_TIMEOUT, calls.get_config_map(&record)).await };
        ctx.spawn(probe.into_actor(self).map(|answer, this, ctx| {
            let heard = answer.map_or(CallResult::Nothing, |answer| {
                CallResult::of(answer.err().map(|failure| failure.kind))
            });
            this.step(Event::Probed(heard), ctx);
        }));
    }

    fn server_is_back(&mut self, after: Duration, ctx: &mut Context<Self>) {
        if planted::is(Planted::OutageEndUnreported) {
            return;
        }
        let duration_ms = millis(after);
        tracing::info!(duration_ms, "the API server answers again");
        for caller in self.callers.clone() {
            let delay = self.reachability.spread();
            ctx.run_later(delay, move |_, _| caller.do_send(ServerIsBack { after }));
        }
    }
}

impl Actor for ApiHealth {
    type Context = Context<Self>;
}

impl Handler<CallMade> for ApiHealth {
    type Result = ();

    fn handle(&mut self, call: CallMade, ctx: &mut Self::Context) {
        let now = self.clock.now().tick;
        self.unanswered_since = match call.is_answered() {
            true => None,
            false => self.unanswered_since.or(Some(now)),
        };
        self.called(&call, ctx);
        self.written(&call, ctx);
        let outcome = Event::Called(CallResult::of(call.failure), call.took);
        self.step(outcome, ctx);
    }
}

impl Handler<StopCalling> for ApiHealth {
    type Result = ();

    fn handle(&mut self, _: StopCalling, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

#[cfg(test)]
mod tests;
