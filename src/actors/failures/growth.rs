//! Executors that were killed because their memory was exhausted are replaced by ones with more (spec L-43).

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::Failures;
use super::rules::{Verdict, judge};
use crate::model::failures::Growth;
use crate::model::quantity::MEBIBYTE;
use crate::model::recorded_end::exhausted_memory;
use crate::model::{Entry, LossReason, ProfileName};

impl Failures {
    /// A profile was added whose executors' memory grows, or does not.
    pub fn let_grow(&mut self, profile: ProfileName, growth: Option<Growth>) {
        match growth {
            Some(growth) => drop(self.settings.growth.insert(profile, growth)),
            None => drop(self.settings.growth.remove(&profile)),
        }
    }

    /// An executor does not count any more, or its end was reported. Returns whether those that replace it get more memory
    /// than it had, so that its end is no failure (spec L-43).
    pub fn grow(&mut self, entry: &Entry, reason: &LossReason) -> bool {
        let Some(limit) = self.outgrew(entry, reason) else {
            return false;
        };
        if let Some(budget) = self.profiles.get_mut(&entry.profile)
            && budget.memory_limit.is_none_or(|before| before < limit)
        {
            budget.memory_limit = Some(limit);
            self.changed = true;
        }
        true
    }

    /// The limits, in bytes, to which the memory of profiles' executors has grown.
    pub fn memory_limits(&self) -> BTreeMap<ProfileName, u64> {
        (self.profiles.iter())
            .filter_map(|(profile, budget)| Some((profile.clone(), budget.memory_limit?)))
            .collect()
    }

    /// The limit, in bytes, of those that replace an executor that was killed because it had less; `None`: it ended
    /// otherwise, or may not have more.
    fn outgrew(&self, entry: &Entry, reason: &LossReason) -> Option<u64> {
        let limit = self.limit_after(&entry.profile, exhausted_memory(entry, reason))?;
        let stops = judge(&self.settings.rules, reason) == Verdict::Stop;
        (!stops).then_some(limit)
    }

    /// The limit, in bytes, of those that replace an executor of this profile that was killed with this limit, in
    /// mebibytes; `None`: it may not have more.
    pub(super) fn limit_after(
        &self,
        profile: &ProfileName,
        killed_with: Option<NonZeroU32>,
    ) -> Option<u64> {
        let growth = self.settings.growth.get(profile)?;
        growth.after(u64::from(killed_with?.get()) * MEBIBYTE)
    }
}

#[cfg(test)]
mod tests;
