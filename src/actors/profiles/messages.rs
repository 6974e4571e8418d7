//! The messages that Profiles receives and publishes.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::Message;
use serde_json::Value;

use super::Understood;
use crate::config::Mistake;
use crate::kubernetes::ProfileSpec;
use crate::kubernetes::pod_template::TemplateError;
use crate::model::ProfileName;

/// Adds a profile. Answered when all recipients of [`ProfileAdded`] know it and its target is set.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<(), RefusedProfile>")]
pub struct AddProfile {
    pub name: ProfileName,
    /// The description, with the keys of the configuration.
    pub described: Value,
}

/// Adds these profiles of the configuration, which was read again (spec C-6). Answered as [`AddProfile`], with those
/// that exist already, which stay as they are.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<Vec<ProfileName>, RefusedProfile>")]
pub struct AddConfigured(pub BTreeMap<ProfileName, Understood>);

/// Removes a profile that was added (spec B-52). Answered when the application record says so; then a successor goes on
/// with it.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<(), RefusedRemoval>")]
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

/// Why a profile was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedProfile {
    /// Executors use the existing profile, or may.
    #[error("there is a profile {0} already, and it is another one")]
    Exists(ProfileName),
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

/// A profile was added while the driver runs (spec B-26). Only the provisioner may refuse it,
/// because no pod can be built from it.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<(), TemplateError>")]
pub struct ProfileAdded(pub Arc<AddedProfile>);

/// A profile is being removed (spec B-52): nothing of it is wanted any more. May be sent twice. Answered when the
/// recipient has done its part.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct ProfileRemoved(pub ProfileName);

/// The last executor of a removed profile has ended (spec B-57). Answered with whether nothing of the profile is left;
/// otherwise sent again.
#[derive(Debug, Clone, Message)]
#[rtype(result = "bool")]
pub struct ForgetProfile {
    pub name: ProfileName,
    /// Its description, with the keys of the configuration.
    pub described: Arc<Value>,
}

#[derive(Debug, Clone)]
pub struct AddedProfile {
    pub name: ProfileName,
    /// What the application record keeps for later starts; `None`: the configuration has the profile.
    pub kept: Option<KeptProfile>,
    /// The first target.
    pub executors: u32,
    pub bounds: Bounds,
    /// The specification of its pods, including what a gang scheduler needs.
    pub spec: ProfileSpec,
    /// The most executors that may be live and not running yet; `None`: no limit (spec A-4).
    pub max_pending: Option<u32>,
    /// The number of executors that evictions leave; `None`: no PodDisruptionBudget (spec K-12).
    pub min_available: Option<u32>,
}

#[derive(Debug, Clone)]
pub struct KeptProfile {
    pub described: Value,
    /// The proof that a driver added it (spec O-58).
    pub proof: Option<Arc<str>>,
}

/// The limits of one profile's executors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The number of tasks that one executor runs at a time.
    pub slots: u32,
    /// The least target of autoscaling, and the least size of a gang.
    pub least: u32,
    /// The highest target.
    pub most: u32,
}
