//! Observer: passes batches to a reader outside the driver, which need not know the store.

use std::time::Duration;

use actix::{Actor, Addr, AsyncContext, Context, Handler, Recipient};

use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::messages::{Decided, Round, Subscribe, Subscriber};
use crate::model::delivery::Timing;

/// Each change is a batch of its own, which the reader gets before the ledger continues.
const TIMING: Timing = Timing {
    interval: Duration::from_secs(60),
    quiet_latency: Duration::ZERO,
    min_gap: Duration::ZERO,
    max_buffered: 10_000,
};

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
        // A reader that has stopped does not block the ledger.
        self.reader.do_send(round);
        self.store.do_send(Decided(Subscriber::Observer));
    }
}
