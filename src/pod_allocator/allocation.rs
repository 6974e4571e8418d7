//! How many executors are asked for, under which ids, and which go: `(state, batch, now) → actions`, pure.
//!
//! What counts is read from the snapshot alone (spec A-1). The state kept here is about requests (how fast, how they
//! were answered) and about what ended how; none of it says how many executors there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use imbl::OrdMap;
use rand::RngExt;
use rand::rngs::StdRng;

use crate::model::backoff::Backoff;
use crate::model::executor::{Class, How, Why};
use crate::model::failures::{Avoid, KeptFailures};
use crate::model::made::Made;
use crate::model::reasoning::{ended_early, reason_of};
use crate::model::snapshot::{Counts, Target};
use crate::model::{
    Batch, Entry, ExecutorId, LossClass, LossReason, Now, ProfileName, Snapshot, State, Tick,
};

use super::caps::{Caps, share};
use super::claims::{self, Claims};
use super::crash_loop::{Change, CrashLoop, Kept};
use super::decision::{Action, Answer, Decision, Saying};
use super::demand::{Demand, View};
use super::failures::{self, Failures, Spent};
use super::gang::{self, Gangs};
use super::hold::{Hold, Kind};
use super::ids::Ids;
use super::pace::{Health, Limits, Pace, Turn};
use super::slots::split_evenly;
use super::victims;
use super::waiting::{self, Waiting};

/// How the allocator decides.
#[derive(Debug, Clone)]
pub struct Settings {
    /// At most this many requests a round (spec A-3).
    pub batch_size: u32,
    /// How fast requests leave.
    pub limits: Limits,
    /// An executor that ran this long has stayed (spec A-30).
    pub stable_after: Duration,
    /// Between probes of a profile that crash-loops (spec A-30).
    pub crash_backoff: Backoff,
    /// Between repeats of a request whose outcome is unknown (spec A-13).
    pub repeat_backoff: Backoff,
    /// After this long an unknown request is looked up (spec A-14).
    pub creation_timeout: Duration,
    /// How long the server may take to commit a request (spec A-11).
    pub server_timeout: Duration,
    /// How victims are chosen.
    pub victims: victims::Settings,
    /// How many failures are too many.
    pub failures: failures::Settings,
    /// How long executors may wait to run.
    pub waiting: waiting::Settings,
    /// How many executors there may be that do not run yet, and over the application's life.
    pub caps: Caps,
    /// What is done with claims on volumes.
    pub claims: claims::Settings,
    /// How executors are waited for that are of use only together, where they are (spec B-20).
    pub gang: Option<gang::Settings>,
}

/// What earlier incarnations knew.
#[derive(Debug, Clone, Default)]
pub struct Inherited {
    /// Ids are reserved up to this one.
    pub reserved: Option<ExecutorId>,
    /// The backoffs of profiles that crash.
    pub backoffs: BTreeMap<ProfileName, Kept>,
    /// The failures.
    pub failures: KeptFailures,
    /// How many executors were made.
    pub made: Made,
}

/// The allocator's state.
#[derive(Debug)]
pub struct Allocation {
    settings: Settings,
    rng: StdRng,
    /// Whether the first snapshot after adoption has been looked at, all of it.
    begun: bool,
    pace: Pace,
    ids: Ids,
    crash_loops: BTreeMap<ProfileName, CrashLoop>,
    holds: BTreeMap<ProfileName, Hold>,
    gangs: Gangs,
    claims: Claims,
    /// Requests whose outcome is unknown and that may be sent again.
    doubts: BTreeSet<ExecutorId>,
    had_an_executor: bool,
    failures: Failures,
    waiting: Waiting,
    made: Made,
    said_enough: bool,
    /// The nodes that new executors avoid.
    avoid: Avoid,
    /// The targets of the last round.
    targets: OrdMap<ProfileName, Target>,
    kept_steps: BTreeMap<ProfileName, u32>,
    /// Who took the first slot of the last round that sent anything.
    served_first: Option<ProfileName>,
}

impl Allocation {
    /// A start, which goes on where earlier incarnations were; at least so many of each profile are of use.
    pub fn new(
        settings: Settings,
        rng: StdRng,
        inherited: &Inherited,
        least: &BTreeMap<ProfileName, u32>,
        now: Now,
    ) -> Self {
        let failures = Failures::resume(settings.failures.clone(), &inherited.failures, now);
        let (min_age, server_timeout) = (settings.creation_timeout, settings.server_timeout);
        let claims = Claims::new(settings.claims.clone(), min_age, server_timeout, now);
        let (kept, now) = (&inherited.backoffs, now.tick);
        let resume = |(profile, kept): (&ProfileName, &Kept)| {
            let resumed = CrashLoop::resume(*kept, &settings.crash_backoff, now);
            (profile.clone(), resumed)
        };
        Self {
            rng,
            begun: false,
            pace: Pace::new(settings.limits, now),
            ids: Ids::reserved(inherited.reserved),
            crash_loops: kept.iter().map(resume).collect(),
            holds: BTreeMap::new(),
            gangs: Gangs::new(settings.gang, least),
            claims,
            doubts: BTreeSet::new(),
            had_an_executor: false,
            failures,
            waiting: Waiting::new(settings.waiting),
            made: inherited.made.clone(),
            said_enough: false,
            avoid: Avoid::default(),
            targets: OrdMap::new(),
            kept_steps: kept
                .iter()
                .map(|(profile, kept)| (profile.clone(), kept.step))
                .collect(),
            served_first: None,
            settings,
        }
    }

    /// The record has ids reserved up to this one; `None` where they could not be, and are asked for again.
    pub fn reserved(&mut self, up_to: Option<ExecutorId>) {
        self.ids.answered(up_to);
    }

    /// Of this profile so many may be live and not running yet (spec A-4).
    pub fn limit_pending(&mut self, profile: ProfileName, most: Option<u32>) {
        let limits = &mut self.settings.caps.pending_of;
        match most {
            Some(most) => drop(limits.insert(profile, most)),
            None => drop(limits.remove(&profile)),
        }
    }

    /// There is a new profile, and at least so many of it are of use.
    pub fn know(&mut self, profile: ProfileName, least: u32) {
        self.gangs.know(profile, least);
    }

    /// What is known of claims on volumes.
    pub fn claims(&mut self) -> &mut Claims {
        &mut self.claims
    }

    /// How many requests are in flight.
    pub fn in_flight(&self) -> u32 {
        self.pace.in_flight()
    }

    /// One round.
    pub fn decide(&mut self, batch: &Batch, now: Now) -> Decision {
        let latest = batch.latest();
        let (wall, now) = (now, now.tick);
        let mut decision = Decision::default();
        if !latest.adopted {
            return decision;
        }
        self.claims.begin_round(batch, wall);
        self.targets = latest.targets.clone();
        let wanted: Vec<u32> = latest.targets.values().map(|t| t.executors).collect();
        self.failures.wanted(sum(&wanted));
        if std::mem::replace(&mut self.begun, true) {
            for id in batch.changed_executors() {
                self.observe(id, latest, now, &mut decision);
            }
        } else {
            // Whatever changed before adoption was not looked at, and the batch need not name it any more.
            self.ids.begin(latest.first_free, now, &mut decision);
            for id in latest.entries.keys() {
                self.observe(id, latest, now, &mut decision);
            }
        }
        for (profile, looping) in &mut self.crash_loops {
            if let Some(change) = looping.tick(self.settings.stable_after, now) {
                decision.say(backoff_saying(profile, change, now));
            }
        }
        self.mind_failures(now, &mut decision);
        for (id, why) in self.waiting.overdue(|id| latest.entry(id), now) {
            let going = Action::Retire(vec![id], why, How::Delete);
            decision.actions.push(going);
        }
        decision.wake_at(self.waiting.next_at(), now);
        for (id, why) in self.claims.making.refused(latest) {
            let going = Action::Retire(vec![id], why, How::Delete);
            decision.actions.push(going);
        }
        let backoff = &self.settings.crash_backoff;
        for (profile, change) in self.gangs.tick(latest, backoff, now) {
            decision.say(gang_saying(profile, change, now));
        }
        decision.wake_at(self.gangs.due(), now);
        self.go_down(latest, now, &mut decision);
        if latest.record.is_some() {
            let due = self.claims.making.due(now);
            decision
                .actions
                .extend(due.into_iter().map(Action::EnsureClaim));
            decision.wake_at(self.claims.making.next_at(), now);
            self.go_up(latest, now, &mut decision);
        }
        self.keep(now, &mut decision);
        decision
    }

    /// An executor's end was told, with this reason.
    pub fn ended(&mut self, entry: &Entry, reason: &LossReason, now: Now) -> Vec<Saying> {
        // Whether this end came within a backoff is known when it is judged, which the next round would do.
        let change = self.judge(entry, reason.class, now.tick);
        let looping = self.crash_loops.get(&entry.profile);
        let early = ended_early(entry, reason.class, now.tick, self.settings.stable_after);
        let period = looping.and_then(|looping| looping.period_of(entry.id));
        let spent = (self.failures).ended(entry, reason, period.filter(|_| early), now);
        let change = change.map(|change| backoff_saying(&entry.profile, change, now.tick));
        change.into_iter().chain(spent.map(over)).collect()
    }

    /// One that does not count any more is replaced at once, so it has to be judged at once: a pod that is deleted
    /// before it ever ran may stay Terminating for as long as its grace, or for ever.
    fn judge(&mut self, entry: &Entry, class: LossClass, now: Tick) -> Option<Change> {
        let early = ended_early(entry, class, now, self.settings.stable_after);
        let target = self.targets.get(&entry.profile);
        let target = target.map_or(0, |target| target.executors);
        let looping = self.crash_loops.entry(entry.profile.clone()).or_default();
        looping.ended(entry.id, early, target, &self.settings.crash_backoff, now)
    }

    fn mind_failures(&mut self, now: Tick, decision: &mut Decision) {
        if let Some(spent) = self.failures.spent(now) {
            decision.say(over(spent));
        }
        let avoid = self.failures.avoid(now);
        if avoid != self.avoid {
            decision.actions.push(Action::Avoid(avoid.clone()));
            self.avoid = avoid;
        }
    }

    /// A request that left at `sent` was answered, or failed; its news is already on the way to the store.
    pub fn answered(
        &mut self,
        profile: &ProfileName,
        sent: Tick,
        answer: &Answer,
        now: Now,
    ) -> Vec<Saying> {
        let mut said = Vec::new();
        let health = match answer {
            Answer::Created | Answer::NameTaken => Health::Works,
            Answer::Refused(..) => Health::Refused,
            Answer::Trouble(Some(wait), _) => Health::Wait(Some(*wait)),
            Answer::Trouble(None, _) => Health::Trouble,
        };
        let turn = self.pace.answered(sent, health, now, self.rng.random());
        match (turn, answer) {
            (Some(Turn::Degraded), Answer::Trouble(_, why)) => {
                said.push(Saying::Degraded {
                    why: Arc::clone(why),
                });
            }
            (Some(Turn::Recovered(after)), _) => said.push(Saying::Recovered { after }),
            _ => {}
        }
        let (wall, now) = (now, now.tick);
        match answer {
            Answer::Created => {
                self.had_an_executor = true;
                let over = |hold: &Hold| hold.is_answer_to_the_try(sent);
                if self.holds.get(profile).is_some_and(over)
                    && let Some(hold) = self.holds.remove(profile)
                {
                    said.push(Saying::HoldEnded {
                        profile: profile.clone(),
                        after: now.since(hold.since),
                    });
                }
            }
            Answer::Refused(kind, why) => {
                let (kind, why) = (*kind, Arc::clone(why));
                if kind.is_fatal_at_start() && !self.had_an_executor {
                    if let Some(hold) = self.holds.get_mut(profile) {
                        hold.try_over(sent);
                    }
                    said.push(Saying::Fatal { kind, why });
                    return said;
                }
                let (another, counts) = match self.holds.get_mut(profile) {
                    Some(hold) => {
                        let is_new = hold.is_answer_to_the_try(sent);
                        (hold.again(kind, Arc::clone(&why), sent, now), is_new)
                    }
                    None => {
                        let hold = Hold::begin(kind, Arc::clone(&why), now);
                        self.holds.insert(profile.clone(), hold);
                        (true, true)
                    }
                };
                if kind == Kind::Blocked && counts {
                    let reason = LossReason::of_a_refusal(&why);
                    let spent = self.failures.refused(profile, &reason, wall);
                    said.extend(spent.map(over));
                }
                if another && let Some(hold) = self.holds.get(profile) {
                    said.push(Saying::HoldBegan {
                        profile: profile.clone(),
                        kind,
                        why,
                        wait: now.until(hold.until),
                    });
                }
            }
            Answer::NameTaken | Answer::Trouble(..) => {
                if let Some(hold) = self.holds.get_mut(profile) {
                    hold.try_over(sent);
                }
            }
        }
        said
    }

    /// What one executor's change means for what may be asked for.
    fn observe(&mut self, id: ExecutorId, latest: &Snapshot, now: Tick, decision: &mut Decision) {
        let known = latest.entry(id).map(AsRef::as_ref);
        self.claims.see(id, known);
        let Some(entry) = latest.entry(id) else {
            self.doubts.remove(&id);
            self.failures.left(id, now);
            self.waiting.left(id);
            self.made.see(id, None);
            self.gangs.left(id);
            self.crash_loops
                .values_mut()
                .for_each(|looping| looping.left(id));
            return;
        };
        let repeatable = match &entry.state {
            State::Unknown(doubt) => !doubt.in_flight && !doubt.look_up && entry.leaving.is_none(),
            _ => false,
        };
        if repeatable {
            self.doubts.insert(id);
        } else {
            self.doubts.remove(&id);
        }
        self.had_an_executor |= entry.uid().is_some();
        self.gangs.seen(entry);
        if entry.has_ended()
            && entry.uid().is_some()
            && (entry.is_gone() || !entry.told)
            && let Some(hold) = self.holds.get_mut(&entry.profile)
        {
            hold.executor_ended(now);
        }
        self.failures.see(entry, now);
        self.waiting.see(entry, now);
        self.made.see(id, Some(entry));
        if !entry.class().is_live() {
            if let Some(change) = self.judge(entry, reason_of(entry).class, now) {
                decision.say(backoff_saying(&entry.profile, change, now));
            }
        } else if let Some(since) = entry.bound().and_then(|bound| bound.running_since)
            && entry.class() == Class::Running
        {
            let looping = self.crash_loops.entry(entry.profile.clone()).or_default();
            looping.running(id, since, self.settings.stable_after);
        }
    }

    /// Also profiles that nobody wants any more: what is left of them goes (spec A-45).
    fn go_down(&mut self, latest: &Snapshot, now: Tick, decision: &mut Decision) {
        for profile in latest.counts.keys() {
            let mut victims = victims::choose(latest, profile, &self.settings.victims, now);
            let released = self.gangs.released(latest, profile);
            if let Some(settings) = self.settings.gang
                && !released.is_empty()
            {
                victims.ids.retain(|id| !released.contains(id));
                let why = Why::GangMissed(settings.timeout);
                let release = Action::Retire(released, why, How::Delete);
                decision.actions.push(release);
            }
            let registered =
                |id: &ExecutorId| (latest.entry(*id)).is_some_and(|entry| entry.session.registered);
            let (drained, deleted): (Vec<_>, Vec<_>) =
                victims.ids.into_iter().partition(registered);
            let within = self.settings.victims.decommission_timeout;
            for (ids, how) in [(drained, How::Drain { within }), (deleted, How::Delete)] {
                if !ids.is_empty() {
                    let why = Why::ScaledDown;
                    decision.actions.push(Action::Retire(ids, why, how));
                }
            }
            decision.wake_at(victims.more_at, now);
        }
    }

    fn go_up(&mut self, latest: &Snapshot, now: Tick, decision: &mut Decision) {
        let view = View {
            latest,
            settings: &self.settings,
            crash_loops: &self.crash_loops,
            holds: &self.holds,
            gangs: &self.gangs,
            doubts: &self.doubts,
            now,
        };
        let mut demands = view.demands(decision);
        if demands.is_empty() {
            self.pace.rest();
            return;
        }
        self.keep_within_caps(latest, &mut demands, decision);
        self.claims.limit(latest, &mut demands, decision);
        let new: Vec<u32> = demands.iter().map(|demand| demand.new).collect();
        let ids = self.ids.left(sum(&new), now, decision);
        for (demand, new) in demands.iter_mut().zip(split_evenly(ids, &new)) {
            demand.new = new;
        }
        // Who comes first changes from round to round: where there is one slot at a time, a profile whose requests
        // always fail must not keep it from the others (spec A-45).
        let next = |demand: &Demand| Some(&demand.profile) > self.served_first.as_ref();
        let first = demands.iter().position(next).unwrap_or(0);
        demands.rotate_left(first);

        let room = self.pace.room(now);
        decision.wake_at(self.pace.next_room(now), now);
        let slots = room.min(self.settings.batch_size);
        let wants: Vec<u32> = demands.iter().map(Demand::total).collect();
        decision.cut_short = slots < room && slots < sum(&wants);
        if slots > 0
            && let Some(demand) = demands.first()
        {
            self.served_first = Some(demand.profile.clone());
        }
        for (mut demand, given) in demands.into_iter().zip(split_evenly(slots, &wants)) {
            demand.cut_to(given);
            self.send(demand, now, decision);
        }
    }

    /// No more that do not run yet, and no more over the application's life, than are allowed (spec ). What was
    /// asked for already is not asked for anew by a request that is repeated.
    fn keep_within_caps(
        &mut self,
        latest: &Snapshot,
        demands: &mut [Demand],
        decision: &mut Decision,
    ) {
        self.settings.caps.limit_pending(latest, demands);
        let Some(most) = self.settings.caps.over_life else {
            return;
        };
        let unborn = |counts: &Counts| u64::from(counts.sent) + u64::from(counts.unknown);
        let unborn: u64 = latest.counts.values().map(unborn).sum();
        let made = self.made.count();
        let left = u64::from(most).saturating_sub(made + unborn);
        share(demands, u32::try_from(left).unwrap_or(u32::MAX));
        if made >= u64::from(most) && !std::mem::replace(&mut self.said_enough, true) {
            decision.say(Saying::Enough { made });
        }
    }

    /// Requests of unknown outcome come first: they are the older ones.
    fn send(&mut self, demand: Demand, now: Tick, decision: &mut Decision) {
        let Demand {
            profile,
            repeats,
            new,
        } = demand;
        if let Some(hold) = self.holds.get_mut(&profile)
            && (!repeats.is_empty() || new > 0)
        {
            hold.try_one(now);
        }
        for id in repeats {
            self.pace.sent();
            self.doubts.remove(&id);
            let profile = profile.clone();
            decision.actions.push(Action::Repeat { id, profile });
        }
        for _ in 0..new {
            let Some(id) = self.ids.take() else { return };
            self.pace.sent();
            let looping = self.crash_loops.entry(profile.clone()).or_default();
            looping.requested(id);
            self.claims.give(id, &profile);
            let profile = profile.clone();
            decision.actions.push(Action::Request { id, profile });
        }
    }

    /// Backoffs are written to the record when their step changes, not as time passes.
    fn keep(&mut self, now: Tick, decision: &mut Decision) {
        let kept: BTreeMap<ProfileName, Kept> = (self.crash_loops.iter())
            .filter_map(|(profile, looping)| Some((profile.clone(), looping.keep(now)?)))
            .collect();
        let steps: BTreeMap<ProfileName, u32> = kept
            .iter()
            .map(|(profile, kept)| (profile.clone(), kept.step))
            .collect();
        if steps != self.kept_steps {
            self.kept_steps = steps;
            decision.actions.push(Action::Keep(kept));
        }
        let kept = self.failures.keep();
        decision.actions.extend(kept.map(Action::KeepFailures));
    }
}

fn sum(numbers: &[u32]) -> u32 {
    numbers.iter().fold(0, |sum, n| sum.saturating_add(*n))
}

fn over(Spent(why): Spent) -> Saying {
    Saying::Spent { why }
}

fn backoff_saying(profile: &ProfileName, change: Change, now: Tick) -> Saying {
    let profile = profile.clone();
    match change {
        Change::Began { until } => Saying::BackoffBegan {
            profile,
            wait: now.until(until),
        },
        Change::Ended { after } => Saying::BackoffEnded { profile, after },
    }
}

fn gang_saying(profile: ProfileName, change: gang::Change, now: Tick) -> Saying {
    match change {
        gang::Change::Missed {
            least,
            there,
            until,
        } => Saying::GangMissed {
            profile,
            least,
            there,
            wait: now.until(until),
        },
        gang::Change::Over { after } => Saying::GangOver { profile, after },
    }
}

#[cfg(test)]
#[path = "allocation_tests/mod.rs"]
mod tests;
