//! Decides when to make the next list: a function of the poll's state, an event and the time (spec
//! P-1, P-2).
//!
//! Either a list is in flight or a timer is armed, never both. Each has a serial number; answers
//! and alarms with an outdated number are ignored.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use super::Pace;
use super::lister::ListError;
use super::messages::NewInterval;
use crate::kubernetes::backoff::{LONGEST, WATCH};
use crate::model::{Serial, Tick};

/// Beside a watch, the pods that are listed in a second on average: what a proof costs does not grow with the fleet.
const PODS_A_SECOND: usize = 1_000;

/// A list that the store has accepted or rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Polled {
    /// False if the list was begun in an earlier epoch.
    pub(super) accepted: bool,
    pub(super) pods: usize,
}

/// What happens to the poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    Begin,
    Polled {
        call: Serial,
        outcome: Result<Polled, ListError>,
    },
    Alarm {
        timer: Serial,
    },
    NewInterval(NewInterval),
    /// The API server answers again after an outage.
    ServerIsBack,
    Stop,
}

/// What the actor must do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    /// Make a list and give it to the store.
    Poll { call: Serial, quorum: bool },
    /// Cancel the list in flight.
    Cut,
    /// Arm the timer, replacing the previous one.
    Arm { timer: Serial, after: Duration },
    /// Log a message.
    Report(Report),
}

/// The messages that are logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Report {
    /// A list was accepted; `first`: the first one of this process.
    Listed { first: bool, pods: usize },
    /// A list failed; `first`: the first failure since the last success.
    Trouble {
        first: bool,
        error: Arc<str>,
        wait: Duration,
    },
    /// A list succeeded after failures.
    Recovered,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// Not started.
    Idle,
    /// Waits for the timer, which rings at `due`.
    Waiting { timer: Serial, due: Tick },
    /// A list is in flight.
    Polling {
        call: Serial,
        /// Whether it repeats a list that was begun in an earlier epoch.
        repeated: bool,
    },
    /// The driver is stopping.
    Stopped,
}

#[derive(Debug)]
pub(super) struct Machine {
    phase: Phase,
    pace: Pace,
    rng: StdRng,
    /// Consecutive failures.
    failures: u32,
    last_serial: Serial,
    listed: bool,
    /// How many pods the last accepted list had.
    pods: usize,
    /// Whether the interval holds however large the fleet is.
    is_firm: bool,
    in_trouble: bool,
    /// Until then the server has asked to wait.
    not_before: Tick,
    /// Whether the list in flight began during an outage that is over.
    overtaken: bool,
}

impl Machine {
    pub(super) fn new(pace: Pace, rng: StdRng) -> Self {
        Self {
            phase: Phase::Idle,
            pace,
            rng,
            failures: 0,
            last_serial: Serial::default(),
            listed: false,
            pods: 0,
            is_firm: false,
            in_trouble: false,
            not_before: Tick::default(),
            overtaken: false,
        }
    }

    /// Performs one step. Every combination of state and event is covered; those that do not belong
    /// together change nothing.
    pub(super) fn step(&mut self, event: Event, now: Tick) -> Vec<Effect> {
        let mut out = Vec::new();
        let phase = std::mem::replace(&mut self.phase, Phase::Stopped);
        self.phase = self.next(phase, event, now, &mut out);
        out
    }

    fn next(&mut self, phase: Phase, event: Event, now: Tick, out: &mut Vec<Effect>) -> Phase {
        match (phase, event) {
            (Phase::Stopped, _) => Phase::Stopped,
            (_, Event::Stop) => {
                out.push(Effect::Cut);
                Phase::Stopped
            }

            (Phase::Idle, Event::Begin) if self.pace.makes_first_list => self.poll(false, out),
            (Phase::Idle, Event::Begin) => {
                let interval = self.interval();
                self.wait(interval, now, out)
            }

            (Phase::Waiting { timer, .. }, Event::Alarm { timer: rung }) if rung == timer => {
                self.poll(false, out)
            }

            (
                Phase::Polling { call, repeated },
                Event::Polled {
                    call: polled,
                    outcome,
                },
            ) if polled == call => match outcome {
                Ok(list) if !list.accepted && !repeated => self.poll(true, out),
                Ok(list) => self.listed(&list, now, out),
                Err(why) => self.failed(&why, now, out),
            },
            (phase, Event::NewInterval(new)) => self.new_interval(phase, new, now, out),
            (phase, Event::ServerIsBack) => self.server_is_back(phase, now, out),
            // The remaining events are a repeated start, or outdated answers and alarms.
            (
                phase @ (Phase::Idle | Phase::Waiting { .. } | Phase::Polling { .. }),
                Event::Begin | Event::Polled { .. } | Event::Alarm { .. },
            ) => phase,
        }
    }

    /// A list that has failed is made now (spec W-14). One in flight may still succeed; if it fails,
    /// the next one does not wait for an interval.
    fn server_is_back(&mut self, phase: Phase, now: Tick, out: &mut Vec<Effect>) -> Phase {
        self.failures = 0;
        match phase {
            Phase::Waiting { .. } if self.in_trouble && self.not_before <= now => {
                self.poll(false, out)
            }
            Phase::Polling { .. } => {
                self.overtaken = true;
                phase
            }
            phase @ (Phase::Idle | Phase::Waiting { .. } | Phase::Stopped) => phase,
        }
    }

    /// The next list is made an interval from now at the latest, unless the server has asked to wait for longer.
    fn new_interval(
        &mut self,
        phase: Phase,
        new: NewInterval,
        now: Tick,
        out: &mut Vec<Effect>,
    ) -> Phase {
        self.pace.interval = new.interval;
        self.is_firm = new.is_firm;
        let after = self.interval().max(now.until(self.not_before));
        match phase {
            Phase::Waiting { due, .. } if now + after < due => self.wait(after, now, out),
            phase => phase,
        }
    }

    fn poll(&mut self, repeated: bool, out: &mut Vec<Effect>) -> Phase {
        self.overtaken = false;
        let call = self.last_serial.raise();
        // Without a watch the first list must be the newest (spec W-6). After a failure too: a
        // cache that waits for a version of an earlier history would answer too late (spec S-13).
        let quorum = !self.pace.from_cache
            || self.in_trouble
            || (self.pace.makes_first_list && !self.listed);
        out.push(Effect::Poll { call, quorum });
        Phase::Polling { call, repeated }
    }

    fn listed(&mut self, list: &Polled, now: Tick, out: &mut Vec<Effect>) -> Phase {
        if std::mem::take(&mut self.in_trouble) {
            out.push(Effect::Report(Report::Recovered));
        }
        if list.accepted {
            out.push(Effect::Report(Report::Listed {
                first: !self.listed,
                pods: list.pods,
            }));
            self.listed = true;
            self.pods = list.pods;
        }
        let after = self.interval();
        self.wait(after, now, out)
    }

    fn failed(&mut self, why: &ListError, now: Tick, out: &mut Vec<Effect>) -> Phase {
        let interval = self.interval();
        let mut wait = interval;
        if std::mem::take(&mut self.overtaken) || (self.pace.makes_first_list && !self.listed) {
            // Nothing can be decided before the first list, so it is not delayed by an interval.
            self.failures = self.failures.saturating_add(1);
            wait = WATCH
                .jittered(self.failures, self.rng.random())
                .min(interval);
        }
        let asked_for = why.retry_after().unwrap_or_default().min(LONGEST);
        self.not_before = now + asked_for;
        wait = wait.max(asked_for);
        out.push(Effect::Report(Report::Trouble {
            first: !std::mem::replace(&mut self.in_trouble, true),
            error: why.text(),
            wait,
        }));
        self.wait(wait, now, out)
    }

    fn wait(&mut self, after: Duration, now: Tick, out: &mut Vec<Effect>) -> Phase {
        let timer = self.last_serial.raise();
        out.push(Effect::Arm { timer, after });
        Phase::Waiting {
            timer,
            due: now + after,
        }
    }

    /// The interval with a jitter of ± 10 %, so that drivers that started at the same time do not
    /// poll at the same time (spec P-1).
    fn interval(&mut self) -> Duration {
        let mut interval = self.pace.interval;
        if !self.pace.makes_first_list && !self.is_firm {
            let listing = Duration::from_secs((self.pods / PODS_A_SECOND) as u64);
            interval = interval.max(listing);
        }
        let tenth = interval / 10;
        let shortest = interval.saturating_sub(tenth);
        let longest = interval.saturating_add(tenth);
        self.rng.random_range(shortest..=longest)
    }
}

#[cfg(test)]
mod tests;
