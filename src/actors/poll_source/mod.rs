//! PollSource: makes a complete list at each interval, independently of the watch (spec P-1 to
//! P-3).
//!
//! `machine` makes the decisions; the actor carries them out and feeds the results back.

use std::time::Duration;

use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, SpawnHandle, WrapFuture,
};
use rand::rngs::StdRng;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use self::lister::{Lister, TakenIn};
use self::machine::{Effect, Event, Machine, Polled, Report};
use self::messages::NewInterval;
use crate::kubernetes::calls::{ServerIsBack, StopCalling};
use crate::model::news::ListKind;
use crate::model::{Serial, Tick};

pub mod lister;
mod machine;
pub mod messages;

/// The least deadline of a poll, even if the interval is shorter: a list consists of many pages,
/// each with its own timeout (spec P-2).
const SHORTEST_DEADLINE: Duration = Duration::from_secs(60);
/// The interval of lists where the poll is off (spec P-3).
const SWEEP_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// When and how lists are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// From the end of one list to the start of the next, ± 10 %.
    pub interval: Duration,
    /// Whether the server may answer from its cache.
    pub from_cache: bool,
    /// Whether there is no watch, so that the poll makes the first list, and makes it at once (spec
    /// W-6).
    pub makes_first_list: bool,
}

impl Pace {
    /// The pace where the poll is off and only the watch is on: one quorum list every 5 min
    /// corrects what the watch may have missed (spec P-3).
    pub const SWEEP: Pace = Pace {
        interval: SWEEP_INTERVAL,
        from_cache: false,
        makes_first_list: false,
    };
}

pub struct PollSource {
    lister: Lister,
    machine: Machine,
    deadline: Duration,
    /// The origin of ticks.
    born: Instant,
    list: Option<SpawnHandle>,
    timer: Option<SpawnHandle>,
}

impl PollSource {
    /// A poll with this pace. It begins when the actor is started.
    pub fn new(lister: Lister, pace: Pace, rng: StdRng) -> Self {
        Self {
            lister,
            machine: Machine::new(pace, rng),
            deadline: pace.interval.max(SHORTEST_DEADLINE),
            born: Instant::now(),
            list: None,
            timer: None,
        }
    }

    fn step(&mut self, event: Event, ctx: &mut Context<Self>) {
        let now = Tick::after_start(self.born.elapsed());
        for effect in self.machine.step(event, now) {
            self.carry_out(effect, ctx);
        }
    }

    fn carry_out(&mut self, effect: Effect, ctx: &mut Context<Self>) {
        match effect {
            Effect::Poll { call, quorum } => self.poll(call, quorum, ctx),
            Effect::Cut => {
                if let Some(list) = self.list.take() {
                    ctx.cancel_future(list);
                }
            }
            Effect::Arm { timer, after } => {
                let alarm = Event::Alarm { timer };
                let armed = ctx.run_later(after, |this, ctx| this.step(alarm, ctx));
                if let Some(before) = self.timer.replace(armed) {
                    ctx.cancel_future(before);
                }
            }
            Effect::Report(report) => log(&report),
        }
    }

    fn poll(&mut self, call: Serial, quorum: bool, ctx: &mut Context<Self>) {
        let lister = self.lister.clone();
        let deadline = self.deadline;
        let freshness = if quorum {
            ListKind::PollNewest
        } else {
            ListKind::PollCached
        };
        let list = async move { lister.list(freshness, deadline).await };
        let list = list.into_actor(self).map(move |outcome, act, ctx| {
            act.list = None;
            let outcome = outcome.map(polled);
            act.step(Event::Polled { call, outcome }, ctx);
        });
        self.list = Some(ctx.spawn(list));
    }
}

fn polled(list: TakenIn) -> Polled {
    Polled {
        accepted: list.verdict.is_taken_in(),
        pods: list.pods,
    }
}

fn log(report: &Report) {
    match report {
        Report::Listed { first: true, pods } => info!(pods, "first poll completed"),
        Report::Listed { first: false, pods } => debug!(pods, "poll completed"),
        Report::Trouble { first, error, wait } => {
            let backoff_ms = wait.as_millis();
            if *first {
                warn!(%error, backoff_ms, "poll failed, the snapshot is unchanged");
            } else {
                debug!(%error, backoff_ms, "poll failed again");
            }
        }
        Report::Recovered => info!("poll works again"),
    }
}

impl Actor for PollSource {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.step(Event::Begin, ctx);
    }
}

impl Handler<NewInterval> for PollSource {
    type Result = ();

    fn handle(&mut self, new: NewInterval, ctx: &mut Self::Context) {
        self.deadline = new.interval.max(SHORTEST_DEADLINE);
        self.step(Event::NewInterval(new), ctx);
    }
}

impl Handler<ServerIsBack> for PollSource {
    type Result = ();

    fn handle(&mut self, _: ServerIsBack, ctx: &mut Self::Context) {
        self.step(Event::ServerIsBack, ctx);
    }
}

impl Handler<StopCalling> for PollSource {
    type Result = ();

    fn handle(&mut self, _: StopCalling, ctx: &mut Self::Context) {
        self.step(Event::Stop, ctx);
        ctx.stop();
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
