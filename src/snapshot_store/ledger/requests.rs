//! What became of requests and look-ups (spec ).

use std::sync::Arc;

use crate::model::ids;
use crate::model::news::{Found, Outcome};
use crate::model::pod::{Claim, Phase, Sighting, Unreadable};
use crate::model::{Entry, ExecutorId, Now, Pod, ResourceVersion, State, Tick};

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

    pub(super) fn created(
        &mut self,
        id: ExecutorId,
        sighting: &Sighting,
        now: Now,
        draft: &mut Draft,
    ) {
        let Some(entry) = self.current.entry(id).cloned() else {
            return self.created_too_late(sighting, draft);
        };
        let request = match &entry.state {
            State::Sent(request) => *request,
            State::Unknown(doubt) => doubt.request,
            State::Gone(gone) if gone.bound.is_none() => {
                return self.created_too_late(sighting, draft);
            }
            State::Bound(_) | State::Gone(_) => {
                draft
                    .notes
                    .push(Note::Ignored("an answer to a request that is settled"));
                return;
            }
        };
        if let Some(version) = sighting.version() {
            self.raise(&version.clone(), request.epoch);
        }
        match sighting {
            Sighting::Read(pod) => self.step(id, &EntryNews::Created(pod), now, draft),
            Sighting::Unreadable(part) => {
                draft.notes.push(Note::Unreadable(part.clone()));
                match self.odd_pod(&entry, part) {
                    Some(pod) => self.step(id, &EntryNews::Created(&pod), now, draft),
                    None => self.step(id, &EntryNews::Broke(&part.error), now, draft),
                }
            }
        }
    }

    /// The executor was given up before the answer came: the answer's pod is a ghost, whatever labels it was left
    /// with, for we made it (spec E-3).
    pub(super) fn created_too_late(&mut self, sighting: &Sighting, draft: &mut Draft) {
        if let Sighting::Read(pod) = sighting
            && !self.tombstones.contains_key(&pod.uid)
        {
            self.haunt(pod, draft);
        }
    }

    /// What is known of a pod that we made and that cannot be read: it is there, and Odd (spec S-15).
    pub(super) fn odd_pod(&self, entry: &Entry, part: &Unreadable) -> Option<Arc<Pod>> {
        let pod = Pod {
            uid: part.uid.clone()?,
            name: ids::pod_name(&self.identity.prefix, entry.id).into(),
            version: part.version.clone().unwrap_or(ResourceVersion::ZERO),
            claim: Claim::Executor {
                id: entry.id,
                profile: Some(entry.profile.clone()),
                incarnation: Some(entry.incarnation),
            },
            phase: Phase::Odd(Arc::from("unreadable")),
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
            draft
                .notes
                .push(Note::Ignored("a look-up for an executor that has ended"));
            return;
        };
        let sighting = match found {
            Found::Nothing => return self.step(id, &EntryNews::FoundNothing(sent), now, draft),
            Found::NoAnswer => return self.step(id, &EntryNews::NoAnswer, now, draft),
            Found::Pod(sighting) => sighting,
        };
        if let Some(version) = sighting.version() {
            self.raise(&version.clone(), self.current.epoch);
        }
        let pod = match &sighting {
            Sighting::Read(pod) => pod,
            Sighting::Unreadable(part) => return self.unreadable(part, now, draft),
        };
        let its_own = match entry.uid() {
            Some(uid) => *uid == pod.uid,
            None => self.awaits(pod) == Some(id),
        };
        if its_own {
            self.step(id, &EntryNews::FoundThere(pod), now, draft);
        } else {
            self.step(id, &EntryNews::FoundNothing(sent), now, draft);
            self.sight(pod, Authority::Event, true, now, draft);
        }
    }
}
