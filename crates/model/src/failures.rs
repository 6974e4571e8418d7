//! The failures that survive a restart, and the nodes that new executors avoid because of them (spec L-30, L-32,
//! O-30).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::intervals::IdSet;

/// Groups of failures: the time of the group's last one, in milliseconds of Unix time, and their number.
pub type Times = Vec<(i64, u32)>;

/// The failures in the application record. Their size is bounded, however many failures there were.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KeptFailures {
    /// The largest target so far, from which the default limit is derived.
    pub largest: u32,
    /// All failures that still count.
    pub all: Times,
    /// Those that count for a node, by the node's name.
    pub nodes: BTreeMap<String, Times>,
    /// Executors whose end was counted and whose pods a successor may still find. It does not count them again.
    #[serde(skip)]
    pub counted: IdSet,
    /// Set if the limit was exceeded, with the reason. A successor that reads it must end the application.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spent: Option<Arc<str>>,
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
