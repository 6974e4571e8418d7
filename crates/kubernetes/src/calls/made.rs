//! What each call to the API server reports.

use std::time::Duration;

use actix::Message;

use crate::refusal::FailureKind;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct CallMade {
    /// The verb, such as `GET`.
    pub verb: &'static str,
    /// The resource, such as `pods`.
    pub resource: &'static str,
    /// `None`: it succeeded.
    pub failure: Option<FailureKind>,
    /// From the start of the call to the end of the response; for a watch, to the response's head.
    pub took: Duration,
}

impl CallMade {
    /// Whether a working API server responded.
    pub fn is_answered(&self) -> bool {
        !self.failure.is_some_and(FailureKind::is_outage)
    }

    /// `ok`, or the failure's kind.
    pub fn outcome(&self) -> &'static str {
        self.failure.map_or("ok", FailureKind::word)
    }
}

/// The API server answers again after an outage: who waits because of it tries again now. Sent to each caller after a
/// random delay, so that many drivers do not call at the same time (spec W-14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct ServerIsBack {
    /// How long no call was answered.
    pub after: Duration,
}

/// The driver has ended: whoever makes calls by itself makes none any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct StopCalling;
