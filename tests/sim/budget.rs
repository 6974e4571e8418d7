//! Checks the application's failure budget against the ends that drivers reported (spec L-30, L-31): no driver
//! declares the budget spent before enough executors have failed, and failures from before a driver's restart still
//! count.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use boatswain::actors::pod_allocator::failures::rules::{Rule, Verdict as Judged, judge};
use boatswain::config::{Config, FailureAction, FailureRule};
use boatswain::exit::OVER_BUDGET;
use boatswain::model::reasoning::ended_early;
use boatswain::model::{Ending, ExecutorId, Tick};
use serde_json::Value;
use tokio::time::Instant;

use crate::checks::{Checks, PREFIX, Verdict};
use crate::objects::{NAMESPACE, text};
use crate::requests::Done;
use crate::trace::say;
use crate::world::World;

/// How long an ended application stays ended before the simulated operator deletes its record, so that it starts
/// again.
const FORGIVEN_AFTER: Duration = Duration::from_secs(20);

/// A failure that a driver has counted is in the record after this long while the server works (spec O-30).
const KEPT_AFTER: Duration = Duration::from_secs(12);

/// For this long after trouble with the server, a counted failure may still be missing from the record.
const SETTLED: Duration = Duration::from_secs(120);

/// The failures since the application began.
#[derive(Debug, Default)]
pub struct Budget {
    max: u32,
    window: Duration,
    /// How far the clocks of two drivers may differ: it blurs the age of failures that an earlier driver recorded.
    skew: Duration,
    stable_after: Duration,
    rules: Vec<Rule>,
    /// When each failure happened that a driver may have counted.
    may: Vec<Instant>,
    /// Number of container restarts. A driver that learns of one late counts it as of then, so these have no time.
    restarts: usize,
    /// Failures that were certainly counted and that every later driver knows: the driver that reported each, and
    /// when.
    sure: BTreeMap<ExecutorId, (usize, Instant)>,
    seen: BTreeSet<ExecutorId>,
    /// A rule with the action `stop` matched.
    stopped: bool,
    /// The API server refused pod templates.
    blocked: bool,
    /// The record says that the budget is spent. That stays so after the failures have left the window.
    written: bool,
    /// The driver that wrote that the budget is spent, until the claim has been checked.
    claimed: Option<usize>,
    /// When the application ended.
    pub over: Option<Instant>,
    /// When the operator last let an ended application start again.
    forgiven: Option<Instant>,
}

impl Budget {
    pub fn of(config: &Config, skew: Duration) -> Self {
        let failures = &config.failures;
        Self {
            max: failures.max.unwrap_or(u32::MAX),
            window: failures.window,
            skew,
            stable_after: failures.stable_after,
            rules: failures.rules.iter().map(rule).collect(),
            ..Self::default()
        }
    }

    pub fn reported(&mut self, driver: usize, ending: &Ending) {
        match judge(&self.rules, &ending.reason) {
            Judged::Ignore => return,
            Judged::Stop => self.stopped = true,
            Judged::Count => {}
        }
        let now = Instant::now();
        self.may.push(now);
        let (entry, class) = (&ending.entry, ending.reason.class);
        // Judged by the node's clock alone, because only one of several early failures within a backoff counts.
        let early = ended_early(entry, class, Tick::default(), self.stable_after);
        if self.seen.insert(entry.id) && !early && entry.uid().is_some() {
            self.sure.insert(entry.id, (driver, now));
        }
    }

    /// A container was restarted within its pod after this end; a driver may count it.
    pub fn restarted(&mut self, ended: &Value) {
        let stops = |rule: &Rule| rule.action == Judged::Stop;
        self.stopped |= text(ended, "/reason") == "OOMKilled" && self.rules.iter().any(stops);
        self.restarts += 1;
    }

    /// The API server refused templates. Each block counts as a failure, and only the drivers know how many blocks
    /// there were.
    pub fn refused(&mut self) {
        self.blocked = true;
    }

    /// Whether a driver may consider the budget spent now.
    pub fn may_be_spent(&self) -> bool {
        if self.written {
            return true;
        }
        // A driver keeps the window in slices, and needs a moment to act on what it has reported.
        let longest = self.window + self.window / 100 + 2 * self.skew + Duration::from_secs(10);
        let counts = |at: &&Instant| self.window.is_zero() || at.elapsed() <= longest;
        let count = self.may.iter().filter(counts).count() + self.restarts;
        self.stopped || self.blocked || count > self.max as usize
    }

    /// A driver has ended: failures that it reported recently may be missing from the record.
    pub fn driver_over(&mut self, driver: usize, last_trouble: Option<Instant>) {
        let settled = last_trouble.is_none_or(|at| at.elapsed() > SETTLED);
        (self.sure).retain(|_, (by, at)| *by != driver || settled && at.elapsed() > KEPT_AFTER);
    }

    /// After this, no failure is known to be counted for certain.
    pub fn forget_what_is_sure(&mut self) {
        self.sure.clear();
    }

    /// Another application begins.
    pub fn begin_anew(&mut self) {
        let (max, window, skew) = (self.max, self.window, self.skew);
        *self = Self {
            max,
            window,
            skew,
            stable_after: self.stable_after,
            rules: std::mem::take(&mut self.rules),
            forgiven: self.over.map(|_| Instant::now()).or(self.forgiven),
            ..Self::default()
        };
    }

    /// Whether the application keeps running although its budget is certainly spent.
    // spec: L-30
    pub fn is_kept(&self) -> Verdict {
        let sure = self.sure.len();
        if self.window.is_zero() && sure > self.max as usize && self.over.is_none() {
            return Err(format!(
                "L-30: {sure} executors failed, at most {} may, and the application goes on",
                self.max
            ));
        }
        Ok(())
    }
}

fn rule(rule: &FailureRule) -> Rule {
    Rule {
        exit_codes: rule.exit_codes.iter().copied().collect(),
        classes: rule.classes.iter().copied().collect(),
        conditions: rule.conditions.iter().cloned().collect(),
        action: match rule.action {
            FailureAction::Ignore => Judged::Ignore,
            FailureAction::Count => Judged::Count,
            FailureAction::Stop => Judged::Stop,
        },
    }
}

impl Checks {
    /// Notes a write to the record which says that the budget is spent.
    pub fn may_say_spent(&mut self, done: &Done) {
        if done.succeeded() && text(&done.sent, "/data/failures").contains("\"spent\"") {
            self.budget.claimed = Some(done.driver);
        }
    }

    /// A driver may declare the budget spent only after enough failures. Checked once the reports of all living
    /// drivers have been taken in.
    // spec: L-30, O-30
    pub fn is_spent_for_a_reason(&mut self, is_alive: impl Fn(usize) -> bool) -> Verdict {
        let Some(driver) = self.budget.claimed.take() else {
            return Ok(());
        };
        if is_alive(driver) && !self.budget.may_be_spent() && !self.was_put_back() {
            return Err(format!(
                "L-30: d{driver} writes that the application has failed too often, of {} failures that may count",
                self.budget.may.len()
            ));
        }
        self.budget.written = true;
        Ok(())
    }

    /// Whether a restore may have brought back the record of an ended application that was allowed to start again
    /// since.
    fn was_put_back(&self) -> bool {
        (self.budget.forgiven).is_some_and(|forgiven| self.was_rewritten_since(forgiven))
    }
}

impl World {
    /// Whether a driver may exit with this code, because too many executors failed or because the record says so.
    // spec: L-30
    pub fn may_end_with(&mut self, code: u8, started: Instant) -> bool {
        let put_back = self.checks.was_put_back();
        let budget = &mut self.checks.budget;
        // The driver may have read the record just before the operator deleted it.
        if code == OVER_BUDGET && budget.forgiven.is_some_and(|at| started <= at) {
            return true;
        }
        let over = budget.over.is_some() || budget.may_be_spent() || put_back;
        if code != OVER_BUDGET || !over {
            return false;
        }
        if budget.over.is_none() {
            budget.over = Some(Instant::now());
            self.checks.application_ended();
        }
        true
    }

    /// Plays the operator who has read why the application ended and lets it start again.
    pub async fn forgive(&mut self, at_once: bool) {
        let due = |over: Instant| at_once || over.elapsed() >= FORGIVEN_AFTER;
        if self.is_down() || !self.checks.budget.over.is_some_and(due) {
            return;
        }
        let name = format!("{PREFIX}-app");
        let state = self.cluster.state().await;
        // If the record was lost or replaced by an older one, the application has already started again without the
        // operator.
        let is_over = (state.config_maps(NAMESPACE)).any(|map| {
            text(map, "/metadata/name") == name
                && text(map, "/data/finished") == OVER_BUDGET.to_string()
        });
        if is_over {
            let code = self.hand.delete_config_map(&name, "Background").await;
            say!("   the application may begin anew: {code}");
        }
        let budget = &mut self.checks.budget;
        // An older record still contains the failures from before it was written.
        let before = (!is_over).then(|| (std::mem::take(&mut budget.may), budget.restarts));
        budget.begin_anew();
        (budget.may, budget.restarts) = before.unwrap_or_default();
    }
}
