//! The pools as the status shows them (spec B-74).

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Pools, Seen, limits};
use crate::model::pool::split;
use crate::model::{ProfileName, Snapshot, Tick};

/// A target over ranked profiles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolView {
    /// The requested number of executors of all its profiles.
    pub target: u32,
    /// Its profiles, the preferred one first.
    pub profiles: Vec<PoolProfileView>,
}

/// A profile of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolProfileView {
    pub profile: String,
    /// What is requested of it.
    pub target: u32,
    /// What would be, if the cluster had room for all.
    pub preferred: u32,
    /// How many are tried in addition, to learn whether there is room again.
    pub trying: u32,
    /// The seconds until more of it are tried, if that is to come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again_in_seconds: Option<u64>,
}

impl Pools {
    /// All pools.
    pub fn views(&self, latest: &Snapshot, now: Tick) -> BTreeMap<String, PoolView> {
        let view = |name: &ProfileName| {
            let pool = self.config.pools.get(name)?;
            let seen = self.seen(pool, latest);
            let target = seen.iter().map(|one| one.asked).sum();
            let preferred = split(target, &limits(pool, &seen, &[]));
            let profile = |((name, one), preferred): ((ProfileName, &Seen), u32)| {
                let member = self.profiles.get(&name);
                let next = member.and_then(|member| member.next_trial);
                PoolProfileView {
                    profile: name.to_string(),
                    target: one.asked,
                    preferred,
                    trying: member
                        .and_then(|member| member.trial)
                        .map_or(0, |trial| trial.of),
                    again_in_seconds: next.map(|next| now.until(next).as_secs()),
                }
            };
            let profiles = pool
                .names()
                .zip(&seen)
                .zip(preferred)
                .map(profile)
                .collect();
            Some((name.to_string(), PoolView { target, profiles }))
        };
        self.config.pools.keys().filter_map(view).collect()
    }
}
