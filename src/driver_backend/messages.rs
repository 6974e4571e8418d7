//! What DriverBackend is told and asked.

use std::collections::BTreeMap;

use actix::{Message, Recipient};

use crate::lifecycle_manager::messages::Ended;
use crate::model::ProfileName;

/// How many executors of each profile are wanted from now on; profiles that are not named keep their target.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<(), UnknownProfile>")]
pub struct SetTargets(pub BTreeMap<ProfileName, u32>);

/// A target for a profile that does not exist: nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no profile {profile}; there are: {known}")]
pub struct UnknownProfile {
    /// The name.
    pub profile: ProfileName,
    /// Those that exist.
    pub known: String,
}

/// Targets that were set while running are kept over a restart (spec O-30).
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct KeepTargets(pub BTreeMap<ProfileName, u32>);

/// Wants to hear of every end from now on.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct HearOfEnds(pub Recipient<Ended>);
