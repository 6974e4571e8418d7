//! Outcomes of requests and look-ups (spec ).

use std::sync::Arc;

use crate::ids;
use crate::news::{Found, Outcome};
use crate::pod::{Phase, PodIdentity, Sighting, Unreadable};
use crate::{Entry, Epoch, ExecutorId, Now, Pod, ResourceVersion, State, Tick};

use super::super::table::{Authority, EntryNews};
use super::{Draft, Ledger, Note};

impl Ledger {
    pub(super) fn requested(
        &mut self,
        id: ExecutorId,
        outcome: Outcome,
        now: Now,
        draft: &mut Draft,
    ) {
        match outcome {
            Outcome::Sent { profile } => {
                if self.current.entry(id).is_some() || self.current.ended.contains(id) {
                    draft
                        .notes
                        .push(Note::Ignored("an id that was used before"));
                    return;
                }
                let (incarnation, epoch) = (self.identity.incarnation, self.current.epoch);
                let entry = Entry::requested(id, profile, incarnation, now.tick, epoch);
                self.put(None, entry, draft);
            }
            Outcome::SentAgain => self.step(id, &EntryNews::SentAgain, now, draft),
            Outcome::Refused(why) => self.step(id, &EntryNews::Refused(&why), now, draft),
            Outcome::Broke(why) => self.step(id, &EntryNews::Broke(&why), now, draft),
            Outcome::NameTaken => self.step(id, &EntryNews::NameTaken, now, draft),
            Outcome::Created(sighting) => self.created(id, &sighting, now, draft),
        }
    }

    fn created(&mut self, id: ExecutorId, sighting: &Sighting, now: Now, draft: &mut Draft) {
        let state = self.current.entry(id).map(|entry| &entry.state);
        let request = match state {
            Some(State::Sent(request)) => *request,
            Some(State::Unknown(unanswered)) => unanswered.request,
            Some(State::Gone(gone)) if gone.bound.is_none() => {
                return self.created_too_late(id, sighting, draft);
            }
            None => return self.created_too_late(id, sighting, draft),
            Some(State::Bound(_) | State::Gone(_)) => {
                let note = Note::Ignored("an answer to a request that is settled");
                draft.notes.push(note);
                return;
            }
        };
        if let Some(version) = sighting.version() {
            self.raise(version, request.epoch);
        }
        match sighting {
            Sighting::Read(pod) => self.step(id, &EntryNews::Created(pod), now, draft),
            Sighting::Unreadable(part) => {
                draft.notes.push(Note::Unreadable(part.clone()));
                match self.odd_pod(id, part) {
                    Some(pod) => self.step(id, &EntryNews::Created(&pod), now, draft),
                    None => self.step(id, &EntryNews::Broke(&part.error), now, draft),
                }
            }
        }
    }

    /// Whether a pod with the requested name is the requested one without its labels, which a
    /// webhook may have removed: the record that owns it is this application's (spec E-18, K-2).
    fn was_requested(&self, entry: &Entry, pod: &Pod) -> bool {
        let record = self.current.record.as_ref();
        entry.incarnation == self.identity.incarnation
            && matches!(
                pod.identity,
                PodIdentity::Foreign { .. } | PodIdentity::Unrecognised { .. }
            )
            && record.is_some_and(|record| pod.owner.as_ref() == Some(record))
    }

    /// The answer arrived after the executor was given up. The pod is an orphan pod whatever its
    /// labels are, because this driver created it (spec E-3).
    fn created_too_late(&mut self, id: ExecutorId, sighting: &Sighting, draft: &mut Draft) {
        let pod = match sighting {
            Sighting::Read(pod) => Some(Arc::clone(pod)),
            Sighting::Unreadable(part) => {
                draft.notes.push(Note::Unreadable(part.clone()));
                self.odd_pod(id, part)
            }
        };
        if let Some(pod) = pod.filter(|pod| !self.tombstones.contains_key(&pod.uid)) {
            // The request may be from before a restore: then its version says nothing beside those of
            // a later list (spec E-16).
            let epoch = Epoch(self.current.epoch.0.saturating_sub(1));
            self.note_orphan(&pod, Authority::Event, epoch, draft);
        }
    }

    /// The known part of an unreadable pod that this driver created. Its state is Odd (spec S-15).
    fn odd_pod(&self, id: ExecutorId, part: &Unreadable) -> Option<Arc<Pod>> {
        let pod = Pod {
            uid: part.uid.clone()?,
            name: ids::pod_name(&self.identity.prefix, id).into(),
            version: part.version.clone().unwrap_or(ResourceVersion::ZERO),
            identity: PodIdentity::Executor {
                id,
                profile: None,
                incarnation: Some(self.identity.incarnation),
            },
            phase: Phase::unreadable(),
            ..Pod::blank()
        };
        Some(Arc::new(pod))
    }

    pub(super) fn looked_up(
        &mut self,
        id: ExecutorId,
        sent: Tick,
        found: Found,
        now: Now,
        draft: &mut Draft,
    ) {
        let Some(entry) = self.current.entry(id).cloned() else {
            let note = Note::Ignored("a look-up for an executor that has ended");
            draft.notes.push(note);
            return;
        };
        let sighting = match found {
            Found::Nothing => return self.step(id, &EntryNews::FoundNothing(sent), now, draft),
            Found::NoAnswer => return self.step(id, &EntryNews::NoAnswer, now, draft),
            Found::Pod(sighting) => sighting,
        };
        if let Some(version) = sighting.version() {
            self.raise(version, self.current.epoch);
        }
        match &sighting {
            Sighting::Read(pod) => {
                let its_own = match entry.uid() {
                    Some(uid) => *uid == pod.uid,
                    None => {
                        self.awaits(pod).is_some_and(|entry| entry.id == id)
                            || self.was_requested(&entry, pod)
                    }
                };
                if its_own {
                    return self.step(id, &EntryNews::FoundThere(pod, sent), now, draft);
                }
                self.step(id, &EntryNews::FoundNothing(sent), now, draft);
                let may_be_orphan = self.current.adopted;
                self.sight(pod, Authority::LookUp(sent), may_be_orphan, now, draft);
            }
            // The pod has the name. Only its uid can show whether it is the executor's.
            Sighting::Unreadable(part) => {
                draft.notes.push(Note::Unreadable(part.clone()));
                let another = entry
                    .uid()
                    .zip(part.uid.as_ref())
                    .is_some_and(|(a, b)| a != b);
                let news = if another {
                    EntryNews::FoundNothing(sent)
                } else {
                    EntryNews::SeenUnreadable(part.version.as_ref(), Authority::LookUp(sent))
                };
                self.step(id, &news, now, draft);
            }
        }
    }
}
