//! Counts the failures of each profile and of each node (spec L-30 to L-32, L-40), and what nodes reject (spec L-45).

mod growth;
pub mod latest;
pub mod nodes;
mod rejections;
pub mod restarts;
pub mod rules;
pub mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use crate::model::failures::{Avoid, Growth, KeptBudget, KeptFailures};
use crate::model::node;
use crate::model::reasoning::ran_for;
use crate::model::recorded_end::RecordedEnd;
use crate::model::{
    Entry, ExecutorId, IdSet, LossClass, LossReason, Now, ProfileName, Snapshot, Tick,
};
use crate::planted::{self, Planted};

use latest::LatestEnds;
use nodes::Nodes;
use rejections::Rejections;
use rules::{Rule, Verdict, judge};
use window::Window;

/// The least limit that is derived from a profile's size (spec L-30).
const LEAST_LIMIT: u32 = 3;

/// The most restarts counted at a time, so that an absurd number costs no time.
const MOST_RESTARTS: u32 = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureBudget {
    /// The most failures of each profile; `None`: twice its largest target so far, and at least 3.
    pub max: Option<u32>,
    /// How long a failure counts; zero: forever.
    pub window: Duration,
    /// Exceptions to what a reason says; the first that matches decides.
    pub rules: Vec<Rule>,
    /// The profiles of the configuration. One that was added fails alone.
    pub configured: BTreeSet<ProfileName>,
    /// Whether those of the configuration fail alone as well; otherwise they end the application.
    pub alone: bool,
    /// A node with this many failures is avoided; `None`: no node is.
    pub node_max: Option<u32>,
    /// Whether a node is only avoided where there is another one.
    pub node_if_possible: bool,
    /// The profiles whose executors get more memory after `OomKilled` (spec L-43).
    pub growth: BTreeMap<ProfileName, Growth>,
}

#[derive(Debug)]
pub struct Failures {
    settings: FailureBudget,
    /// The profiles that the ledger knows.
    profiles: BTreeMap<ProfileName, Budget>,
    nodes: Nodes,
    /// A restart forgets them: they matter for a minute.
    rejections: Rejections,
    /// Executors whose end was counted and that are still in the ledger. This driver gets each end
    /// once. The record keeps the set for a successor, which may adopt a finished pod and report
    /// its end again.
    counted: IdSet,
    /// Why the application must end.
    spent: Option<Arc<str>>,
    /// What was spent and not reported yet.
    unreported: Vec<Spent>,
    changed: bool,
}

/// One profile's failures.
#[derive(Debug)]
struct Budget {
    failures: Window,
    /// The largest target so far.
    largest: u32,
    /// The last backoff period in which an early end was counted.
    period: Option<Period>,
    /// The latest failures, whether or not each counts.
    latest: LatestEnds,
    /// Why the profile has failed. From then on nothing of it counts, until the ledger says that it was reset.
    failed: Option<Arc<str>>,
    /// The limit, in bytes, to which its executors' memory has grown.
    memory_limit: Option<u64>,
}

/// A backoff period: from the early end that begins it, or makes its next step, up to the one that makes the step after
/// it. Of the early ends in it one counts as a failure (spec A-98, L-30).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(pub u64);

/// A profile has failed too often; with a description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spent {
    /// The application must end.
    Application(Arc<str>),
    /// The profile fails alone (spec L-40).
    Profile(ProfileName, Arc<str>),
}

impl Budget {
    fn new(window: Duration) -> Self {
        Self {
            failures: Window::new(window),
            largest: 0,
            period: None,
            latest: LatestEnds::default(),
            failed: None,
            memory_limit: None,
        }
    }

    fn resume(window: Duration, kept: &KeptBudget, now: Now) -> Self {
        Self {
            failures: Window::resume(window, &kept.times, now),
            largest: kept.largest,
            failed: kept.failed.clone(),
            memory_limit: kept.memory_limit,
            ..Self::new(window)
        }
    }

    fn save(&self) -> KeptBudget {
        KeptBudget {
            largest: self.largest,
            times: self.failures.save(),
            failed: self.failed.clone(),
            memory_limit: self.memory_limit,
        }
    }

    fn limit(&self, max: Option<u32>) -> u32 {
        max.unwrap_or_else(|| LEAST_LIMIT.max(self.largest.saturating_mul(2)))
    }

    /// Why the budget is spent, if it is.
    fn excess(&mut self, settings: &FailureBudget, now: Tick) -> Option<String> {
        let (limit, count) = (self.limit(settings.max), self.failures.count(now));
        if count <= limit || self.failed.is_some() || planted::is(Planted::BudgetUnlimited) {
            return None;
        }
        let within = match settings.window.is_zero() {
            true => String::new(),
            false => format!(" within {}", humantime::format_duration(settings.window)),
        };
        let common = self.latest.in_common();
        let common = common.map_or_else(String::new, |common| format!("; {common}"));
        Some(format!(
            "{count} failures{within}, and failures.max allows {limit}{common}"
        ))
    }
}

impl Failures {
    /// Continues from what an earlier incarnation wrote.
    pub fn resume(settings: FailureBudget, kept: &KeptFailures, now: Now) -> Self {
        let window = settings.window;
        let profiles = (kept.profiles.iter())
            .map(|(profile, kept)| (profile.clone(), Budget::resume(window, kept, now)));
        Self {
            profiles: profiles.collect(),
            nodes: Nodes::resume(settings.node_max, window, &kept.nodes, now),
            rejections: Rejections::default(),
            counted: kept.counted.clone(),
            spent: kept.spent.clone(),
            // Even if failures have left the window since: the executors may be ending already.
            unreported: kept
                .spent
                .clone()
                .map(Spent::Application)
                .into_iter()
                .collect(),
            changed: false,
            settings,
        }
    }

    /// Counts the ends that an earlier driver recorded and had not counted yet when it was killed. It is unknown which of
    /// them were early ends of one backoff period, so those of a profile count once (spec A-98).
    pub fn catch_up(mut self, ends: &[RecordedEnd], now: Now) -> Self {
        let mut profiles = BTreeSet::new();
        for end in ends.iter().filter(|end| !end.counted) {
            let reason = end.loss_reason();
            let counts = judge(&self.settings.rules, &reason) == Verdict::Count;
            let outgrown = self.limit_after(&end.profile, end.memory_limit).is_some();
            if !counts || outgrown || self.counted.contains(end.executor) {
                continue;
            }
            self.counted.insert(end.executor);
            if let Some(node) = &end.node {
                self.nodes.failed(node, now);
            }
            let new = || Budget::new(self.settings.window);
            let budget = self.profiles.entry(end.profile.clone()).or_insert_with(new);
            budget.latest.push(named(end.executor), None, &reason);
            if profiles.insert(&end.profile) {
                self.count(&end.profile, 1, now);
            }
            self.changed = true;
        }
        self
    }

    /// How many failures of each profile count now, and how many may.
    pub fn counted(&mut self, now: Tick) -> impl Iterator<Item = (&ProfileName, u32, u32)> {
        let max = self.settings.max;
        (self.profiles.iter_mut())
            .map(move |(profile, budget)| (profile, budget.failures.count(now), budget.limit(max)))
    }

    /// A profile of the configuration was added.
    pub fn add_configured(&mut self, profile: ProfileName) {
        self.settings.configured.insert(profile);
    }

    /// A profile of the same name begins anew (spec B-52).
    pub fn remove_profile(&mut self, profile: &ProfileName) {
        self.settings.growth.remove(profile);
        self.changed |= self.profiles.remove(profile).is_some();
    }

    /// Takes over which profiles the ledger has, their targets and memory, and which of them have failed. Returns those
    /// that were reset (spec L-41). Everything that was reported in the last round is in the ledger, so a failed profile
    /// that has not failed there was reset.
    pub fn follow(&mut self, latest: &Snapshot) -> Vec<ProfileName> {
        let before = self.profiles.len();
        (self.profiles).retain(|profile, _| latest.targets.contains_key(profile));
        self.changed |= self.profiles.len() != before;
        let mut reset = Vec::new();
        for (profile, target) in &latest.targets {
            let new = || Budget::new(self.settings.window);
            let budget = self.profiles.entry(profile.clone()).or_insert_with(new);
            if target.executors > budget.largest {
                budget.largest = target.executors;
                // The record needs it only if the limit depends on it.
                self.changed |= self.settings.max.is_none();
            }
            let memory_limit = latest.memory_limits.get(profile).copied();
            if budget.memory_limit != memory_limit {
                budget.memory_limit = memory_limit;
                self.changed = true;
            }
            match (&budget.failed, latest.failed.get(profile)) {
                (Some(_), None) => {
                    let largest = budget.largest;
                    *budget = Budget {
                        largest,
                        memory_limit,
                        ..new()
                    };
                    reset.push(profile.clone());
                    self.changed = true;
                }
                (None, Some(why)) => {
                    budget.failed = Some(Arc::clone(why));
                    self.changed = true;
                }
                (None, None) | (Some(_), Some(_)) => {}
            }
        }
        reset
    }

    /// Allows this many failures from now on (spec C-6).
    pub fn allow(&mut self, max: Option<u32>) {
        // The record needs the largest targets if the limit depends on them.
        self.changed |= max.is_none() && self.settings.max.is_some();
        self.settings.max = max;
    }

    pub fn observe(&mut self, entry: &Entry, now: Tick) {
        self.nodes.observe(entry, now);
    }

    pub fn removed(&mut self, id: ExecutorId, now: Tick) {
        self.nodes.removed(id, now);
        self.counted.remove(id);
    }

    /// An executor's end was reported. `period` is the backoff period in which it ended early, if
    /// any. Only one early end of a period counts (spec A-98).
    pub fn ended(&mut self, entry: &Entry, reason: &LossReason, period: Option<Period>, now: Now) {
        if self.counted.contains(entry.id) {
            return;
        }
        let (profile, who) = (&entry.profile, named(entry.id));
        match judge(&self.settings.rules, reason) {
            Verdict::Ignore if !planted::is(Planted::DisruptionsCounted) => return,
            Verdict::Stop => return self.stop(profile, &who, reason),
            Verdict::Ignore | Verdict::Count => {}
        }
        // The record must say of each end that is no disruption whether it was dealt with.
        self.counted.insert(entry.id);
        if self.grow(entry, reason) && !planted::is(Planted::OutgrownCounted) {
            self.changed = true;
            return;
        }
        if let Some(node) = &reason.evidence.node {
            self.nodes.failed(node, now);
        }
        self.changed = true;
        let known = self.profiles.get_mut(profile);
        let again = known.is_some_and(|budget| {
            (budget.latest).push(who, ran_for(entry, now.tick), reason);
            let again = period.is_some() && budget.period == period;
            budget.period = period.or(budget.period);
            again
        });
        if !again {
            self.count(profile, 1, now);
        }
    }

    /// An executor has ended so, which the caller tells once. A rejection by its node is no failure.
    pub fn note_rejection(&mut self, reason: &LossReason, now: Tick) {
        if reason.class == LossClass::Rejected
            && let Some(node) = &reason.evidence.node
        {
            self.rejections.add(node, now);
        }
    }

    /// An executor's container was restarted `times` more, after ends like this one (spec A-80).
    pub fn restarted(&mut self, entry: &Entry, reason: &LossReason, times: u32, now: Now) {
        let who = format!("{}, started again in its pod", named(entry.id));
        self.happened(&entry.profile, who, reason, times.min(MOST_RESTARTS), now);
    }

    /// A profile's template was refused. That counts once for each wait (spec A-23).
    pub fn refused(&mut self, profile: &ProfileName, reason: &LossReason, now: Now) {
        self.happened(profile, "a request".to_owned(), reason, 1, now);
    }

    /// What has been spent, each once. After a restart an application that must end is reported again, even if failures
    /// have left the window since.
    pub fn spent(&mut self, now: Tick) -> Vec<Spent> {
        let settings = &self.settings;
        let excess = |(profile, budget): (&ProfileName, &mut Budget)| {
            Some((profile.clone(), budget.excess(settings, now)?))
        };
        let spent: Vec<_> = self.profiles.iter_mut().filter_map(excess).collect();
        for (profile, why) in spent {
            self.spend(&profile, why);
        }
        mem::take(&mut self.unreported)
    }

    /// Whether the application must end.
    pub fn are_too_many(&self) -> bool {
        self.spent.is_some()
    }

    /// `cluster`: the cluster's nodes, as far as they are watched.
    pub fn avoid(&mut self, cluster: &node::Nodes, now: Tick) -> Avoid {
        let mut avoid = self.nodes.avoid(cluster, now);
        if self.settings.node_if_possible {
            avoid.rather_not.append(&mut avoid.never);
        }
        avoid.rejecting = self.rejections.avoided(now);
        avoid
    }

    /// What the record must keep, if it has changed since the last call.
    pub fn keep(&mut self) -> Option<KeptFailures> {
        let kept = (self.profiles.iter()).map(|(profile, budget)| (profile.clone(), budget.save()));
        mem::take(&mut self.changed).then(|| KeptFailures {
            profiles: kept
                .filter(|(_, kept)| *kept != KeptBudget::default())
                .collect(),
            nodes: self.nodes.save(),
            counted: self.counted.clone(),
            spent: self.spent.clone(),
        })
    }

    fn happened(
        &mut self,
        profile: &ProfileName,
        who: String,
        reason: &LossReason,
        times: u32,
        now: Now,
    ) {
        match judge(&self.settings.rules, reason) {
            Verdict::Ignore => {}
            Verdict::Stop => self.stop(profile, &who, reason),
            Verdict::Count => {
                if let Some(budget) = self.profiles.get_mut(profile) {
                    budget.latest.push(who, None, reason);
                }
                self.count(profile, times, now);
            }
        }
    }

    /// A profile that the ledger does not know has no budget.
    fn count(&mut self, profile: &ProfileName, times: u32, now: Now) {
        let known = self.profiles.get_mut(profile);
        if let Some(budget) = known.filter(|budget| budget.failed.is_none()) {
            (0..times).for_each(|_| budget.failures.add(now));
            self.changed = true;
        }
    }

    fn stop(&mut self, profile: &ProfileName, who: &str, reason: &LossReason) {
        let known = self.profiles.get(profile);
        if known.is_some_and(|budget| budget.failed.is_none()) {
            let what = format!("{who}: {}: {}", reason.class, reason.message);
            self.spend(profile, format!("a rule of failures.rules says so: {what}"));
        }
    }

    fn spend(&mut self, profile: &ProfileName, why: String) {
        let settings = &self.settings;
        let alone =
            settings.alone || !settings.configured.contains(profile) || profile.is_of_spares();
        if !alone || planted::is(Planted::EveryoneBlamed) {
            if self.spent.is_none() {
                let why: Arc<str> = Arc::from(format!("profile {profile}: {why}"));
                self.spent = Some(Arc::clone(&why));
                self.unreported.push(Spent::Application(why));
                self.changed = true;
            }
        } else if let Some(budget) = self.profiles.get_mut(profile) {
            let why: Arc<str> = Arc::from(why);
            budget.failed = Some(Arc::clone(&why));
            self.unreported.push(Spent::Profile(profile.clone(), why));
            self.changed = true;
        }
    }
}

fn named(id: ExecutorId) -> String {
    format!("executor {id}")
}

#[cfg(test)]
mod tests;
