//! What the actors report to the driver's own task, which is not an actor.

use std::future::pending;

use tokio::sync::mpsc;

use crate::actors::driver_backend::messages::Stop;
use crate::actors::pod_allocator::messages::CannotStart;
use crate::actors::pod_allocator::refusal::RefusalKind;
use crate::actors::record_keeper::keeping::Over;
use crate::exit::Exit;

/// A report after which the driver ends at once (spec W-7, A-24).
pub(super) enum FatalReport {
    CannotStart(CannotStart),
    Over(Over),
}

impl FatalReport {
    /// What the report means.
    pub(super) fn exit(self) -> Exit {
        match self {
            Self::Over(Over::Superseded { by }) => {
                tracing::warn!(
                    incarnation = by,
                    "another driver has taken over: this one ends, executors stay"
                );
                Exit::Superseded
            }
            Self::Over(Over::Outdated { later }) => {
                tracing::warn!(
                    incarnation = later,
                    "pods of a later driver are there, and its application record was lost: this driver ends, executors \
                 stay, and the next driver adopts them"
                );
                Exit::Superseded
            }
            Self::Over(Over::Finished(code)) => {
                tracing::warn!(code, "another driver has ended the application");
                Exit::Finished(code)
            }
            Self::Over(Over::Foreign(error)) => {
                tracing::error!(%error, "the application record is not this driver's any more");
                Exit::Configuration
            }
            Self::CannotStart(CannotStart { kind, why }) => {
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
}

/// The sending ends.
pub(super) struct Reporter {
    pub(super) cannot_start: mpsc::UnboundedSender<CannotStart>,
    pub(super) over: mpsc::UnboundedSender<Over>,
    pub(super) stops: mpsc::UnboundedSender<Stop>,
}

/// The receiving ends. Only a few reports ever arrive, so the queues need no limit.
pub(super) struct Reports {
    pub(super) fatal: Fatal,
    /// Stop requests of the application.
    pub(super) stops: mpsc::UnboundedReceiver<Stop>,
}

pub(super) struct Fatal {
    cannot_start: mpsc::UnboundedReceiver<CannotStart>,
    over: mpsc::UnboundedReceiver<Over>,
}

impl Reports {
    pub(super) fn channels() -> (Reporter, Self) {
        let (send_cannot_start, cannot_start) = mpsc::unbounded_channel();
        let (send_over, over) = mpsc::unbounded_channel();
        let (send_stop, stops) = mpsc::unbounded_channel();
        let reporter = Reporter {
            cannot_start: send_cannot_start,
            over: send_over,
            stops: send_stop,
        };
        let fatal = Fatal { cannot_start, over };
        (reporter, Self { fatal, stops })
    }
}

impl Fatal {
    /// The next report that ends the driver at once.
    pub(super) async fn next(&mut self) -> FatalReport {
        tokio::select! {
            biased;
            Some(over) = self.over.recv() => FatalReport::Over(over),
            Some(report) = self.cannot_start.recv() => FatalReport::CannotStart(report),
            else => pending().await,
        }
    }
}
