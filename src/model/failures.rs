//! What is kept of failures over a restart, and what follows from them for new executors (spec L-30, L-32, O-30).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::intervals::IdSet;

/// Failures with their times: when the last of some was, in milliseconds of Unix time, and how many they are.
pub type Times = Vec<(i64, u32)>;

/// What is kept of failures. Its size is bounded, however many there were.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KeptFailures {
    /// The most executors that were ever wanted, which the limit may follow from.
    pub largest: u32,
    /// All that still count.
    pub all: Times,
    /// Those that count by the node on which they were.
    pub nodes: BTreeMap<String, Times>,
    /// Executors whose end was counted and whose pods a successor may still find; it does not count them again.
    #[serde(skip)]
    pub counted: IdSet,
    /// Why the application may not go on, in words: whoever finds it has to bring it to its end (spec L-30).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spent: Option<Arc<str>>,
}

/// What new executors are to avoid.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Avoid {
    /// They do not go there.
    pub never: Vec<Arc<str>>,
    /// They go there only where no other node will do: so many nodes fail that it may be the last one.
    pub rather_not: Vec<Arc<str>>,
}

impl Avoid {
    /// Whether all nodes are as good as any other.
    pub fn is_empty(&self) -> bool {
        self.never.is_empty() && self.rather_not.is_empty()
    }
}
