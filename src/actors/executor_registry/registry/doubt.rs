//! Decides whether the driver suspects itself rather than its executors (spec B-13, B-58, B-59): pure. No
//! executor is given up meanwhile. When the doubt ends, every executor gets one more timeout.

use std::fmt;
use std::time::Duration;

use crate::model::Tick;
use crate::planted::{self, Planted};

/// The fewest silent executors that are a mass loss where others are heard.
const MASS: usize = 3;
/// A fleet of at most this many cannot tell a broken path from a hung executor.
pub(super) const FEW: usize = 2;
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

/// Why the cluster's keys, with which executors' tokens are verified, are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoKeys {
    /// The API server answers the request for them with this code.
    Refused(u16),
    /// There is no answer, or none yet.
    Unanswered,
    /// The answer contains no key that can be used.
    Unusable,
}

impl fmt::Display for NoKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(code) => {
                write!(
                    f,
                    "the request for the cluster's keys is answered with {code}"
                )
            }
            Self::Unanswered => f.write_str("the request for the cluster's keys is not answered"),
            Self::Unusable => f.write_str("the cluster publishes no key that can be used"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyDoubt {
    /// The driver was paused for this long.
    StoodStill(Duration),
    NoApiServer,
    /// Executors that want to register, or to come back, cannot prove who they are.
    NoKeys(NoKeys),
    /// Too many executors fell silent at the same time.
    MassLoss {
        /// The number of executors that are about to be given up.
        silent: usize,
        /// The number of executors that are expected to send messages.
        of: usize,
    },
}

impl WhyDoubt {
    /// The reason as a metric label.
    pub fn word(self) -> &'static str {
        match self {
            Self::StoodStill(_) => "paused",
            Self::NoApiServer => "api-server",
            Self::NoKeys(_) => "keys",
            Self::MassLoss { .. } => "mass-loss",
        }
    }

    /// All reasons as metric labels.
    pub const WORDS: [&'static str; 4] = ["paused", "api-server", "keys", "mass-loss"];
}

impl fmt::Display for WhyDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StoodStill(pause) => {
                write!(f, "this process stood still for {} s", pause.as_secs())
            }
            Self::NoApiServer => write!(f, "the API server is out of reach"),
            Self::NoKeys(why) => write!(f, "executors' tokens cannot be verified: {why}"),
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
    /// a heartbeat, except those of a settled doubt. All if nobody is heard.
    pub(super) silent: usize,
    /// All executors that are expected to send messages.
    pub(super) of: usize,
    /// The last sign of life of any executor.
    pub(super) last_sign: Option<Tick>,
}

/// Doubt has begun or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DoubtChange {
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
    /// Why executors' tokens cannot be verified, if one could not.
    no_keys: Option<NoKeys>,
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
            no_keys: None,
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

    /// Since when no API call was answered.
    pub(super) fn unanswered(&mut self, since: Option<Tick>) {
        let known = self.no_answers.map(|(since, _)| since);
        if since != known {
            self.no_answers = since.map(|since| (since, false));
        }
    }

    /// Tokens cannot be verified for this reason, or can be again.
    pub(super) fn tokens(&mut self, no_keys: Option<NoKeys>) {
        self.no_keys = no_keys.filter(|_| !planted::is(Planted::KeysUndoubted));
    }

    /// Whether the driver was paused since the last check. Call before counting silent executors.
    pub(super) fn wake(&mut self, now: Tick) -> Option<DoubtChange> {
        let paused = self
            .looked
            .map_or(Duration::ZERO, |looked| now.since(looked));
        self.looked = Some(now);
        let pause = paused.saturating_sub(self.patience.look);
        (pause > self.patience.interval && self.now.is_none())
            .then(|| self.begin(WhyDoubt::StoodStill(pause), now))
    }

    /// Begins or ends the doubt according to these facts.
    pub(super) fn look(&mut self, look: Look, now: Tick) -> Option<DoubtChange> {
        let Some((why, since)) = self.now else {
            return self.reason(look, now).map(|why| self.begin(why, now));
        };
        let over = match why {
            WhyDoubt::StoodStill(_) => now.since(since) >= self.patience.interval,
            WhyDoubt::NoApiServer => self.no_answers.is_none(),
            WhyDoubt::NoKeys(_) => self.no_keys.is_none(),
            // Also when those that fell silent have ended: nobody else has reached the driver yet.
            WhyDoubt::MassLoss { .. } => {
                !self.is_mass(look) && look.last_sign.is_some_and(|sign| sign >= since)
            }
        };
        let heard = (look.last_sign).is_some_and(|sign| now.since(sign) <= self.patience.interval);
        let lasted = now.since(since);
        // That most of a fleet has ended meanwhile makes it no fleet of a few.
        let fleet = match why {
            WhyDoubt::MassLoss { of, .. } => of.max(look.of),
            _ => look.of,
        };
        let long_enough = match heard {
            // That others are heard says nothing about executors that cannot prove who they are.
            _ if matches!(why, WhyDoubt::NoKeys(_)) => false,
            true => lasted >= self.patience.timeout,
            false => fleet <= FEW && lasted >= self.patience.timeout * LONGEST,
        };
        if let (WhyDoubt::NoKeys(_), Some(newest)) = (why, self.no_keys) {
            self.now = Some((WhyDoubt::NoKeys(newest), since));
        }
        // Silence that tokens explain is no reason to doubt the path.
        let explained = matches!(why, WhyDoubt::MassLoss { .. }) && self.no_keys.is_some();
        if !over && !long_enough && !explained {
            return None;
        }
        if !over && !explained {
            self.settled = Some(now);
            if let Some((_, had_its_time)) = &mut self.no_answers {
                *had_its_time = true;
            }
        }
        if let Some(why) = self.no_keys {
            return Some(self.begin(WhyDoubt::NoKeys(why), now));
        }
        self.now = None;
        self.grace_from = now;
        Some(DoubtChange::Recovered)
    }

    fn begin(&mut self, why: WhyDoubt, now: Tick) -> DoubtChange {
        self.now = Some((why, now));
        DoubtChange::Degraded(why)
    }

    fn reason(&self, look: Look, now: Tick) -> Option<WhyDoubt> {
        if let Some((since, false)) = self.no_answers
            && now.since(since) >= self.patience.interval
        {
            return Some(WhyDoubt::NoApiServer);
        }
        if let Some(why) = self.no_keys {
            return Some(WhyDoubt::NoKeys(why));
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
mod tests;
