//! Replaces executors one by one: `(state, snapshot, now) → step`, pure (spec B-32). A replacement
//! runs before the old executor is drained.
//!
//! Meanwhile the target in the ledger is raised by one. A driver that starts then does not know
//! why, and retires the surplus.

mod outlier;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::config::{Roll, RollPolicy};
use crate::model::executor::Class;
use crate::model::{Entry, ExecutorId, ProfileName, Snapshot, Tick};

/// How far an outlier is from the median at least, in standard deviations.
const OUTLYING: f64 = 3.0;

/// The metric with the number of tasks that an executor has run.
const TASKS: &str = "tasks";

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Raise the target of this profile by one, to replace `old`.
    Begin {
        profile: ProfileName,
        old: ExecutorId,
    },
    /// The replacement runs: drain the old executor, and restore the target.
    Finish {
        profile: ProfileName,
        old: ExecutorId,
    },
    /// The replacement failed or is not needed: restore the target.
    GiveUp {
        profile: ProfileName,
        /// The executor that stays, or has ended by itself.
        old: ExecutorId,
    },
    /// The target was changed meanwhile: abandon the replacement.
    Forget { old: ExecutorId },
}

#[derive(Debug)]
pub struct Rolling {
    roll: Roll,
    next: Tick,
    under_way: Option<UnderWay>,
}

/// A replacement that does not run yet.
#[derive(Debug, Clone)]
struct UnderWay {
    profile: ProfileName,
    old: ExecutorId,
    /// The highest id at the beginning; the replacement's id is higher.
    last: ExecutorId,
    /// The replacement is given up at this time.
    until: Tick,
}

impl Rolling {
    /// The first replacement begins one interval from now.
    pub fn new(roll: Roll, now: Tick) -> Self {
        Self {
            next: now + roll.interval,
            roll,
            under_way: None,
        }
    }

    /// Whether the next decision needs the executors' metrics.
    pub fn needs_metrics(&self, snapshot: &Snapshot, now: Tick) -> bool {
        let compares = match self.roll.policy {
            RollPolicy::Outlier | RollPolicy::Highest => true,
            RollPolicy::Id | RollPolicy::Oldest => self.roll.min_tasks > 0,
        };
        let begins = self.under_way.is_none() && now >= self.next;
        compares && begins && snapshot.targets.keys().any(|p| is_settled(p, snapshot))
    }

    /// Decides the next step. `figure` returns the latest value of an executor's metric.
    pub fn decide(
        &mut self,
        snapshot: &Snapshot,
        figure: impl Fn(ExecutorId, &str) -> Option<f64>,
        now: Tick,
    ) -> Option<Step> {
        let Some(under_way) = self.under_way.take() else {
            return self.begin(snapshot, figure, now);
        };
        let step = outcome(&under_way, snapshot, now);
        match step {
            Some(_) => self.next = now + self.roll.interval,
            None => self.under_way = Some(under_way),
        }
        step
    }

    fn begin(
        &mut self,
        snapshot: &Snapshot,
        figure: impl Fn(ExecutorId, &str) -> Option<f64>,
        now: Tick,
    ) -> Option<Step> {
        if now < self.next {
            return None;
        }
        let running: Vec<&Arc<Entry>> = (snapshot.entries.values())
            .filter(|entry| entry.class() == Class::Running)
            .filter(|entry| is_settled(&entry.profile, snapshot))
            .collect();
        let least = self.roll.min_tasks;
        let has_run = |id| figure(id, TASKS).is_some_and(|tasks| tasks >= f64::from(least));
        let candidates = (running.iter().copied()).filter(|entry| least == 0 || has_run(entry.id));
        // The configuration's reader refuses a policy that lacks its metric.
        let metric = self.roll.metric.as_deref().unwrap_or_default();
        let old = match self.roll.policy {
            RollPolicy::Id => candidates.min_by_key(|entry| entry.id),
            RollPolicy::Oldest => candidates.min_by_key(|entry| age(entry)),
            RollPolicy::Outlier => {
                // Those that have run little are compared as well.
                let found = farthest(&running, |id| figure(id, metric));
                let mut candidates = candidates;
                candidates.find(|entry| Some(entry.id) == found)
            }
            RollPolicy::Highest => highest(candidates, |id| figure(id, metric)),
        };
        if old.is_none() && !running.is_empty() {
            // None is to be replaced: the next attempt is one interval later.
            self.next = now + self.roll.interval;
        }
        let (profile, old) = old.map(|old| (old.profile.clone(), old.id))?;
        self.under_way = Some(UnderWay {
            profile: profile.clone(),
            old,
            last: snapshot.entries.keys().next_back().unwrap_or(old),
            until: now + self.roll.interval,
        });
        Some(Step::Begin { profile, old })
    }
}

/// Whether a profile has exactly its target of running executors. Only then a replacement begins.
fn is_settled(profile: &ProfileName, snapshot: &Snapshot) -> bool {
    let (counts, target) = (snapshot.counts(profile), snapshot.target(profile));
    is_raised_by(0, profile, snapshot) && (counts.live(), counts.running) == (target, target)
}

/// Whether so many executors more than requested are wanted of a profile that is not being removed.
fn is_raised_by(more: u32, profile: &ProfileName, snapshot: &Snapshot) -> bool {
    let target = snapshot.targets.get(profile);
    target.is_some_and(|target| {
        !target.removed && target.executors == target.asked.saturating_add(more)
    })
}

/// A sort key: the oldest has the lowest.
fn age(entry: &Entry) -> (Option<Timestamp>, ExecutorId) {
    let created = entry.pod().and_then(|pod| pod.created);
    (created, entry.id)
}

/// The one with the highest value; of several the one with the lowest id.
fn highest<'a>(
    candidates: impl Iterator<Item = &'a Arc<Entry>>,
    figure: impl Fn(ExecutorId) -> Option<f64>,
) -> Option<&'a Arc<Entry>> {
    (candidates.filter_map(|entry| Some((figure(entry.id)?, entry))))
        .max_by(|(x, a), (y, b)| x.total_cmp(y).then_with(|| b.id.cmp(&a.id)))
        .map(|(_, entry)| entry)
}

/// The outlier, compared only within its profile, because profiles differ.
fn farthest(
    candidates: &[&Arc<Entry>],
    figure: impl Fn(ExecutorId) -> Option<f64>,
) -> Option<ExecutorId> {
    let mut by_profile: BTreeMap<&ProfileName, Vec<(ExecutorId, f64)>> = BTreeMap::new();
    for entry in candidates {
        if let Some(figure) = figure(entry.id) {
            let figures = by_profile.entry(&entry.profile).or_default();
            figures.push((entry.id, figure));
        }
    }
    (by_profile.into_values())
        .filter_map(|figures| outlier::outlier(figures, OUTLYING))
        .max_by(|(a, x), (b, y)| x.total_cmp(y).then_with(|| b.cmp(a)))
        .map(|(id, _)| id)
}

/// The next step of a replacement in progress.
fn outcome(under_way: &UnderWay, snapshot: &Snapshot, now: Tick) -> Option<Step> {
    let UnderWay {
        profile,
        old,
        last,
        until,
    } = under_way;
    let (profile, old) = (profile.clone(), *old);
    if !is_raised_by(1, &profile, snapshot) {
        return Some(Step::Forget { old });
    }
    let Some(entry) = snapshot
        .entry(old)
        .filter(|entry| entry.class() == Class::Running)
    else {
        return Some(Step::GiveUp { profile, old });
    };
    let replaces = |new: &&Arc<Entry>| {
        new.id > *last
            && new.profile == profile
            && new.class() == Class::Running
            && (new.session.registered || !entry.session.registered)
    };
    if snapshot.entries.values().any(|new| replaces(&new)) {
        return Some(Step::Finish { profile, old });
    }
    (now >= *until).then_some(Step::GiveUp { profile, old })
}

#[cfg(test)]
mod tests;
