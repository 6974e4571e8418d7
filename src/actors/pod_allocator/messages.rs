//! The messages that PodAllocator sends and receives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::Message;

use crate::kubernetes::pod_template::NodeWeights;
use crate::model::failures::KeptFailures;
use crate::model::{ExecutorId, ProfileName};

use super::crash_loop::BackoffState;
use super::refusal::RefusalKind;
use super::waiting;
use boatswain_agent::backoff::Backoff;

/// Reserve ids up to this one (spec O-30). Answered, once written, with the last reserved id.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Option<ExecutorId>")]
pub struct Reserve(pub ExecutorId);

/// Write these backoffs to the record (spec O-30).
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct KeepBackoffs(pub BTreeMap<ProfileName, BackoffState>);

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
#[derive(Debug, Clone)]
pub struct CannotStart {
    pub kind: RefusalKind,
    /// The server's message.
    pub why: String,
}

/// Takes over settings of the configuration, which was read again (spec C-6).
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct NewLimits {
    pub batch_size: u32,
    pub max_rate: Option<u32>,
    /// The most pending executors over all profiles, and of each.
    pub max_pending: Option<u32>,
    pub max_pending_of: BTreeMap<ProfileName, Option<u32>>,
    /// The most executors over the application's life.
    pub over_life: Option<u32>,
    pub waiting: waiting::WaitLimits,
    pub cancel_delay: Duration,
    pub crash_backoff: Backoff,
    pub max_failures: Option<u32>,
    /// The interval between lists of sets.
    pub look_every: Duration,
}

/// New executors of these profiles prefer exactly these nodes (spec B-54).
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct PreferNodes(pub BTreeMap<ProfileName, NodeWeights>);

/// The PodGroups that the API server refuses to create now, by profile, and why (spec A-115).
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct GroupsRefused(pub BTreeMap<ProfileName, (RefusalKind, Arc<str>)>);

/// Send no more requests for pods. What is left to await is shown from then on.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct StopRequesting {
    /// The application ends: sets are deleted once no executor drains.
    pub delete_sets: bool,
}
