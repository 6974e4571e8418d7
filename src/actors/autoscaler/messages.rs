use std::collections::BTreeMap;

use actix::Message;

use super::scaler::Demand;
use crate::model::ProfileName;

/// Reports the demand by profile (spec B-40). Answered with the executors it takes, within bounds.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<BTreeMap<ProfileName, u32>, RefusedDemand>")]
pub struct PostDemand(pub BTreeMap<ProfileName, Demand>);

/// Why a demand was refused. None of it counts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedDemand {
    #[error("autoscaling is off")]
    Off,
    #[error("there is no profile {0}")]
    UnknownProfile(ProfileName),
}
