//! What is kept of a pod (spec E-14), whose it is, and what state it is in (spec E-11 to E-13).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::claims::PodClaim;
use super::ids::{ExecutorId, Incarnation, PodUid, ProfileName};
use super::version::ResourceVersion;

/// Texts from the cluster are cut to this many bytes, so that an executor costs about 1 KiB at most (spec E-14).
pub const MAX_TEXT_BYTES: usize = 256;

const UNREADABLE: &str = "unreadable";

/// A pod, as far as decisions and explanations need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// What Kubernetes calls this pod and no other.
    pub uid: PodUid,
    /// Its name, which never changes.
    pub name: Arc<str>,
    /// The version of this news of it.
    pub version: ResourceVersion,
    /// Whose its labels and name say it is.
    pub claim: Claim,
    /// When it was created, by the server's clock.
    pub created: Option<Timestamp>,
    /// That and how it is being deleted.
    pub deletion: Option<Deletion>,
    /// `status.phase`.
    pub phase: Phase,
    /// `status.reason`.
    pub reason: Option<Arc<str>>,
    /// `status.message`.
    pub message: Option<Arc<str>>,
    /// The node it is bound to.
    pub node: Option<Arc<str>>,
    /// The claims on volumes that it mentions; `None`: there are none (spec A-60).
    pub volume_claims: Option<Arc<[PodClaim]>>,
    /// How far scheduling has come.
    pub scheduling: Scheduling,
    /// The condition DisruptionTarget, where it is true.
    pub disruption: Option<Disruption>,
    /// The types of its conditions that are true, beside those that every pod has; `None`: there are none.
    pub conditions: Option<Arc<[Arc<str>]>>,
    /// The executor container: by name, else the first.
    pub executor: ContainerState,
    /// Another container that ended non-zero, where such ones decide too (`check_all_containers`, spec E-12).
    pub failed_sidecar: Option<Arc<Termination>>,
    /// That it was told to drain, by this driver or an earlier one (spec L-12).
    pub draining: Option<Arc<Draining>>,
    /// The annotation `boatswain.dev/deletion-cost`; 0 without one.
    pub deletion_cost: i32,
    /// The uid of the application record among its owners, where it has one.
    pub owner: Option<PodUid>,
    /// That its containers were started again, where a set has made it (spec A-80); `None`: they were not.
    pub restarts: Option<Arc<Restarts>>,
}

/// How often the executor container was started again in the same pod, and how it ended last (spec A-80).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restarts {
    /// How often.
    pub count: u32,
    /// How it ended before it was started again.
    pub last: Option<Termination>,
}

/// Whose a pod is, by its labels and its name (spec E-1, E-2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// It says that it is this application's executor.
    Executor {
        /// Which one.
        id: ExecutorId,
        /// Of which profile; the label may be missing.
        profile: Option<ProfileName>,
        /// Which incarnation asked for it; the label may be missing.
        incarnation: Option<Incarnation>,
    },
    /// A set of this application's has made it, and it has no id yet (spec A-80).
    UnassignedPod {
        /// Of which profile.
        profile: Option<ProfileName>,
    },
    /// It bears our labels, but no readable id, or not the name that goes with it (spec E-2).
    Unrecognised {
        /// What does not fit.
        why: Arc<str>,
    },
    /// It is not ours, or not any more.
    Foreign {
        /// The label that says so.
        label: Arc<str>,
    },
}

impl Claim {
    /// The executor it says it is.
    pub fn executor(&self) -> Option<ExecutorId> {
        match self {
            Claim::Executor { id, .. } => Some(*id),
            Claim::UnassignedPod { .. } | Claim::Unrecognised { .. } | Claim::Foreign { .. } => {
                None
            }
        }
    }
}

/// A deletionTimestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deletion {
    /// When the grace ends, by the server's clock: the time of the request plus the grace.
    pub deadline: Option<Timestamp>,
    /// How long the pod may take.
    pub grace: Option<Duration>,
}

impl Deletion {
    /// When deletion was asked for, as far as it can be told.
    pub fn requested(&self) -> Option<Timestamp> {
        let grace = self.grace.unwrap_or_default();
        self.deadline.and_then(|at| at.checked_sub(grace).ok())
    }
}

/// The mark of a pod whose executor is to finish what it does and go, as a successor reads it (spec L-12).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draining {
    /// What for.
    pub why: DrainedFor,
    /// Until when it may take its time, by the clock of the driver that wrote it.
    pub until: Timestamp,
}

/// Why an executor is to finish what it does and go, as far as a successor has to know it to tell its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DrainedFor {
    /// There were more than wanted.
    Surplus,
    /// The application is over.
    ApplicationEnded,
    /// Somebody asked for it.
    Asked(Arc<str>),
}

/// `status.phase`, compared without case (spec E-11).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Accepted, not all containers started.
    Pending,
    /// Bound, and at least one container runs or restarts.
    Running,
    /// All containers ended with 0.
    Succeeded,
    /// All containers ended, one of them not with 0.
    Failed,
    /// Missing, `Unknown`, never heard of, or unreadable (spec E-6, S-15).
    Odd(Arc<str>),
}

impl Phase {
    /// The phase a text stands for.
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

    /// The phase of a pod that is there and cannot be read (spec S-15).
    pub fn unreadable() -> Self {
        Phase::Odd(Arc::from(UNREADABLE))
    }

    /// Whether it stands for a pod that could not be read.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Phase::Odd(text) if **text == *UNREADABLE)
    }
}

/// How far the scheduler has come with a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scheduling {
    /// Held by a scheduling gate.
    Gated,
    /// No node yet, with the scheduler's own words where it gave some.
    Waiting(Option<Arc<str>>),
    /// A node was found.
    Bound,
}

/// The condition DisruptionTarget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disruption {
    /// Such as PreemptionByScheduler, EvictionByEvictionAPI, DeletionByTaintManager.
    pub reason: Arc<str>,
    /// In the cluster's own words.
    pub message: Option<Arc<str>>,
}

/// The state of one container.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ContainerState {
    /// Nothing is known of it.
    #[default]
    Absent,
    /// It waits to start.
    Waiting {
        /// Such as ContainerCreating, ImagePullBackOff.
        reason: Option<Arc<str>>,
        /// In the cluster's own words.
        message: Option<Arc<str>>,
    },
    /// It runs.
    Running {
        /// Since when, by the node's clock.
        started: Option<Timestamp>,
    },
    /// It ended.
    Terminated(Termination),
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Termination {
    /// Its exit code; `None` where none was reported that could be one: never invented (spec E-13).
    pub exit_code: Option<i32>,
    /// Such as Completed, Error, OOMKilled, StartError.
    pub reason: Option<Arc<str>>,
    /// In the cluster's own words.
    pub message: Option<Arc<str>>,
    /// When it started, by the node's clock.
    pub started: Option<Timestamp>,
    /// When it ended, by the node's clock.
    pub finished: Option<Timestamp>,
}

/// What state a pod is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodState {
    /// Not running yet.
    Pending(PendingStage),
    /// The executor runs.
    Running,
    /// A phase never heard of, or unreadable.
    Odd,
    /// Being deleted, not yet gone.
    Terminating,
    /// Ended with 0.
    Succeeded,
    /// Ended otherwise.
    Failed,
}

/// How far a pending pod has come, in the order in which victims are chosen (spec A-40).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PendingStage {
    /// Gated, or without a node.
    Unscheduled,
    /// It has a node.
    Scheduled,
    /// Its containers are being started.
    Starting,
}

impl Pod {
    /// How often the executor's container was started again in it (spec A-80).
    pub fn restart_count(&self) -> u32 {
        self.restarts.as_ref().map_or(0, |restarts| restarts.count)
    }

    /// What it waits for, in the cluster's own words where it has some; `None` where it does not wait to run.
    pub fn why_pending(&self) -> Option<String> {
        let PodState::Pending(stage) = self.state() else {
            return None;
        };
        Some(match (stage, &self.scheduling, &self.executor) {
            (PendingStage::Unscheduled, Scheduling::Gated, _) => {
                "held by a scheduling gate".to_owned()
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
            ) => reason.to_string(),
            (PendingStage::Scheduled | PendingStage::Starting, ..) => "starting".to_owned(),
        })
    }

    /// A pod of which nothing is known; for filling in.
    pub fn blank() -> Self {
        Self {
            uid: "".into(),
            name: Arc::from(""),
            version: ResourceVersion::ZERO,
            claim: Claim::Foreign {
                label: Arc::from(""),
            },
            created: None,
            deletion: None,
            phase: Phase::Pending,
            reason: None,
            message: None,
            node: None,
            volume_claims: None,
            scheduling: Scheduling::Waiting(None),
            disruption: None,
            conditions: None,
            executor: ContainerState::Absent,
            failed_sidecar: None,
            draining: None,
            deletion_cost: 0,
            owner: None,
            restarts: None,
        }
    }

    /// The state of the pod (spec E-11, E-12).
    pub fn state(&self) -> PodState {
        match &self.phase {
            Phase::Succeeded => PodState::Succeeded,
            Phase::Failed => PodState::Failed,
            Phase::Running if self.failed_sidecar.is_some() => PodState::Failed,
            Phase::Running => match &self.executor {
                ContainerState::Terminated(end) if end.exit_code == Some(0) => PodState::Succeeded,
                ContainerState::Terminated(_) => PodState::Failed,
                _ if self.deletion.is_some() => PodState::Terminating,
                _ => PodState::Running,
            },
            _ if self.deletion.is_some() => PodState::Terminating,
            Phase::Pending => PodState::Pending(self.pending_stage()),
            Phase::Odd(_) => PodState::Odd,
        }
    }

    /// The exit code of the executor container, or of the sidecar that decided; `None` where there is none (spec E-13).
    pub fn exit_code(&self) -> Option<i32> {
        self.termination().and_then(|end| end.exit_code)
    }

    /// How the container ended that decides the pod's state.
    pub fn termination(&self) -> Option<&Termination> {
        match (&self.executor, &self.failed_sidecar) {
            (ContainerState::Terminated(end), Some(_)) if end.exit_code != Some(0) => Some(end),
            (_, Some(sidecar)) => Some(sidecar),
            (ContainerState::Terminated(end), None) => Some(end),
            _ => None,
        }
    }

    fn pending_stage(&self) -> PendingStage {
        match (&self.scheduling, &self.executor) {
            (Scheduling::Gated | Scheduling::Waiting(_), _) => PendingStage::Unscheduled,
            (Scheduling::Bound, ContainerState::Absent) => PendingStage::Scheduled,
            (Scheduling::Bound, _) => PendingStage::Starting,
        }
    }
}

impl PodState {
    /// Whether the pod has ended, whatever becomes of the object.
    pub fn is_finished(self) -> bool {
        matches!(self, PodState::Succeeded | PodState::Failed)
    }
}

/// A pod as it came from the API server: read, or as much of it as could be (spec S-15).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sighting {
    /// It could be read.
    Read(Arc<Pod>),
    /// It could not.
    Unreadable(Unreadable),
}

/// What could be read of a pod that could not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Its name, where that could be read.
    pub name: Option<Arc<str>>,
    /// Its uid, where that could be read.
    pub uid: Option<PodUid>,
    /// Its version, where that could be read.
    pub version: Option<ResourceVersion>,
    /// Whose its labels and name say it is, where those could be read.
    pub claim: Option<Claim>,
    /// What is wrong with it, and where.
    pub error: Arc<str>,
}

impl Sighting {
    /// The pod's name, where that could be read.
    pub fn name(&self) -> Option<&Arc<str>> {
        match self {
            Sighting::Read(pod) => Some(&pod.name),
            Sighting::Unreadable(part) => part.name.as_ref(),
        }
    }

    /// The pod's uid, where that could be read.
    pub fn uid(&self) -> Option<&PodUid> {
        match self {
            Sighting::Read(pod) => Some(&pod.uid),
            Sighting::Unreadable(part) => part.uid.as_ref(),
        }
    }

    /// The pod's version, where that could be read.
    pub fn version(&self) -> Option<&ResourceVersion> {
        match self {
            Sighting::Read(pod) => Some(&pod.version),
            Sighting::Unreadable(part) => part.version.as_ref(),
        }
    }
}

/// A text of the cluster's, cut at a character boundary to [`MAX_TEXT_BYTES`].
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
pub(crate) mod tests;
