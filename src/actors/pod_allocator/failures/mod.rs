//! How many failures the application may have, and which nodes have had too many (spec L-30 to L-32): ends in, verdicts
//! out, pure.

pub mod nodes;
pub mod rules;
pub mod window;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::model::failures::{Avoid, KeptFailures};
use crate::model::{Entry, ExecutorId, IdSet, LossReason, Now, ProfileName, Tick};
use crate::planted::{self, Planted};

use super::crash_loop::Period;
use nodes::Nodes;
use rules::{Rule, Verdict, judge};
use window::Window;

/// With no limit of its own, an application may have so many failures whatever its size (spec L-30).
const LEAST_LIMIT: u32 = 3;

/// No more restarts than so many are counted at a time: a number that is nonsense costs no time.
const MOST_RESTARTS: u32 = 100;

/// What counts, and how many may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// So many failures are put up with; `None`: twice as many as executors were ever wanted at a time, and at least 3.
    pub max: Option<u32>,
    /// How long one counts; zero: for ever.
    pub window: Duration,
    /// What counts otherwise than its reason says; the first that matches decides.
    pub rules: Vec<Rule>,
    /// A node with so many failures is avoided; `None`: none is.
    pub node_max: Option<u32>,
}

/// The application's failures.
#[derive(Debug)]
pub struct Failures {
    settings: Settings,
    all: Window,
    nodes: Nodes,
    largest: u32,
    /// Executors whose end was counted and that have not left the ledger. This driver gets each end once; the set is
    /// kept in the record for a successor, which adopts a finished pod that is still there and reports its end again
    /// (spec L-1, O-30).
    counted: IdSet,
    /// The last backoff period of each profile of which an early end was counted (spec A-30).
    periods: BTreeMap<ProfileName, Period>,
    /// What was counted last, for people.
    last: Option<Arc<str>>,
    /// Why the application may not go on.
    spent: Option<Arc<str>>,
    /// That was said.
    said: bool,
    changed: bool,
}

/// The end of an application that has failed too often, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spent(pub Arc<str>);

impl Failures {
    /// As an earlier incarnation left them.
    pub fn resume(settings: Settings, kept: &KeptFailures, now: Now) -> Self {
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

    /// So many executors are wanted now, of all profiles.
    pub fn wanted(&mut self, executors: u32) {
        if executors > self.largest {
            self.largest = executors;
            // Only a limit that follows from it has to outlast this process.
            self.changed |= self.settings.max.is_none();
        }
    }

    /// An executor is where it is.
    pub fn see(&mut self, entry: &Entry, now: Tick) {
        self.nodes.see(entry, now);
    }

    /// An executor has left the ledger.
    pub fn left(&mut self, id: ExecutorId, now: Tick) {
        self.nodes.left(id, now);
        self.counted.remove(id);
    }

    /// An executor's end was reported. `period` is the backoff period in which it ended early, if it did: of those of one
    /// period one counts (spec A-30).
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

    /// An executor was started again in its pod so many times since that was looked at last, after ends like this one
    /// (spec A-80).
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

    /// A profile's template was refused, which counts once a block (spec A-23).
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

    /// Whether the application has failed too often by now: said once. A restart may find that it had, and that stays so
    /// whatever has left the window since: its executors were told to go.
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

    /// Whether the application has failed too often.
    pub fn are_too_many(&self) -> bool {
        self.spent.is_some()
    }

    /// The nodes that new executors are to avoid.
    pub fn avoid(&mut self, now: Tick) -> Avoid {
        self.nodes.avoid(now)
    }

    /// What is to be kept over a restart, where it has changed.
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
