//! What PodAllocator asks of others and is told.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::Message;

use crate::model::failures::KeptFailures;
use crate::model::{ExecutorId, ProfileName};

use super::crash_loop::Kept;
use super::refusal::Kind;

/// Reserve ids up to this one in the record (spec O-30); answered, when that is written, with how far they are.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Option<ExecutorId>")]
pub struct Reserve(pub ExecutorId);

/// Keep these backoffs over a restart (spec O-30).
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct Keep(pub BTreeMap<ProfileName, Kept>);

/// Keep these failures over a restart (spec L-30, O-30).
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct KeepFailures(pub KeptFailures);

/// The application has failed too often, and ends (spec L-30).
#[derive(Debug, Clone, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct OverBudget {
    /// Which failures, for people.
    pub why: Arc<str>,
}

/// The driver cannot go on (spec A-24).
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct CannotStart {
    /// For what sort of reason.
    pub kind: Kind,
    /// In the server's words.
    pub why: String,
}

/// No more requests from now on; those in flight are waited for. Answered with how many those are.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "u32")]
pub struct StopRequesting;
