//! Which executor a pod belongs to (spec E-1 to E-3), and the effect of a sighting.

use std::sync::Arc;

use crate::planted::{self, Planted};
use crate::pod::{PodIdentity, Sighting, Unreadable};
use crate::snapshot::OrphanPod;
use crate::{Entry, Epoch, Now, Pod, PodUid, State};

use super::super::table::{Authority, EntryNews};
use super::{Draft, Ledger, MAX_REMEMBERED_UNRECOGNISED, Note};

impl Ledger {
    pub(super) fn holder(&self, name: &str, uid: &PodUid) -> Option<Arc<Entry>> {
        let id = self.id_of(name, Some(uid))?;
        let entry = self.current.entry(id)?;
        (entry.uid() == Some(uid)).then(|| Arc::clone(entry))
    }

    /// The entry without a pod that may be bound to this one (spec E-15). A webhook may remove the incarnation's label.
    pub(super) fn awaits(&self, pod: &Pod) -> Option<Arc<Entry>> {
        let PodIdentity::Executor {
            id, incarnation, ..
        } = &pod.identity
        else {
            return None;
        };
        let entry = self.current.entry(*id)?;
        let unbound = matches!(entry.state, State::Sent(_) | State::Unknown(_));
        let asked_for_it = entry.incarnation == self.identity.incarnation
            && incarnation.is_none_or(|of| of == self.identity.incarnation)
            // It is being deleted: it was there before the request (spec E-15).
            && !self.current.orphans.contains_key(&pod.uid)
            && !self.is_of_other_record(pod);
        (unbound && asked_for_it).then(|| Arc::clone(entry))
    }

    pub(super) fn seen(&mut self, pod: &Sighting, epoch: Epoch, now: Now, draft: &mut Draft) {
        if epoch != self.current.epoch {
            let note = Note::Ignored("a pod seen in an earlier epoch");
            draft.notes.push(note);
            return;
        }
        if let Some(version) = pod.version() {
            self.raise(version, epoch);
        }
        self.drift.shown(pod.uid(), pod.name(), pod.version());
        match pod {
            Sighting::Read(pod) => {
                let may_be_orphan = self.may_be_orphan(pod);
                self.sight(pod, Authority::Event, may_be_orphan, now, draft);
            }
            Sighting::Unreadable(part) => self.unreadable(part, Authority::Event, now, draft),
        }
    }

    /// Whether a pod in an event may be an orphan pod. Before adoption that is unknown (spec O-31).
    /// A pod older than the last full list is in that list, or is deleted (spec E-3).
    fn may_be_orphan(&self, pod: &Pod) -> bool {
        let listed = self.current.full_list.as_ref();
        self.current.adopted && listed.is_none_or(|list| list.version < pod.version)
    }

    pub(super) fn sight(
        &mut self,
        pod: &Arc<Pod>,
        authority: Authority<'_>,
        may_be_orphan: bool,
        now: Now,
        draft: &mut Draft,
    ) {
        if let Some(entry) = self.holder(&pod.name, &pod.uid) {
            return self.advance(entry, &EntryNews::Seen(pod, authority), now, draft);
        }
        if self.tombstones.contains_key(&pod.uid) {
            return;
        }
        if let Some(entry) = self.awaits(pod) {
            return self.advance(entry, &EntryNews::Seen(pod, authority), now, draft);
        }
        if self.current.of_sets && self.sight_of_set(pod, may_be_orphan, now, draft) {
            return;
        }
        match &pod.identity {
            PodIdentity::Foreign { .. } => self.drop_orphan(&pod.uid, draft),
            // Only sets make such pods, and those were handled above.
            PodIdentity::UnassignedPod { .. } => {}
            PodIdentity::Unrecognised { why } => self.note_unrecognised(pod, why, draft),
            PodIdentity::Executor {
                incarnation: Some(other),
                ..
            } if *other > self.identity.incarnation && !self.is_of_other_record(pod) => {
                self.found_later_driver(pod, *other, draft);
            }
            PodIdentity::Executor { .. }
                if may_be_orphan && self.must_read_record_before(pod, draft) => {}
            PodIdentity::Executor { .. }
                if may_be_orphan && planted::is(Planted::EndedResurrected) =>
            {
                self.adopt(pod, now, draft);
            }
            PodIdentity::Executor { .. } if may_be_orphan => {
                self.note_orphan(pod, authority, self.current.epoch, draft)
            }
            PodIdentity::Executor { .. } => {
                let note = Note::Ignored("a pod of no executor, in news too old to judge it");
                draft.notes.push(note);
            }
        }
    }

    pub(super) fn note_unrecognised(&mut self, pod: &Arc<Pod>, why: &Arc<str>, draft: &mut Draft) {
        self.drop_orphan(&pod.uid, draft);
        let room = self.unrecognised.len() < MAX_REMEMBERED_UNRECOGNISED;
        if room && self.unrecognised.insert(pod.uid.clone()) {
            draft
                .notes
                .push(Note::Unrecognised(Arc::clone(pod), Arc::clone(why)));
        }
    }

    /// Removes an orphan pod for good: no late answer adds it again (spec S-14).
    pub(super) fn remove_orphan(&mut self, uid: &PodUid, draft: &mut Draft) {
        if self.current.orphans.contains_key(uid) {
            self.tombstones.insert(uid.clone(), self.count);
        }
        self.drop_orphan(uid, draft);
    }

    pub(super) fn drop_orphan(&mut self, uid: &PodUid, draft: &mut Draft) {
        if self.current.orphans.remove(uid).is_some() {
            draft.orphans.push(uid.clone());
        }
    }

    pub(super) fn note_orphan(
        &mut self,
        pod: &Arc<Pod>,
        authority: Authority<'_>,
        epoch: Epoch,
        draft: &mut Draft,
    ) {
        let known = self.current.orphans.get(&pod.uid);
        let held = known.filter(|orphan| orphan.epoch == self.current.epoch);
        // As for executors, a full list that is as new as the held version and shows an older one
        // proves an unnoticed restore (spec S-26).
        let outdated = |orphan: &OrphanPod| match authority {
            Authority::FullList(list) if orphan.version <= *list => orphan.version == pod.version,
            _ => orphan.version >= pod.version,
        };
        if held.is_some_and(outdated) {
            return;
        }
        let orphan = OrphanPod {
            name: Arc::clone(&pod.name),
            version: pod.version.clone(),
            terminating: pod.deletion.is_some(),
            claims: pod.volume_claims.clone(),
            epoch,
            seen_at: known.map_or(self.count, |orphan| orphan.seen_at),
        };
        if known.is_none() {
            draft.notes.push(Note::OrphanPod(Arc::clone(pod)));
        }
        self.current.orphans.insert(pod.uid.clone(), orphan);
        draft.orphans.push(pod.uid.clone());
    }

    pub(super) fn unreadable(
        &mut self,
        part: &Unreadable,
        authority: Authority<'_>,
        now: Now,
        draft: &mut Draft,
    ) {
        let unread = part.uid.as_ref().is_some_and(|uid| self.is_unread(uid));
        if unread && self.read_at_last(part, now, draft) {
            return;
        }
        draft.notes.push(Note::Unreadable(part.clone()));
        let Some(name) = &part.name else { return };
        let claimed = part.identity.as_ref().and_then(PodIdentity::executor);
        let Some(id) = self.id_of(name, part.uid.as_ref()).or(claimed) else {
            return;
        };
        let bound = self.current.entry(id).and_then(|entry| entry.uid());
        let its_own = bound.is_some_and(|uid| part.uid.as_ref().is_none_or(|seen| seen == uid));
        if its_own {
            let news = EntryNews::SeenUnreadable(part.version.as_ref(), authority);
            self.step(id, &news, now, draft);
        }
    }

    pub(super) fn deleted(&mut self, pod: &Sighting, epoch: Epoch, now: Now, draft: &mut Draft) {
        if epoch != self.current.epoch {
            draft
                .notes
                .push(Note::Ignored("a deletion seen in an earlier epoch"));
            return;
        }
        self.drift.removed(pod.uid(), pod.name());
        if let Some(version) = pod.version() {
            self.raise(version, epoch);
            self.watch_came(version, epoch, draft);
        }
        let pod = match pod {
            Sighting::Read(pod) => pod,
            // The event does not show whether the pod was deleted or left the selector. A look-up
            // does (spec S-15).
            Sighting::Unreadable(part) => {
                draft.notes.push(Note::Unreadable(part.clone()));
                let Some(uid) = &part.uid else { return };
                let holder = (part.name.as_ref()).and_then(|name| self.holder(name, uid));
                if let Some(entry) = holder {
                    let news = EntryNews::Lacked(part.version.as_ref());
                    self.advance(entry, &news, now, draft);
                }
                return self.drop_orphan(uid, draft);
            }
        };
        let entry = self.holder(&pod.name, &pod.uid);
        if let Some(entry) = entry.or_else(|| self.awaits(pod)) {
            return self.advance(entry, &EntryNews::Deleted(pod), now, draft);
        }
        if pod.deletion.is_some() {
            self.remove_orphan(&pod.uid, draft);
        }
        self.drop_orphan(&pod.uid, draft);
        self.drop_unassigned(&pod.uid, draft);
        self.unrecognised.remove(&pod.uid);
    }
}
