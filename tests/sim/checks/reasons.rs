//! Why executors are said to have ended, beside what befell them.

use boatswain::model::LossClass;

use crate::node::Mishap;

/// Whether the reported reason is what befell the executor, or what kept the driver from seeing it.
// spec: L-13, L-20
pub fn is_reported_as(befell: &[Mishap], class: LossClass) -> bool {
    let own = befell.iter().any(|mishap| match mishap {
        Mishap::Exit(_) => class == LossClass::Exited,
        Mishap::OutOfMemory => class == LossClass::OomKilled,
        Mishap::Evicted => class == LossClass::Evicted,
        Mishap::Preempted => class == LossClass::Preempted,
        // One that does not go for long is believed to be on a node that is lost (spec L-3).
        Mishap::TaintManager => matches!(class, LossClass::Disrupted | LossClass::NodeLost),
        Mishap::NodeShutdown => class == LossClass::Disrupted,
        Mishap::NodeLost => class == LossClass::NodeLost,
        // These do not end it: whatever ended it came by itself.
        Mishap::Sidecar(_) | Mishap::PhaseUnknown => true,
    });
    // The driver's own marks come first, and what was never seen cannot be told.
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
