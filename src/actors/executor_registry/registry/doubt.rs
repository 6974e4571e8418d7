//! Decides whether the driver suspects itself rather than its executors (spec B-13): pure. No
//! executor is given up meanwhile. When the doubt ends, every executor gets one more timeout.

use std::fmt;
use std::time::Duration;

use crate::model::Tick;
use crate::planted::{self, Planted};

/// The fewest silent executors that are a mass loss where others are heard.
const MASS: usize = 3;
/// A fleet of at most this many cannot tell a broken path from a hung executor.
const FEW: usize = 2;
/// The longest doubt about so few, as a multiple of the heartbeat timeout.
const LONGEST: u32 = 10;

#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// The interval between heartbeats. A longer gap between two checks is a pause of the driver.
    pub(super) interval: Duration,
    /// The longest doubt while some executors still send messages.
    pub(super) timeout: Duration,
    /// A larger percentage of silent executors is a mass loss.
    pub(super) mass_loss: u32,
    /// The interval between two checks.
    pub(super) look: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyDoubt {
    /// The driver was paused for this long.
    StoodStill(Duration),
    NoApiServer,
    /// Too many executors fell silent at the same time.
    MassLoss {
        /// The number of executors that are about to be given up.
        silent: usize,
        /// The number of executors that are expected to send messages.
        of: usize,
    },
}

impl fmt::Display for WhyDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StoodStill(pause) => {
                write!(f, "this process stood still for {} s", pause.as_secs())
            }
            Self::NoApiServer => write!(f, "the API server is out of reach"),
            Self::MassLoss { silent, of } => {
                write!(f, "{silent} of {of} executors fell silent at the same time")
            }
        }
    }
}

/// The facts at one check.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// None if no executor would be given up within an interval; else those that would, and all others that have missed
    /// a heartbeat, except those of a settled doubt.
    pub(super) silent: usize,
    /// All executors that are expected to send messages.
    pub(super) of: usize,
    /// The last sign of life of any executor.
    pub(super) last_sign: Option<Tick>,
}

/// Doubt has begun or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Degraded(WhyDoubt),
    Recovered,
}

#[derive(Debug, Clone)]
pub(super) struct Doubt {
    patience: Patience,
    now: Option<(WhyDoubt, Tick)>,
    /// The earliest time from which the silence of any executor counts.
    pub(super) grace_from: Tick,
    /// When a doubt timed out: executors that had missed a heartbeat by then are no reason for another one.
    pub(super) settled: Option<Tick>,
    looked: Option<Tick>,
    /// Since when API calls have failed, and whether a doubt for that reason has timed out.
    no_answers: Option<(Tick, bool)>,
}

impl Doubt {
    pub(super) fn new(patience: Patience) -> Self {
        Self {
            patience,
            now: None,
            grace_from: Tick::default(),
            settled: None,
            looked: None,
            no_answers: None,
        }
    }

    pub(super) fn reconfigure(&mut self, timeout: Duration, mass_loss: u32) {
        self.patience.timeout = timeout;
        self.patience.mass_loss = mass_loss;
    }

    /// The reason for the doubt, and its beginning.
    pub(super) fn current(&self) -> Option<(WhyDoubt, Tick)> {
        self.now
    }

    pub(super) fn call(&mut self, answered: bool, now: Tick) {
        match (answered, self.no_answers) {
            (true, _) => self.no_answers = None,
            (false, None) => self.no_answers = Some((now, false)),
            (false, Some(_)) => {}
        }
    }

    /// Whether the driver was paused since the last check. Call before counting silent executors.
    pub(super) fn wake(&mut self, now: Tick) -> Option<Turn> {
        let paused = self
            .looked
            .map_or(Duration::ZERO, |looked| now.since(looked));
        self.looked = Some(now);
        let pause = paused.saturating_sub(self.patience.look);
        (pause > self.patience.interval && self.now.is_none())
            .then(|| self.begin(WhyDoubt::StoodStill(pause), now))
    }

    /// Begins or ends the doubt according to these facts.
    pub(super) fn look(&mut self, look: Look, now: Tick) -> Option<Turn> {
        let Some((why, since)) = self.now else {
            return self.reason(look, now).map(|why| self.begin(why, now));
        };
        let over = match why {
            WhyDoubt::StoodStill(_) => now.since(since) >= self.patience.interval,
            WhyDoubt::NoApiServer => self.no_answers.is_none(),
            // Also when those that fell silent have ended: nobody else has reached the driver yet.
            WhyDoubt::MassLoss { .. } => {
                !self.is_mass(look) && look.last_sign.is_some_and(|sign| sign >= since)
            }
        };
        let heard = (look.last_sign).is_some_and(|sign| now.since(sign) <= self.patience.interval);
        let lasted = now.since(since);
        let long_enough = match heard {
            true => lasted >= self.patience.timeout,
            false => look.of <= FEW && lasted >= self.patience.timeout * LONGEST,
        };
        if !over && !long_enough {
            return None;
        }
        if !over {
            self.settled = Some(now);
            if let Some((_, had_its_time)) = &mut self.no_answers {
                *had_its_time = true;
            }
        }
        self.now = None;
        self.grace_from = now;
        Some(Turn::Recovered)
    }

    fn begin(&mut self, why: WhyDoubt, now: Tick) -> Turn {
        self.now = Some((why, now));
        Turn::Degraded(why)
    }

    fn reason(&self, look: Look, now: Tick) -> Option<WhyDoubt> {
        if let Some((since, false)) = self.no_answers
            && now.since(since) >= self.patience.interval
        {
            return Some(WhyDoubt::NoApiServer);
        }
        let Look { silent, of, .. } = look;
        let is_mass = self.is_mass(look) && !planted::is(Planted::MassLossUndoubted);
        is_mass.then_some(WhyDoubt::MassLoss { silent, of })
    }

    fn is_mass(&self, look: Look) -> bool {
        let share = self.patience.mass_loss as usize;
        let too_many = look.silent >= MASS && look.silent * 100 > share * look.of;
        too_many || look.silent * 2 > look.of
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    const PATIENCE: Patience = Patience {
        interval: Duration::from_secs(10),
        timeout: Duration::from_secs(120),
        mass_loss: 20,
        look: Duration::from_secs(1),
    };

    fn silent(silent: usize, of: usize, last_sign: u64) -> Look {
        let last_sign = Some(at(last_sign * 1000));
        Look {
            silent,
            of,
            last_sign,
        }
    }

    /// The changes of a doubt that is checked every second.
    fn turns(
        doubt: &mut Doubt,
        seconds: std::ops::Range<u64>,
        look: impl Fn(u64) -> Look,
    ) -> Vec<(u64, Turn)> {
        let mut turns = Vec::new();
        for second in seconds {
            let now = at(second * 1000);
            turns.extend(doubt.wake(now).map(|turn| (second, turn)));
            turns.extend(doubt.look(look(second), now).map(|turn| (second, turn)));
        }
        turns
    }

    // spec: B-13
    #[test]
    fn a_percentage_from_three_executors_on_or_more_than_half_of_the_fleet_is_a_mass_loss() {
        for (gone, of, mass) in [
            (0, 0, false),
            (1, 1, true),
            (1, 2, false),
            (2, 2, true),
            (2, 3, true),
            (2, 4, false),
            (3, 3, true),
            (3, 14, true),
            (3, 15, false),
            (20, 100, false),
            (21, 100, true),
        ] {
            let mut doubt = Doubt::new(PATIENCE);
            let turn = doubt.look(silent(gone, of, 0), at(0));
            assert_eq!(turn.is_some(), mass, "{gone} of {of}");
        }
    }

    // spec: B-13
    #[test]
    fn a_pause_longer_than_an_interval_causes_doubt_for_an_interval() {
        let mut doubt = Doubt::new(PATIENCE);
        assert_eq!(turns(&mut doubt, 0..5, |n| silent(0, 9, n)), []);
        // From 4 to 15 are 11 s, of which 1 s is usual: not a pause. From 19 to 40 is one.
        assert_eq!(turns(&mut doubt, 15..20, |n| silent(0, 9, n)), []);
        let turns = turns(&mut doubt, 40..80, |n| silent(0, 9, n));
        let paused = WhyDoubt::StoodStill(Duration::from_secs(20));
        assert_eq!(turns, [(40, Turn::Degraded(paused)), (50, Turn::Recovered)]);
        assert_eq!(doubt.grace_from, at(50_000));
    }

    // spec: B-13
    #[test]
    fn an_unreachable_api_server_causes_doubt_until_it_answers() {
        let mut doubt = Doubt::new(PATIENCE);
        doubt.call(false, at(1_000));
        doubt.call(false, at(5_000));
        let begun = turns(&mut doubt, 0..60, |n| silent(0, 9, n));
        assert_eq!(begun, [(11, Turn::Degraded(WhyDoubt::NoApiServer))]);
        doubt.call(true, at(60_000));
        let over = turns(&mut doubt, 60..200, |n| silent(0, 9, n));
        assert_eq!(over, [(60, Turn::Recovered)]);
    }

    // spec: B-13
    #[test]
    fn failed_calls_among_others_cause_no_doubt() {
        let mut doubt = Doubt::new(PATIENCE);
        for second in 0..100 {
            doubt.call(second % 5 != 0, at(second * 1000));
            let turns = turns(&mut doubt, second..second + 1, |n| silent(0, 9, n));
            assert_eq!(turns, [], "{second}");
        }
    }

    // spec: B-13
    #[test]
    fn a_mass_loss_while_others_send_messages_causes_doubt_once_for_one_timeout() {
        let mut doubt = Doubt::new(PATIENCE);
        let half = turns(&mut doubt, 0..500, |n| match doubt_settled(n) {
            true => silent(0, 10, n),
            false => silent(5, 10, n),
        });
        let mass = WhyDoubt::MassLoss { silent: 5, of: 10 };
        assert_eq!(half, [(0, Turn::Degraded(mass)), (120, Turn::Recovered)]);
        assert_eq!(doubt.settled, Some(at(120_000)));
    }

    /// Executors that were silent before a doubt was settled are not counted again.
    fn doubt_settled(second: u64) -> bool {
        second > 120
    }

    // spec: B-13, I-12
    #[test]
    fn without_any_message_the_doubt_lasts() {
        let mut doubt = Doubt::new(PATIENCE);
        let all = turns(&mut doubt, 0..10_000, |_| silent(10, 10, 0));
        assert_eq!(all.len(), 1, "{all:?}");
        let back = turns(&mut doubt, 10_000..10_100, |n| silent(0, 10, n));
        assert_eq!(back, [(10_000, Turn::Recovered)]);
    }

    // spec: B-13, I-12
    #[test]
    fn a_doubt_about_executors_that_have_ended_meanwhile_lasts_until_others_are_heard() {
        let mut doubt = Doubt::new(PATIENCE);
        let ended = turns(&mut doubt, 1..500, |n| match n < 20 {
            true => silent(10, 10, 0),
            false => silent(0, 0, 0),
        });
        let mass = WhyDoubt::MassLoss { silent: 10, of: 10 };
        assert_eq!(ended, [(1, Turn::Degraded(mass))]);
        let heard = turns(&mut doubt, 500..510, |n| silent(0, 1, n));
        assert_eq!(heard, [(500, Turn::Recovered)]);
    }

    // spec: B-13
    #[test]
    fn an_outage_whose_doubt_timed_out_causes_none_until_the_server_has_answered() {
        let mut doubt = Doubt::new(PATIENCE);
        doubt.call(false, at(0));
        let outage = turns(&mut doubt, 0..1_000, |n| silent(0, 9, n));
        let begun = (10, Turn::Degraded(WhyDoubt::NoApiServer));
        assert_eq!(outage, [begun, (130, Turn::Recovered)]);
        doubt.call(true, at(1_000_000));
        doubt.call(false, at(1_001_000));
        assert_eq!(
            turns(&mut doubt, 1_000..1_050, |n| silent(0, 9, n)).len(),
            1
        );
    }
}
