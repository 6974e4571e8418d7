//! Passes the actors' reports on to the driver's own task, which is not an actor.

use actix::{Actor, Addr, Context, Handler};
use tokio::sync::mpsc;

use crate::actors::driver_backend::messages::Stop;
use crate::actors::pod_allocator::messages::CannotStart;
use crate::actors::record_keeper::messages::DriverIsOver;

/// A report after which the driver ends at once.
pub(super) enum FatalReport {
    CannotStart(CannotStart),
    Over(DriverIsOver),
}

pub(super) struct Reporter {
    fatal: mpsc::UnboundedSender<FatalReport>,
    stops: mpsc::UnboundedSender<Stop>,
}

/// The receiving ends of the reports. Only a few ever arrive, so the queues need no limit.
pub(super) struct Reports {
    pub(super) fatal: mpsc::UnboundedReceiver<FatalReport>,
    /// Stop requests of the application.
    pub(super) stops: mpsc::UnboundedReceiver<Stop>,
}

impl Reporter {
    pub(super) fn start_with_reports() -> (Addr<Self>, Reports) {
        let (send_fatal, fatal) = mpsc::unbounded_channel();
        let (send_stop, stops) = mpsc::unbounded_channel();
        let reporter = Self {
            fatal: send_fatal,
            stops: send_stop,
        };
        (reporter.start(), Reports { fatal, stops })
    }
}

impl Actor for Reporter {
    type Context = Context<Self>;
}

// Sending fails only if the driver's task has already ended.

impl Handler<CannotStart> for Reporter {
    type Result = ();

    fn handle(&mut self, report: CannotStart, _: &mut Self::Context) {
        let _ = self.fatal.send(FatalReport::CannotStart(report));
    }
}

impl Handler<DriverIsOver> for Reporter {
    type Result = ();

    fn handle(&mut self, report: DriverIsOver, _: &mut Self::Context) {
        let _ = self.fatal.send(FatalReport::Over(report));
    }
}

impl Handler<Stop> for Reporter {
    type Result = ();

    fn handle(&mut self, stop: Stop, _: &mut Self::Context) {
        let _ = self.stops.send(stop);
    }
}
