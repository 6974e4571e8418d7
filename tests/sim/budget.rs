//! Checks the profiles' failure budgets against the ends that drivers reported (spec L-30, L-31, L-40): no driver
//! declares a budget spent before enough executors have failed, failures from before a driver's restart still count,
//! and only a profile that does not fail alone ends the application.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use boatswain::actors::failures::rules::{Rule, Verdict as RuleAction, judge};
use boatswain::config::{Config, FailureAction, FailureRule, OnExceeded};
use boatswain::exit::OVER_BUDGET;
use boatswain::model::executor::Class;
use boatswain::model::reasoning::ended_early;
use boatswain::model::{Ending, ExecutorId, LossClass, ProfileName, Snapshot, Tick};
use serde_json::Value;
use tokio::time::Instant;

use crate::checks::{Checks, PREFIX, Verdict};
use crate::objects::{NAMESPACE, text};
use crate::requests::CompletedWrite;
use crate::trace::trace_line;
use crate::world::World;

/// How long an ended application stays ended before the simulated operator deletes its record, so that it starts
/// again.
const RESTART_DELAY: Duration = Duration::from_secs(20);

/// A failure that a driver has counted is in the record after this long while the server works (spec O-30).
const RECORD_DELAY: Duration = Duration::from_secs(12);

/// The least limit that follows from the application's size (spec L-30).
const LEAST_LIMIT: u32 = 3;

/// A driver knows a target for certain after this long.
const TARGET_DELAY: Duration = Duration::from_secs(20);

/// For this long after trouble with the server, a counted failure may still be missing from the record.
const RECOVERY_DELAY: Duration = Duration::from_secs(120);

/// The failures since the application began.
#[derive(Debug, Default)]
pub struct Budget {
    /// `None`: the limit follows from the profile's largest target.
    max: Option<u32>,
    /// Whether each profile fails alone.
    alone: bool,
    /// The targets in each driver's ledger, each larger than those before, and when they were seen.
    largest: BTreeMap<(usize, ProfileName), Vec<(Instant, u32)>>,
    /// The profiles that have failed.
    failed: BTreeSet<ProfileName>,
    window: Duration,
    /// How far two readings of the drivers' clocks may differ: it blurs the age of failures that an earlier driver recorded.
    skew: Duration,
    stable_after: Duration,
    rules: Vec<Rule>,
    /// When each failure happened that a driver may have counted, and of which profile.
    possible: Vec<(Instant, ProfileName)>,
    /// Number of container restarts. A driver that learns of one late counts it as of then, so these have no time.
    restarts: usize,
    /// Failures that were certainly counted and that every later driver knows: the driver that reported each, and
    /// when.
    certain: BTreeMap<ExecutorId, (usize, Instant, ProfileName)>,
    counted: BTreeSet<ExecutorId>,
    /// A rule with the action `stop` matched.
    stopped: bool,
    /// The number of refusals of templates by the API server. Only the drivers know how many blocks these were.
    refusals: usize,
    /// Ends that a record had which was edited, and that no driver has reported. Drivers may have counted them.
    unreported: usize,
    /// The record says that the budget is spent. That stays so after the failures have left the window.
    recorded: bool,
    /// Drivers that began to end the application while it may have been spent. Their writes may be refused for long.
    decided_by: BTreeSet<usize>,
    /// The driver that wrote that the budget is spent, until that has been checked.
    spent_by: Option<usize>,
    /// When the application ended.
    pub ended_at: Option<Instant>,
    /// How many drivers had been started before this application.
    pub started_before: usize,
    /// When the operator last let an ended application start again.
    restart_allowed_at: Option<Instant>,
}

impl Budget {
    pub fn of(config: &Config, skew: Duration) -> Self {
        let failures = &config.failures;
        Self {
            max: failures.max,
            alone: failures.on_exceeded == OnExceeded::Profile,
            window: failures.window,
            skew,
            stable_after: failures.stable_after,
            rules: failures.rules.iter().map(rule).collect(),
            ..Self::default()
        }
    }

    /// Notes a reported end. A driver that has ended since (`has_ended`) may not have recorded it.
    // spec: L-20
    pub fn reported(&mut self, driver: usize, has_ended: bool, ending: &Ending) -> Verdict {
        let class = ending.reason.class;
        match judge(&self.rules, &ending.reason) {
            RuleAction::Ignore => return Ok(()),
            _ if class == LossClass::Abandoned => {
                return Err(format!(
                    "L-30: d{driver} counts the end of {} as a failure, although its agent found no driver",
                    ending.entry.id
                ));
            }
            RuleAction::Stop => self.stopped = true,
            RuleAction::Count => {}
        }
        let now = Instant::now();
        let entry = &ending.entry;
        self.possible.push((now, entry.profile.clone()));
        // Judged by the node's clock alone, because only one of several early failures within a backoff counts.
        let early = ended_early(entry, class, Tick::default(), self.stable_after);
        // Of a profile that its configuration does not have any more, a driver counts nothing.
        let has_profile = (self.largest).contains_key(&(driver, entry.profile.clone()));
        let is_known = has_profile && early.is_none() && entry.uid().is_some() && !has_ended;
        if self.counted.insert(entry.id) && is_known {
            let certain = (driver, now, entry.profile.clone());
            self.certain.insert(entry.id, certain);
        }
        Ok(())
    }

    /// A container was restarted within its pod after this end; a driver may count it.
    pub fn restarted(&mut self, ended: &Value) {
        let stops = |rule: &Rule| rule.action == RuleAction::Stop;
        self.stopped |= text(ended, "/reason") == "OOMKilled" && self.rules.iter().any(stops);
        self.restarts += 1;
    }

    /// The record was edited, and had this many ends that no driver has reported.
    pub fn unreported(&mut self, count: usize) {
        self.unreported += count;
    }

    /// The API server refused this many templates. Each block, which begins with a refusal, counts as a failure.
    pub fn refused(&mut self, count: usize) {
        self.refusals += count;
    }

    /// Notes the targets in a driver's ledger, and checks which profiles have failed there.
    // spec: L-40
    pub fn ledger(&mut self, driver: usize, ledger: &Snapshot, unreported: usize) -> Verdict {
        // A driver forgets the failures of a profile that its configuration does not have any more.
        (self.certain).retain(|_, (by, _, of)| *by > driver || ledger.targets.contains_key(of));
        for (profile, target) in &ledger.targets {
            let largest = self.largest.entry((driver, profile.clone())).or_default();
            if largest
                .last()
                .is_none_or(|(_, last)| *last < target.executors)
            {
                largest.push((Instant::now(), target.executors));
            }
        }
        for profile in ledger.failed.keys() {
            if ledger.target(profile) > 0 {
                return Err(format!(
                    "L-40: {profile} has failed, and d{driver} wants executors of it"
                ));
            }
            if !self.failed.contains(profile) && !self.may_have_failed(driver, profile, unreported)
            {
                return Err(format!(
                    "L-40: {profile} has failed by d{driver} after too few possible failures"
                ));
            }
            self.failed.insert(profile.clone());
        }
        Ok(())
    }

    /// The most failures of a profile whose target has been as large as this.
    fn limit(&self, largest: u32) -> u32 {
        (self.max).unwrap_or_else(|| LEAST_LIMIT.max(largest.saturating_mul(2)))
    }

    /// Whether this driver may consider the budget of any profile spent now.
    fn may_be_spent(&self, driver: usize, unreported: usize) -> bool {
        let failed = self.possible.iter().map(|(_, profile)| profile);
        let mut profiles = failed.chain(self.largest.keys().map(|(_, profile)| profile));
        let decided = self.recorded || self.decided_by.contains(&driver);
        decided || profiles.any(|profile| self.may_have_failed(driver, profile, unreported))
    }

    /// Whether this driver may consider the profile's budget spent now. A restart or a refusal may be any profile's.
    fn may_have_failed(&self, driver: usize, profile: &ProfileName, unreported: usize) -> bool {
        // A driver keeps the window in slices, and needs a moment to act on what it has reported.
        let longest = self.window + self.window / 100 + 2 * self.skew + Duration::from_secs(10);
        let counts = |(at, of): &&(Instant, ProfileName)| {
            of == profile && (self.window.is_zero() || at.elapsed() <= longest)
        };
        let count = self.possible.iter().filter(counts).count()
            + self.restarts
            + self.refusals
            + self.unreported
            + unreported;
        let largest = self.largest.get(&(driver, profile.clone()));
        let known = (largest.into_iter().flatten()).filter(|(at, _)| at.elapsed() >= TARGET_DELAY);
        let limit = self.limit(known.map(|(_, target)| *target).max().unwrap_or(0));
        self.stopped || count > limit as usize
    }

    /// A driver has ended: failures that it reported recently may be missing from the record.
    pub fn driver_ended(&mut self, driver: usize, last_fault: Option<Instant>) {
        let settled = last_fault.is_none_or(|at| at.elapsed() > RECOVERY_DELAY);
        (self.certain)
            .retain(|_, (by, at, _)| *by != driver || settled && at.elapsed() > RECORD_DELAY);
    }

    /// After this, no failure is known to be counted for certain.
    pub fn forget_certain_failures(&mut self) {
        self.certain.clear();
    }

    /// Another application begins.
    pub fn reset(&mut self) {
        let (max, alone, window, skew) = (self.max, self.alone, self.window, self.skew);
        *self = Self {
            max,
            alone,
            window,
            skew,
            stable_after: self.stable_after,
            rules: std::mem::take(&mut self.rules),
            restart_allowed_at: self
                .ended_at
                .map(|_| Instant::now())
                .or(self.restart_allowed_at),
            largest: std::mem::take(&mut self.largest),
            ..Self::default()
        };
    }

    /// Whether a profile goes on although its budget is certainly spent. `largest`: its largest target.
    // spec: L-30, L-40
    pub fn check_limit(&self, profile: &ProfileName, largest: u32) -> Verdict {
        let blur = self.window / 100 + 2 * self.skew + TARGET_DELAY;
        let counts = |at: Instant| self.window.is_zero() || at.elapsed() + blur < self.window;
        let certain = (self.certain.values())
            .filter(|(_, at, of)| of == profile && counts(*at))
            .count();
        let limit = self.limit(largest);
        let is_over = self.ended_at.is_some() || self.failed.contains(profile);
        if certain > limit as usize && !is_over {
            return Err(format!(
                "L-30: {certain} executors of {profile} failed, at most {limit} may, and it goes on"
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
            FailureAction::Ignore => RuleAction::Ignore,
            FailureAction::Count => RuleAction::Count,
            FailureAction::Stop => RuleAction::Stop,
        },
    }
}

impl Checks {
    /// Notes a write to the record which says that the budget is spent.
    pub fn note_spent_budget(&mut self, write: &CompletedWrite) {
        if write.succeeded() && text(&write.sent, "/data/failures").contains("\"spent\"") {
            self.budget.spent_by = Some(write.driver);
        }
    }

    /// A driver may declare the budget spent only after enough failures. Checked once the reports of all living
    /// drivers have been taken in.
    // spec: L-30, O-30
    pub fn check_spent_budget(&mut self, is_alive: impl Fn(usize) -> bool) -> Verdict {
        let Some(driver) = self.budget.spent_by.take() else {
            return Ok(());
        };
        if self.budget.alone {
            return Err(format!(
                "L-40: d{driver} ends the application for a profile that fails alone"
            ));
        }
        let may_be_spent = self.may_be_spent(driver);
        if is_alive(driver)
            && !may_be_spent
            && !self.may_be_restored()
            && !self.remembers_ended_application(driver)
        {
            return Err(format!(
                "L-30: d{driver} records a spent budget after only {} possible failures",
                self.budget.possible.len()
            ));
        }
        self.budget.recorded = true;
        Ok(())
    }

    /// Whether this driver may consider the budget spent now. A driver that was killed before it reported an end may have
    /// recorded it, and its successor counts it.
    pub fn may_be_spent(&self, driver: usize) -> bool {
        self.budget.may_be_spent(driver, self.unreported_ends())
    }

    /// A driver has begun to end its executors with the application.
    pub fn note_end_of_application(&mut self, driver: usize) {
        if self.may_be_spent(driver) {
            self.budget.decided_by.insert(driver);
        }
    }

    pub fn unreported_ends(&self) -> usize {
        // A driver that has read a record counts on when its server is emptied.
        let recorded: BTreeSet<&ExecutorId> =
            self.recorded_ends.keys().chain(&self.lost_ends).collect();
        let unreported = (recorded.into_iter()).filter(|id| !self.reported_now.contains(*id));
        unreported.count()
    }

    /// The ends that a driver knows of, of profiles that have failed there, while neither record nor report has them yet.
    pub fn unrecorded_ends(&self, ledger: &Snapshot) -> usize {
        let known = |id| self.recorded_ends.contains_key(id) || self.reported_now.contains(id);
        let of_failed = (ledger.entries.values())
            .filter(|entry| ledger.failed.contains_key(&entry.profile) && !known(&entry.id));
        let ended =
            of_failed.filter(|entry| matches!(entry.class(), Class::Finished | Class::Gone));
        ended.count()
    }

    /// Whether this driver was frozen while a successor ended the application and the record was deleted. It writes the
    /// record anew, with the failures that it remembers.
    fn remembers_ended_application(&self, driver: usize) -> bool {
        let began = self.began(driver);
        (self.budget.restart_allowed_at).is_some_and(|at| began.is_some_and(|began| began < at))
    }

    /// Whether a restore may have brought back the record of an ended application that was allowed to start again
    /// since.
    fn may_be_restored(&self) -> bool {
        (self.budget.restart_allowed_at).is_some_and(|at| self.was_history_replaced_since(at))
    }
}

impl World {
    /// Whether the driver with this number may exit with this code, because too many executors failed or because the record says so.
    // spec: L-30
    pub fn may_exit_with(&mut self, code: u8, number: usize, started: Instant) -> bool {
        let restored = self.checks.may_be_restored();
        let may_be_spent = self.checks.may_be_spent(number);
        let budget = &mut self.checks.budget;
        // The driver may have read the record just before the operator deleted it.
        if code == OVER_BUDGET && budget.restart_allowed_at.is_some_and(|at| started <= at) {
            return true;
        }
        let is_over = budget.ended_at.is_some() || may_be_spent || restored;
        if code != OVER_BUDGET || !is_over {
            return false;
        }
        if budget.ended_at.is_none() {
            budget.ended_at = Some(Instant::now());
            self.checks.application_ended();
        }
        true
    }

    /// Deletes the record of an ended application, as an operator does who lets it start again.
    pub async fn restart_ended_application(&mut self, at_once: bool) {
        let due = |ended: Instant| at_once || ended.elapsed() >= RESTART_DELAY;
        // An unreadable record does not say that the application has ended, until it is repaired.
        let is_unreadable = self.unrepaired_record.is_some();
        if self.is_down() || is_unreadable || !self.checks.budget.ended_at.is_some_and(due) {
            return;
        }
        let name = format!("{PREFIX}-app");
        let state = self.cluster.state().await;
        // If the record was lost or replaced by an older one, the application has already started again without the
        // operator.
        let record_says_ended = (state.config_maps(NAMESPACE)).any(|map| {
            text(map, "/metadata/name") == name
                && text(map, "/data/finished") == OVER_BUDGET.to_string()
        });
        if record_says_ended {
            let code = self.client.delete_config_map(&name, "Background").await;
            trace_line!("   the record of the ended application is deleted: {code}");
        }
        if record_says_ended {
            // The next application gives its executors the same ids.
            self.checks.reported.clear();
            self.checks.reported_now.clear();
            self.checks.recorded_ends.clear();
            self.checks.lost_ends.clear();
        }
        let budget = &mut self.checks.budget;
        // An older record still contains the failures from before it was written.
        let before =
            (!record_says_ended).then(|| (std::mem::take(&mut budget.possible), budget.restarts));
        budget.reset();
        budget.started_before = self.drivers.borrow().len();
        (budget.possible, budget.restarts) = before.unwrap_or_default();
    }
}
