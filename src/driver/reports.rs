//! What the actors report to the driver's own task, which is not an actor.

use std::future::pending;

use tokio::sync::mpsc;

use crate::actors::driver_backend::messages::Stop;
use crate::actors::pod_allocator::messages::CannotStart;
use crate::actors::record_keeper::keeping::Over;

/// A report after which the driver ends at once.
pub(super) enum FatalReport {
    CannotStart(CannotStart),
    Over(Over),
}

/// The sending ends.
pub(super) struct Reporter {
    pub(super) cannot_start: mpsc::UnboundedSender<CannotStart>,
    pub(super) over: mpsc::UnboundedSender<Over>,
    pub(super) stops: mpsc::UnboundedSender<Stop>,
}

/// The receiving ends. Only a few reports ever arrive, so the queues need no limit.
pub(super) struct Reports {
    pub(super) fatal: Fatal,
    /// Stop requests of the application.
    pub(super) stops: mpsc::UnboundedReceiver<Stop>,
}

pub(super) struct Fatal {
    cannot_start: mpsc::UnboundedReceiver<CannotStart>,
    over: mpsc::UnboundedReceiver<Over>,
}

impl Reports {
    pub(super) fn channels() -> (Reporter, Self) {
        let (send_cannot_start, cannot_start) = mpsc::unbounded_channel();
        let (send_over, over) = mpsc::unbounded_channel();
        let (send_stop, stops) = mpsc::unbounded_channel();
        let reporter = Reporter {
            cannot_start: send_cannot_start,
            over: send_over,
            stops: send_stop,
        };
        let fatal = Fatal { cannot_start, over };
        (reporter, Self { fatal, stops })
    }
}

impl Fatal {
    /// The next report that ends the driver at once.
    pub(super) async fn next(&mut self) -> FatalReport {
        tokio::select! {
            biased;
            Some(over) = self.over.recv() => FatalReport::Over(over),
            Some(report) = self.cannot_start.recv() => FatalReport::CannotStart(report),
            else => pending().await,
        }
    }
}
