//! The messages that PodAllocator sends and receives.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::Message;

use crate::model::failures::KeptFailures;
use crate::model::{ExecutorId, ProfileName};

use super::crash_loop::Kept;
use super::refusal::Kind;

/// Reserve ids up to this one (spec O-30). Answered, once written, with the last reserved id.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Option<ExecutorId>")]
pub struct Reserve(pub ExecutorId);

/// Write these backoffs to the record (spec O-30).
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct Keep(pub BTreeMap<ProfileName, Kept>);

/// Write these failures to the record (spec L-30, O-30).
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct KeepFailures(pub KeptFailures);

/// The application has failed too often and ends (spec L-30).
#[derive(Debug, Clone, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct OverBudget {
    /// A description of the failures.
    pub why: Arc<str>,
}

/// The driver cannot start (spec A-24).
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct CannotStart {
    pub kind: Kind,
    /// The server's message.
    pub why: String,
}

/// Send no more requests. Answered with the number of requests in flight, which are awaited.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "u32")]
pub struct StopRequesting;
