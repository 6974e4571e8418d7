//! What an application and its operators can ask for, and what Commands asks of others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::Message;

use crate::kubernetes::record::Held;
use crate::model::{ExecutorId, ProfileName};

/// Sets how many executors of each profile are wanted; profiles that are not named keep their target. Answered with all
/// targets as they are then (spec B-25).
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<BTreeMap<ProfileName, u32>, RefusedTargets>")]
pub struct SetTargets(pub BTreeMap<ProfileName, u32>);

/// Why targets were refused: nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedTargets {
    /// A target for a profile that does not exist.
    #[error("there is no profile {profile}; there are: {known}")]
    UnknownProfile {
        /// The name.
        profile: ProfileName,
        /// Those that exist.
        known: String,
    },
    /// A target that nobody can mean.
    #[error("{target} executors of profile {profile} are too many: at most {most}")]
    TooMany {
        /// The profile.
        profile: ProfileName,
        /// What was asked for.
        target: u32,
        /// What can be.
        most: u32,
    },
}

impl RefusedTargets {
    /// The profile that it is about.
    pub fn profile(&self) -> &ProfileName {
        match self {
            Self::UnknownProfile { profile, .. } | Self::TooMany { profile, .. } => profile,
        }
    }
}

/// Asks for what is held, while executors are (spec B-31).
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Option<Held>")]
pub struct GetHeld;

/// Kills these executors (spec B-28).
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<CommandOutcome, NotNow>")]
pub struct Kill {
    /// Which ones.
    pub ids: BTreeSet<ExecutorId>,
    /// Whether others take their place; their targets fall otherwise.
    pub replace: bool,
    /// Whether those that have something to do are killed as well.
    pub force: bool,
    /// Who asks, for people.
    pub by: Arc<str>,
}

/// Have these executors finish what they do and go (spec B-30).
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<CommandOutcome, NotNow>")]
pub struct Decommission {
    /// Which ones.
    pub ids: BTreeSet<ExecutorId>,
    /// Whether others take their place; their targets fall otherwise.
    pub replace: bool,
    /// How long they may take; `None`: as configured.
    pub within: Option<Duration>,
    /// Who asks, for people.
    pub by: Arc<str>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandOutcome {
    /// Those that go because of it.
    pub leaving: Vec<ExecutorId>,
    /// Those that were going already.
    pub already_leaving: Vec<ExecutorId>,
    /// Those that were spared, for they have something to do.
    pub busy: Vec<ExecutorId>,
    /// Those that are none, or not any more.
    pub unknown: Vec<ExecutorId>,
    /// How many executors of each profile are wanted then.
    pub targets: BTreeMap<ProfileName, u32>,
}

/// Have all executors finish what they do and go, and remember how many were wanted (spec B-31).
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<Held, NotNow>")]
pub struct Hold {
    /// Who asks; `None`: the application has been silent for too long (spec B-35).
    pub by: Option<Arc<str>>,
}

/// Bring back what was wanted before the executors were held (spec B-31); answered with all targets.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "BTreeMap<ProfileName, u32>")]
pub struct Resume;

/// The application shows that it lives (spec B-35).
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct Renew;

/// What is held is to be kept over a restart, or that nothing is (spec O-30, B-31).
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct KeepHeld(pub Option<Held>);

/// The driver is to stop (spec O-10).
#[derive(Debug, Clone, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub enum Stop {
    /// The application is over, and this is its exit code (spec B-35).
    End {
        /// What the driver exits with.
        exit_code: u8,
    },
    /// This process is over, and a successor goes on.
    HandOver,
    /// The application has failed too often, and is over (spec L-30).
    OverBudget {
        /// In words.
        why: Arc<str>,
    },
}

/// Why it cannot be done: nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotNow {
    /// Who is there is not known before the driver has taken over.
    #[error("the driver is still reading the cluster's state")]
    BeforeAdoption,
    /// It is over.
    #[error("the driver ends")]
    Ending,
}
