//! What a round of the allocator decides, what it says to people, and how its requests are answered: values.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::model::executor::{How, Why};
use crate::model::failures::{Avoid, KeptFailures};
use crate::model::{Epoch, ExecutorId, ProfileName, Tick};

use super::claims::making::Ensure;
use super::crash_loop::Kept;
use super::refusal::Kind;

/// What a round decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Ask for this executor, for the first time.
    Request {
        /// Under this id.
        id: ExecutorId,
        /// Of this profile.
        profile: ProfileName,
    },
    /// Ask for it again, under the same name (spec A-13).
    Repeat {
        /// Which one.
        id: ExecutorId,
        /// Of this profile.
        profile: ProfileName,
    },
    /// These go, for this reason and in this way (spec L-10).
    Retire(Vec<ExecutorId>, Why, How),
    /// List the application's claims on volumes, in this history of the server's (spec A-60).
    ListClaims(Epoch),
    /// See to it that this claim is there (spec K-10).
    EnsureClaim(Ensure),
    /// Reserve ids up to this one (spec O-30).
    Reserve(ExecutorId),
    /// Keep these backoffs over a restart (spec O-30).
    Keep(BTreeMap<ProfileName, Kept>),
    /// Keep these failures over a restart (spec L-30).
    KeepFailures(KeptFailures),
    /// New executors are to avoid these nodes, and no others, from now on (spec L-32).
    Avoid(Avoid),
    /// Tell people.
    Say(Notice),
}

/// Something that people want to read, once when it begins and once when it ends (spec A-31).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A profile's executors end early: it backs off.
    BackoffBegan {
        /// Which profile.
        profile: ProfileName,
        /// Until the first probe.
        wait: Duration,
    },
    /// Its probe stayed.
    BackoffEnded {
        /// Which profile.
        profile: ProfileName,
        /// How long it took.
        after: Duration,
    },
    /// Too few of a profile came: those that do not run are let go (spec B-20).
    GangMissed {
        /// Which profile.
        profile: ProfileName,
        /// How many would have had to be there.
        least: u32,
        /// How many were.
        there: u32,
        /// Until they are asked for again.
        wait: Duration,
    },
    /// Enough came, or nobody wants them any more.
    GangOver {
        /// Which profile.
        profile: ProfileName,
        /// After this long.
        after: Duration,
    },
    /// A profile's requests are refused.
    HoldBegan {
        /// Which profile.
        profile: ProfileName,
        /// For what sort of reason.
        kind: Kind,
        /// In the server's words.
        why: Arc<str>,
        /// How long nothing is asked for.
        wait: Duration,
    },
    /// They are accepted again.
    HoldEnded {
        /// Which profile.
        profile: ProfileName,
        /// After this long.
        after: Duration,
    },
    /// The API server is in trouble (spec A-26).
    Degraded {
        /// What it said.
        why: Arc<str>,
    },
    /// It works again.
    Recovered {
        /// After this long.
        after: Duration,
    },
    /// The driver cannot go on: it never had an executor, and never will like this (spec A-24).
    Fatal {
        /// For what sort of reason.
        kind: Kind,
        /// In the server's words.
        why: Arc<str>,
    },
    /// No ids are left.
    OutOfIds,
    /// As many executors were made as the application may have over its life (spec A-5).
    Enough {
        /// So many.
        made: u64,
    },
    /// The application has failed too often: it ends (spec L-30).
    Spent {
        /// In words.
        why: Arc<str>,
    },
}

/// How a request was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// 201.
    Created,
    /// 409: the name is taken; the server works.
    NameTaken,
    /// It was refused, for a reason of the profile's.
    Refused(Kind, Arc<str>),
    /// It was refused or failed, for a reason of the server's; how long to wait, where it said so.
    Trouble(Option<Duration>, Arc<str>),
}

/// What a round decided, and when to decide again without any news.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// What to do, in this order.
    pub actions: Vec<Action>,
    /// A limit cut the round short: the next one should follow at once (spec S-21).
    pub cut_short: bool,
    /// A deadline.
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
