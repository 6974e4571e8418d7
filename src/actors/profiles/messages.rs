//! What Profiles is asked, and what it publishes.

use std::sync::Arc;

use actix::Message;
use serde_json::Value;

use crate::config::Mistake;
use crate::kubernetes::ProfileSpec;
use crate::kubernetes::pod_template::TemplateError;
use crate::model::ProfileName;

/// Adds a profile; answered when every recipient of [`ProfileAdded`] knows it, and its target is set.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<(), RefusedProfile>")]
pub struct AddProfile {
    /// Its name.
    pub name: ProfileName,
    /// Its description, by the keys of the configuration.
    pub described: Value,
}

/// Why a profile was refused: nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedProfile {
    /// Executors use it, or may.
    #[error("there is a profile {0} already, and it is another one")]
    Exists(ProfileName),
    /// There is no room for it in the application record.
    #[error("it is too large, or too many profiles were added")]
    TooMuch,
    /// The description is wrong; never without a mistake.
    #[error("the profile cannot be as it is described")]
    Mistakes(Vec<Mistake>),
    /// No pod can be made of it.
    #[error("{0}")]
    NoPod(String),
    /// The driver is ending.
    #[error("the driver cannot take it now")]
    NotNow,
}

/// A profile was added while the driver runs (spec B-26).
///
/// The provisioner refuses a profile of which no pod can be made; every other recipient takes it in.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<(), TemplateError>")]
pub struct ProfileAdded(pub Arc<AddedProfile>);

/// A profile that was added while the driver runs.
#[derive(Debug, Clone)]
pub struct AddedProfile {
    /// Its name.
    pub name: ProfileName,
    /// Its description, as the application record keeps it over a restart.
    pub described: Value,
    /// How many executors are wanted at first.
    pub executors: u32,
    /// How many executors there may be.
    pub bounds: Bounds,
    /// What its pods are made of, with the marks of a gang scheduler.
    pub spec: ProfileSpec,
    /// At most this many executors may be live and not running yet; `None`: as many as are wanted (spec A-4).
    pub max_pending: Option<u32>,
}

/// What holds for the executors of one profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// How many pieces of work one executor does at a time.
    pub slots: u32,
    /// Autoscaling keeps at least this many executors, and a gang has at least this many.
    pub least: u32,
    /// No target is higher.
    pub most: u32,
}
