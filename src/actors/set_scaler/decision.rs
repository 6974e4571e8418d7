//! What is to be done about the sets and their pods: `(state, batch, observed sets, now) → actions`, pure (spec A-80,
//!
//!
//! All that is done follows from what is wanted and what was last seen, so a lost answer, a set that somebody else
//! changed or deleted, or a driver that came in between leads to the same action again.

mod answers;
mod numbering;
mod sets;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::actors::pod_allocator::decision as allocator;
use crate::actors::pod_allocator::failures::{Failures, Spent};
use crate::actors::pod_allocator::ids::Ids;
use crate::kubernetes::{SetKind, SetSeen};
use crate::model::executor::{How, State, Why};
use crate::model::failures::KeptFailures;
use crate::model::reasoning::reason_of;
use crate::model::snapshot::{Snapshot, UnassignedPod};
use crate::model::{
    Batch, Ending, Entry, ExecutorId, LossReason, Now, Pod, PodUid, ProfileName, ResourceVersion,
    Tick,
};
use boatswain_agent::backoff::Backoff;

/// How sets are looked after.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What makes the pods.
    pub kind: SetKind,
    /// What the sets' names begin with.
    pub prefix: String,
    /// From one look at the sets to the next, where nothing is heard of them otherwise.
    pub look_every: Duration,
    /// Between tries of the same call.
    pub backoff: Backoff,
    /// A call that was made so long ago changes nothing any more.
    pub settled_after: Duration,
    /// At most so many calls about pods at a time.
    pub max_in_flight: u32,
    /// How long a registered executor may take to finish what it does.
    pub decommission_timeout: Duration,
}

/// What a round decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Look at all sets.
    Look,
    /// Make a profile's set, with so many pods.
    Create(ProfileName, u32),
    /// Bring a set's template and owner up to date.
    Update(ProfileName, SetSeen),
    /// Say how many pods a set is to have.
    Scale(SetSeen, u32),
    /// Delete a set, and its pods after it.
    Delete(SetSeen),
    /// Give a pod its executor's id.
    Number {
        /// Which id.
        id: ExecutorId,
        /// Which pod.
        uid: PodUid,
        /// Its name.
        name: Arc<str>,
        /// As it was seen without an id: where it has changed since, it is looked at once more.
        version: ResourceVersion,
    },
    /// These ids were taken for pods that went before they got them.
    Unused(Vec<ExecutorId>),
    /// Say of a pod that it is the first to go (spec A-81).
    Cheapen {
        /// Whose.
        id: ExecutorId,
        /// Which pod.
        uid: PodUid,
        /// Its name.
        name: Arc<str>,
    },
    /// These go.
    Retire(Vec<ExecutorId>, Why, How),
    /// Reserve ids up to this one (spec O-30).
    Reserve(ExecutorId),
    /// Keep these failures over a restart (spec L-30).
    KeepFailures(KeptFailures),
    /// Tell people that an executor was started again in its pod, and why.
    Restarted(Box<Entry>, Box<LossReason>),
    /// No ids are left.
    OutOfIds,
    /// The application has failed too often: it ends (spec L-30).
    Spent(Arc<str>),
}

/// Something that is tried until it is done.
#[derive(Debug, Clone, Copy, Default)]
struct Trial {
    in_flight: bool,
    failures: u32,
    not_before: Tick,
}

impl Trial {
    fn may_begin(&self, now: Tick) -> bool {
        !self.in_flight && now >= self.not_before
    }

    fn begin(&mut self) {
        self.in_flight = true;
    }

    fn over(&mut self, succeeded: bool, backoff: &Backoff, now: Tick) {
        self.in_flight = false;
        self.failures = if succeeded { 0 } else { self.failures + 1 };
        self.not_before = match self.failures {
            0 => Tick::default(),
            failures => now + backoff.delay(failures),
        };
    }
}

/// What is known of the sets, and of what is under way.
#[derive(Debug)]
pub struct Scaling {
    settings: Settings,
    /// What each profile's template is made of.
    hashes: BTreeMap<ProfileName, String>,
    /// The sets as they were last seen or written; none before the first look.
    observed: Option<BTreeMap<String, SetSeen>>,
    look: Trial,
    look_at: Tick,
    sets: BTreeMap<String, Trial>,
    ids: Ids,
    numbers: BTreeMap<PodUid, (ExecutorId, ResourceVersion, Trial)>,
    /// Ids whose pods went before they got them, as far as was seen; until when a call may still give them.
    unused: BTreeMap<ExecutorId, Tick>,
    /// Pods that are said to be the first to go; whether that is still under way.
    cheap: BTreeMap<ExecutorId, bool>,
    /// How often each executor's container was started again, as far as that was counted.
    restarts: BTreeMap<ExecutorId, u32>,
    /// Executors that are to go and whose program has ended since they were told.
    exited: BTreeSet<ExecutorId>,
    failures: Failures,
    begun: bool,
    ending: bool,
}

impl Scaling {
    /// Before anything was seen. Ids are reserved up to `reserved`.
    pub fn new(
        settings: Settings,
        hashes: BTreeMap<ProfileName, String>,
        reserved: Option<ExecutorId>,
        failures: Failures,
    ) -> Self {
        Self {
            settings,
            hashes,
            observed: None,
            look: Trial::default(),
            look_at: Tick::default(),
            sets: BTreeMap::new(),
            ids: Ids::reserved(reserved),
            numbers: BTreeMap::new(),
            unused: BTreeMap::new(),
            cheap: BTreeMap::new(),
            restarts: BTreeMap::new(),
            exited: BTreeSet::new(),
            failures,
            begun: false,
            ending: false,
        }
    }

    /// There is a new profile, or another template of one.
    pub fn know(&mut self, profile: ProfileName, hash: String) {
        self.hashes.insert(profile, hash);
    }

    /// The application is over: the sets go, once nobody drains any more. How many there are, as far as is known.
    pub fn end(&mut self) -> usize {
        if !std::mem::replace(&mut self.ending, true) {
            self.look_at = Tick::default();
        }
        self.observed.as_ref().map_or(1, BTreeMap::len)
    }

    /// How many calls are under way.
    pub fn in_flight(&self) -> u32 {
        let of_sets = self.sets.values().filter(|trial| trial.in_flight).count();
        u32::try_from(of_sets + self.about_pods()).unwrap_or(u32::MAX)
    }

    fn about_pods(&self) -> usize {
        let numbers = self.numbers.values().filter(|(.., trial)| trial.in_flight);
        let cheap = self.cheap.values().filter(|under_way| **under_way);
        numbers.count() + cheap.count()
    }

    /// One round.
    pub fn decide(&mut self, batch: &Batch, now: Now) -> Vec<Action> {
        let latest = batch.latest();
        let mut actions = Vec::new();
        if !latest.adopted {
            return actions;
        }
        let mut decision = allocator::Decision::default();
        let ids: Vec<ExecutorId> = if std::mem::replace(&mut self.begun, true) {
            batch.changed_executors().into_iter().collect()
        } else {
            (self.ids).begin(latest.first_free, now.tick, &mut decision);
            latest.entries.keys().collect()
        };
        for Ending { entry, reason } in batch.ends() {
            let spent = self.failures.ended(entry, reason, None, now);
            actions.extend(spent.map(over));
        }
        for id in ids {
            self.see(id, latest, now, &mut actions);
        }
        let wanted = latest.targets.values().map(|target| target.executors);
        (self.failures).wanted(wanted.fold(0, u32::saturating_add));
        if let Some(spent) = self.failures.spent(now.tick) {
            actions.push(over(spent));
        }
        actions.extend(self.keep_failures().map(Action::KeepFailures));
        let unused = self.forget_numbered(latest, now.tick);
        actions.extend((!unused.is_empty()).then_some(Action::Unused(unused)));
        // While the record is not there nobody knows whether this is still the driver (spec K-2).
        if latest.record.is_some() {
            if !self.ending {
                self.number(latest, now.tick, &mut decision, &mut actions);
            }
            self.look_after_sets(latest, now.tick, &mut actions);
        }
        for action in decision.actions {
            match action {
                allocator::Action::Reserve(up_to) => actions.push(Action::Reserve(up_to)),
                allocator::Action::Say(allocator::Notice::OutOfIds) => {
                    actions.push(Action::OutOfIds);
                }
                _ => {}
            }
        }
        actions
    }

    /// What one executor's change means.
    fn see(&mut self, id: ExecutorId, latest: &Snapshot, now: Now, actions: &mut Vec<Action>) {
        let Some(entry) = latest.entry(id) else {
            self.failures.left(id, now.tick);
            self.restarts.remove(&id);
            self.exited.remove(&id);
            self.cheap.remove(&id);
            return;
        };
        self.failures.see(entry, now.tick);
        let Some(pod) = entry.pod() else { return };
        let count = pod.restart_count();
        // What was before this driver knew the pod another one has counted, or it was another executor then.
        let before = *self.restarts.entry(id).or_insert(count);
        // A server that was restored shows fewer for a while: those that follow were counted.
        self.restarts.insert(id, count.max(before));
        if count <= before {
            return;
        }
        if let Some(mark) = &entry.leaving {
            let told = self.exited.insert(id);
            // Its program is over: what a kubelet starts again in its pod is of no use.
            if told && mark.why != Why::ScaledDown {
                let grace = Duration::from_secs(1);
                let how = How::Kill { grace };
                actions.push(Action::Retire(vec![id], mark.why.clone(), how));
            }
            return;
        }
        let ended = as_it_ended(entry, pod);
        let reason = reason_of(&ended);
        let spent = (self.failures).restarted(&ended, &reason, count - before, now);
        actions.push(Action::Restarted(Box::new(ended), Box::new(reason)));
        actions.extend(spent.map(over));
    }

    /// The failures that a successor has to know of, where they have changed since this was asked.
    pub fn keep_failures(&mut self) -> Option<KeptFailures> {
        self.failures.keep()
    }
}

fn over(Spent(why): Spent) -> Action {
    Action::Spent(why)
}

/// The executor as its last program ended: the pod went on.
fn as_it_ended(entry: &Entry, pod: &Pod) -> Entry {
    let last = (pod.restarts.as_ref()).and_then(|restarts| restarts.last.clone());
    let mut ended = entry.clone();
    if let State::Bound(bound) = &mut ended.state {
        let mut pod = pod.clone();
        pod.executor = match last {
            Some(last) => crate::model::pod::ContainerState::Terminated(last),
            None => crate::model::pod::ContainerState::Absent,
        };
        bound.pod = Arc::new(pod);
    }
    ended
}

#[cfg(test)]
mod tests;
