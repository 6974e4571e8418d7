//! Checks convergence: after the last fault the fleet reaches its targets within a bound, and after that no driver
//! writes anything.

use std::collections::BTreeSet;
use std::time::Duration;

use boatswain::config::{OnSignal, ScaleDown};
use boatswain::model::Snapshot;
use serde_json::Value;
use tokio::time::Instant;

use crate::checks::{IMAGE, PREFIX, Verdict};
use crate::claims;
use crate::drivers::Driver;
use crate::network::LATEST_LINE;
use crate::network_conditions::{Ill, LONGEST_DELAY};
use crate::objects::{NAMESPACE, is_inactive, is_terminating, label, owner, text};
use crate::script::{Fault, Script};
use crate::sets;
use crate::trace::say;
use crate::world::World;

/// No driver may write for this long once the fleet has converged.
const SILENCE: Duration = Duration::from_secs(200);

/// Interval between checks for convergence.
const GLANCE: Duration = Duration::from_secs(10);

/// A driver retries failed deletes, look-ups, lists, watches and record writes after at most this long.
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);

/// A silent watch counts as dead after this long, and its data is not trusted after twice this long (spec W-3).
const LONGEST_SILENCE: Duration = Duration::from_secs(610);

/// The watch on the record is reopened after this long (spec W-7).
const RECORD_WATCH: Duration = Duration::from_secs(310);

/// With polling disabled, the watch lists at this interval (spec P-3).
const SWEEP: Duration = Duration::from_secs(300);

/// A create refused by a quota is retried after at most this long (spec A-21).
const QUOTA: Duration = Duration::from_secs(60);

/// A refused template is retried after this long (spec A-23).
const BLOCKED: Duration = Duration::from_secs(300);

/// An ended application starts again after at most this long.
const FORGIVEN: Duration = Duration::from_secs(25);

/// Changes to the record are batched for this long (spec O-30).
const GATHERED: Duration = Duration::from_secs(5);

/// The longest that the fleet may take to converge once no more faults are injected.
// spec: I-4
pub fn bound(script: &Script) -> Duration {
    let Script { config, pace, .. } = script;
    let call = config.cluster.request_timeout + Duration::from_secs(1);
    // A request sent before the last fault was undone may go unanswered; a backoff then precedes the retry.
    let again = 2 * (call + LONGEST_BACKOFF);
    let start = config.cluster.start_timeout + again;
    let seen = if config.poll.enabled {
        config.poll.interval.mul_f64(1.1) + again
    } else {
        2 * LONGEST_SILENCE + SWEEP.mul_f64(1.1) + again
    };
    let settled = config.allocation.creation_timeout + again;
    let gone = pace.stop + again;
    let runs = pace.bind + pace.start + call;
    // The backoff under way, then a trial executor that has to stay up.
    let crashed = config.failures.backoff_max + config.failures.stable_after + runs;
    let surplus = config.allocation.cancel_delay + gone;
    // A gang may have been given up just before, and then come together one attempt later than it could.
    let gang = match config.scheduling.gang.is_on() {
        true => 2 * (config.failures.backoff_max + config.scheduling.gang_timeout) + gone + runs,
        false => Duration::ZERO,
    };
    let (mut slowest, mut blocked) = (LONGEST_DELAY, BLOCKED);
    let rounds =
        10 * (config.allocation.min_gap + config.allocation.interval + config.lifecycle.interval);
    let mut bound = start + seen + settled + crashed + surplus + runs + RECORD_WATCH + again;
    bound += GATHERED + QUOTA + rounds + gang;
    // An executor that waited for something missing is replaced by one that does not have to wait.
    bound += config
        .allocation
        .pending_timeout
        .unwrap_or_default()
        .max(IMAGE);
    bound += config.allocation.stuck_after + gone + runs;
    if config.failures.max < Some(u32::MAX) {
        // The last failures may end the application, which then starts again.
        bound += config.shutdown.grace + FORGIVEN + start + seen + runs;
    }
    let sessions = &config.backend.sessions;
    if sessions.listen.is_some() {
        // Executors that never register or fell silent are given up, but only after all of them had time to reconnect.
        let silent = 3 * sessions.heartbeat_timeout + sessions.loss_reason_timeout;
        bound += config.adoption.grace + config.allocation.registration_timeout.max(silent);
        bound += config.backend.decommission_timeout + gone + runs;
    }
    bound += claims::bound(config);
    bound += sets::bound(script);
    // Requests and watch lines in flight when the faults end still arrive.
    bound += 4 * config.cluster.request_timeout + LATEST_LINE;
    for step in &script.steps {
        let Fault::Weather { weather, .. } = &step.fault else {
            continue;
        };
        let has = |wanted: &[Ill]| weather.ills.iter().any(|(ill, _)| wanted.contains(ill));
        if has(&[Ill::Slow]) {
            bound += std::mem::take(&mut slowest);
        }
        if has(&[Ill::Admission, Ill::Webhook, Ill::Invalid]) {
            bound += std::mem::take(&mut blocked);
        }
    }
    bound
}

impl World {
    /// Undoes all faults and checks that the fleet converges; then ends the application and checks that nothing is
    /// left.
    // spec: I-4, I-6
    pub async fn calm_down(&mut self) -> Verdict {
        say!("== calm");
        self.undo_all().await;
        self.forgive(true).await;
        for driver in self.fleet.borrow_mut().iter_mut() {
            if std::mem::take(&mut driver.paused) {
                // A paused driver receives the order to stop only now.
                driver.told = driver.told.map(|(way, _)| (way, Instant::now()));
            }
            driver.turns = None;
        }
        self.resumes.clear();
        self.starts.truncate(1);
        if let Some(start) = self.starts.first_mut() {
            *start = Instant::now();
        }
        self.keep_one_alive();
        if std::mem::take(&mut self.held) {
            self.befall(Fault::Resume).await;
        }

        let bound = Instant::now() + bound(&self.script);
        if !self.waits_it_out() && self.rests_before(bound).await? {
            return self.end().await;
        }
        self.until(bound).await?;
        self.at_rest().await?;
        say!("== silence");
        self.writes = 0;
        self.until(Instant::now() + SILENCE).await?;
        if self.writes > 0 {
            return Err(format!(
                "I-4: {} writes when everything is as wanted",
                self.writes
            ));
        }
        self.at_rest().await?;
        self.probe().await?;
        self.nothing_remembered().await?;
        self.end().await
    }

    /// Whether to wait for the whole bound even if the fleet converged earlier. Only then do faults show that are
    /// noticed late, such as a dead watch or an unwatched record.
    fn waits_it_out(&self) -> bool {
        self.script.seed.is_multiple_of(4)
    }

    /// Runs the world until the fleet has been at its targets without any write for [`SILENCE`]. Returns whether that
    /// happened before `bound`.
    async fn rests_before(&mut self, bound: Instant) -> Result<bool, String> {
        let mut since = Instant::now();
        self.writes = 0;
        while since < bound {
            self.until(Instant::now() + GLANCE).await?;
            // The successor may have died before an older driver learned of it, and that older driver may still run.
            let outlived = self
                .youngest()
                .is_some_and(|d| self.checks.is_superseded(d));
            let wrote = std::mem::take(&mut self.writes) > 0;
            if wrote || outlived || self.at_rest().await.is_err() {
                since = Instant::now();
            } else if since.elapsed() >= SILENCE {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn at_rest(&mut self) -> Verdict {
        let alive: Vec<usize> = (self.fleet.borrow().iter())
            .filter(|driver| driver.is_alive())
            .map(|driver| driver.number)
            .collect();
        let [number] = alive[..] else {
            return Err(format!(
                "W-7: drivers {alive:?} are alive, and one should be"
            ));
        };
        let Some(ledger) = self.checks.last(number).cloned() else {
            return Err(format!("O-31: d{number} has not taken over"));
        };
        self.as_wanted(&ledger)?;
        self.checks.budget.is_kept()?;
        self.checks.all_reported(number)?;
        let state = self.cluster.state().await;
        let record = state
            .config_maps(NAMESPACE)
            .find(|map| text(map, "/metadata/name") == format!("{PREFIX}-app"));
        let Some(record) = record else {
            return Err("O-30: there is no record".to_owned());
        };
        let app = text(record, "/data/app-id").to_owned();
        let record = text(record, "/metadata/uid");
        claims::belong(&state, &self.script.config, &app, record)?;
        self.app_id.clone_from(&app);
        let of_sets = self.script.is_of_sets();
        if of_sets {
            let fleet = self.fleet.borrow();
            let driver = fleet.iter().find(|driver| driver.number == number);
            let images = driver.map(|driver| driver.images.clone());
            sets::as_wanted(&state, &ledger, &images.unwrap_or_default(), &app)?;
        }
        let pods: Vec<&Value> = (state.pods(NAMESPACE))
            .filter(|pod| is_executor(pod, &app, of_sets))
            .filter(|pod| !self.is_unborn(pod, &ledger))
            .collect();
        if !of_sets {
            are_owned(&pods, record)?;
        }
        same(&ledger, &pods)
    }

    /// Memory is bounded by the living fleet, whatever happened before and however long it took.
    // spec: I-8, S-14
    async fn nothing_remembered(&self) -> Verdict {
        let handle = (self.fleet.borrow().iter())
            .find(|driver| driver.is_alive())
            .map(|driver| (driver.number, driver.handle.clone()));
        let Some((number, handle)) = handle else {
            return Ok(());
        };
        let (Some(measures), Some(ledger)) = (handle.measure().await, self.checks.last(number))
        else {
            return Err(format!("O-12: d{number} does not answer"));
        };
        let planted = self.checks.excuses.planted.len() + self.checks.excuses.relabelled.len();
        // With executor sessions, news is always on its way. The amount not yet merged is bounded by the postponement
        // of merges that help little (spec S-23).
        let buffered = self.script.config.lifecycle.max_buffered as usize;
        let waiting = match self.talk {
            Some(_) => buffered.max(2 * ledger.entries.len()) + 1,
            None => 1,
        };
        // A deleted pod that the simulation relabelled with an id far beyond all others leaves a gap.
        let far = match self.script.is_of_sets() {
            true => self.checks.excuses.relabelled.len(),
            false => 0,
        };
        let small = measures.tombstones == 0
            && measures.unrecognised <= planted
            && measures.suspects <= ledger.entries.len()
            && measures.waiting <= waiting.max(1)
            && ledger.ended.interval_count() <= ledger.entries.len() + far + 1;
        if small {
            return Ok(());
        }
        Err(format!(
            "I-8: at rest d{number} remembers {measures:?}, and {} intervals of ids beside {} executors",
            ledger.ended.interval_count(),
            ledger.entries.len()
        ))
    }

    /// Whether a pod claims to be made by a future incarnation, and no driver has adopted it.
    fn is_unborn(&self, pod: &Value, ledger: &Snapshot) -> bool {
        let uid = text(pod, "/metadata/uid");
        let adopted = (ledger.entries.values())
            .any(|entry| entry.uid().is_some_and(|bound| bound.as_str() == uid));
        self.checks.excuses.unborn.contains(uid) && !adopted
    }

    fn as_wanted(&self, ledger: &Snapshot) -> Verdict {
        let pending_only = self.script.config.allocation.scale_down == ScaleDown::PendingOnly;
        for profile in ledger.targets.keys().chain(ledger.counts.keys()) {
            let (counts, target) = (ledger.counts(profile), ledger.target(profile));
            let (live, running) = (counts.live(), counts.running);
            let enough = running == target || pending_only && running > target;
            if live != running || !enough {
                return Err(format!(
                    "I-4: {profile}: {live} live, {running} running, {target} wanted"
                ));
            }
        }
        Ok(())
    }

    // spec: O-11
    async fn end(&mut self) -> Verdict {
        say!("== end");
        self.checks.excuses.ending = true;
        self.ended_clean = false;
        if let Some(number) = self.youngest() {
            self.tell_to_stop(number, OnSignal::End);
        }
        let grace = self.script.config.shutdown.grace;
        self.until(Instant::now() + grace + Duration::from_secs(5))
            .await?;
        if self.fleet.borrow().iter().any(Driver::is_alive) {
            return Err("O-11: the driver does not end".to_owned());
        }
        let state = self.cluster.state().await;
        let of_sets = self.script.is_of_sets();
        sets::none_is_left(&state, &self.app_id)?;
        let left: Vec<&str> = state
            .pods(NAMESPACE)
            .filter(|pod| is_executor(pod, &self.app_id, of_sets))
            .filter(|pod| {
                !self
                    .checks
                    .excuses
                    .unborn
                    .contains(text(pod, "/metadata/uid"))
            })
            .map(|pod| text(pod, "/metadata/name"))
            .collect();
        let records = state
            .config_maps(NAMESPACE)
            .filter(|map| text(map, "/metadata/name") == format!("{PREFIX}-app"))
            .count();
        // A pod that cannot be told from a younger driver's is logged by name and left to the garbage collector.
        let unborn = !self.checks.excuses.unborn.is_empty();
        if (self.ended_clean || unborn) && left.is_empty() && records == 0 {
            return claims::none_is_left(&state, &self.app_id);
        }
        Err(format!(
            "O-11: left when the application has ended: pods {left:?}, {records} records"
        ))
    }
}

/// Whether the record owns every executor pod that is not terminating. Pods owned by another record would be
/// garbage-collected.
// spec: K-2
fn are_owned(pods: &[&Value], record: &str) -> Verdict {
    let mut living = pods.iter().filter(|pod| !is_terminating(pod));
    let orphan = living.find(|pod| owner(pod) != record);
    match orphan {
        Some(pod) => Err(format!(
            "K-2: {} is not the record's: {}",
            text(pod, "/metadata/name"),
            pod["metadata"]["ownerReferences"]
        )),
        None => Ok(()),
    }
}

/// Whether a pod is one of this application's executors and not a dead pod kept for inspection. Sets name their pods
/// themselves, so such a pod must have an id as well.
fn is_executor(pod: &Value, app: &str, of_sets: bool) -> bool {
    let id = label(pod, "boatswain.dev/executor-id");
    label(pod, "boatswain.dev/app-id") == app
        && label(pod, "boatswain.dev/role") == "executor"
        && !is_inactive(pod)
        && (of_sets || text(pod, "/metadata/name") == format!("{PREFIX}-exec-{id}"))
}

// spec: I-6, I-10
fn same(ledger: &Snapshot, pods: &[&Value]) -> Verdict {
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
