//! The part of a pod that the driver keeps (spec E-14), its identity, and its state (spec E-11 to E-13).

mod evidence;
mod sighting;

use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::claims::PodClaim;
use super::ids::{ExecutorId, Incarnation, PodUid, ProfileName};
use super::version::ResourceVersion;

pub use sighting::{Sighting, Unreadable};

/// Texts from the cluster are cut to this many bytes. So an executor needs at most about 1 KiB (spec E-14).
pub const MAX_TEXT_BYTES: usize = 256;

/// The reason of a container whose status its kubelet has lost, or that never ran when its pod ended.
pub const STATUS_UNKNOWN: &str = "ContainerStatusUnknown";

/// The reason, with code 255, of a container that its runtime has lost.
pub const RUNTIME_UNKNOWN: &str = "Unknown";

const UNREADABLE: &str = "unreadable";

/// The fields of a pod that decisions and explanations need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    pub uid: PodUid,
    pub name: Arc<str>,
    /// The resource version of this state.
    pub version: ResourceVersion,
    /// Its identity according to its labels and name.
    pub identity: PodIdentity,
    /// By the API server's clock.
    pub created: Option<Timestamp>,
    /// Set while it is being deleted.
    pub deletion: Option<Deletion>,
    /// `status.phase`.
    pub phase: Phase,
    /// `status.reason`.
    pub reason: Option<Arc<str>>,
    /// `status.message`.
    pub message: Option<Arc<str>>,
    pub node: Option<Arc<str>>,
    /// `status.podIP`.
    pub ip: Option<IpAddr>,
    /// `status.hostIP`: its node's.
    pub host_ip: Option<IpAddr>,
    /// The PersistentVolumeClaims that it refers to; `None`: there are none.
    pub volume_claims: Option<Arc<[PodClaim]>>,
    pub scheduling: Scheduling,
    /// Whether its node has yet to mount its volumes or to set up its network.
    pub awaits_node: bool,
    /// The condition DisruptionTarget, if it is true.
    pub disruption: Option<Disruption>,
    /// The types of its other conditions that are true, without those that every pod has; `None`: there are none.
    pub conditions: Option<Arc<[Arc<str>]>>,
    /// The container with the executor's name, otherwise the first one.
    pub executor: ContainerState,
    /// Its memory limit, in whole mebibytes, rounded up.
    pub memory_limit: Option<NonZeroU32>,
    /// Whether the spec has another limit, which its kubelet has not given it (spec L-44).
    pub resizes: bool,
    /// Whether the kubelet kills that container when a liveness or startup probe fails.
    pub probed: bool,
    /// The init container for which it waits.
    pub init: Option<Arc<InitContainer>>,
    /// Another container that ended with a code other than 0; only with `check_all_containers`.
    pub failed_sidecar: Option<Arc<FailedSidecar>>,
    /// Set if this driver or an earlier one has drained it.
    pub draining: Option<Arc<Draining>>,
    /// Whether autoscalers of the cluster are told to leave its node alone.
    pub is_protected: bool,
    /// The annotation `boatswain.dev/deletion-cost`; 0 if it is missing or not a number.
    pub deletion_cost: i32,
    /// The number of the block that it was admitted with, if a queue admits executors.
    pub block: Option<u32>,
    /// The LocalQueue in which Kueue has queued the pod by itself.
    pub queue: Option<Arc<str>>,
    /// The uid of the application record that owns it.
    pub owner: Option<PodUid>,
    /// The restarts of its container, if a set made it; `None`: no restarts.
    pub restarts: Option<Arc<Restarts>>,
}

/// An init container that is not done, or a native sidecar that has not started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitContainer {
    pub name: Arc<str>,
    /// Whether it is a native sidecar, which runs beside the executor afterwards.
    pub sidecar: bool,
    pub restarts: u32,
}

impl fmt::Display for InitContainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.sidecar {
            "sidecar"
        } else {
            "init container"
        };
        write!(f, "{kind} {}", self.name)
    }
}

/// A container beside the executor's that ended with a code other than 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedSidecar {
    pub name: Arc<str>,
    pub end: Termination,
}

/// The restarts of the executor container in the same pod (spec A-80).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restarts {
    pub count: u32,
    /// The end before the last restart.
    pub last: Option<Termination>,
}

/// A pod's identity, from its labels and its name (spec E-1, E-2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodIdentity {
    /// An executor of this application.
    Executor {
        id: ExecutorId,
        /// `None`: the label is missing.
        profile: Option<ProfileName>,
        /// The incarnation that requested it; `None`: the label is missing.
        incarnation: Option<Incarnation>,
    },
    /// A set of this application made it, and it has no executor id yet.
    UnassignedPod { profile: Option<ProfileName> },
    /// It bears our labels, but no readable id, or not the name that belongs to the id.
    Unrecognised { why: Arc<str> },
    /// It does not belong to this application, or no longer.
    Foreign {
        /// The label that shows this.
        label: Arc<str>,
    },
}

impl PodIdentity {
    pub fn executor(&self) -> Option<ExecutorId> {
        match self {
            PodIdentity::Executor { id, .. } => Some(*id),
            PodIdentity::UnassignedPod { .. }
            | PodIdentity::Unrecognised { .. }
            | PodIdentity::Foreign { .. } => None,
        }
    }

    /// The profile according to its label.
    pub fn profile(&self) -> Option<&ProfileName> {
        match self {
            PodIdentity::Executor { profile, .. } | PodIdentity::UnassignedPod { profile } => {
                profile.as_ref()
            }
            PodIdentity::Unrecognised { .. } | PodIdentity::Foreign { .. } => None,
        }
    }
}

/// `metadata.deletionTimestamp` and the grace period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deletion {
    /// The time of the request plus the grace period, by the API server's clock.
    pub deadline: Option<Timestamp>,
    pub grace: Option<Duration>,
}

impl Deletion {
    /// The time of the delete request; `None` if it is unknown.
    pub fn requested(&self) -> Option<Timestamp> {
        let grace = self.grace.unwrap_or_default();
        self.deadline.and_then(|at| at.checked_sub(grace).ok())
    }
}

/// The mark of a pod whose executor drains; a successor reads it (spec L-12).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draining {
    pub why: DrainedFor,
    /// The deadline, by the clock of the driver that wrote it.
    pub until: Timestamp,
}

/// Why an executor drains, as far as a successor needs it for the reason of its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DrainedFor {
    /// There were more executors than the target.
    Surplus,
    ApplicationEnded,
    /// An operator requested it; contains who.
    Asked(Arc<str>),
    /// Its node is about to leave the cluster; contains which one, and how that is known.
    NodeLeaving(Arc<str>),
}

/// `status.phase`, compared without case (spec E-11).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
    /// Missing, `Unknown`, not a phase that Kubernetes defines, or unreadable.
    Odd(Arc<str>),
}

impl Phase {
    pub fn parse(text: &str) -> Self {
        if text.eq_ignore_ascii_case("pending") {
            Phase::Pending
        } else if text.eq_ignore_ascii_case("running") {
            Phase::Running
        } else if text.eq_ignore_ascii_case("succeeded") {
            Phase::Succeeded
        } else if text.eq_ignore_ascii_case("failed") {
            Phase::Failed
        } else {
            Phase::Odd(cut(text))
        }
    }

    /// The phase of a pod that exists and cannot be read (spec S-15).
    pub fn unreadable() -> Self {
        Phase::Odd(Arc::from(UNREADABLE))
    }

    pub fn is_unreadable(&self) -> bool {
        matches!(self, Phase::Odd(text) if **text == *UNREADABLE)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scheduling {
    /// Scheduling gates with these names block it.
    Gated(Arc<str>),
    /// No node yet; contains the scheduler's message, if any.
    Waiting(Option<Arc<str>>),
    Bound,
}

/// The condition DisruptionTarget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disruption {
    /// Such as PreemptionByScheduler, EvictionByEvictionAPI, DeletionByTaintManager.
    pub reason: Arc<str>,
    pub message: Option<Arc<str>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ContainerState {
    /// The pod's status does not contain it.
    #[default]
    Absent,
    Waiting {
        /// Such as ContainerCreating, ImagePullBackOff.
        reason: Option<Arc<str>>,
        message: Option<Arc<str>>,
    },
    Running {
        /// By the node's clock.
        started: Option<Timestamp>,
    },
    Terminated(Termination),
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Termination {
    /// `None` if no valid exit code was reported; it is never made up.
    pub exit_code: Option<i32>,
    /// Such as Completed, Error, OOMKilled, StartError.
    pub reason: Option<Arc<str>>,
    pub message: Option<Arc<str>>,
    /// By the node's clock.
    pub started: Option<Timestamp>,
    /// By the node's clock.
    pub finished: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodState {
    Pending(PendingStage),
    Running,
    /// An unknown phase, or unreadable.
    Odd,
    Terminating,
    Succeeded,
    /// Also if the executor container runs and a sidecar that counts has failed.
    Failed,
}

/// The stage of a pending pod, in the order in which a scale-down chooses pods (spec A-40).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PendingStage {
    Unscheduled,
    Scheduled,
    Starting,
    /// It ran, and the kubelet starts its container again in the same pod.
    Restarting,
}

impl Pod {
    /// The number of restarts of the executor container (spec A-80).
    pub fn restart_count(&self) -> u32 {
        self.restarts.as_ref().map_or(0, |restarts| restarts.count)
    }

    /// What it waits for, with the cluster's message if there is one; `None` if it is not pending.
    pub fn why_pending(&self) -> Option<String> {
        let PodState::Pending(stage) = self.state() else {
            return None;
        };
        let init = (self.init.as_ref()).map_or_else(String::new, |init| format!(": {init}"));
        let restarts = match (stage, self.restart_count()) {
            (PendingStage::Restarting, restarts @ 1..) => format!(", restarted {restarts} times"),
            _ => String::new(),
        };
        Some(match (stage, &self.scheduling, &self.executor) {
            (PendingStage::Unscheduled, Scheduling::Gated(names), _) => {
                format!("held by a scheduling gate: {names}")
            }
            (PendingStage::Unscheduled, Scheduling::Waiting(Some(why)), _) => {
                format!("unscheduled: {why}")
            }
            (PendingStage::Unscheduled, ..) => "unscheduled".to_owned(),
            (
                _,
                _,
                ContainerState::Waiting {
                    reason: Some(reason),
                    ..
                },
            ) => format!("{reason}{init}{restarts}"),
            (PendingStage::Restarting, ..) => format!("restarting{restarts}"),
            (PendingStage::Scheduled | PendingStage::Starting, ..) => format!("starting{init}"),
        })
    }

    /// A pod without any data, to be filled in.
    pub fn blank() -> Self {
        Self {
            uid: "".into(),
            name: Arc::from(""),
            version: ResourceVersion::ZERO,
            identity: PodIdentity::Foreign {
                label: Arc::from(""),
            },
            created: None,
            deletion: None,
            phase: Phase::Pending,
            reason: None,
            message: None,
            node: None,
            ip: None,
            host_ip: None,
            volume_claims: None,
            scheduling: Scheduling::Waiting(None),
            awaits_node: false,
            disruption: None,
            conditions: None,
            executor: ContainerState::Absent,
            memory_limit: None,
            resizes: false,
            probed: false,
            init: None,
            failed_sidecar: None,
            draining: None,
            is_protected: false,
            deletion_cost: 0,
            block: None,
            queue: None,
            owner: None,
            restarts: None,
        }
    }

    /// A finished pod stays finished while it is being deleted (spec E-11, E-12).
    pub fn state(&self) -> PodState {
        match &self.phase {
            Phase::Succeeded => PodState::Succeeded,
            Phase::Failed => PodState::Failed,
            Phase::Running if self.failed_sidecar.is_some() => PodState::Failed,
            Phase::Running => match &self.executor {
                ContainerState::Terminated(end) if end.exit_code == Some(0) => PodState::Succeeded,
                ContainerState::Terminated(_) => PodState::Failed,
                _ if self.deletion.is_some() => PodState::Terminating,
                // A pod that was never Running is Pending while any of its containers waits.
                ContainerState::Waiting { .. } => PodState::Pending(PendingStage::Restarting),
                ContainerState::Running { .. } | ContainerState::Absent => PodState::Running,
            },
            _ if self.deletion.is_some() => PodState::Terminating,
            Phase::Pending => PodState::Pending(self.pending_stage()),
            Phase::Odd(_) => PodState::Odd,
        }
    }

    /// The exit code of [`Pod::termination`]; `None` if there is none (spec E-13).
    pub fn exit_code(&self) -> Option<i32> {
        self.termination().and_then(|end| end.exit_code)
    }

    /// The end of the container that decides the pod's state.
    pub fn termination(&self) -> Option<&Termination> {
        match (&self.executor, self.deciding_sidecar()) {
            (_, Some(sidecar)) => Some(&sidecar.end),
            (ContainerState::Terminated(end), None) => Some(end),
            _ => None,
        }
    }

    /// A failed sidecar decides unless the executor container has failed too.
    pub fn deciding_sidecar(&self) -> Option<&FailedSidecar> {
        let executor_failed =
            matches!(&self.executor, ContainerState::Terminated(end) if end.exit_code != Some(0));
        (self.failed_sidecar.as_deref()).filter(|_| !executor_failed)
    }

    fn pending_stage(&self) -> PendingStage {
        match (&self.scheduling, &self.executor) {
            (Scheduling::Gated(_) | Scheduling::Waiting(_), _) => PendingStage::Unscheduled,
            (Scheduling::Bound, ContainerState::Absent) => PendingStage::Scheduled,
            (Scheduling::Bound, _) => PendingStage::Starting,
        }
    }
}

/// Whether a container that waits for this reason merely waits for what comes before it.
pub fn is_not_its_turn(reason: &str) -> bool {
    matches!(reason, "ContainerCreating" | "PodInitializing")
}

impl PodState {
    pub fn is_finished(self) -> bool {
        matches!(self, PodState::Succeeded | PodState::Failed)
    }
}

/// Cuts a text to [`MAX_TEXT_BYTES`], at a character boundary.
pub fn cut(text: &str) -> Arc<str> {
    if text.len() <= MAX_TEXT_BYTES {
        return Arc::from(text);
    }
    let mut end = MAX_TEXT_BYTES - '…'.len_utf8();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Arc::from(format!("{}…", &text[..end]))
}

#[cfg(test)]
mod tests;
