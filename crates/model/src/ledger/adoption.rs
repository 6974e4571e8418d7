//! Adoption: binds the pods in the first list (spec O-31).

use std::sync::Arc;
use std::time::Duration;

use crate::executor::{Class, Gone, GoneEvidence, LeaveMethod, LeaveReason, Leaving};
use crate::ids::id_in_pod_name;
use crate::planted::{self, Planted};
use crate::pod::{DrainedFor, Draining, Phase, PodIdentity, Unreadable};
use crate::{Entry, ExecutorId, Incarnation, Now, Pod, ResourceVersion, State};

use super::super::table::{self, EntryNews};
use super::{Draft, Ledger, MAX_LOST, Note, PLAUSIBLE_ID, Settlement};

/// The most that a command may grant.
const LONGEST_DRAIN: Duration = Duration::from_secs(24 * 3600);

/// The mark that an earlier incarnation wrote to a pod (spec L-36, O-31). The clock that wrote it may be wrong.
fn inherited(mark: &Draining, usual: Duration, now: Now) -> Leaving {
    let left = Duration::try_from(mark.until.duration_since(now.wall)).unwrap_or_default();
    let (why, most) = match &mark.why {
        DrainedFor::Surplus => (LeaveReason::ScaledDown, usual),
        DrainedFor::ApplicationEnded => (LeaveReason::ApplicationEnded, usual),
        DrainedFor::Asked(by) => (LeaveReason::Decommissioned(Arc::clone(by)), LONGEST_DRAIN),
        DrainedFor::NodeLeaving(which) => (LeaveReason::NodeLeaving(Arc::clone(which)), usual),
    };
    Leaving {
        why,
        how: LeaveMethod::Drain {
            within: left.min(most),
        },
        since: now.tick,
    }
}

impl Ledger {
    /// Binds a pod in the first list (spec O-31). Returns whether it was adopted.
    pub(super) fn adopt(&mut self, pod: &Arc<Pod>, now: Now, draft: &mut Draft) -> bool {
        let PodIdentity::Executor {
            id,
            profile,
            incarnation,
        } = &pod.identity
        else {
            return false;
        };
        let ended = self.current.ended.contains(*id) && !planted::is(Planted::EndedResurrected);
        if self.current.entry(*id).is_some() || ended {
            return false;
        }
        let profile = profile
            .clone()
            .unwrap_or_else(|| self.identity.default_profile.clone());
        let epoch = self.current.epoch;
        let mut entry = Entry::requested(
            *id,
            profile,
            incarnation.unwrap_or_default(),
            now.tick,
            epoch,
        );
        entry.adopted = true;
        entry.found_terminating = pod.deletion.is_some();
        let at = self.at(now, epoch);
        if let Some(mut bound) = table::next(&entry, &EntryNews::Created(pod), &at) {
            let usual = self.identity.decommission_timeout;
            bound.leaving = (pod.draining.as_ref()).map(|mark| inherited(mark, usual, now));
            if self.inheritance.reported.contains(*id) {
                // Another pod of an executor that has ended, or one that a restored server shows alive again: an orphan
                // (spec E-3, E-9).
                if matches!(bound.class(), Class::Pending(_) | Class::Running) {
                    return false;
                }
                bound.end = Some(Arc::new(self.inheritance.reason(&bound)));
            }
            self.put(None, bound, draft);
        }
        true
    }

    /// Binds an unreadable pod in the first list, as Odd (spec S-15). With unreadable labels its
    /// name suffices: the server selected it by its labels.
    pub(super) fn adopt_unreadable(
        &mut self,
        part: &Unreadable,
        now: Now,
        draft: &mut Draft,
    ) -> bool {
        let (Some(name), Some(uid)) = (&part.name, &part.uid) else {
            return false;
        };
        let named = match self.current.of_sets {
            true => part.identity.as_ref().and_then(PodIdentity::executor),
            false => id_in_pod_name(&self.identity.prefix, name),
        };
        let Some(id) = named else {
            if self.current.of_sets && part.identity.is_none() {
                self.note_unread(part, draft);
            }
            return false;
        };
        let named = || PodIdentity::Executor {
            id,
            profile: None,
            incarnation: None,
        };
        let pod = Pod {
            uid: uid.clone(),
            name: Arc::clone(name),
            version: part.version.clone().unwrap_or(ResourceVersion::ZERO),
            identity: part.identity.clone().unwrap_or_else(named),
            phase: Phase::unreadable(),
            ..Pod::blank()
        };
        let adopted = self.adopt(&Arc::new(pod), now, draft);
        if adopted {
            draft.notes.push(Note::Unreadable(part.clone()));
        }
        adopted
    }

    /// Adopts a pod of the first list that becomes readable only now.
    pub(super) fn read_at_last(&mut self, part: &Unreadable, now: Now, draft: &mut Draft) -> bool {
        let adopted = self.adopt_unreadable(part, now, draft);
        if let (false, Some(_), Some(uid)) = (adopted, &part.identity, &part.uid) {
            self.drop_unassigned(uid, draft);
        }
        adopted
    }

    /// Completes adoption. From now on, reserved ids belong to no existing pod (spec O-31).
    pub(super) fn complete_adoption(&mut self, now: Now, draft: &mut Draft) {
        let found = self.current.entries.len();
        self.current.not_found = self.inheritance.bound.clone();
        let highest = (self.current.entries.keys().rev())
            .find(|id| id.get() < PLAUSIBLE_ID)
            .max(self.current.not_found.last_below(PLAUSIBLE_ID));
        let last = highest
            .max(self.inheritance.reserved)
            .max(self.current.ended.last_below(PLAUSIBLE_ID))
            .filter(|_| !planted::is(Planted::IdsReused))
            .or(highest);
        self.current.first_free = last.map_or(Some(ExecutorId::FIRST), ExecutorId::next);
        self.settlement = Settlement::Pending { last_used: last };
        let lost = self.settle(now, draft);
        self.current.adopted = true;
        draft.other = true;
        draft.notes.push(Note::Adopted { found, lost });
    }

    /// Ends every id up to the last one that may have been used and that was not found (spec L-34,
    /// O-31). Returns how many were lost. Waits while a pod with an unreadable id may have one of
    /// them (spec S-27), which only delays the report.
    pub(super) fn settle(&mut self, now: Now, draft: &mut Draft) -> usize {
        let Settlement::Pending { last_used } = self.settlement else {
            return 0;
        };
        if self.has_unread() {
            return 0;
        }
        self.settlement = Settlement::Done;
        let not_found = std::mem::take(&mut self.current.not_found);
        let missing: Vec<ExecutorId> = (not_found.ids())
            .take(if planted::is(Planted::LossUnreported) {
                0
            } else {
                MAX_LOST
            })
            .filter(|id| self.current.entry(*id).is_none() && !self.current.ended.contains(*id))
            .filter(|id| !self.inheritance.reported.contains(*id))
            .collect();
        for id in &missing {
            let profile = self.identity.default_profile.clone();
            let epoch = self.current.epoch;
            let mut entry = Entry::requested(*id, profile, Incarnation::default(), now.tick, epoch);
            entry.adopted = true;
            entry.state = State::Gone(Gone {
                bound: None,
                how: GoneEvidence::LostBeforeStart,
                at: now.tick,
            });
            self.put(None, entry, draft);
        }
        if let Some(last) = last_used {
            self.close_gaps(last);
        }
        missing.len()
    }

    /// Ends every id up to `last` that has no entry.
    pub(super) fn close_gaps(&mut self, last: ExecutorId) {
        let mut open = Some(ExecutorId::FIRST);
        let known: Vec<ExecutorId> = self
            .current
            .entries
            .keys()
            .take_while(|id| *id <= last)
            .collect();
        for id in known {
            if let (Some(first), Some(before)) = (open, ExecutorId::new(id.get() - 1)) {
                self.current.ended.insert_interval(first, before);
            }
            open = id.next();
        }
        if let Some(first) = open {
            self.current.ended.insert_interval(first, last);
        }
    }
}
