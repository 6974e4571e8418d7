//! The queue of calls: one for each pod at a time, repeated while it is pending (spec L-11).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::model::pod::DrainedFor;
use crate::model::{ExecutorId, PodUid, ProfileName, Tick};
use crate::planted::{self, Planted};
use boatswain_agent::backoff::Backoff;

/// The pod that a call is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    Executor(ExecutorId),
    /// Whether autoscalers leave an executor's pod alone.
    Protection(ExecutorId),
    /// The memory of an executor's container.
    Memory(ExecutorId),
    /// The profile of an executor that was a spare.
    Promotion(ExecutorId),
    /// An orphan pod.
    OrphanPod(PodUid),
    /// A kept pod that is kept no longer.
    KeptPod(PodUid),
    /// All pods that earlier drivers kept.
    KeptPods,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodCall {
    /// Delete the pod, by uid.
    Delete {
        name: Arc<str>,
        /// The precondition of the call.
        uid: PodUid,
        /// `None`: as the pod says.
        grace: Option<Duration>,
    },
    /// Mark the pod as draining.
    MarkDraining {
        name: Arc<str>,
        /// The precondition of the call.
        uid: PodUid,
        why: DrainedFor,
        /// When the drain ends.
        until: Tick,
    },
    /// Have autoscalers leave the pod's node alone, or not any more.
    Protect {
        name: Arc<str>,
        /// The precondition of the call.
        uid: PodUid,
        is_protected: bool,
    },
    /// Give the executor's container this memory limit while it runs.
    Resize {
        name: Arc<str>,
        /// The precondition of the call.
        uid: PodUid,
        /// In bytes.
        memory_limit: u64,
    },
    /// Have the pod's label name this profile, of which its executor was a spare.
    Promote {
        name: Arc<str>,
        /// The precondition of the call.
        uid: PodUid,
        profile: ProfileName,
    },
    /// Label the pod inactive.
    MarkInactive {
        name: Arc<str>,
        /// The precondition of the call.
        uid: PodUid,
    },
    /// Look the executor up by its pod's name.
    LookUp(ExecutorId),
    /// List the pods that earlier drivers kept.
    ListKept,
}

#[derive(Debug)]
pub struct CallQueue {
    max_in_flight: usize,
    backoff: Backoff,
    rng: StdRng,
    open: BTreeMap<Subject, Open>,
    /// Pending calls that are not in flight, by the time of their next attempt.
    waiting: BTreeSet<(Tick, Subject)>,
    in_flight: usize,
}

#[derive(Debug)]
struct Open {
    /// `None` if nothing is pending but a call is in flight. Until it is answered, no other call is
    /// made for this subject, and its answer must not be taken for that of a later call.
    pod_call: Option<PodCall>,
    next_try: Tick,
    /// The earliest time of the pending call, whatever failed.
    not_before: Tick,
    /// Consecutive calls with the same outcome that changed nothing yet.
    tries: u32,
    last_succeeded: bool,
    flight: Flight,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flight {
    None,
    /// The pending call.
    Own,
    /// An earlier call, which is no longer pending.
    Former,
}

impl CallQueue {
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

    /// How many calls wait or are in flight.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The call that waits or is in flight for this subject.
    pub fn pending(&self, subject: &Subject) -> Option<&PodCall> {
        self.open.get(subject)?.pod_call.as_ref()
    }

    /// Whether a call for this subject waits or is in flight.
    pub fn has(&self, subject: &Subject) -> bool {
        self.open.contains_key(subject)
    }

    /// When the next call is due; `None` if a call in flight must end first.
    pub fn next_try(&self) -> Option<Tick> {
        let room = self.in_flight < self.max_in_flight;
        self.waiting.first().filter(|_| room).map(|(at, _)| *at)
    }

    /// Sets the subject's pending call and its earliest time (`None`: at once), or removes it.
    pub fn set(&mut self, subject: Subject, owed: Option<(PodCall, Option<Tick>)>, now: Tick) {
        let Some((pod_call, not_before)) = owed else {
            return self.have_nothing_pending(subject);
        };
        let open = self.open.entry(subject.clone()).or_insert(Open {
            pod_call: None,
            next_try: now,
            not_before: now,
            tries: 0,
            last_succeeded: false,
            flight: Flight::None,
        });
        let before = open.next_try;
        open.not_before = not_before.unwrap_or(now);
        if open.pod_call.as_ref() != Some(&pod_call) {
            open.pod_call = Some(pod_call);
            (open.tries, open.next_try) = (0, not_before.unwrap_or(now));
            if open.flight == Flight::Own {
                open.flight = Flight::Former;
            }
        } else if open.tries > 0 {
            open.next_try = open.next_try.max(not_before.unwrap_or(open.next_try));
        } else {
            // A call that is due keeps its place, whatever else changes for its subject.
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

    /// The end of an outage ends the backoffs of failed calls (spec W-14).
    pub fn server_is_back(&mut self, now: Tick) {
        for (subject, open) in &mut self.open {
            if open.last_succeeded || open.tries == 0 {
                continue;
            }
            // As after the first failure. A call in flight may fail yet.
            open.tries = 1;
            let next_try = open.next_try.min(open.not_before.max(now));
            if open.flight == Flight::None && open.next_try != next_try {
                self.waiting.remove(&(open.next_try, subject.clone()));
                self.waiting.insert((next_try, subject.clone()));
                open.next_try = next_try;
            }
        }
    }

    /// A call was answered or failed. If it had an effect, a later batch removes the pending call;
    /// otherwise it is repeated.
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
        if open.pod_call.is_none() || !succeeded && planted::is(Planted::FailedCallsDropped) {
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
