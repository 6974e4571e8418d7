//! The results of news and of lists.

use std::sync::Arc;

use super::drift::Contradiction;
use crate::pod::Unreadable;
use crate::{Ending, Entry, Epoch, ExecutorId, Pod, ProfileName, ResourceVersion, Snapshot};

/// The result of news.
#[derive(Debug, Default)]
pub struct Applied {
    pub snapshot: Option<Arc<Snapshot>>,
    /// Whether subscribers get a batch. Session facts alone cause none.
    pub worth_a_batch: bool,
    /// Executors that were marked as leaving.
    pub marked: Vec<ExecutorId>,
    pub notes: Vec<Note>,
}

/// Something to be logged. For pods see spec E-2, E-3, S-15 and W-13.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// Before and after.
    Changed(Option<Arc<Entry>>, Arc<Entry>),
    /// An end is reported.
    Ended(Ending),
    /// Nothing is left of a profile that was removed.
    ProfileForgotten(ProfileName),
    Unrecognised(Arc<Pod>, Arc<str>),
    OrphanPod(Arc<Pod>),
    /// Requested by a later incarnation.
    OfLaterIncarnation(Arc<Pod>),
    /// A record that this driver never held owns the pod.
    OfOtherRecord(Arc<Pod>),
    Unreadable(Unreadable),
    NewEpoch {
        epoch: Epoch,
        version: ResourceVersion,
        highest: ResourceVersion,
    },
    /// A list older than what is known.
    StaleList {
        version: ResourceVersion,
        /// The highest version that was seen when the list was requested.
        highest: ResourceVersion,
    },
    /// A poll shows what the watch should have shown.
    Drift(Contradiction),
    Adopted {
        found: usize,
        /// Executors in the record that were not found.
        lost: usize,
    },
    Ignored(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListOutcome {
    /// The list was requested in an earlier epoch and is discarded. Another list is needed.
    Outdated,
    /// The list is older than what was seen when it was requested: it is applied, but proves no
    /// absence.
    Stale,
    Full,
    /// A full list that began a new epoch.
    NewEpoch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListVerdict {
    /// The current epoch. A watch from this list belongs to it.
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
