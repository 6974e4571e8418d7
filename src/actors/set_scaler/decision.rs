//! Decides what happens to the sets and their pods: `(state, batch, observed sets, now) → actions`
//! (spec ).
//!
//! Every action follows from the targets and from what was last observed. So a lost answer, a set
//! that was changed or deleted, or another driver in between leads to the same action again.

mod answers;
mod numbering;
mod sets;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::actors::failures::restarts::{Restarts, as_it_ended};
use crate::actors::failures::{Failures, Spent};
use crate::actors::pod_allocator::decision as allocator;
use crate::actors::pod_allocator::ids::Ids;
use crate::kubernetes::{SetKind, SetSeen};
use crate::model::executor::{LeaveMethod, LeaveReason};
use crate::model::failures::KeptFailures;
use crate::model::news::TargetChange;
use crate::model::reasoning::reason_of;
use crate::model::snapshot::{Snapshot, UnassignedPod};
use crate::model::{
    Batch, Ending, Entry, ExecutorId, LossReason, Now, PodUid, ProfileName, ResourceVersion, Tick,
};
use boatswain_agent::backoff::Backoff;

#[derive(Debug, Clone)]
pub struct SetRules {
    pub kind: SetKind,
    /// The prefix of the sets' names.
    pub prefix: String,
    /// The interval between lists of the sets.
    pub look_every: Duration,
    /// The wait between attempts of a call.
    pub backoff: Backoff,
    /// After this long a call can no longer take effect.
    pub settled_after: Duration,
    /// The most concurrent calls about pods.
    pub max_in_flight: u32,
    /// How long a registered executor may drain.
    pub decommission_timeout: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// List the sets.
    Look,
    /// Create a profile's set with this many pods.
    Create(ProfileName, u32),
    /// Correct a set's template and owner.
    Update(ProfileName, SetSeen),
    /// Set a set's number of pods.
    Scale(SetSeen, u32),
    /// Delete a set, then its pods.
    Delete(SetSeen),
    /// Assign an executor id to a pod.
    Number {
        id: ExecutorId,
        uid: PodUid,
        name: Arc<str>,
        /// The version without an id. If it has changed, the pod is read again first.
        version: ResourceVersion,
    },
    /// These ids were taken for pods that were gone before they got them.
    Unused(Vec<ExecutorId>),
    /// Mark a pod as the first to be deleted.
    Cheapen {
        id: ExecutorId,
        uid: PodUid,
        name: Arc<str>,
    },
    /// Mark these executors as leaving.
    Retire(Vec<ExecutorId>, TargetChange, LeaveReason, LeaveMethod),
    /// Reserve ids up to this one in the record.
    Reserve(ExecutorId),
    /// Write these failures to the record.
    KeepFailures(KeptFailures),
    /// Log that an executor's container was restarted, and why.
    Restarted(Box<Entry>, Box<LossReason>),
    OutOfIds,
    /// The application, or a profile, has failed too often.
    Spent(Spent),
}

/// A call that is repeated until it succeeds.
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

    fn server_is_back(&mut self, now: Tick) {
        if self.failures > 0 {
            self.not_before = self.not_before.min(now);
            // As after the first failure: the first one is logged.
            self.failures = 1;
        }
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

/// The assignment of an id to a pod.
#[derive(Debug)]
struct Numbering {
    id: ExecutorId,
    /// The pod's version when the call was sent last.
    version: ResourceVersion,
    trial: Trial,
}

#[derive(Debug)]
pub struct Scaling {
    settings: SetRules,
    /// The hash of each profile's set template.
    hashes: BTreeMap<ProfileName, String>,
    /// The sets as last listed or written; `None` before the first list.
    observed: Option<BTreeMap<String, SetSeen>>,
    look: Trial,
    look_at: Tick,
    sets: BTreeMap<String, Trial>,
    ids: Ids,
    numbers: BTreeMap<PodUid, Numbering>,
    /// Ids whose pods are gone without them, and when no call can assign them any more.
    unused: BTreeMap<ExecutorId, Tick>,
    /// Pods that are marked as the first to be deleted; true while the call is in flight.
    cheap: BTreeMap<ExecutorId, bool>,
    restarts: Restarts,
    /// Leaving executors whose program has ended.
    exited: BTreeSet<ExecutorId>,
    failures: Failures,
    ending: bool,
}

impl Scaling {
    pub fn new(
        settings: SetRules,
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
            restarts: Restarts::default(),
            exited: BTreeSet::new(),
            failures,
            ending: false,
        }
    }

    /// Adds a profile, or changes its template.
    pub fn add_profile(&mut self, profile: ProfileName, hash: String) {
        self.hashes.insert(profile, hash);
    }

    pub fn failures(&mut self) -> &mut Failures {
        &mut self.failures
    }

    /// Forgets a removed profile unless its set is left, or may be (spec B-57).
    pub fn remove_profile(&mut self, profile: &ProfileName) -> bool {
        let name = format!("{}-{profile}", self.settings.prefix);
        let is_gone = |sets: &BTreeMap<String, SetSeen>| !sets.contains_key(&name);
        let in_flight = self.sets.get(&name).is_some_and(|trial| trial.in_flight);
        if in_flight || !self.observed.as_ref().is_some_and(is_gone) {
            return false;
        }
        self.hashes.remove(profile);
        self.sets.remove(&name);
        self.failures.remove_profile(profile);
        true
    }

    /// Takes over new settings (spec C-6).
    pub fn reconfigure(&mut self, look_every: Duration, max_failures: Option<u32>) {
        self.settings.look_every = look_every;
        self.failures.allow(max_failures);
    }

    /// The application ends. The sets are deleted once no executor drains.
    pub fn end(&mut self) {
        self.ending = true;
        self.look_at = Tick::default();
    }

    /// Whether the sets are being deleted.
    pub fn is_ending(&self) -> bool {
        self.ending
    }

    /// How many calls are in flight; at the end, how many sets are left.
    pub fn left(&self) -> u32 {
        let sets = || self.observed.as_ref().map_or(1, BTreeMap::len);
        match self.ending {
            true => u32::try_from(sets()).unwrap_or(u32::MAX),
            false => self.in_flight(),
        }
    }

    /// The end of an outage ends the backoffs of failed calls (spec W-14).
    pub fn server_is_back(&mut self, now: Tick) {
        let numbers = (self.numbers.values_mut()).map(|numbering| &mut numbering.trial);
        for trial in numbers
            .chain(self.sets.values_mut())
            .chain([&mut self.look])
        {
            trial.server_is_back(now);
        }
    }

    pub fn in_flight(&self) -> u32 {
        let of_sets = self.sets.values().filter(|trial| trial.in_flight).count();
        u32::try_from(of_sets + self.about_pods()).unwrap_or(u32::MAX)
    }

    fn about_pods(&self) -> usize {
        let numbers = (self.numbers.values()).filter(|numbering| numbering.trial.in_flight);
        let cheap = self.cheap.values().filter(|under_way| **under_way);
        numbers.count() + cheap.count()
    }

    pub fn decide(&mut self, batch: &Batch, now: Now) -> Vec<Action> {
        let latest = batch.latest();
        let mut actions = Vec::new();
        let mut decision = allocator::Decision::default();
        (self.ids).begin(latest.first_free, now.tick, &mut decision);
        self.failures.follow(latest);
        for Ending { entry, reason } in batch.ends() {
            self.failures.ended(entry, reason, None, now);
        }
        for id in batch.changed_executors() {
            self.observe(id, latest, now, &mut actions);
        }
        actions.extend(self.failures.spent(now.tick).into_iter().map(Action::Spent));
        actions.extend(self.keep_failures().map(Action::KeepFailures));
        let unused = self.forget_numbered(latest, now.tick);
        actions.extend((!unused.is_empty()).then_some(Action::Unused(unused)));
        // Without the record the driver may no longer own the application (spec K-13).
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

    fn observe(&mut self, id: ExecutorId, latest: &Snapshot, now: Now, actions: &mut Vec<Action>) {
        let Some(entry) = latest.entry(id) else {
            self.failures.removed(id, now.tick);
            self.restarts.removed(id);
            self.exited.remove(&id);
            self.cheap.remove(&id);
            return;
        };
        self.failures.observe(entry, now.tick);
        let times = self.restarts.observe(entry);
        if times == 0 {
            return;
        }
        if let Some(mark) = &entry.leaving {
            let told = self.exited.insert(id);
            // Its program has ended, so a restart by the kubelet is useless.
            if told && mark.why != LeaveReason::ScaledDown {
                let grace = Duration::from_secs(1);
                let how = LeaveMethod::Kill { grace };
                actions.push(Action::Retire(
                    vec![id],
                    TargetChange::Stay,
                    mark.why.clone(),
                    how,
                ));
            }
            return;
        }
        let ended = as_it_ended(entry);
        let reason = reason_of(&ended);
        (self.failures).restarted(&ended, &reason, times, now);
        actions.push(Action::Restarted(Box::new(ended), Box::new(reason)));
    }

    /// The failures for the record, if they have changed since the last call.
    pub fn keep_failures(&mut self) -> Option<KeptFailures> {
        self.failures.keep()
    }
}

#[cfg(test)]
mod tests;
