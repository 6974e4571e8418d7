//! What ends a driver: a request to stop (spec O-10), or a report that ends it at once (spec W-7,
//!

use std::sync::Arc;

use crate::actors::driver_backend::messages::Stop;
use crate::actors::pod_allocator::messages::CannotStart;
use crate::actors::pod_allocator::refusal::Kind;
use crate::actors::record_keeper::keeping::Over;
use crate::exit::Exit;

use super::reports::FatalReport;
use super::signal_cause::Meaning;

/// How the driver stops (spec O-10).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StopMode {
    /// Ends this incarnation only.
    HandOver,
    End {
        exit_code: u8,
        /// Keeps the record, marked as ended, for a driver that replaces this one (spec O-108).
        keep_record: bool,
    },
    /// Ends an application that failed too often: executors may finish their work, and the record
    /// stays (spec L-30).
    OverBudget { why: Arc<str> },
    /// Ends the executors and this incarnation, because no driver is wanted for a while (spec O-67).
    LetGo,
    /// The application is gone, and this driver's rights with it (spec O-95).
    Collected,
}

impl StopMode {
    pub(super) fn of_signal(meaning: Meaning, in_a_pod: bool) -> Self {
        match meaning {
            Meaning::HandOver => Self::HandOver,
            Meaning::End => Self::end_with(0, in_a_pod),
            Meaning::LetGo => Self::LetGo,
            Meaning::Collected => Self::Collected,
        }
    }

    pub(super) fn of_request(stop: Stop, in_a_pod: bool) -> Self {
        match stop {
            Stop::HandOver => Self::HandOver,
            Stop::End { exit_code } => Self::end_with(exit_code, in_a_pod),
            Stop::OverBudget { why } => Self::OverBudget { why },
        }
    }

    /// In a pod the record is kept: a controller may replace the pod even after a request to stop,
    /// for example when its node is drained, and the next driver must not start the application
    /// again.
    fn end_with(exit_code: u8, in_a_pod: bool) -> Self {
        Self::End {
            exit_code,
            keep_record: in_a_pod,
        }
    }
}

pub(super) fn exit_after(report: FatalReport) -> Exit {
    match report {
        FatalReport::Over(Over::Superseded { by }) => {
            tracing::warn!(
                incarnation = by,
                "another driver has taken over: this one ends, executors stay"
            );
            Exit::Superseded
        }
        FatalReport::Over(Over::Outdated { later }) => {
            tracing::warn!(
                incarnation = later,
                "pods of a later driver are there, and its application record was lost: this driver ends, executors \
                 stay, and the next driver adopts them"
            );
            Exit::Superseded
        }
        FatalReport::Over(Over::Finished(code)) => {
            tracing::warn!(code, "another driver has ended the application");
            Exit::Finished(code)
        }
        FatalReport::Over(Over::Foreign(error)) => {
            tracing::error!(%error, "the application record is not this driver's any more");
            Exit::Configuration
        }
        FatalReport::CannotStart(CannotStart { kind, why }) => {
            let (exit, hint) = match kind {
                Kind::Rights => (
                    Exit::Rights,
                    "grant it, or run with an account that has it: see docs/kubernetes.md, \"Rights\"",
                ),
                Kind::Credentials => (
                    Exit::Rights,
                    "check the kubeconfig's user, or the pod's service account",
                ),
                Kind::Namespace => (
                    Exit::Configuration,
                    "create the namespace, or set cluster.namespace",
                ),
                Kind::Blocked | Kind::Quota => {
                    (Exit::Configuration, "mend the profile as the server says")
                }
            };
            tracing::error!(
                error = why,
                hint,
                "no executor can be created, of any profile: none was started; the application record is left, with what it \
                 owns"
            );
            exit
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: O-10, O-108
    #[test]
    fn an_end_in_a_pod_keeps_the_record_whatever_requested_it() {
        for in_a_pod in [true, false] {
            let end = |exit_code| StopMode::End {
                exit_code,
                keep_record: in_a_pod,
            };
            assert_eq!(StopMode::of_signal(Meaning::End, in_a_pod), end(0));
            let asked = Stop::End { exit_code: 3 };
            assert_eq!(StopMode::of_request(asked, in_a_pod), end(3));
            let hand_over = StopMode::of_signal(Meaning::HandOver, in_a_pod);
            assert_eq!(hand_over, StopMode::HandOver);
        }
    }
}
