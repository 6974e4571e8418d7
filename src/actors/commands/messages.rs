//! The messages that Commands receives from clients and sends to other actors.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::Message;

use crate::kubernetes::record::Held;
use crate::model::{ExecutorId, ProfileName};

/// Sets the targets of these profiles. Answered with all targets after the change (spec B-25).
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<BTreeMap<ProfileName, u32>, RefusedTargets>")]
pub struct SetTargets(pub BTreeMap<ProfileName, u32>);

/// Takes over settings of the configuration, which was read again (spec C-6). Answered when the targets are set.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct Reconfigure {
    pub kill_grace: Duration,
    /// The highest target of each profile. Higher ones are lowered.
    pub most: BTreeMap<ProfileName, u32>,
    /// The targets that the configuration has changed.
    pub targets: BTreeMap<ProfileName, u32>,
}

/// Forgets the targets of these profiles that were set at run time: the configuration says them now (spec C-6).
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct ForgetTargets(pub Vec<ProfileName>);

/// Why targets were refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedTargets {
    #[error("there is no profile {profile}; there are: {known}")]
    UnknownProfile {
        profile: ProfileName,
        /// The names of all profiles.
        known: String,
    },
    #[error("{target} executors of profile {profile} are too many: at most {most}")]
    TooMany {
        profile: ProfileName,
        target: u32,
        most: u32,
    },
}

impl RefusedTargets {
    pub fn profile(&self) -> &ProfileName {
        match self {
            Self::UnknownProfile { profile, .. } | Self::TooMany { profile, .. } => profile,
        }
    }
}

/// Requests the targets that are kept during a hold; `None` without a hold (spec B-31).
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Option<Held>")]
pub struct GetHeld;

/// Kills these executors (spec B-28).
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<CommandOutcome, NotNow>")]
pub struct Kill {
    pub ids: BTreeSet<ExecutorId>,
    /// Whether they are replaced; otherwise their targets fall.
    pub replace: bool,
    /// Whether busy executors are killed as well.
    pub force: bool,
    /// The requester, for logs and events.
    pub by: Arc<str>,
}

/// Has these executors finish their work and exit (spec B-30).
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<CommandOutcome, NotNow>")]
pub struct Decommission {
    pub ids: BTreeSet<ExecutorId>,
    /// Whether they are replaced; otherwise their targets fall.
    pub replace: bool,
    /// The time limit; `None`: as configured.
    pub within: Option<Duration>,
    /// The requester, for logs and events.
    pub by: Arc<str>,
}

/// What a command does to each of the named executors.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandOutcome {
    /// Leave because of the command.
    pub leaving: Vec<ExecutorId>,
    /// Were leaving already.
    pub already_leaving: Vec<ExecutorId>,
    /// Are busy, and were not killed.
    pub busy: Vec<ExecutorId>,
    /// Do not exist, or have ended.
    pub unknown: Vec<ExecutorId>,
    /// The targets after the command.
    pub targets: BTreeMap<ProfileName, u32>,
}

/// Has all executors finish their work and exit, and keeps the targets for a resume (spec B-31).
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<Held, NotNow>")]
pub struct Hold {
    /// The requester; `None` if the application was silent for too long (spec B-35).
    pub by: Option<Arc<str>>,
}

/// Restores the targets from before the hold (spec B-31). Answered with all targets.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "BTreeMap<ProfileName, u32>")]
pub struct Resume;

/// Renews the application's liveness (spec B-35).
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct Renew;

/// Stores the hold, or that there is none, for the next start (spec O-30, B-31).
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct KeepHeld(pub Option<Held>);

/// Stops the driver (spec O-10).
#[derive(Debug, Clone, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub enum Stop {
    /// Ends the application (spec B-35).
    End {
        /// The driver's exit code.
        exit_code: u8,
    },
    /// Ends this process and leaves the executors to a successor.
    HandOver,
    /// Ends the application because it failed too often (spec L-30).
    OverBudget { why: Arc<str> },
}

/// Why a command cannot be carried out. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotNow {
    /// The executors are not known before adoption.
    #[error("the driver is still reading the cluster's state")]
    BeforeAdoption,
    #[error("the driver ends")]
    Ending,
}
