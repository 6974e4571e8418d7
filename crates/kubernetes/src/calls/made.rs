//! What each call to the API server reports.

use std::sync::Arc;
use std::time::Duration;

use actix::Message;

use crate::refusal::{Failure, FailureKind};

#[derive(Debug, Clone, PartialEq, Eq, Message)]
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
    /// `None` for a read.
    pub write: Option<WriteMade>,
}

/// What a write was about, and whether it was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteMade {
    /// The resource, with its subresource, such as `workloads/status`.
    pub resource: Arc<str>,
    /// The object's name; empty for one that is made.
    pub name: Arc<str>,
    /// What a working API server refused and why. A name that is taken, a change that came in between and an object that
    /// is gone are no refusals.
    pub refusal: Option<Arc<str>>,
}

impl WriteMade {
    pub(super) fn new((resource, name): (&str, &str), failure: Option<&Failure>) -> Self {
        let refusal = failure.filter(|failure| {
            matches!(
                failure.kind,
                FailureKind::Wait
                    | FailureKind::Quota
                    | FailureKind::NamespaceTerminating
                    | FailureKind::NamespaceMissing
                    | FailureKind::Admission
                    | FailureKind::Invalid
                    | FailureKind::Rights
                    | FailureKind::Server
            )
        });
        Self {
            resource: resource.into(),
            name: name.into(),
            refusal: refusal.map(Failure::explained),
        }
    }
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
