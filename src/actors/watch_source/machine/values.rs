//! The events and effects of the watch's state machine.

use std::sync::Arc;
use std::time::Duration;

use crate::kubernetes::calls::SeenNode;
use crate::model::news::News;
use crate::model::pod::Sighting;
use crate::model::{Epoch, ResourceVersion, Serial};

/// Why a call or a watch ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::actors::watch_source) struct Trouble {
    pub(in crate::actors::watch_source) kind: TroubleKind,
    /// A human-readable description.
    pub(in crate::actors::watch_source) error: Arc<str>,
    /// The Retry-After of the server's answer.
    pub(in crate::actors::watch_source) retry_after: Option<Duration>,
}

/// How trouble determines the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::actors::watch_source) enum TroubleKind {
    /// The server ended the watch normally.
    Ended,
    /// The request was refused, the server was unreachable, or the connection broke.
    Broke,
    /// Nothing was received for too long.
    Silent,
    /// 410: the server no longer has the version.
    Expired,
    /// The list was begun in an earlier epoch.
    Outdated,
}

/// A list that the store has accepted or rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::actors::watch_source) struct Listing {
    pub(in crate::actors::watch_source) version: ResourceVersion,
    pub(in crate::actors::watch_source) epoch: Epoch,
    pub(in crate::actors::watch_source) accepted: bool,
    pub(in crate::actors::watch_source) objects: usize,
}

/// A line of the watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::actors::watch_source) enum Line {
    Seen(Object),
    Deleted(Object),
    Bookmark(ResourceVersion),
    /// Of an unknown type, or unparsable; with a description.
    Garbage(Arc<str>),
}

/// An object of the kind that is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::actors::watch_source) enum Object {
    Pod(Sighting),
    Node(SeenNode),
}

impl Object {
    pub(in crate::actors::watch_source) fn version(&self) -> Option<&ResourceVersion> {
        match self {
            Self::Pod(pod) => pod.version(),
            Self::Node(seen) => seen.version.as_ref(),
        }
    }

    /// The news that it is there, or was deleted.
    pub(in crate::actors::watch_source) fn news(self, is_deleted: bool, epoch: Epoch) -> News {
        match (self, is_deleted) {
            (Self::Pod(pod), false) => News::Seen { pod, epoch },
            (Self::Pod(pod), true) => News::Deleted { pod, epoch },
            (Self::Node(seen), false) => News::Node(seen.node),
            (Self::Node(seen), true) => News::NodeDeleted(seen.node.name),
        }
    }
}

/// What happens to the watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::actors::watch_source) enum Event {
    Begin,
    Listed {
        call: Serial,
        outcome: Result<Listing, Trouble>,
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
        why: Trouble,
    },
    Alarm {
        timer: Serial,
    },
    /// The store has begun a new epoch.
    Anew {
        epoch: Epoch,
    },
    /// The API server answers again, after this long without any answer.
    ServerIsBack {
        after: Duration,
    },
    Stop,
}

/// What the actor must do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::actors::watch_source) enum Effect {
    /// Make a quorum list and give it to the store.
    List { call: Serial },
    /// Watch from this version.
    Watch {
        call: Serial,
        from: ResourceVersion,
        timeout_seconds: u32,
    },
    /// Cancel the call in flight.
    Cut,
    /// Arm the timer, replacing the previous one.
    Arm { timer: Serial, after: Duration },
    /// Send news to the store.
    Tell(News),
    /// Log a message.
    Report(Report),
}

/// The messages that are logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::actors::watch_source) enum Report {
    /// A list was accepted; `first`: the first one of this process.
    Synced { first: bool, objects: usize },
    /// An attempt failed; `first`: the first failure since the last success.
    Trouble {
        first: bool,
        error: Arc<str>,
        from: Option<ResourceVersion>,
        wait: Duration,
    },
    /// A working watch ended and is resumed, which is normal.
    Again {
        error: Arc<str>,
        from: Option<ResourceVersion>,
        wait: Duration,
    },
    /// An attempt succeeded after failures.
    Recovered,
    /// A line could not be parsed; `count`: the number of such lines so far.
    Unreadable { count: u64, error: Arc<str> },
}
