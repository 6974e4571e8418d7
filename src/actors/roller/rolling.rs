//! Rolling: one executor after the other is replaced, and the replacement runs before the old one is told to finish:
//! `(state, snapshot, now) → step`, pure (spec B-32).
//!
//! For the time of a replacement one executor more is wanted than was asked for. That is in the ledger alone: a driver
//! that is started meanwhile knows nothing of it, and lets the surplus go.

mod outlier;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::model::executor::Class;
use crate::model::{Entry, ExecutorId, ProfileName, Snapshot, Tick};

/// Who is replaced next.
#[derive(Debug, Clone, PartialEq)]
pub enum Policy {
    /// The one with the lowest id.
    Id,
    /// The one whose pod is the oldest.
    Oldest,
    /// The one whose figure is farthest from the median of its profile's, if that is far.
    Outlier {
        /// The name of the figure, in heartbeats.
        metric: Arc<str>,
        /// How far it has to be, in standard deviations.
        threshold: f64,
    },
}

/// How executors are replaced.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// From one replacement to the next; also how long a replacement may take to run.
    pub interval: Duration,
    /// Who is next.
    pub policy: Policy,
}

/// What is done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// One more is wanted of this profile, in place of that executor.
    Begin {
        /// Which profile.
        profile: ProfileName,
        /// Who is to be replaced.
        old: ExecutorId,
    },
    /// Its replacement runs: it is told to finish, and as many are wanted again as were asked for.
    Finish {
        /// Who.
        old: ExecutorId,
    },
    /// It is no use: as many are wanted again as were asked for.
    GiveUp {
        /// Of which profile.
        profile: ProfileName,
        /// Who stays, or has gone by itself.
        old: ExecutorId,
    },
    /// It is no use, and somebody has said meanwhile how many are wanted.
    Forget {
        /// Who stays.
        old: ExecutorId,
    },
}

/// Which executor is replaced, and how far that is.
#[derive(Debug)]
pub struct Rolling {
    settings: Settings,
    next: Tick,
    under_way: Option<UnderWay>,
}

/// A replacement that does not run yet.
#[derive(Debug, Clone)]
struct UnderWay {
    profile: ProfileName,
    old: ExecutorId,
    /// The last id that there was: the replacement has a later one.
    last: ExecutorId,
    /// Given up then.
    until: Tick,
}

impl Rolling {
    /// The first replacement begins an interval from now.
    pub fn new(settings: Settings, now: Tick) -> Self {
        Self {
            next: now + settings.interval,
            settings,
            under_way: None,
        }
    }

    /// The figure of executors' heartbeats that the next decision needs, if it needs one.
    pub fn metric(
        &self,
        snapshot: &Snapshot,
        asked: &BTreeMap<ProfileName, u32>,
        now: Tick,
    ) -> Option<&Arc<str>> {
        let begins = self.under_way.is_none() && now >= self.next;
        let begins = || begins && asked.keys().any(|p| is_settled(p, snapshot, asked));
        match &self.settings.policy {
            Policy::Outlier { metric, .. } if begins() => Some(metric),
            Policy::Outlier { .. } | Policy::Id | Policy::Oldest => None,
        }
    }

    /// What is done now. `asked`: how many executors of each profile were asked for; `figure`: what an executor last said
    /// of this metric, if it did.
    pub fn decide(
        &mut self,
        snapshot: &Snapshot,
        asked: &BTreeMap<ProfileName, u32>,
        figure: impl Fn(ExecutorId, &str) -> Option<f64>,
        now: Tick,
    ) -> Option<Step> {
        let Some(under_way) = self.under_way.take() else {
            return self.begin(snapshot, asked, figure, now);
        };
        let step = outcome(&under_way, snapshot, asked, now);
        match step {
            Some(_) => self.next = now + self.settings.interval,
            None => self.under_way = Some(under_way),
        }
        step
    }

    fn begin(
        &mut self,
        snapshot: &Snapshot,
        asked: &BTreeMap<ProfileName, u32>,
        figure: impl Fn(ExecutorId, &str) -> Option<f64>,
        now: Tick,
    ) -> Option<Step> {
        if now < self.next {
            return None;
        }
        let candidates: Vec<&Arc<Entry>> = (snapshot.entries.values())
            .filter(|entry| entry.class() == Class::Running)
            .filter(|entry| is_settled(&entry.profile, snapshot, asked))
            .collect();
        let old = match &self.settings.policy {
            Policy::Id => candidates.iter().min_by_key(|entry| entry.id),
            Policy::Oldest => candidates.iter().min_by_key(|entry| age(entry)),
            Policy::Outlier { metric, threshold } => {
                let found = farthest(&candidates, |id| figure(id, metric), *threshold);
                if found.is_none() && !candidates.is_empty() {
                    // Nobody is: it is looked at again when the next one would be due.
                    self.next = now + self.settings.interval;
                }
                candidates.iter().find(|entry| Some(entry.id) == found)
            }
        };
        let (profile, old) = old.map(|old| (old.profile.clone(), old.id))?;
        self.under_way = Some(UnderWay {
            profile: profile.clone(),
            old,
            last: snapshot.entries.keys().next_back().unwrap_or(old),
            until: now + self.settings.interval,
        });
        Some(Step::Begin { profile, old })
    }
}

/// Whether a profile has as many running executors as were asked for: where it is on its way up or down, that has to be
/// over before an executor is replaced.
fn is_settled(
    profile: &ProfileName,
    snapshot: &Snapshot,
    asked: &BTreeMap<ProfileName, u32>,
) -> bool {
    let (counts, target) = (snapshot.counts(profile), snapshot.target(profile));
    asked.get(profile) == Some(&target) && (counts.live(), counts.running) == (target, target)
}

/// The lowest is the oldest.
fn age(entry: &Entry) -> (Option<Timestamp>, ExecutorId) {
    let created = entry.pod().and_then(|pod| pod.created);
    (created, entry.id)
}

/// Who is least like the others of its profile; what is usual differs from one profile to the next.
fn farthest(
    candidates: &[&Arc<Entry>],
    figure: impl Fn(ExecutorId) -> Option<f64>,
    threshold: f64,
) -> Option<ExecutorId> {
    let mut by_profile: BTreeMap<&ProfileName, Vec<(ExecutorId, f64)>> = BTreeMap::new();
    for entry in candidates {
        if let Some(figure) = figure(entry.id) {
            let figures = by_profile.entry(&entry.profile).or_default();
            figures.push((entry.id, figure));
        }
    }
    (by_profile.into_values())
        .filter_map(|figures| outlier::outlier(figures, threshold))
        .max_by(|(a, x), (b, y)| x.total_cmp(y).then_with(|| b.cmp(a)))
        .map(|(id, _)| id)
}

/// What becomes of a replacement.
fn outcome(
    under_way: &UnderWay,
    snapshot: &Snapshot,
    asked: &BTreeMap<ProfileName, u32>,
    now: Tick,
) -> Option<Step> {
    let UnderWay {
        profile,
        old,
        last,
        until,
    } = under_way;
    let (profile, old) = (profile.clone(), *old);
    let wanted = asked.get(&profile).map(|asked| asked.saturating_add(1));
    if wanted != Some(snapshot.target(&profile)) {
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
        return Some(Step::Finish { old });
    }
    (now >= *until).then_some(Step::GiveUp { profile, old })
}

#[cfg(test)]
mod tests;
