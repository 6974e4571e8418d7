//! Reachability: the driver's one opinion on whether the API server answers (spec W-8).
//!
//! Every call reports its outcome ([`CallMade`]). Once calls have failed, this actor tries a cheap
//! call of its own about every second. The first answer to any call ends the backoffs of all
//! callers, which are sent [`ServerIsBack`]. [`opinion`] decides.

pub mod opinion;

use std::time::Duration;

use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, Message, Recipient,
    WrapFuture,
};
use rand::rngs::StdRng;
use tokio::time::timeout;

use crate::clock::Clock;
use crate::kubernetes::Calls;
use crate::kubernetes::calls::{CallMade, ServerIsBack};
use crate::kubernetes::record::record_name;
use crate::planted::{self, Planted};
use crate::telemetry::millis;

use opinion::{Effect, Event, Heard, Opinion, Serial};

/// A probe that is not answered for this long counts as failed.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

pub struct Reachability {
    opinion: Opinion,
    calls: Calls,
    /// The name of the application record, which the probe reads: a read of one object passes
    /// through all of the API server, its storage included, and needs no further right.
    record: String,
    clock: Clock,
    callers: Vec<Recipient<ServerIsBack>>,
}

pub struct Wiring {
    pub calls: Calls,
    /// The prefix of all object names.
    pub prefix: String,
    pub clock: Clock,
    /// Who makes calls and waits after failed ones.
    pub callers: Vec<Recipient<ServerIsBack>>,
    pub rng: StdRng,
}

/// Ends the probing: the driver has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct Stop;

#[derive(Message)]
#[rtype(result = "()")]
struct Alarm(Serial);

impl Reachability {
    pub fn new(wiring: Wiring) -> Self {
        Self {
            opinion: Opinion::new(wiring.rng),
            calls: wiring.calls,
            record: record_name(&wiring.prefix),
            clock: wiring.clock,
            callers: wiring.callers,
        }
    }

    fn step(&mut self, event: Event, ctx: &mut Context<Self>) {
        let now = self.clock.now().tick;
        match self.opinion.step(event, now) {
            None => {}
            Some(Effect::Arm { timer, after }) => {
                ctx.notify_later(Alarm(timer), after);
            }
            Some(Effect::Probe) => self.probe(ctx),
            Some(Effect::Back { after }) => self.server_is_back(after, ctx),
        }
    }

    fn probe(&self, ctx: &mut Context<Self>) {
        let (calls, record) = (self.calls.clone(), self.record.clone());
        let probe = async move { timeout(PROBE_TIMEOUT, calls.get_config_map(&record)).await };
        ctx.spawn(probe.into_actor(self).map(|answer, this, ctx| {
            let heard = match &answer {
                Ok(Ok(_)) => Heard::Answer,
                Ok(Err(failure)) => Heard::of(failure.kind),
                Err(_) => Heard::Nothing,
            };
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
            let delay = self.opinion.spread();
            ctx.run_later(delay, move |_, _| caller.do_send(ServerIsBack { after }));
        }
    }
}

impl Actor for Reachability {
    type Context = Context<Self>;
}

impl Handler<CallMade> for Reachability {
    type Result = ();

    fn handle(&mut self, call: CallMade, ctx: &mut Self::Context) {
        self.step(Event::Called(Heard::of_call(&call)), ctx);
    }
}

impl Handler<Alarm> for Reachability {
    type Result = ();

    fn handle(&mut self, Alarm(timer): Alarm, ctx: &mut Self::Context) {
        self.step(Event::Alarm { timer }, ctx);
    }
}

impl Handler<Stop> for Reachability {
    type Result = ();

    fn handle(&mut self, Stop: Stop, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
