//! Ends in the application record, for successors (spec L-1, O-30).

use std::num::NonZeroU32;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::executor::Entry;
use super::ids::{ExecutorId, ProfileName};
use super::reason::{Evidence, LossClass, LossReason};
use super::snapshot::Ending;

/// An executor's end, shortened to what a successor needs: it shows the end, and counts the failure if its predecessor
/// did not get to that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedEnd {
    pub executor: ExecutorId,
    pub profile: ProfileName,
    pub reason: LossClass,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    pub why: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Arc<str>>,
    /// The memory limit of an executor that was killed for want of memory, in whole mebibytes, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<NonZeroU32>,
    /// By the driver's wall clock.
    pub at: Timestamp,
    /// Whether the failures in the same record include it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counted: bool,
}

impl RecordedEnd {
    pub fn new(ending: &Ending, at: Timestamp) -> Self {
        let Ending { entry, reason } = ending;
        Self {
            executor: entry.id,
            profile: entry.profile.clone(),
            reason: reason.class,
            exit_code: reason.exit_code,
            why: Arc::from(reason.message.as_str()),
            pod: entry.pod().map(|pod| Arc::clone(&pod.name)),
            node: reason.evidence.node.clone(),
            memory_limit: exhausted_memory(entry, reason),
            at,
            counted: false,
        }
    }

    /// The reason, with the node as its only evidence.
    pub fn loss_reason(&self) -> LossReason {
        LossReason {
            class: self.reason,
            exit_code: self.exit_code,
            by_application: self.reason.by_application(),
            failure: self.reason.is_failure(self.exit_code),
            message: self.why.to_string(),
            evidence: Evidence {
                node: self.node.clone(),
                ..Evidence::default()
            },
        }
    }
}

/// The memory limit, in whole mebibytes, of an executor that was killed for want of memory; `None`: it ended otherwise,
/// or has no limit.
pub fn exhausted_memory(entry: &Entry, reason: &LossReason) -> Option<NonZeroU32> {
    let pod = entry.pod()?;
    let is_executors = reason.class == LossClass::OomKilled && pod.deciding_sidecar().is_none();
    pod.memory_limit.filter(|_| is_executors)
}
