//! The message that reports each call to the API server.

use std::time::Duration;

use actix::Message;

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

/// The API server answers again after an outage: who waits because of it tries again now. Sent to each caller after a
/// random delay, so that many drivers do not call at the same time (spec W-14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct ServerIsBack {
    /// How long no call was answered.
    pub after: Duration,
}
