//! What news came to.

use std::sync::Arc;

use super::drift::Contradiction;
use crate::model::pod::Unreadable;
use crate::model::{Entry, Epoch, ExecutorId, Pod, ResourceVersion, Snapshot};

/// What news came to.
#[derive(Debug, Default)]
pub struct Applied {
    /// The new snapshot, where anything changed.
    pub snapshot: Option<Arc<Snapshot>>,
    /// Whether subscribers should hear of it; session facts alone are not worth a batch (spec S-24).
    pub worth_a_batch: bool,
    /// Executors that became leaving because somebody chose them (spec L-10).
    pub marked: Vec<ExecutorId>,
    /// For the log.
    pub notes: Vec<Note>,
}

/// Something that people may want to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// An entry changed: before and after.
    Changed(Option<Arc<Entry>>, Arc<Entry>),
    /// A pod bears our labels but is not one of ours (spec E-2).
    Unrecognised(Arc<Pod>, Arc<str>),
    /// A pod that came too late, or a copy (spec E-3).
    OrphanPod(Arc<Pod>),
    /// A pod that a younger driver asked for (spec W-7).
    Younger(Arc<Pod>),
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
    /// A poll says something else than the watch, which should know (spec P-4).
    Drift(Contradiction),
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
pub enum ListOutcome {
    /// It was asked for in an older epoch, and was not taken in: another one is needed.
    Outdated,
    /// It was taken in, but is older than what had been seen when it was asked for: it is not full (spec S-11).
    Stale,
    /// It was taken in as a full list (spec S-11).
    Full,
    /// It was taken in as a full list, and began a new epoch (spec S-13).
    NewEpoch,
}

/// The ledger's verdict on a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListVerdict {
    /// The epoch that is current now: what is watched from this list belongs to it.
    pub epoch: Epoch,
    pub outcome: ListOutcome,
}

impl ListVerdict {
    pub fn is_taken_in(self) -> bool {
        self.outcome != ListOutcome::Outdated
    }

    pub fn is_full(self) -> bool {
        matches!(self.outcome, ListOutcome::Full | ListOutcome::NewEpoch)
    }

    pub fn begins_epoch(self) -> bool {
        self.outcome == ListOutcome::NewEpoch
    }
}
