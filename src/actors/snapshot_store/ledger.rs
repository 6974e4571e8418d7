//! The ledger: takes news in, gives snapshots out (spec 0 and 1).
//!
//! Whose a pod is, what a list says and when an entry leaves is decided here; what one piece of news does to one
//! entry is in [`super::table`].

mod adoption;
mod drift;
mod lists;
mod outcome;
mod requests;
mod sets;
mod sightings;
mod targets;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::model::executor::Session;
use crate::model::ids::AppId;
use crate::model::news::{ListTicket, Listed, News};
use crate::model::snapshot::{Changes, Target};
use crate::model::{
    Ending, Entry, Epoch, ExecutorId, IdSet, Incarnation, LossReason, Now, PodUid, ProfileName,
    ResourceVersion, Snapshot,
};
use crate::planted::{self, Planted};

pub use self::drift::Contradiction;
use self::drift::Drift;
pub use self::outcome::{Applied, ListOutcome, ListVerdict, Note};
use super::table::{self, At, EntryNews};

/// Ids seen above this are not believed when the first free id is chosen: no application comes that far, and a
/// copied pod with an absurd label must not use up all ids. A name that is taken costs one id more (spec A-25).
pub(super) const PLAUSIBLE_ID: u64 = 1 << 62;

/// Unrecognised pods are warned about once each; beyond this many, new ones are not (spec E-2).
const MAX_REMEMBERED_STRANGERS: usize = 1_000;

/// At most this many executors are reported as lost at a start: a damaged record must not keep the driver from starting.
const MAX_LOST: usize = 100_000;

/// What the ledger needs to know of the application.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The application.
    pub app: AppId,
    /// The prefix of its pods' names.
    pub prefix: Arc<str>,
    /// This start of the driver.
    pub incarnation: Incarnation,
    /// How long the server may take to commit a request (spec A-11).
    pub server_timeout: Duration,
    /// The profile of a pod that does not say which one it has.
    pub default_profile: ProfileName,
}

/// What the record says of earlier incarnations (spec O-30).
#[derive(Debug, Clone, Default)]
pub struct Inheritance {
    /// Ids reserved up to.
    pub reserved: Option<ExecutorId>,
    /// Ids that had ended.
    pub ended: IdSet,
    /// Ids that were bound to a pod and had not ended.
    pub bound: IdSet,
}

/// All that is known, and what it takes to judge more.
#[derive(Debug)]
pub struct Ledger {
    identity: Identity,
    inheritance: Inheritance,
    current: Snapshot,
    settlement: Settlement,
    /// Counts the news, so that a list can be told what came before it was asked for.
    count: u64,
    highest: ResourceVersion,
    /// Uids of executors that left the snapshot → when (spec S-14).
    tombstones: BTreeMap<PodUid, u64>,
    /// Entries that are gone → the snapshot that every subscriber must have decided on before they may leave: the one
    /// in which they were first gone or, if that is later, the one that reported the end (spec E-9).
    gone: BTreeMap<ExecutorId, u64>,
    unrecognised: BTreeSet<PodUid>,
    /// What polls say and the watch has not shown (spec P-4).
    drift: Drift,
}

/// Whether the ids that earlier incarnations may have used and that no pod has are closed (spec O-31).
#[derive(Debug, Clone, Copy)]
enum Settlement {
    /// Nothing is to be closed: not before adoption, and not after it is done.
    Done,
    /// All ids up to the last one that may have been used are to be closed; `None` where none was.
    Pending { last_used: Option<ExecutorId> },
}

/// What changes while one piece of news is taken in.
#[derive(Default)]
struct Draft {
    executors: Vec<ExecutorId>,
    /// Those among them that are over.
    gone: Vec<ExecutorId>,
    /// The ends that are reported with it.
    ends: Vec<Ending>,
    orphans: Vec<PodUid>,
    other: bool,
    session: bool,
    /// Executors that became leaving because somebody chose them.
    marked: Vec<ExecutorId>,
    notes: Vec<Note>,
}

impl Ledger {
    /// An empty ledger, before the first list.
    pub fn new(
        identity: Identity,
        inheritance: Inheritance,
        targets: BTreeMap<ProfileName, u32>,
        record: PodUid,
        now: Now,
    ) -> Self {
        let targets = targets
            .into_iter()
            .map(|(profile, executors)| {
                let target = Target {
                    executors,
                    since: now.tick,
                    asked: executors,
                    is_set: false,
                };
                (profile, target)
            })
            .collect();
        let ended = inheritance.ended.clone();
        Self {
            identity,
            inheritance,
            current: Snapshot {
                targets,
                ended,
                record: Some(record),
                ..Snapshot::default()
            },
            settlement: Settlement::Done,
            count: 0,
            highest: ResourceVersion::ZERO,
            tombstones: BTreeMap::new(),
            gone: BTreeMap::new(),
            unrecognised: BTreeSet::new(),
            drift: Drift::default(),
        }
    }

    /// The current snapshot.
    pub fn current(&self) -> &Snapshot {
        &self.current
    }

    /// How many pods are remembered that have ended (spec S-14).
    pub fn tombstone_count(&self) -> usize {
        self.tombstones.len()
    }

    /// How many pods are remembered as no executors (spec E-2).
    pub fn unrecognised_count(&self) -> usize {
        self.unrecognised.len()
    }

    /// About how many pods a poll has said something else than the watch (spec P-4).
    pub fn suspect_count(&self) -> usize {
        self.drift.len()
    }

    /// What a list that is about to be asked for must bring back (spec S-11, S-12).
    pub fn begin_list(&mut self, now: Now) -> ListTicket {
        self.count += 1;
        ListTicket {
            begun_at: self.count,
            tick: now.tick,
            highest: self.highest.clone(),
            epoch: self.current.epoch,
        }
    }

    /// Takes a list in (spec S-11 to S-13).
    pub fn list(&mut self, listed: Listed, now: Now) -> (ListVerdict, Applied) {
        let mut draft = Draft::default();
        let verdict = self.listed(listed, now, &mut draft);
        self.settle(now, &mut draft);
        (verdict, self.finish(draft))
    }

    /// Takes one piece of news in.
    pub fn apply(&mut self, news: News, now: Now) -> Applied {
        self.count += 1;
        let mut draft = Draft::default();
        match news {
            News::Listed(listed) => {
                self.listed(listed, now, &mut draft);
            }
            News::Seen { pod, epoch } => self.seen(&pod, epoch, now, &mut draft),
            News::Deleted { pod, epoch } => self.deleted(&pod, epoch, now, &mut draft),
            News::Bookmark { version, epoch } => {
                self.raise(&version, epoch);
                self.watch_came(&version, epoch, &mut draft);
            }
            News::Requested { id, outcome } => self.requested(id, outcome, now, &mut draft),
            News::LookedUp {
                id,
                sent,
                epoch,
                found,
            } => {
                if epoch == self.current.epoch {
                    self.looked_up(id, sent, found, now, &mut draft);
                } else {
                    draft
                        .notes
                        .push(Note::Ignored("a look-up from an earlier epoch"));
                }
            }
            News::DeleteFoundNothing { uid, name } => {
                if self.current.orphans.contains_key(&uid) {
                    self.lay(&uid, &mut draft);
                } else if let Some(entry) = self.holder(&name, &uid) {
                    self.advance(entry, &EntryNews::DeleteFoundNothing, now, &mut draft);
                }
            }
            News::Inactive { id, uid } => {
                if self
                    .current
                    .entry(id)
                    .is_some_and(|entry| entry.uid() == Some(&uid))
                {
                    self.step(id, &EntryNews::Inactive, now, &mut draft);
                }
            }
            News::Reported { id, reason } => self.report(id, reason, now, &mut draft),
            News::Retire { ids, aim, why, how } => {
                self.retire(ids, aim, &why, how, now, &mut draft);
            }
            News::Targets(targets) => self.ask_for(targets, now, &mut draft),
            News::Surge { profile, under_way } => {
                self.surge(profile, under_way, now, &mut draft);
            }
            News::Resume => self.resume(now, &mut draft),
            News::RecordSeen { uid, epoch } => {
                let current = epoch == self.current.epoch;
                if current && self.current.record.as_ref() != Some(&uid) {
                    self.current.record = Some(uid);
                    draft.other = true;
                }
            }
            News::Unused { ids } => self.close_unused(&ids, &mut draft),
            News::RecordLost => draft.other |= self.current.record.take().is_some(),
            News::Session {
                id,
                registered,
                idle,
            } => {
                self.step(
                    id,
                    &EntryNews::Session(Session { registered, idle }),
                    now,
                    &mut draft,
                );
                draft.session = true;
            }
        }
        self.settle(now, &mut draft);
        self.finish(draft)
    }

    /// Removes the entries that are gone, once every subscriber has decided on the snapshot that shows their end
    /// (spec E-9, S-14).
    pub fn release(&mut self, delivered: u64) -> Applied {
        let mut draft = Draft::default();
        let current = &self.current;
        let released: Vec<ExecutorId> = self
            .gone
            .iter()
            .filter(|(id, since)| {
                let owes = current
                    .entry(**id)
                    .is_some_and(|entry| entry.has_unreported_end());
                **since <= delivered && !owes
            })
            .map(|(id, _)| *id)
            .collect();
        for id in released {
            self.gone.remove(&id);
            if let Some(uid) = self
                .current
                .entry(id)
                .and_then(|entry| entry.uid())
                .cloned()
            {
                self.current.by_uid.remove(&uid);
            }
            if let Some(uid) = self
                .current
                .entry(id)
                .and_then(|entry| entry.uid())
                .filter(|_| !planted::is(Planted::TombstonesOmitted))
                .cloned()
            {
                self.tombstones.insert(uid, self.count);
            }
            self.current.replace(id, None);
            self.current.ended.insert(id);
            draft.executors.push(id);
        }
        self.finish(draft)
    }

    fn finish(&mut self, draft: Draft) -> Applied {
        let mut executors = draft.executors;
        executors.sort_unstable();
        executors.dedup();
        let mut orphans = draft.orphans;
        orphans.sort_unstable();
        orphans.dedup();
        let changes = Changes {
            executors,
            ends: draft.ends,
            orphans,
            other: draft.other,
        };
        if changes.is_empty() {
            return Applied {
                marked: draft.marked,
                notes: draft.notes,
                ..Applied::default()
            };
        }
        self.current.seq += 1;
        self.current.changes = Arc::new(changes);
        for id in draft.gone {
            self.gone.entry(id).or_insert(self.current.seq);
        }
        for ending in &self.current.changes.ends {
            if let Some(since) = self.gone.get_mut(&ending.entry.id) {
                *since = self.current.seq;
            }
        }
        Applied {
            snapshot: Some(Arc::new(self.current.clone())),
            worth_a_batch: !draft.session,
            marked: draft.marked,
            notes: draft.notes,
        }
    }

    fn at(&self, now: Now, epoch: Epoch) -> At {
        At {
            now: now.tick,
            count: self.count,
            epoch,
            server_timeout: self.identity.server_timeout,
        }
    }

    /// An end becomes reported: only this transition puts it into the changes, so no subscriber gets it twice
    /// (spec L-1).
    fn report(&mut self, id: ExecutorId, reason: Arc<LossReason>, now: Now, draft: &mut Draft) {
        let Some(before) = self.current.entry(id).cloned() else {
            draft.notes.push(Note::Ignored("no such entry"));
            return;
        };
        let at = self.at(now, self.current.epoch);
        let Some(after) = table::next(&before, &EntryNews::Reported(&reason), &at) else {
            draft.notes.push(Note::Ignored("nothing new"));
            return;
        };
        let entry = Arc::new(after.clone());
        draft.ends.push(Ending { entry, reason });
        if planted::is(Planted::ReportedTwice) {
            draft.executors.push(id);
        } else {
            self.put(Some(before), after, draft);
        }
    }

    /// One news for one entry, through the table.
    fn step(&mut self, id: ExecutorId, news: &EntryNews<'_>, now: Now, draft: &mut Draft) {
        match self.current.entry(id).cloned() {
            Some(entry) => self.advance(entry, news, now, draft),
            None => draft.notes.push(Note::Ignored("no such entry")),
        }
    }

    /// The same for an entry that was found already: each finding costs a walk down the tree.
    fn advance(&mut self, before: Arc<Entry>, news: &EntryNews<'_>, now: Now, draft: &mut Draft) {
        let at = self.at(now, self.current.epoch);
        match table::next(&before, news, &at) {
            Some(after) => self.put(Some(before), after, draft),
            None => draft.notes.push(Note::Ignored("nothing new")),
        }
    }

    fn put(&mut self, before: Option<Arc<Entry>>, after: Entry, draft: &mut Draft) {
        let bound_before = before.as_ref().is_some_and(|entry| entry.uid().is_some());
        if let Some(uid) = after.uid().filter(|_| !bound_before) {
            // Seen without the label that says who asked for it, it looked like an orphan pod until the answer came.
            self.drop_orphan(uid, draft);
        }
        if after.is_gone() {
            draft.gone.push(after.id);
        }
        if self.current.of_sets
            && let Some(uid) = after.uid()
        {
            self.current.by_uid.insert(uid.clone(), after.id);
            self.drop_unassigned(&uid.clone(), draft);
        }
        draft.executors.push(after.id);
        let after = Arc::new(after);
        self.current.put(Arc::clone(&after));
        draft.notes.push(Note::Changed(before, after));
    }

    /// The watch has shown everything up to this version (spec P-4).
    fn watch_came(&mut self, to: &ResourceVersion, epoch: Epoch, draft: &mut Draft) {
        if epoch == self.current.epoch {
            for contradiction in self.drift.watch_came(to) {
                self.drifted(contradiction, draft);
            }
        }
    }

    fn drifted(&mut self, contradiction: Contradiction, draft: &mut Draft) {
        self.current.drifts += 1;
        draft.notes.push(Note::Drift(contradiction));
    }

    fn raise(&mut self, version: &ResourceVersion, epoch: Epoch) {
        if epoch == self.current.epoch && *version > self.highest {
            self.highest = version.clone();
        }
    }
}
