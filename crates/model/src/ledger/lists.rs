//! What a list proves and does not prove (spec S-11 to S-13).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::news::{ListKind, ListTicket, Listed};
use crate::planted::{self, Planted};
use crate::pod::Sighting;
use crate::snapshot::{FullList, OrphanPod};
use crate::{Epoch, ExecutorId, Now, Pod, PodUid, ResourceVersion, State, Tick};

use super::super::table::{Authority, EntryNews};
use super::sets::id_of;
use super::{Contradiction, Draft, Ledger, ListOutcome, ListVerdict, Note};

/// What a list contains, readable or not (spec S-15).
#[derive(Default)]
pub(super) struct Present {
    executors: BTreeSet<ExecutorId>,
    pods: BTreeSet<PodUid>,
    /// The names of pods with an unreadable uid.
    names: BTreeSet<Arc<str>>,
}

impl Present {
    fn note(&mut self, executor: Option<ExecutorId>, item: &Sighting) {
        self.executors.extend(executor);
        match (item.uid(), item.name()) {
            (Some(uid), _) => {
                self.pods.insert(uid.clone());
            }
            (None, name) => self.names.extend(name.cloned()),
        }
    }

    fn shows(&self, uid: &PodUid, orphan: &OrphanPod) -> bool {
        self.pods.contains(uid) || self.names.contains(&orphan.name)
    }
}

struct Reading<'a> {
    authority: Authority<'a>,
    adopting: bool,
    may_be_orphan: bool,
    /// Whether the list is compared with the watch.
    polled: bool,
}

impl Ledger {
    pub(super) fn listed(&mut self, listed: Listed, now: Now, draft: &mut Draft) -> ListVerdict {
        self.count += 1;
        let Listed {
            ticket,
            version,
            kind,
            items,
        } = listed;
        if ticket.epoch != self.current.epoch {
            draft
                .notes
                .push(Note::Ignored("a list from an earlier epoch"));
            return ListVerdict {
                epoch: self.current.epoch,
                outcome: ListOutcome::Outdated,
            };
        }
        let new_epoch = kind.is_newest()
            && version < ticket.highest
            && !planted::is(Planted::HistoryBelievedForEver);
        let version = if !new_epoch && planted::is(Planted::StaleListBelieved) {
            version.max(ticket.highest.clone())
        } else {
            version
        };
        let full = new_epoch || version >= ticket.highest;
        if new_epoch {
            self.begin_epoch(&version, draft);
            // A restored server may have restored deleted pods.
            self.forget_tombstones(&ticket);
        } else if !full {
            let highest = ticket.highest.clone();
            draft.notes.push(Note::StaleList {
                version: version.clone(),
                highest,
            });
        }
        self.raise(&version, self.current.epoch);

        let begins = version.clone();
        let adopting = full && kind.is_newest() && !self.current.adopted;
        let may_be_orphan = full && (self.current.adopted || adopting);
        let authority = if full {
            Authority::FullList(&version)
        } else {
            Authority::Event
        };
        // A stale list shows old states. After a restore it is unknown what the watch has shown.
        let polled = full && kind != ListKind::ForWatch && !new_epoch;
        let mut present = Present::default();
        let reading = Reading {
            authority,
            adopting,
            may_be_orphan,
            polled,
        };
        for item in &items {
            present.note(self.named(item), item);
            self.listed_item(item, &reading, now, draft);
        }
        if adopting {
            self.complete_adoption(now, draft);
        }
        if full {
            if polled {
                self.suspect_absence(&present, &ticket, &version, draft);
            }
            self.judge_absent(&present, &ticket, &version, now, draft);
            self.forget_tombstones(&ticket);
            self.note_full_list(version, ticket.tick, new_epoch);
        }
        if kind == ListKind::ForWatch {
            let lacked = self.lacked(&present, &ticket, &begins);
            let has = |uid: &PodUid| present.pods.contains(uid);
            self.drift.watch_begins(&begins, has, lacked);
        }
        ListVerdict {
            epoch: self.current.epoch,
            outcome: match (new_epoch, full) {
                (true, _) => ListOutcome::NewEpoch,
                (false, true) => ListOutcome::Full,
                (false, false) => ListOutcome::Stale,
            },
        }
    }

    /// Records the newest full list. One that begins an epoch counts as the newest.
    fn note_full_list(&mut self, version: ResourceVersion, asked: Tick, new_epoch: bool) {
        let outdated = |last: &FullList| !new_epoch && version < last.version;
        if !self.current.full_list.as_ref().is_some_and(outdated) {
            self.current.full_list = Some(FullList { version, asked });
        }
    }

    fn listed_item(&mut self, item: &Sighting, reading: &Reading<'_>, now: Now, draft: &mut Draft) {
        let (adopting, authority) = (reading.adopting, reading.authority);
        match item {
            Sighting::Unreadable(part) => {
                if !(adopting && self.adopt_unreadable(part, now, draft)) {
                    self.unreadable(part, authority, now, draft);
                }
            }
            Sighting::Read(pod) => {
                if !(adopting && self.adopt(pod, now, draft)) {
                    let before = reading.polled.then(|| self.held(pod));
                    self.sight(pod, authority, reading.may_be_orphan, now, draft);
                    if let Some(watched) = before {
                        self.suspect_sighting(pod, watched, draft);
                    }
                }
            }
        }
    }

    /// The pod's version in the ledger.
    fn held(&self, pod: &Pod) -> Option<ResourceVersion> {
        let entry = self.holder(&pod.name, &pod.uid)?;
        let bound = entry
            .bound()
            .filter(|bound| bound.epoch == self.current.epoch)?;
        Some(bound.pod.version.clone())
    }

    /// Checks for drift after a poll showed an executor's pod (spec P-4).
    fn suspect_sighting(&mut self, pod: &Pod, watched: Option<ResourceVersion>, draft: &mut Draft) {
        let polled = self.held(pod);
        if polled.as_ref() != Some(&pod.version) || polled <= watched {
            return;
        }
        let suspect = Contradiction {
            name: Arc::clone(&pod.name),
            uid: pod.uid.clone(),
            watched,
            polled,
            at: pod.version.clone(),
        };
        if let Some(proven) = self.drift.suspect(suspect) {
            self.drifted(proven, draft);
        }
    }

    /// Checks for drift if a poll lacks pods whose end the watch has not shown (spec P-4).
    fn suspect_absence(
        &mut self,
        present: &Present,
        ticket: &ListTicket,
        version: &ResourceVersion,
        draft: &mut Draft,
    ) {
        let current = &self.current;
        self.drift.prune(|name, uid| {
            let id = id_of(&self.identity.prefix, current, name, Some(uid));
            let entry = id.and_then(|id| current.entry(id));
            entry.is_some_and(|entry| entry.uid() == Some(uid))
        });
        self.drift.polled(version, |uid| present.pods.contains(uid));
        for suspect in self.lacked(present, ticket, version) {
            if let Some(proven) = self.drift.suspect(suspect) {
                self.drifted(proven, draft);
            }
        }
    }

    /// The pods that are not in a list of this version, and that it would have as far as is known.
    fn lacked(
        &self,
        present: &Present,
        ticket: &ListTicket,
        version: &ResourceVersion,
    ) -> Vec<Contradiction> {
        let current = &self.current;
        (current.entries.iter())
            .filter(|(id, _)| !present.executors.contains(id))
            .filter_map(|(_, entry)| match &entry.state {
                State::Bound(bound) if bound.bound_at < ticket.begun_at => Some(bound),
                _ => None,
            })
            .filter(|bound| bound.epoch == current.epoch && bound.pod.version <= *version)
            // These are known to be missing.
            .filter(|bound| bound.absent.is_none())
            // The watch does not show pods without our labels.
            .filter(|bound| bound.pod.identity.executor().is_some())
            .map(|bound| Contradiction {
                name: Arc::clone(&bound.pod.name),
                uid: bound.pod.uid.clone(),
                watched: Some(bound.pod.version.clone()),
                polled: None,
                at: version.clone(),
            })
            .collect()
    }

    /// Removes tombstones from before this list's request: no older news can arrive (spec S-14).
    fn forget_tombstones(&mut self, ticket: &ListTicket) {
        if planted::is(Planted::TombstonesForEver) {
            return;
        }
        self.tombstones
            .retain(|_, released| *released >= ticket.begun_at);
    }

    /// The executor of an item. An unreadable item counts as present (spec S-15).
    pub(super) fn named(&self, item: &Sighting) -> Option<ExecutorId> {
        let id = self.id_of(item.name()?, item.uid())?;
        let bound = self.current.entry(id).and_then(|entry| entry.uid());
        let another = bound
            .zip(item.uid())
            .is_some_and(|(bound, seen)| bound != seen);
        (!another).then_some(id)
    }

    pub(super) fn begin_epoch(&mut self, version: &ResourceVersion, draft: &mut Draft) {
        self.current.epoch = Epoch(self.current.epoch.0 + 1);
        // Only a record seen in the new epoch counts (spec K-13).
        self.current.record = None;
        self.drift.clear();
        draft.other = true;
        draft.notes.push(Note::NewEpoch {
            epoch: self.current.epoch,
            version: version.clone(),
            highest: std::mem::replace(&mut self.highest, ResourceVersion::ZERO),
        });
    }

    /// Handles older entries that a full list lacks (spec S-12).
    pub(super) fn judge_absent(
        &mut self,
        present: &Present,
        ticket: &ListTicket,
        version: &ResourceVersion,
        now: Now,
        draft: &mut Draft,
    ) {
        let epoch = self.current.epoch;
        let lacking: Vec<ExecutorId> = (self.current.entries.iter())
            .filter(|(id, _)| !present.executors.contains(id))
            .filter(|(_, entry)| match &entry.state {
                // The table checks whether the pod is newer than the list.
                State::Bound(bound) => bound.bound_at < ticket.begun_at,
                State::Sent(_) | State::Unknown(_) | State::Gone(_) => false,
            })
            .map(|(id, _)| id)
            .collect();
        for id in lacking {
            self.step(id, &EntryNews::Lacked(Some(version)), now, draft);
        }
        let laid: Vec<PodUid> = (self.current.orphans.iter())
            .filter(|(uid, orphan)| {
                let not_newer = orphan.epoch < epoch || orphan.version <= *version;
                !present.shows(uid, orphan) && orphan.seen_at < ticket.begun_at && not_newer
            })
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in laid {
            self.drop_orphan(&uid, draft);
        }
        self.judge_unassigned(|uid| present.pods.contains(uid), ticket, version, draft);
    }
}
