//! The driver's clock: the only place that tells the time.

use jiff::Timestamp;
use tokio::time::Instant;

use crate::model::{Now, Tick};

/// Tells the time: durations by the runtime's own clock, which tests pause; the date by the system's, or by a fixed
/// one that runs with the runtime's clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
    wall: Wall,
}

#[derive(Debug, Clone, Copy)]
enum Wall {
    System,
    From(Timestamp),
}

impl Clock {
    /// Begins now, with the system's date.
    pub fn system() -> Self {
        Self {
            origin: Instant::now(),
            wall: Wall::System,
        }
    }

    /// Begins now, and it is this date.
    pub fn starting_at(wall: Timestamp) -> Self {
        Self {
            origin: Instant::now(),
            wall: Wall::From(wall),
        }
    }

    /// What time it is.
    pub fn now(&self) -> Now {
        let elapsed = self.origin.elapsed();
        let wall = match self.wall {
            Wall::System => Timestamp::now(),
            // Beyond the last date there is none: it stays the first one, and only people read it.
            Wall::From(start) => start.checked_add(elapsed).unwrap_or(start),
        };
        Now::new(Tick::after_start(elapsed), wall)
    }

    /// The runtime's instant of a tick.
    pub fn instant(&self, tick: Tick) -> Instant {
        self.origin + tick.since(Tick::default())
    }
}
