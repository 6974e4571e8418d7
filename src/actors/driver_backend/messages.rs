//! The messages that DriverBackend receives from the API and from the driver's own task.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::Message;
use serde_json::Value;

use super::autoscaler::scaler::Demand;
use super::status::counts::CountsView;
use super::status::views::StatusView;
use crate::actors::profile_messages::AddedProfile;
use crate::config::{Config, Mistake};
use crate::kubernetes::pod_template::NodeWeights;
use crate::model::{ExecutorId, ProfileName, Snapshot};

/// What an operator or the application wants of the executors. Answered when the ledger has it.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<CommandOutcome, Refused>")]
pub enum Command {
    /// Sets the targets of these profiles.
    SetTargets(BTreeMap<ProfileName, u32>),
    /// Has these executors leave.
    Retire {
        ids: BTreeSet<ExecutorId>,
        /// Whether they are replaced; otherwise their targets fall.
        replace: bool,
        way: Way,
        /// The requester, for logs and events.
        by: Arc<str>,
    },
    /// Has all executors finish their work and exit, and keeps the targets for a resume.
    Hold {
        /// The requester; `None` if the application was silent for too long.
        by: Option<Arc<str>>,
    },
    /// Restores the targets from before the hold.
    Resume,
    /// Renews the application's liveness.
    Renew,
}

/// How executors leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// They are killed.
    Kill {
        /// Whether busy executors are killed as well.
        force: bool,
    },
    /// They finish their work and exit.
    Decommission {
        /// The time limit; `None`: as configured.
        within: Option<Duration>,
    },
}

/// What came of a command.
#[derive(Debug, Clone, Default)]
pub struct CommandOutcome {
    /// Leave because of the command.
    pub leaving: Vec<ExecutorId>,
    /// Were leaving already.
    pub already_leaving: Vec<ExecutorId>,
    /// Are busy, and were not killed.
    pub busy: Vec<ExecutorId>,
    /// Do not exist, or have ended.
    pub unknown: Vec<ExecutorId>,
    /// The ledger after the command.
    pub ledger: Snapshot,
}

/// Why a command was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("there is no profile {profile}; there are: {known}")]
    UnknownProfile {
        profile: ProfileName,
        /// The names of all profiles.
        known: String,
    },
    #[error("{target} executors of {profile} are too many: at most {most}")]
    TooMany {
        profile: ProfileName,
        target: u32,
        most: u32,
    },
    #[error("profile {profile} has failed: {why}")]
    Failed { profile: ProfileName, why: Arc<str> },
    #[error("profile {profile} is of the pool {pool}, which has the target: set that")]
    OfAPool {
        profile: ProfileName,
        pool: ProfileName,
    },
    /// The executors are not known before adoption.
    #[error("the driver is still reading the cluster's state")]
    BeforeAdoption,
    #[error("the driver ends")]
    Ending,
}

/// How the driver stops: what a request says, and what a signal means (spec O-10).
#[derive(Debug, Clone, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub enum Stop {
    /// Ends this process and leaves the executors to a successor.
    HandOver,
    /// Ends the application.
    End {
        /// The driver's exit code.
        exit_code: u8,
    },
    /// Ends the application because it failed too often: executors may finish their work, and the record stays.
    OverBudget { why: Arc<str> },
    /// Ends the executors and this process, because no driver is wanted for a while: a later driver begins with the same
    /// targets.
    LetGo,
    /// The application was deleted, with its record and this driver's rights: executors go with the record.
    Collected,
}

impl Stop {
    /// The application is over, and has succeeded.
    pub const DONE: Self = Self::End { exit_code: 0 };

    /// The word for it in logs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::HandOver => "HandOver",
            Self::End { .. } => "End",
            Self::OverBudget { .. } => "OverBudget",
            Self::LetGo => "LetGo",
            Self::Collected => "Collected",
        }
    }
}

/// Reports the demand by profile (spec B-40), and the nodes that new executors are to prefer (spec B-54). Answered with the
/// executors it takes, within bounds.
#[derive(Debug, Clone, Default, Message)]
#[rtype(result = "Result<BTreeMap<ProfileName, u32>, RefusedDemand>")]
pub struct PostDemand {
    pub demands: BTreeMap<ProfileName, Demand>,
    /// Of profiles with a demand. Those of the others of them are forgotten.
    pub nodes: BTreeMap<ProfileName, NodeWeights>,
}

/// Why a demand was refused. None of it counts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedDemand {
    #[error("autoscaling is off")]
    Off,
    #[error("there is no profile {0}")]
    UnknownProfile(ProfileName),
    #[error("executors of profile {0} cannot prefer nodes: a set makes their pods")]
    OfASet(ProfileName),
}

/// Adds a profile. Answered with all requested targets, when all other actors know it
/// and its target is set.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<BTreeMap<ProfileName, u32>, RefusedProfile>")]
pub struct AddProfile {
    pub name: ProfileName,
    /// The description, with the keys of the configuration.
    pub described: Value,
}

/// Why a profile was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedProfile {
    /// Executors use the existing profile, or may.
    #[error("there is a profile {0} already, and it is another one")]
    Exists(ProfileName),
    #[error("{0} is the name of a pool")]
    IsPool(ProfileName),
    #[error("profile {name} has failed: {why}")]
    Failed { name: ProfileName, why: Arc<str> },
    /// Executors of the earlier one are left.
    #[error("profile {0} is still being removed")]
    BeingRemoved(ProfileName),
    /// The application record has no room for it.
    #[error("it is too large, or too many profiles were added")]
    TooMuch,
    /// The description is wrong. Has at least one mistake.
    #[error("the profile cannot be as it is described")]
    Mistakes(Vec<Mistake>),
    /// No pod can be built from it.
    #[error("{0}")]
    NoPod(String),
    #[error("the driver cannot take it now")]
    NotNow,
}

/// Removes a profile that was added (spec B-52). Answered with the requested targets of the others, when the application
/// record says so; then a successor goes on with it.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<BTreeMap<ProfileName, u32>, RefusedRemoval>")]
pub struct RemoveProfile(pub ProfileName);

/// Why a profile is not removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedRemoval {
    #[error("there is no profile {0}")]
    Unknown(ProfileName),
    #[error("profile {0} is one of the configuration")]
    Configured(ProfileName),
    /// It is being removed, but a successor would not know.
    #[error("the application record cannot be written now")]
    NotRecorded,
}

/// Lets a profile that has failed begin anew (spec L-41). Answered with the requested targets, when the application record
/// says so. One that has not failed stays as it is.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<BTreeMap<ProfileName, u32>, RefusedReset>")]
pub struct ResetProfile(pub ProfileName);

/// Why a profile is not reset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedReset {
    #[error("there is no profile {0}")]
    Unknown(ProfileName),
    /// It is reset, but a successor would not know.
    #[error("the application record cannot be written now")]
    NotRecorded,
}

/// Takes over settings of the configuration, which was read again (spec C-6). Answered when all of it is in effect, with
/// those of the added profiles that exist already, which stay as they are.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<Vec<ProfileName>, RefusedProfile>")]
pub struct Reconfigure {
    pub added: Vec<AddedProfile>,
    /// Targets above a profile's highest one are lowered.
    pub config: Arc<Config>,
    /// The targets that the configuration has changed.
    pub targets: BTreeMap<ProfileName, u32>,
}

/// Requests the application's status (spec O-42).
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "StatusView")]
pub struct GetStatus;

/// Requests the numbers of the last hour (spec O-82).
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "CountsView")]
pub struct GetCounts;
