//! The failures that survive a restart, and the nodes that new executors avoid because of them (spec L-30, L-32,
//! O-30).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ids::ProfileName;
use super::intervals::IdSet;

/// Groups of failures: the time of the group's last one, in milliseconds of Unix time, and their number.
pub type Times = Vec<(i64, u32)>;

/// The failures in the application record. Their size is bounded, however many failures there were.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KeptFailures {
    pub profiles: BTreeMap<ProfileName, KeptBudget>,
    /// The failures that count for a node, by the node's name.
    pub nodes: BTreeMap<String, Times>,
    /// Executors whose end was counted and whose pods a successor may still find. It does not count them again.
    #[serde(skip)]
    pub counted: IdSet,
    /// Why the application must end, also under a successor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spent: Option<Arc<str>>,
}

/// The failures of one profile.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KeptBudget {
    /// The largest target so far, from which the default limit is derived.
    pub largest: u32,
    /// Those that still count.
    pub times: Times,
    /// Why the profile has failed, also under a successor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<Arc<str>>,
}

impl KeptFailures {
    /// The profiles that have failed, and why.
    pub fn failed(&self) -> impl Iterator<Item = (ProfileName, Arc<str>)> {
        (self.profiles.iter())
            .filter_map(|(profile, budget)| Some((profile.clone(), budget.failed.clone()?)))
    }
}

/// The nodes that new executors avoid.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Avoid {
    /// By required node affinity.
    pub never: Vec<Arc<str>>,
    /// By preferred node affinity only: so many nodes fail that this one may be the last.
    pub rather_not: Vec<Arc<str>>,
}

impl Avoid {
    pub fn is_empty(&self) -> bool {
        self.never.is_empty() && self.rather_not.is_empty()
    }
}
