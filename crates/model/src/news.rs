//! News: the facts that are sent to the ledger (spec E-5, E-8).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::clock::Tick;
use super::executor::{LeaveMethod, LeaveReason, Session};
use super::ids::{Epoch, ExecutorId, PodUid, ProfileName};
use super::node::Node;
use super::pod::Sighting;
use super::reason::LossReason;
use super::version::ResourceVersion;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A pod in an event of the watch, or in an answer to anything but a create request.
    Seen {
        pod: Sighting,
        /// The epoch of the pod's resource version.
        epoch: Epoch,
    },
    /// A DELETED event of the watch.
    Deleted {
        /// The pod's last state.
        pod: Sighting,
        /// The epoch of the pod's resource version.
        epoch: Epoch,
    },
    /// The watch has delivered everything up to this version.
    Bookmark {
        version: ResourceVersion,
        epoch: Epoch,
    },
    /// The progress of a create request.
    Requested { id: ExecutorId, outcome: Outcome },
    /// The answer to a look-up of an executor's pod by name.
    LookedUp {
        id: ExecutorId,
        /// When the look-up was sent: it proves nothing about a pod that was bound later.
        sent: Tick,
        /// The epoch in which it was sent.
        epoch: Epoch,
        found: Found,
    },
    /// A delete request found no such pod: 404, or another uid under that name.
    DeleteFoundNothing {
        /// The uid of an executor's pod or of an orphan pod.
        uid: PodUid,
        name: Arc<str>,
    },
    /// The API server has confirmed the inactive label of a kept pod.
    Inactive { id: ExecutorId, uid: PodUid },
    /// LifecycleManager has found out why an executor ended. The ledger reports it to every subscriber.
    Reported {
        id: ExecutorId,
        reason: Arc<LossReason>,
    },
    /// Executors were chosen to terminate. Targets that change with that are in the same message.
    Retire {
        ids: Vec<ExecutorId>,
        aim: TargetChange,
        why: LeaveReason,
        how: LeaveMethod,
    },
    /// The new targets.
    Targets(BTreeMap<ProfileName, u32>),
    /// The new targets of the configuration, which was read again. The record need not contain them.
    Configured(BTreeMap<ProfileName, u32>),
    /// So many executors of this profile are wanted beyond the requested ones, because as many are being replaced.
    Surge { profile: ProfileName, by: u32 },
    /// All executors are chosen to terminate, and the targets are 0 until `Resume`; the requested ones are remembered
    /// (spec B-31). During a hold it changes nothing.
    Hold {
        /// Who requests it; `None` if the application was silent for too long.
        by: Option<Arc<str>>,
        how: LeaveMethod,
    },
    /// Ends the hold: the requested targets apply again.
    Resume,
    /// The profile's target is 0 from now on, whatever is requested.
    Remove(ProfileName),
    /// The profile has failed too often: its target is 0 until `Reset`, whatever is requested.
    Failed { profile: ProfileName, why: Arc<str> },
    /// Executors of this profile that are requested from now on have this memory limit, in bytes.
    Grown { profile: ProfileName, limit: u64 },
    /// The requested target of a failed profile applies again, and its executors' memory limit is the configured one.
    Reset(ProfileName),
    /// Nothing is left of a profile that was being removed.
    ProfileGone(ProfileName),
    /// The application record exists.
    RecordSeen {
        uid: PodUid,
        /// The epoch in which it was seen.
        epoch: Epoch,
    },
    /// The application record is gone or was replaced. Nothing is requested until it is seen again.
    RecordLost,
    /// Ids that were reserved for pods of sets and that no pod bears, because those pods were gone first.
    Unused { ids: Vec<ExecutorId> },
    /// All nodes of the cluster.
    Nodes(Vec<Node>),
    /// A node's newest state.
    Node(Node),
    /// A node is gone.
    NodeDeleted(Arc<str>),
    /// No executor is on this node, which is gone.
    NodeUnused(Arc<str>),
    /// Spares that are needed: each is an executor of the profile that it is a spare of from now on.
    Promote(Vec<ExecutorId>),
    /// The state of an executor's session.
    Session(ExecutorId, Session),
}

/// How the targets change when executors are chosen to terminate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetChange {
    /// They do not change: the executors are replaced.
    Stay,
    /// They do not change: the executors are a surplus. Only as many become leaving as still exceed the target, because
    /// others may have ended since the decision.
    Surplus,
    /// Each is lowered by the number of its profile's executors that counted and become leaving. An
    /// operator's hold continues.
    Fall,
    /// The targets of these profiles are set.
    Become(BTreeMap<ProfileName, u32>),
    /// Replacements of these executors run, or need not be awaited: so many executors of each profile are wanted beyond
    /// the requested ones from now on.
    Surge(BTreeMap<ProfileName, u32>),
}

/// The progress of a create request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The first request is about to be sent.
    Sent {
        profile: ProfileName,
    },
    SentAgain,
    /// 201, with the pod. The entry contains the epoch in which the request was sent.
    Created(Sighting),
    /// 4xx, 429, or a connection that failed before anything was sent: no pod was created.
    Refused(Arc<str>),
    /// Any other failure: whether a pod was created is unknown.
    Broke(Arc<str>),
    /// 409.
    NameTaken,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    Pod(Sighting),
    Nothing,
    /// No answer: the look-up is repeated.
    NoAnswer,
}

/// The state of the store before a list is requested; it is returned with the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListTicket {
    /// The store's count of news.
    pub begun_at: u64,
    pub tick: Tick,
    /// The highest version seen.
    pub highest: ResourceVersion,
    pub epoch: Epoch,
}

/// What a list is for, and how new it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// The newest state. The watch continues from it and does not show what is older.
    ForWatch,
    /// The newest state, for the poll.
    PollNewest,
    /// From the API server's cache, for the poll.
    PollCached,
}

impl ListKind {
    /// Whether no version was requested, so that the list shows the newest state (spec S-13).
    pub fn is_newest(self) -> bool {
        self != Self::PollCached
    }
}

/// A list that was read completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub ticket: ListTicket,
    pub version: ResourceVersion,
    pub kind: ListKind,
    /// In the order of the list.
    pub items: Vec<Sighting>,
}
