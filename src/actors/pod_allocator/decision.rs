//! The values of the allocator's decisions: actions, notices for the operator, answers to requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::actors::failures::Spent;
use crate::model::executor::{LeaveMethod, LeaveReason};
use crate::model::failures::{Avoid, KeptFailures};
use crate::model::{Entry, Epoch, ExecutorId, LossReason, ProfileName, Tick};

use super::claims::making::{self, Ensure};
use super::crash_loop::BackoffState;
use super::queue;
use super::refusal::RefusalKind;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Request this executor for the first time.
    Request {
        id: ExecutorId,
        profile: ProfileName,
    },
    /// Request it again under the same name.
    Repeat {
        id: ExecutorId,
        profile: ProfileName,
    },
    /// Let these spares begin.
    Promote(Vec<ExecutorId>),
    /// Mark these executors as leaving.
    Retire(Vec<ExecutorId>, LeaveReason, LeaveMethod),
    /// List the application's volume claims in this epoch.
    ListClaims(Epoch),
    /// Make sure that this claim exists.
    EnsureClaim(Ensure),
    /// Reserve ids up to this one in the record.
    Reserve(ExecutorId),
    /// Write these backoffs to the record.
    KeepBackoffs(BTreeMap<ProfileName, BackoffState>),
    /// Write these failures to the record.
    KeepFailures(KeptFailures),
    /// New executors avoid exactly these nodes from now on.
    Avoid(Avoid),
    /// The memory of new executors of these profiles, and of no other, has grown to these limits, in bytes.
    LimitMemory(BTreeMap<ProfileName, u64>),
    /// Write these Workloads, then read all.
    Queue(Vec<queue::Write>),
    /// Inform the operator.
    Say(Notice),
}

/// A message for the operator, once when a condition begins and once when it ends (spec A-31).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// An executor's program ended for this reason, and its container was started again.
    Restarted(Box<Entry>, Box<LossReason>),
    /// A profile's executors end early: it backs off.
    BackoffBegan {
        profile: ProfileName,
        /// How most of them ended.
        why: Arc<str>,
        /// Until the first probe.
        wait: Duration,
    },
    /// The probe ran long enough.
    BackoffEnded {
        profile: ProfileName,
        after: Duration,
    },
    /// Too few executors of a profile run in time: they are retired.
    GangMissed {
        profile: ProfileName,
        /// How many are needed.
        least: u32,
        /// How many run.
        there: u32,
        /// Until new ones are requested.
        wait: Duration,
    },
    /// Enough executors run, or none are wanted any more.
    GangOver {
        profile: ProfileName,
        after: Duration,
    },
    /// The API server refuses a profile's requests.
    RefusalBegan {
        profile: ProfileName,
        kind: RefusalKind,
        /// The server's message.
        why: Arc<str>,
        /// How long nothing is requested.
        wait: Duration,
    },
    /// The API server accepts the profile's requests again.
    RefusalEnded {
        profile: ProfileName,
        after: Duration,
    },
    /// Requests to the API server fail.
    Degraded {
        /// The server's message.
        why: Arc<str>,
    },
    /// Requests to the API server succeed again.
    Recovered { after: Duration },
    /// Calls about claims on volumes fail, or work again.
    Claims(making::Change),
    /// Requests are refused for good before the first executor: the driver ends.
    Fatal {
        kind: RefusalKind,
        /// The server's message.
        why: Arc<str>,
    },
    /// A profile has waited for its queue for a while.
    Queued {
        profile: ProfileName,
        /// Kueue's message.
        why: Arc<str>,
    },
    /// It no longer waits: more of it was admitted, or is not wanted any more.
    Admitted {
        profile: ProfileName,
        after: Duration,
    },
    /// Kueue has queued pods of admitted blocks once more, each by itself, in this LocalQueue.
    QueuedTwice { queue: Arc<str> },
    /// The queue cannot be used.
    QueueTrouble { why: Arc<str> },
    /// It can again.
    QueueWorks { after: Duration },
    /// No executor id is left: nothing is requested any more.
    OutOfIds,
    /// The application has had the most executors it may have over its life.
    Enough { made: u64 },
    /// Executors of a profile were killed because their memory was exhausted: new ones have this limit, in bytes.
    Grown { profile: ProfileName, limit: u64 },
    /// The application has failed too often: it ends.
    Spent { why: Arc<str> },
    /// A profile has failed too often, and the application goes on without it.
    ProfileFailed { profile: ProfileName, why: Arc<str> },
}

impl From<Spent> for Notice {
    fn from(spent: Spent) -> Self {
        match spent {
            Spent::Application(why) => Self::Spent { why },
            Spent::Profile(profile, why) => Self::ProfileFailed { profile, why },
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Created,
    /// 409. The name is taken, but the server works.
    NameTaken,
    /// Refused for a reason of the profile's.
    Refused(RefusalKind, Arc<str>),
    /// Refused or failed for a reason of the server's, with its Retry-After if any.
    Trouble(Option<Duration>, Arc<str>),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// In the order in which they are carried out.
    pub actions: Vec<Action>,
    /// When to decide again without news; now, if a limit cut the round short.
    pub wake: Option<Tick>,
}

impl Decision {
    pub(super) fn say(&mut self, notice: Notice) {
        self.actions.push(Action::Say(notice));
    }

    pub(super) fn wake_at(&mut self, at: Option<Tick>, now: Tick) {
        let Some(at) = at.filter(|at| *at > now) else {
            return;
        };
        self.wake = Some(self.wake.map_or(at, |known| known.min(at)));
    }
}
