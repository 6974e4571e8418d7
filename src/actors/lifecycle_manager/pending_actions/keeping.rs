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
        let (epoch, record) = (latest.epoch, latest.record.as_ref());
        let (listed_in, listed_with) = &mut self.kept_listed;
        let is_other = record.is_some_and(|uid| listed_with.as_ref().is_some_and(|old| old != uid));
        if record.is_some() {
            *listed_with = record.cloned();
        }
        let is_due = listed_in.replace(epoch) != Some(epoch) || is_other;
        if is_due && self.settings.keep.which != Which::None {
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
