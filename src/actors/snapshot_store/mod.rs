//! SnapshotStore: owns the ledger, and delivers batches to subscribers by their timers (spec S-20
//! to S-25). It decides nothing itself.

mod gauges;
pub mod handle;
pub mod journal;
pub mod messages;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::fut::wrap_future;
use actix::{Actor, ActorFutureExt, AsyncContext, Context, Handler, Recipient};
use tokio::sync::watch;
use tracing::debug;

use crate::clock::Clock;
use crate::metrics::{Measure, Metrics};
use crate::model::news::{ListTicket, News};
use crate::model::{ExecutorId, Snapshot, Tick};
use crate::telemetry::millis;

use crate::model::delivery::{Delivery, Timing};
use crate::model::ledger::{Applied, Ledger};
use journal::Journal;
use messages::{
    AskRound, BeginList, ListAnew, ListArrived, Look, LookNow, MeasureNow, Measures, Next, Round,
    Subscribe, Subscriber, Tell,
};

pub struct SnapshotStore {
    ledger: Ledger,
    clock: Clock,
    journal: Journal,
    subscribers: BTreeMap<Subscriber, Subscription>,
    shown: watch::Sender<Arc<Snapshot>>,
    watch: Option<Recipient<ListAnew>>,
    metrics: Metrics,
    changed: Option<Tick>,
    bookmark: Option<Tick>,
}

struct Subscription {
    timing: Timing,
    /// `None` before adoption: nothing can be decided before that.
    delivery: Option<Delivery>,
    recipient: Recipient<Round>,
    /// What the timer was last armed for. A timer for another time is outdated.
    armed: Option<Tick>,
    /// When the batch in flight was delivered.
    sent: Option<Tick>,
}

pub struct Wiring {
    pub ledger: Ledger,
    pub clock: Clock,
    /// The watch, which lists again when a poll's list begins a new epoch.
    pub watch: Option<Recipient<ListAnew>>,
    pub metrics: Metrics,
}

impl SnapshotStore {
    pub fn new(wiring: Wiring) -> Self {
        Self {
            shown: watch::Sender::new(Arc::new(wiring.ledger.current().clone())),
            ledger: wiring.ledger,
            clock: wiring.clock,
            journal: Journal::new(wiring.metrics.clone()),
            subscribers: BTreeMap::new(),
            watch: wiring.watch,
            metrics: wiring.metrics,
            changed: None,
            bookmark: None,
        }
    }

    /// The current snapshot, for those that wait for what it shows and decide nothing.
    pub fn shown(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.shown.subscribe()
    }

    fn publish(&mut self, applied: Applied, ctx: &mut Context<Self>) {
        let now = self.clock.now();
        for note in &applied.notes {
            self.journal.note(note, now.tick);
        }
        let Some(snapshot) = applied.snapshot else {
            return;
        };
        self.changed = Some(now.tick);
        for subscription in self.subscribers.values_mut() {
            let Some(delivery) = &mut subscription.delivery else {
                subscription.begin(&snapshot, now.tick);
                continue;
            };
            if applied.worth_a_batch {
                delivery.push(&snapshot, now.tick);
            } else {
                delivery.push_quietly(&snapshot);
            }
            // Targets and the record: rare, and awaited by subscribers (spec ).
            if snapshot.changes.other {
                delivery.ask();
            }
        }
        self.shown.send_replace(snapshot);
        self.arm(ctx);
    }

    fn decided(&mut self, subscriber: Subscriber, next: Next, ctx: &mut Context<Self>) {
        if let Some(subscription) = self.subscribers.get_mut(&subscriber) {
            if let Some(delivery) = &mut subscription.delivery {
                delivery.decided(next.wake);
            }
            if let Some(sent) = subscription.sent.take() {
                let took = self.clock.now().tick.since(sent);
                debug!(
                    ?subscriber,
                    duration_ms = millis(took),
                    "a round was decided"
                );
                let rounds = self.metrics.rounds.of([subscriber.word().into()]);
                rounds.observe(took.as_secs_f64());
            }
        }
        let decided = self.subscribers.values().map(|one| {
            let delivery = one.delivery.as_ref();
            delivery.map_or(0, Delivery::decided_up_to)
        });
        let now = self.clock.now();
        let released = self.ledger.release(decided.min().unwrap_or(0), now);
        self.publish(released, ctx);
        self.arm(ctx);
    }

    /// Delivers the batches that are due, and arms timers for the others.
    fn arm(&mut self, ctx: &mut Context<Self>) {
        let now = self.clock.now().tick;
        for (&subscriber, subscription) in &mut self.subscribers {
            let Some(delivery) = &mut subscription.delivery else {
                continue;
            };
            match delivery.due() {
                Some(due) if due <= now => {
                    let batch = delivery.take(self.ledger.current(), now);
                    subscription.armed = None;
                    subscription.sent = Some(now);
                    // Only one batch is in flight per subscriber, so this queue never holds two.
                    let round = wrap_future::<_, Self>(subscription.recipient.send(Round(batch)));
                    ctx.spawn(round.map(move |next, this, ctx| {
                        match next {
                            Ok(next) => this.decided(subscriber, next, ctx),
                            // One that has stopped, such as an observer, keeps no ended entry.
                            Err(_) => drop(this.subscribers.remove(&subscriber)),
                        }
                    }));
                }
                Some(due) if subscription.armed != Some(due) => {
                    subscription.armed = Some(due);
                    ctx.run_later(now.until(due), move |this, ctx| {
                        let subscription = this.subscribers.get_mut(&subscriber);
                        if let Some(armed) = subscription.filter(|s| s.armed == Some(due)) {
                            armed.armed = None;
                            this.arm(ctx);
                        }
                    });
                }
                Some(_) | None => {}
            }
        }
    }
}

impl Subscription {
    /// Begins to deliver with the first snapshot after adoption.
    fn begin(&mut self, current: &Snapshot, now: Tick) {
        self.delivery = (current.adopted).then(|| Delivery::new(self.timing, current, now));
    }
}

impl Actor for SnapshotStore {
    type Context = Context<Self>;
}

impl Handler<Tell> for SnapshotStore {
    type Result = Vec<ExecutorId>;

    fn handle(&mut self, Tell(news): Tell, ctx: &mut Self::Context) -> Self::Result {
        let now = self.clock.now();
        if matches!(news, News::Bookmark { .. }) {
            self.bookmark = Some(now.tick);
        }
        let mut applied = self.ledger.apply(news, now);
        let marked = std::mem::take(&mut applied.marked);
        self.publish(applied, ctx);
        marked
    }
}

impl Handler<BeginList> for SnapshotStore {
    type Result = actix::MessageResult<BeginList>;

    fn handle(&mut self, _: BeginList, _: &mut Self::Context) -> Self::Result {
        let ticket: ListTicket = self.ledger.begin_list(self.clock.now());
        actix::MessageResult(ticket)
    }
}

impl Handler<ListArrived> for SnapshotStore {
    type Result = actix::MessageResult<ListArrived>;

    fn handle(
        &mut self,
        ListArrived(listed): ListArrived,
        ctx: &mut Self::Context,
    ) -> Self::Result {
        let (verdict, applied) = self.ledger.list(listed, self.clock.now());
        self.publish(applied, ctx);
        if verdict.begins_epoch()
            && let Some(watch) = &self.watch
        {
            // Epochs are rare, so this queue stays short.
            watch.do_send(ListAnew {
                epoch: verdict.epoch,
            });
        }
        actix::MessageResult(verdict)
    }
}

impl Handler<Subscribe> for SnapshotStore {
    type Result = ();

    fn handle(&mut self, message: Subscribe, ctx: &mut Self::Context) {
        let Subscribe {
            subscriber,
            timing,
            recipient,
        } = message;
        let mut subscription = Subscription {
            timing,
            delivery: None,
            recipient,
            armed: None,
            sent: None,
        };
        subscription.begin(self.ledger.current(), self.clock.now().tick);
        self.subscribers.insert(subscriber, subscription);
        self.arm(ctx);
    }
}

impl Handler<AskRound> for SnapshotStore {
    type Result = ();

    fn handle(&mut self, AskRound(subscriber): AskRound, ctx: &mut Self::Context) {
        let subscription = self.subscribers.get_mut(&subscriber);
        if let Some(delivery) = subscription.and_then(|one| one.delivery.as_mut()) {
            delivery.ask();
        }
        self.arm(ctx);
    }
}

impl Handler<LookNow> for SnapshotStore {
    type Result = Look;

    fn handle(&mut self, _: LookNow, _: &mut Self::Context) -> Look {
        Look(self.ledger.current().clone())
    }
}

impl SnapshotStore {
    fn measures(&self) -> Measures {
        // A test's observer keeps more than the configuration allows the others.
        let waiting = (self.subscribers.iter())
            .filter(|(subscriber, _)| **subscriber != Subscriber::Observer)
            .filter_map(|(_, subscription)| Some(subscription.delivery.as_ref()?.waiting()));
        Measures {
            tombstones: self.ledger.tombstone_count(),
            unrecognised: self.ledger.unrecognised_count(),
            suspects: self.ledger.suspect_count(),
            waiting: waiting.max().unwrap_or(0),
            changed: self.changed,
            bookmark: self.bookmark,
        }
    }
}

impl Handler<MeasureNow> for SnapshotStore {
    type Result = Measures;

    fn handle(&mut self, _: MeasureNow, _: &mut Self::Context) -> Measures {
        self.measures()
    }
}

impl Handler<Measure> for SnapshotStore {
    type Result = ();

    fn handle(&mut self, Measure(metrics): Measure, _: &mut Self::Context) {
        let (now, snapshot) = (self.clock.now().tick, self.ledger.current());
        gauges::measured(&metrics, &self.measures(), now);
        // Before that, numbers of executors would say that there are none (spec B-55).
        if snapshot.adopted {
            gauges::show(&metrics, snapshot, now);
        }
    }
}
