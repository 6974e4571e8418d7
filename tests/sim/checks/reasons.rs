//! Checks the reported reason of an executor's end against the faults injected into its pod, as far as the driver has
//! seen them.

use boatswain::model::executor::LeaveReason;
use boatswain::model::{Ending, Entry, LossClass, PodState, ResourceVersion};
use boatswain_agent::NO_DRIVER;
use tokio::time::Instant;

use crate::node::PodFault;

/// A fault injected into a pod.
#[derive(Debug)]
pub struct InjectedPodFault {
    pub how: PodFault,
    pub at: Instant,
    /// The pod's version once the fault was in its status; `None` if no later version has to show it.
    pub version: Option<ResourceVersion>,
}

/// Whether it was given up because its node was not ready. That the node was down is checked when that is decided.
pub fn is_on_silent_node(entry: &Entry) -> bool {
    let why = entry.leaving.as_ref().map(|leaving| &leaving.why);
    matches!(why, Some(LeaveReason::NodeNotReady(..)))
}

/// Whether the reported reason matches an injected fault, or something that hid the fault from the driver. Faults of a
/// history that `was_replaced` since may be unknown.
// spec: L-13, L-20
pub fn reason_fits(
    faults: &[InjectedPodFault],
    ending: &Ending,
    was_replaced: impl Fn(Instant) -> bool,
) -> bool {
    let class = ending.reason.class;
    let own = faults.iter().any(|fault| match fault.how {
        PodFault::Exit(code) if code == i32::from(NO_DRIVER) => {
            // A container that was started again, which no version has to show, may have ended by itself since.
            let may_end_again = fault.version.is_none();
            class == LossClass::Abandoned || may_end_again && class == LossClass::Exited
        }
        PodFault::Exit(_) => class == LossClass::Exited,
        PodFault::OutOfMemory => class == LossClass::OomKilled,
        PodFault::Evicted => class == LossClass::Evicted,
        PodFault::Preempted => class == LossClass::Preempted,
        // A pod that terminates for too long is attributed to a lost node (spec L-3).
        PodFault::TaintManager => matches!(class, LossClass::Disrupted | LossClass::NodeLost),
        PodFault::NodeShutdown => class == LossClass::Disrupted,
        PodFault::NodeLost => class == LossClass::NodeLost,
        // A failed sidecar ends its executor (E-12).
        PodFault::Sidecar(code) => code != 0 && class == LossClass::Exited,
        PodFault::PhaseUnknown => false,
    });
    let entry = &ending.entry;
    let Some(pod) = entry.pod() else { return true };
    // What cannot be decoded shows no cause.
    let is_readable = pod.state() != PodState::Odd;
    let was_seen = |fault: &InjectedPodFault| {
        if matches!(fault.how, PodFault::Sidecar(_) | PodFault::PhaseUnknown) {
            return false;
        }
        let shows = fault
            .version
            .as_ref()
            .is_some_and(|version| pod.version >= *version);
        shows && is_readable && !was_replaced(fault.at)
    };
    let is_deleted = pod.deletion.is_some();
    let has_run = entry
        .bound()
        .is_some_and(|bound| bound.running_since.is_some());
    own || match class {
        // The driver's own decisions take precedence.
        LossClass::ScaledDown
        | LossClass::Killed
        | LossClass::Decommissioned
        | LossClass::NodeLeaving
        | LossClass::HeartbeatTimeout
        | LossClass::Disconnected
        | LossClass::Unreachable
        | LossClass::RegistrationTimeout
        | LossClass::PendingTimeout
        | LossClass::Mislabelled => entry.leaving.is_some(),
        LossClass::NodeLost => is_on_silent_node(entry),
        // A node may refuse any pod that it has not started.
        LossClass::StartFailed | LossClass::Rejected => entry.leaving.is_some() || !has_run,
        // What a driver has decided it reports when the record has it, whatever a restore shows meanwhile.
        LossClass::Stuck => is_deleted || was_replaced(Instant::now()),
        // Of a pod that was found so nothing else decides but what its node did (L-13).
        LossClass::Deleted if entry.found_terminating => is_deleted,
        // An exit counts only if it came before the deletion.
        LossClass::Deleted => faults
            .iter()
            .all(|fault| !was_seen(fault) || is_deleted && matches!(fault.how, PodFault::Exit(_))),
        LossClass::Missing => !faults.iter().any(was_seen),
        _ => false,
    }
}
