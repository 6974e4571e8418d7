//! Counts failures of the application and of each node (spec L-30 to L-32).

pub mod nodes;
pub mod restarts;
pub mod rules;
pub mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::model::failures::{Avoid, KeptFailures};
use crate::model::recorded_end::RecordedEnd;
use crate::model::{Entry, ExecutorId, IdSet, LossReason, Now, ProfileName, Tick};
use crate::planted::{self, Planted};

use nodes::Nodes;
use rules::{Rule, Verdict, judge};
use window::Window;

/// The least limit that is derived from the application's size (spec L-30).
const LEAST_LIMIT: u32 = 3;

/// The most restarts counted at a time, so that an absurd number costs no time.
const MOST_RESTARTS: u32 = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureBudget {
    /// The most failures; `None`: twice the largest total target so far, and at least 3.
    pub max: Option<u32>,
    /// How long a failure counts; zero: forever.
    pub window: Duration,
    /// Exceptions to what a reason says; the first that matches decides.
    pub rules: Vec<Rule>,
    /// A node with this many failures is avoided; `None`: no node is.
    pub node_max: Option<u32>,
    /// Whether a node is only avoided where there is another one.
    pub node_if_possible: bool,
}

#[derive(Debug)]
pub struct Failures {
    settings: FailureBudget,
    all: Window,
    nodes: Nodes,
    largest: u32,
    /// Executors whose end was counted and that are still in the ledger. This driver gets each end
    /// once. The record keeps the set for a successor, which may adopt a finished pod and report
    /// its end again.
    counted: IdSet,
    /// The last backoff period of each profile in which an early end was counted.
    periods: BTreeMap<ProfileName, Period>,
    /// The failure counted last, described.
    last: Option<Arc<str>>,
    /// Why the application must end.
    spent: Option<Arc<str>>,
    /// Whether that was reported.
    said: bool,
    changed: bool,
}

/// A backoff period: from the early end that begins it, or makes its next step, up to the one that makes the step after
/// it. Of the early ends in it one counts as a failure (spec A-98, L-30).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(pub u64);

/// The application has failed too often; a description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spent(pub Arc<str>);

impl Failures {
    /// Continues from what an earlier incarnation wrote.
    pub fn resume(settings: FailureBudget, kept: &KeptFailures, now: Now) -> Self {
        Self {
            all: Window::resume(settings.window, &kept.all, now),
            nodes: Nodes::resume(settings.node_max, settings.window, &kept.nodes, now),
            largest: kept.largest,
            counted: kept.counted.clone(),
            periods: BTreeMap::new(),
            last: None,
            spent: kept.spent.clone(),
            said: false,
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
            if !counts || self.counted.contains(end.executor) {
                continue;
            }
            self.counted.insert(end.executor);
            if let Some(node) = &end.node {
                self.nodes.failed(node, now);
            }
            if profiles.insert(&end.profile) {
                self.all.add(now);
                let (class, why) = (reason.class, reason.message);
                self.last = Some(Arc::from(format!(
                    "executor {}: {class}: {why}",
                    end.executor
                )));
            }
            self.changed = true;
        }
        self
    }

    /// A profile of the same name has other backoff periods (spec B-52).
    pub fn remove_profile(&mut self, profile: &ProfileName) {
        self.periods.remove(profile);
    }

    /// The sum of all targets has changed.
    pub fn wanted(&mut self, executors: u32) {
        if executors > self.largest {
            self.largest = executors;
            // The record needs it only if the limit depends on it.
            self.changed |= self.settings.max.is_none();
        }
    }

    /// Allows this many failures from now on (spec C-6).
    pub fn allow(&mut self, max: Option<u32>) {
        // The record needs the largest target if the limit depends on it.
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
    pub fn ended(
        &mut self,
        entry: &Entry,
        reason: &LossReason,
        period: Option<Period>,
        now: Now,
    ) -> Option<Spent> {
        if self.counted.contains(entry.id) {
            return None;
        }
        let what = format!(
            "executor {}: {}: {}",
            entry.id, reason.class, reason.message
        );
        match judge(&self.settings.rules, reason) {
            Verdict::Ignore if !planted::is(Planted::DisruptionsCounted) => return None,
            Verdict::Stop => return self.stop(&what),
            Verdict::Ignore | Verdict::Count => {}
        }
        self.counted.insert(entry.id);
        if let Some(node) = &reason.evidence.node {
            self.nodes.failed(node, now);
        }
        let again = period.is_some() && self.periods.get(&entry.profile) == period.as_ref();
        if let Some(period) = period {
            self.periods.insert(entry.profile.clone(), period);
        }
        self.changed = true;
        if again {
            return None;
        }
        self.count(&what, now)
    }

    /// An executor's container was restarted `times` more, after ends like this one (spec A-80).
    pub fn restarted(
        &mut self,
        entry: &Entry,
        reason: &LossReason,
        times: u32,
        now: Now,
    ) -> Option<Spent> {
        let what = format!(
            "executor {}, started again in its pod: {}: {}",
            entry.id, reason.class, reason.message
        );
        match judge(&self.settings.rules, reason) {
            Verdict::Ignore => None,
            Verdict::Stop => self.stop(&what),
            Verdict::Count => (0..times.min(MOST_RESTARTS))
                .filter_map(|_| self.count(&what, now))
                .last(),
        }
    }

    /// A profile's template was refused. That counts once for each wait (spec A-23).
    pub fn refused(
        &mut self,
        profile: &ProfileName,
        reason: &LossReason,
        now: Now,
    ) -> Option<Spent> {
        let what = format!("profile {profile}: {}: {}", reason.class, reason.message);
        match judge(&self.settings.rules, reason) {
            Verdict::Ignore => None,
            Verdict::Stop => self.stop(&what),
            Verdict::Count => self.count(&what, now),
        }
    }

    /// Whether the application has failed too often; returned once. After a restart it stays so,
    /// even if failures have left the window since, because its executors may be ending already.
    pub fn spent(&mut self, now: Tick) -> Option<Spent> {
        if let Some(why) = &self.spent {
            return (!std::mem::replace(&mut self.said, true)).then(|| Spent(Arc::clone(why)));
        }
        let (limit, count) = (self.limit(), self.all.count(now));
        if count <= limit || planted::is(Planted::BudgetUnlimited) {
            return None;
        }
        let within = match self.settings.window.is_zero() {
            true => String::new(),
            false => format!(
                " within {}",
                humantime::format_duration(self.settings.window)
            ),
        };
        let last = self.last.as_deref();
        let last = last.map_or_else(String::new, |last| format!("; the last: {last}"));
        let why = format!("{count} failures{within}, and failures.max allows {limit}{last}");
        Some(self.spend(why))
    }

    pub fn are_too_many(&self) -> bool {
        self.spent.is_some()
    }

    pub fn avoid(&mut self, now: Tick) -> Avoid {
        let mut avoid = self.nodes.avoid(now);
        if self.settings.node_if_possible {
            avoid.rather_not.append(&mut avoid.never);
        }
        avoid
    }

    /// What the record must keep, if it has changed since the last call.
    pub fn keep(&mut self) -> Option<KeptFailures> {
        std::mem::take(&mut self.changed).then(|| KeptFailures {
            largest: self.largest,
            all: self.all.save(),
            nodes: self.nodes.save(),
            counted: self.counted.clone(),
            spent: self.spent.clone(),
        })
    }

    fn spend(&mut self, why: String) -> Spent {
        let why: Arc<str> = Arc::from(why);
        self.spent = Some(Arc::clone(&why));
        (self.said, self.changed) = (true, true);
        Spent(why)
    }

    fn count(&mut self, what: &str, now: Now) -> Option<Spent> {
        self.all.add(now);
        self.changed = true;
        self.last = Some(Arc::from(what));
        self.spent(now.tick)
    }

    fn stop(&mut self, what: &str) -> Option<Spent> {
        (self.spent.is_none())
            .then(|| self.spend(format!("a rule of failures.rules says so: {what}")))
    }

    fn limit(&self) -> u32 {
        let of_size = || LEAST_LIMIT.max(self.largest.saturating_mul(2));
        self.settings.max.unwrap_or_else(of_size)
    }
}

#[cfg(test)]
mod tests;
