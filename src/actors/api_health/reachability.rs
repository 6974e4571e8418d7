//! Decides whether the API server answers: a function of the state, an event and the time (spec
//! W-8).
//!
//! One failed call proves nothing about the server: the call may be one that always fails. So a
//! failure leads to a probe, and only a probe that fails too makes an outage. A server that answers
//! the probe has had none, and the failed call keeps its own backoff.

use std::ops::RangeInclusive;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::kubernetes::FailureKind;
use crate::model::Tick;

/// From the first failure to the probe, in ms. A busy driver's other calls are answered in this
/// time, and no probe is needed.
const FIRST_PROBE_MS: RangeInclusive<u64> = 500..=1_000;

/// Between the beginnings of two probes during an outage, in ms. It bounds how late the driver
/// finds out that the server is back.
const PROBE_EVERY_MS: RangeInclusive<u64> = 1_000..=2_000;

/// How long after the first answer the last caller is informed, in ms.
const SPREAD_MS: RangeInclusive<u64> = 0..=500;

/// The least time between two reports that the server is back. Each report begins all backoffs
/// anew: a server that answers every other call would be called without pause.
const REPORT_GAP: Duration = Duration::from_secs(10);

/// What the outcome of a call shows about the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallResult {
    /// It works, even if it refused this call.
    Answer,
    /// Nothing, or an error of the network or of the server.
    Nothing,
    /// 401, 403 or 429, or a request to wait. A server that has just started answers so before it
    /// works: neither an outage nor the end of one.
    Unclear,
}

impl CallResult {
    pub fn of(failure: Option<FailureKind>) -> Self {
        match failure {
            Some(FailureKind::Wait | FailureKind::Rights | FailureKind::Credentials) => {
                Self::Unclear
            }
            Some(failure) if failure.is_outage() => Self::Nothing,
            Some(_) | None => Self::Answer,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A call of any actor has ended, and how long it took.
    Called(CallResult, Duration),
    /// The probe has ended.
    Probed(CallResult),
    /// The timer rings.
    Alarm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Arm the timer, replacing the previous one.
    Arm { after: Duration },
    /// Make a cheap call.
    Probe,
    /// Inform all callers.
    Back {
        /// How long no call was answered.
        after: Duration,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Works,
    /// A call has failed, and no probe has yet.
    Suspected {
        since: Tick,
    },
    /// No call was answered since, the probe neither.
    Outage {
        since: Tick,
    },
}

#[derive(Debug)]
pub struct Reachability {
    state: State,
    rng: StdRng,
    /// When the probe in flight began.
    probing: Option<Tick>,
    /// When the callers were last informed.
    reported: Option<Tick>,
}

impl Reachability {
    pub fn new(rng: StdRng) -> Self {
        Self {
            state: State::Works,
            rng,
            probing: None,
            reported: None,
        }
    }

    /// Whether no call is known to have failed since the last answer.
    pub fn works(&self) -> bool {
        self.state == State::Works
    }

    /// How long after the first answer a caller is informed.
    pub fn spread(&mut self) -> Duration {
        Duration::from_millis(self.rng.random_range(SPREAD_MS))
    }

    pub fn step(&mut self, event: Event, now: Tick) -> Option<Effect> {
        match (self.state, event) {
            // The answer to a call from before says nothing of the time since.
            (
                State::Suspected { since } | State::Outage { since },
                Event::Called(CallResult::Answer, took),
            ) if took > now.since(since) => None,
            (State::Works, Event::Called(CallResult::Nothing, _)) => {
                self.state = State::Suspected { since: now };
                // The answer to a probe in flight decides as well.
                let due = self.probing.is_none();
                due.then(|| self.arm(FIRST_PROBE_MS, Duration::ZERO))
            }
            (State::Suspected { .. }, Event::Called(CallResult::Answer, _)) => {
                self.state = State::Works;
                None
            }
            (State::Outage { since }, Event::Called(CallResult::Answer, _)) => {
                self.answered(since, now)
            }
            (State::Suspected { .. } | State::Outage { .. }, Event::Alarm)
                if self.probing.is_none() =>
            {
                self.probing = Some(now);
                Some(Effect::Probe)
            }
            (state, Event::Probed(heard)) => {
                let took = self
                    .probing
                    .take()
                    .map_or(Duration::ZERO, |at| now.since(at));
                self.probed(state, heard, took, now)
            }
            // The remaining events are outdated alarms, and outcomes that show nothing new.
            (
                State::Works | State::Suspected { .. } | State::Outage { .. },
                Event::Called(..) | Event::Alarm,
            ) => None,
        }
    }

    fn probed(
        &mut self,
        state: State,
        heard: CallResult,
        took: Duration,
        now: Tick,
    ) -> Option<Effect> {
        match (state, heard) {
            (State::Works, _) => None,
            (State::Suspected { .. }, CallResult::Answer | CallResult::Unclear) => {
                self.state = State::Works;
                None
            }
            (State::Suspected { since }, CallResult::Nothing) => {
                self.state = State::Outage { since };
                Some(self.arm(PROBE_EVERY_MS, took))
            }
            (State::Outage { since }, CallResult::Answer) => {
                let back = self.answered(since, now);
                back.or_else(|| Some(self.arm(PROBE_EVERY_MS, took)))
            }
            (State::Outage { .. }, CallResult::Nothing | CallResult::Unclear) => {
                Some(self.arm(PROBE_EVERY_MS, took))
            }
        }
    }

    /// An answer ends the outage, unless the last one ended a moment ago. Then a later answer does,
    /// at the latest one to a probe.
    fn answered(&mut self, since: Tick, now: Tick) -> Option<Effect> {
        let reported = self.reported;
        if reported.is_some_and(|reported| now.since(reported) < REPORT_GAP) {
            return None;
        }
        self.reported = Some(now);
        self.state = State::Works;
        let after = now.since(since);
        Some(Effect::Back { after })
    }

    /// Arms the timer of the next probe. `took`: how much of the time has passed.
    fn arm(&mut self, within_ms: RangeInclusive<u64>, took: Duration) -> Effect {
        let after = Duration::from_millis(self.rng.random_range(within_ms));
        Effect::Arm {
            after: after.saturating_sub(took),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn at(millis: u64) -> Tick {
        Tick::after_start(Duration::from_millis(millis))
    }

    /// The state, its clock in ms, and its armed timer.
    struct Driven {
        reachability: Reachability,
        now: u64,
        armed: Option<u64>,
    }

    impl Driven {
        fn new(seed: u64) -> Self {
            Self {
                reachability: Reachability::new(StdRng::seed_from_u64(seed)),
                now: 0,
                armed: None,
            }
        }

        fn step(&mut self, event: Event) -> Option<Effect> {
            let effect = self.reachability.step(event, at(self.now));
            if let Some(Effect::Arm { after }) = effect {
                let after = u64::try_from(after.as_millis()).unwrap();
                self.armed = Some(self.now + after);
            }
            effect
        }

        fn called(&mut self, heard: CallResult) -> Option<Effect> {
            self.step(Event::Called(heard, Duration::ZERO))
        }

        /// Lets the timer ring, and the probe end as given.
        fn probe(&mut self, heard: CallResult) -> Option<Effect> {
            let at = self.armed.take().unwrap();
            self.now = self.now.max(at);
            assert_eq!(self.step(Event::Alarm), Some(Effect::Probe));
            self.step(Event::Probed(heard))
        }

        /// In an outage since the time 0.
        fn in_an_outage(seed: u64) -> Self {
            let mut driven = Self::new(seed);
            driven.called(CallResult::Nothing);
            driven.probe(CallResult::Nothing);
            driven
        }
    }

    fn back(millis: u64) -> Option<Effect> {
        let after = Duration::from_millis(millis);
        Some(Effect::Back { after })
    }

    // spec: W-8, W-14
    #[test]
    fn the_first_answer_to_any_call_ends_an_outage_once() {
        let mut driven = Driven::in_an_outage(1);
        for _ in 0..20 {
            driven.called(CallResult::Nothing);
            driven.probe(CallResult::Nothing);
        }
        driven.now = 60_000;
        assert_eq!(driven.called(CallResult::Answer), back(60_000));
        assert_eq!(driven.called(CallResult::Answer), None);
        let mut driven = Driven::in_an_outage(1);
        driven.armed = Some(5_000);
        assert_eq!(driven.probe(CallResult::Answer), back(5_000), "a probe too");
    }

    // spec: W-14
    #[test]
    fn the_answer_to_a_call_that_began_before_an_outage_does_not_end_it() {
        let mut driven = Driven::in_an_outage(1);
        driven.now = 2_000;
        let answer = |took| Event::Called(CallResult::Answer, Duration::from_millis(took));
        assert_eq!(driven.step(answer(2_001)), None);
        assert_eq!(driven.step(answer(2_000)), back(2_000));
    }

    // spec: W-8
    #[test]
    fn during_an_outage_a_probe_begins_every_two_seconds_at_the_latest() {
        for seed in 0..50 {
            let mut driven = Driven::new(seed);
            driven.called(CallResult::Nothing);
            let mut begun = driven.now;
            for probe in 0..20 {
                let at = driven.armed.take().unwrap();
                assert!((begun + 500..=begun + 2_000).contains(&at), "{begun} {at}");
                (driven.now, begun) = (at, at);
                driven.step(Event::Alarm);
                // Every other probe is not answered at all.
                driven.now += if probe % 2 == 0 { 2_000 } else { 0 };
                driven.step(Event::Probed(CallResult::Nothing));
            }
        }
    }

    // spec: W-8
    #[test]
    fn a_call_that_always_fails_while_the_server_answers_others_is_no_outage() {
        let mut driven = Driven::new(2);
        for _ in 0..50 {
            assert!(driven.called(CallResult::Nothing).is_some());
            assert_eq!(driven.probe(CallResult::Answer), None);
            driven.called(CallResult::Nothing);
            assert_eq!(driven.called(CallResult::Answer), None);
            driven.now += 30_000;
        }
    }

    // spec: W-8
    #[test]
    fn a_refusal_for_rights_or_load_neither_begins_nor_ends_an_outage() {
        for kind in [
            FailureKind::Wait,
            FailureKind::Rights,
            FailureKind::Credentials,
        ] {
            assert_eq!(CallResult::of(Some(kind)), CallResult::Unclear);
        }
        for kind in [
            FailureKind::NotFound,
            FailureKind::Conflict,
            FailureKind::Invalid,
            FailureKind::Quota,
        ] {
            assert_eq!(CallResult::of(Some(kind)), CallResult::Answer);
        }
        for kind in [
            FailureKind::Server,
            FailureKind::Unreachable,
            FailureKind::Broken,
        ] {
            assert_eq!(CallResult::of(Some(kind)), CallResult::Nothing);
        }
        let mut driven = Driven::new(3);
        assert_eq!(driven.called(CallResult::Unclear), None);
        let mut driven = Driven::in_an_outage(3);
        assert_eq!(driven.called(CallResult::Unclear), None);
        assert!(matches!(
            driven.probe(CallResult::Unclear),
            Some(Effect::Arm { .. })
        ));
        driven.now = 9_000;
        assert_eq!(driven.called(CallResult::Answer), back(9_000));
    }

    // spec: W-8
    #[test]
    fn a_server_that_comes_and_goes_begins_the_backoffs_anew_every_ten_seconds_at_most() {
        let mut driven = Driven::new(4);
        let mut reports = Vec::new();
        while driven.now < 300_000 {
            driven.called(CallResult::Nothing);
            driven.probe(CallResult::Nothing);
            while !matches!(driven.reachability.state, State::Works) {
                if matches!(driven.probe(CallResult::Answer), Some(Effect::Back { .. })) {
                    reports.push(driven.now);
                }
            }
        }
        let gaps: Vec<u64> = reports.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(
            gaps.iter().all(|gap| (10_000..14_000).contains(gap)),
            "{gaps:?}"
        );
    }

    // spec: W-14
    #[test]
    fn the_callers_are_informed_within_half_a_second_and_not_all_at_once() {
        let mut driven = Driven::new(5);
        let delays: Vec<Duration> = (0..100).map(|_| driven.reachability.spread()).collect();
        assert!(
            delays
                .iter()
                .all(|delay| *delay <= Duration::from_millis(500))
        );
        assert!(
            delays
                .iter()
                .any(|delay| *delay >= Duration::from_millis(400))
        );
        assert!(
            delays
                .iter()
                .any(|delay| *delay <= Duration::from_millis(100))
        );
    }
}
