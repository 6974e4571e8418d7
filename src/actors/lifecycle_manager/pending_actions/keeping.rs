//! Pending actions on kept pods (spec O-77).

use std::sync::Arc;
use std::time::Duration;

use super::PendingActions;
use crate::actors::lifecycle_manager::call_queue::{PodCall, Subject};
use crate::actors::lifecycle_manager::kept::{KeptPod, Policy, Which};
use crate::model::{ExecutorId, Now, Tick};

/// How often kept pods are listed (spec O-101).
const LISTED_EVERY: Duration = Duration::from_secs(300);

impl PendingActions {
    /// Asks for the pods that are kept. Neither source reads them, so this is how a driver learns of those of earlier
    /// drivers, and of deleted pods that a restored server shows again.
    pub(super) fn list_kept(&mut self, now: Tick) {
        if self.settings.keep.which == Which::None {
            return;
        }
        let is_recent = |at: Tick| now.since(at) < LISTED_EVERY;
        if self.kept_listed.is_some_and(is_recent) {
            return;
        }
        self.kept_listed = Some(now);
        self.queue
            .set(Subject::KeptPods, Some((PodCall::ListKept, None)), now);
    }

    /// Keeps pods by this policy from now on (spec C-6).
    pub fn keep_by(&mut self, policy: Policy) {
        self.settings.keep = policy;
        self.kept.keep_by(policy);
    }

    /// Takes over the pods that earlier drivers kept (spec O-101).
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
            self.delete_one(pod, now);
        }
    }

    /// Deletes kept pods whose executors run: their end was reported, and neither source reads them (spec O-101).
    pub fn delete_living(&mut self, pods: Vec<KeptPod>, now: Tick) {
        for pod in pods {
            self.delete_one(pod, now);
        }
    }

    fn delete_one(&mut self, pod: KeptPod, now: Tick) {
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
