//! What happens to the watch, and what is to be done.

use std::sync::Arc;
use std::time::Duration;

use crate::model::news::News;
use crate::model::pod::Sighting;
use crate::model::{Epoch, ResourceVersion};

/// The number of one call or one timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(in crate::actors::watch_source) struct Serial(pub(super) u64);

/// Why something that was going on is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::actors::watch_source) struct Setback {
    pub(in crate::actors::watch_source) kind: SetbackKind,
    /// In words.
    pub(in crate::actors::watch_source) error: Arc<str>,
    /// How long the server asked to be left alone.
    pub(in crate::actors::watch_source) retry_after: Option<Duration>,
}

/// What a setback means for what comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::actors::watch_source) enum SetbackKind {
    /// The server ended the watch in good order.
    Ended,
    /// Refused, unreachable, broken off.
    Broke,
    /// Nothing came for too long.
    Silent,
    /// 410: the server no longer knows the version (spec W-2).
    Expired,
    /// The list was asked for in an older history (spec S-13).
    Outdated,
}

/// A list as the store judged it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::actors::watch_source) struct Listing {
    pub(in crate::actors::watch_source) version: ResourceVersion,
    pub(in crate::actors::watch_source) epoch: Epoch,
    pub(in crate::actors::watch_source) accepted: bool,
    pub(in crate::actors::watch_source) pods: usize,
}

/// A line of the watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::actors::watch_source) enum Line {
    Seen(Sighting),
    Deleted(Sighting),
    Bookmark(ResourceVersion),
    /// Of a type never heard of, or not to be read at all (spec W-5); in words.
    Garbage(Arc<str>),
}

/// What happens to the watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::actors::watch_source) enum Event {
    Begin,
    Listed {
        call: Serial,
        outcome: Result<Listing, Setback>,
    },
    Opened {
        call: Serial,
    },
    Line {
        call: Serial,
        line: Line,
    },
    Ended {
        call: Serial,
        why: Setback,
    },
    Alarm {
        timer: Serial,
    },
    /// The store learnt of a new history.
    Anew {
        epoch: Epoch,
    },
    Stop,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::actors::watch_source) enum Effect {
    /// Make a quorum list and have the store judge it.
    List { call: Serial },
    /// Watch from this version.
    Watch {
        call: Serial,
        from: ResourceVersion,
        timeout_seconds: u32,
    },
    /// Drop the call in flight.
    Cut,
    /// Set the timer, in place of the one before.
    Arm { timer: Serial, after: Duration },
    /// Tell the store.
    Tell(News),
    /// Tell people.
    Report(Report),
}

/// What people are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::actors::watch_source) enum Report {
    /// A list was taken in; `first` of this process.
    Synced { first: bool, pods: usize },
    /// An attempt that showed nothing; `first` since something worked.
    Trouble {
        first: bool,
        error: Arc<str>,
        from: Option<ResourceVersion>,
        wait: Duration,
    },
    /// What worked until now is over, and is taken up again: the normal life of a watch.
    Again {
        error: Arc<str>,
        from: Option<ResourceVersion>,
        wait: Duration,
    },
    /// Something worked again.
    Recovered,
    /// A line could not be read; the how-manieth.
    Unreadable { count: u64, error: Arc<str> },
}
