//! The ledger: decides which executor a pod belongs to, what a list proves, and when an entry is
//! removed (spec 0 and 1). [`super::table`] decides what one piece of news does to one entry.

mod adoption;
mod drift;
mod lists;
mod nodes;
mod other_drivers;
mod outcome;
mod requests;
mod sets;
mod sightings;
mod targets;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::ids::AppId;
use crate::news::{ListTicket, Listed, News};
use crate::planted::{self, Planted};
use crate::reasoning::reason_of;
use crate::recorded_end::RecordedEnd;
use crate::snapshot::{Changes, Target};
use crate::{
    Ending, Entry, Epoch, ExecutorId, IdSet, Incarnation, LossReason, Now, PodUid, ProfileName,
    ResourceVersion, Snapshot,
};

pub use self::drift::Contradiction;
use self::drift::Drift;
use self::other_drivers::Records;
pub use self::outcome::{Applied, ListOutcome, ListVerdict, Note};
use super::table::{self, At, EntryNews};

/// Ids above this are ignored when the first free id is chosen: a copied pod with an absurd label
/// must not use up all ids. If a later id's name is taken by such a pod, one id is wasted (spec
///
pub const PLAUSIBLE_ID: u64 = 1 << 62;

/// The most unrecognised pods that are logged, once each (spec E-2).
const MAX_REMEMBERED_UNRECOGNISED: usize = 1_000;

/// The most executors that are reported as lost at a start: a damaged record must not prevent it.
const MAX_LOST: usize = 100_000;

#[derive(Debug, Clone)]
pub struct Identity {
    pub app: AppId,
    pub prefix: Arc<str>,
    pub incarnation: Incarnation,
    /// How long the server may take to commit a request.
    pub server_timeout: Duration,
    /// How long executors drain unless a command says otherwise.
    pub decommission_timeout: Duration,
    /// The profile of a pod without a profile label.
    pub default_profile: ProfileName,
}

/// What the record contains from earlier incarnations (spec O-30).
#[derive(Debug, Clone, Default)]
pub struct Inheritance {
    /// The highest reserved id.
    pub reserved: Option<ExecutorId>,
    pub ended: IdSet,
    /// Ids that were bound to a pod and had not ended.
    pub bound: IdSet,
    /// Those of the bound ids whose end is reported already.
    pub reported: IdSet,
    /// The last ends.
    pub ends: Vec<RecordedEnd>,
}

impl Inheritance {
    /// The reason that was reported for an executor; `entry` is what is left of it.
    fn reason(&self, entry: &Entry) -> LossReason {
        let recorded = self.ends.iter().rfind(|end| end.executor == entry.id);
        recorded.map_or_else(|| reason_of(entry), RecordedEnd::loss_reason)
    }
}

#[derive(Debug)]
pub struct Ledger {
    identity: Identity,
    inheritance: Inheritance,
    current: Snapshot,
    settlement: Settlement,
    /// The number of news so far. It tells which entries existed before a list was requested.
    count: u64,
    highest: ResourceVersion,
    /// Uids of pods whose entries were removed → the count at that time.
    tombstones: BTreeMap<PodUid, u64>,
    /// Entries that are gone → the snapshot that every subscriber must decide on before the entry
    /// is removed: the first in which it is gone, or the one that reports its end if that is later.
    gone: BTreeMap<ExecutorId, u64>,
    unrecognised: BTreeSet<PodUid>,
    records: Records,
    /// Differences between polls and the watch.
    drift: Drift,
}

/// Whether ids of earlier incarnations without a pod still have to be closed (spec O-31).
#[derive(Debug, Clone, Copy)]
enum Settlement {
    /// Nothing to close: adoption has not happened, or the ids are closed.
    Done,
    /// Closes all ids up to the last one that may have been used; `None` if none was.
    Pending { last_used: Option<ExecutorId> },
}

/// What one piece of news changes.
#[derive(Default)]
struct Draft {
    executors: Vec<ExecutorId>,
    gone: Vec<ExecutorId>,
    /// The ends that become reported.
    ends: Vec<Ending>,
    orphans: Vec<PodUid>,
    other: bool,
    session: bool,
    marked: Vec<ExecutorId>,
    notes: Vec<Note>,
}

impl Ledger {
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
                    surge: 0,
                    is_set: false,
                    removed: false,
                };
                (profile, target)
            })
            .collect();
        let ended = inheritance.ended.clone();
        let mut records = Records::default();
        records.held(&record);
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
            records,
            drift: Drift::default(),
        }
    }

    pub fn current(&self) -> &Snapshot {
        &self.current
    }

    /// The number of tombstones (spec S-14).
    pub fn tombstone_count(&self) -> usize {
        self.tombstones.len()
    }

    /// The number of unrecognised pods that were logged (spec E-2).
    pub fn unrecognised_count(&self) -> usize {
        self.unrecognised.len()
    }

    /// The number of pods on which polls and the watch may differ (spec P-4).
    pub fn suspect_count(&self) -> usize {
        self.drift.len()
    }

    /// Must be called before a list is requested (spec S-11, S-12).
    pub fn begin_list(&mut self, now: Now) -> ListTicket {
        self.count += 1;
        ListTicket {
            begun_at: self.count,
            tick: now.tick,
            highest: self.highest.clone(),
            epoch: self.current.epoch,
        }
    }

    /// Applies a list (spec S-11 to S-13).
    pub fn list(&mut self, listed: Listed, now: Now) -> (ListVerdict, Applied) {
        let mut draft = Draft::default();
        let verdict = self.listed(listed, now, &mut draft);
        self.settle(now, &mut draft);
        (verdict, self.finish(draft, now))
    }

    pub fn apply(&mut self, news: News, now: Now) -> Applied {
        self.count += 1;
        let mut draft = Draft::default();
        match news {
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
                    self.remove_orphan(&uid, &mut draft);
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
            News::Targets(targets) => self.ask_for(targets, true, now, &mut draft),
            News::Configured(targets) => self.ask_for(targets, false, now, &mut draft),
            News::Surge { profile, by } => self.surge(profile, by, now, &mut draft),
            News::Hold { by, how } => self.hold(by, how, now, &mut draft),
            News::Resume => self.resume(now, &mut draft),
            News::Remove(profile) => self.remove_profile(profile, now, &mut draft),
            News::Failed { profile, why } => self.fail_profile(profile, why, now, &mut draft),
            News::Grown { profile, limit } => self.grow_memory(profile, limit, &mut draft),
            News::Reset(profile) => self.reset_profile(profile, now, &mut draft),
            News::ProfileGone(profile) => self.profile_gone(&profile, &mut draft),
            News::RecordSeen { uid, epoch } => {
                let current = epoch == self.current.epoch;
                if current && self.current.record.as_ref() != Some(&uid) {
                    self.records.held(&uid);
                    self.current.record = Some(uid);
                    draft.other = true;
                }
            }
            News::Nodes(nodes) => self.list_nodes(nodes, now, &mut draft),
            News::Node(node) => self.see_node(node, now, &mut draft),
            News::NodeDeleted(name) => self.node_is_gone(&name, now, &mut draft),
            News::NodeUnused(name) => draft.other |= self.current.nodes.forget(&name),
            News::Unused { ids } => self.close_unused(&ids, &mut draft),
            News::RecordLost => draft.other |= self.current.record.take().is_some(),
            News::Promote(ids) => self.promote(&ids, now, &mut draft),
            News::Session(id, session) => {
                self.step(id, &EntryNews::Session(session), now, &mut draft);
                draft.session = true;
            }
        }
        self.settle(now, &mut draft);
        self.finish(draft, now)
    }

    /// Removes entries that are gone, once every subscriber has decided on the snapshot that
    /// reports their end (spec E-9, S-14).
    pub fn release(&mut self, delivered: u64, now: Now) -> Applied {
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
        self.finish(draft, now)
    }

    fn finish(&mut self, draft: Draft, now: Now) -> Applied {
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
        self.current.at = now.tick;
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

    /// Reports an end. Only this transition adds it to the changes, so each subscriber gets it once
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
        let ending = Ending { entry, reason };
        draft.notes.push(Note::Ended(ending.clone()));
        draft.ends.push(ending);
        if planted::is(Planted::ReportedTwice) {
            draft.executors.push(id);
        } else {
            self.put(Some(before), after, draft);
        }
    }

    /// Subscribers wait for it: LifecycleManager changes the label, and then the program begins.
    fn promote(&mut self, ids: &[ExecutorId], now: Now, draft: &mut Draft) {
        for id in ids {
            self.step(*id, &EntryNews::Promote, now, draft);
        }
        draft.other = true;
    }

    /// Applies the table to one entry.
    fn step(&mut self, id: ExecutorId, news: &EntryNews<'_>, now: Now, draft: &mut Draft) {
        match self.current.entry(id).cloned() {
            Some(entry) => self.advance(entry, news, now, draft),
            None => draft.notes.push(Note::Ignored("no such entry")),
        }
    }

    /// Like [`Self::step`], without another look-up of the entry.
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
            // Without its incarnation label the pod looked like an orphan pod until the answer
            // came.
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

    /// The watch has delivered everything up to this version (spec P-4).
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

#[cfg(test)]
mod tests;
