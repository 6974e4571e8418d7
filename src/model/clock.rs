//! The one clock value that is handed to every decision.

use std::ops::Add;
use std::time::Duration;

use jiff::Timestamp;

/// A point on the driver's own monotonic clock: time since this process began.
///
/// Durations and deadlines are reckoned in ticks only, so a wall clock that jumps changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tick(Duration);

impl Tick {
    /// The tick this long after the process began.
    pub const fn after_start(since_start: Duration) -> Self {
        Self(since_start)
    }

    /// How long ago `earlier` was; zero where it is not earlier at all.
    pub fn since(self, earlier: Tick) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// How long until `later`; zero where it has passed.
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

/// The instant at which a decision is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// For every duration and deadline.
    pub tick: Tick,
    /// For what people read and what is kept over a restart; never compared with a tick.
    pub wall: Timestamp,
}

impl Now {
    /// A clock value from both its hands.
    pub fn new(tick: Tick, wall: Timestamp) -> Self {
        Self { tick, wall }
    }
}
