//! Decides the pending actions for each executor: report its end; delete, label or look up its pod
//! (spec L-1 to L-14).
//!
//! `(state, batch, now) → actions`. The actions follow from the entry alone, so a lost answer, a
//! repeated event or a restart leads to the same action again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::model::executor::{Class, LeaveMethod};
use crate::model::quantity::MEBIBYTE;
use crate::model::reasoning::{reason_of_an_overdue, reason_of_an_unawaited, says_more};
use crate::model::snapshot::OrphanPod;
use crate::model::{
    Batch, Ending, Entry, ExecutorId, LossClass, Now, Pod, PodState, PodUid, Snapshot, State, Tick,
};
use crate::planted::{self, Planted};
use boatswain_agent::backoff::Backoff;

use super::call_queue::{CallQueue, PodCall, Subject};
use super::going;
use super::kept::{self, KeptPods};
use super::messages::{Instruct, Order};
use probes::{Answer, Next, Probes};
use protection::Protection;

mod keeping;
pub mod probes;
mod protection;

#[derive(Debug, Clone, Copy)]
pub struct PodRules {
    /// Which finished pods are kept and labelled inactive, instead of deleted.
    pub keep: kept::Policy,
    /// The most concurrent calls.
    pub max_in_flight: usize,
    /// How long the server may take to commit a request.
    pub server_timeout: Duration,
    /// After this long a request of unknown outcome is looked up.
    pub creation_timeout: Duration,
    /// The wait between attempts of a call.
    pub backoff: Backoff,
    /// How long an adopted executor may take to register; `None`: none registers.
    pub adoption_grace: Option<Duration>,
    /// How long the deletion of a surplus pod is left to its set; `None`: no sets.
    pub left_to_sets: Option<Duration>,
    /// Whether it may read Events.
    pub reads_events: bool,
    /// Whether autoscalers leave pods of busy executors alone.
    pub protects_busy: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Report this end, once.
    Report(Ending),
    /// Log a better reason that is known only after the report.
    Correct(Ending),
    Call(Subject, PodCall),
    /// Instruct an executor that has a session.
    Instruct(Instruct),
    /// Read the Events of this pod, and call [`PendingActions::probe_told`].
    AskForProbe(ExecutorId, PodUid),
}

#[derive(Debug)]
pub struct PendingActions {
    settings: PodRules,
    queue: CallQueue,
    /// Apart, because nothing waits for these calls: protections and resizes.
    unawaited: CallQueue,
    protection: Protection,
    kept: KeptPods,
    /// When kept pods were last asked for.
    kept_listed: Option<Tick>,
    probes: Probes,
    /// Executors whose end is being reported: the ledger does not show it as reported yet.
    reporting: BTreeSet<ExecutorId>,
    /// The better reason that was last logged for an executor in the snapshot. The entry keeps the
    /// reported reason, and each better one is logged once.
    corrected: BTreeMap<ExecutorId, LossClass>,
    /// The last instruction to each executor in the snapshot.
    instructed: BTreeMap<ExecutorId, (Order, Tick)>,
    /// When an executor must be checked even if it has not changed.
    deadlines: BTreeSet<(Tick, ExecutorId)>,
    /// Since when each executor with an unreported end has been Terminating.
    terminating: BTreeMap<ExecutorId, Tick>,
}

/// Protections and resizes at a time (spec L-42, L-44).
const UNAWAITED_AT_ONCE: usize = 4;

/// How long a pod may be Terminating beyond its grace period (spec L-3).
const OVERDUE_AFTER: Duration = Duration::from_secs(60);

impl PendingActions {
    pub fn new(settings: PodRules, mut rng: StdRng) -> Self {
        Self {
            settings,
            unawaited: CallQueue::new(
                UNAWAITED_AT_ONCE,
                settings.backoff,
                StdRng::from_rng(&mut rng),
            ),
            protection: Protection::default(),
            queue: CallQueue::new(settings.max_in_flight, settings.backoff, rng),
            kept: KeptPods::new(settings.keep),
            kept_listed: None,
            probes: Probes::new(settings.reads_events),
            reporting: BTreeSet::new(),
            corrected: BTreeMap::new(),
            instructed: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            terminating: BTreeMap::new(),
        }
    }

    /// Takes O(changes), and O(log) for each call (spec L-6).
    pub fn decide(&mut self, batch: &Batch, now: Now) -> Vec<Action> {
        let latest = batch.latest();
        let (wall, now) = (now.wall, now.tick);
        let mut actions = Vec::new();
        // Each executor is processed once, so that an action is decided only once.
        let mut ids: BTreeSet<ExecutorId> = self.past_deadlines(now).collect();
        ids.extend(batch.changed_executors());
        for uid in batch.changed_orphans() {
            self.orphan(uid, latest, now);
        }
        self.list_kept(now);
        let ended = as_they_ended(batch);
        for id in ids {
            self.executor(id, latest, ended.get(&id), now, &mut actions);
            self.keep(id, Now::new(now, wall));
        }
        self.delete_kept(now);
        let calls = self.queue.due(now).chain(self.unawaited.due(now));
        actions.extend(calls.map(|(subject, pod_call)| Action::Call(subject, pod_call)));
        actions
    }

    /// Executors whose deadline has passed.
    fn past_deadlines(&mut self, now: Tick) -> impl Iterator<Item = ExecutorId> {
        let later = self.deadlines.split_off(&(now, ExecutorId::MAX));
        std::mem::replace(&mut self.deadlines, later)
            .into_iter()
            .map(|(_, id)| id)
    }

    fn executor(
        &mut self,
        id: ExecutorId,
        latest: &Snapshot,
        as_it_ended: Option<&Arc<Entry>>,
        now: Tick,
        actions: &mut Vec<Action>,
    ) {
        let entry = latest.entry(id);
        match entry {
            Some(entry) => {
                self.report(entry, as_it_ended, now, actions);
                self.report_overdue(entry, now, actions);
            }
            None => {
                self.probes.removed(id);
                self.reporting.remove(&id);
                self.corrected.remove(&id);
                self.instructed.remove(&id);
                self.terminating.remove(&id);
            }
        }
        if let Some(entry) = entry {
            self.instruct(entry, now, actions);
        }
        let owed = entry.and_then(|entry| self.owed(entry, now));
        self.queue.set(Subject::Executor(id), owed, now);
        if self.settings.protects_busy && !planted::is(Planted::IdleProtected) {
            self.protect(id, entry, now);
        }
        let owed = entry.and_then(|entry| resize(entry));
        let owed = owed.map(|pod_call| (pod_call, None));
        self.unawaited.set(Subject::Memory(id), owed, now);
        let owed = entry.and_then(|entry| promotion(entry));
        let owed = owed.map(|pod_call| (pod_call, None));
        self.queue.set(Subject::Promotion(id), owed, now);
    }

    fn protect(&mut self, id: ExecutorId, entry: Option<&Arc<Entry>>, now: Tick) {
        let owed = match entry.map(|entry| (entry, &entry.state)) {
            Some((entry, State::Bound(bound))) => {
                let owed = self.protection.owed(entry, bound, now);
                owed.map(|(is_protected, at)| {
                    let (name, uid) = (Arc::clone(&bound.pod.name), bound.pod.uid.clone());
                    let call = PodCall::Protect {
                        name,
                        uid,
                        is_protected,
                    };
                    (call, Some(at))
                })
            }
            _ => {
                self.protection.remove(id);
                None
            }
        };
        self.unawaited.set(Subject::Protection(id), owed, now);
    }

    fn orphan(&mut self, uid: PodUid, latest: &Snapshot, now: Tick) {
        let owed = latest.orphans.get(&uid).and_then(|g| orphan_call(&uid, g));
        self.queue.set(Subject::OrphanPod(uid), owed, now);
    }

    /// A call was answered or failed. The store has been informed already.
    pub fn answered(&mut self, subject: &Subject, succeeded: bool, now: Tick) {
        if succeeded && matches!(subject, Subject::KeptPod(_) | Subject::KeptPods) {
            self.queue.set(subject.clone(), None, now);
        }
        let queue = match subject {
            Subject::Protection(_) | Subject::Memory(_) => &mut self.unawaited,
            _ => &mut self.queue,
        };
        queue.answered(subject, succeeded, now);
    }

    /// The Events of an executor's pod were read, or could not be.
    pub fn probe_told(&mut self, id: ExecutorId, answer: Answer, now: Tick) {
        if self.probes.told(id, answer) {
            self.deadlines.insert((now, id));
        }
    }

    /// The end of an outage ends the backoffs of failed calls (spec W-14).
    pub fn server_is_back(&mut self, now: Tick) {
        self.queue.server_is_back(now);
        self.unawaited.server_is_back(now);
    }

    pub fn protects_busy(&self) -> bool {
        self.settings.protects_busy
    }

    /// How many calls wait or are in flight, without those that nothing waits for.
    pub fn outstanding(&self) -> usize {
        self.queue.len()
    }

    /// When a round is needed even without news.
    pub fn next_try(&self) -> Option<Tick> {
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        let tries = [self.queue.next_try(), self.unawaited.next_try(), deadline];
        tries.into_iter().flatten().min()
    }

    /// Instructs a leaving executor that has a session, and again if the session is new or the
    /// instruction has changed. A draining executor is instructed after its pod is marked, so that
    /// a successor knows of it (spec L-12).
    fn instruct(&mut self, entry: &Entry, now: Tick, actions: &mut Vec<Action>) {
        let Some(leaving) = entry.leaving.as_ref().filter(|_| entry.session.registered) else {
            self.instructed.remove(&entry.id);
            return;
        };
        let (order, within) = match leaving.how {
            LeaveMethod::Delete => (Order::Stop, Duration::ZERO),
            LeaveMethod::Kill { grace } => (Order::Stop, grace),
            LeaveMethod::Drain { within } => (Order::Drain, within),
        };
        let until = leaving.since + within;
        let marked = entry.pod().is_some_and(|pod| pod.draining.is_some());
        if entry.has_ended() || (order == Order::Drain && (!marked || now >= until)) {
            return;
        }
        if self.instructed.insert(entry.id, (order, until)) != Some((order, until)) {
            actions.push(Action::Instruct(Instruct {
                executor: entry.id,
                order,
                until,
                why: leaving.why.to_string(),
            }));
        }
    }

    fn report(
        &mut self,
        entry: &Arc<Entry>,
        as_it_ended: Option<&Arc<Entry>>,
        now: Tick,
        actions: &mut Vec<Action>,
    ) {
        if entry.is_reported() {
            self.reporting.remove(&entry.id);
        }
        if entry.has_unreported_end() {
            if self.reporting.contains(&entry.id) {
                return;
            }
            let mut ending = Ending::of(entry);
            // A later snapshot may only show that the pod is gone (spec L-5).
            if let Some(before) = as_it_ended.map(Ending::of)
                && before.reason.class != ending.reason.class
                && !says_more(ending.reason.class, before.reason.class)
            {
                ending = before;
            }
            match self.probes.next(ending, now) {
                Next::Report(ending) => {
                    self.reporting.insert(entry.id);
                    actions.push(Action::Report(ending));
                }
                Next::Ask(uid, until) => {
                    self.deadlines.insert((until, entry.id));
                    actions.push(Action::AskForProbe(entry.id, uid));
                }
                Next::Wait(until) => {
                    self.deadlines.insert((until, entry.id));
                }
            }
        } else if let Some(reported) = entry.end.as_ref().filter(|_| entry.has_ended()) {
            let ending = Ending::of(entry);
            let class = ending.reason.class;
            let known = self.corrected.get(&entry.id).copied();
            let known = known.unwrap_or(reported.class);
            if says_more(class, known) {
                self.corrected.insert(entry.id, class);
                actions.push(Action::Correct(ending));
            }
        }
    }

    /// Reports an executor that has been Terminating for too long. Its entry stays until its pod is
    /// gone (spec L-3). Only this driver's clock counts, from when it first saw the deletion.
    fn report_overdue(&mut self, entry: &Arc<Entry>, now: Tick, actions: &mut Vec<Action>) {
        let deletion = match &entry.state {
            State::Bound(bound)
                if bound.pod.state() == PodState::Terminating && !entry.is_reported() =>
            {
                bound.pod.deletion
            }
            _ => None,
        };
        let Some(deletion) = deletion else {
            self.terminating.remove(&entry.id);
            return;
        };
        let since = *self.terminating.entry(entry.id).or_insert(now);
        let at = since + deletion.grace.unwrap_or_default() + OVERDUE_AFTER;
        if now < at {
            self.deadlines.insert((at, entry.id));
            return;
        }
        self.terminating.remove(&entry.id);
        let reason = Arc::new(reason_of_an_overdue(entry, now.since(since)));
        let entry = Arc::clone(entry);
        if self.reporting.insert(entry.id) {
            actions.push(Action::Report(Ending { entry, reason }));
        }
    }

    /// The pending call of an executor, and its earliest time; `None`: at once.
    fn owed(&mut self, entry: &Entry, now: Tick) -> Option<(PodCall, Option<Tick>)> {
        let bound = match &entry.state {
            State::Sent(_) | State::Gone(_) => return None,
            State::Unknown(unanswered) => {
                if unanswered.in_flight || planted::is(Planted::UnknownNeverSettled) {
                    return None;
                }
                if planted::is(Planted::LookedUpTooSoon) {
                    return Some((PodCall::LookUp(entry.id), None));
                }
                let settled = unanswered.request.sent + self.settings.server_timeout;
                let wanted = if unanswered.look_up || entry.leaving.is_some() {
                    settled
                } else {
                    settled.max(unanswered.since + self.settings.creation_timeout)
                };
                return Some((PodCall::LookUp(entry.id), Some(wanted)));
            }
            State::Bound(bound) => bound,
        };
        if bound.absent.is_some() {
            return Some((PodCall::LookUp(entry.id), None));
        }
        let (name, uid) = (Arc::clone(&bound.pod.name), bound.pod.uid.clone());
        let state = bound.pod.state();
        if state.is_finished() {
            let settled = !entry.is_reported() || bound.pod.deletion.is_some();
            if settled || planted::is(Planted::DeadLeftLying) {
                return None;
            }
            let failed = entry.end.as_ref().is_some_and(|end| end.failure);
            let pod_call = if self.settings.keep.keeps(failed) {
                PodCall::MarkInactive { name, uid }
            } else {
                PodCall::Delete {
                    name,
                    uid,
                    grace: None,
                }
            };
            return Some((pod_call, None));
        }
        let mut step = going::next(entry, bound, self.settings.adoption_grace, now)?;
        if let Some(patience) = self.settings.left_to_sets {
            step = step.left_to_a_set(entry, patience, now);
        }
        if let Some(at) = step.again_at {
            self.deadlines.insert((at, entry.id));
        }
        Some((step.pod_call, step.not_before))
    }
}

/// The entries that ended in this batch, as first seen to have ended. A later snapshot may only
/// show that the pod is gone (spec L-5).
fn as_they_ended(batch: &Batch) -> BTreeMap<ExecutorId, Arc<Entry>> {
    let mut ended = BTreeMap::new();
    for snapshot in batch.snapshots() {
        for id in &snapshot.changes.executors {
            if let Some(entry) = snapshot
                .entry(*id)
                .filter(|entry| entry.has_unreported_end())
            {
                ended.entry(*id).or_insert_with(|| Arc::clone(entry));
            }
        }
    }
    ended
}

/// The resize of a running executor that is near its memory limit and may have more (spec L-44). Nothing is owed while its
/// kubelet has not given it what the pod says.
fn resize(entry: &Entry) -> Option<PodCall> {
    let pod = entry.pod()?;
    let can_be = entry.class() == Class::Running && !pod.resizes;
    let memory_limit = entry.session.memory?.get();
    let is_more = memory_limit.div_ceil(MEBIBYTE) > u64::from(pod.memory_limit?.get());
    (can_be && is_more && !planted::is(Planted::ResizesForgotten)).then(|| PodCall::Resize {
        name: Arc::clone(&pod.name),
        uid: pod.uid.clone(),
        memory_limit,
    })
}

/// The label of a spare that was promoted (spec A-118). Its program waits for it.
fn promotion(entry: &Entry) -> Option<PodCall> {
    let (pod, profile) = (entry.pod()?, entry.owed_label()?);
    let can_be = entry.class().is_live() && !planted::is(Planted::PromotionsForgotten);
    can_be.then(|| PodCall::Promote {
        name: Arc::clone(&pod.name),
        uid: pod.uid.clone(),
        profile: profile.clone(),
    })
}

/// The pending call of an orphan pod.
fn orphan_call(uid: &PodUid, orphan: &OrphanPod) -> Option<(PodCall, Option<Tick>)> {
    let pod_call = PodCall::Delete {
        name: Arc::clone(&orphan.name),
        uid: uid.clone(),
        grace: None,
    };
    (!orphan.terminating && !planted::is(Planted::OrphansSpared)).then_some((pod_call, None))
}

/// Whether every executor's end is reported, and every pod gone (spec O-11, L-1).
pub fn nothing_left(snapshot: &Snapshot) -> bool {
    let settled = |entry: &Arc<Entry>| entry.is_gone() && !entry.has_unreported_end();
    snapshot.entries.values().all(settled) && snapshot.orphans.is_empty()
}

/// The ends of executors that terminate still when nobody waits for them any more (spec L-3). `is_deleted` tells whether a
/// pod is being deleted or is gone.
pub fn unawaited_ends(snapshot: &Snapshot, is_deleted: impl Fn(&Pod) -> bool) -> Vec<Ending> {
    (snapshot.entries.values())
        .filter(|entry| !entry.has_ended() && !entry.is_reported())
        .filter(|entry| entry.pod().is_some_and(|pod| is_deleted(pod)))
        .map(|entry| Ending {
            entry: Arc::clone(entry),
            reason: Arc::new(reason_of_an_unawaited(entry)),
        })
        .collect()
}

#[cfg(test)]
mod tests;
