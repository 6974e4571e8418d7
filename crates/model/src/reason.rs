//! Why an executor ended: the loss reason and its class (spec L-20).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The class of a loss reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LossClass {
    /// Its container ended by itself.
    Exited,
    /// The kernel killed it because memory was exhausted.
    OomKilled,
    /// Its node killed it because a liveness or startup probe failed.
    ProbeFailed,
    /// It never ran, because of its image, configuration or a volume.
    StartFailed,
    /// The node refused it.
    Rejected,
    /// The node evicted it because a resource ran short.
    Evicted,
    /// The scheduler removed it for a pod of higher priority.
    Preempted,
    /// The cluster terminated it for another reason of its own.
    Disrupted,
    /// Its node is gone.
    NodeLost,
    /// A client other than the driver deleted its pod.
    Deleted,
    /// Its labels no longer identified it as this application's.
    Mislabelled,
    /// An operator killed it, or the application ended.
    Killed,
    /// An operator decommissioned it.
    Decommissioned,
    /// There were more executors than the target.
    ScaledDown,
    /// It sent no message for too long.
    HeartbeatTimeout,
    /// Its connection was lost, and neither it nor the cluster has reported why.
    Disconnected,
    /// It fell silent when the driver could not trust its own network path.
    Unreachable,
    /// Its agent ended it, because the agent found no driver.
    Abandoned,
    /// It ran without registering.
    RegistrationTimeout,
    /// It waited to run for too long.
    PendingTimeout,
    /// The API server refuses its profile's template.
    TemplateRefused,
    /// No pod was ever created.
    NotCreated,
    /// Its pod is gone, and no deletion was observed.
    Missing,
    /// It ended while no driver ran.
    Lost,
    /// Its pod is being deleted for longer than its grace period allows.
    Stuck,
}

impl LossClass {
    pub const ALL: [Self; 25] = [
        Self::Exited,
        Self::OomKilled,
        Self::ProbeFailed,
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
        Self::Unreachable,
        Self::Abandoned,
        Self::RegistrationTimeout,
        Self::PendingTimeout,
        Self::TemplateRefused,
        Self::NotCreated,
        Self::Missing,
        Self::Lost,
        Self::Stuck,
    ];

    /// Whether the application caused it.
    pub fn by_application(self) -> bool {
        use LossClass::*;
        match self {
            Exited | OomKilled | ProbeFailed | StartFailed | RegistrationTimeout
            | TemplateRefused => true,
            Rejected | Evicted | Preempted | Disrupted | NodeLost | Deleted | Mislabelled
            | Killed | Decommissioned | ScaledDown | HeartbeatTimeout | Disconnected
            | Unreachable | Abandoned | PendingTimeout | NotCreated | Missing | Lost | Stuck => {
                false
            }
        }
    }

    /// Whether it counts as a failure; an exit does unless its code is 0.
    pub fn is_failure(self, exit_code: Option<i32>) -> bool {
        use LossClass::*;
        match self {
            Exited => exit_code != Some(0),
            OomKilled | ProbeFailed | StartFailed | Mislabelled | HeartbeatTimeout
            | Disconnected | RegistrationTimeout | TemplateRefused => true,
            Rejected | Evicted | Preempted | Disrupted | NodeLost | Deleted | Killed
            | Decommissioned | ScaledDown | Unreachable | Abandoned | PendingTimeout
            | NotCreated | Missing | Lost | Stuck => false,
        }
    }
}

impl fmt::Display for LossClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Why an executor ended, for programs and for the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LossReason {
    pub class: LossClass,
    /// The executor container's exit code; never made up.
    pub exit_code: Option<i32>,
    pub by_application: bool,
    pub failure: bool,
    /// One line for the operator.
    pub message: String,
    pub evidence: Evidence,
}

impl LossReason {
    /// The API server refuses a profile's template, with this message (spec A-23).
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
    pub node: Option<Arc<str>>,
    /// `status.reason`.
    pub pod_reason: Option<Arc<str>>,
    /// `status.message`.
    pub pod_message: Option<Arc<str>>,
    /// The executor container's state.
    pub container: Option<String>,
    /// The reason of the condition DisruptionTarget.
    pub disruption: Option<Arc<str>>,
    /// The types of the conditions that are true, without those that every pod has.
    pub conditions: Arc<[Arc<str>]>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::pages::rows;

    // spec: L-20
    #[test]
    fn the_documentation_lists_all_reasons_and_which_are_failures() {
        let page = include_str!("../../../docs/operations.md");
        let failure = |class: LossClass| match [Some(0), Some(1)].map(|code| class.is_failure(code))
        {
            [true, true] => "yes",
            [false, true] => "unless 0",
            _ => "no",
        };
        let expected = LossClass::ALL.map(|class| (class.to_string(), failure(class).to_owned()));
        let documented = rows(page, "## Why an executor ended")
            .into_iter()
            .map(|row| {
                // "yes" may be qualified.
                let failure = row[2].split(',').next().unwrap();
                (row[0].to_owned(), failure.to_owned())
            });
        let documented: BTreeSet<_> = documented.collect();
        assert_eq!(documented, BTreeSet::from(expected));
    }
}
