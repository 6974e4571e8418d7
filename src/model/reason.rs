//! Why an executor ended: classes and what goes with them (spec L-20).

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// Why an executor ended, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum LossClass {
    /// Its container ended by itself.
    Exited,
    /// The kernel ended it for want of memory.
    OomKilled,
    /// It never ran: image, configuration, volume.
    StartFailed,
    /// The node refused it.
    Rejected,
    /// The node evicted it, for something ran short.
    Evicted,
    /// The scheduler gave its place to a pod of higher priority.
    Preempted,
    /// The cluster ended it for any other reason of its own.
    Disrupted,
    /// Its node is gone.
    NodeLost,
    /// Somebody else deleted it.
    Deleted,
    /// Its labels no longer said that it was ours.
    Mislabelled,
    /// Somebody asked for its end.
    Killed,
    /// It was asked to finish what it did, and went.
    Decommissioned,
    /// There were more than wanted.
    ScaledDown,
    /// No sign of life came from it for too long.
    HeartbeatTimeout,
    /// Its connection was lost, and nobody has said why.
    Disconnected,
    /// It ran without registering.
    RegistrationTimeout,
    /// It waited to run for too long.
    PendingTimeout,
    /// The cluster refuses its profile's template (spec A-23).
    TemplateRefused,
    /// No pod was ever made.
    NotCreated,
    /// It is not there any more, and nobody saw it go.
    Missing,
    /// It ended while no driver ran.
    Lost,
    /// It is being deleted, and does not go (spec L-3).
    Stuck,
}

impl LossClass {
    /// All of them.
    pub const ALL: [Self; 22] = [
        Self::Exited,
        Self::OomKilled,
        Self::StartFailed,
        Self::Rejected,
        Self::Evicted,
        Self::Preempted,
        Self::Disrupted,
        Self::NodeLost,
        Self::Deleted,
        Self::Mislabelled,
        Self::Killed,
        Self::Decommissioned,
        Self::ScaledDown,
        Self::HeartbeatTimeout,
        Self::Disconnected,
        Self::RegistrationTimeout,
        Self::PendingTimeout,
        Self::TemplateRefused,
        Self::NotCreated,
        Self::Missing,
        Self::Lost,
        Self::Stuck,
    ];

    /// Whether the application caused it; an exit of its own always is.
    pub fn by_application(self) -> bool {
        use LossClass::*;
        match self {
            Exited | OomKilled | StartFailed | RegistrationTimeout | TemplateRefused => true,
            Rejected | Evicted | Preempted | Disrupted | NodeLost | Deleted | Mislabelled
            | Killed | Decommissioned | ScaledDown | HeartbeatTimeout | Disconnected
            | PendingTimeout | NotCreated | Missing | Lost | Stuck => false,
        }
    }

    /// Whether it counts as a failure; an exit does unless its code is 0.
    pub fn is_failure(self, exit_code: Option<i32>) -> bool {
        use LossClass::*;
        match self {
            Exited => exit_code != Some(0),
            OomKilled | StartFailed | Mislabelled | HeartbeatTimeout | Disconnected
            | RegistrationTimeout | TemplateRefused => true,
            Rejected | Evicted | Preempted | Disrupted | NodeLost | Deleted | Killed
            | Decommissioned | ScaledDown | PendingTimeout | NotCreated | Missing | Lost
            | Stuck => false,
        }
    }
}

impl fmt::Display for LossClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Why an executor ended, for programs and for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LossReason {
    /// In one word.
    pub class: LossClass,
    /// The executor container's exit code; never invented (spec E-13).
    pub exit_code: Option<i32>,
    /// Whether the application caused it.
    pub by_application: bool,
    /// Whether it counts as a failure.
    pub failure: bool,
    /// In one line, for people.
    pub message: String,
    /// What it was inferred from.
    pub evidence: Evidence,
}

impl LossReason {
    /// That a profile's template is refused, in the server's words (spec A-23).
    pub fn of_a_refusal(why: &str) -> Self {
        let class = LossClass::TemplateRefused;
        Self {
            class,
            exit_code: None,
            by_application: class.by_application(),
            failure: class.is_failure(None),
            message: why.to_owned(),
            evidence: Evidence::default(),
        }
    }
}

/// What a loss reason was inferred from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Evidence {
    /// The node.
    pub node: Option<Arc<str>>,
    /// `status.reason`.
    pub pod_reason: Option<Arc<str>>,
    /// `status.message`.
    pub pod_message: Option<Arc<str>>,
    /// The state of the executor container.
    pub container: Option<String>,
    /// The condition DisruptionTarget: its reason.
    pub disruption: Option<Arc<str>>,
    /// The conditions beside the ordinary ones that are true.
    pub conditions: Arc<[Arc<str>]>,
}
