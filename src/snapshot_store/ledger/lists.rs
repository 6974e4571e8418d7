//! What a list says, and what it does not (spec S-11 to S-13).

use std::collections::BTreeSet;

use crate::model::ids;
use crate::model::news::{ListTicket, Listed};
use crate::model::pod::Sighting;
use crate::model::snapshot::FullList;
use crate::model::{Epoch, ExecutorId, Now, PodUid, ResourceVersion, State};

use super::super::table::{Authority, EntryNews};
use super::{Draft, Ledger, ListOutcome, Note};

impl Ledger {
    pub(super) fn listed(&mut self, listed: Listed, now: Now, draft: &mut Draft) -> ListOutcome {
        self.count += 1;
        let Listed {
            ticket,
            version,
            quorum,
            items,
        } = listed;
        if ticket.epoch != self.current.epoch {
            draft
                .notes
                .push(Note::Ignored("a list from an earlier epoch"));
            let epoch = self.current.epoch;
            return ListOutcome {
                epoch,
                accepted: false,
                full: false,
                new_epoch: false,
            };
        }
        let new_epoch = quorum && version < ticket.highest;
        let full = new_epoch || version >= ticket.highest;
        if new_epoch {
            self.begin_epoch(&version, draft);
        } else if !full {
            let highest = ticket.highest.clone();
            draft.notes.push(Note::StaleList {
                version: version.clone(),
                highest,
            });
        }
        self.raise(&version, self.current.epoch);

        let adopting = full && quorum && !self.current.adopted;
        let authority = if full {
            Authority::FullList(&version)
        } else {
            Authority::Event
        };
        let mut present = BTreeSet::new();
        let mut listed_ghosts = BTreeSet::new();
        for item in &items {
            if let Some(id) = self.named(item) {
                present.insert(id);
            }
            match item {
                Sighting::Unreadable(part) => self.unreadable(part, now, draft),
                Sighting::Read(pod) => {
                    listed_ghosts.insert(pod.uid.clone());
                    if adopting && self.adopt(pod, now, draft) {
                        continue;
                    }
                    self.sight(pod, authority, full, now, draft);
                }
            }
        }
        if adopting {
            self.complete_adoption(now, draft);
        }
        if full {
            self.judge_absent(&present, &listed_ghosts, &ticket, &version, now, draft);
            self.tombstones
                .retain(|_, released| *released >= ticket.begun_at);
            self.current.full_list = Some(FullList {
                version,
                asked: ticket.tick,
            });
        }
        ListOutcome {
            epoch: self.current.epoch,
            accepted: true,
            full,
            new_epoch,
        }
    }

    /// The executor that an item of a list stands for; an unreadable one counts as present (spec S-15).
    pub(super) fn named(&self, item: &Sighting) -> Option<ExecutorId> {
        let id = ids::id_in_pod_name(&self.identity.prefix, item.name()?)?;
        let uid = match item {
            Sighting::Read(pod) => Some(&pod.uid),
            Sighting::Unreadable(part) => part.uid.as_ref(),
        };
        let bound = self.current.entry(id).and_then(|entry| entry.uid());
        let another = bound.zip(uid).is_some_and(|(bound, seen)| bound != seen);
        (!another).then_some(id)
    }

    pub(super) fn begin_epoch(&mut self, version: &ResourceVersion, draft: &mut Draft) {
        self.current.epoch = Epoch(self.current.epoch.0 + 1);
        // Only the record seen in the new history counts (spec K-2).
        self.current.record = None;
        draft.other = true;
        draft.notes.push(Note::NewEpoch {
            epoch: self.current.epoch,
            version: version.clone(),
            highest: std::mem::replace(&mut self.highest, ResourceVersion::ZERO),
        });
    }

    /// What a full list lacks, of what was known before it was asked for (spec S-12).
    pub(super) fn judge_absent(
        &mut self,
        present: &BTreeSet<ExecutorId>,
        listed: &BTreeSet<PodUid>,
        ticket: &ListTicket,
        version: &ResourceVersion,
        now: Now,
        draft: &mut Draft,
    ) {
        let epoch = self.current.epoch;
        let lacking: Vec<ExecutorId> = (self.current.entries.iter())
            .filter(|(id, _)| !present.contains(id))
            .filter(|(_, entry)| match &entry.state {
                State::Bound(bound) => {
                    let not_newer = bound.epoch < epoch || bound.pod.version <= *version;
                    bound.bound_at < ticket.begun_at && not_newer
                }
                State::Sent(_) | State::Unknown(_) | State::Gone(_) => false,
            })
            .map(|(id, _)| *id)
            .collect();
        for id in lacking {
            self.step(id, &EntryNews::Lacked, now, draft);
        }
        let laid: Vec<PodUid> = (self.current.ghosts.iter())
            .filter(|(uid, ghost)| {
                let not_newer = ghost.epoch < epoch || ghost.version <= *version;
                !listed.contains(*uid) && ghost.seen_at < ticket.begun_at && not_newer
            })
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in laid {
            self.drop_ghost(&uid, draft);
        }
    }
}
