//! The application's failure budget, held against what drivers reported (spec L-30, L-31): it is not spent before so many
//! have failed, and what failed before a restart counts.

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
use crate::hand::{NAMESPACE, text};
use crate::requests::Done;
use crate::trace::say;
use crate::world::World;

/// An application that is over stays so for this long; then somebody deletes its record, and it begins anew.
const FORGIVEN_AFTER: Duration = Duration::from_secs(20);

/// What a driver has counted is in the record after this long, where nothing is wrong with the server (spec O-30).
const KEPT_AFTER: Duration = Duration::from_secs(12);

/// For so long after trouble with the server it may not be.
const SETTLED: Duration = Duration::from_secs(120);

/// What has failed since the application began.
#[derive(Debug, Default)]
pub struct Budget {
    max: u32,
    window: Duration,
    /// What failed before a restart counts by the clocks of two drivers, which may differ by so much.
    skew: Duration,
    stable_after: Duration,
    rules: Vec<Rule>,
    /// All that may have been counted, and when.
    may: Vec<Instant>,
    /// Containers that were started again: whoever hears of one, however late, counts it as of then.
    restarts: usize,
    /// What was surely counted, and is surely known to whoever comes: by whom it was told, and when.
    sure: BTreeMap<ExecutorId, (usize, Instant)>,
    seen: BTreeSet<ExecutorId>,
    /// A rule said that this is the end.
    stopped: bool,
    /// Templates were refused.
    blocked: bool,
    /// The record says that it is spent, which stays so when what had failed has left the window.
    written: bool,
    /// Who wrote that, and was not held against what was told yet.
    claimed: Option<usize>,
    /// Since when the application is over.
    pub over: Option<Instant>,
    /// When an application that was over was last let begin anew.
    forgiven: Option<Instant>,
}

impl Budget {
    /// The budget of this run.
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

    /// A driver reported an end.
    pub fn reported(&mut self, driver: usize, ending: &Ending) {
        match judge(&self.rules, &ending.reason) {
            Judged::Ignore => return,
            Judged::Stop => self.stopped = true,
            Judged::Count => {}
        }
        let now = Instant::now();
        self.may.push(now);
        let (entry, class) = (&ending.entry, ending.reason.class);
        // By the node's clock alone: of those that end early in a backoff one counts.
        let early = ended_early(entry, class, Tick::default(), self.stable_after);
        if self.seen.insert(entry.id) && !early && entry.uid().is_some() {
            self.sure.insert(entry.id, (driver, now));
        }
    }

    /// A container was started again in its pod, which may be counted, after this end.
    pub fn restarted(&mut self, ended: &Value) {
        let stops = |rule: &Rule| rule.action == Judged::Stop;
        self.stopped |= text(ended, "/reason") == "OOMKilled" && self.rules.iter().any(stops);
        self.restarts += 1;
    }

    /// Templates were refused, of which each block counts: how many those are only the drivers know.
    pub fn refused(&mut self) {
        self.blocked = true;
    }

    /// Whether a driver may hold it to be spent now.
    pub fn may_be_spent(&self) -> bool {
        if self.written {
            return true;
        }
        // A window is kept in parts, and what was told takes a moment to be acted upon.
        let longest = self.window + self.window / 100 + 2 * self.skew + Duration::from_secs(10);
        let counts = |at: &&Instant| self.window.is_zero() || at.elapsed() <= longest;
        let count = self.may.iter().filter(counts).count() + self.restarts;
        self.stopped || self.blocked || count > self.max as usize
    }

    /// A driver is no more: what it had told may not be in the record yet.
    pub fn driver_over(&mut self, driver: usize, last_trouble: Option<Instant>) {
        let settled = last_trouble.is_none_or(|at| at.elapsed() > SETTLED);
        (self.sure).retain(|_, (by, at)| *by != driver || settled && at.elapsed() > KEPT_AFTER);
    }

    /// Nobody knows any more what was counted.
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

    /// Whether the application should have ended, and has not.
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
    /// A driver may have written into the record that the budget is spent.
    pub fn may_say_spent(&mut self, done: &Done) {
        if done.succeeded() && text(&done.sent, "/data/failures").contains("\"spent\"") {
            self.budget.claimed = Some(done.driver);
        }
    }

    /// That the budget is spent a driver may say only where so many have failed; looked at when all was heard that
    /// those who are alive have told.
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

    /// Whether the server may have back what it knew of an application that was over, and was let begin anew since.
    fn was_put_back(&self) -> bool {
        (self.budget.forgiven).is_some_and(|forgiven| self.was_rewritten_since(forgiven))
    }
}

impl World {
    /// Whether a driver may end with this code: because too much has failed, or because the record says that it had.
    // spec: L-30
    pub fn may_end_with(&mut self, code: u8, started: Instant) -> bool {
        let put_back = self.checks.was_put_back();
        let budget = &mut self.checks.budget;
        // It may have read the record just before somebody lifted that.
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

    /// Somebody has read why the application is over, and lets it begin anew.
    pub async fn forgive(&mut self, at_once: bool) {
        let due = |over: Instant| at_once || over.elapsed() >= FORGIVEN_AFTER;
        if self.is_down() || !self.checks.budget.over.is_some_and(due) {
            return;
        }
        let name = format!("{PREFIX}-app");
        let state = self.cluster.state().await;
        // Where the record was lost, or is an older one, the application has begun anew without anybody's help.
        let is_over = (state.config_maps(NAMESPACE)).any(|map| {
            text(map, "/metadata/name") == name
                && text(map, "/data/finished") == OVER_BUDGET.to_string()
        });
        if is_over {
            let code = self.hand.delete_config_map(&name, "Background").await;
            say!("   the application may begin anew: {code}");
        }
        let budget = &mut self.checks.budget;
        // An older record knows of what had failed by then.
        let before = (!is_over).then(|| (std::mem::take(&mut budget.may), budget.restarts));
        budget.begin_anew();
        (budget.may, budget.restarts) = before.unwrap_or_default();
    }
}
