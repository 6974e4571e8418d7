//! ApiHealth: whether the API server answers (spec W-8) and accepts the driver's credentials (spec A-22).
//!
//! [`reachability`] and [`acceptance`] decide, by the outcomes of calls. Once calls have failed, this actor tries a cheap
//! call of its own about every second; the first answer to any call ends the backoffs of all callers, which are sent
//! [`ServerIsBack`]. Credentials that are refused are reloaded until they are accepted. All actors make their calls with
//! copies of the same [`Calls`], which share the reloaded credentials, so no other actor has to know that they change.

pub mod acceptance;
pub mod reachability;
mod reloading;

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
use reloading::Reloading;

/// A probe that is not answered for this long counts as failed.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// What is known of the API server, for those who need not ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Health {
    /// Since when no call was answered; `None`: the last one was.
    pub unanswered_since: Option<Tick>,
    /// Whether it answers and accepts the credentials, as far as is known.
    pub is_good: bool,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            unanswered_since: None,
            is_good: true,
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
        let is_good = call.is_answered() && call.failure != Some(FailureKind::Credentials);
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
                && !self.reloading.is_refused(),
        };
        (self.health).send_if_modified(|shown| std::mem::replace(shown, health) != health);
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
        self.step(Event::Called(CallResult::of(call.failure)), ctx);
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
