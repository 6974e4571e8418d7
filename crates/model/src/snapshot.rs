//! Snapshots, which are immutable views of the ledger, and batches of them (spec S-1 to S-3).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;

use crate::planted::{self, Planted};
use crate::reasoning::reason_of;

use super::claims::PodClaim;
use super::clock::Tick;
use super::entries::Entries;
use super::executor::{Class, Entry};
use super::ids::{Epoch, ExecutorId, Incarnation, PodUid, ProfileName};
use super::intervals::IdSet;
use super::node::Nodes;
use super::reason::LossReason;
use super::version::ResourceVersion;

/// The ledger at one moment. A copy shares all data (spec S-1).
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Increases by one with each snapshot.
    pub seq: u64,
    /// When it became the newest one.
    pub at: Tick,
    /// The API server's epoch.
    pub epoch: Epoch,
    /// Whether the pods of the first quorum list were adopted.
    pub adopted: bool,
    /// All executors whose entry was not removed yet.
    pub entries: Entries,
    /// Pods that bear our labels and an executor's name, but are not the executor's pod.
    pub orphans: OrdMap<PodUid, OrphanPod>,
    /// Whether sets make the pods, so that a pod's name does not identify its executor.
    pub of_sets: bool,
    /// Pods that sets made and that have no executor id yet. They count for nothing.
    pub unassigned: OrdMap<PodUid, UnassignedPod>,
    /// Ids that were bound and that the first list did not show, while that list has pods whose labels are unreadable:
    /// any of those pods may have one of these ids.
    pub not_found: IdSet,
    /// The executors of the bound pods; only where sets make the pods.
    pub by_uid: OrdMap<PodUid, ExecutorId>,
    /// The ids of all executors that have ended.
    pub ended: IdSet,
    /// The first id that this incarnation may use: above all reserved and all found ids. Set by adoption.
    pub first_free: Option<ExecutorId>,
    pub targets: OrdMap<ProfileName, Target>,
    /// The profiles that have failed too often, and why: their targets are 0, whatever is requested.
    pub failed: OrdMap<ProfileName, Arc<str>>,
    /// The limits, in bytes, to which the memory of profiles' executors has grown.
    pub memory_limits: OrdMap<ProfileName, u64>,
    /// The hold in effect: all targets are 0, whatever is requested.
    pub held: Option<Hold>,
    pub counts: OrdMap<ProfileName, Counts>,
    pub nodes: Nodes,
    pub full_list: Option<FullList>,
    /// The uid of the application record, while it is known to exist in this epoch.
    pub record: Option<PodUid>,
    /// The highest incarnation above this driver's that a pod bears.
    pub later: Option<Incarnation>,
    /// How often a list showed a change that the watch should have shown.
    pub drifts: u64,
    /// The changes since the previous snapshot.
    pub changes: Arc<Changes>,
}

/// An orphan pod: it is deleted by uid (spec E-16).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrphanPod {
    pub name: Arc<str>,
    /// The latest version seen.
    pub version: ResourceVersion,
    pub terminating: bool,
    /// The volume claims that it refers to.
    pub claims: Option<Arc<[PodClaim]>>,
    /// The epoch of the version.
    pub epoch: Epoch,
    /// The store's count of news when it was first seen.
    pub seen_at: u64,
}

/// A pod that a set made and that has no executor id yet, or an unreadable one (spec A-80).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnassignedPod {
    pub name: Arc<str>,
    pub profile: Option<ProfileName>,
    /// The latest version seen.
    pub version: ResourceVersion,
    pub terminating: bool,
    /// Whether it was in the first list with unreadable labels, so that it may have an id already.
    pub unread: bool,
    /// The number of its container's restarts when it was first seen without an id.
    pub restarts: u32,
    /// The epoch of the version.
    pub epoch: Epoch,
    /// The store's count of news when it was first seen.
    pub seen_at: u64,
}

/// Executors are held: none is wanted until they are wanted again (spec B-31).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Who requested it; `None` if the application was silent for too long.
    pub by: Option<Arc<str>>,
}

/// A profile's target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// How many executors are wanted now: `asked` and `surge`, 0 during an operator's hold and of a failed profile.
    pub executors: u32,
    /// When `executors` last changed.
    pub since: Tick,
    /// How many were requested.
    pub asked: u32,
    /// How many are wanted in addition, because as many are being replaced.
    pub surge: u32,
    /// Whether `asked` was set at run time, so that the record must contain it.
    pub is_set: bool,
    /// Whether the profile is being removed: its target stays 0.
    pub removed: bool,
}

impl Target {
    /// The target of a profile that is being removed.
    pub fn removed(since: Tick) -> Self {
        Self {
            executors: 0,
            since,
            asked: 0,
            surge: 0,
            is_set: false,
            removed: true,
        }
    }
}

/// A full list (spec S-3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullList {
    pub version: ResourceVersion,
    /// When it was requested.
    pub asked: Tick,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Executors whose entry was inserted, changed or removed.
    pub executors: Vec<ExecutorId>,
    /// The ends that are reported with this snapshot; their executors are also in `executors`. The ledger puts each end
    /// into exactly one snapshot, so each subscriber gets it once.
    pub ends: Vec<Ending>,
    /// Orphan pods that were inserted, changed or removed.
    pub orphans: Vec<PodUid>,
    /// Whether anything else changed: targets, the record, the epoch, adoption.
    pub other: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The executor's entry when the end was reported.
    pub entry: Arc<Entry>,
    pub reason: Arc<LossReason>,
}

impl Ending {
    /// The end of an entry as it is now.
    pub fn of(entry: &Arc<Entry>) -> Self {
        Self {
            entry: Arc::clone(entry),
            reason: Arc::new(reason_of(entry)),
        }
    }
}

impl Changes {
    /// The number of changes; `other` is one.
    pub fn len(&self) -> usize {
        self.executors.len() + self.orphans.len() + usize::from(self.other)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The number of entries of a profile in each class (spec E-6), updated with the entries so that no
/// reader has to count the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub sent: u32,
    pub unknown: u32,
    pub pending: u32,
    pub running: u32,
    /// Odd or absent: live, but not to be chosen for termination.
    pub uncertain: u32,
    pub leaving: u32,
    pub terminating: u32,
    /// Finished, but the pod still exists.
    pub finished: u32,
}

impl Counts {
    /// The number that counts towards the target.
    pub fn live(&self) -> u32 {
        self.sent + self.unknown + self.pending + self.running + self.uncertain
    }

    /// The number of pods that exist or may exist.
    pub fn all(&self) -> u32 {
        self.live() + self.leaving + self.terminating + self.finished
    }

    fn slot(&mut self, class: Class) -> Option<&mut u32> {
        match class {
            Class::Sent => Some(&mut self.sent),
            Class::Unknown => Some(&mut self.unknown),
            Class::Pending(_) => Some(&mut self.pending),
            Class::Running => Some(&mut self.running),
            Class::Odd | Class::Absent => Some(&mut self.uncertain),
            Class::Leaving if planted::is(Planted::LeavingCounts) => Some(&mut self.running),
            Class::Leaving => Some(&mut self.leaving),
            Class::Terminating if planted::is(Planted::TerminatingCounts) => {
                Some(&mut self.running)
            }
            Class::Terminating => Some(&mut self.terminating),
            Class::Finished => Some(&mut self.finished),
            Class::Gone => None,
        }
    }
}

impl Snapshot {
    /// What a new subscriber gets first: all that there is has changed, for somebody who knew nothing (spec S-20).
    pub fn with_everything_changed(&self) -> Self {
        let changes = Changes {
            executors: self.entries.keys().collect(),
            ends: self.changes.ends.clone(),
            orphans: self.orphans.keys().cloned().collect(),
            other: true,
        };
        Self {
            changes: Arc::new(changes),
            ..self.clone()
        }
    }

    pub fn entry(&self, id: ExecutorId) -> Option<&Arc<Entry>> {
        self.entries.get(id)
    }

    /// The profile's target; 0 if it has none.
    pub fn target(&self, profile: &ProfileName) -> u32 {
        self.targets
            .get(profile)
            .map_or(0, |target| target.executors)
    }

    /// Whether the profile is being removed (spec B-52).
    pub fn is_removed(&self, profile: &ProfileName) -> bool {
        (self.targets.get(profile)).is_some_and(|target| target.removed)
    }

    /// The profiles that are being removed (spec B-52).
    pub fn removed(&self) -> impl Iterator<Item = &ProfileName> {
        (self.targets.iter())
            .filter(|(_, target)| target.removed)
            .map(|(profile, _)| profile)
    }

    /// Whether anything of the profile's executors is left. Reads the entries only if no count says so.
    pub fn has_executors(&self, profile: &ProfileName) -> bool {
        let is_of = |pod: &UnassignedPod| pod.profile.as_ref() == Some(profile);
        self.counts(profile).all() > 0
            || self.unassigned.values().any(is_of)
            || (self.entries.values()).any(|entry| entry.profile == *profile)
    }

    pub fn counts(&self, profile: &ProfileName) -> Counts {
        self.counts.get(profile).copied().unwrap_or_default()
    }

    /// Inserts, replaces or removes an entry, and updates the counts; O(log n).
    pub fn replace(&mut self, id: ExecutorId, entry: Option<Entry>) {
        match entry {
            Some(entry) => self.put(Arc::new(entry)),
            None => {
                if let Some(old) = self.entries.remove(id) {
                    self.count(&old, |n| *n = n.saturating_sub(1));
                }
            }
        }
    }

    /// Inserts or replaces an entry, and updates the counts; O(log n).
    pub fn put(&mut self, entry: Arc<Entry>) {
        let before = self.entries.insert(Arc::clone(&entry));
        let same_place = (before.as_ref())
            .is_some_and(|old| old.class() == entry.class() && old.profile == entry.profile);
        if same_place {
            return;
        }
        if let Some(old) = before {
            self.count(&old, |n| *n = n.saturating_sub(1));
        }
        self.count(&entry, |n| *n += 1);
    }

    fn count(&mut self, entry: &Entry, change: impl FnOnce(&mut u32)) {
        let mut counts = self.counts(&entry.profile);
        if let Some(slot) = counts.slot(entry.class()) {
            change(slot);
            self.counts.insert(entry.profile.clone(), counts);
        }
    }
}

/// The snapshots since a subscriber's last batch, oldest first, and the newest snapshot even if
/// none are new.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Shared with the other subscribers' batches.
    snapshots: Vec<Arc<Snapshot>>,
    latest: Snapshot,
}

impl Batch {
    /// `current` is the newest snapshot; it was delivered before if `snapshots` is empty.
    pub fn new(snapshots: Vec<Arc<Snapshot>>, current: Snapshot) -> Self {
        Self {
            snapshots,
            latest: current,
        }
    }

    pub fn latest(&self) -> &Snapshot {
        &self.latest
    }

    /// The new snapshots, oldest first.
    pub fn snapshots(&self) -> &[Arc<Snapshot>] {
        &self.snapshots
    }

    /// The executors that changed in any of the snapshots, without duplicates, ordered by id.
    pub fn changed_executors(&self) -> BTreeSet<ExecutorId> {
        self.snapshots
            .iter()
            .flat_map(|s| s.changes.executors.iter().copied())
            .collect()
    }

    /// The ends reported in any of the snapshots, in the order of the reports.
    pub fn ends(&self) -> impl Iterator<Item = &Ending> {
        self.snapshots.iter().flat_map(|s| &s.changes.ends)
    }

    /// The orphan pods that changed in any of the snapshots, without duplicates.
    pub fn changed_orphans(&self) -> BTreeSet<PodUid> {
        self.snapshots
            .iter()
            .flat_map(|s| s.changes.orphans.iter().cloned())
            .collect()
    }
}

/// The requested number of executors of each profile that is not being removed.
pub fn asked(targets: &OrdMap<ProfileName, Target>) -> BTreeMap<ProfileName, u32> {
    targets
        .iter()
        .filter(|(_, target)| !target.removed)
        .map(|(profile, target)| (profile.clone(), target.asked))
        .collect()
}

pub fn plain_targets(targets: &OrdMap<ProfileName, Target>) -> BTreeMap<ProfileName, u32> {
    targets
        .iter()
        .filter(|(_, target)| !target.removed)
        .map(|(profile, target)| (profile.clone(), target.executors))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: E-6
    #[test]
    fn leaving_terminating_and_finished_executors_exist_and_do_not_count() {
        // Powers of two, so that a sum shows which counts it includes.
        let counts = Counts {
            sent: 1,
            unknown: 2,
            pending: 4,
            running: 8,
            uncertain: 16,
            leaving: 32,
            terminating: 64,
            finished: 128,
        };
        assert_eq!(counts.live(), 1 + 2 + 4 + 8 + 16);
        assert_eq!(counts.all(), 255);
    }
}
