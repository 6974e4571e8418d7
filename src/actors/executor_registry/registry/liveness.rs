//! Finds executors that have been silent for too long (spec B-12 to B-16, A-44, A-52).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::{Effect, LOOK, Reach, Registry};
use crate::config::Config;
use crate::model::executor::{Class, LeaveReason};
use crate::model::{Entry, ExecutorId, Snapshot, Tick};
use crate::planted::{self, Planted};

use super::Via;
use super::doubt::{DoubtChange, FEW, Look, WhyDoubt};

/// How often a driver that doubts for a mass loss reads the record (spec B-16).
const READ_IN_DOUBT_EVERY: Duration = Duration::from_secs(10);

/// A running executor that has not registered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Awaited {
    /// The time from which its timeout counts.
    since: Tick,
    /// When it was adopted, if it was; its silence may then be this driver's fault.
    adopted: Option<Tick>,
    due: Tick,
}

/// The time limits of an executor that stays silent.
#[derive(Debug, Clone, Copy)]
struct Silent {
    id: ExecutorId,
    /// The earliest of its limits.
    at: Tick,
    /// When its connection was lost, and until when Kubernetes may explain that.
    lost: Option<(Tick, Tick)>,
    /// The limit for silence alone.
    too_long: Tick,
    /// The beginning of the silence.
    since: Tick,
}

impl Registry {
    /// Handles a message of the newest session.
    pub(super) fn sign_of_life(
        &mut self,
        id: ExecutorId,
        via: Via,
        now: Tick,
        effects: &mut Vec<Effect>,
    ) {
        self.last_sign = Some(now);
        let Some(account) = self.accounts.get_mut(&id) else {
            return;
        };
        account.last_sign = now;
        // It continues without a connection, so none can be lost any more.
        if via == Via::Request && account.is_disabled() {
            account.reach = Reach::Asking;
            let profile = account.profile.clone();
            effects.push(Effect::Happened(id, profile, super::SessionStep::Enabled));
        }
    }

    /// Schedules the check of an account for the time at which it may have to be given up.
    pub(super) fn watch_over(&mut self, id: ExecutorId, now: Tick) {
        let Some(account) = self.accounts.get(&id) else {
            return;
        };
        if self.restarting.contains(&id) {
            return;
        }
        let at = self.over_at(id).map_or(now, |silent| silent.at);
        if account.is_going || account.due.is_some_and(|due| due <= at) {
            return;
        }
        if let Some(due) = account.due {
            self.due.remove(&(due, id));
        }
        self.due.insert((at, id));
        if let Some(account) = self.accounts.get_mut(&id) {
            account.due = Some(at);
        }
    }

    /// Requires a running executor to register in time (spec A-52).
    pub(super) fn wait_for(&mut self, entry: &Entry, now: Tick) {
        let running_since = (entry.bound().and_then(|bound| bound.running_since)).unwrap_or(now);
        // One that was adopted as Pending is like any other when it runs at last.
        let ran_before = entry.adopted && running_since <= entry.since;
        let since = match ran_before {
            true => entry.since + self.config.adoption.grace,
            false => running_since,
        };
        self.wait_from(entry.id, since, ran_before.then_some(entry.since));
    }

    pub(super) fn wait_from(&mut self, id: ExecutorId, since: Tick, adopted: Option<Tick>) {
        let Some(timeout) = self.registration_timeout() else {
            return;
        };
        if self.awaited.contains_key(&id) {
            return;
        }
        let due = since + timeout;
        self.awaited.insert(
            id,
            Awaited {
                since,
                adopted,
                due,
            },
        );
        self.due.insert((due, id));
    }

    /// Its container has ended and waits to be started again: Kubernetes says why it is silent, however long that takes
    /// (spec B-14).
    pub(super) fn begins_to_restart(&mut self, id: ExecutorId) {
        self.restarting.insert(id);
        self.stop_waiting_for(id);
        if let Some(due) = self.accounts.get_mut(&id).and_then(|a| a.due.take()) {
            self.due.remove(&(due, id));
        }
    }

    /// If its container was started again, all its times begin anew.
    pub(super) fn has_restarted(&mut self, entry: &Entry, now: Tick) {
        let id = entry.id;
        if !self.restarting.remove(&id) || entry.leaving.is_some() {
            return;
        }
        let Some(account) = self.accounts.get_mut(&id) else {
            return self.wait_from(id, now, None);
        };
        account.last_sign = now;
        if let Reach::Lost(since) = &mut account.reach {
            *since = now;
        }
        self.watch_over(id, now);
    }

    pub(super) fn stop_waiting_for(&mut self, id: ExecutorId) {
        if let Some(awaited) = self.awaited.remove(&id) {
            self.due.remove(&(awaited.due, id));
        }
    }

    /// `None`: a running executor need not register.
    fn registration_timeout(&self) -> Option<Duration> {
        let timeout = self.config.allocation.registration_timeout;
        self.config.must_register().then_some(timeout)
    }

    /// Takes over new time limits, also for executors that are silent now (spec C-6).
    pub fn reconfigure(&mut self, config: Arc<Config>, now: Tick) {
        let sessions = &config.backend.sessions;
        (self.doubt).reconfigure(sessions.heartbeat_timeout, sessions.mass_loss);
        self.config = config;
        let registration = self.config.allocation.registration_timeout;
        for id in self.accounts.keys().copied().collect::<Vec<_>>() {
            self.watch_over(id, now);
        }
        // A check that comes too early is put off.
        for (id, awaited) in &mut self.awaited {
            self.due.remove(&(awaited.due, *id));
            awaited.due = awaited.due.min(awaited.since + registration);
            self.due.insert((awaited.due, *id));
        }
    }

    /// The limits of an executor if it stays silent; `None` if it is not watched.
    fn over_at(&self, id: ExecutorId) -> Option<Silent> {
        let grace_from = self.doubt.grace_from;
        if let Some(account) = self.accounts.get(&id) {
            let too_long =
                account.last_sign.max(grace_from) + self.config.backend.sessions.heartbeat_timeout;
            let lost = match account.reach {
                Reach::Lost(since) => {
                    // By then it is known whether the others are silent, too.
                    let two_beats = 2 * self.config.backend.sessions.heartbeat_interval + LOOK;
                    let timeout = self
                        .config
                        .backend
                        .sessions
                        .loss_reason_timeout
                        .max(two_beats);
                    let until = since.max(grace_from) + timeout;
                    Some((since, until))
                }
                Reach::Connected(_) | Reach::Asking => None,
            };
            let at = lost.map_or(too_long, |(_, until)| until.min(too_long));
            let since = account.last_sign;
            return (!account.is_going).then_some(Silent {
                id,
                at,
                lost,
                too_long,
                since,
            });
        }
        let awaited = self.awaited.get(&id)?;
        let at = awaited.since.max(grace_from) + self.registration_timeout()?;
        let (too_long, since) = (at, awaited.since);
        Some(Silent {
            id,
            at,
            lost: None,
            too_long,
            since,
        })
    }

    /// Checks for silent executors; called every second, and when the record was read. Costs only the deadlines that
    /// come up.
    pub fn look(&mut self, snapshot: Option<&Snapshot>, now: Tick, effects: &mut Vec<Effect>) {
        let may_go = self.record_check.take_passed();
        let woken = self.doubt.wake(now);
        let silent = self.soon_over(now);
        let turned = self.doubt.look(self.count(&silent, snapshot, now), now);
        for turn in [woken, turned].into_iter().flatten() {
            effects.push(match turn {
                DoubtChange::Degraded(why) => Effect::Degraded(why),
                DoubtChange::Recovered => Effect::Recovered,
            });
        }
        // Executors that have just got more time are evaluated at the next check.
        if self.doubt.current().is_some() || turned == Some(DoubtChange::Recovered) {
            return self.read_in_doubt(now, effects);
        }
        let Some(snapshot) = snapshot else { return };
        let mut begun: Vec<Tick> = silent.iter().map(|silent| silent.since).collect();
        begun.extend(self.given_up_since);
        begun.sort_unstable();
        let mut unchecked = BTreeSet::new();
        for silent in silent.iter().filter(|silent| silent.at <= now) {
            let alone = self.fell_silent_alone(silent.since, &begun);
            let Some(why) = self.why_over(silent, alone, snapshot, now) else {
                continue;
            };
            if may_go(silent.id) {
                self.give_up(silent, why, effects);
            } else {
                unchecked.insert(silent.id);
            }
        }
        if !unchecked.is_empty() && self.record_check.begin(unchecked) {
            effects.push(Effect::ReadRecord);
        }
    }

    /// Many that fall silent at once may have moved to a successor that this driver does not know of (spec B-16).
    fn read_in_doubt(&mut self, now: Tick, effects: &mut Vec<Effect>) {
        let is_mass = matches!(self.doubt.current(), Some((WhyDoubt::MassLoss { .. }, _)));
        let is_due = (self.read_in_doubt_at).is_none_or(|at| now >= at + READ_IN_DOUBT_EVERY);
        if is_mass && is_due && self.record_check.begin(BTreeSet::new()) {
            self.read_in_doubt_at = Some(now);
            effects.push(Effect::ReadRecord);
        }
    }

    /// The record was read, and is this driver's or not; or it could not be read.
    pub fn record_read(&mut self, is_own: bool) {
        self.record_check.end(is_own);
    }

    /// Counts the executors that are silent at the same time, and all that should not be.
    fn count(&self, soon_over: &[Silent], snapshot: Option<&Snapshot>, now: Tick) -> Look {
        let settled = self.doubt.settled;
        let two_beats = 2 * self.config.backend.sessions.heartbeat_interval;
        let missed = |sign: Tick| now.since(sign) >= two_beats;
        // One that had not missed a heartbeat when the last doubt was settled has fallen silent since.
        let is_new = |sign: Tick| settled.is_none_or(|settled| settled.since(sign) < two_beats);
        // Nobody expects to hear of an executor whose pod is being deleted, however long that takes, or whose node is
        // known to be the cause.
        let is_explained = |id: &ExecutorId| {
            snapshot.is_some_and(|snapshot| {
                let is_ending = |entry: &Entry| entry.class() == Class::Terminating;
                snapshot.entry(*id).is_some_and(|entry| is_ending(entry))
                    || self.silenced_by(*id, snapshot, now).is_some()
            })
        };
        let counts = |silent: &&Silent| match self.awaited.get(&silent.id) {
            _ if is_explained(&silent.id) => false,
            // With short timeouts the limit of each executor is always near.
            None => is_new(silent.since) && (silent.lost.is_some() || missed(silent.since)),
            Some(awaited) => awaited.adopted.is_some() && settled.is_none(),
        };
        let soon: BTreeSet<ExecutorId> = (soon_over.iter().filter(counts))
            .map(|silent| silent.id)
            .collect();
        let (mut silent, mut of) = (soon.len(), 0);
        // The fleet is counted only if an executor is silent, which is rare. One that never registered is as good a
        // reason: it may have met the path that the others' heartbeats do not come over.
        if !soon_over.is_empty() {
            let accounts = (self.accounts.iter())
                .filter(|(id, account)| !account.is_going && !self.restarting.contains(id));
            let heard = accounts.map(|(id, account)| (id, account.last_sign));
            let adopted = self.awaited.iter();
            let adopted = adopted.filter_map(|(id, awaited)| Some((id, awaited.adopted?)));
            for (id, last_sign) in heard.chain(adopted).filter(|(id, _)| !is_explained(id)) {
                of += 1;
                // It has missed a heartbeat, though its own limit may come later.
                silent += usize::from(missed(last_sign) && is_new(last_sign) && !soon.contains(id));
            }
        }
        // Two interruptions of the path, with an instant between them in which some were heard, are no reason to give
        // up the others.
        let is_heard = self.last_sign.is_none_or(|sign| self.is_recent(sign, now));
        if !soon_over.is_empty() && !is_heard && of > FEW {
            silent = of;
        }
        Look {
            silent,
            of,
            last_sign: self.last_sign,
        }
    }

    /// Whether one that was heard at this time was heard within about an interval.
    fn is_recent(&self, sign: Tick, now: Tick) -> bool {
        let beat = self.config.backend.sessions.heartbeat_interval + 2 * LOOK;
        now.since(sign) <= beat
    }

    /// The node that explains an executor's silence, because it is not ready. Where nobody is heard, it may be the
    /// driver that is cut off, and with it the API server (spec B-73).
    fn silenced_by<'s>(
        &self,
        id: ExecutorId,
        snapshot: &'s Snapshot,
        now: Tick,
    ) -> Option<&'s Arc<str>> {
        let is_heard = self.last_sign.is_some_and(|sign| self.is_recent(sign, now));
        let entry = snapshot.entry(id).filter(|_| is_heard)?;
        if planted::is(Planted::ReadyNodesBlamed) && snapshot.nodes.listed {
            return entry.pod()?.node.as_ref();
        }
        snapshot.nodes.not_ready_of(entry)
    }

    /// The executors whose limit is within one heartbeat interval, earliest first.
    fn soon_over(&mut self, now: Tick) -> Vec<Silent> {
        let horizon = now + self.config.backend.sessions.heartbeat_interval + LOOK;
        let range = self.due.range(..=(horizon, ExecutorId::MAX));
        let found: Vec<_> = range
            .map(|(due, id)| (*due, *id, self.over_at(*id)))
            .collect();
        let mut silent = Vec::new();
        for (due, id, over_at) in found {
            match over_at {
                Some(soon) if soon.at <= horizon => silent.push(soon),
                later => {
                    self.due.remove(&(due, id));
                    self.put_off(id, later.map(|later| later.at));
                }
            }
        }
        silent.sort_by_key(|silent| (silent.at, silent.id));
        silent
    }

    /// Executors that fall silent within one interval of each other have more in common than a fault
    /// of one of them: the path to the driver (spec B-58).
    fn fell_silent_alone(&self, since: Tick, begun: &[Tick]) -> bool {
        let reach = self.config.backend.sessions.heartbeat_interval + LOOK;
        let from = begun.partition_point(|other| *other + reach < since);
        let to = begun.partition_point(|other| *other <= since + reach);
        to - from <= 1
    }

    fn put_off(&mut self, id: ExecutorId, to: Option<Tick>) {
        self.due.extend(to.map(|to| (to, id)));
        if let Some(account) = self.accounts.get_mut(&id) {
            account.due = to;
        } else if let (Some(awaited), Some(to)) = (self.awaited.get_mut(&id), to) {
            awaited.due = to;
        }
    }

    /// Why an executor must be given up, if one of its limits has passed.
    fn why_over(
        &self,
        silent: &Silent,
        alone: bool,
        snapshot: &Snapshot,
        now: Tick,
    ) -> Option<LeaveReason> {
        let Silent {
            id,
            lost,
            too_long,
            since,
            ..
        } = *silent;
        let class = snapshot.entry(id).map(|entry| entry.class());
        let Some(Class::Pending(_) | Class::Running | Class::Odd | Class::Absent) = class else {
            return None;
        };
        // Kubernetes may explain it until a full list requested after the loss does not (spec
        // B-15).
        let unexplained = lost.is_some_and(|(since, until)| {
            let listed = (snapshot.full_list.as_ref()).is_some_and(|list| list.asked >= since);
            until <= now && listed
        });
        let must_register = self.awaited.contains_key(&id);
        if must_register && class != Some(Class::Running) {
            return None;
        }
        let is_over = must_register || unexplained || too_long <= now;
        if is_over && let Some(node) = self.silenced_by(id, snapshot, now) {
            return Some(LeaveReason::NodeNotReady(now.since(since), node.clone()));
        }
        let suspected = since < self.doubt.grace_from || !(alone || must_register);
        if is_over && suspected {
            Some(LeaveReason::Unreachable(now.since(since)))
        } else if must_register {
            Some(LeaveReason::RegistrationTimeout(now.since(since)))
        } else if unexplained {
            Some(LeaveReason::Disconnected)
        } else {
            is_over.then(|| LeaveReason::HeartbeatTimeout(now.since(since)))
        }
    }

    fn give_up(&mut self, silent: &Silent, why: LeaveReason, effects: &mut Vec<Effect>) {
        let Silent { id, since, .. } = *silent;
        self.given_up_since = Some(since);
        self.stop_waiting_for(id);
        self.is_going(id);
        effects.push(Effect::Retire(id, why));
    }

    /// The executor is leaving and is not given up any more.
    pub(super) fn is_going(&mut self, id: ExecutorId) {
        if let Some(account) = self.accounts.get_mut(&id) {
            account.is_going = true;
            if let Some(due) = account.due.take() {
                self.due.remove(&(due, id));
            }
        }
    }
}
