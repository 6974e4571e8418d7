//! The ledger: takes news in, gives snapshots out (spec 0 and 1).
//!
//! Whose a pod is, what a list says and when an entry leaves is decided here; what one piece of news does to one
//! entry is in [`super::table`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::model::executor::{Gone, HowGone};
use crate::model::ids::{self, AppId};
use crate::model::news::{Found, ListTicket, Listed, News, Outcome};
use crate::model::pod::{Claim, Phase, Sighting, Unreadable};
use crate::model::snapshot::{Changes, FullList, Ghost, Target};
use crate::model::{
    Entry, Epoch, ExecutorId, IdSet, Incarnation, Now, Pod, PodUid, ProfileName, ResourceVersion,
    Snapshot, State,
};

use super::table::{self, At, Authority, EntryNews};

/// Ids seen above this are not believed when the first free id is chosen: no application comes that far, and a
/// copied pod with an absurd label must not use up all ids. A name that is taken costs one id more (spec A-25).
const PLAUSIBLE_ID: u64 = 1 << 62;

/// Strangers are warned about once each; beyond this many, new ones are not (spec E-2).
const MAX_REMEMBERED_STRANGERS: usize = 1_000;

/// At most this many executors are told as lost at a start: a damaged record must not keep the driver from starting.
const MAX_LOST: usize = 1_000_000;

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
    /// Counts the news, so that a list can be told what came before it was asked for.
    count: u64,
    highest: ResourceVersion,
    /// Uids of executors that left the snapshot → when (spec S-14).
    tombstones: BTreeMap<PodUid, u64>,
    /// Entries that are gone → the snapshot in which they were first so.
    gone: BTreeMap<ExecutorId, u64>,
    strangers: BTreeSet<PodUid>,
}

/// What news came to.
#[derive(Debug, Default)]
pub struct Applied {
    /// The new snapshot, where anything changed.
    pub snapshot: Option<Snapshot>,
    /// Whether subscribers should hear of it; session facts alone are not worth a batch (spec S-24).
    pub worth_a_batch: bool,
    /// For the log.
    pub notes: Vec<Note>,
}

/// Something that people may want to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// An entry changed: before and after.
    Changed(Option<Arc<Entry>>, Arc<Entry>),
    /// A pod bears our labels but is not one of ours (spec E-2).
    Stranger(Arc<Pod>, Arc<str>),
    /// A pod that came too late, or a copy (spec E-3).
    Ghost(Arc<Pod>),
    /// A pod could not be read (spec S-15).
    Unreadable(Unreadable),
    /// The API server was restored or emptied (spec S-13).
    NewEpoch {
        /// The history that begins.
        epoch: Epoch,
        /// The list's version.
        version: ResourceVersion,
        /// The highest version seen before.
        highest: ResourceVersion,
    },
    /// A list was older than what is known (spec S-11).
    StaleList {
        /// Its version.
        version: ResourceVersion,
        /// The highest version seen when it was asked for.
        highest: ResourceVersion,
    },
    /// The first list is in.
    Adopted {
        /// How many executors were found.
        found: usize,
        /// How many that the record knows were not.
        lost: usize,
    },
    /// News that changed nothing.
    Ignored(&'static str),
}

/// What became of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListOutcome {
    /// The history now current.
    pub epoch: Epoch,
    /// Whether it was taken in; not where it was asked for in an older epoch.
    pub accepted: bool,
    /// Whether it was full (spec S-11).
    pub full: bool,
    /// Whether it began a new epoch (spec S-13).
    pub new_epoch: bool,
}

/// What changes while one piece of news is taken in.
#[derive(Default)]
struct Draft {
    executors: Vec<ExecutorId>,
    ghosts: Vec<PodUid>,
    other: bool,
    session: bool,
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
                (
                    profile,
                    Target {
                        executors,
                        since: now.tick,
                    },
                )
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
            count: 0,
            highest: ResourceVersion::ZERO,
            tombstones: BTreeMap::new(),
            gone: BTreeMap::new(),
            strangers: BTreeSet::new(),
        }
    }

    /// The current snapshot.
    pub fn current(&self) -> &Snapshot {
        &self.current
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
    pub fn list(&mut self, listed: Listed, now: Now) -> (ListOutcome, Applied) {
        let mut draft = Draft::default();
        let outcome = self.listed(listed, now, &mut draft);
        (outcome, self.finish(draft))
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
            News::Bookmark { version, epoch } => self.raise(&version, epoch),
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
                if self.current.ghosts.remove(&uid).is_some() {
                    draft.ghosts.push(uid);
                } else if let Some(id) = self.holder(&name, &uid) {
                    self.step(id, &EntryNews::DeleteFoundNothing, now, &mut draft);
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
            News::Told { id } => self.step(id, &EntryNews::Told, now, &mut draft),
            News::Retire { ids, why, how } => {
                for id in ids {
                    self.step(id, &EntryNews::Leave(&why, how), now, &mut draft);
                }
            }
            News::Targets(targets) => self.retarget(targets, now, &mut draft),
            News::RecordSeen { uid, epoch } => {
                let current = epoch == self.current.epoch;
                if current && self.current.record.as_ref() != Some(&uid) {
                    self.current.record = Some(uid);
                    draft.other = true;
                }
            }
            News::RecordLost => draft.other |= self.current.record.take().is_some(),
            News::Session {
                id,
                registered,
                idle,
            } => {
                self.step(id, &EntryNews::Session(registered, idle), now, &mut draft);
                draft.session = true;
            }
        }
        self.finish(draft)
    }

    /// Lets go of what is gone and was delivered to every subscriber up to this snapshot (spec S-14).
    pub fn release(&mut self, delivered: u64) -> Applied {
        let mut draft = Draft::default();
        let current = &self.current;
        let released: Vec<ExecutorId> = self
            .gone
            .iter()
            .filter(|(id, since)| {
                let owes = current
                    .entry(**id)
                    .is_some_and(|entry| entry.owes_telling());
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
        let changes = Changes {
            executors,
            ghosts: draft.ghosts,
            other: draft.other,
        };
        if changes.is_empty() {
            return Applied {
                notes: draft.notes,
                ..Applied::default()
            };
        }
        self.current.seq += 1;
        self.current.changes = Arc::new(changes);
        for id in &self.current.changes.executors {
            if self.current.entry(*id).is_some_and(|entry| entry.is_gone()) {
                self.gone.entry(*id).or_insert(self.current.seq);
            }
        }
        Applied {
            snapshot: Some(self.current.clone()),
            worth_a_batch: !draft.session,
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

    /// One news for one entry, through the table.
    fn step(&mut self, id: ExecutorId, news: &EntryNews<'_>, now: Now, draft: &mut Draft) {
        let Some(before) = self.current.entry(id).cloned() else {
            draft.notes.push(Note::Ignored("no such entry"));
            return;
        };
        let at = self.at(now, self.current.epoch);
        match table::next(&before, news, &at) {
            Some(after) => self.put(Some(before), after, draft),
            None => draft.notes.push(Note::Ignored("nothing new")),
        }
    }

    fn put(&mut self, before: Option<Arc<Entry>>, after: Entry, draft: &mut Draft) {
        let id = after.id;
        self.current.replace(id, Some(after));
        if let Some(after) = self.current.entry(id) {
            draft.notes.push(Note::Changed(before, Arc::clone(after)));
        }
        draft.executors.push(id);
    }

    fn raise(&mut self, version: &ResourceVersion, epoch: Epoch) {
        if epoch == self.current.epoch && *version > self.highest {
            self.highest = version.clone();
        }
    }

    /// The executor whose bound pod this is. Names never change, so a pod's name leads to the entry.
    fn holder(&self, name: &str, uid: &PodUid) -> Option<ExecutorId> {
        let id = ids::id_in_pod_name(&self.identity.prefix, name)?;
        self.current
            .entry(id)
            .filter(|entry| entry.uid() == Some(uid))
            .map(|entry| entry.id)
    }

    /// The executor that waits for its pod to be seen for the first time, and may be bound to this one (spec E-1).
    fn awaits(&self, pod: &Pod) -> Option<ExecutorId> {
        let Claim::Executor {
            id, incarnation, ..
        } = &pod.claim
        else {
            return None;
        };
        let entry = self.current.entry(*id)?;
        let unbound = matches!(entry.state, State::Sent(_) | State::Unknown(_));
        let asked_for_it = entry.incarnation == self.identity.incarnation
            && *incarnation == Some(self.identity.incarnation);
        (unbound && asked_for_it).then_some(*id)
    }

    fn seen(&mut self, pod: &Sighting, epoch: Epoch, now: Now, draft: &mut Draft) {
        if epoch != self.current.epoch {
            draft
                .notes
                .push(Note::Ignored("a pod seen in an earlier epoch"));
            return;
        }
        if let Some(version) = pod.version() {
            self.raise(&version.clone(), epoch);
        }
        match pod {
            Sighting::Read(pod) => self.sight(pod, Authority::Event, true, now, draft),
            Sighting::Unreadable(part) => self.unreadable(part, now, draft),
        }
    }

    /// A pod that could be read, from whichever source; `may_be_ghost` is false for news of a stale list (spec E-3).
    fn sight(
        &mut self,
        pod: &Arc<Pod>,
        authority: Authority<'_>,
        may_be_ghost: bool,
        now: Now,
        draft: &mut Draft,
    ) {
        if let Some(id) = self.holder(&pod.name, &pod.uid) {
            return self.step(id, &EntryNews::Seen(pod, authority), now, draft);
        }
        if self.tombstones.contains_key(&pod.uid) {
            return;
        }
        if let Some(id) = self.awaits(pod) {
            return self.step(id, &EntryNews::Seen(pod, authority), now, draft);
        }
        match &pod.claim {
            Claim::Foreign { .. } => self.drop_ghost(&pod.uid, draft),
            Claim::Stranger { why } => self.meet_stranger(pod, why, draft),
            Claim::Executor { .. } if may_be_ghost => self.haunt(pod, draft),
            Claim::Executor { .. } => {}
        }
    }

    fn meet_stranger(&mut self, pod: &Arc<Pod>, why: &Arc<str>, draft: &mut Draft) {
        self.drop_ghost(&pod.uid, draft);
        let room = self.strangers.len() < MAX_REMEMBERED_STRANGERS;
        if room && self.strangers.insert(pod.uid.clone()) {
            draft
                .notes
                .push(Note::Stranger(Arc::clone(pod), Arc::clone(why)));
        }
    }

    fn drop_ghost(&mut self, uid: &PodUid, draft: &mut Draft) {
        if self.current.ghosts.remove(uid).is_some() {
            draft.ghosts.push(uid.clone());
        }
    }

    fn haunt(&mut self, pod: &Arc<Pod>, draft: &mut Draft) {
        let known = self.current.ghosts.get(&pod.uid);
        let held = known.filter(|ghost| ghost.epoch == self.current.epoch);
        if held.is_some_and(|ghost| ghost.version >= pod.version) {
            return;
        }
        let ghost = Ghost {
            name: Arc::clone(&pod.name),
            version: pod.version.clone(),
            terminating: pod.deletion.is_some(),
            epoch: self.current.epoch,
            seen_at: known.map_or(self.count, |ghost| ghost.seen_at),
        };
        if known.is_none() {
            draft.notes.push(Note::Ghost(Arc::clone(pod)));
        }
        self.current.ghosts.insert(pod.uid.clone(), ghost);
        draft.ghosts.push(pod.uid.clone());
    }

    fn unreadable(&mut self, part: &Unreadable, now: Now, draft: &mut Draft) {
        draft.notes.push(Note::Unreadable(part.clone()));
        let Some(name) = &part.name else { return };
        let Some(id) = ids::id_in_pod_name(&self.identity.prefix, name) else {
            return;
        };
        let other_pod = self
            .current
            .entry(id)
            .and_then(|entry| entry.uid())
            .is_none_or(|uid| part.uid.as_ref().is_some_and(|seen| seen != uid));
        if !other_pod {
            self.step(
                id,
                &EntryNews::SeenUnreadable(part.version.as_ref()),
                now,
                draft,
            );
        }
    }

    fn deleted(&mut self, pod: &Sighting, epoch: Epoch, now: Now, draft: &mut Draft) {
        if epoch != self.current.epoch {
            draft
                .notes
                .push(Note::Ignored("a deletion seen in an earlier epoch"));
            return;
        }
        if let Some(version) = pod.version() {
            self.raise(&version.clone(), epoch);
        }
        let pod = match pod {
            Sighting::Read(pod) => pod,
            // Nobody can tell whether it was deleted or left the selector: a look-up can (spec S-15).
            Sighting::Unreadable(part) => {
                draft.notes.push(Note::Unreadable(part.clone()));
                let id = part.name.as_ref().zip(part.uid.as_ref());
                if let Some(id) = id.and_then(|(name, uid)| self.holder(name, uid)) {
                    self.step(id, &EntryNews::Lacked, now, draft);
                }
                return;
            }
        };
        if let Some(id) = self
            .holder(&pod.name, &pod.uid)
            .or_else(|| self.awaits(pod))
        {
            return self.step(id, &EntryNews::Deleted(pod), now, draft);
        }
        self.drop_ghost(&pod.uid, draft);
        self.strangers.remove(&pod.uid);
    }

    fn requested(&mut self, id: ExecutorId, outcome: Outcome, now: Now, draft: &mut Draft) {
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
    fn created_too_late(&mut self, sighting: &Sighting, draft: &mut Draft) {
        if let Sighting::Read(pod) = sighting
            && !self.tombstones.contains_key(&pod.uid)
        {
            self.haunt(pod, draft);
        }
    }

    /// What is known of a pod that we made and that cannot be read: it is there, and Odd (spec S-15).
    fn odd_pod(&self, entry: &Entry, part: &Unreadable) -> Option<Arc<Pod>> {
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

    fn looked_up(
        &mut self,
        id: ExecutorId,
        sent: crate::model::Tick,
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

    fn retarget(&mut self, targets: BTreeMap<ProfileName, u32>, now: Now, draft: &mut Draft) {
        for (profile, executors) in targets {
            let same = self
                .current
                .targets
                .get(&profile)
                .is_some_and(|t| t.executors == executors);
            if !same {
                self.current.targets.insert(
                    profile,
                    Target {
                        executors,
                        since: now.tick,
                    },
                );
                draft.other = true;
            }
        }
    }

    fn listed(&mut self, listed: Listed, now: Now, draft: &mut Draft) -> ListOutcome {
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
    fn named(&self, item: &Sighting) -> Option<ExecutorId> {
        let id = ids::id_in_pod_name(&self.identity.prefix, item.name()?)?;
        let uid = match item {
            Sighting::Read(pod) => Some(&pod.uid),
            Sighting::Unreadable(part) => part.uid.as_ref(),
        };
        let bound = self.current.entry(id).and_then(|entry| entry.uid());
        let another = bound.zip(uid).is_some_and(|(bound, seen)| bound != seen);
        (!another).then_some(id)
    }

    fn begin_epoch(&mut self, version: &ResourceVersion, draft: &mut Draft) {
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

    /// Binds a pod that the first list found (spec O-31); `false` where it is none of ours to adopt.
    fn adopt(&mut self, pod: &Arc<Pod>, now: Now, draft: &mut Draft) -> bool {
        let Claim::Executor {
            id,
            profile,
            incarnation,
        } = &pod.claim
        else {
            return false;
        };
        if self.current.entry(*id).is_some() || self.current.ended.contains(*id) {
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
        let at = self.at(now, epoch);
        if let Some(bound) = table::next(&entry, &EntryNews::Created(pod), &at) {
            self.put(None, bound, draft);
        }
        true
    }

    /// Closes every id up to the last one that may have been used and was not found (spec L-1, O-31).
    fn complete_adoption(&mut self, now: Now, draft: &mut Draft) {
        let found = self.current.entries.len();
        let mut lost = 0;
        let missing: Vec<ExecutorId> = (self.inheritance.bound.intervals())
            .flat_map(|(first, last)| (first.get()..=last.get()).filter_map(ExecutorId::new))
            .take(MAX_LOST)
            .filter(|id| self.current.entry(*id).is_none() && !self.current.ended.contains(*id))
            .collect();
        for id in missing {
            let profile = self.identity.default_profile.clone();
            let epoch = self.current.epoch;
            let mut entry = Entry::requested(id, profile, Incarnation::default(), now.tick, epoch);
            entry.adopted = true;
            entry.state = State::Gone(Gone {
                bound: None,
                how: HowGone::LostBeforeStart,
                at: now.tick,
            });
            self.put(None, entry, draft);
            lost += 1;
        }
        let highest = self
            .current
            .entries
            .keys()
            .rev()
            .find(|id| id.get() < PLAUSIBLE_ID)
            .copied();
        let last = highest
            .max(self.inheritance.reserved)
            .max(self.current.ended.last());
        if let Some(last) = last {
            self.close_gaps(last);
        }
        self.current.first_free = last.map_or(Some(ExecutorId::FIRST), ExecutorId::next);
        self.current.adopted = true;
        draft.other = true;
        draft.notes.push(Note::Adopted { found, lost });
    }

    /// Ends every id up to `last` that has no entry.
    fn close_gaps(&mut self, last: ExecutorId) {
        let mut open = Some(ExecutorId::FIRST);
        let known: Vec<ExecutorId> = self
            .current
            .entries
            .keys()
            .copied()
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

    /// What a full list lacks, of what was known before it was asked for (spec S-12).
    fn judge_absent(
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
