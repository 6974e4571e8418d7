//! The targets. Only the ledger changes them, on request (spec E-5, B-25, B-28, B-31, B-32).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::executor::{LeaveMethod, LeaveReason};
use crate::news::TargetChange;
use crate::planted::{self, Planted};
use crate::snapshot::{Hold, Target};
use crate::table::EntryNews;
use crate::{Entry, ExecutorId, Now, ProfileName};

use super::{Draft, Ledger, Note};

impl Ledger {
    /// Begins with a hold, which was set before the start.
    pub fn with_executors_held(mut self, hold: Hold) -> Self {
        self.current.held = Some(hold);
        self.current.targets = (self.current.targets.into_iter())
            .map(|(profile, target)| {
                let held = Target {
                    executors: 0,
                    surge: 0,
                    ..target
                };
                (profile, held)
            })
            .collect();
        self
    }

    /// Begins with profiles that are being removed since an earlier start.
    pub fn with_profiles_removed(
        mut self,
        profiles: impl IntoIterator<Item = ProfileName>,
        now: Now,
    ) -> Self {
        let removed = profiles
            .into_iter()
            .map(|profile| (profile, Target::removed(now.tick)));
        self.current.targets.extend(removed);
        self
    }

    /// Begins with profiles that failed too often before the start.
    pub fn with_profiles_failed(
        mut self,
        profiles: impl IntoIterator<Item = (ProfileName, Arc<str>)>,
    ) -> Self {
        for (profile, why) in profiles {
            if let Some(target) = (self.current.targets.get_mut(&profile)).filter(|t| !t.removed) {
                target.executors = 0;
                self.current.failed.insert(profile, why);
            }
        }
        self
    }

    /// Begins with memory limits, in bytes, that had grown before the start.
    pub fn with_memory_limits(
        mut self,
        limits: impl IntoIterator<Item = (ProfileName, u64)>,
    ) -> Self {
        self.current.memory_limits.extend(limits);
        self
    }

    /// Keeps how far the memory of a profile's executors has grown (spec L-43).
    pub(super) fn grow_memory(&mut self, profile: ProfileName, limit: u64, draft: &mut Draft) {
        let known = self.current.targets.get(&profile);
        let before = self.current.memory_limits.get(&profile);
        if known.is_none_or(|known| known.removed) || before.is_some_and(|before| *before >= limit)
        {
            let why = "the profile is not there, or its memory has grown as far already";
            draft.notes.push(Note::Ignored(why));
            return;
        }
        self.current.memory_limits.insert(profile, limit);
        draft.other = true;
    }

    /// Keeps the profile's target at 0 until it is reset (spec L-40).
    pub(super) fn fail_profile(
        &mut self,
        profile: ProfileName,
        why: Arc<str>,
        now: Now,
        draft: &mut Draft,
    ) {
        let known = self.current.targets.get(&profile).copied();
        let has_failed = self.current.failed.contains_key(&profile);
        let Some(target) = known.filter(|known| !known.removed && !has_failed) else {
            let why = "the profile is not there, or has failed already";
            draft.notes.push(Note::Ignored(why));
            return;
        };
        self.current.failed.insert(profile.clone(), why);
        draft.other = true;
        self.set_target(profile, target, now, draft);
    }

    /// The requested target and the configured memory apply again (spec L-41).
    pub(super) fn reset_profile(&mut self, profile: ProfileName, now: Now, draft: &mut Draft) {
        let had_grown = self.current.memory_limits.remove(&profile).is_some();
        if self.current.failed.remove(&profile).is_none() && !had_grown {
            let why = "the profile has not failed, and its memory has not grown";
            draft.notes.push(Note::Ignored(why));
            return;
        }
        draft.other = true;
        if let Some(target) = self.current.targets.get(&profile).copied() {
            self.set_target(profile, target, now, draft);
        }
    }

    /// Keeps the profile's target at 0 (spec B-52).
    pub(super) fn remove_profile(&mut self, profile: ProfileName, now: Now, draft: &mut Draft) {
        let target = Target::removed(now.tick);
        self.set_target(profile, target, now, draft);
    }

    /// A profile that has executors, or that is not being removed, stays.
    pub(super) fn profile_gone(&mut self, profile: &ProfileName, draft: &mut Draft) {
        if !self.current.is_removed(profile) || self.current.has_executors(profile) {
            draft.notes.push(Note::Ignored("the profile is not gone"));
            return;
        }
        self.current.targets.remove(profile);
        self.current.failed.remove(profile);
        self.current.memory_limits.remove(profile);
        self.current.counts.remove(profile);
        draft.other = true;
        draft.notes.push(Note::ProfileForgotten(profile.clone()));
    }

    /// Marks executors as leaving and changes the targets with them (spec L-10, E-5).
    pub(super) fn retire(
        &mut self,
        ids: Vec<ExecutorId>,
        aim: TargetChange,
        why: &LeaveReason,
        how: LeaveMethod,
        now: Now,
        draft: &mut Draft,
    ) {
        let mut counted: BTreeMap<ProfileName, u32> = BTreeMap::new();
        for id in ids {
            let Some(before) = self.current.entry(id).cloned() else {
                draft.notes.push(Note::Ignored("no such entry"));
                continue;
            };
            if aim == TargetChange::Surplus && !self.exceeds_target(&before) {
                draft.notes.push(Note::Ignored("no surplus any more"));
                continue;
            }
            self.advance(Arc::clone(&before), &EntryNews::Leave(why, how), now, draft);
            let leaves = |entry: &Arc<Entry>| entry.leaving.is_some();
            if leaves(&before) || !self.current.entry(id).is_some_and(leaves) {
                continue;
            }
            draft.marked.push(id);
            if before.class().is_live() {
                *counted.entry(before.profile.clone()).or_default() += 1;
            }
        }
        match aim {
            TargetChange::Stay | TargetChange::Surplus => {}
            TargetChange::Fall => counted.into_iter().for_each(|(profile, marked)| {
                self.fall(profile, marked, now, draft);
            }),
            TargetChange::Become(targets) => self.ask_for(targets, true, now, draft),
            // Also if an executor has ended meanwhile: its replacement is running.
            TargetChange::Surge(surges) => (surges.into_iter()).for_each(|(profile, by)| {
                self.surge(profile, by, now, draft);
            }),
        }
    }

    /// Whether an executor may leave without a replacement.
    fn exceeds_target(&self, entry: &Entry) -> bool {
        // These choose too many.
        if planted::is(Planted::AdoptedChosen) || planted::is(Planted::SurplusCountedTwice) {
            return true;
        }
        let live = self.current.counts(&entry.profile).live();
        !entry.class().is_live() || live > self.current.target(&entry.profile)
    }

    /// Sets the requested number of executors of these profiles. Another number ends a replacement in progress; an engine
    /// may repeat the same one at any time.
    pub(super) fn ask_for(
        &mut self,
        targets: BTreeMap<ProfileName, u32>,
        is_set: bool,
        now: Now,
        draft: &mut Draft,
    ) {
        for (profile, asked) in targets {
            let known = self.current.targets.get(&profile);
            let same = known.filter(|known| known.asked == asked);
            let target = Target {
                executors: asked,
                since: now.tick,
                asked,
                surge: same.map_or(0, |known| known.surge),
                is_set,
                removed: false,
            };
            self.set_target(profile, target, now, draft);
        }
    }

    /// A replacement in progress continues. During a hold or after a failure nothing changes, because the executors
    /// are leaving already.
    fn fall(&mut self, profile: ProfileName, by: u32, now: Now, draft: &mut Draft) {
        let known = self.current.targets.get(&profile).copied();
        if let Some(target) = known.filter(|_| !self.wants_none(&profile)) {
            let target = Target {
                asked: target.asked.saturating_sub(by),
                is_set: true,
                ..target
            };
            self.set_target(profile, target, now, draft);
        }
    }

    /// During replacements, more executors than requested are wanted (spec B-65, B-71).
    pub(super) fn surge(&mut self, profile: ProfileName, surge: u32, now: Now, draft: &mut Draft) {
        if let Some(target) = self.current.targets.get(&profile).copied() {
            let target = Target { surge, ..target };
            self.set_target(profile, target, now, draft);
        }
    }

    /// Marks all executors as leaving, and the targets become 0 with that (spec B-31).
    pub(super) fn hold(
        &mut self,
        by: Option<Arc<str>>,
        how: LeaveMethod,
        now: Now,
        draft: &mut Draft,
    ) {
        if self.current.held.is_some() {
            draft
                .notes
                .push(Note::Ignored("executors are held already"));
            return;
        }
        let why = LeaveReason::Decommissioned(match &by {
            Some(by) => Arc::from(format!("{by}'s hold")),
            None => Arc::from("the hold of a silent application"),
        });
        let ids = self.current.entries.keys().collect();
        self.retire(ids, TargetChange::Stay, &why, how, now, draft);
        self.current.held = Some(Hold { by });
        draft.other = true;
        for (profile, target) in self.current.targets.clone() {
            self.set_target(profile, target, now, draft);
        }
    }

    /// Ends the hold (spec B-31).
    pub(super) fn resume(&mut self, now: Now, draft: &mut Draft) {
        if self.current.held.take().is_some() {
            draft.other = true;
            for (profile, target) in self.current.targets.clone() {
                self.set_target(profile, target, now, draft);
            }
        }
    }

    /// Whether no executors of the profile are wanted, whatever is requested.
    fn wants_none(&self, profile: &ProfileName) -> bool {
        self.current.held.is_some() || self.current.failed.contains_key(profile)
    }

    /// During a hold no executors are wanted, nor ever again of a profile that is being removed.
    fn set_target(&mut self, profile: ProfileName, target: Target, now: Now, draft: &mut Draft) {
        let before = self.current.targets.get(&profile).copied();
        if before.is_some_and(|before| before.removed) {
            return;
        }
        // What is replaced meanwhile ends with that.
        let (executors, surge) = match self.wants_none(&profile) || target.removed {
            true => (0, 0),
            false => (target.asked.saturating_add(target.surge), target.surge),
        };
        let same = before.filter(|before| before.executors == executors);
        let target = Target {
            executors,
            surge,
            since: same.map_or(now.tick, |before| before.since),
            ..target
        };
        if before != Some(target) {
            self.current.targets.insert(profile, target);
            draft.other = true;
        }
    }
}
