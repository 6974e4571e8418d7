//! Checks convergence: after the last fault the fleet reaches its targets within a time limit, and after that no driver
//! writes anything.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use boatswain::config::{OnSignal, ScaleDown};
use boatswain::model::executor::Class;
use boatswain::model::pod::PendingStage;
use boatswain::model::{Entry, ProfileName, Snapshot};
use serde_json::Value;
use tokio::time::Instant;

use crate::checks::{IMAGE_TIMEOUT, PREFIX, Verdict};
use crate::claims;
use crate::drivers::Driver;
use crate::kept;
use crate::leaving_nodes;
use crate::network::LONGEST_LINE_DELAY;
use crate::network_conditions::{LONGEST_DELAY, RequestFault};
use crate::objects::{NAMESPACE, is_executor, is_inactive, is_terminating, owner, text};
use crate::script::{Fault, Script};
use crate::sets;
use crate::trace::trace_line;
use crate::world::World;

/// No driver may write for this long once the fleet has converged.
const QUIET_PERIOD: Duration = Duration::from_secs(200);

/// Interval between checks for convergence.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// A driver retries failed deletes, look-ups, lists, watches and record writes after at most this long.
pub const LONGEST_BACKOFF: Duration = Duration::from_secs(30);

/// A silent watch counts as dead after this long, and its data is not trusted after twice this long (spec W-3).
pub const LONGEST_SILENCE: Duration = Duration::from_secs(610);

/// The watch on the record is reopened after this long (spec W-10).
const RECORD_WATCH: Duration = Duration::from_secs(310);

/// With polling disabled, the watch lists at this interval (spec P-3).
pub const LIST_INTERVAL: Duration = Duration::from_secs(300);

/// A create refused by a quota is retried after at most this long (spec A-21).
const QUOTA_RETRY: Duration = Duration::from_secs(60);

/// A refused template is retried after this long (spec A-23).
const TEMPLATE_RETRY: Duration = Duration::from_secs(300);

/// An ended application starts again after at most this long.
const RESTART_DELAY: Duration = Duration::from_secs(25);

/// Changes to the record are batched for this long (spec O-30).
const RECORD_DELAY: Duration = Duration::from_secs(5);

/// The longest that the fleet may take to converge once no more faults are injected.
// spec: I-4
pub fn time_limit(script: &Script) -> Duration {
    let Script { config, pace, .. } = script;
    let call = config.cluster.request_timeout + Duration::from_secs(1);
    // A request sent before the last fault was undone may go unanswered; a backoff then precedes the retry.
    let retry = 2 * (call + LONGEST_BACKOFF);
    let start = config.cluster.start_timeout + retry;
    let listed = if config.poll.enabled {
        config.poll.interval.mul_f64(1.1) + retry
    } else {
        2 * LONGEST_SILENCE + LIST_INTERVAL.mul_f64(1.1) + retry
    };
    let settled = config.allocation.creation_timeout + retry;
    let removed = pace.stop + retry;
    let runs = pace.bind + pace.start + call;
    // The backoff under way, then a trial executor that has to stay up.
    let crashed = config.failures.backoff_max + config.failures.stable_after + runs;
    let surplus = config.allocation.cancel_delay + removed;
    // A gang may have been given up just before; it is then complete one attempt later.
    let gang = match config.scheduling.gang.is_on() {
        true => {
            2 * (config.failures.backoff_max + config.scheduling.gang_timeout.mul_f64(1.25))
                + removed
                + runs
        }
        false => Duration::ZERO,
    };
    let (mut slow_delay, mut template_retry) = (LONGEST_DELAY, TEMPLATE_RETRY);
    let rounds =
        10 * (config.tuning.min_gap + config.allocation.interval + config.lifecycle.interval);
    let mut limit = start + listed + settled + crashed + surplus + runs + RECORD_WATCH + retry;
    limit += RECORD_DELAY + QUOTA_RETRY + rounds + gang;
    // An executor that waited for something missing is replaced by one that does not have to wait.
    limit += config
        .allocation
        .pending_timeout
        .unwrap_or_default()
        .max(IMAGE_TIMEOUT);
    limit += config.allocation.stuck_after + removed + runs;
    if config.failures.max < Some(u32::MAX) {
        // The last failures may end the application, which then starts again.
        limit += config.shutdown.grace + RESTART_DELAY + start + listed + runs;
    }
    let sessions = &config.backend.sessions;
    if sessions.listen.is_some() {
        // Executors that never register or fell silent are given up, but only after all of them had time to reconnect.
        let silent = 3 * sessions.heartbeat_timeout + sessions.loss_reason_timeout;
        limit += config.adoption.grace + config.allocation.registration_timeout.max(silent);
        limit += config.backend.decommission_timeout + removed + runs;
        // Keys that could not be read are asked for again (spec O-115).
        limit += 2 * (call + Duration::from_secs(10));
    }
    limit +=
        leaving_nodes::extra_time(config) + claims::extra_time(config) + kept::extra_time(config);
    limit += sets::extra_time(script);
    // Requests and watch lines in flight when the faults end still arrive.
    limit += 4 * config.cluster.request_timeout + LONGEST_LINE_DELAY;
    for step in &script.steps {
        let Fault::Network { conditions, .. } = &step.fault else {
            continue;
        };
        let has = |wanted: &[RequestFault]| {
            conditions
                .request_faults
                .iter()
                .any(|(fault, _)| wanted.contains(fault))
        };
        if has(&[RequestFault::Slow]) {
            limit += std::mem::take(&mut slow_delay);
        }
        if has(&[
            RequestFault::Admission,
            RequestFault::Webhook,
            RequestFault::Invalid,
        ]) {
            limit += std::mem::take(&mut template_retry);
        }
    }
    limit
}

impl World {
    /// Undoes all faults and checks that the fleet converges; then ends the application and checks that nothing is
    /// left.
    // spec: I-4, I-6
    pub async fn check_convergence(&mut self) -> Verdict {
        trace_line!("== faults end");
        self.undo_all().await;
        self.restart_ended_application(true).await;
        for driver in self.drivers.borrow_mut().iter_mut() {
            if std::mem::take(&mut driver.paused) {
                // A paused driver receives the request to stop only now.
                driver.stop_requested = driver
                    .stop_requested
                    .map(|(on_signal, _)| (on_signal, Instant::now()));
            }
            driver.polls_left = None;
            driver.stop_after_polls = None;
        }
        self.resumes.clear();
        self.starts.truncate(1);
        if let Some(start) = self.starts.first_mut() {
            *start = Instant::now();
        }
        self.ensure_driver();
        if std::mem::take(&mut self.held) {
            self.inject(Fault::Resume).await;
        }

        let limit = Instant::now() + time_limit(&self.script);
        if !self.uses_whole_limit() && self.settles_before(limit).await? {
            return self.end_application().await;
        }
        self.run_until(limit).await?;
        self.check_converged().await?;
        trace_line!("== quiet period");
        self.writes = 0;
        self.run_until(Instant::now() + QUIET_PERIOD).await?;
        if self.writes > 0 {
            return Err(format!("I-4: {} writes after convergence", self.writes));
        }
        self.check_converged().await?;
        self.probe_watch().await?;
        self.probe_record().await?;
        self.check_memory_at_rest().await?;
        self.end_application().await
    }

    /// Whether to wait for the whole time limit even if the fleet converged earlier. Only then do faults show that are
    /// noticed late, such as a dead watch or an unwatched record.
    fn uses_whole_limit(&self) -> bool {
        self.script.seed.is_multiple_of(4)
    }

    /// Runs the world until the fleet has been at its targets without any write for [`QUIET_PERIOD`]. Returns whether
    /// that happened before `limit`.
    async fn settles_before(&mut self, limit: Instant) -> Result<bool, String> {
        let mut since = Instant::now();
        self.writes = 0;
        while since < limit {
            self.run_until(Instant::now() + CHECK_INTERVAL).await?;
            // The successor may have died before an older driver learned of it, and that older driver may still run.
            let is_superseded = self
                .youngest()
                .is_some_and(|d| self.checks.is_superseded(d));
            let wrote = std::mem::take(&mut self.writes) > 0;
            if wrote || is_superseded || self.check_converged().await.is_err() {
                since = Instant::now();
            } else if since.elapsed() >= QUIET_PERIOD {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn check_converged(&mut self) -> Verdict {
        let alive: Vec<usize> = (self.drivers.borrow().iter())
            .filter(|driver| driver.is_alive())
            .map(|driver| driver.number)
            .collect();
        let [number] = alive[..] else {
            return Err(format!(
                "W-7: drivers {alive:?} are alive, and one should be"
            ));
        };
        let Some(ledger) = self.checks.last_ledger(number).cloned() else {
            return Err(format!("O-31: d{number} has not taken over"));
        };
        self.check_targets(&ledger)?;
        for (profile, largest) in self.checks.highest_targets() {
            // One that the configuration no longer has goes anyway.
            if ledger.targets.contains_key(profile) {
                self.checks.budget.check_limit(profile, largest)?;
            }
        }
        self.nodes.objects.check_converged(&ledger)?;
        leaving_nodes::check_protection(&self.script.config, &ledger)?;
        self.checks.check_all_reported(number)?;
        let state = self.cluster.state().await;
        let record = state
            .config_maps(NAMESPACE)
            .find(|map| text(map, "/metadata/name") == format!("{PREFIX}-app"));
        let Some(record) = record else {
            return Err("O-30: there is no record".to_owned());
        };
        let app = text(record, "/data/app-id").to_owned();
        let record = text(record, "/metadata/uid");
        claims::check_owners(&state, &self.script, &self.checks.excuses, &app, record)?;
        kept::check_converged(&state, &self.script.config, &app)?;
        self.app_id.clone_from(&app);
        let of_sets = self.script.is_of_sets();
        if of_sets {
            let drivers = self.drivers.borrow();
            let driver = drivers.iter().find(|driver| driver.number == number);
            let images = driver.map(|driver| driver.images.clone());
            sets::check_converged(&state, &ledger, &images.unwrap_or_default(), &app)?;
        }
        let pods: Vec<&Value> = (state.pods(NAMESPACE))
            .filter(|pod| is_executor(pod, &app, of_sets) && !is_inactive(pod))
            .collect();
        if !of_sets {
            check_owners(&pods, record)?;
        }
        if self.script.config.allocation.scale_down == ScaleDown::Running {
            self.checks.check_surplus_at_rest(&state, &ledger)?;
        }
        check_ledger_matches(&ledger, &pods)
    }

    /// Memory is bounded by the living fleet, whatever happened before and however long it took.
    // spec: I-8, S-14
    async fn check_memory_at_rest(&self) -> Verdict {
        let handle = (self.drivers.borrow().iter())
            .find(|driver| driver.is_alive())
            .map(|driver| (driver.number, driver.handle.clone()));
        let Some((number, handle)) = handle else {
            return Ok(());
        };
        let (Some(measures), Some(ledger)) =
            (handle.measure().await, self.checks.last_ledger(number))
        else {
            return Err(format!("O-12: d{number} does not answer"));
        };
        let foreign = self.checks.excuses.foreign.len() + self.checks.excuses.relabelled.len();
        // With executor sessions, some news is always in flight. The postponement of merges that help little bounds the
        // amount not yet merged (spec S-23).
        let buffered = self.script.config.tuning.max_buffered as usize;
        let waiting = match self.sessions {
            Some(_) => buffered.max(2 * ledger.entries.len()) + 1,
            None => 1,
        };
        // A deleted pod that the simulation relabelled with an id far beyond all others leaves a gap.
        let distant_ids = match self.script.is_of_sets() {
            true => self.checks.excuses.relabelled.len(),
            false => 0,
        };
        let is_bounded = measures.tombstones == 0
            && measures.unrecognised <= foreign
            && measures.suspects <= ledger.entries.len()
            && measures.waiting <= waiting.max(1)
            && ledger.ended.interval_count() <= ledger.entries.len() + distant_ids + 1;
        if is_bounded {
            return Ok(());
        }
        Err(format!(
            "I-8: at rest d{number} remembers {measures:?}, and {} intervals of ids beside {} executors",
            ledger.ended.interval_count(),
            ledger.entries.len()
        ))
    }

    fn check_targets(&self, ledger: &Snapshot) -> Verdict {
        let pending_only = self.script.config.allocation.scale_down == ScaleDown::PendingOnly;
        for profile in ledger.targets.keys().chain(ledger.counts.keys()) {
            let (counts, target) = (ledger.counts(profile), ledger.target(profile));
            let (live, running) = (counts.live(), counts.running);
            let stuck = self.without_a_claim(ledger, profile);
            let there = running + stuck;
            let enough = there == target || pending_only && there > target;
            if live != there || !enough {
                return Err(format!(
                    "I-4: {profile}: {live} live, {running} running, {target} wanted"
                ));
            }
        }
        Ok(())
    }

    /// The executors that are of another profile since an operator relabelled their pods, before the claims were made that
    /// their own profile has.
    fn without_a_claim(&self, ledger: &Snapshot, profile: &ProfileName) -> u32 {
        if !claims::has_claims(&self.script.config) {
            return 0;
        }
        let relabelled = &self.checks.excuses.relabelled;
        let waits = |entry: &&Arc<Entry>| {
            entry.profile == *profile
                && entry.class() == Class::Pending(PendingStage::Unscheduled)
                && entry
                    .uid()
                    .is_some_and(|uid| relabelled.contains(uid.as_str()))
        };
        let number = ledger.entries.values().filter(waits).count();
        u32::try_from(number).unwrap_or(u32::MAX)
    }

    fn is_of_another_origin(&self, origin: &str) -> bool {
        let restored = !self.checks.excuses.history_replaced.is_empty();
        let drivers = self.drivers.borrow();
        let own = drivers.iter().map(|driver| driver.number).max();
        let own = own.map(|number| self.checks.origin(number));
        restored && own.is_some_and(|own| !own.is_empty() && own != origin)
    }

    // spec: O-11
    async fn end_application(&mut self) -> Verdict {
        trace_line!("== end");
        self.checks.excuses.ending = true;
        (self.ended_clean, self.superseded_at_end) = (false, false);
        if let Some(number) = self.youngest() {
            self.request_stop(number, OnSignal::End);
        }
        let grace = self.script.config.shutdown.grace;
        self.run_until(Instant::now() + grace + Duration::from_secs(5))
            .await?;
        if self.drivers.borrow().iter().any(Driver::is_alive) {
            return Err("O-11: the driver does not end".to_owned());
        }
        if self.superseded_at_end {
            return Ok(());
        }
        let state = self.cluster.state().await;
        let of_sets = self.script.is_of_sets();
        sets::check_none_left(&state, &self.app_id)?;
        let left: Vec<&str> = state
            .pods(NAMESPACE)
            .filter(|pod| is_executor(pod, &self.app_id, of_sets) && !is_inactive(pod))
            .filter(|pod| {
                !self
                    .checks
                    .excuses
                    .future_incarnation
                    .contains_key(text(pod, "/metadata/uid"))
            })
            .map(|pod| text(pod, "/metadata/name"))
            .collect();
        let records = state
            .config_maps(NAMESPACE)
            .filter(|map| text(map, "/metadata/name") == format!("{PREFIX}-app"))
            // A restore brought it back, and it names another application than the one that ends (spec W-7).
            .filter(|map| !self.is_of_another_origin(text(map, "/data/origin")))
            .count();
        // A pod that may belong to a younger driver is logged by name and left to the garbage collector.
        let incarnation = (self.youngest()).and_then(|number| self.checks.incarnation(number));
        let may_be_younger = self.checks.excuses.has_future_incarnation(incarnation);
        if (self.ended_clean || may_be_younger) && left.is_empty() && records == 0 {
            let excuses = &self.checks.excuses;
            return claims::check_none_left(&state, &self.script, excuses, &self.app_id);
        }
        Err(format!(
            "O-11: left when the application has ended: pods {left:?}, {records} records"
        ))
    }
}

/// Whether the record owns every executor pod that is not terminating. Pods owned by another record would be
/// garbage-collected.
// spec: K-13
fn check_owners(pods: &[&Value], record: &str) -> Verdict {
    let mut living = pods.iter().filter(|pod| !is_terminating(pod));
    let not_owned = living.find(|pod| owner(pod) != record);
    match not_owned {
        Some(pod) => Err(format!(
            "K-2: {} is not the record's: {}",
            text(pod, "/metadata/name"),
            pod["metadata"]["ownerReferences"]
        )),
        None => Ok(()),
    }
}

// spec: I-6, I-10
fn check_ledger_matches(ledger: &Snapshot, pods: &[&Value]) -> Verdict {
    let line = |name: &str, uid: &str, version: &str| format!("{name} {uid} @{version}");
    let there: BTreeSet<String> = (pods.iter())
        .map(|pod| {
            line(
                text(pod, "/metadata/name"),
                text(pod, "/metadata/uid"),
                text(pod, "/metadata/resourceVersion"),
            )
        })
        .collect();
    let known: BTreeSet<String> = (ledger.entries.values())
        .map(|entry| match entry.pod() {
            Some(pod) => line(&pod.name, pod.uid.as_str(), &pod.version.to_string()),
            None => format!("{} without a pod", entry.id),
        })
        .chain(
            ledger
                .orphans
                .values()
                .map(|orphan| format!("orphan {}", orphan.name)),
        )
        .collect();
    if there == known {
        return Ok(());
    }
    let there_only: Vec<_> = there.difference(&known).collect();
    let known_only: Vec<_> = known.difference(&there).collect();
    Err(format!(
        "I-6: the server alone has {there_only:?}, the ledger alone {known_only:?}"
    ))
}
