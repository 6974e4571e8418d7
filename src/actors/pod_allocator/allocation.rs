//! Decides which executors are requested, under which ids, and which are retired: `(state, batch,
//! now) → actions`.
//!
//! Counts come from the snapshot alone (spec A-1). The state kept here is about requests (pace,
//! answers) and about the reasons of ends, never about how many executors there are.

mod answers;
mod early_ends;
mod pauses;
mod requests;
mod restarts;
mod settings;
mod spares;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand::RngExt as _;
use rand::rngs::StdRng;

use crate::model::executor::{LeaveMethod, LeaveReason};
use crate::model::failures::{Avoid, KeptFailures};
use crate::model::made::CreatedCount;
use crate::model::{Batch, ExecutorId, Now, ProfileName, Snapshot, State, Tick};

use super::claims::Claims;
use super::crash_loop::{BackoffState, CrashLoop};
use super::decision::{Action, Decision, Notice};
use super::gang::{self, Gangs};
use super::ids::Ids;
use super::pace::Pace;
use super::pause::Pause;
use super::queue::{self, Queue};
use super::refusal::RefusalPause;
use super::victims;
use super::waiting::Waiting;
use crate::actors::failures::Failures;
use crate::actors::failures::restarts::Restarts;

pub use settings::{AllocationRules, Inherited};
use spares::Spares;

#[derive(Debug)]
pub struct Allocation {
    settings: AllocationRules,
    rng: StdRng,
    pace: Pace,
    ids: Ids,
    crash_loops: BTreeMap<ProfileName, CrashLoop>,
    refusal_pauses: BTreeMap<ProfileName, RefusalPause>,
    /// What was accepted by now.
    accepted: BTreeSet<(answers::Object, ProfileName)>,
    /// The targets that the last decision saw.
    targets: BTreeMap<ProfileName, u32>,
    /// Since when and why requests fail, whosever they are.
    failing: Option<(Tick, Arc<str>)>,
    gangs: Gangs,
    /// Profiles whose PodGroup is refused.
    groups_refused: BTreeMap<ProfileName, Pause>,
    claims: Claims,
    /// `None`: executors are requested without a queue.
    queue: Option<Queue>,
    /// Requests whose outcome is unknown and that may be sent again.
    repeatable: BTreeSet<ExecutorId>,
    /// When the last outage of the API server was over.
    server_back: Option<Tick>,
    had_an_executor: bool,
    /// Whether a request whose outcome is unknown may have made the first one.
    may_have_one: bool,
    /// The profiles of which executors are wanted, as long as there never was one.
    wanted: BTreeSet<ProfileName>,
    failures: Failures,
    /// Containers that the kubelet starts again by their own policies.
    restarts: Restarts,
    waiting: Waiting,
    spares: Spares,
    made: CreatedCount,
    said_enough: bool,
    avoid: Avoid,
    memory_limits: BTreeMap<ProfileName, u64>,
    kept_steps: BTreeMap<ProfileName, u32>,
    /// Whether settings have changed since the last decision.
    reconfigured: bool,
    /// The profile that got the first slot of the last round that sent a request.
    served_first: Option<ProfileName>,
}

impl Allocation {
    /// Continues from earlier incarnations. `least` is the size of each profile's gang.
    pub fn new(
        settings: AllocationRules,
        rng: StdRng,
        inherited: &Inherited,
        least: &BTreeMap<ProfileName, u32>,
        now: Now,
    ) -> Self {
        let failures = Failures::resume(settings.failures.clone(), &inherited.failures, now)
            .catch_up(&inherited.ends, now);
        let (min_age, server_timeout) = (settings.creation_timeout, settings.server_timeout);
        let claims = Claims::new(settings.claims.clone(), min_age, server_timeout, now);
        let (kept, now) = (&inherited.backoffs, now.tick);
        let resume = |(profile, kept): (&ProfileName, &BackoffState)| {
            let resumed = CrashLoop::resume(*kept, &settings.crash_backoff, now);
            (profile.clone(), resumed)
        };
        Self {
            rng,
            pace: Pace::new(settings.limits, now),
            ids: Ids::reserved(inherited.reserved),
            crash_loops: kept.iter().map(resume).collect(),
            refusal_pauses: BTreeMap::new(),
            accepted: BTreeSet::new(),
            targets: BTreeMap::new(),
            failing: None,
            gangs: Gangs::new(settings.gang, least),
            groups_refused: BTreeMap::new(),
            claims,
            queue: None,
            repeatable: BTreeSet::new(),
            server_back: None,
            had_an_executor: false,
            may_have_one: false,
            wanted: BTreeSet::new(),
            failures,
            restarts: Restarts::default(),
            waiting: Waiting::new(settings.waiting),
            spares: Spares::default(),
            made: inherited.made.clone(),
            said_enough: false,
            avoid: Avoid::default(),
            memory_limits: BTreeMap::new(),
            kept_steps: kept
                .iter()
                .map(|(profile, kept)| (profile.clone(), kept.step))
                .collect(),
            reconfigured: false,
            served_first: None,
            settings,
        }
    }

    /// The same with a queue that admits executors (spec A-90).
    #[must_use]
    pub fn with_queue(self, queue: Option<Queue>) -> Self {
        Self { queue, ..self }
    }

    pub fn queue(&self) -> Option<&Queue> {
        self.queue.as_ref()
    }

    pub fn gangs(&self) -> &Gangs {
        &self.gangs
    }

    /// The blocks were written and read.
    pub fn queue_read(&mut self, read: queue::Read, now: Tick) -> Option<Notice> {
        self.queue.as_mut()?.read(read, now)
    }

    /// The record has ids reserved up to this one; `None`: the reservation failed and is repeated.
    pub fn reserved(&mut self, up_to: Option<ExecutorId>) {
        self.ids.answered(up_to);
    }

    /// Limits the live executors of a profile that do not run yet (spec A-4).
    pub fn limit_pending(&mut self, profile: ProfileName, most: Option<u32>) {
        let limits = &mut self.settings.caps.pending_of;
        match most {
            Some(most) => drop(limits.insert(profile, most)),
            None => drop(limits.remove(&profile)),
        }
    }

    /// Adds a profile; `least` is the size of its gang, and `hash` that of its template.
    pub fn add_profile(&mut self, profile: ProfileName, least: u32, hash: Arc<str>) {
        if let Some(queue) = &mut self.queue {
            queue.add_profile(profile.clone(), hash, least);
        }
        self.gangs.add_profile(profile, least);
    }

    pub fn failures(&mut self) -> &mut Failures {
        &mut self.failures
    }

    /// Forgets a removed profile, of which no executor is left (spec B-57).
    pub fn remove_profile(&mut self, profile: &ProfileName) {
        self.limit_pending(profile.clone(), None);
        self.claims.remove_profile(profile);
        self.gangs.remove_profile(profile);
        self.failures.remove_profile(profile);
        self.crash_loops.remove(profile);
        self.refusal_pauses.remove(profile);
        self.accepted.retain(|(_, of)| of != profile);
        if let Some(queue) = &mut self.queue {
            queue.remove_profile(profile);
        }
    }

    /// The end of an outage ends the backoffs of calls (spec W-14).
    pub fn server_is_back(&mut self, now: Tick) {
        self.server_back = Some(now);
        self.pace.server_is_back(now);
        self.claims.making.server_is_back(now);
        if let Some(queue) = &mut self.queue {
            queue.server_is_back(now);
        }
    }

    pub fn claims(&mut self) -> &mut Claims {
        &mut self.claims
    }

    /// Requests that are not answered yet, and the writes of Workloads as one.
    pub fn in_flight(&self) -> u32 {
        let queue = self.queue.as_ref().is_some_and(Queue::is_under_way);
        self.pace.in_flight() + u32::from(queue)
    }

    pub fn decide(&mut self, batch: &Batch, now: Now) -> Decision {
        let latest = batch.latest();
        let (wall, now) = (now, now.tick);
        let mut decision = Decision::default();
        self.claims.begin_round(batch, wall);
        for profile in self.failures.follow(latest) {
            self.crash_loops.remove(&profile);
            self.refusal_pauses.remove(&profile);
        }
        if !self.had_an_executor {
            let wanted = latest.targets.iter().filter(|(_, t)| t.executors > 0);
            self.wanted = wanted.map(|(profile, _)| profile.clone()).collect();
        }
        self.ids.begin(latest.first_free, now, &mut decision);
        let changed = batch.changed_executors();
        self.see_commands(latest, now);
        self.end_refusals(now, &mut decision);
        self.judge(batch, &changed, now, &mut decision);
        for ending in batch.ends() {
            self.ended(ending, wall);
        }
        for id in changed {
            self.observe(id, latest, now);
            self.see_restarts(id, latest, wall, &mut decision);
        }
        // Only then: a round looks at what has changed, not at all executors.
        if self.may_have_one {
            let is_open = latest.entries.values().any(|entry| entry.uid().is_none());
            self.may_have_one = is_open && !self.had_an_executor;
        }
        let has_failed = self.check_failure_budget(latest, now, &mut decision);
        if self.failures.are_too_many() {
            // The application ends; the component that ends it retires the executors.
            return decision;
        }
        let listed = latest.full_list.as_ref().map(|list| list.asked);
        for (id, why) in self.waiting.overdue(|id| latest.entry(id), listed, now) {
            let going = Action::Retire(vec![id], why, LeaveMethod::Delete);
            decision.actions.push(going);
        }
        decision.wake_at(self.waiting.next_at(), now);
        for (id, why) in self.claims.making.taken(latest) {
            let going = Action::Retire(vec![id], why, LeaveMethod::Delete);
            decision.actions.push(going);
        }
        let backoff = &self.settings.crash_backoff;
        let random = || self.rng.random();
        for (profile, change) in self.gangs.tick(latest, backoff, random, now) {
            decision.say(gang_notice(profile, change, now));
        }
        decision.wake_at(self.gangs.due(), now);
        // Before surplus executors are chosen: of those fewer leave then.
        if let Some(queue) = &mut self.queue {
            let within = self.settings.victims.decommission_timeout;
            queue.decide(latest, within, now, &mut decision);
        }
        self.retire_surplus(latest, now, &mut decision);
        if latest.record.is_some() {
            let due = self.claims.making.due(now);
            decision
                .actions
                .extend(due.into_iter().map(Action::EnsureClaim));
            decision.wake_at(self.claims.making.next_at(), now);
            // The ledger does not know yet of a profile that has failed just now.
            if !has_failed {
                self.request_missing(latest, now, &mut decision);
            }
            // After the requests: what free claims suffice for comes first.
            self.try_refused_claims(now, &mut decision);
        }
        self.keep(now, &mut decision);
        decision
    }

    /// What is configured or wanted may have changed. Who wants more may have mended what a refusal was about (spec A-114).
    fn see_commands(&mut self, latest: &Snapshot, now: Tick) {
        let reconfigured = std::mem::take(&mut self.reconfigured);
        if reconfigured {
            for entry in latest.entries.values() {
                self.waiting.observe(entry, now);
            }
        }
        for (profile, pause) in &mut self.refusal_pauses {
            let before = self.targets.get(profile).copied();
            if reconfigured || before.is_some_and(|before| latest.target(profile) > before) {
                pause.try_soon(now);
            }
        }
        let targets = latest.targets.iter();
        self.targets =
            (targets.map(|(profile, target)| (profile.clone(), target.executors))).collect();
    }

    /// Returns whether a budget has been spent just now.
    fn check_failure_budget(
        &mut self,
        latest: &Snapshot,
        now: Tick,
        decision: &mut Decision,
    ) -> bool {
        let spent = self.failures.spent(now);
        let has_failed = !spent.is_empty();
        for spent in spent {
            decision.say(spent.into());
        }
        self.limit_memory(latest, decision);
        let avoid = self.failures.avoid(&latest.nodes, now);
        if avoid != self.avoid {
            decision.actions.push(Action::Avoid(avoid.clone()));
            self.avoid = avoid;
        }
        has_failed
    }

    /// What the ledger does not have yet has grown in this round.
    fn limit_memory(&mut self, latest: &Snapshot, decision: &mut Decision) {
        let limits = self.failures.memory_limits();
        if limits == self.memory_limits {
            return;
        }
        for (profile, limit) in &limits {
            if latest.memory_limits.get(profile) != Some(limit) {
                let (profile, limit) = (profile.clone(), *limit);
                decision.say(Notice::Grown { profile, limit });
            }
        }
        let action = Action::LimitMemory(limits.clone());
        decision.actions.push(action);
        self.memory_limits = limits;
    }

    /// Updates the state with one executor's change.
    fn observe(&mut self, id: ExecutorId, latest: &Snapshot, now: Tick) {
        let known = latest.entry(id).map(AsRef::as_ref);
        self.claims.observe(id, known);
        self.spares.observe(id, known);
        let Some(entry) = latest.entry(id) else {
            self.repeatable.remove(&id);
            self.failures.removed(id, now);
            self.restarts.removed(id);
            self.waiting.removed(id);
            self.made.observe(id, None);
            self.gangs.removed(id);
            if let Some(queue) = &mut self.queue {
                queue.removed(id);
            }
            self.crash_loops
                .values_mut()
                .for_each(|looping| looping.removed(id));
            return;
        };
        let repeatable = match &entry.state {
            State::Unknown(unanswered) => {
                !unanswered.in_flight && !unanswered.look_up && entry.leaving.is_none()
            }
            _ => false,
        };
        if repeatable {
            self.repeatable.insert(id);
        } else {
            self.repeatable.remove(&id);
        }
        self.had_an_executor |= entry.uid().is_some();
        self.gangs.seen(entry);
        if entry.has_ended()
            && entry.uid().is_some()
            && (entry.is_gone() || !entry.is_reported())
            && let Some(pause) = self.refusal_pauses.get_mut(&entry.profile)
        {
            pause.executor_ended(now);
        }
        self.failures.observe(entry, now);
        self.waiting.observe(entry, now);
        self.made.observe(id, Some(entry));
    }

    /// Retires surplus executors, also of profiles that are no longer wanted (spec A-45).
    fn retire_surplus(&mut self, latest: &Snapshot, now: Tick, decision: &mut Decision) {
        for profile in latest.counts.keys() {
            let mut victims = victims::choose(latest, profile, &self.settings.victims, now);
            let released = self.gangs.released(latest, profile);
            if let Some(settings) = self.settings.gang
                && !released.is_empty()
            {
                victims.ids.retain(|id| !released.contains(id));
                let why = LeaveReason::GangMissed(settings.timeout);
                self.retire(released, &why, latest, decision);
            }
            self.retire(victims.ids, &LeaveReason::ScaledDown, latest, decision);
            decision.wake_at(victims.more_at, now);
        }
    }

    /// Registered executors are drained first.
    fn retire(
        &self,
        ids: Vec<ExecutorId>,
        why: &LeaveReason,
        latest: &Snapshot,
        decision: &mut Decision,
    ) {
        let registered =
            |id: &ExecutorId| (latest.entry(*id)).is_some_and(|entry| entry.session.registered);
        let (drained, deleted): (Vec<_>, Vec<_>) = ids.into_iter().partition(registered);
        let within = self.settings.victims.decommission_timeout;
        for (ids, how) in [
            (drained, LeaveMethod::Drain { within }),
            (deleted, LeaveMethod::Delete),
        ] {
            if !ids.is_empty() {
                decision.actions.push(Action::Retire(ids, why.clone(), how));
            }
        }
    }

    /// Backoffs are written to the record when their step changes, not as time passes.
    fn keep(&mut self, now: Tick, decision: &mut Decision) {
        let kept: BTreeMap<ProfileName, BackoffState> = (self.crash_loops.iter())
            .filter_map(|(profile, looping)| {
                Some((
                    profile.clone(),
                    looping.keep(self.settings.stable_after, now)?,
                ))
            })
            .collect();
        let steps: BTreeMap<ProfileName, u32> = kept
            .iter()
            .map(|(profile, kept)| (profile.clone(), kept.step))
            .collect();
        if steps != self.kept_steps {
            self.kept_steps = steps;
            decision.actions.push(Action::KeepBackoffs(kept));
        }
        let kept = self.keep_failures();
        decision.actions.extend(kept.map(Action::KeepFailures));
    }

    /// The failures for the record, if they have changed since the last call.
    pub fn keep_failures(&mut self) -> Option<KeptFailures> {
        self.failures.keep()
    }
}

fn sum(numbers: &[u32]) -> u32 {
    numbers.iter().fold(0, |sum, n| sum.saturating_add(*n))
}

fn gang_notice(profile: ProfileName, change: gang::Change, now: Tick) -> Notice {
    match change {
        gang::Change::Missed {
            least,
            there,
            until,
        } => Notice::GangMissed {
            profile,
            least,
            there,
            wait: now.until(until),
        },
        gang::Change::Over { after } => Notice::GangOver { profile, after },
    }
}

#[cfg(test)]
mod tests;
