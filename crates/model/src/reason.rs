//! Why an executor ended: the loss reason and its class (spec L-20).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Whether an end of a class counts as a failure (spec L-20).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    Always,
    /// Unless the exit code is 0.
    UnlessZero,
    Never,
}

/// Who caused an end of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Application,
    Other,
}

/// What a class tells of an end. One that tells more replaces one that tells less (spec L-37).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tells {
    /// Nobody saw the end.
    Nothing,
    HowItEnded,
    /// The pod does not show what a probe did.
    WhoKilledIt,
    /// What the cluster decided.
    Cluster,
    /// What the driver decided.
    Driver,
}

/// Which ends of a class are early (spec A-30); *young*: it ran for less than `failures.stable_after`, or never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Early {
    Always,
    IfYoung,
    /// An interruption if it was young.
    Interrupted,
    /// And an interruption if it ran and was young.
    IfItNeverRan,
    Never,
}

/// Declares each class: when it is a failure, who causes it, what it tells of the end, and when it is an early end.
macro_rules! classes {
    ($($(#[$about:meta])* $class:ident: $failure:ident, $cause:ident, $tells:ident, $early:ident;)*) => {
        /// The class of a loss reason.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum LossClass {
            $($(#[$about])* $class,)*
        }

        impl LossClass {
            /// All classes, with their names.
            pub const ALL: &'static [(&'static str, Self)] =
                &[$((stringify!($class), Self::$class),)*];

            fn facts(self) -> (Failure, Cause, Tells, Early) {
                match self {
                    $(Self::$class => (Failure::$failure, Cause::$cause, Tells::$tells, Early::$early),)*
                }
            }
        }
    };
}

// The last one is no end of an executor that was there.
classes! {
    /// Its container ended by itself.
    Exited: UnlessZero, Application, HowItEnded, IfYoung;
    /// The kernel killed it because memory was exhausted.
    OomKilled: Always, Application, WhoKilledIt, IfYoung;
    /// Its node killed it because a liveness or startup probe failed.
    ProbeFailed: Always, Application, WhoKilledIt, IfYoung;
    /// It never ran, because of its image, configuration or a volume.
    StartFailed: Always, Application, HowItEnded, Always;
    /// The node refused it.
    Rejected: Never, Other, Cluster, Interrupted;
    /// The node evicted it because a resource ran short.
    Evicted: Never, Other, Cluster, Interrupted;
    /// The scheduler removed it for a pod of higher priority.
    Preempted: Never, Other, Cluster, Interrupted;
    /// The cluster terminated it for another reason of its own.
    Disrupted: Never, Other, Cluster, Interrupted;
    /// Its node is gone.
    NodeLost: Never, Other, Cluster, Interrupted;
    /// A client other than the driver deleted its pod.
    Deleted: Never, Other, HowItEnded, IfItNeverRan;
    /// Its labels no longer identified it as this application's.
    Mislabelled: Always, Other, Driver, Always;
    /// An operator killed it, or the application ended.
    Killed: Never, Other, Driver, Never;
    /// An operator decommissioned it.
    Decommissioned: Never, Other, Driver, Never;
    /// Its node is about to leave the cluster.
    NodeLeaving: Never, Other, Driver, Never;
    /// There were more executors than the target.
    ScaledDown: Never, Other, Driver, Never;
    /// It sent no message for too long.
    HeartbeatTimeout: Always, Other, Driver, Never;
    /// Its connection was lost, and neither it nor the cluster has reported why.
    Disconnected: Always, Other, Driver, Never;
    /// It fell silent when the driver could not trust its own network path.
    Unreachable: Never, Other, Driver, Never;
    /// Its agent ended it, because the agent found no driver.
    Abandoned: Never, Other, HowItEnded, Interrupted;
    /// It ran without registering.
    RegistrationTimeout: Always, Application, Driver, Never;
    /// It waited to run for too long.
    PendingTimeout: Never, Other, Driver, Never;
    /// The API server refuses its profile's template.
    TemplateRefused: Always, Application, Nothing, Never;
    /// Its pod is gone, and no deletion was observed.
    Missing: Never, Other, Nothing, Interrupted;
    /// It ended while no driver ran.
    Lost: Never, Other, Nothing, Never;
    /// Its pod is being deleted for longer than its grace period allows.
    Stuck: Never, Other, HowItEnded, Never;
    /// No pod was ever created.
    NotCreated: Never, Other, Nothing, Never;
}

impl LossClass {
    /// Whether the application caused it.
    pub fn by_application(self) -> bool {
        self.facts().1 == Cause::Application
    }

    /// Whether it counts as a failure; an exit does unless its code is 0.
    pub fn is_failure(self, exit_code: Option<i32>) -> bool {
        match self.facts().0 {
            Failure::Always => true,
            Failure::UnlessZero => exit_code != Some(0),
            Failure::Never => false,
        }
    }

    /// Whether neither the executor nor the driver caused it.
    pub fn is_disruption(self) -> bool {
        match self {
            Self::Unreachable | Self::NodeLeaving => true,
            _ => self.facts().1 == Cause::Other && !matches!(self.tells(), Tells::Driver),
        }
    }

    pub(crate) fn tells(self) -> Tells {
        self.facts().2
    }

    pub(crate) fn early(self) -> Early {
        self.facts().3
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
        let expected = LossClass::ALL
            .iter()
            .map(|(name, class)| ((*name).to_owned(), failure(*class).to_owned()));
        let documented = rows(page, "## Why an executor ended")
            .into_iter()
            .map(|row| {
                // "yes" may be qualified.
                let failure = row[2].split(',').next().unwrap();
                (row[0].to_owned(), failure.to_owned())
            });
        let documented: BTreeSet<_> = documented.collect();
        assert_eq!(documented, expected.collect());
    }
}
