//! Observer: hands the store's batches to a reader outside the driver.

use std::time::Duration;

use actix::{Actor, Addr, AsyncContext, Context, Handler, Recipient};

use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::delivery::Timing;
use crate::actors::snapshot_store::messages::{Decided, Round, Subscribe, Subscriber};

/// Each change is a batch of its own, so that the reader learns of it before the ledger goes on.
const TIMING: Timing = Timing {
    interval: Duration::from_secs(60),
    quiet_latency: Duration::ZERO,
    min_gap: Duration::ZERO,
    max_buffered: 10_000,
};

/// A subscriber that decides nothing: its reader need not know the store.
pub(super) struct Observer {
    reader: Recipient<Round>,
    store: Addr<SnapshotStore>,
}

impl Observer {
    pub(super) fn new(reader: Recipient<Round>, store: Addr<SnapshotStore>) -> Self {
        Self { reader, store }
    }
}

impl Actor for Observer {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.store.do_send(Subscribe {
            subscriber: Subscriber::Observer,
            timing: TIMING,
            recipient: ctx.address().recipient(),
        });
    }
}

impl Handler<Round> for Observer {
    type Result = ();

    fn handle(&mut self, round: Round, _: &mut Self::Context) {
        // A reader that is gone does not keep the ledger from going on.
        self.reader.do_send(round);
        self.store.do_send(Decided(Subscriber::Observer));
    }
}
