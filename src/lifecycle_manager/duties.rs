//! What is owed to each executor: telling its end, deleting, labelling or looking up its pod (spec L-1 to L-14).
//!
//! `(state, batch, now) → actions`, pure. What is owed follows from the entry alone, so a lost answer, a doubled event
//! or a restart leads to the same duty again and never to a wrong one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::model::backoff::Backoff;
use crate::model::reasoning::reason_of;
use crate::model::snapshot::Ghost;
use crate::model::{
    Batch, Entry, ExecutorId, LossClass, LossReason, Now, PodState, PodUid, Snapshot, State, Tick,
};

/// How duties are carried out.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Whether a finished pod is deleted; kept and labelled inactive otherwise (spec L-2).
    pub delete_on_termination: bool,
    /// At most this many calls at a time (spec L-11).
    pub max_in_flight: usize,
    /// How long the server may take to commit a request (spec A-11).
    pub server_timeout: Duration,
    /// After this long an unknown request is looked up (spec A-14).
    pub creation_timeout: Duration,
    /// Between tries of the same duty.
    pub backoff: Backoff,
}

/// Whose pod a duty is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// An executor's.
    Executor(ExecutorId),
    /// A ghost (spec E-3).
    Ghost(PodUid),
}

/// A call to the API server that is owed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Duty {
    /// Delete the pod, by uid (spec L-11).
    Delete {
        /// The pod's name.
        name: Arc<str>,
        /// Only that one.
        uid: PodUid,
    },
    /// Label the pod inactive (spec L-2).
    MarkInactive {
        /// The pod's name.
        name: Arc<str>,
        /// Only that one.
        uid: PodUid,
    },
    /// Look the executor up by its pod's name (spec E-10, A-14).
    LookUp(ExecutorId),
}

/// What a round decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Tell this end: to the backend, to the log, and to the store that it was told (spec L-1).
    Tell(Box<Ending>),
    /// A better reason came after the telling: say so (spec L-13).
    Correct(Box<Ending>),
    /// Make this call.
    Call(Subject, Duty),
}

/// An executor's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// The entry as it ended.
    pub entry: Arc<Entry>,
    /// Why.
    pub reason: LossReason,
}

/// What is owed now, and when it is tried next.
#[derive(Debug)]
pub struct Duties {
    settings: Settings,
    rng: StdRng,
    open: BTreeMap<Subject, Open>,
    /// Open duties that are not in flight, by the time of their next try.
    queue: BTreeSet<(Tick, Subject)>,
    in_flight: usize,
    /// What was told of executors that have not left the snapshot yet.
    told: BTreeMap<ExecutorId, LossClass>,
}

#[derive(Debug)]
struct Open {
    duty: Duty,
    next_try: Tick,
    failures: u32,
    in_flight: bool,
}

impl Duties {
    /// Nothing owed yet.
    pub fn new(settings: Settings, rng: StdRng) -> Self {
        Self {
            settings,
            rng,
            open: BTreeMap::new(),
            queue: BTreeSet::new(),
            in_flight: 0,
            told: BTreeMap::new(),
        }
    }

    /// One round; O(changes), and O(log) for each call that is made (spec L-6).
    pub fn decide(&mut self, batch: &Batch, now: Now) -> Vec<Action> {
        let latest = batch.latest();
        let mut actions = Vec::new();
        for id in batch.changed_executors() {
            let entry = latest.entry(id);
            match entry {
                Some(entry) => self.tell(entry, &mut actions),
                None => {
                    self.told.remove(&id);
                }
            }
            let owed = entry.and_then(|entry| self.owed(entry, now.tick));
            self.set(Subject::Executor(id), owed);
        }
        for uid in batch.changed_ghosts() {
            let owed = latest
                .ghosts
                .get(&uid)
                .and_then(|ghost| laying(&uid, ghost, now.tick));
            self.set(Subject::Ghost(uid), owed);
        }
        self.dispatch(now.tick, &mut actions);
        actions
    }

    /// A call has been answered, or has failed; its news is already on the way to the store.
    pub fn answered(&mut self, subject: &Subject, succeeded: bool, now: Tick) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let random = self.rng.random();
        let Some(open) = self.open.get_mut(subject) else {
            return;
        };
        open.in_flight = false;
        open.failures = if succeeded {
            1
        } else {
            open.failures.saturating_add(1)
        };
        // Also after a success: what it brought about ends the duty with the next batch, or it is tried again.
        open.next_try = now + self.settings.backoff.jittered(open.failures, random);
        self.queue.insert((open.next_try, subject.clone()));
    }

    /// How many calls wait or are under way.
    pub fn outstanding(&self) -> usize {
        self.open.len()
    }

    /// When the next call is to be made, if any waits for its time.
    pub fn next_try(&self) -> Option<Tick> {
        let room = self.in_flight < self.settings.max_in_flight;
        self.queue.first().filter(|_| room).map(|(at, _)| *at)
    }

    fn tell(&mut self, entry: &Arc<Entry>, actions: &mut Vec<Action>) {
        if entry.owes_telling() {
            let reason = reason_of(entry);
            self.told.insert(entry.id, reason.class);
            actions.push(Action::Tell(Box::new(Ending {
                entry: Arc::clone(entry),
                reason,
            })));
        } else if let Some(told) = self.told.get_mut(&entry.id) {
            let reason = reason_of(entry);
            // A kept or deleted pod says less than the container's end that was told.
            let says_less = matches!(reason.class, LossClass::Deleted | LossClass::Missing);
            if reason.class != *told && !says_less {
                *told = reason.class;
                let ending = Ending {
                    entry: Arc::clone(entry),
                    reason,
                };
                actions.push(Action::Correct(Box::new(ending)));
            }
        }
    }

    fn set(&mut self, subject: Subject, owed: Option<(Duty, Tick)>) {
        let Some((duty, not_before)) = owed else {
            if let Some(open) = self.open.remove(&subject) {
                self.queue.remove(&(open.next_try, subject));
            }
            return;
        };
        match self.open.get_mut(&subject) {
            Some(open) if open.duty == duty && open.in_flight => {}
            Some(open) if open.duty == duty => {
                self.queue.remove(&(open.next_try, subject.clone()));
                open.next_try = if open.failures == 0 {
                    not_before
                } else {
                    open.next_try.max(not_before)
                };
                self.queue.insert((open.next_try, subject));
            }
            Some(open) => {
                self.queue.remove(&(open.next_try, subject.clone()));
                (open.duty, open.next_try, open.failures) = (duty, not_before, 0);
                if !open.in_flight {
                    self.queue.insert((not_before, subject));
                }
            }
            None => {
                let open = Open {
                    duty,
                    next_try: not_before,
                    failures: 0,
                    in_flight: false,
                };
                self.open.insert(subject.clone(), open);
                self.queue.insert((not_before, subject));
            }
        }
    }

    fn dispatch(&mut self, now: Tick, actions: &mut Vec<Action>) {
        while self.in_flight < self.settings.max_in_flight {
            let due = self.queue.first().is_some_and(|(at, _)| *at <= now);
            let Some((_, subject)) = due.then(|| self.queue.pop_first()).flatten() else {
                return;
            };
            if let Some(open) = self.open.get_mut(&subject) {
                open.in_flight = true;
                self.in_flight += 1;
                actions.push(Action::Call(subject, open.duty.clone()));
            }
        }
    }

    /// What is owed to an executor, and not before when.
    fn owed(&self, entry: &Entry, now: Tick) -> Option<(Duty, Tick)> {
        let bound = match &entry.state {
            State::Sent(_) | State::Gone(_) => return None,
            State::Unknown(doubt) => {
                if doubt.in_flight {
                    return None;
                }
                let settled = doubt.request.sent + self.settings.server_timeout;
                let wanted = if doubt.look_up || entry.leaving.is_some() {
                    settled
                } else {
                    settled.max(doubt.since + self.settings.creation_timeout)
                };
                return Some((Duty::LookUp(entry.id), wanted));
            }
            State::Bound(bound) => bound,
        };
        if bound.absent.is_some() {
            return Some((Duty::LookUp(entry.id), now));
        }
        let (name, uid) = (Arc::clone(&bound.pod.name), bound.pod.uid.clone());
        let state = bound.pod.state();
        if state.is_finished() {
            if !entry.told || bound.pod.deletion.is_some() {
                return None;
            }
            let duty = if self.settings.delete_on_termination {
                Duty::Delete { name, uid }
            } else {
                Duty::MarkInactive { name, uid }
            };
            return Some((duty, now));
        }
        let marked = entry.leaving.is_some() && state != PodState::Terminating;
        marked.then_some((Duty::Delete { name, uid }, now))
    }
}

/// What is owed to a ghost.
fn laying(uid: &PodUid, ghost: &Ghost, now: Tick) -> Option<(Duty, Tick)> {
    let duty = Duty::Delete {
        name: Arc::clone(&ghost.name),
        uid: uid.clone(),
    };
    (!ghost.terminating).then_some((duty, now))
}

/// Whether nothing of this application is left that would have to be deleted, or told of (spec O-11, L-1).
pub fn nothing_left(snapshot: &Snapshot) -> bool {
    let settled = |entry: &Arc<Entry>| {
        let going = entry.pod().is_some_and(|pod| pod.deletion.is_some());
        (going || entry.is_gone()) && !entry.owes_telling()
    };
    snapshot.entries.values().all(settled) && snapshot.ghosts.values().all(|g| g.terminating)
}
