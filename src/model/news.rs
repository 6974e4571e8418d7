//! News: what anyone can tell the ledger (spec E-5, E-8).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::clock::Tick;
use super::executor::{How, Why};
use super::ids::{Epoch, ExecutorId, PodUid, ProfileName};
use super::pod::Sighting;
use super::reason::LossReason;
use super::version::ResourceVersion;

/// One piece of news.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A pod was seen: an event of the watch, or the body of an answer that is not about an executor's request.
    Seen {
        /// What was seen.
        pod: Sighting,
        /// The history it belongs to.
        epoch: Epoch,
    },
    /// A DELETED event.
    Deleted {
        /// The pod as it was.
        pod: Sighting,
        /// The history it belongs to.
        epoch: Epoch,
    },
    /// A list came in.
    Listed(Listed),
    /// The watch has come as far as this version.
    Bookmark {
        /// The version.
        version: ResourceVersion,
        /// The history it belongs to.
        epoch: Epoch,
    },
    /// What became of a request for a pod.
    Requested {
        /// Whose.
        id: ExecutorId,
        /// What became of it.
        outcome: Outcome,
    },
    /// An executor was looked up by its pod's name (spec L-11).
    LookedUp {
        /// Which one.
        id: ExecutorId,
        /// When the look-up was sent.
        sent: Tick,
        /// The history in which it was sent.
        epoch: Epoch,
        /// What it found.
        found: Found,
    },
    /// A delete found no such pod: 404, or another uid under that name.
    DeleteFoundNothing {
        /// Which pod; it may be an executor's or an orphan pod.
        uid: PodUid,
        /// The pod's name.
        name: Arc<str>,
    },
    /// The inactive label of a kept pod is confirmed (spec L-2).
    Inactive {
        /// Which executor.
        id: ExecutorId,
        /// Which pod.
        uid: PodUid,
    },
    /// LifecycleManager has judged why an executor ended: the ledger reports that to every subscriber (spec E-9, L-1).
    Reported {
        /// Which executor.
        id: ExecutorId,
        /// Why it ended.
        reason: Arc<LossReason>,
    },
    /// Executors were chosen to go; targets that change with that are in the same message (spec E-5).
    Retire {
        /// Which ones.
        ids: Vec<ExecutorId>,
        /// What becomes of the targets with that.
        aim: Aim,
        /// Why.
        why: Why,
        /// How.
        how: How,
    },
    /// How many executors of each profile are asked for from now on.
    Targets(BTreeMap<ProfileName, u32>),
    /// One executor more than asked for is wanted of this profile while one is replaced, or no longer (spec B-32).
    Surge {
        /// Which profile.
        profile: ProfileName,
        /// Whether the replacement is under way.
        under_way: bool,
    },
    /// Executors are held no longer: as many are wanted as were asked for (spec B-31).
    Resume,
    /// The application record was seen to exist (spec K-2).
    RecordSeen {
        /// Its uid.
        uid: PodUid,
        /// The history in which it was seen.
        epoch: Epoch,
    },
    /// The application record is gone or was replaced: nothing is requested until it is seen again (spec K-2).
    RecordLost,
    /// Ids that were taken for pods of sets and that no pod bears: those pods went before they got them (spec A-80).
    Unused {
        /// Which ids.
        ids: Vec<ExecutorId>,
    },
    /// Session facts of an executor.
    Session {
        /// Which executor.
        id: ExecutorId,
        /// Whether it is registered.
        registered: bool,
        /// Whether it is idle.
        idle: bool,
    },
}

/// What becomes of the targets when executors are chosen to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Aim {
    /// They stay: who goes is replaced, or was one too many.
    Stay,
    /// Each falls by as many of its profile as counted until now and become leaving (spec B-28). What is held stays.
    Fall,
    /// As many executors of the named profiles are asked for.
    Become(BTreeMap<ProfileName, u32>),
    /// The replacements of these executors run: of their profiles as many are wanted as were asked for (spec B-32).
    EndSurge,
    /// None is wanted until executors are held no longer; what was asked for is remembered (spec B-31).
    Hold,
}

/// What became of a request for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is about to be sent for the first time (spec A-11).
    Sent {
        /// The executor's profile.
        profile: ProfileName,
    },
    /// It is about to be sent again (spec A-13).
    SentAgain,
    /// 201, with the pod; the history in which it was sent is the entry's.
    Created(Sighting),
    /// Refused: 4xx, 429, or a connection that failed before anything was sent (spec A-12).
    Refused(Arc<str>),
    /// Anything else: nobody knows (spec A-13).
    Broke(Arc<str>),
    /// 409: the name is taken (spec A-25).
    NameTaken,
}

/// What a look-up found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// A pod of that name.
    Pod(Sighting),
    /// 404.
    Nothing,
    /// No answer: asked again.
    NoAnswer,
}

/// What the store says when a list is about to be asked for; it comes back with the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListTicket {
    /// The store's count of news at that time.
    pub begun_at: u64,
    /// When that was.
    pub tick: Tick,
    /// The highest version seen until then (spec S-11).
    pub highest: ResourceVersion,
    /// The history then.
    pub epoch: Epoch,
}

/// What a list was made for, and how new it has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// The newest there is; the watch goes on from it, and will not show what is older (spec P-4).
    ForWatch,
    /// The newest there is, for the poll.
    PollNewest,
    /// From the server's cache, for the poll (spec P-1).
    PollCached,
}

impl ListKind {
    /// Whether no version was asked for, so that it shows the newest there is (spec S-13).
    pub fn is_newest(self) -> bool {
        self != Self::PollCached
    }
}

/// A list that came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// What the store said before it was asked for.
    pub ticket: ListTicket,
    /// The list's own version.
    pub version: ResourceVersion,
    pub kind: ListKind,
    /// The pods, in the order of the list.
    pub items: Vec<Sighting>,
}
