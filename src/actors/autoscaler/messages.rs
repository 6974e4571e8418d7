use std::collections::BTreeMap;

use actix::Message;

use super::scaler::{Demand, Settings};
use crate::kubernetes::pod_template::NodeWeights;
use crate::model::ProfileName;

/// Reports the demand by profile (spec B-40), and the nodes that new executors are to prefer (spec B-54). Answered with the
/// executors it takes, within bounds.
#[derive(Debug, Clone, Default, Message)]
#[rtype(result = "Result<BTreeMap<ProfileName, u32>, RefusedDemand>")]
pub struct PostDemand {
    pub demands: BTreeMap<ProfileName, Demand>,
    /// Of profiles with a demand. Those of the others of them are forgotten.
    pub nodes: BTreeMap<ProfileName, NodeWeights>,
}

/// Takes over settings of the configuration, which was read again (spec C-6).
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct NewSettings {
    pub settings: Settings,
    /// The highest target of each profile.
    pub most: BTreeMap<ProfileName, u32>,
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
