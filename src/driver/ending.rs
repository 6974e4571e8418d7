//! What a report means that ends the driver at once (spec W-7, A-24).

use crate::actors::pod_allocator::messages::CannotStart;
use crate::actors::pod_allocator::refusal::RefusalKind;
use crate::actors::record_keeper::keeping::Over;
use crate::exit::Exit;

use super::reports::FatalReport;

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
                RefusalKind::Rights => (
                    Exit::Rights,
                    "grant it, or run with an account that has it: see docs/kubernetes.md, \"Rights\"",
                ),
                RefusalKind::Credentials => (
                    Exit::Rights,
                    "check the kubeconfig's user, or the pod's service account",
                ),
                RefusalKind::Namespace => (
                    Exit::Configuration,
                    "create the namespace, or set cluster.namespace",
                ),
                RefusalKind::Blocked | RefusalKind::Quota => {
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
