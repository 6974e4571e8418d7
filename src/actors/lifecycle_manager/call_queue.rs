//! The calls that are owed: one a pod at a time, so many at once, each tried until it is owed no more (spec L-11).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::model::pod::DrainedFor;
use crate::model::{ExecutorId, PodUid, Tick};
use boatswain_agent::backoff::Backoff;

/// Whose pod a pending action is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// An executor's.
    Executor(ExecutorId),
    /// A orphan pod (spec E-3).
    OrphanPod(PodUid),
}

/// A call to the API server that is owed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodCall {
    /// Delete the pod, by uid (spec L-11).
    Delete {
        /// The pod's name.
        name: Arc<str>,
        /// Only that one.
        uid: PodUid,
        /// How long it may take; `None`: as the pod says.
        grace: Option<Duration>,
    },
    /// Mark the pod as one that drains (spec L-12).
    MarkDraining {
        /// The pod's name.
        name: Arc<str>,
        /// Only that one.
        uid: PodUid,
        /// What for.
        why: DrainedFor,
        /// Until when it may take its time.
        until: Tick,
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

/// What is owed, and when it is tried next.
#[derive(Debug)]
pub struct CallQueue {
    max_in_flight: usize,
    backoff: Backoff,
    rng: StdRng,
    open: BTreeMap<Subject, Open>,
    /// Open pending actions that are not in flight, by the time of their next try.
    waiting: BTreeSet<(Tick, Subject)>,
    in_flight: usize,
}

#[derive(Debug)]
struct Open {
    /// What is owed; `None` where it is owed no more, but a call is still in flight. Until that is answered, nothing
    /// else is called for this subject, and its answer must not be taken for the answer to a later call.
    pod_call: Option<PodCall>,
    next_try: Tick,
    /// Calls in a row that failed, or that succeeded and brought about nothing yet.
    tries: u32,
    last_succeeded: bool,
    flight: Flight,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flight {
    /// No call is in flight.
    None,
    /// The call for what is owed.
    Own,
    /// A call for what was owed before.
    Former,
}

impl CallQueue {
    /// Nothing owed yet.
    pub fn new(max_in_flight: usize, backoff: Backoff, rng: StdRng) -> Self {
        Self {
            max_in_flight,
            backoff,
            rng,
            open: BTreeMap::new(),
            waiting: BTreeSet::new(),
            in_flight: 0,
        }
    }

    /// How many calls wait or are under way.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// When the next call is to be made, if any waits for its time and not for an answer to another.
    pub fn next_try(&self) -> Option<Tick> {
        let room = self.in_flight < self.max_in_flight;
        self.waiting.first().filter(|_| room).map(|(at, _)| *at)
    }

    /// This is owed to the subject now, not before then (`None`: at once); or nothing is.
    pub fn set(&mut self, subject: Subject, owed: Option<(PodCall, Option<Tick>)>, now: Tick) {
        let Some((pod_call, not_before)) = owed else {
            return self.have_nothing_pending(subject);
        };
        let open = self.open.entry(subject.clone()).or_insert(Open {
            pod_call: None,
            next_try: now,
            tries: 0,
            last_succeeded: false,
            flight: Flight::None,
        });
        let before = open.next_try;
        if open.pod_call.as_ref() != Some(&pod_call) {
            open.pod_call = Some(pod_call);
            (open.tries, open.next_try) = (0, not_before.unwrap_or(now));
            if open.flight == Flight::Own {
                open.flight = Flight::Former;
            }
        } else if open.tries > 0 {
            open.next_try = open.next_try.max(not_before.unwrap_or(open.next_try));
        } else {
            // What is due at once keeps its place among those that wait, whatever else is heard of the subject.
            open.next_try = not_before.unwrap_or(open.next_try.min(now));
        }
        if open.flight == Flight::None {
            let after = open.next_try;
            self.waiting.remove(&(before, subject.clone()));
            self.waiting.insert((after, subject));
        }
    }

    fn have_nothing_pending(&mut self, subject: Subject) {
        let Some(open) = self.open.get_mut(&subject) else {
            return;
        };
        if open.flight == Flight::None {
            let at = open.next_try;
            self.open.remove(&subject);
            self.waiting.remove(&(at, subject));
        } else {
            (open.pod_call, open.flight) = (None, Flight::Former);
        }
    }

    /// The calls to be made now.
    pub fn due(&mut self, now: Tick) -> impl Iterator<Item = (Subject, PodCall)> {
        let mut calls = Vec::new();
        while self.in_flight < self.max_in_flight
            && self.waiting.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, subject)) = self.waiting.pop_first()
        {
            if let Some(open) = self.open.get_mut(&subject)
                && let Some(pod_call) = open.pod_call.clone()
            {
                open.flight = Flight::Own;
                self.in_flight += 1;
                calls.push((subject, pod_call));
            }
        }
        calls.into_iter()
    }

    /// A call has been answered, or has failed. What it brought about ends the pending action with the next batch; where it
    /// does not, it is tried again.
    pub fn answered(&mut self, subject: &Subject, succeeded: bool, now: Tick) {
        let random = self.rng.random();
        let Some(open) = self.open.get_mut(subject) else {
            return;
        };
        let flight = std::mem::replace(&mut open.flight, Flight::None);
        if flight == Flight::None {
            return;
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        if open.pod_call.is_none() {
            self.open.remove(subject);
            return;
        }
        if flight == Flight::Own {
            let same = open.last_succeeded == succeeded;
            open.tries = if same {
                open.tries.saturating_add(1)
            } else {
                1
            };
            open.last_succeeded = succeeded;
            open.next_try = now + self.backoff.jittered(open.tries, random);
        }
        self.waiting.insert((open.next_try, subject.clone()));
    }
}

#[cfg(test)]
mod tests;
