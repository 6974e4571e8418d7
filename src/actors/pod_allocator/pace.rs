//! Limits how fast requests are sent: slow start, a rate, and backoff while the API server fails
//! (spec ).

use std::time::Duration;

use crate::model::{Now, Tick};
use crate::planted::{self, Planted};
use boatswain_agent::backoff::Backoff;

use super::rate::Rate;
use super::window::Window;

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub max_in_flight: u32,
    /// The most new requests a second; `None`: no limit.
    pub max_rate: Option<u32>,
    /// The wait while the API server is overloaded or fails.
    pub backoff: Backoff,
}

/// What an answer says about the API server as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    Works,
    /// Refused for a reason of this one request.
    Refused,
    /// The server asks to wait, with its Retry-After if any.
    Wait(Option<Duration>),
    /// 5xx, a timeout, a connection that was refused or broken.
    Trouble,
}

/// Trouble with the API server began or ended (spec A-26).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaceChange {
    Degraded,
    /// After this long.
    Recovered(Duration),
}

#[derive(Debug)]
pub struct Pace {
    limits: Limits,
    in_flight: u32,
    window: Window,
    rate: Option<Rate>,
    trouble: Option<Trouble>,
}

#[derive(Debug, Clone, Copy)]
struct Trouble {
    since: Tick,
    failures: u32,
    /// When the backoff last made a step.
    last_step: Tick,
    until: Tick,
    /// Until then the server has asked to wait.
    asked_to_wait: Tick,
}

impl Pace {
    pub fn new(limits: Limits, now: Tick) -> Self {
        Self {
            limits,
            in_flight: 0,
            window: Window::new(limits.max_in_flight),
            rate: limits.max_rate.map(|most| Rate::new(most, now)),
            trouble: None,
        }
    }

    pub fn room(&mut self, now: Tick) -> u32 {
        if self.trouble.is_some_and(|trouble| now < trouble.until) {
            return 0;
        }
        let window = self.window.size().saturating_sub(self.in_flight);
        match &mut self.rate {
            None => window,
            Some(rate) => window.min(rate.room(now)),
        }
    }

    /// When there may be room again; `None` if a request in flight must be answered first.
    pub fn next_room(&self, now: Tick) -> Option<Tick> {
        if let Some(trouble) = self.trouble.filter(|trouble| now < trouble.until) {
            return Some(trouble.until);
        }
        let free = self.window.size() > self.in_flight;
        self.rate.as_ref().filter(|_| free)?.next_room(now)
    }

    pub fn sent(&mut self) {
        self.in_flight += 1;
        if let Some(rate) = &mut self.rate {
            rate.sent();
        }
    }

    /// No executors are missing: the next burst starts slowly again.
    pub fn rest(&mut self) {
        if self.in_flight == 0 && self.trouble.is_none() {
            self.window.rest();
        }
    }

    /// A request sent at `sent` was answered or failed. `random` from [0, 1) is for jitter.
    pub fn answered(
        &mut self,
        sent: Tick,
        health: Health,
        now: Now,
        random: f64,
    ) -> Option<PaceChange> {
        let in_flight = self.in_flight;
        if health != Health::Trouble || !planted::is(Planted::SlotLeaked) {
            self.in_flight = self.in_flight.saturating_sub(1);
        }
        let now = now.tick;
        // Nothing is sent during a backoff. So a request sent before the last step was sent before
        // the trouble: its answer neither ends the trouble nor counts as a further failure.
        let old = self
            .trouble
            .is_some_and(|trouble| sent <= trouble.last_step);
        let wait = match health {
            Health::Works | Health::Refused if old => return None,
            Health::Works | Health::Refused => {
                match health {
                    Health::Works => self.window.answered(sent, in_flight, now),
                    _ => self.window.refused(),
                }
                return self
                    .trouble
                    .take()
                    .map(|t| PaceChange::Recovered(now.since(t.since)));
            }
            Health::Wait(told) => told,
            Health::Trouble => None,
        };
        self.window.overloaded();
        let known = self.trouble;
        let mut trouble = known.unwrap_or(Trouble {
            since: now,
            failures: 0,
            last_step: now,
            until: now,
            asked_to_wait: now,
        });
        if !old {
            trouble.failures = trouble.failures.saturating_add(1);
            trouble.last_step = now;
            trouble.until = now + self.limits.backoff.jittered(trouble.failures, random);
        }
        if let Some(told) = wait {
            trouble.asked_to_wait = trouble.asked_to_wait.max(now + told);
            trouble.until = trouble.until.max(now + told);
        }
        self.trouble = Some(trouble);
        known.is_none().then_some(PaceChange::Degraded)
    }

    /// The end of an outage ends the backoff (spec W-14). The trouble is over once a request is
    /// answered.
    pub fn server_is_back(&mut self, now: Tick) {
        if let Some(trouble) = &mut self.trouble {
            trouble.failures = 0;
            trouble.until = trouble.until.min(trouble.asked_to_wait.max(now));
        }
    }

    pub fn limit_rate(&mut self, most: Option<u32>, now: Tick) {
        if most != self.limits.max_rate {
            self.limits.max_rate = most;
            self.rate = most.map(|most| Rate::new(most, now));
        }
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Tick {
        Tick::after_start(Duration::from_millis(millis))
    }

    fn now(millis: u64) -> Now {
        Now::new(at(millis), jiff::Timestamp::UNIX_EPOCH)
    }

    fn pace(max_rate: Option<u32>) -> Pace {
        let backoff = Backoff {
            initial: Duration::from_millis(200),
            max: Duration::from_secs(5),
        };
        Pace::new(
            Limits {
                max_in_flight: 32,
                max_rate,
                backoff,
            },
            at(0),
        )
    }

    fn send_all(pace: &mut Pace, millis: u64) -> u32 {
        let room = pace.room(at(millis));
        (0..room).for_each(|_| pace.sent());
        room
    }

    // spec: A-6
    #[test]
    fn requests_start_slowly_and_double_until_their_limit() {
        let mut pace = pace(None);
        let mut bursts = Vec::new();
        for round in 0..7 {
            let sent = send_all(&mut pace, round);
            bursts.push(sent);
            for _ in 0..sent {
                pace.answered(at(round), Health::Works, now(round), 0.0);
            }
        }
        assert_eq!(bursts, [1, 2, 4, 8, 16, 32, 32]);
    }

    // spec: A-6
    #[test]
    fn a_refusal_ends_the_ramp_and_a_success_resumes_it() {
        let mut pace = pace(None);
        for _ in 0..3 {
            let sent = send_all(&mut pace, 0);
            for _ in 0..sent {
                pace.answered(at(0), Health::Works, now(0), 0.0);
            }
        }
        assert_eq!(pace.room(at(0)), 8);
        pace.sent();
        pace.answered(at(0), Health::Refused, now(1), 0.0);
        assert_eq!(pace.room(at(1)), 1);
        pace.sent();
        pace.answered(at(1), Health::Works, now(2), 0.0);
        assert_eq!(pace.room(at(2)), 2);
    }

    // spec: A-20
    #[test]
    fn a_server_that_asks_to_wait_gets_that_time() {
        let mut pace = pace(None);
        pace.sent();
        let wait = Health::Wait(Some(Duration::from_secs(7)));
        assert_eq!(
            pace.answered(at(0), wait, now(10), 0.0),
            Some(PaceChange::Degraded)
        );
        assert_eq!(pace.room(at(7_009)), 0);
        assert_eq!(pace.next_room(at(20)), Some(at(7_010)));
        assert_eq!(pace.room(at(7_010)), 1);
    }

    // spec: A-26
    #[test]
    fn backoff_of_a_failing_server_has_no_limit_and_its_begin_and_end_are_reported() {
        let mut pace = pace(None);
        let mut waits = Vec::new();
        let mut time = 0;
        for n in 0..9 {
            assert_eq!(send_all(&mut pace, time), 1, "try {n} at {time}");
            let turn = pace.answered(at(time), Health::Trouble, now(time), 0.0);
            assert_eq!(turn, (n == 0).then_some(PaceChange::Degraded));
            let until = pace.next_room(at(time)).unwrap().since(at(0)).as_millis() as u64;
            waits.push(until - time);
            time = until;
        }
        assert_eq!(
            waits,
            [200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000, 5_000]
        );
        send_all(&mut pace, time);
        let turn = pace.answered(at(time), Health::Works, now(time), 0.0);
        assert_eq!(
            turn,
            Some(PaceChange::Recovered(Duration::from_millis(time)))
        );
    }

    // spec: W-14
    #[test]
    fn the_end_of_an_outage_ends_the_backoff_but_not_a_wait_that_the_server_asked_for() {
        let mut pace = pace(None);
        let mut time = 0;
        for _ in 0..9 {
            send_all(&mut pace, time);
            pace.answered(at(time), Health::Trouble, now(time), 0.0);
            time = pace.next_room(at(time)).unwrap().since(at(0)).as_millis() as u64;
        }
        send_all(&mut pace, time);
        pace.answered(at(time), Health::Trouble, now(time), 0.0);
        assert_eq!(pace.room(at(time + 1)), 0);
        pace.server_is_back(at(time + 1));
        assert_eq!(pace.room(at(time + 1)), 1);
        pace.sent();
        pace.answered(at(time + 1), Health::Trouble, now(time + 2), 0.0);
        assert_eq!(
            pace.next_room(at(time + 2)),
            Some(at(time + 202)),
            "and begins anew"
        );
        pace.sent();
        let wait = Health::Wait(Some(Duration::from_secs(7)));
        pace.answered(at(time + 202), wait, now(time + 202), 0.0);
        pace.server_is_back(at(time + 203));
        assert_eq!(pace.next_room(at(time + 203)), Some(at(time + 7_202)));
    }

    // spec: A-26
    #[test]
    fn many_requests_that_fail_together_are_one_step() {
        let mut pace = pace(None);
        (0..20).for_each(|_| pace.sent());
        for millis in 1..=20 {
            pace.answered(at(0), Health::Trouble, now(millis), 0.0);
        }
        assert_eq!(pace.next_room(at(20)), Some(at(201)));
    }

    // spec: A-20
    #[test]
    fn a_request_sent_before_the_server_asked_to_wait_does_not_end_the_wait() {
        let mut pace = pace(None);
        (0..20).for_each(|_| pace.sent());
        let wait = Health::Wait(Some(Duration::from_secs(7)));
        pace.answered(at(0), wait, now(10), 0.0);
        for _ in 1..20 {
            assert_eq!(pace.answered(at(0), Health::Works, now(11), 0.0), None);
        }
        assert_eq!((pace.in_flight(), pace.room(at(7_009))), (0, 0));
        assert_eq!(pace.room(at(7_010)), 1, "and it begins slowly again");
    }
}
