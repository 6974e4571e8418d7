//! What Prometheus scrapes (spec O-41).
//!
//! One actor owns every number: the store's batches tell it of executors, the calls tell it of themselves, and a scrape
//! is a message like any other. So nothing is shared, and nothing is counted that nobody asks for but a few integers.

mod families;
pub mod messages;

use std::fmt;

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, ResponseActFuture, WrapFuture,
};

use crate::clock::Clock;
use crate::lifecycle_manager::messages::Ended;
use crate::model::executor::Class;
use crate::model::{AppId, Batch, Incarnation, Snapshot};
use crate::snapshot_store::SnapshotStore;
use crate::snapshot_store::delivery::Timing;
use crate::snapshot_store::messages::{
    Decided, MeasureNow, Round, RoundMade, Subscribe, Subscriber,
};

use families::Families;
use messages::{CallMade, Scrape};

/// Counts.
pub struct Meter {
    families: Families,
    store: Addr<SnapshotStore>,
    clock: Clock,
    timing: Timing,
    seen: Option<Snapshot>,
}

impl Meter {
    /// Which has counted nothing yet.
    pub fn new(
        app: &AppId,
        incarnation: Incarnation,
        store: Addr<SnapshotStore>,
        clock: Clock,
        timing: Timing,
    ) -> Self {
        Self {
            families: Families::new(app, incarnation),
            store,
            clock,
            timing,
            seen: None,
        }
    }

    /// Takes in a batch: O(changes).
    fn round(&mut self, batch: &Batch) {
        let latest = batch.latest();
        if let Some(before) = &self.seen {
            for id in batch.changed_executors() {
                let ran_before = before
                    .entry(id)
                    .is_some_and(|e| e.class() == Class::Running);
                let Some(entry) = latest.entry(id).filter(|_| !ran_before) else {
                    continue;
                };
                // How long one that was adopted took, this driver has not seen.
                if let Some(since) = entry.bound().and_then(|bound| bound.running_since)
                    && !entry.adopted
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

impl Handler<Ended> for Meter {
    type Result = ();

    fn handle(&mut self, Ended(ending): Ended, _: &mut Self::Context) {
        let reason = &ending.reason;
        self.families
            .ended(&ending.entry.profile, reason.class, reason.failure);
    }
}

impl Handler<CallMade> for Meter {
    type Result = ();

    fn handle(&mut self, call: CallMade, _: &mut Self::Context) {
        self.families.called(&call);
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
        let measures = self.store.send(MeasureNow).into_actor(self);
        Box::pin(measures.map(|measures, this, _| {
            let now = this.clock.now().tick;
            // Where the store is gone the driver ends, and what was counted is still of use.
            if let Ok(measures) = measures {
                this.families.measure(&measures, now);
            }
            if let Some(snapshot) = &this.seen {
                this.families.show(snapshot, now);
            }
            this.families.text()
        }))
    }
}

#[cfg(test)]
mod tests;
