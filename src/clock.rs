//! The driver's clock, the only place that reads the time.

use jiff::Timestamp;
use tokio::time::Instant;

use crate::model::{Now, Tick};

/// Ticks come from tokio's clock, which tests can pause. The wall time comes from the system, or from a start time that
/// advances with tokio's clock.
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
    /// A clock that starts now, with the system's wall time.
    pub fn system() -> Self {
        Self {
            origin: Instant::now(),
            wall: Wall::System,
        }
    }

    /// A clock that starts now, at this wall time.
    pub fn starting_at(wall: Timestamp) -> Self {
        Self {
            origin: Instant::now(),
            wall: Wall::From(wall),
        }
    }

    pub fn now(&self) -> Now {
        let elapsed = self.origin.elapsed();
        let wall = match self.wall {
            Wall::System => Timestamp::now(),
            // After the last possible date the start time is returned. Only log readers see it.
            Wall::From(start) => start.checked_add(elapsed).unwrap_or(start),
        };
        Now::new(Tick::after_start(elapsed), wall)
    }

    /// The tokio instant of a tick.
    pub fn instant(&self, tick: Tick) -> Instant {
        self.origin + tick.since(Tick::default())
    }
}
