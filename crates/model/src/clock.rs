//! The clock value that each decision gets: a monotonic tick and the wall time.

use std::ops::Add;
use std::time::Duration;

use jiff::Timestamp;

/// The time since this process started, by a monotonic clock. Durations and deadlines use ticks only, so a jump of the
/// wall clock has no effect on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tick(Duration);

impl Tick {
    pub const fn after_start(since_start: Duration) -> Self {
        Self(since_start)
    }

    /// The time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Tick) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The time until `later`; zero if it has passed.
    pub fn until(self, later: Tick) -> Duration {
        later.since(self)
    }
}

impl Add<Duration> for Tick {
    type Output = Tick;

    fn add(self, rhs: Duration) -> Tick {
        Tick(self.0.saturating_add(rhs))
    }
}

/// The time at which a decision is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// For every duration and deadline.
    pub tick: Tick,
    /// For text, and for values kept across a restart; never compared with a tick.
    pub wall: Timestamp,
}

impl Now {
    pub fn new(tick: Tick, wall: Timestamp) -> Self {
        Self { tick, wall }
    }
}
