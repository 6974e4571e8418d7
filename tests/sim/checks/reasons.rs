//! Checks the reported reason of an executor's end against the faults injected into it.

use boatswain::model::LossClass;

use crate::node::Mishap;

/// Whether the reported reason matches an injected fault, or something that hid the fault from the driver.
// spec: L-13, L-20
pub fn is_reported_as(befell: &[Mishap], class: LossClass) -> bool {
    let own = befell.iter().any(|mishap| match mishap {
        Mishap::Exit(_) => class == LossClass::Exited,
        Mishap::OutOfMemory => class == LossClass::OomKilled,
        Mishap::Evicted => class == LossClass::Evicted,
        Mishap::Preempted => class == LossClass::Preempted,
        // A pod that terminates for too long is attributed to a lost node (spec L-3).
        Mishap::TaintManager => matches!(class, LossClass::Disrupted | LossClass::NodeLost),
        Mishap::NodeShutdown => class == LossClass::Disrupted,
        Mishap::NodeLost => class == LossClass::NodeLost,
        // These do not end an executor, so its end had another cause.
        Mishap::Sidecar(_) | Mishap::PhaseUnknown => true,
    });
    // The driver's own decisions take precedence, and it cannot report what it never saw.
    own || matches!(
        class,
        LossClass::ScaledDown
            | LossClass::Killed
            | LossClass::Decommissioned
            | LossClass::HeartbeatTimeout
            | LossClass::Disconnected
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
