//! When the next list is made: a function of the poll's state, an event and the time (spec P-1, P-2).
//!
//! There is a list in flight or a timer armed, never both; each has a number of its own, and the answer of a
//! list or the alarm of a timer that is no longer the current one changes nothing.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use super::Pace;
use crate::kubernetes::backoff::{LONGEST, WATCH};
use crate::model::Tick;

/// Lists that are asked for ([`Event::PollNow`]) begin at least this far apart, whoever asks how often.
const MIN_GAP: Duration = Duration::from_secs(1);

/// The number of one list or one timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Serial(u64);

/// A list as the store judged it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Polled {
    /// Not, where it was asked for in an older history.
    pub(super) accepted: bool,
    pub(super) pods: usize,
}

/// Why there is no list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setback {
    pub(super) error: Arc<str>,
    /// How long the server asked to be left alone.
    pub(super) retry_after: Option<Duration>,
}

/// What happens to the poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    Begin,
    Polled {
        call: Serial,
        outcome: Result<Polled, Setback>,
    },
    Alarm {
        timer: Serial,
    },
    PollNow,
    Stop,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    /// Make a list and have the store judge it.
    Poll { call: Serial, quorum: bool },
    /// Drop the list in flight.
    Cut,
    /// Set the timer, in place of the one before.
    Arm { timer: Serial, after: Duration },
    /// Tell people.
    Report(Report),
}

/// What people are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Report {
    /// A list was taken in; `first` of this process.
    Listed { first: bool, pods: usize },
    /// A list failed; `first` since one came in.
    Trouble {
        first: bool,
        error: Arc<str>,
        wait: Duration,
    },
    /// Lists come in again.
    Recovered,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// Not begun.
    Idle,
    /// Until the timer's alarm, at `due`.
    Waiting { timer: Serial, due: Tick },
    /// A list is being made.
    Polling {
        call: Serial,
        /// It repeats one that was asked for in an older history.
        repeated: bool,
        /// Somebody asked for a list since it began.
        asked: bool,
    },
    /// The driver stops.
    Stopped,
}

/// The machine.
#[derive(Debug)]
pub(super) struct Machine {
    phase: Phase,
    pace: Pace,
    rng: StdRng,
    /// Failures in a row.
    failures: u32,
    last_serial: Serial,
    /// When the last list was begun.
    begun: Option<Tick>,
    listed: bool,
    in_trouble: bool,
}

impl Machine {
    pub(super) fn new(pace: Pace, rng: StdRng) -> Self {
        Self {
            phase: Phase::Idle,
            pace,
            rng,
            failures: 0,
            last_serial: Serial::default(),
            begun: None,
            listed: false,
            in_trouble: false,
        }
    }

    /// One step. Every state meets every event; where they have nothing to do with one another, nothing changes.
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

            (Phase::Idle, Event::Begin) if self.pace.makes_first_list => self.poll(false, now, out),
            (Phase::Idle, Event::Begin) => {
                let interval = self.interval();
                self.wait(interval, now, out)
            }

            (Phase::Waiting { timer, .. }, Event::Alarm { timer: rung }) if rung == timer => {
                self.poll(false, now, out)
            }
            (Phase::Waiting { timer, due }, Event::PollNow) => {
                let after = self.gap(now);
                if now + after < due {
                    self.wait(after, now, out)
                } else {
                    Phase::Waiting { timer, due }
                }
            }

            (
                Phase::Polling {
                    call,
                    repeated,
                    asked,
                },
                Event::Polled {
                    call: polled,
                    outcome,
                },
            ) if polled == call => match outcome {
                Ok(list) if !list.accepted && !repeated => self.poll(true, now, out),
                Ok(list) => self.listed(&list, asked, now, out),
                Err(why) => self.failed(why, now, out),
            },
            // The list in flight was asked for before that, and need not show what is looked for.
            (Phase::Polling { call, repeated, .. }, Event::PollNow) => Phase::Polling {
                call,
                repeated,
                asked: true,
            },

            // What is left is begun already, or the answer of a list or the alarm of a timer that was given up.
            (
                phase @ (Phase::Idle | Phase::Waiting { .. } | Phase::Polling { .. }),
                Event::Begin | Event::Polled { .. } | Event::Alarm { .. } | Event::PollNow,
            ) => phase,
        }
    }

    fn poll(&mut self, repeated: bool, now: Tick, out: &mut Vec<Effect>) -> Phase {
        self.begun = Some(now);
        let call = self.serial();
        // Where nothing was listed yet and no watch will, the first list shows the newest there is (spec W-6). And after
        // a failure: a cache that waits for a version from a history that is no more answers too late (spec S-13).
        let quorum = !self.pace.from_cache
            || self.in_trouble
            || (self.pace.makes_first_list && !self.listed);
        out.push(Effect::Poll { call, quorum });
        Phase::Polling {
            call,
            repeated,
            asked: false,
        }
    }

    fn listed(&mut self, list: &Polled, asked: bool, now: Tick, out: &mut Vec<Effect>) -> Phase {
        if std::mem::take(&mut self.in_trouble) {
            out.push(Effect::Report(Report::Recovered));
        }
        if list.accepted {
            out.push(Effect::Report(Report::Listed {
                first: !self.listed,
                pods: list.pods,
            }));
            self.listed = true;
        }
        let after = if asked {
            self.gap(now)
        } else {
            self.interval()
        };
        self.wait(after, now, out)
    }

    fn failed(&mut self, why: Setback, now: Tick, out: &mut Vec<Effect>) -> Phase {
        let interval = self.interval();
        let mut wait = interval;
        if self.pace.makes_first_list && !self.listed {
            // Nothing can be decided before the first list, so it does not wait for an interval.
            self.failures = self.failures.saturating_add(1);
            wait = WATCH
                .jittered(self.failures, self.rng.random())
                .min(interval);
        }
        wait = wait.max(why.retry_after.unwrap_or_default().min(LONGEST));
        out.push(Effect::Report(Report::Trouble {
            first: !std::mem::replace(&mut self.in_trouble, true),
            error: why.error,
            wait,
        }));
        self.wait(wait, now, out)
    }

    fn wait(&mut self, after: Duration, now: Tick, out: &mut Vec<Effect>) -> Phase {
        let timer = self.serial();
        out.push(Effect::Arm { timer, after });
        Phase::Waiting {
            timer,
            due: now + after,
        }
    }

    /// The interval, ± 10 %, so that many drivers that began together do not ask together (spec P-1).
    fn interval(&mut self) -> Duration {
        let tenth = self.pace.interval / 10;
        let shortest = self.pace.interval.saturating_sub(tenth);
        let longest = self.pace.interval.saturating_add(tenth);
        self.rng.random_range(shortest..=longest)
    }

    fn gap(&self, now: Tick) -> Duration {
        self.begun.map_or(Duration::ZERO, |begun| {
            MIN_GAP.saturating_sub(now.since(begun))
        })
    }

    fn serial(&mut self) -> Serial {
        self.last_serial = Serial(self.last_serial.0 + 1);
        self.last_serial
    }
}

#[cfg(test)]
mod tests;
