//! The failures that survive a restart, and the nodes that new executors avoid, and the memory they get, because of
//! them (spec L-30, L-32, L-43, L-45, O-30).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ids::ProfileName;
use super::intervals::IdSet;
use super::quantity::MEBIBYTE;

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
    /// The limit, in bytes, to which the memory of its executors has grown (spec L-43).
    #[serde(rename = "memoryLimit", skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<u64>,
}

/// How the memory of a profile's executors grows after `OomKilled` (spec L-43).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    /// The configured limit, in bytes.
    pub from: u64,
    /// The highest limit, in bytes.
    pub max: u64,
    /// The factor of each step, in thousandths.
    pub thousandths: u32,
    /// Whether executors that are near their limit get more while they run (spec L-44).
    pub in_place: bool,
}

impl Growth {
    /// The limit, in bytes, for those that replace an executor with this one; `None`: it had all that is allowed.
    pub fn after(self, limit: u64) -> Option<u64> {
        let grown = u128::from(limit) * u128::from(self.thousandths) / 1_000;
        let whole = grown.next_multiple_of(MEBIBYTE.into());
        let grown = u64::try_from(whole).unwrap_or(u64::MAX).min(self.max);
        (grown > limit).then_some(grown)
    }

    /// What becomes of a limit, in bytes, that an earlier driver has reached; `None`: the configured one is as high.
    pub fn resume(self, limit: u64) -> Option<u64> {
        let limit = limit.min(self.max);
        (limit > self.from).then_some(limit)
    }
}

impl KeptFailures {
    /// The grown memory limits, in bytes.
    pub fn memory_limits(&self) -> impl Iterator<Item = (&ProfileName, u64)> {
        (self.profiles.iter()).filter_map(|(profile, budget)| Some((profile, budget.memory_limit?)))
    }

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
    /// Likewise: these have just rejected several executors (spec L-45).
    pub rejecting: Vec<Arc<str>>,
}

impl Avoid {
    pub fn is_empty(&self) -> bool {
        self.never.is_empty() && self.rather_not.is_empty() && self.rejecting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    // spec: L-43
    #[test]
    fn a_limit_grows_by_the_factor_in_whole_mebibytes_and_never_beyond_the_maximum() {
        let growth = Growth {
            from: 100 * MIB,
            max: 1_000 * MIB,
            thousandths: 1_500,
            in_place: false,
        };
        for (limit, grown) in [
            (100 * MIB, Some(150 * MIB)),
            (101 * MIB, Some(152 * MIB)),
            (1, Some(MIB)),
            (700 * MIB, Some(1_000 * MIB)),
            (999 * MIB, Some(1_000 * MIB)),
            (1_000 * MIB, None),
            (u64::MAX, None),
        ] {
            assert_eq!(growth.after(limit), grown, "{limit}");
        }
    }

    // spec: L-43
    #[test]
    fn a_limit_of_an_earlier_driver_applies_between_the_configured_ones() {
        let growth = Growth {
            from: 100,
            max: 300,
            thousandths: 1_500,
            in_place: false,
        };
        for (limit, resumed) in [(99, None), (100, None), (200, Some(200)), (400, Some(300))] {
            assert_eq!(growth.resume(limit), resumed, "{limit}");
        }
    }
}
