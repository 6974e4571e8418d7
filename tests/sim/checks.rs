//! Checks the invariants at every step (spec 9): each driver's ledger, reports and writes are compared with its
//! earlier ones, with those of other drivers, and with the injected faults.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use boatswain::model::{Ending, Entry, ExecutorId, LossClass, PodUid, ProfileName, Snapshot};
use serde_json::Value;
use tokio::time::Instant;

use crate::budget::Budget;
use crate::objects::{is_terminating, text};

pub const PREFIX: &str = "sim";

/// Longest time from the decision on a request to its sending.
const REQUEST_DELAY: Duration = Duration::from_secs(5);

/// What is known about one driver.
#[derive(Default)]
struct DriverView {
    last: Option<Snapshot>,
    /// When `last` was taken.
    last_at: Option<Instant>,
    /// Whether the driver has ended.
    ended: bool,
    /// Whether it shows no ledger, because it has no actors yet or no more.
    shows_nothing: bool,
    /// The application that it has taken over, as counted by [`Checks`].
    application: u32,
    incarnation: Option<u64>,
    /// The origin of the record that it wrote last.
    origin: String,
    /// When it raised the incarnation in the record.
    began: Option<Instant>,
    /// The ids that it requested.
    requested_ids: BTreeSet<u64>,
    /// Requested ids that have not ended.
    open: BTreeSet<u64>,
    reported: BTreeMap<(ExecutorId, Option<PodUid>), LossClass>,
    /// Bound executors that left its ledger; it must have reported their ends by now.
    unreported: Vec<(ExecutorId, PodUid)>,
    /// Pods whose version may go back once, because the server's history was replaced.
    may_go_back: BTreeSet<PodUid>,
    had_executor: bool,
    /// Executors whose profile has just become known.
    moved: BTreeMap<ExecutorId, Instant>,
}

/// A driver's delete of a healthy pod.
struct PodDelete {
    driver: usize,
    id: Option<ExecutorId>,
    uid: PodUid,
}

/// How a driver requested a pod, or assigned its id if sets make the pods.
struct CreatedPod {
    driver: usize,
    id: u64,
    profile: ProfileName,
    at: Instant,
    /// A younger driver had begun, or the server's time limit had passed when the request arrived. Such a pod is not
    /// kept (spec I-10, E-3), but a successor that starts before its removal may count it.
    too_late: bool,
}

/// The history that later steps are checked against.
#[derive(Default)]
pub struct Checks {
    pub excuses: Excuses,
    /// How long a driver may need to notice that the history was replaced.
    pub recovery: Duration,
    /// How many more executors than requested may be wanted of a profile for nodes that are about to leave.
    pub max_surge: u32,
    drivers: BTreeMap<usize, DriverView>,
    /// Counts the applications. One that starts again, for example after the server lost everything, may reuse ids.
    applications: u32,
    app_id: String,
    /// The server's version when its pods were last counted.
    counted_version: u64,
    /// The one pod ever counted for an id of an application.
    counted: BTreeMap<(u32, ExecutorId), PodUid>,
    ever_bound: BTreeSet<PodUid>,
    /// Pods that some driver decided to remove. A successor does not know this if the removal was not carried out yet.
    ever_leaving: BTreeSet<PodUid>,
    /// The same for executors whose pod their driver did not know yet, by application and id.
    left_unbound: BTreeSet<(u32, u64)>,
    /// Pods that some driver decided to remove because its application ended.
    ended_with_its_application: BTreeSet<PodUid>,
    requested: BTreeMap<(u32, u64), Instant>,
    /// Pods created by drivers.
    created: BTreeMap<PodUid, CreatedPod>,
    /// Targets in force, and since when.
    targets: BTreeMap<ProfileName, Vec<(Instant, u32)>>,
    deletes: Vec<PodDelete>,
    /// Drivers that were requested to end the application.
    pub ended_by: BTreeSet<usize>,
    pub budget: Budget,
    pub deadlines: Deadlines,
    restarting: restarting::Restarting,
    /// Executors that were bound in some version of the record, and the driver that wrote it last.
    recorded: BTreeMap<ExecutorId, usize>,
    /// Executors whose end some driver reported.
    pub reported: BTreeSet<ExecutorId>,
    /// The same since the application began that is there now: the next one uses ids again.
    pub reported_now: BTreeSet<ExecutorId>,
    /// Executors whose end was in some version of the record, and the first driver that wrote it. They count as
    /// reported: a successor shows the record's ends.
    pub recorded_ends: BTreeMap<ExecutorId, usize>,
    /// Ends that were recorded in a history that was replaced.
    pub lost_ends: BTreeSet<ExecutorId>,
    /// Executors whose end was recorded by a driver that did not know its successor yet. That successor may not know of
    /// the end, but the next one does.
    recorded_late: BTreeSet<ExecutorId>,
    /// Executors that drivers knew, or whose end was recorded, when the server was restored: it may show them alive
    /// again.
    revived: BTreeSet<ExecutorId>,
    /// When each driver sent the last write of the record that succeeded.
    record_sent: BTreeMap<usize, Instant>,
    /// The driver that wrote the record last.
    record_writer: Option<usize>,
    /// The assignment of ids to pods, if sets make the pods.
    assigned: Option<sets::AssignedIds>,
}

/// A driver waits for 5 s before it reports an end that is not in the record (spec L-1). A write that it sent so long
/// ago, and that succeeded, would have recorded the end. A younger one may have been sent after the report.
const RECENTLY: std::ops::Range<Duration> = Duration::from_secs(2)..Duration::from_secs(4);

/// The result of a check: the error names the violated rule.
pub type Verdict = Result<(), String>;

macro_rules! violated {
    ($($message:tt)*) => { Err(format!($($message)*)) };
}

mod deadlines;
mod excuses;
mod ledgers;
mod reasons;
mod restarting;
mod servers;
mod sets;
mod writes;

pub use deadlines::{Deadlines, IMAGE_TIMEOUT};
pub use excuses::Excuses;
pub use reasons::InjectedPodFault;

impl Checks {
    /// Notes that the server's history was replaced.
    pub fn history_replaced(&mut self) {
        self.excuses.history_replaced.push(Instant::now());
        // What the replaced history recorded is lost.
        self.recorded.clear();
        self.lost_ends
            .extend(std::mem::take(&mut self.recorded_ends).into_keys());
        self.revived.extend(&self.lost_ends);
        self.record_sent.clear();
        self.budget.forget_certain_failures();
        // A driver that takes over from now on knows only the new history.
        self.applications += 1;
        for view in self.drivers.values_mut() {
            if let Some(last) = &view.last {
                let uids = last
                    .entries
                    .values()
                    .filter_map(|entry| entry.uid().cloned());
                view.may_go_back.extend(uids);
                self.revived.extend(last.entries.keys());
            }
        }
    }

    /// Notes that a driver has ended. Its last deletes are not checked, because the reasons for them are unknown.
    pub fn driver_ended(&mut self, driver: usize) {
        self.deletes.retain(|delete| delete.driver != driver);
        self.ended_after_making_the_record(driver);
        self.drivers.entry(driver).or_default().ended = true;
    }

    pub fn ledger_is_gone(&mut self, driver: usize) {
        self.drivers.entry(driver).or_default().shows_nothing = true;
    }

    /// Whether the ledger that was seen last may be older than the driver's last changes.
    pub fn last_changes_are_unknown(&self, driver: usize) -> bool {
        (self.drivers.get(&driver)).is_some_and(|view| view.ended || view.shows_nothing)
    }

    /// Whether an ended driver created this pod after its ledger was last checked. The executors that it had decided
    /// to remove before are unknown.
    fn is_after_last_check(&self, created: &CreatedPod) -> bool {
        (self.drivers.get(&created.driver))
            .is_some_and(|view| view.ended && view.last_at.is_none_or(|at| at <= created.at))
    }

    pub fn application_of(&self, driver: usize) -> u32 {
        (self.drivers.get(&driver)).map_or(0, |view| view.application)
    }

    pub fn is_younger(&self, driver: usize, other: usize) -> bool {
        self.began(driver) > self.began(other)
    }

    pub fn has_another_taken_over_since(&self, driver: usize, since: Instant) -> bool {
        let mut others = self.drivers.iter().filter(|(other, _)| **other != driver);
        others.any(|(_, view)| view.began >= Some(since))
    }

    /// When a driver took over.
    pub fn began(&self, driver: usize) -> Option<Instant> {
        self.drivers.get(&driver).and_then(|view| view.began)
    }

    /// Whether another driver has taken over, or may have taken over, after this one.
    pub fn is_superseded(&self, driver: usize) -> bool {
        (self.drivers.keys()).any(|other| self.is_younger(*other, driver))
    }

    pub fn had_executor(&self, driver: usize) -> bool {
        (self.drivers.get(&driver)).is_some_and(|view| view.had_executor)
    }

    /// The latest snapshot of a driver's ledger.
    pub fn last_ledger(&self, driver: usize) -> Option<&Snapshot> {
        self.drivers.get(&driver)?.last.as_ref()
    }

    /// Notes a target that is in force from now on.
    pub fn target(&mut self, profile: &ProfileName, target: u32) {
        let history = self.targets.entry(profile.clone()).or_default();
        if history.last().is_none_or(|(_, last)| *last != target) {
            history.push((Instant::now(), target));
        }
    }

    /// Checks the ends that a driver reported.
    // spec: I-2, L-1
    pub fn check_reports(&mut self, driver: usize, ends: Vec<Ending>) -> Verdict {
        if ends.is_empty() {
            return Ok(());
        }
        // A driver that has not noticed its successor yet cannot know what that has recorded.
        let later: BTreeSet<usize> = (self.drivers.keys().copied())
            .filter(|other| !self.is_younger(driver, *other))
            .collect();
        // An injected fault may give a pod the id of an executor that has ended.
        let reused: BTreeSet<ExecutorId> = (ends.iter())
            .filter(|ending| self.belonged_to_another(ending.entry.uid(), ending.entry.id))
            .map(|ending| ending.entry.id)
            .collect();
        let view = self.drivers.entry(driver).or_default();
        let has_ended = view.ended;
        for ending in ends {
            if let Some(recorded_by) = self.recorded_ends.get(&ending.entry.id)
                && !later.contains(recorded_by)
                && !self.revived.contains(&ending.entry.id)
                && !reused.contains(&ending.entry.id)
            {
                return violated!(
                    "L-1: d{driver} reported the end of {}, which d{recorded_by} had recorded",
                    ending.entry.id
                );
            }
            let wrote = self.record_sent.get(&driver);
            if !self.recorded_ends.contains_key(&ending.entry.id)
                && wrote.is_some_and(|at| RECENTLY.contains(&at.elapsed()))
            {
                return violated!(
                    "L-1: d{driver} reported the end of {} and had not recorded it, although it could write",
                    ending.entry.id
                );
            }
            self.budget.reported(driver, has_ended, &ending)?;
            let key = (ending.entry.id, ending.entry.uid().cloned());
            let class = ending.reason.class;
            self.reported.insert(ending.entry.id);
            self.reported_now.insert(ending.entry.id);
            if key.1.is_none() && class != LossClass::Lost {
                return violated!(
                    "L-1: d{driver} reported the end of {}, which never had a pod",
                    key.0
                );
            }
            let faults = (key.1.as_ref())
                .and_then(|uid| self.excuses.pod_faults.get(uid.as_str()))
                .map_or(&[][..], Vec::as_slice);
            if key.1.is_some()
                && !reasons::reason_fits(faults, &ending, |at| {
                    // A driver may not have noticed a replacement that was just before the fault.
                    let since = at.checked_sub(self.recovery);
                    since.is_some_and(|since| self.excuses.was_history_replaced_since(since))
                })
            {
                let injected: Vec<_> = faults.iter().map(|fault| fault.how).collect();
                return violated!(
                    "L-20: d{driver} reported the end of {} as {class}, and the injected faults are {injected:?}",
                    key.0
                );
            }
            if view.reported.insert(key, class).is_some() {
                return violated!(
                    "I-2: d{driver} reported the end of {} twice",
                    ending.entry.id
                );
            }
        }
        Ok(())
    }

    /// After convergence: every executor that was in the record is in this driver's ledger, or some driver has
    /// reported its end.
    // spec: I-2, L-1, O-30
    pub fn check_all_reported(&self, driver: usize) -> Verdict {
        let unreported = |id: &&ExecutorId| {
            !self.reported.contains(*id)
                && !self.recorded_ends.contains_key(*id)
                && self
                    .last_ledger(driver)
                    .is_none_or(|last| last.entry(**id).is_none())
        };
        match self.recorded.keys().find(unreported) {
            Some(id) => violated!("I-2: {id} was in the record, and no driver reported its end"),
            None => Ok(()),
        }
    }

    /// Checks a new snapshot of a driver's ledger.
    pub fn check_ledger(&mut self, driver: usize, now: Snapshot) -> Verdict {
        if !now.adopted {
            return Ok(());
        }
        let seen = (self.drivers.get(&driver)).and_then(|view| Some(view.last.as_ref()?.at));
        for (profile, target) in &now.targets {
            // What came and went since the last look is not in this snapshot.
            if seen.is_some_and(|seen| target.since > seen) {
                self.target(profile, target.executors + self.max_surge);
            }
            self.target(profile, target.executors);
        }
        let unreported = match now.failed.is_empty() {
            true => 0,
            false => self.unreported_ends() + self.unrecorded_ends(&now),
        };
        self.budget.ledger(driver, &now, unreported)?;
        let view = self.drivers.entry(driver).or_default();
        view.shows_nothing = false;
        let same = view.last.as_ref().is_some_and(|last| last.seq == now.seq);
        let idle =
            view.unreported.is_empty() && self.deletes.iter().all(|delete| delete.driver != driver);
        if same && idle {
            return Ok(());
        }
        let before = self.drivers.entry(driver).or_default().last.take();
        let changed = changed(before.as_ref(), &now);
        let unread = (changed.iter())
            .filter(|entry| entry.adopted)
            .filter_map(|entry| entry.pod().filter(|pod| pod.phase.is_unreadable()));
        self.excuses
            .unread
            .extend(unread.map(|pod| pod.uid.clone()));
        if let Some(before) = &before {
            self.check_none_lost(driver, before, &now)?;
            self.check_versions(driver, before, &changed)?;
        }
        if let Some(before) = before.as_ref().filter(|_| !self.is_of_sets()) {
            self.check_requests(driver, before, &now, &changed)?;
        }
        self.check_one_pod_per_id(driver, &changed)?;
        self.check_one_id_per_pod(driver, &now, &changed)?;
        // Sets decide the number of pods, their volume claims, and how long they wait.
        if !self.is_of_sets() {
            self.check_live(driver, &now)?;
            self.deadlines.update(driver, &now, &changed);
        }
        if self.excuses.history_replaced.is_empty() && !self.is_of_sets() {
            crate::claims::check_none_shared(driver, &now)?;
        }
        self.restarting.check(driver, &changed)?;
        self.check_scaled_down(driver, before.as_ref(), &now, &changed)?;
        self.check_deletes(driver, &now)?;
        let view = self.drivers.entry(driver).or_default();
        view.had_executor |= changed.iter().any(|entry| entry.uid().is_some());
        (view.last, view.last_at) = (Some(now), Some(Instant::now()));
        Ok(())
    }
}

/// The entries that have changed; all of them in a new epoch.
fn changed(before: Option<&Snapshot>, now: &Snapshot) -> Vec<Arc<Entry>> {
    let before = before.filter(|before| before.epoch == now.epoch);
    let same = |entry: &Arc<Entry>| {
        let old = before.and_then(|before| before.entry(entry.id));
        old.is_some_and(|old| Arc::ptr_eq(old, entry))
    };
    (now.entries.values())
        .filter(|entry| !same(entry))
        .cloned()
        .collect()
}

/// Whether a pod is not terminating and none of its containers has ended.
pub fn is_healthy(pod: &Value) -> bool {
    let containers = pod.pointer("/status/containerStatuses");
    let ended = |container: &Value| container.pointer("/state/terminated").is_some();
    let all_run = (containers.and_then(Value::as_array)).is_none_or(|all| !all.iter().any(ended));
    let phase = text(pod, "/status/phase");
    all_run && matches!(phase, "Pending" | "Running" | "Unknown") && !is_terminating(pod)
}
