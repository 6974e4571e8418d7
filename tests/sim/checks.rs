//! What must hold at every step (spec 9): what drivers see and tell, and what they do, is held against it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use boatswain::model::{Ending, Entry, ExecutorId, LossClass, PodUid, ProfileName, Snapshot};
use serde_json::Value;
use tokio::time::Instant;

use crate::budget::Budget;
use crate::hand::{is_terminating, label, text};
use crate::node::{NODE_NAMES, avoided};
use crate::requests::{Done, Kind, uid_meant};

/// The prefix of the executors' names.
pub const PREFIX: &str = "sim";

/// From a request's being decided on to its coming to the server, at most.
const LATE: Duration = Duration::from_secs(5);

/// What is known of one driver.
#[derive(Default)]
struct Seen {
    last: Option<Snapshot>,
    /// When that was.
    seen_at: Option<Instant>,
    /// It is no more.
    over: bool,
    /// Which application it has taken over.
    application: u32,
    /// Its number in the record.
    incarnation: Option<u64>,
    /// When it had raised the incarnation.
    began: Option<Instant>,
    /// The ids that it asked for.
    asked_for: BTreeSet<u64>,
    /// Those among them that have not ended.
    open: BTreeSet<u64>,
    reported: BTreeMap<(ExecutorId, Option<PodUid>), LossClass>,
    /// Bound executors that left its ledger; it must have reported their ends by now.
    owed: Vec<(ExecutorId, PodUid)>,
    /// Pods whose version may go back once, for the server's history was replaced.
    may_go_back: BTreeSet<PodUid>,
    /// Whether it ever had an executor with a pod.
    had_an_executor: bool,
    /// Whether it ever counted one that nobody had asked for in time, by the world's doing.
    counted_a_surplus: bool,
}

/// A pod that ran and was well, and that a driver deleted.
struct Killing {
    driver: usize,
    id: Option<ExecutorId>,
    uid: PodUid,
}

/// How a pod was made that a driver asked for; or was given its id, where sets make the pods.
struct Made {
    driver: usize,
    id: u64,
    at: Instant,
    /// A younger driver had begun, or the request came when the server would not work on it any more: it does not last
    /// (spec I-10, E-3), but whoever takes over before it is gone may count it.
    too_late: bool,
}

/// All that was seen, as far as later steps are held against it.
#[derive(Default)]
pub struct Checks {
    pub excuses: Excuses,
    drivers: BTreeMap<usize, Seen>,
    /// Counts the applications: one that begins anew, as after the server forgot all, may use ids again.
    applications: u32,
    app_id: String,
    /// The one pod that was ever counted for an id.
    counted: BTreeMap<(u32, ExecutorId), PodUid>,
    ever_bound: BTreeSet<PodUid>,
    /// Those that some driver had chosen to go: a successor does not know, where that was not carried out yet.
    ever_chosen: BTreeSet<PodUid>,
    /// Those that some driver had chosen to go because its application ended.
    ended_with_its_application: BTreeSet<PodUid>,
    requested: BTreeMap<(u32, u64), Instant>,
    /// The pods that drivers made.
    made: BTreeMap<PodUid, Made>,
    /// Targets in force, and since when.
    targets: BTreeMap<ProfileName, Vec<(Instant, u32)>>,
    killings: Vec<Killing>,
    /// Drivers that were told to end the application.
    pub ended_by: BTreeSet<usize>,
    /// How many failures there may be.
    pub budget: Budget,
    /// How long executors may wait.
    pub deadlines: Deadlines,
    /// Executors that the record once knew to be bound to a pod, and those whose end some driver reported.
    recorded: BTreeSet<ExecutorId>,
    reported: BTreeSet<ExecutorId>,
    /// Who is which executor, where sets make the pods.
    named: Option<sets::Named>,
}

/// What a run ends with that breaks a rule.
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
    /// The server's history was replaced.
    pub fn rewritten(&mut self) {
        self.excuses.rewritten.push(Instant::now());
        // What a history knew that was put back, or lost, nobody can know any more.
        self.recorded.clear();
        self.budget.forget_what_is_sure();
        // Who takes over from now on knows no more than the server's new history says.
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

    /// A driver is no more; what it did last is not held against it.
    pub fn over(&mut self, driver: usize) {
        self.killings.retain(|killing| killing.driver != driver);
        self.drivers.entry(driver).or_default().over = true;
    }

    /// Whether a driver is no more.
    pub fn is_over(&self, driver: usize) -> bool {
        (self.drivers.get(&driver)).is_some_and(|seen| seen.over)
    }

    /// Whether a driver that is over made this after its ledger was last looked at: whom it had chosen to go, before it
    /// asked for another one, nobody has seen.
    fn is_of_its_last_moment(&self, made: &Made) -> bool {
        (self.drivers.get(&made.driver))
            .is_some_and(|seen| seen.over && seen.seen_at.is_none_or(|at| at <= made.at))
    }

    fn application_of(&self, driver: usize) -> u32 {
        (self.drivers.get(&driver)).map_or(0, |seen| seen.application)
    }

    /// Whether one driver has taken over later than another one.
    pub fn is_younger(&self, driver: usize, other: usize) -> bool {
        let began = |driver| self.drivers.get(&driver).and_then(|seen: &Seen| seen.began);
        began(driver) > began(other)
    }

    /// Whether another driver has taken over since this one has, or may have.
    pub fn is_superseded(&self, driver: usize) -> bool {
        (self.drivers.keys()).any(|other| self.is_younger(*other, driver))
    }

    /// Whether a driver ever had an executor with a pod, as far as its ledger said.
    pub fn had_an_executor(&self, driver: usize) -> bool {
        (self.drivers.get(&driver)).is_some_and(|seen| seen.had_an_executor)
    }

    /// The last that was seen of a driver's ledger.
    pub fn last(&self, driver: usize) -> Option<&Snapshot> {
        self.drivers.get(&driver)?.last.as_ref()
    }

    /// A target that somebody wants from now on.
    pub fn target(&mut self, profile: &ProfileName, target: u32) {
        let history = self.targets.entry(profile.clone()).or_default();
        if history.last().is_none_or(|(_, last)| *last != target) {
            history.push((Instant::now(), target));
        }
    }

    /// Something that the server did for a driver.
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
            // Whoever ends the application tells of no end that comes later, whether all are gone by then or not.
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
        // One that was superseded can only write where the server has forgotten that it was, and is written over.
        if !self.is_superseded(done.driver) {
            self.recorded.extend(ids(text(&done.sent, "/data/bound")));
        }
        let seen = self.drivers.entry(done.driver).or_default();
        if seen.incarnation == Some(incarnation) {
            return;
        }
        // Numbers only rise, as long as it is the same application.
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
    /// A pod was deleted or changed by a driver.
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
        // What was bound may not have been seen by us, but its name and how it was made say so.
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

    /// Ends that a driver reported.
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

    /// At the end: whatever the record knew, and this driver does not have, some driver reported the end of.
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

    /// What a driver's ledger says now.
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
        // How many pods there are is for sets to say, what each claims, and how long they wait.
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

/// No new executor is kept from every node.
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

/// The entries that are not as they were; all of them where the history is another one.
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

/// Whether a pod is not ending, and nothing is wrong with it.
fn is_well(pod: &Value) -> bool {
    let containers = pod.pointer("/status/containerStatuses");
    let ended = |container: &Value| container.pointer("/state/terminated").is_some();
    let all_run = (containers.and_then(Value::as_array)).is_none_or(|all| !all.iter().any(ended));
    let phase = text(pod, "/status/phase");
    all_run && matches!(phase, "Pending" | "Running" | "Unknown") && !is_terminating(pod)
}
