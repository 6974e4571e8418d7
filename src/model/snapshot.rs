//! Snapshots: immutable views of all that is known, and batches of them (spec S-1 to S-3).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;

use crate::planted::{self, Planted};

use super::claims::PodClaim;
use super::clock::Tick;
use super::entries::Entries;
use super::executor::{Class, Entry};
use super::ids::{Epoch, ExecutorId, PodUid, ProfileName};
use super::intervals::IdSet;
use super::reason::LossReason;
use super::version::ResourceVersion;

/// All that is known at one instant; a copy shares everything (spec S-1).
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Counts the snapshots of this driver.
    pub seq: u64,
    /// The API server's history that it belongs to (spec S-13).
    pub epoch: Epoch,
    /// Whether the first quorum list is in and what it found was adopted (spec A-2, O-31).
    pub adopted: bool,
    /// Every executor that has not ended.
    pub entries: Entries,
    /// Pods that bear our labels and an executor's name but are not its pod (spec E-3).
    pub orphans: OrdMap<PodUid, OrphanPod>,
    /// Whether sets make the pods, so that a pod's name does not say which executor it is (spec A-80).
    pub of_sets: bool,
    /// Pods that sets have made and that have no id yet; they count for nothing (spec A-80).
    pub unassigned: OrdMap<PodUid, UnassignedPod>,
    /// Ids that were bound and that the first list did not show, while any of its pods may be one of them: nobody could
    /// read which executor those are (spec S-15, L-1).
    pub not_found: IdSet,
    /// Whose each pod is that is bound; only where sets make them (spec A-80).
    pub by_uid: OrdMap<PodUid, ExecutorId>,
    /// Every id that has ended (spec E-9).
    pub ended: IdSet,
    /// The first id that this incarnation may use: beyond all reserved and all found (spec O-31); set at adoption.
    pub first_free: Option<ExecutorId>,
    /// How many executors of each profile are wanted.
    pub targets: OrdMap<ProfileName, Target>,
    /// Whether executors are held: whatever is asked for, none is wanted (spec B-31).
    pub held: bool,
    /// How many entries of each profile are in which class.
    pub counts: OrdMap<ProfileName, Counts>,
    /// The last full list (spec S-3).
    pub full_list: Option<FullList>,
    /// The application record, while it is known to exist in this epoch (spec K-2).
    pub record: Option<PodUid>,
    /// How often a poll said something else than the watch, which should have known (spec P-4).
    pub drifts: u64,
    /// What changed against the snapshot before (spec S-2).
    pub changes: Arc<Changes>,
}

/// A pod to be deleted by uid, though it is no executor (spec E-3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrphanPod {
    /// The pod's name.
    pub name: Arc<str>,
    /// The latest version seen of it.
    pub version: ResourceVersion,
    /// Whether its deletion has begun.
    pub terminating: bool,
    /// The claims on volumes that it mentions (spec A-60).
    pub claims: Option<Arc<[PodClaim]>>,
    /// The history that the version belongs to.
    pub epoch: Epoch,
    /// The store's count of news when it was first seen.
    pub seen_at: u64,
}

/// A pod that a set has made and that has no id yet, or none that could be read (spec A-80).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnassignedPod {
    /// The pod's name.
    pub name: Arc<str>,
    /// Of which profile.
    pub profile: Option<ProfileName>,
    /// The latest version seen of it.
    pub version: ResourceVersion,
    /// Whether its deletion has begun.
    pub terminating: bool,
    /// The first list had it, and nobody could read whether it has an id already.
    pub unread: bool,
    /// How often its container had been started again when it was first seen so.
    pub restarts: u32,
    /// The history that the version belongs to.
    pub epoch: Epoch,
    /// The store's count of news when it was first seen.
    pub seen_at: u64,
}

/// A wanted number of executors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// How many are to run now: as many as were asked for, and one more while a replacement is under way (spec B-32);
    /// none while executors are held (spec B-31).
    pub executors: u32,
    /// Since when `executors` is what it is.
    pub since: Tick,
    /// How many were asked for.
    pub asked: u32,
    /// Whether that was asked for while this driver ran, so that the record has to keep it (spec O-30).
    pub is_set: bool,
}

/// The last full list (spec S-3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullList {
    /// Its resource version.
    pub version: ResourceVersion,
    /// When it was asked for.
    pub asked: Tick,
}

/// What changed between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Executors whose entry changed, appeared or left.
    pub executors: Vec<ExecutorId>,
    /// The ends that are reported with this snapshot; their executors are also among those that changed. The ledger
    /// puts each end into one snapshot, so each subscriber gets it once (spec L-1).
    pub ends: Vec<Ending>,
    /// Orphan pods that appeared, changed or left.
    pub orphans: Vec<PodUid>,
    /// Whether anything else did: targets, the record, the epoch, adoption.
    pub other: bool,
}

/// The reported end of an executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The executor's entry when the end was reported.
    pub entry: Arc<Entry>,
    /// Why it ended.
    pub reason: Arc<LossReason>,
}

impl Changes {
    /// How much changed.
    pub fn len(&self) -> usize {
        self.executors.len() + self.orphans.len() + usize::from(self.other)
    }

    /// Whether nothing changed.
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
    pub doubtful: u32,
    pub leaving: u32,
    pub terminating: u32,
    /// Finished, but the pod still exists.
    pub finished: u32,
}

impl Counts {
    /// The number that counts towards the target.
    pub fn live(&self) -> u32 {
        self.sent + self.unknown + self.pending + self.running + self.doubtful
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
            Class::Odd | Class::Absent => Some(&mut self.doubtful),
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
    pub fn entry(&self, id: ExecutorId) -> Option<&Arc<Entry>> {
        self.entries.get(id)
    }

    /// The profile's target; 0 if it has none.
    pub fn target(&self, profile: &ProfileName) -> u32 {
        self.targets
            .get(profile)
            .map_or(0, |target| target.executors)
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
    /// A batch of these snapshots, on top of the one delivered last (which is the latest where none are new).
    pub fn new(snapshots: Vec<Arc<Snapshot>>, current: Snapshot) -> Self {
        Self {
            snapshots,
            latest: current,
        }
    }

    pub fn latest(&self) -> &Snapshot {
        &self.latest
    }

    /// Each new snapshot, in order.
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

/// How many executors of each profile were asked for, as a plain map.
pub fn asked(targets: &OrdMap<ProfileName, Target>) -> BTreeMap<ProfileName, u32> {
    targets
        .iter()
        .map(|(profile, target)| (profile.clone(), target.asked))
        .collect()
}

pub fn plain_targets(targets: &OrdMap<ProfileName, Target>) -> BTreeMap<ProfileName, u32> {
    targets
        .iter()
        .map(|(profile, target)| (profile.clone(), target.executors))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: E-6
    #[test]
    fn what_is_going_or_finished_is_there_and_not_live() {
        // Powers of two, so that a sum shows which counts it includes.
        let counts = Counts {
            sent: 1,
            unknown: 2,
            pending: 4,
            running: 8,
            doubtful: 16,
            leaving: 32,
            terminating: 64,
            finished: 128,
        };
        assert_eq!(counts.live(), 1 + 2 + 4 + 8 + 16);
        assert_eq!(counts.all(), 255);
    }
}
