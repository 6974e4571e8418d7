//! Checks each driver's beliefs, which are its ledger and its reports, against the server's state (spec E-6, E-9,
//! S-12, S-14, A-13, L-4, P-4).
//!
//! The driver corrects many wrong beliefs by itself: it looks up a pod that it wrongly considers missing. Checks of its
//! actions alone would not reveal such beliefs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use boatswain::config::Config;
use boatswain::model::{
    Ending, Entry, ExecutorId, LossClass, PodState, PodUid, ProfileName, Snapshot, State,
};
use devcluster::State as Server;
use serde_json::Value;
use tokio::time::Instant;

use crate::checks::{Excuses, PREFIX, Verdict};
use crate::convergence::{LIST_INTERVAL, LONGEST_BACKOFF, LONGEST_SILENCE};
use crate::network::LONGEST_LINE_DELAY;
use crate::objects::{NAMESPACE, is_inactive, is_terminating, label, text};
use crate::requests::{CompletedWrite, RequestKind};
use crate::script::Script;

/// A watch without events gets a bookmark this often.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// The history that later beliefs are checked against.
pub struct ExpectedState {
    /// How long a driver may need to recover from wrong beliefs while the server works.
    recovery: Duration,
    /// Until then a driver may believe a falsified list or watch line.
    falsified_until: Option<Instant>,
    /// Until then a driver may notice that the watch had lost a line, or what happened in a restored history up to the
    /// version from which the watch went on.
    drift_until: Option<Instant>,
    /// When each driver's last snapshot was checked.
    checked: BTreeMap<usize, Instant>,
    /// Until then a driver may believe a history of the server that was replaced.
    replaced_until: Option<Instant>,
    /// Pods created in time for a driver, by driver and executor id, whose end it has not reported.
    created: BTreeMap<(usize, u64), PodUid>,
    /// Pods whose end a driver reported.
    reported: BTreeSet<(usize, PodUid)>,
    /// The executor ids of those ends. A pod that is created afterwards is not the one that was counted.
    ended: BTreeSet<(usize, u64)>,
    /// Reported pods that a driver counts as orphans because a falsified list lacked them. They stay so while their
    /// deletion is blocked.
    hidden: BTreeSet<(usize, PodUid)>,
}

/// A driver lists again, or notices a silent watch, and looks up what it does not find; a backoff may precede each.
pub fn longest_recovery(config: &Config) -> Duration {
    let retry = 2 * (config.cluster.request_timeout + LONGEST_BACKOFF);
    let listed = match config.poll.enabled {
        true => 2 * config.poll.interval,
        false => 2 * LONGEST_SILENCE + LIST_INTERVAL,
    };
    listed.mul_f64(1.1) + 2 * retry + config.allocation.creation_timeout + LONGEST_LINE_DELAY
}

/// A driver's ledger and what it is checked against.
pub struct Observation<'a> {
    pub driver: usize,
    /// The driver's previous snapshot.
    pub before: Option<&'a Snapshot>,
    pub now: &'a Snapshot,
    /// The server's state after `now` was taken. A pod in it existed before, because uids are never reused.
    pub server: &'a Server,
    pub excuses: &'a Excuses,
}

impl ExpectedState {
    pub fn of(script: &Script) -> Self {
        Self {
            recovery: longest_recovery(&script.config),
            falsified_until: None,
            drift_until: None,
            checked: BTreeMap::new(),
            replaced_until: None,
            created: BTreeMap::new(),
            reported: BTreeSet::new(),
            ended: BTreeSet::new(),
            hidden: BTreeSet::new(),
        }
    }

    /// Notes that the server's history was replaced.
    pub fn history_replaced(&mut self) {
        let now = Instant::now();
        self.replaced_until = Some(now + self.recovery);
        // A watch may fall silent before it has shown anything of the new history.
        self.expect_drift(now + self.recovery + LONGEST_SILENCE);
    }

    /// The watches fall silent: what they have lost is noticed when they have been opened again.
    pub fn watches_fall_silent(&mut self) {
        let now = Instant::now();
        if self.drift_until > Some(now) {
            self.expect_drift(now + LONGEST_SILENCE + self.recovery + BOOKMARK_INTERVAL);
        }
    }

    fn expect_drift(&mut self, until: Instant) {
        self.drift_until = self.drift_until.max(Some(until));
    }

    /// Updates until when wrong beliefs are excused. They last longer while drivers are `hindered` from correcting
    /// them.
    pub fn update_excuses(&mut self, falsifies: bool, hindered: bool) {
        let now = Instant::now();
        for until in [&mut self.falsified_until, &mut self.replaced_until] {
            if hindered && until.is_some() {
                *until = Some(now + self.recovery);
            }
        }
        if falsifies {
            self.falsified_until = Some(now + self.recovery);
        }
        if falsifies || hindered && self.drift_until.is_some() {
            self.expect_drift(now + self.recovery + BOOKMARK_INTERVAL);
        }
        self.falsified_until = self.falsified_until.filter(|until| *until > now);
        if self.replaced_until.take_if(|until| *until <= now).is_some() {
            // What is known about the pods of the old history does not hold in the new one.
            self.created.clear();
            self.reported.clear();
        }
    }

    /// Notes a write that the server carried out for a driver.
    pub fn note_write(&mut self, write: &CompletedWrite) {
        let id = label(&write.sent, "boatswain.dev/executor-id").parse();
        if let (RequestKind::CreatePod, Ok(id), Some(uid)) = (&write.kind, id, &write.created_uid)
            && !write.late
            && !self.ended.contains(&(write.driver, id))
        {
            let uid = PodUid::from(uid.as_str());
            self.created.insert((write.driver, id), uid);
        }
    }

    /// Checks the ends that a driver reported against the server's state after the report.
    // spec: L-4
    pub fn check_reports(&mut self, driver: usize, ends: &[Ending], server: &Server) -> Verdict {
        if self.replaced_until.is_some() {
            return Ok(());
        }
        for ending in ends {
            let Some(pod) = ending.entry.pod() else {
                continue;
            };
            let there = pod_of(server, &pod.name, &pod.uid).is_some();
            if ending.reason.class == LossClass::Missing && there {
                return Err(format!(
                    "L-4: d{driver} reported {} missing, and its pod exists",
                    ending.entry.id
                ));
            }
            self.reported.insert((driver, pod.uid.clone()));
            let id = (driver, ending.entry.id.get());
            self.created.remove(&id);
            self.ended.insert(id);
        }
        Ok(())
    }

    /// Whether a driver may believe what is not so: a falsified answer, or a history that was replaced.
    pub fn may_be_misled(&self) -> bool {
        self.falsified_until.is_some() || self.replaced_until.is_some()
    }

    /// Checks a driver's ledger.
    pub fn check_ledger(&mut self, observation: &Observation<'_>) -> Verdict {
        if !observation.now.adopted {
            return Ok(());
        }
        let same = observation
            .before
            .is_some_and(|before| before.seq == observation.now.seq);
        if !same {
            check_counts(observation)?;
        }
        // After a restore, the pods on the server need not be those that the driver knew.
        if self.replaced_until.is_some() {
            return Ok(());
        }
        self.check_given_up(observation)?;
        if same {
            return Ok(());
        }
        // A drift is in the next snapshot, which may be much later.
        let now = Instant::now();
        let before = self.checked.insert(observation.driver, now);
        // At the first check it may have happened at any time since the driver began.
        let is_excused = |until: Instant| before.is_none_or(|before| before <= until);
        if !self.drift_until.is_some_and(is_excused) {
            check_drift(observation)?;
        }
        if self.falsified_until.is_none() {
            check_missing(observation)?;
        }
        check_ended(observation)?;
        // The driver counts a terminating pod as removed if a falsified list lacked it.
        if self.falsified_until.is_some() {
            let orphans = observation.now.orphans.keys();
            let hidden = orphans.map(|uid| (observation.driver, uid.clone()));
            self.hidden.extend(hidden);
            return Ok(());
        }
        self.check_ended_stay_ended(observation)
    }

    // spec
    fn check_given_up(&self, observation: &Observation<'_>) -> Verdict {
        let driver = observation.driver;
        let created = self.created.range((driver, 0)..=(driver, u64::MAX));
        let created = created.filter_map(|((_, id), uid)| Some((ExecutorId::new(*id)?, uid)));
        for (id, created) in created {
            let given_up =
                observation.now.ended.contains(id) && observation.now.entry(id).is_none();
            let pod = given_up
                .then(|| {
                    observation
                        .server
                        .pod(NAMESPACE, &format!("{PREFIX}-exec-{id}"))
                })
                .flatten();
            let Some(pod) = pod else { continue };
            // A pod created after the server's time limit belongs to no executor (spec A-13).
            let uid = PodUid::from(text(pod, "/metadata/uid"));
            let relabelled = observation.excuses.relabelled.contains(uid.as_str());
            if uid == *created
                && is_healthy(pod)
                && !relabelled
                && !self.reported.contains(&(driver, uid))
            {
                return Err(format!("A-13: d{driver} gave up {id}, whose pod exists"));
            }
        }
        Ok(())
    }

    // spec: E-9, S-14
    fn check_ended_stay_ended(&self, observation: &Observation<'_>) -> Verdict {
        let driver = observation.driver;
        let back = (observation.now.orphans.iter()).find(|(uid, _)| {
            let its = (driver, (*uid).clone());
            self.reported.contains(&its)
                && !self.hidden.contains(&its)
                && !observation.excuses.relabelled.contains(uid.as_str())
        });
        match back {
            Some((_, orphan)) => Err(format!(
                "S-14: d{driver} reported the end of {}, and counts its pod as an orphan",
                orphan.name
            )),
            None => Ok(()),
        }
    }
}

// spec: E-6
fn check_counts(observation: &Observation<'_>) -> Verdict {
    let driver = observation.driver;
    for (profile, counts) in &observation.now.counts {
        let (live, running) = recount(observation.now, profile);
        if (counts.live(), counts.running) != (live, running) {
            return Err(format!(
                "E-6: d{driver} counts {} live, {} running of {profile}, and its entries are {live} and {running}",
                counts.live(),
                counts.running
            ));
        }
    }
    Ok(())
}

/// The numbers of a profile's live and running entries.
fn recount(snapshot: &Snapshot, profile: &ProfileName) -> (u32, u32) {
    let mut counts = (0, 0);
    for entry in snapshot
        .entries
        .values()
        .filter(|entry| entry.profile == *profile)
    {
        let (live, running) = live_and_running(entry);
        counts.0 += u32::from(live);
        counts.1 += u32::from(running);
    }
    counts
}

fn live_and_running(entry: &Entry) -> (bool, bool) {
    match &entry.state {
        _ if entry.leaving.is_some() => (false, false),
        State::Gone(_) => (false, false),
        State::Sent(_) | State::Unknown(_) => (true, false),
        State::Bound(bound) => match bound.pod.state() {
            PodState::Succeeded | PodState::Failed | PodState::Terminating => (false, false),
            PodState::Running => (true, bound.absent.is_none()),
            PodState::Pending(_) | PodState::Odd => (true, false),
        },
    }
}

// spec: P-4
fn check_drift(observation: &Observation<'_>) -> Verdict {
    let before = observation.before.map_or(0, |before| before.drifts);
    // A pod of a set whose id an operator has changed while its executor lived is bound to the other id by the next list,
    // which is taken for a drift.
    let is_relabelled = |entry: &Entry| {
        let relabelled = &observation.excuses.relabelled;
        (entry.pod()).is_some_and(|pod| relabelled.contains(pod.uid.as_str()))
    };
    let is_new = |id| (observation.before).is_none_or(|before| before.entry(id).is_none());
    let bound_by_list =
        (observation.now.entries.iter()).filter(|(id, entry)| is_new(*id) && is_relabelled(entry));
    match observation.now.drifts <= before + bound_by_list.count() as u64 {
        true => Ok(()),
        false => Err(format!(
            "P-4: d{} reports a drift, and no watch line was falsified and no history replaced",
            observation.driver
        )),
    }
}

// spec: S-11, S-12
fn check_missing(observation: &Observation<'_>) -> Verdict {
    for (id, entry) in observation.now.entries.iter() {
        let State::Bound(bound) = &entry.state else {
            continue;
        };
        if bound.absent.is_none()
            || observation
                .excuses
                .relabelled
                .contains(bound.pod.uid.as_str())
        {
            continue;
        }
        // A pod that another driver has labelled as inactive exists but is in no list.
        let listed = |pod: &Value| !is_inactive(pod);
        if pod_of(observation.server, &bound.pod.name, &bound.pod.uid).is_some_and(listed) {
            return Err(format!(
                "S-12: d{} counts {id} as missing, whose pod exists",
                observation.driver
            ));
        }
    }
    Ok(())
}

// spec: E-9, I-9
fn check_ended(observation: &Observation<'_>) -> Verdict {
    let Some(before) = observation.before else {
        return Ok(());
    };
    for (id, entry) in before.entries.iter() {
        let Some(pod) = entry.pod().filter(|_| observation.now.entry(id).is_none()) else {
            continue;
        };
        // A pod that an operator has relabelled may no longer belong to the driver.
        let relabelled = observation.excuses.relabelled.contains(pod.uid.as_str());
        let healthy = pod_of(observation.server, &pod.name, &pod.uid).is_some_and(is_healthy);
        if healthy && !relabelled {
            return Err(format!(
                "E-9: d{} counts {id} as ended, whose pod is healthy",
                observation.driver
            ));
        }
    }
    Ok(())
}

/// The pod of this name, if it has this uid.
fn pod_of<'a>(server: &'a Server, name: &str, uid: &PodUid) -> Option<&'a Value> {
    let pod = server.pod(NAMESPACE, name)?;
    (text(pod, "/metadata/uid") == uid.as_str()).then_some(pod)
}

/// Whether a pod is alive, not terminating, and not labelled as inactive.
pub fn is_healthy(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Pending" | "Running")
        && !is_inactive(pod)
        && !is_terminating(pod)
}
