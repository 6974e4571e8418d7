//! What may be asked for now (spec, B-20).

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Entry, ExecutorId, ProfileName, Snapshot, State, Tick};

use super::allocation::Settings;
use super::crash_loop::{CrashLoop, Permission};
use super::decision::Decision;
use super::gang::Gangs;
use super::refusal::Hold;

/// What may be asked for now, of one profile.
pub struct Demand {
    /// Which one.
    pub profile: ProfileName,
    /// Requests of unknown outcome that are to be sent again.
    pub repeats: Vec<ExecutorId>,
    /// Executors that are missing.
    pub new: u32,
}

impl Demand {
    /// How many requests that is.
    pub fn total(&self) -> u32 {
        let repeats = u32::try_from(self.repeats.len()).unwrap_or(u32::MAX);
        repeats.saturating_add(self.new)
    }

    /// Leaves out what there are no slots for; requests of unknown outcome are the older ones.
    pub fn cut_to(&mut self, most: u32) {
        self.repeats.truncate(most as usize);
        let repeats = u32::try_from(self.repeats.len()).unwrap_or(u32::MAX);
        self.new = self.new.min(most - repeats);
    }
}

/// All that says what may be asked for.
pub struct View<'a> {
    /// What there is, and what is wanted.
    pub latest: &'a Snapshot,
    /// The delays.
    pub settings: &'a Settings,
    /// Whose executors end early.
    pub crash_loops: &'a BTreeMap<ProfileName, CrashLoop>,
    /// Whose requests are refused.
    pub holds: &'a BTreeMap<ProfileName, Hold>,
    /// Of whom too few came.
    pub gangs: &'a Gangs,
    /// Requests whose outcome is unknown and that may be sent again.
    pub doubts: &'a BTreeSet<ExecutorId>,
    /// Now.
    pub now: Tick,
}

impl View<'_> {
    /// What may be asked for now, by profile; profiles of which nothing may be are left out.
    pub fn demands(&self, decision: &mut Decision) -> Vec<Demand> {
        let mut repeats = self.due_repeats(decision);
        let mut demands = Vec::new();
        for profile in self.latest.targets.keys() {
            let mut demand = Demand {
                profile: profile.clone(),
                repeats: repeats.remove(profile).unwrap_or_default(),
                new: self.missing(profile, decision),
            };
            if demand.total() == 0 {
                continue;
            }
            if let Some(hold) = self.holds.get(profile) {
                decision.wake_at(Some(hold.until), self.now);
                demand.cut_to(u32::from(hold.allows_a_try(self.now)));
            }
            if demand.total() > 0 {
                demands.push(demand);
            }
        }
        demands
    }

    /// How many of a profile are missing and, where its executors end early, may be asked for (spec ).
    fn missing(&self, profile: &ProfileName, decision: &mut Decision) -> u32 {
        let live = self.latest.counts(profile).live();
        let missing = self.latest.target(profile).saturating_sub(live);
        // It wakes when its time comes, whatever is missing.
        if self.gangs.waits_until(profile).is_some() {
            return 0;
        }
        match self.crash_loops.get(profile).map(CrashLoop::permission) {
            None | Some(Permission::Free) => missing,
            Some(Permission::OneProbe) => missing.min(1),
            Some(Permission::ProbeIsOut) => 0,
            Some(Permission::NoneUntil(until)) => {
                if missing > 0 {
                    decision.wake_at(Some(until), self.now);
                }
                0
            }
        }
    }

    /// Requests whose outcome is unknown and that are to be sent again now, under the same name (spec A-13).
    fn due_repeats(&self, decision: &mut Decision) -> BTreeMap<ProfileName, Vec<ExecutorId>> {
        let mut due: BTreeMap<ProfileName, Vec<ExecutorId>> = BTreeMap::new();
        for id in self.doubts {
            let Some(entry) = self.latest.entry(*id) else {
                continue;
            };
            let State::Unknown(doubt) = &entry.state else {
                continue;
            };
            // Not so late that it would put off the look-up that settles it (spec A-14).
            let last_chance = self.now + self.settings.server_timeout;
            if last_chance > doubt.since + self.settings.creation_timeout || !self.may_repeat(entry)
            {
                continue;
            }
            let failures = doubt.repeats.saturating_add(1);
            let at = doubt.request.sent + self.settings.repeat_backoff.delay(failures);
            if at > self.now {
                decision.wake_at(Some(at), self.now);
                continue;
            }
            due.entry(entry.profile.clone()).or_default().push(*id);
        }
        due
    }

    /// Nothing is asked for that is not wanted any more, or that its profile must wait for (spec I-3, A-30).
    fn may_repeat(&self, entry: &Entry) -> bool {
        let profile = &entry.profile;
        let wanted = self.latest.counts(profile).live() <= self.latest.target(profile);
        let looping = self.crash_loops.get(profile);
        let gathers = self.gangs.waits_until(profile).is_none();
        wanted && gathers && looping.is_none_or(|looping| looping.may_repeat(entry.id))
    }
}
