//! Decides the next call for a leaving executor that has a pod (spec L-10 to L-12, B-28).

use std::sync::Arc;
use std::time::Duration;

use crate::model::executor::{Bound, LeaveMethod, LeaveReason, Leaving};
use crate::model::pod::DrainedFor;
use crate::model::{Entry, PodState, Tick};

use super::call_queue::PodCall;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub pod_call: PodCall,
    /// Not before this time; `None`: at once.
    pub not_before: Option<Tick>,
    /// When to decide again even if the executor does not change.
    pub again_at: Option<Tick>,
}

impl Step {
    fn now(pod_call: PodCall) -> Self {
        Self {
            pod_call,
            not_before: None,
            again_at: None,
        }
    }

    /// A set replaces a pod that is deleted before the set shrinks. So for a while the deletion of
    /// a surplus pod is left to the set (spec A-80).
    pub fn left_to_a_set(mut self, entry: &Entry, patience: Duration, now: Tick) -> Self {
        let too_many = (entry.leaving.as_ref()).filter(|mark| mark.why == LeaveReason::ScaledDown);
        if let (Some(mark), PodCall::Delete { .. }) = (too_many, &self.pod_call) {
            let drained = match mark.how {
                LeaveMethod::Drain { within } if entry.session.registered => within,
                LeaveMethod::Drain { .. } | LeaveMethod::Delete | LeaveMethod::Kill { .. } => {
                    Duration::ZERO
                }
            };
            let at = mark.since + drained + patience;
            if at > now {
                self.not_before = Some(self.not_before.map_or(at, |known| known.max(at)));
            }
        }
        self
    }
}

/// The next call for an executor that has not ended. An adopted executor without a session has a
/// grace to register again; without registration there is none (spec A-44).
pub fn next(
    entry: &Entry,
    bound: &Bound,
    adoption_grace: Option<Duration>,
    now: Tick,
) -> Option<Step> {
    let leaving = entry.leaving.as_ref()?;
    let delete = |grace| PodCall::Delete {
        name: Arc::clone(&bound.pod.name),
        uid: bound.pod.uid.clone(),
        grace,
    };
    let terminating = bound.pod.state() == PodState::Terminating;
    match leaving.how {
        LeaveMethod::Kill { grace } => {
            let at = leaving.since + grace;
            let at_once = bound.pod.deletion.map(|deletion| deletion.grace);
            if at_once == Some(Some(Duration::ZERO)) {
                return None;
            }
            // It is told to exit over its session, or by the kubelet after a delete.
            let told = terminating || entry.session.registered;
            Some(if told || grace.is_zero() {
                Step {
                    not_before: Some(at),
                    ..Step::now(delete(Some(Duration::ZERO)))
                }
            } else {
                Step::now(delete(Some(whole_seconds(grace))))
            })
        }
        LeaveMethod::Delete => (!terminating).then(|| Step::now(delete(None))),
        LeaveMethod::Drain { .. } if terminating => None,
        LeaveMethod::Drain { within } => {
            let until = leaving.since + within;
            let marked = bound.pod.draining.is_some();
            let grace = adoption_grace.filter(|_| entry.adopted);
            let deadline = match grace.map(|grace| entry.since + grace) {
                _ if entry.session.registered => until,
                Some(back_by) => until.min(back_by),
                None => now,
            };
            Some(if now >= until || (marked && now >= deadline) {
                Step::now(delete(None))
            } else if marked {
                Step {
                    not_before: Some(deadline),
                    ..Step::now(delete(None))
                }
            } else {
                Step {
                    again_at: Some(until),
                    ..Step::now(PodCall::MarkDraining {
                        name: Arc::clone(&bound.pod.name),
                        uid: bound.pod.uid.clone(),
                        why: drained_for(leaving),
                        until,
                    })
                }
            })
        }
    }
}

/// The reason that is written on the pod.
fn drained_for(leaving: &Leaving) -> DrainedFor {
    match &leaving.why {
        LeaveReason::Decommissioned(by) | LeaveReason::AskedToGo(by) | LeaveReason::Killed(by) => {
            DrainedFor::Asked(Arc::clone(by))
        }
        LeaveReason::ApplicationEnded => DrainedFor::ApplicationEnded,
        LeaveReason::NodeLeaving(which) => DrainedFor::NodeLeaving(Arc::clone(which)),
        LeaveReason::ScaledDown
        | LeaveReason::GangMissed(_)
        | LeaveReason::Mislabelled(_)
        | LeaveReason::HeartbeatTimeout(_)
        | LeaveReason::Disconnected
        | LeaveReason::Unreachable(_)
        | LeaveReason::NodeNotReady(..)
        | LeaveReason::RegistrationTimeout(_)
        | LeaveReason::PendingTimeout(..)
        | LeaveReason::NeverStarts(..)
        | LeaveReason::NoClaim(_)
        | LeaveReason::QuotaLost(_) => DrainedFor::Surplus,
    }
}

/// Rounds up to seconds, because Kubernetes takes 0 for "at once".
fn whole_seconds(grace: Duration) -> Duration {
    Duration::from_secs(grace.as_secs() + u64::from(grace.subsec_nanos() > 0))
}
