//! What each call to the API server reports.

use std::time::Duration;

use actix::Message;

use crate::metrics::Metrics;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct CallMade {
    /// The verb, such as `GET`.
    pub verb: &'static str,
    /// The resource, such as `pods`.
    pub resource: &'static str,
    /// `ok`, or the failure's kind.
    pub outcome: &'static str,
    /// Whether a working API server responded.
    pub answered: bool,
    /// From the start of the call to the end of the response; for a watch, to the response's head.
    pub took: Duration,
}

impl CallMade {
    pub fn count(&self, metrics: &Metrics) {
        let (verb, resource) = (self.verb, self.resource);
        let by_outcome = [verb.into(), resource.into(), self.outcome.into()];
        metrics.calls.of(by_outcome).inc();
        let times = metrics.call_times.of([verb.into(), resource.into()]);
        times.observe(self.took.as_secs_f64());
    }
}

/// The API server answers again after an outage: who waits because of it tries again now. Sent to each caller after a
/// random delay, so that many drivers do not call at the same time (spec W-8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct ServerIsBack {
    /// How long no call was answered.
    pub after: Duration,
}
