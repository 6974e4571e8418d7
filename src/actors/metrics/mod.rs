//! Meter: collects the metrics and serves them to Prometheus (spec O-41).
//!
//! One actor owns all metrics, so no state is shared. Batches and calls report to it, and a scrape
//! is a message like any other.

mod families;
pub mod messages;

use std::fmt;
use std::time::Duration;

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, MailboxError, Recipient,
    ResponseActFuture, WrapFuture,
};
use futures::future::join_all;
use tokio::time::Instant;

use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::messages::{
    Decided, MeasureNow, Measures, Round, RoundMade, Subscribe, Subscriber,
};
use crate::clock::Clock;
use crate::model::delivery::Timing;
use crate::model::{AppId, Batch, Ending, Entry, Incarnation, ProfileName, Snapshot};

use crate::kubernetes::calls::CallMade;
use families::Families;
use messages::{AskDepths, CertificateExpires, Depths, MeasureSessions, Scrape, SessionMeasures};

pub struct Meter {
    families: Families,
    store: Addr<SnapshotStore>,
    clock: Clock,
    timing: Timing,
    seen: Option<Snapshot>,
    /// The actors with queues, by name.
    queues: Vec<(&'static str, Recipient<AskDepths>)>,
    sessions: Recipient<MeasureSessions>,
}

pub struct Wiring {
    pub app: AppId,
    pub incarnation: Incarnation,
    pub store: Addr<SnapshotStore>,
    pub clock: Clock,
    /// When batches are delivered.
    pub timing: Timing,
    /// The actors whose queues are measured at each scrape, with their names in the metrics.
    pub queues: Vec<(&'static str, Recipient<AskDepths>)>,
    pub sessions: Recipient<MeasureSessions>,
}

impl Meter {
    pub fn new(wiring: Wiring) -> Self {
        Self {
            families: Families::new(&wiring.app, wiring.incarnation),
            store: wiring.store,
            clock: wiring.clock,
            timing: wiring.timing,
            seen: None,
            queues: wiring.queues,
            sessions: wiring.sessions,
        }
    }

    /// Takes O(changes).
    fn round(&mut self, batch: &Batch) {
        let latest = batch.latest();
        let now = self.clock.now().tick;
        for Ending { entry, reason } in batch.ends() {
            (self.families).ended(&entry.profile, reason.class, reason.failure);
        }
        if let Some(before) = &self.seen {
            // A removed profile has no executors any more, so nothing of it is counted again.
            let is_gone = |profile: &&ProfileName| !latest.targets.contains_key(*profile);
            for profile in before.targets.keys().filter(is_gone) {
                self.families.forget(profile);
            }
            for id in batch.changed_executors() {
                let earlier = before.entry(id);
                // This driver did not see how long an adopted executor took to start.
                let Some(entry) = latest.entry(id).filter(|entry| !entry.adopted) else {
                    continue;
                };
                let had_registered = earlier.is_some_and(|e| e.session.registered);
                if entry.session.registered && !had_registered {
                    self.families
                        .registered(&entry.profile, now.since(entry.since));
                }
                let running_since =
                    |entry: &Entry| entry.bound().and_then(|bound| bound.running_since);
                if let Some(since) = running_since(entry)
                    && earlier.and_then(|e| running_since(e)).is_none()
                {
                    self.families
                        .started(&entry.profile, since.since(entry.since));
                }
            }
        }
        self.seen = Some(latest.clone());
    }
}

impl Actor for Meter {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.store.do_send(Subscribe {
            subscriber: Subscriber::Metrics,
            timing: self.timing,
            recipient: ctx.address().recipient(),
        });
    }
}

impl Handler<Round> for Meter {
    type Result = ();

    fn handle(&mut self, Round(batch): Round, _: &mut Self::Context) {
        self.round(&batch);
        self.store.do_send(Decided(Subscriber::Metrics));
    }
}

impl Handler<CallMade> for Meter {
    type Result = ();

    fn handle(&mut self, call: CallMade, _: &mut Self::Context) {
        self.families.called(&call);
    }
}

impl Handler<CertificateExpires> for Meter {
    type Result = ();

    fn handle(&mut self, CertificateExpires(at): CertificateExpires, _: &mut Self::Context) {
        self.families.expires(at);
    }
}

impl Handler<RoundMade> for Meter {
    type Result = ();

    fn handle(&mut self, round: RoundMade, _: &mut Self::Context) {
        self.families.decided(round);
    }
}

impl Handler<Scrape> for Meter {
    type Result = ResponseActFuture<Self, Result<String, fmt::Error>>;

    fn handle(&mut self, _: Scrape, _: &mut Self::Context) -> Self::Result {
        let gathered = gather(&self.store, &self.queues, &self.sessions);
        Box::pin(gathered.into_actor(self).map(|gathered, this, _| {
            let now = this.clock.now().tick;
            let (measures, queues, sessions) = gathered;
            for (actor, (depths, took)) in queues {
                // An actor that has stopped is skipped: the driver is ending.
                if let Ok(Depths(depths)) = depths {
                    this.families.answered(actor, took);
                    this.families.depths(&depths);
                }
            }
            if let Some(sessions) = sessions {
                this.families.sessions(&sessions);
            }
            // If the store has stopped, the driver is ending; the counters are still useful.
            if let (Ok(measures), took) = measures {
                this.families.answered("store", took);
                this.families.measure(&measures, now);
            }
            // Before that, numbers of executors would say that there are none (spec B-55).
            if let Some(snapshot) = this.seen.as_ref().filter(|seen| seen.adopted) {
                this.families.show(snapshot, now);
            }
            this.families.text()
        }))
    }
}

/// An answer, or the error that the actor has stopped; and the time it took.
type Answered<T> = (Result<T, MailboxError>, Duration);

type AnsweredBy = (&'static str, Answered<Depths>);

/// Requests the measurements of other actors concurrently.
fn gather(
    store: &Addr<SnapshotStore>,
    queues: &[(&'static str, Recipient<AskDepths>)],
    sessions: &Recipient<MeasureSessions>,
) -> impl Future<Output = (Answered<Measures>, Vec<AnsweredBy>, Option<SessionMeasures>)> + use<> {
    let measures = timed(store.send(MeasureNow));
    let queues = queues.iter().map(|(actor, asked)| {
        let (actor, answer) = (*actor, timed(asked.send(AskDepths)));
        async move { (actor, answer.await) }
    });
    let queues = join_all(queues.collect::<Vec<_>>());
    let sessions = sessions.send(MeasureSessions);
    let sessions = async move { sessions.await.ok() };
    async move { futures::join!(measures, queues, sessions) }
}

/// Starts measuring now; returns the answer and the time that it took.
fn timed<T>(answer: impl Future<Output = T>) -> impl Future<Output = (T, Duration)> {
    let asked = Instant::now();
    async move {
        let answer = answer.await;
        (answer, asked.elapsed())
    }
}

#[cfg(test)]
mod tests;
