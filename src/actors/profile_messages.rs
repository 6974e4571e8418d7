//! The messages by which actors learn of profiles that are added and removed, and of a changed configuration, while the
//! driver runs (spec B-26, B-52, C-6).
//!
//! Several actors receive each, so they belong to none of them.

use std::sync::Arc;

use actix::Message;
use serde_json::Value;

use crate::config::Config;
use crate::kubernetes::ProfileSpec;
use crate::kubernetes::pod_template::TemplateError;
use crate::model::ProfileName;

/// The configuration was read again (spec C-6). What cannot change while the driver runs is as before.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct NewConfig(pub Arc<Config>);

/// A profile was added while the driver runs (spec B-26). Only the provisioner may refuse it,
/// because no pod can be built from it.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<(), TemplateError>")]
pub struct ProfileAdded(pub Arc<AddedProfile>);

/// The last executor of a removed profile has ended (spec B-52). Answered with whether nothing of the profile is left;
/// otherwise sent again.
#[derive(Debug, Clone, Message)]
#[rtype(result = "bool")]
pub struct ProfileGone {
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
    /// The most executors that may be live and not running yet; `None`: no limit.
    pub max_pending: Option<u32>,
    /// The number of executors that evictions leave; `None`: no PodDisruptionBudget.
    pub min_available: Option<u32>,
}

#[derive(Debug, Clone)]
pub struct KeptProfile {
    pub described: Value,
    /// The proof that a driver added it.
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
