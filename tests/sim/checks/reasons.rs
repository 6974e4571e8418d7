//! Checks the reported reason of an executor's end against the faults injected into it.

use boatswain::model::LossClass;

use crate::node::PodFault;

/// Whether the reported reason matches an injected fault, or something that hid the fault from the driver.
// spec: L-13, L-20
pub fn reason_fits(faults: &[PodFault], class: LossClass) -> bool {
    let own = faults.iter().any(|fault| match fault {
        PodFault::Exit(_) => class == LossClass::Exited,
        PodFault::OutOfMemory => class == LossClass::OomKilled,
        PodFault::Evicted => class == LossClass::Evicted,
        PodFault::Preempted => class == LossClass::Preempted,
        // A pod that terminates for too long is attributed to a lost node (spec L-3).
        PodFault::TaintManager => matches!(class, LossClass::Disrupted | LossClass::NodeLost),
        PodFault::NodeShutdown => class == LossClass::Disrupted,
        PodFault::NodeLost => class == LossClass::NodeLost,
        // These do not end an executor, so its end had another cause.
        PodFault::Sidecar(_) | PodFault::PhaseUnknown => true,
    });
    // The driver's own decisions take precedence, and it cannot report what it never saw.
    own || matches!(
        class,
        LossClass::ScaledDown
            | LossClass::Killed
            | LossClass::Decommissioned
            | LossClass::HeartbeatTimeout
            | LossClass::Disconnected
            | LossClass::Unreachable
            | LossClass::RegistrationTimeout
            | LossClass::PendingTimeout
            | LossClass::StartFailed
            | LossClass::Stuck
            | LossClass::Mislabelled
            | LossClass::Deleted
            | LossClass::Missing
            | LossClass::Lost
    )
}
