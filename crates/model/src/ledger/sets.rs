//! Pods made by sets: the label, not the name, identifies the executor (spec A-80). A sighting with
//! the label binds the pod, whoever wrote the label, unless another pod has that id. A pod without
//! the label is an unassigned pod, which counts for nothing.

use std::sync::Arc;

use crate::ids::{self, ExecutorId};
use crate::news::ListTicket;
use crate::pod::{PodIdentity, Unreadable};
use crate::snapshot::UnassignedPod;
use crate::{Entry, Now, Pod, PodUid, ResourceVersion, Snapshot};

use super::super::table::{self, EntryNews};
use super::{Draft, Ledger};

/// The executor that a pod belongs to: by name, or by uid if sets make the pods.
pub(super) fn id_of(
    prefix: &str,
    current: &Snapshot,
    name: &str,
    uid: Option<&PodUid>,
) -> Option<ExecutorId> {
    if !current.of_sets {
        return ids::id_in_pod_name(prefix, name);
    }
    match uid {
        Some(uid) => current.by_uid.get(uid).copied(),
        // Rare: the uid is unreadable.
        None => {
            let mut entries = current.entries.values();
            let named = |entry: &&Arc<Entry>| entry.pod().is_some_and(|pod| *pod.name == *name);
            entries.find(named).map(|entry| entry.id)
        }
    }
}

impl Ledger {
    pub fn of_sets(mut self) -> Self {
        self.current.of_sets = true;
        self
    }

    pub(super) fn id_of(&self, name: &str, uid: Option<&PodUid>) -> Option<ExecutorId> {
        id_of(&self.identity.prefix, &self.current, name, uid)
    }

    /// Handles a pod that is bound to no entry. Returns `false` if the caller must handle it.
    pub(super) fn sight_of_set(
        &mut self,
        pod: &Arc<Pod>,
        may_be_judged: bool,
        now: Now,
        draft: &mut Draft,
    ) -> bool {
        // If it had been readable, the first list would have adopted it.
        if self.is_unread(&pod.uid) {
            if self.adopt(pod, now, draft) {
                return true;
            }
            self.drop_unassigned(&pod.uid, draft);
        }
        match &pod.identity {
            PodIdentity::UnassignedPod { profile } => {
                self.note_unassigned(pod, profile.clone(), draft);
                true
            }
            PodIdentity::Executor {
                id, incarnation, ..
            } => {
                let younger = incarnation.is_some_and(|other| other > self.identity.incarnation);
                let taken = self.current.entry(*id).is_some() || self.current.ended.contains(*id);
                if younger || taken || !may_be_judged {
                    return false;
                }
                self.bind_named(pod, now, draft);
                true
            }
            PodIdentity::Unrecognised { .. } | PodIdentity::Foreign { .. } => {
                self.drop_unassigned(&pod.uid, draft);
                false
            }
        }
    }

    fn note_unassigned(
        &mut self,
        pod: &Arc<Pod>,
        profile: Option<crate::ProfileName>,
        draft: &mut Draft,
    ) {
        let known = self.current.unassigned.get(&pod.uid);
        let outdated = known
            .is_some_and(|known| known.epoch == self.current.epoch && known.version >= pod.version);
        if outdated {
            return;
        }
        let unassigned = UnassignedPod {
            name: Arc::clone(&pod.name),
            profile,
            version: pod.version.clone(),
            terminating: pod.deletion.is_some(),
            unread: false,
            restarts: known.map_or(pod.restart_count(), |known| known.restarts),
            epoch: self.current.epoch,
            seen_at: known.map_or(self.count, |known| known.seen_at),
        };
        self.current.unassigned.insert(pod.uid.clone(), unassigned);
        draft.other = true;
    }

    /// Records a pod of the first list whose executor id is unreadable.
    pub(super) fn note_unread(&mut self, part: &Unreadable, draft: &mut Draft) {
        let (Some(name), Some(uid)) = (&part.name, &part.uid) else {
            return;
        };
        let unassigned = UnassignedPod {
            name: Arc::clone(name),
            profile: None,
            version: part.version.clone().unwrap_or(ResourceVersion::ZERO),
            terminating: false,
            unread: true,
            restarts: 0,
            epoch: self.current.epoch,
            seen_at: self.count,
        };
        self.current.unassigned.insert(uid.clone(), unassigned);
        draft.other = true;
    }

    pub(super) fn is_unread(&self, uid: &PodUid) -> bool {
        let known = self.current.unassigned.get(uid);
        known.is_some_and(|pod| pod.unread)
    }

    /// Whether some pod may be one of the executors that the first list did not show.
    pub(super) fn has_unread(&self) -> bool {
        let unread = |pod: &UnassignedPod| pod.unread;
        self.current.unassigned.values().any(unread)
    }

    /// Binds a pod that has an executor label by now.
    fn bind_named(&mut self, pod: &Arc<Pod>, now: Now, draft: &mut Draft) {
        let PodIdentity::Executor {
            id,
            profile,
            incarnation,
        } = &pod.identity
        else {
            return;
        };
        let default = &self.identity.default_profile;
        let profile = profile.clone().unwrap_or_else(|| default.clone());
        let epoch = self.current.epoch;
        let incarnation = incarnation.unwrap_or_default();
        let entry = Entry::requested(*id, profile, incarnation, now.tick, epoch);
        let at = self.at(now, epoch);
        if let Some(bound) = table::next(&entry, &EntryNews::Created(pod), &at) {
            self.put(None, bound, draft);
        }
    }

    /// Ends reserved ids that no pod got (spec I-2), so that ended ids stay few intervals (spec
    /// I-8).
    pub(super) fn close_unused(&mut self, ids: &[ExecutorId], draft: &mut Draft) {
        for id in ids {
            if self.current.entry(*id).is_none() && !self.current.ended.contains(*id) {
                self.current.ended.insert(*id);
                draft.executors.push(*id);
            }
        }
    }

    pub(super) fn drop_unassigned(&mut self, uid: &PodUid, draft: &mut Draft) {
        draft.other |= self.current.unassigned.remove(uid).is_some();
    }

    /// Removes older unassigned pods that a full list lacks (spec S-12).
    pub(super) fn judge_unassigned(
        &mut self,
        is_present: impl Fn(&PodUid) -> bool,
        ticket: &ListTicket,
        version: &ResourceVersion,
        draft: &mut Draft,
    ) {
        let epoch = self.current.epoch;
        let gone = |uid: &PodUid, pod: &UnassignedPod| {
            let not_newer = pod.epoch < epoch || pod.version <= *version;
            !is_present(uid) && pod.seen_at < ticket.begun_at && not_newer
        };
        let gone: Vec<PodUid> = (self.current.unassigned.iter())
            .filter(|(uid, pod)| gone(uid, pod))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in gone {
            self.drop_unassigned(&uid, draft);
        }
    }
}
