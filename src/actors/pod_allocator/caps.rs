//! Limits on pending executors (spec A-4) and on executors over the application's life (spec A-5).

use std::collections::BTreeMap;

use crate::model::snapshot::Counts;
use crate::model::{ProfileName, Snapshot};

use super::demand::Demand;
use super::slots::split_evenly;

/// The limits; `None` means no limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caps {
    /// Live executors that do not run yet, over all profiles.
    pub pending: Option<u32>,
    /// The same for single profiles.
    pub pending_of: BTreeMap<ProfileName, u32>,
    pub over_life: Option<u32>,
}

impl Caps {
    /// Limits new executors to the free slots, which are split evenly over the profiles. Executors whose claims are
    /// refused need none: they would take the slots of other profiles for ever.
    pub fn limit_pending(
        &self,
        latest: &Snapshot,
        demands: &mut [Demand],
        refused: impl Fn(&ProfileName) -> u32,
    ) {
        let pending = |profile: &ProfileName, counts: &Counts| {
            not_running(counts).saturating_sub(refused(profile))
        };
        for demand in demands.iter_mut() {
            if let Some(most) = self.pending_of.get(&demand.profile) {
                let pending = pending(&demand.profile, &latest.counts(&demand.profile));
                demand.new = demand.new.min(most.saturating_sub(pending));
            }
        }
        if let Some(most) = self.pending {
            let pending = (latest.counts.iter()).map(|(profile, counts)| pending(profile, counts));
            let pending = pending.fold(0, u32::saturating_add);
            share(demands, most.saturating_sub(pending));
        }
    }
}

/// Limits new executors to `most` over all profiles, evenly.
pub fn share(demands: &mut [Demand], most: u32) {
    let wants: Vec<u32> = demands.iter().map(|demand| demand.new).collect();
    for (demand, given) in demands.iter_mut().zip(split_evenly(most, &wants)) {
        demand.new = given;
    }
}

/// Live executors that are not known to run or to have run.
fn not_running(counts: &Counts) -> u32 {
    counts.sent + counts.unknown + counts.pending
}
