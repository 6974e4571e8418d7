//! What Autoscaler is asked.

use std::collections::BTreeMap;

use actix::Message;

use super::scaler::Demand;
use crate::model::ProfileName;

/// So much is to be done, by profile (spec B-40); answered with how many executors that takes, within bounds.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<BTreeMap<ProfileName, u32>, RefusedDemand>")]
pub struct PostDemand(pub BTreeMap<ProfileName, Demand>);

/// Why a demand was refused: none of it counts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedDemand {
    /// The configuration does not want it.
    #[error("autoscaling is off")]
    Off,
    /// There is no such profile.
    #[error("there is no profile {0}")]
    UnknownProfile(ProfileName),
}
