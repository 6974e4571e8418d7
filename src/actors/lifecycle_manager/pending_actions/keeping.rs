//! Pending actions on kept pods (spec O-77).

use std::sync::Arc;

use super::PendingActions;
use crate::actors::lifecycle_manager::call_queue::{PodCall, Subject};
use crate::actors::lifecycle_manager::kept::{KeptPod, Policy, Which};
use crate::model::{ExecutorId, Now, Snapshot, Tick};

impl PendingActions {
    /// Asks for the pods that earlier drivers kept. A server that is restored from a backup may have pods again that
    /// were deleted: then an epoch begins, or the record is another one.
    pub(super) fn list_kept(&mut self, latest: &Snapshot, now: Tick) {
        if self.settings.keep.which == Which::None {
            return;
        }
        let (listed_in, listed_with) = &mut self.kept_listed;
        let mut is_due = listed_in.replace(latest.epoch) != Some(latest.epoch);
        // Without a record it is unknown whether it is another one.
        if let Some(record) = &latest.record {
            let before = listed_with.replace(record.clone());
            is_due |= before.is_some_and(|before| before != *record);
        }
        if is_due {
            self.queue
                .set(Subject::KeptPods, Some((PodCall::ListKept, None)), now);
        }
    }

    /// Keeps pods by this policy from now on (spec C-6).
    pub fn keep_by(&mut self, policy: Policy) {
        self.settings.keep = policy;
        self.kept.keep_by(policy);
    }

    /// Takes over the pods that earlier drivers kept (spec O-77).
    pub fn inherit_kept(&mut self, pods: Vec<KeptPod>, now: Now) {
        for pod in pods {
            self.kept.add(pod, now);
        }
    }

    /// Counts a pod as kept from when it is to be labelled, so that no lost answer hides it.
    pub(super) fn keep(&mut self, id: ExecutorId, now: Now) {
        if let Some(PodCall::MarkInactive { name, uid }) =
            self.queue.pending(&Subject::Executor(id))
        {
            let pod = KeptPod {
                uid: uid.clone(),
                name: Arc::clone(name),
                since: now.wall,
                executor: Some(id),
            };
            self.kept.add(pod, now);
        }
    }

    /// Deletes what is kept no longer, but not before its label is settled: one call for each pod.
    pub(super) fn delete_kept(&mut self, now: Tick) {
        let queue = &self.queue;
        let labelled = |id| !queue.has(&Subject::Executor(id));
        for pod in self.kept.take_surplus(labelled, now) {
            let (name, uid) = (pod.name, pod.uid);
            let subject = Subject::KeptPod(uid.clone());
            let delete = PodCall::Delete {
                name,
                uid,
                grace: None,
            };
            self.queue.set(subject, Some((delete, None)), now);
        }
    }
}
