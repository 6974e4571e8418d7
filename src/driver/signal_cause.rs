//! What a signal means with `shutdown.on_signal = "auto"`: it depends on why the driver's pod is being stopped, and that
//! is read from the pod and its controllers after the signal (spec O-66).

pub(super) mod reading;
#[cfg(test)]
mod tests;

use crate::actors::driver_backend::messages::Stop;
use crate::kubernetes::calls::{Controlled, ControllerKind};
use crate::planted::{self, Planted};

/// The driver's pod and what controls it, as read after the signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    pub pod: OwnPod,
    pub owner: Owner,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnPod {
    /// It does not exist, or another pod has its name.
    Gone,
    Exists {
        /// Whether it is being deleted. A kubelet that ends a pod by itself deletes nothing.
        is_deleted: bool,
        /// Whether it has the condition `DisruptionTarget`, which an eviction writes before it deletes the pod.
        is_disrupted: bool,
        /// Whether the kubelet restarts its containers after a failure.
        restarts: bool,
    },
}

/// The top controller of the driver's pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// The pod has no controller.
    None,
    /// It does not exist, or another object has its name.
    Gone,
    /// It is of a kind whose fields are not known.
    Unknown,
    /// The pod was gone before the start had read its controllers.
    NeverRead,
    Exists(Workload),
}

/// A controller that keeps pods running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    pub is_job: bool,
    pub is_deleted: bool,
    /// Whether it is a Job that has come to its end, or is about to.
    pub is_finished: bool,
    /// Whether it wants pods: it is neither suspended nor scaled to 0.
    pub wants_pods: bool,
    /// Whether it is a Job that starts no pod after another failure.
    pub is_last_try: bool,
}

/// The conditions of a Job that starts no pod any more. The first two precede the others while its pods end.
const FINISHED: [&str; 4] = ["FailureTarget", "SuccessCriteriaMet", "Complete", "Failed"];

/// The server's default of a Job's `backoffLimit`.
const BACKOFF_LIMIT: i64 = 6;

impl OwnPod {
    pub fn of(pod: &Controlled) -> Self {
        Self::Exists {
            is_deleted: pod.is_deleted,
            is_disrupted: pod.has_condition("DisruptionTarget"),
            restarts: pod.spec.restart_policy.as_deref() != Some("Never"),
        }
    }

    fn is_deleted(self) -> bool {
        !matches!(
            self,
            Self::Exists {
                is_deleted: false,
                ..
            }
        )
    }
}

impl Workload {
    pub fn of(kind: ControllerKind, read: &Controlled) -> Self {
        let spec = &read.spec;
        let is_job = kind == ControllerKind::Job;
        let wanted = if is_job {
            spec.parallelism
        } else {
            spec.replicas
        };
        let limit = spec.backoff_limit.unwrap_or(BACKOFF_LIMIT);
        Self {
            is_job,
            is_deleted: read.is_deleted,
            is_finished: is_job && FINISHED.iter().any(|kind| read.has_condition(kind)),
            wants_pods: wanted.unwrap_or(1) > 0 && !(is_job && spec.suspend == Some(true)),
            // With a policy, the end of a driver that hands over need not count.
            is_last_try: is_job && spec.pod_failure_policy.is_none() && read.failed >= limit,
        }
    }
}

/// What the signal means, and why. `has_standby`: other drivers may wait for the lease.
///
/// Where the evidence leaves it open, the driver hands over: executors that nothing takes over go when the record's
/// owner does, and an application that was ended by mistake does not come back.
// spec: O-66
pub fn meaning(evidence: &Evidence, has_standby: bool) -> (Stop, &'static str) {
    let (meaning, why) = match (&evidence.owner, evidence.pod) {
        (Owner::Gone, _) => (Stop::DONE, "its controller is gone"),
        (Owner::Exists(owner), _) if owner.is_deleted => {
            (Stop::DONE, "its controller is being deleted")
        }
        (Owner::Exists(owner), _) if owner.is_finished => (Stop::DONE, "its Job is over"),
        (Owner::Exists(owner), _) if !owner.wants_pods => {
            (Stop::LetGo, "its controller is suspended or scaled to 0")
        }
        (Owner::Exists(owner), pod) if owner.is_last_try && !restarts_in_place(pod) => (
            Stop::LetGo,
            "its Job has no try left: raise backoffLimit, or add a podFailurePolicy that ignores exit code 75",
        ),
        (Owner::Exists(_), _) => (Stop::HandOver, "its controller starts a successor"),
        (Owner::Unknown, _) => (
            Stop::HandOver,
            "its controller is of a kind that boatswain does not know: set shutdown.on_signal to \"end\" if it starts no \
             successor",
        ),
        (Owner::NeverRead, _) => (
            Stop::HandOver,
            "its pod was gone before its controllers were read",
        ),
        (Owner::None, _) if has_standby => (Stop::HandOver, "another driver may stand by"),
        (Owner::None, pod) if restarts_in_place(pod) => {
            (Stop::HandOver, "the kubelet starts a successor in its pod")
        }
        (Owner::None, _) => (
            Stop::DONE,
            "its pod has no controller that would start a successor",
        ),
    };
    match meaning {
        Stop::HandOver if planted::is(Planted::DrainEnds) => (Stop::DONE, why),
        Stop::LetGo if planted::is(Planted::SuspensionEnds) => (Stop::DONE, why),
        Stop::End { .. } if planted::is(Planted::DeletionHandsOver) => (Stop::HandOver, why),
        meaning => (meaning, why),
    }
}

/// What the signal means for a driver that may not read its pod any more. Rights that are removed by mistake end
/// nothing. But where the record was deleted too, as `helm uninstall` does it, its executors go with it: it owned them.
// spec: O-95
pub fn without_rights(record_is_gone: bool) -> (Stop, &'static str) {
    match record_is_gone {
        true => (
            Stop::Collected,
            "its application record is gone, and its rights with it",
        ),
        false => (Stop::HandOver, "a right is missing"),
    }
}

/// Whether the kubelet starts the driver's container again after exit code 75.
fn restarts_in_place(pod: OwnPod) -> bool {
    matches!(
        pod,
        OwnPod::Exists {
            is_deleted: false,
            restarts: true,
            ..
        }
    )
}

/// Whether a Job's controller may be about to write why it deleted the pod: it deletes first.
pub fn may_change(evidence: &Evidence) -> bool {
    let disrupted = matches!(
        evidence.pod,
        OwnPod::Exists {
            is_disrupted: true,
            ..
        }
    );
    matches!(&evidence.owner, Owner::Exists(owner) if owner.is_job)
        && evidence.pod.is_deleted()
        && !disrupted
}
