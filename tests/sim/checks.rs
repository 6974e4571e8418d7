//! Checks the invariants at every step (spec 9): each driver's ledger, reports and writes are compared with its
//! earlier ones, with those of other drivers, and with the injected faults.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use boatswain::model::{Ending, Entry, ExecutorId, LossClass, PodUid, ProfileName, Snapshot};
use serde_json::Value;
use tokio::time::Instant;

use crate::budget::Budget;
use crate::node::{NODE_NAMES, avoided};
use crate::objects::{is_terminating, label, text};
use crate::requests::{Done, Kind, uid_meant};

pub const PREFIX: &str = "sim";

/// Longest time from the decision on a request to its arrival at the server.
const LATE: Duration = Duration::from_secs(5);

/// What is known about one driver.
#[derive(Default)]
struct Seen {
    last: Option<Snapshot>,
    /// When `last` was taken.
    seen_at: Option<Instant>,
    /// Whether the driver has ended.
    over: bool,
    /// The application that it has taken over, as counted by [`Checks`].
    application: u32,
    incarnation: Option<u64>,
    /// When it raised the incarnation in the record.
    began: Option<Instant>,
    /// The ids that it requested.
    asked_for: BTreeSet<u64>,
    /// Requested ids that have not ended.
    open: BTreeSet<u64>,
    reported: BTreeMap<(ExecutorId, Option<PodUid>), LossClass>,
    /// Bound executors that left its ledger; it must have reported their ends by now.
    owed: Vec<(ExecutorId, PodUid)>,
    /// Pods whose version may go back once, because the server's history was replaced.
    may_go_back: BTreeSet<PodUid>,
    had_an_executor: bool,
    /// Whether it ever counted an executor that is surplus because of an injected fault.
    counted_a_surplus: bool,
}

/// A driver's delete of a pod that was running well.
struct Killing {
    driver: usize,
    id: Option<ExecutorId>,
    uid: PodUid,
}

/// How a driver requested a pod, or assigned its id if sets make the pods.
struct Made {
    driver: usize,
    id: u64,
    at: Instant,
    /// A younger driver had begun, or the server's time limit had passed when the request arrived. Such a pod is not
    /// kept (spec I-10, E-3), but a successor that starts before its removal may count it.
    too_late: bool,
}

/// The history that later steps are checked against.
#[derive(Default)]
pub struct Checks {
    pub excuses: Excuses,
    drivers: BTreeMap<usize, Seen>,
    /// Counts the applications. One that starts again, for example after the server lost everything, may reuse ids.
    applications: u32,
    app_id: String,
    /// The one pod ever counted for an id of an application.
    counted: BTreeMap<(u32, ExecutorId), PodUid>,
    ever_bound: BTreeSet<PodUid>,
    /// Pods that some driver decided to remove. A successor does not know this if the removal was not carried out yet.
    ever_chosen: BTreeSet<PodUid>,
    /// Pods that some driver decided to remove because its application ended.
    ended_with_its_application: BTreeSet<PodUid>,
    requested: BTreeMap<(u32, u64), Instant>,
    /// Pods created by drivers.
    made: BTreeMap<PodUid, Made>,
    /// Targets in force, and since when.
    targets: BTreeMap<ProfileName, Vec<(Instant, u32)>>,
    killings: Vec<Killing>,
    /// Drivers that were asked to end the application.
    pub ended_by: BTreeSet<usize>,
    pub budget: Budget,
    pub deadlines: Deadlines,
    /// Executors that were bound in some version of the record, and those whose end some driver reported.
    recorded: BTreeSet<ExecutorId>,
    reported: BTreeSet<ExecutorId>,
    /// The assignment of ids to pods, if sets make the pods.
    named: Option<sets::Named>,
}

/// The result of a check: the error names the violated rule.
pub type Verdict = Result<(), String>;

macro_rules! violated {
    ($($words:tt)*) => { Err(format!($($words)*)) };
}

mod deadlines;
mod excuses;
mod ledgers;
mod reasons;
mod sets;

pub use deadlines::{Deadlines, IMAGE};
pub use excuses::Excuses;

impl Checks {
    /// Notes that the server's history was replaced.
    pub fn rewritten(&mut self) {
        self.excuses.rewritten.push(Instant::now());
        // What the replaced history recorded is lost.
        self.recorded.clear();
        self.budget.forget_what_is_sure();
        // A driver that takes over from now on knows only the new history.
        self.applications += 1;
        for seen in self.drivers.values_mut() {
            if let Some(last) = &seen.last {
                let uids = last
                    .entries
                    .values()
                    .filter_map(|entry| entry.uid().cloned());
                seen.may_go_back.extend(uids);
            }
        }
    }

    /// Notes that a driver has ended. Its last deletes are not checked, because the reasons for them are unknown.
    pub fn over(&mut self, driver: usize) {
        self.killings.retain(|killing| killing.driver != driver);
        self.drivers.entry(driver).or_default().over = true;
    }

    pub fn is_over(&self, driver: usize) -> bool {
        (self.drivers.get(&driver)).is_some_and(|seen| seen.over)
    }

    /// Whether an ended driver created this pod after its ledger was last checked. The executors that it had decided
    /// to remove before are unknown.
    fn is_of_its_last_moment(&self, made: &Made) -> bool {
        (self.drivers.get(&made.driver))
            .is_some_and(|seen| seen.over && seen.seen_at.is_none_or(|at| at <= made.at))
    }

    fn application_of(&self, driver: usize) -> u32 {
        (self.drivers.get(&driver)).map_or(0, |seen| seen.application)
    }

    pub fn is_younger(&self, driver: usize, other: usize) -> bool {
        let began = |driver| self.drivers.get(&driver).and_then(|seen: &Seen| seen.began);
        began(driver) > began(other)
    }

    /// Whether another driver has taken over, or may have taken over, after this one.
    pub fn is_superseded(&self, driver: usize) -> bool {
        (self.drivers.keys()).any(|other| self.is_younger(*other, driver))
    }

    pub fn had_an_executor(&self, driver: usize) -> bool {
        (self.drivers.get(&driver)).is_some_and(|seen| seen.had_an_executor)
    }

    /// The latest snapshot of a driver's ledger.
    pub fn last(&self, driver: usize) -> Option<&Snapshot> {
        self.drivers.get(&driver)?.last.as_ref()
    }

    /// Notes a target that is in force from now on.
    pub fn target(&mut self, profile: &ProfileName, target: u32) {
        let history = self.targets.entry(profile.clone()).or_default();
        if history.last().is_none_or(|(_, last)| *last != target) {
            history.push((Instant::now(), target));
        }
    }

    /// Checks a write that the server answered.
    pub fn done(&mut self, done: &Done) -> Verdict {
        let seen = self.drivers.entry(done.driver).or_default();
        match &done.kind {
            Kind::Create if self.named.is_some() => {
                violated!("A-80: d{} made a pod, as sets do", done.driver)
            }
            Kind::Create => {
                let id = label(&done.sent, "boatswain.dev/executor-id").parse();
                let id = id.map_err(|_| format!("I-7: d{} made {}", done.driver, done.sent))?;
                avoids_not_all(done)?;
                seen.asked_for.insert(id);
                seen.open.insert(id);
                let key = (seen.application, id);
                (self.requested).entry(key).or_insert_with(Instant::now);
                let began = seen.began;
                let superseded = self.drivers.values().any(|other| other.began > began);
                if let Some(uid) = &done.made {
                    let made = Made {
                        driver: done.driver,
                        id,
                        at: Instant::now(),
                        too_late: superseded || done.late,
                    };
                    self.made.insert(PodUid::from(uid.as_str()), made);
                    if done.relabelled {
                        self.excuses.relabelled.insert(uid.clone());
                    }
                }
                Ok(())
            }
            Kind::Sweep => violated!("L-11: d{} deleted a collection", done.driver),
            Kind::Write | Kind::MakeRecord => {
                self.record_written(done);
                self.may_say_spent(done);
                Ok(())
            }
            // A driver that ends the application reports no end that happens later, whether all pods are gone by then
            // or not.
            Kind::DeleteRecord => {
                if done.succeeded() {
                    self.application_ended();
                }
                Ok(())
            }
            Kind::MakeSet | Kind::Set { .. } => self.set_written(done),
            Kind::Delete { name } | Kind::Patch { name } => self.touched(done, name),
            Kind::CachedList | Kind::List | Kind::Page | Kind::Watch | Kind::Read => Ok(()),
        }
    }

    fn record_written(&mut self, done: &Done) {
        let incarnation = text(&done.sent, "/data/incarnation").parse::<u64>().ok();
        let Some(incarnation) = incarnation.filter(|_| done.succeeded()) else {
            return;
        };
        self.app_id = text(&done.sent, "/data/app-id").to_owned();
        // A superseded driver can only write after the server has lost its successor's record, and its record is then
        // overwritten.
        if !self.is_superseded(done.driver) {
            self.recorded.extend(ids(text(&done.sent, "/data/bound")));
        }
        let seen = self.drivers.entry(done.driver).or_default();
        if seen.incarnation == Some(incarnation) {
            return;
        }
        // Incarnations only rise within an application.
        let highest = (self.drivers.values())
            .filter(|seen| seen.application == self.applications)
            .filter_map(|seen| seen.incarnation)
            .max();
        if highest >= Some(incarnation) {
            self.applications += 1;
        }
        let seen = self.drivers.entry(done.driver).or_default();
        seen.application = self.applications;
        seen.incarnation = Some(incarnation);
        seen.began = Some(Instant::now());
    }

    // spec: I-7
    /// A driver deleted or changed a pod.
    fn touched(&mut self, done: &Done, name: &str) -> Verdict {
        let driver = done.driver;
        let Some(pod) = done.before.as_ref().filter(|_| done.succeeded()) else {
            return Ok(());
        };
        let uid = PodUid::from(text(pod, "/metadata/uid"));
        if uid_meant(&done.sent) != uid.as_str() {
            return violated!("I-7: d{driver} touched {name} without notice which pod it means");
        }
        let id = label(pod, "boatswain.dev/executor-id");
        let ours = label(pod, "boatswain.dev/app-id") == self.app_id
            && label(pod, "boatswain.dev/role") == "executor"
            && self.may_be_named(name, id);
        let bound = self.ever_bound.contains(&uid);
        // A pod that was bound between two checks is recognised by its name and by the request that created it.
        let named = self.id_of(pod, &uid);
        let asked_for = named.is_some_and(|id: u64| {
            self.drivers
                .values()
                .any(|seen| seen.asked_for.contains(&id))
        });
        let relabelled = self.excuses.relabelled.contains(uid.as_str()) && asked_for;
        if !ours && !bound && !relabelled {
            return violated!("I-7: d{driver} touched {name}, which is not its executor");
        }
        self.numbered(done, pod, &uid)?;
        if matches!(done.kind, Kind::Delete { .. }) && is_well(pod) {
            self.killings.push(Killing {
                driver,
                id: named.and_then(ExecutorId::new),
                uid,
            });
        }
        Ok(())
    }

    /// Checks the ends that a driver reported.
    // spec: I-2, L-1
    pub fn reported(&mut self, driver: usize, ends: Vec<Ending>) -> Verdict {
        let seen = self.drivers.entry(driver).or_default();
        for ending in ends {
            self.budget.reported(driver, &ending);
            let key = (ending.entry.id, ending.entry.uid().cloned());
            let class = ending.reason.class;
            self.reported.insert(ending.entry.id);
            if key.1.is_none() && class != LossClass::Lost {
                return violated!(
                    "L-1: d{driver} reported the end of {}, which never had a pod",
                    key.0
                );
            }
            if let Some(uid) = &key.1
                && let Some(befell) = self.excuses.mishaps.get(uid.as_str())
                && !reasons::is_reported_as(befell, class)
            {
                return violated!(
                    "L-20: d{driver} reported the end of {} as {class}, and what befell it was {befell:?}",
                    key.0
                );
            }
            if seen.reported.insert(key, class).is_some() {
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
    pub fn all_reported(&self, driver: usize) -> Verdict {
        let unreported = |id: &&ExecutorId| {
            !self.reported.contains(*id)
                && self
                    .last(driver)
                    .is_none_or(|last| last.entry(**id).is_none())
        };
        match self.recorded.iter().find(unreported) {
            Some(id) => violated!("I-2: {id} was in the record, and no driver reported its end"),
            None => Ok(()),
        }
    }

    /// Checks a new snapshot of a driver's ledger.
    pub fn look(&mut self, driver: usize, now: Snapshot) -> Verdict {
        if !now.adopted {
            return Ok(());
        }
        for (profile, target) in &now.targets {
            self.target(profile, target.executors);
        }
        let seen = self.drivers.entry(driver).or_default();
        let same = seen.last.as_ref().is_some_and(|last| last.seq == now.seq);
        let idle = seen.owed.is_empty() && self.killings.iter().all(|k| k.driver != driver);
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
            self.nothing_lost(driver, before, &now)?;
            self.nothing_goes_back(driver, before, &changed)?;
        }
        if let Some(before) = before.as_ref().filter(|_| !self.is_of_sets()) {
            self.requests_within_targets(driver, before, &now)?;
        }
        self.one_pod_an_id(driver, &changed)?;
        self.one_id_a_pod(driver, &now, &changed)?;
        // Sets decide how many pods there are, what they claim, and how long they wait.
        if !self.is_of_sets() {
            self.live_within_targets(driver, &now)?;
            self.deadlines.see(driver, &now, &changed);
        }
        if self.excuses.rewritten.is_empty() && !self.is_of_sets() {
            crate::claims::none_is_shared(driver, &now)?;
        }
        let surplus = changed.iter().any(|entry| self.is_surplus(entry));
        self.drivers.entry(driver).or_default().counted_a_surplus |= surplus;
        self.killed_for_a_reason(driver, &now)?;
        let seen = self.drivers.entry(driver).or_default();
        seen.had_an_executor |= changed.iter().any(|entry| entry.uid().is_some());
        (seen.last, seen.seen_at) = (Some(now), Some(Instant::now()));
        Ok(())
    }
}

/// No new executor is excluded from every node.
// spec: L-32
fn avoids_not_all(done: &Done) -> Verdict {
    let avoided = avoided(&done.sent);
    if NODE_NAMES.iter().all(|node| avoided.contains(node)) {
        return violated!(
            "L-32: d{} asked for one that may be on no node",
            done.driver
        );
    }
    Ok(())
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

/// The ids of a text like `1-5,7`.
fn ids(text: &str) -> impl Iterator<Item = ExecutorId> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    text.split(',')
        .filter_map(move |part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(number(first)?..=number(last)?)
        })
        .flatten()
        .filter_map(ExecutorId::new)
}

/// Whether a pod is not terminating and none of its containers has ended.
fn is_well(pod: &Value) -> bool {
    let containers = pod.pointer("/status/containerStatuses");
    let ended = |container: &Value| container.pointer("/state/terminated").is_some();
    let all_run = (containers.and_then(Value::as_array)).is_none_or(|all| !all.iter().any(ended));
    let phase = text(pod, "/status/phase");
    all_run && matches!(phase, "Pending" | "Running" | "Unknown") && !is_terminating(pod)
}
