//! How many executors of a profile may be requested (spec, B-63).

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Entry, ExecutorId, ProfileName, Snapshot, State, Tick};

use super::allocation::AllocationRules;
use super::crash_loop::{CrashLoop, Permission};
use super::decision::Decision;
use super::gang::Gangs;
use super::pause::Pause;
use super::refusal::RefusalPause;

/// What may be requested now, of one profile.
pub struct Demand {
    pub profile: ProfileName,
    /// Requests of unknown outcome that are sent again.
    pub repeats: Vec<ExecutorId>,
    /// How many executors are missing.
    pub new: u32,
}

impl Demand {
    pub fn total(&self) -> u32 {
        let repeats = u32::try_from(self.repeats.len()).unwrap_or(u32::MAX);
        repeats.saturating_add(self.new)
    }

    /// Limits the total to `most`. Repeats come first because they are older.
    pub fn cut_to(&mut self, most: u32) {
        self.repeats.truncate(most as usize);
        let repeats = u32::try_from(self.repeats.len()).unwrap_or(u32::MAX);
        self.new = self.new.min(most - repeats);
    }
}

/// Everything that determines what may be requested.
pub struct View<'a> {
    pub latest: &'a Snapshot,
    pub settings: &'a AllocationRules,
    /// The early ends of each profile.
    pub crash_loops: &'a BTreeMap<ProfileName, CrashLoop>,
    /// Profiles whose requests are refused.
    pub refusal_pauses: &'a BTreeMap<ProfileName, RefusalPause>,
    /// Profiles with too few running executors.
    pub gangs: &'a Gangs,
    /// Profiles whose PodGroup is refused.
    pub groups_refused: &'a BTreeMap<ProfileName, Pause>,
    /// Requests whose outcome is unknown and that may be sent again.
    pub repeatable: &'a BTreeSet<ExecutorId>,
    /// When the last outage of the API server was over.
    pub server_back: Option<Tick>,
    pub now: Tick,
}

impl View<'_> {
    /// What may be requested now, without profiles that have nothing to request. `promoted`: the spares that take the place of
    /// requests.
    pub fn demands(
        &self,
        promoted: &BTreeMap<ProfileName, Vec<ExecutorId>>,
        decision: &mut Decision,
    ) -> Vec<Demand> {
        let mut repeats = self.due_repeats(decision);
        let mut demands = Vec::new();
        for profile in self.latest.targets.keys() {
            let new = match profile.spares_of() {
                Some(of) if self.lacks(&of, promoted) > 0 => 0,
                _ => self.missing(profile, Some(decision)),
            };
            let promoted = promoted.get(profile).map_or(0, Vec::len);
            let mut demand = Demand {
                profile: profile.clone(),
                repeats: repeats.remove(profile).unwrap_or_default(),
                new: new.saturating_sub(u32::try_from(promoted).unwrap_or(u32::MAX)),
            };
            if demand.total() == 0 {
                continue;
            }
            if let Some(pause) = self.refusal_pauses.get(profile)
                && pause.holds_back()
            {
                decision.wake_at(Some(pause.until), self.now);
                demand.cut_to(u32::from(pause.allows_a_try(self.now)));
            }
            if demand.total() > 0 {
                demands.push(demand);
            }
        }
        demands
    }

    /// How many executors are missing after these promotions, whatever stands in the way: spares come after them (spec
    ///
    fn lacks(
        &self,
        profile: &ProfileName,
        promoted: &BTreeMap<ProfileName, Vec<ExecutorId>>,
    ) -> usize {
        let live = self.latest.counts(profile).live();
        let missing = self.latest.target(profile).saturating_sub(live) as usize;
        missing.saturating_sub(promoted.get(profile).map_or(0, Vec::len))
    }

    /// How many executors are missing and may be requested despite early ends (spec ).
    pub fn missing(&self, profile: &ProfileName, decision: Option<&mut Decision>) -> u32 {
        let live = self.latest.counts(profile).live();
        let missing = self.latest.target(profile).saturating_sub(live);
        // The gangs' own deadline wakes the allocator.
        if self.gangs.waits_until(profile).is_some() {
            return 0;
        }
        match self.crash_loops.get(profile).map(CrashLoop::permission) {
            None | Some(Permission::Free) => {
                let is_vain = self.groups_refused.contains_key(profile)
                    && self.gangs.is_whole(profile, self.latest);
                if is_vain { 0 } else { missing }
            }
            Some(Permission::OneProbe) => missing.min(1),
            Some(Permission::ProbeIsOut) => 0,
            Some(Permission::NoneUntil(until)) => {
                if missing > 0
                    && let Some(decision) = decision
                {
                    decision.wake_at(Some(until), self.now);
                }
                0
            }
        }
    }

    /// Requests of unknown outcome that are sent again now, under the same name (spec A-13).
    fn due_repeats(&self, decision: &mut Decision) -> BTreeMap<ProfileName, Vec<ExecutorId>> {
        let mut due: BTreeMap<ProfileName, Vec<ExecutorId>> = BTreeMap::new();
        for id in self.repeatable {
            let Some(entry) = self.latest.entry(*id) else {
                continue;
            };
            let State::Unknown(unanswered) = &entry.state else {
                continue;
            };
            // A repeat so late would delay the look-up that settles the outcome (spec A-14).
            let last_chance = self.now + self.settings.server_timeout;
            if last_chance > unanswered.since + self.settings.creation_timeout
                || !self.may_repeat(entry)
            {
                continue;
            }
            let failures = unanswered.repeats.saturating_add(1);
            let sent = unanswered.request.sent;
            let backoff = sent + self.settings.repeat_backoff.delay(failures);
            // The end of an outage ends the backoff (spec W-14).
            let back = self.server_back.filter(|back| *back > sent);
            let at = back.map_or(backoff, |back| back.min(backoff));
            if at > self.now {
                decision.wake_at(Some(at), self.now);
                continue;
            }
            due.entry(entry.profile.clone()).or_default().push(*id);
        }
        due
    }

    /// Only a wanted executor of a profile that is not paused is requested again (spec I-3, A-98).
    fn may_repeat(&self, entry: &Entry) -> bool {
        let profile = &entry.profile;
        let wanted = self.latest.counts(profile).live() <= self.latest.target(profile);
        let looping = self.crash_loops.get(profile);
        let gathers = self.gangs.waits_until(profile).is_none();
        wanted && gathers && looping.is_none_or(|looping| looping.may_repeat(entry.id))
    }
}
