//! What is kept of a pod's earlier state when it ends (spec L-39).

use std::sync::Arc;

use super::{ContainerState, Phase, Pod, is_not_its_turn};

impl Pod {
    /// What an earlier state of a pod that ends showed of the cause, and this one does not (spec L-39). A kubelet that ends
    /// a pod forgets at once what its containers waited for, and may write a whole status over what others wrote.
    pub fn keeping_evidence(self: &Arc<Self>, earlier: &Self) -> Arc<Self> {
        if self.deletion.is_none() && !matches!(self.phase, Phase::Failed | Phase::Succeeded) {
            return Arc::clone(self);
        }
        let lacks_disruption = self.disruption.is_none() && earlier.disruption.is_some();
        let lacks_reason = self.reason.is_none() && earlier.reason.is_some();
        let mut pod = Arc::clone(self);
        if lacks_disruption {
            Arc::make_mut(&mut pod).disruption = earlier.disruption.clone();
        }
        if lacks_reason {
            let kept = Arc::make_mut(&mut pod);
            (kept.reason, kept.message) = (earlier.reason.clone(), earlier.message.clone());
        }
        if self.never_said_why(earlier) {
            let kept = Arc::make_mut(&mut pod);
            (kept.executor, kept.init) = (earlier.executor.clone(), earlier.init.clone());
        }
        pod
    }

    /// Whether its executor never ran, and only the earlier state says what it waited for.
    fn never_said_why(&self, earlier: &Self) -> bool {
        let said_why = match waits_for(&earlier.executor) {
            Some(None) => earlier.init.is_some(),
            why => why.is_some(),
        };
        let ends = self.deletion.is_some() || matches!(self.phase, Phase::Failed);
        ends && said_why && waits_for(&self.executor) == Some(None)
    }
}

/// The reason for which a container waits; `Some(None)`: it is merely not its turn yet.
fn waits_for(container: &ContainerState) -> Option<Option<&str>> {
    let ContainerState::Waiting { reason, .. } = container else {
        return None;
    };
    Some(reason.as_deref().filter(|reason| !is_not_its_turn(reason)))
}
