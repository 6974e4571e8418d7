//! Gangs: executors that are useful only together. If too few of a profile run in time, they are
//! retired to make room (spec B-63).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::model::executor::Class;
use crate::model::{Entry, ExecutorId, ProfileName, Snapshot, Tick};
use boatswain_agent::backoff::Backoff;

#[derive(Debug, Clone, Copy)]
pub struct GangRules {
    /// A gang has this long to come together.
    pub timeout: Duration,
    /// Whether only registered executors count; otherwise running ones do.
    pub registered: bool,
}

/// One gang for each profile that has a minimum.
#[derive(Debug, Default)]
pub struct Gangs {
    settings: Option<GangRules>,
    of: BTreeMap<ProfileName, Gang>,
    /// Executors that were requested without the gang's PodGroup.
    alone: BTreeSet<ExecutorId>,
}

/// A gang did not come together, or did after a miss (spec A-31).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Too few executors ran in time: nothing is requested until then.
    Missed {
        /// How many are needed.
        least: u32,
        /// How many run.
        there: u32,
        until: Tick,
    },
    /// The gang came together after a miss, or is no longer wanted.
    Over { after: Duration },
}

#[derive(Debug)]
struct Gang {
    least: u32,
    /// The members that count. Executors that end are removed.
    there: BTreeSet<ExecutorId>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The target is zero.
    Unwanted,
    Gathering {
        since: Tick,
        missed: Option<Missed>,
    },
    /// Too few executors ran in time: they are retired.
    Released {
        until: Tick,
        missed: Missed,
    },
    /// Enough executors ran. Later losses are replaced as in any profile.
    Complete,
}

/// How often in a row a gang did not come together, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Missed {
    times: u32,
    since: Tick,
}

impl Gangs {
    /// Each profile needs this many executors. Without settings there are no gangs.
    pub fn new(settings: Option<GangRules>, least: &BTreeMap<ProfileName, u32>) -> Self {
        let mut gangs = Self {
            settings,
            ..Self::default()
        };
        for (profile, least) in least {
            gangs.add_profile(profile.clone(), *least);
        }
        gangs
    }

    pub fn add_profile(&mut self, profile: ProfileName, least: u32) {
        if self.settings.is_some() && least > 0 {
            self.of.entry(profile).or_insert_with(|| Gang::of(least));
        }
    }

    pub fn remove_profile(&mut self, profile: &ProfileName) {
        self.of.remove(profile);
    }

    /// An executor has changed. A running one that was adopted may have registered with an earlier
    /// driver, so it counts before it registers again (spec A-44).
    pub fn seen(&mut self, entry: &Entry) {
        let Some(settings) = self.settings else {
            return;
        };
        let Some(gang) = self.of.get_mut(&entry.profile) else {
            return;
        };
        let heard = !settings.registered || entry.adopted || entry.session.registered;
        if entry.class() == Class::Running && heard {
            gang.there.insert(entry.id);
        } else {
            gang.there.remove(&entry.id);
        }
    }

    /// An executor has left the snapshot.
    pub fn removed(&mut self, id: ExecutorId) {
        self.alone.remove(&id);
        for gang in self.of.values_mut() {
            gang.there.remove(&id);
        }
    }

    /// An executor is about to be requested. `freely`: with all others that are missing.
    ///
    /// The scheduler binds none of a PodGroup's pods before as many name it as the gang needs. So a pod names it only while
    /// the gang is requested as a whole, or it might wait for ever (spec A-87).
    pub fn request(
        &mut self,
        id: ExecutorId,
        profile: &ProfileName,
        latest: &Snapshot,
        freely: bool,
    ) {
        if self.of.contains_key(profile) && !(freely && self.is_whole(profile, latest)) {
            self.alone.insert(id);
        }
    }

    /// Whether executors that are requested now, with all others that are missing, name their PodGroup.
    pub fn is_whole(&self, profile: &ProfileName, latest: &Snapshot) -> bool {
        self.of.get(profile).is_some_and(|gang| {
            matches!(gang.phase, Phase::Gathering { .. })
                && latest.target(profile) >= gang.least
                && latest.counts(profile).running == 0
        })
    }

    /// Whether an executor is scheduled by itself.
    pub fn is_alone(&self, id: ExecutorId) -> bool {
        self.alone.contains(&id)
    }

    /// Moves the gangs to their next phase where a deadline or a change requires it. `random` is from [0, 1).
    pub fn tick(
        &mut self,
        snapshot: &Snapshot,
        backoff: &Backoff,
        mut random: impl FnMut() -> f64,
        now: Tick,
    ) -> Vec<(ProfileName, Change)> {
        let Some(settings) = self.settings else {
            return Vec::new();
        };
        (self.of.iter_mut())
            .filter_map(|(profile, gang)| {
                let target = snapshot.target(profile);
                let change = gang.tick(target, settings.timeout, backoff, &mut random, now)?;
                Some((profile.clone(), change))
            })
            .collect()
    }

    /// The executors that must make room. Two gangs of which a part runs would wait for each other for ever, so running
    /// ones leave too, unless there are enough and they have not registered. Adopted ones stay: their gang may have been
    /// complete. Reads the entries only if there are some.
    pub fn released(&self, snapshot: &Snapshot, profile: &ProfileName) -> Vec<ExecutorId> {
        let Some(gang) = self.of.get(profile) else {
            return Vec::new();
        };
        let counts = snapshot.counts(profile);
        if self.waits_until(profile).is_none() || counts.pending + counts.running == 0 {
            return Vec::new();
        }
        let lacks_room = counts.running < gang.least.min(snapshot.target(profile));
        let leaves = |entry: &&Arc<Entry>| {
            let class = entry.class();
            let runs_in_vain = class == Class::Running && lacks_room && !entry.adopted;
            entry.profile == *profile && (class.is_pending() || runs_in_vain)
        };
        (snapshot.entries.values())
            .filter(leaves)
            .map(|entry| entry.id)
            .collect()
    }

    /// Before this time nothing of the profile is requested.
    pub fn waits_until(&self, profile: &ProfileName) -> Option<Tick> {
        match self.of.get(profile)?.phase {
            Phase::Released { until, .. } => Some(until),
            Phase::Unwanted | Phase::Gathering { .. } | Phase::Complete => None,
        }
    }

    /// Since when a gang has been missed, and until when nothing is requested; `None` while it is
    /// tried again (spec A-31).
    pub fn missed(&self, profile: &ProfileName) -> Option<(Tick, Option<Tick>)> {
        match self.of.get(profile)?.phase {
            Phase::Released { until, missed } => Some((missed.since, Some(until))),
            Phase::Gathering { missed, .. } => missed.map(|missed| (missed.since, None)),
            Phase::Unwanted | Phase::Complete => None,
        }
    }

    /// The next deadline.
    pub fn due(&self) -> Option<Tick> {
        let timeout = self.settings?.timeout;
        let due = |gang: &Gang| match gang.phase {
            Phase::Gathering { since, .. } => Some(since + timeout),
            Phase::Released { until, .. } => Some(until),
            Phase::Unwanted | Phase::Complete => None,
        };
        self.of.values().filter_map(due).min()
    }
}

impl Gang {
    fn of(least: u32) -> Self {
        Self {
            least,
            there: BTreeSet::new(),
            phase: Phase::Unwanted,
        }
    }

    /// If the target is below the minimum, the target is enough. `random` is from [0, 1).
    fn tick(
        &mut self,
        target: u32,
        timeout: Duration,
        backoff: &Backoff,
        random: impl FnOnce() -> f64,
        now: Tick,
    ) -> Option<Change> {
        let least = self.least.min(target);
        let there = u32::try_from(self.there.len()).unwrap_or(u32::MAX);
        let over = |missed: Option<Missed>| {
            let after = now.since(missed?.since);
            Some(Change::Over { after })
        };
        if target == 0 {
            return match std::mem::replace(&mut self.phase, Phase::Unwanted) {
                Phase::Gathering { missed, .. } => over(missed),
                Phase::Released { missed, .. } => over(Some(missed)),
                Phase::Unwanted | Phase::Complete => None,
            };
        }
        match self.phase {
            Phase::Complete => None,
            Phase::Gathering { missed, .. } if there >= least => {
                self.phase = Phase::Complete;
                over(missed)
            }
            Phase::Released { missed, .. } if there >= least => {
                self.phase = Phase::Complete;
                over(Some(missed))
            }
            Phase::Unwanted => {
                self.phase = match there >= least {
                    true => Phase::Complete,
                    false => Phase::Gathering {
                        since: now,
                        missed: None,
                    },
                };
                None
            }
            Phase::Gathering { since, missed } if now.since(since) >= timeout => {
                let missed = Missed {
                    times: missed.map_or(1, |missed| missed.times.saturating_add(1)),
                    since: missed.map_or(now, |missed| missed.since),
                };
                // Of two gangs that made room for each other, one is to be requested well before the other.
                let until = now + backoff.delay(missed.times) + timeout.mul_f64(random() / 4.0);
                self.phase = Phase::Released { until, missed };
                Some(Change::Missed {
                    least,
                    there,
                    until,
                })
            }
            Phase::Released { until, missed } if now >= until => {
                self.phase = Phase::Gathering {
                    since: now,
                    missed: Some(missed),
                };
                None
            }
            Phase::Gathering { .. } | Phase::Released { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::id;

    const BACKOFF: Backoff = Backoff {
        initial: Duration::from_secs(1),
        max: Duration::from_secs(300),
    };
    const TIMEOUT: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Tick {
        Tick::after_start(Duration::from_secs(seconds))
    }

    fn tick(gang: &mut Gang, target: u32, second: u64) -> Option<Change> {
        gang.tick(target, TIMEOUT, &BACKOFF, || 0.0, at(second))
    }

    fn missed(least: u32, there: u32, until: u64) -> Option<Change> {
        let until = at(until);
        Some(Change::Missed {
            least,
            there,
            until,
        })
    }

    // spec: B-63
    #[test]
    fn a_gang_that_comes_together_in_time_stays_complete() {
        let mut gang = Gang::of(2);
        assert_eq!(tick(&mut gang, 3, 0), None);
        gang.there.extend([id(1), id(2)]);
        assert_eq!(tick(&mut gang, 3, 59), None);
        gang.there.clear();
        assert_eq!(tick(&mut gang, 3, 600), None);
        assert_eq!(gang.phase, Phase::Complete);
    }

    // spec: B-63, A-98
    #[test]
    fn a_missed_gang_backs_off_in_doubling_steps_up_to_five_minutes() {
        let mut gang = Gang::of(4);
        gang.there.insert(id(1));
        let (mut second, mut waits) = (0, Vec::new());
        tick(&mut gang, 4, second);
        for _ in 0..11 {
            assert_eq!(tick(&mut gang, 4, second + 59), None, "it is in time yet");
            second += 60;
            let Some(Change::Missed { until, .. }) = tick(&mut gang, 4, second) else {
                panic!("{gang:?} at {second}");
            };
            let next = until.since(at(0)).as_secs();
            waits.push(next - second);
            assert_eq!(tick(&mut gang, 4, next - 1), None);
            assert!(matches!(gang.phase, Phase::Released { .. }));
            second = next;
            assert_eq!(tick(&mut gang, 4, second), None);
            assert!(matches!(gang.phase, Phase::Gathering { .. }), "tried again");
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    }

    // spec: B-63, A-31
    #[test]
    fn the_end_of_a_miss_is_reported_once() {
        let mut gang = Gang::of(2);
        tick(&mut gang, 2, 0);
        assert_eq!(tick(&mut gang, 2, 60), missed(2, 0, 61));
        gang.there.extend([id(1), id(2)]);
        let after = Duration::from_secs(5);
        assert_eq!(tick(&mut gang, 2, 65), Some(Change::Over { after }));
        assert_eq!(tick(&mut gang, 2, 66), None);
    }

    // spec: B-63
    #[test]
    fn a_target_of_zero_has_no_gang_and_a_target_below_the_minimum_is_the_gang() {
        let mut gang = Gang::of(4);
        for second in [0, 60, 600] {
            assert_eq!(tick(&mut gang, 0, second), None);
        }
        gang.there.insert(id(1));
        assert_eq!(tick(&mut gang, 2, 600), None);
        assert_eq!(tick(&mut gang, 2, 660), missed(2, 1, 661));
        let after = Duration::ZERO;
        assert_eq!(tick(&mut gang, 0, 660), Some(Change::Over { after }));
        assert_eq!(tick(&mut gang, 1, 661), None);
        assert_eq!(gang.phase, Phase::Complete);
    }
}
