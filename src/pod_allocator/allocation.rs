//! How many executors are asked for, under which ids, and which go: `(state, batch, now) → actions`, pure.
//!
//! What counts is read from the snapshot alone (spec A-1). The state kept here is about requests (how fast, how they
//! were answered) and about what ended how; none of it says how many executors there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::model::backoff::Backoff;
use crate::model::executor::Class;
use crate::model::reasoning::{ended_early, reason_of};
use crate::model::{Batch, Entry, ExecutorId, Now, ProfileName, Snapshot, State, Tick};

use super::crash_loop::{Change, CrashLoop, Kept, Permission};
use super::hold::{Hold, Kind};
use super::pace::{Health, Limits, Pace, Turn};
use super::slots::split_evenly;
use super::victims;

/// More ids are reserved when fewer than this many are left, so that nobody waits for the record (spec O-30).
pub const RESERVE_BELOW: u64 = 500;

/// So many ids are reserved at a time (spec O-30).
pub const RESERVED_BLOCK: u64 = 1_000;

/// How the allocator decides.
#[derive(Debug, Clone, Copy)]
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
}

/// What a round decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Ask for this executor, for the first time.
    Request {
        /// Under this id.
        id: ExecutorId,
        /// Of this profile.
        profile: ProfileName,
    },
    /// Ask for it again, under the same name (spec A-13).
    Repeat {
        /// Which one.
        id: ExecutorId,
        /// Of this profile.
        profile: ProfileName,
    },
    /// These go (spec L-10).
    Retire(Vec<ExecutorId>),
    /// Reserve ids up to this one (spec O-30).
    Reserve(ExecutorId),
    /// Keep these backoffs over a restart (spec O-30).
    Keep(BTreeMap<ProfileName, Kept>),
    /// Tell people.
    Say(Saying),
}

/// Something that people want to read, once when it begins and once when it ends (spec A-31).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Saying {
    /// A profile's executors end early: it backs off.
    BackoffBegan {
        /// Which profile.
        profile: ProfileName,
        /// Until the first probe.
        wait: Duration,
    },
    /// Its probe stayed.
    BackoffEnded {
        /// Which profile.
        profile: ProfileName,
        /// How long it took.
        after: Duration,
    },
    /// A profile's requests are refused.
    HoldBegan {
        /// Which profile.
        profile: ProfileName,
        /// For what sort of reason.
        kind: Kind,
        /// In the server's words.
        why: Arc<str>,
        /// How long nothing is asked for.
        wait: Duration,
    },
    /// They are accepted again.
    HoldEnded {
        /// Which profile.
        profile: ProfileName,
        /// After this long.
        after: Duration,
    },
    /// The API server is in trouble (spec A-26).
    Degraded {
        /// What it said.
        why: Arc<str>,
    },
    /// It works again.
    Recovered {
        /// After this long.
        after: Duration,
    },
    /// The driver cannot go on: it never had an executor, and never will like this (spec A-24).
    Fatal {
        /// For what sort of reason.
        kind: Kind,
        /// In the server's words.
        why: Arc<str>,
    },
    /// No ids are left.
    OutOfIds,
}

/// How a request was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// 201.
    Created,
    /// 409: the name is taken; the server works.
    NameTaken,
    /// It was refused, for a reason of the profile's.
    Refused(Kind, Arc<str>),
    /// It was refused or failed, for a reason of the server's; how long to wait, where it said so.
    Trouble(Option<Duration>, Arc<str>),
}

/// What a round decided, and when to decide again without any news.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// What to do, in this order.
    pub actions: Vec<Action>,
    /// A limit cut the round short: the next one should follow at once (spec S-21).
    pub cut_short: bool,
    /// A deadline.
    pub wake: Option<Tick>,
}

/// The allocator's state.
#[derive(Debug)]
pub struct Allocation {
    settings: Settings,
    rng: StdRng,
    pace: Pace,
    next_id: Option<ExecutorId>,
    reserved: Option<ExecutorId>,
    reserving: bool,
    crash_loops: BTreeMap<ProfileName, CrashLoop>,
    holds: BTreeMap<ProfileName, Hold>,
    /// Requests whose outcome is unknown and that may be sent again.
    doubts: BTreeSet<ExecutorId>,
    had_an_executor: bool,
    kept_steps: BTreeMap<ProfileName, u32>,
    said_out_of_ids: bool,
}

impl Allocation {
    /// A start: ids reserved up to here, backoffs as an earlier incarnation left them.
    pub fn new(
        settings: Settings,
        rng: StdRng,
        reserved: Option<ExecutorId>,
        kept: &BTreeMap<ProfileName, Kept>,
        now: Tick,
    ) -> Self {
        let resume = |(profile, kept): (&ProfileName, &Kept)| {
            let resumed = CrashLoop::resume(*kept, &settings.crash_backoff, now);
            (profile.clone(), resumed)
        };
        Self {
            rng,
            pace: Pace::new(settings.limits, now),
            next_id: None,
            reserved,
            reserving: false,
            crash_loops: kept.iter().map(resume).collect(),
            holds: BTreeMap::new(),
            doubts: BTreeSet::new(),
            had_an_executor: false,
            kept_steps: kept
                .iter()
                .map(|(profile, kept)| (profile.clone(), kept.step))
                .collect(),
            said_out_of_ids: false,
            settings,
        }
    }

    /// The record has ids reserved up to this one.
    pub fn reserved(&mut self, up_to: ExecutorId) {
        self.reserved = self.reserved.max(Some(up_to));
        self.reserving = false;
    }

    /// How many requests are in flight.
    pub fn in_flight(&self) -> u32 {
        self.pace.in_flight()
    }

    /// One round.
    pub fn decide(&mut self, batch: &Batch, now: Now) -> Decision {
        let latest = batch.latest();
        let mut decision = Decision::default();
        if !latest.adopted {
            return decision;
        }
        if self.next_id.is_none() {
            self.next_id = latest.first_free;
        }
        for id in batch.changed_executors() {
            self.observe(id, latest, now.tick, &mut decision);
        }
        for (profile, looping) in &mut self.crash_loops {
            if let Some(change) = looping.tick(self.settings.stable_after, now.tick) {
                decision.say(backoff_saying(profile, change, now.tick));
            }
        }
        self.go_down(latest, now.tick, &mut decision);
        if latest.record.is_some() {
            self.repeat(latest, now.tick, &mut decision);
            self.go_up(latest, now.tick, &mut decision);
        }
        self.keep(now.tick, &mut decision);
        decision
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
        match answer {
            Answer::Created => {
                self.had_an_executor = true;
                if let Some(hold) = self.holds.remove(profile) {
                    let after = now.tick.since(hold.since);
                    said.push(Saying::HoldEnded {
                        profile: profile.clone(),
                        after,
                    });
                }
            }
            Answer::Refused(kind, why) => {
                let (kind, why) = (*kind, Arc::clone(why));
                if kind.is_fatal_at_start() && !self.had_an_executor {
                    said.push(Saying::Fatal { kind, why });
                } else if let Some(hold) = self.holds.get_mut(profile) {
                    hold.again(kind, why, sent, now.tick);
                } else {
                    let hold = Hold::begin(kind, Arc::clone(&why), now.tick);
                    let (profile, wait) = (profile.clone(), now.tick.until(hold.until));
                    self.holds.insert(profile.clone(), hold);
                    said.push(Saying::HoldBegan {
                        profile,
                        kind,
                        why,
                        wait,
                    });
                }
            }
            Answer::NameTaken | Answer::Trouble(..) => {
                if let Some(hold) = self.holds.get_mut(profile) {
                    hold.try_over();
                }
            }
        }
        said
    }

    /// What one executor's change means for what may be asked for.
    fn observe(&mut self, id: ExecutorId, latest: &Snapshot, now: Tick, decision: &mut Decision) {
        let Some(entry) = latest.entry(id) else {
            self.doubts.remove(&id);
            self.crash_loops
                .values_mut()
                .for_each(|looping| looping.left(id));
            return;
        };
        let repeatable = |entry: &Entry| match &entry.state {
            State::Unknown(doubt) => !doubt.in_flight && !doubt.look_up && entry.leaving.is_none(),
            _ => false,
        };
        if repeatable(entry) {
            self.doubts.insert(id);
        } else {
            self.doubts.remove(&id);
        }
        self.had_an_executor |= entry.uid().is_some();
        let looping = self.crash_loops.entry(entry.profile.clone()).or_default();
        if entry.has_ended() {
            if entry.uid().is_some()
                && let Some(hold) = self.holds.get_mut(&entry.profile)
            {
                hold.executor_ended(now);
            }
            let class = reason_of(entry).class;
            let early = ended_early(entry, class, now, self.settings.stable_after);
            let target = latest.target(&entry.profile);
            let change = looping.ended(id, early, target, &self.settings.crash_backoff, now);
            if let Some(change) = change {
                decision.say(backoff_saying(&entry.profile, change, now));
            }
        } else if let Some(since) = entry.bound().and_then(|bound| bound.running_since)
            && entry.class() == Class::Running
        {
            looping.running(id, since);
        }
    }

    fn go_down(&mut self, latest: &Snapshot, now: Tick, decision: &mut Decision) {
        for profile in latest.targets.keys() {
            let victims = victims::choose(latest, profile, &self.settings.victims, now);
            if !victims.ids.is_empty() {
                decision.actions.push(Action::Retire(victims.ids));
            }
            decision.wake_at(victims.more_at, now);
        }
    }

    /// Requests whose outcome is unknown are sent again, under the same name (spec A-13).
    fn repeat(&mut self, latest: &Snapshot, now: Tick, decision: &mut Decision) {
        if self.doubts.is_empty() {
            return;
        }
        let mut room = self.pace.room(now);
        for id in self.doubts.clone() {
            let Some(entry) = latest.entry(id) else {
                continue;
            };
            let State::Unknown(doubt) = &entry.state else {
                continue;
            };
            // Not so late that it would put off the look-up that settles it (spec A-14).
            let last_chance = now + self.settings.server_timeout;
            if last_chance > doubt.since + self.settings.creation_timeout {
                continue;
            }
            let failures = doubt.repeats.saturating_add(1);
            let due = doubt.request.sent + self.settings.repeat_backoff.delay(failures);
            if due > now {
                decision.wake_at(Some(due), now);
                continue;
            }
            if room == 0 || !self.may_repeat(entry, latest, now) {
                continue;
            }
            room -= 1;
            self.pace.sent();
            self.doubts.remove(&id);
            let profile = entry.profile.clone();
            decision.actions.push(Action::Repeat { id, profile });
        }
    }

    /// Nothing is asked for that is not wanted any more, or that its profile must wait for (spec I-3, A-30).
    fn may_repeat(&self, entry: &Entry, latest: &Snapshot, now: Tick) -> bool {
        let wanted = latest.counts(&entry.profile).live() <= latest.target(&entry.profile);
        let looping = self
            .crash_loops
            .get(&entry.profile)
            .map(CrashLoop::permission);
        let backing_off = matches!(looping, Some(Permission::NoneUntil(_)));
        let held = self
            .holds
            .get(&entry.profile)
            .is_some_and(|hold| !hold.allows_a_try(now));
        wanted && !backing_off && !held
    }

    fn go_up(&mut self, latest: &Snapshot, now: Tick, decision: &mut Decision) {
        let profiles: Vec<&ProfileName> = latest.targets.keys().collect();
        let wants: Vec<u32> = profiles
            .iter()
            .map(|profile| self.wanted(latest, profile, now, decision))
            .collect();
        let wanted: u32 = wants.iter().fold(0, |sum, want| sum.saturating_add(*want));
        if wanted == 0 {
            self.pace.rest();
            return;
        }
        let room = self.pace.room(now);
        decision.wake_at(self.pace.next_room(now), now);
        let ids = self.ids_left(wanted, decision);
        let slots = room.min(self.settings.batch_size).min(ids);
        decision.cut_short = slots == self.settings.batch_size && wanted > slots && room > slots;
        for (profile, given) in profiles.into_iter().zip(split_evenly(slots, &wants)) {
            for _ in 0..given {
                let Some(id) = self.next_id else { return };
                self.next_id = id.next();
                self.pace.sent();
                if let Some(hold) = self.holds.get_mut(profile) {
                    hold.try_one();
                }
                self.crash_loops
                    .entry(profile.clone())
                    .or_default()
                    .requested(id);
                decision.actions.push(Action::Request {
                    id,
                    profile: profile.clone(),
                });
            }
        }
    }

    /// How many of a profile may be asked for now (spec ).
    fn wanted(
        &self,
        latest: &Snapshot,
        profile: &ProfileName,
        now: Tick,
        decision: &mut Decision,
    ) -> u32 {
        let missing = latest
            .target(profile)
            .saturating_sub(latest.counts(profile).live());
        if missing == 0 {
            return 0;
        }
        if let Some(hold) = self.holds.get(profile) {
            decision.wake_at(Some(hold.until), now);
            if !hold.allows_a_try(now) {
                return 0;
            }
        }
        let most = if self.holds.contains_key(profile) {
            1
        } else {
            missing
        };
        match self.crash_loops.get(profile).map(CrashLoop::permission) {
            None | Some(Permission::Free) => most,
            Some(Permission::OneProbe) => 1,
            Some(Permission::ProbeIsOut) => 0,
            Some(Permission::NoneUntil(until)) => {
                decision.wake_at(Some(until), now);
                0
            }
        }
    }

    /// How many ids may be fixed now; more are reserved in time.
    fn ids_left(&mut self, wanted: u32, decision: &mut Decision) -> u32 {
        let Some(next) = self.next_id else {
            if !std::mem::replace(&mut self.said_out_of_ids, true) {
                decision.say(Saying::OutOfIds);
            }
            return 0;
        };
        let reserved = self.reserved.map_or(0, ExecutorId::get);
        let left = (reserved + 1).saturating_sub(next.get());
        let ahead = RESERVE_BELOW.max(u64::from(wanted));
        if left < ahead && !self.reserving {
            let up_to = (next.get() - 1).saturating_add(ahead + RESERVED_BLOCK);
            self.reserving = true;
            let up_to = ExecutorId::new(up_to).unwrap_or(ExecutorId::MAX);
            decision.actions.push(Action::Reserve(up_to));
        }
        u32::try_from(left).unwrap_or(u32::MAX)
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
    }
}

impl Decision {
    fn say(&mut self, saying: Saying) {
        self.actions.push(Action::Say(saying));
    }

    fn wake_at(&mut self, at: Option<Tick>, now: Tick) {
        let Some(at) = at.filter(|at| *at > now) else {
            return;
        };
        self.wake = Some(self.wake.map_or(at, |known| known.min(at)));
    }
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

#[cfg(test)]
#[path = "allocation_tests.rs"]
mod tests;
