//! The driver's clock, the only place that reads the time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
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
    From {
        start: Timestamp,
        steps: &'static [Step],
    },
}

/// The wall clock is set forward or back while ticks go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// When, counted from the clock's start.
    pub after: Duration,
    pub by: SignedDuration,
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
        Self::stepping_from(wall, &[])
    }

    /// The same, with steps of the wall time.
    pub fn stepping_from(start: Timestamp, steps: &'static [Step]) -> Self {
        Self {
            origin: Instant::now(),
            wall: Wall::From { start, steps },
        }
    }

    pub fn now(&self) -> Now {
        let elapsed = self.origin.elapsed();
        let wall = match self.wall {
            Wall::System => Timestamp::now(),
            Wall::From { start, steps } => (steps.iter())
                .filter(|step| step.after <= elapsed)
                // A time that no date can show is ignored. Only log readers see it.
                .fold(start.checked_add(elapsed).unwrap_or(start), |wall, step| {
                    wall.checked_add(step.by).unwrap_or(wall)
                }),
        };
        Now::new(Tick::after_start(elapsed), wall)
    }

    /// The tokio instant of a tick.
    pub fn instant(&self, tick: Tick) -> Instant {
        self.origin + tick.since(Tick::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_wall_time_steps_and_ticks_go_on() {
        let steps = [(10, 3_600), (20, -7_200)].map(|(after, by)| Step {
            after: Duration::from_secs(after),
            by: SignedDuration::from_secs(by),
        });
        let clock = Clock::stepping_from(Timestamp::UNIX_EPOCH, steps.to_vec().leak());
        let mut seen = Vec::new();
        for _ in 0..3 {
            tokio::time::advance(Duration::from_secs(9)).await;
            let now = clock.now();
            seen.push((
                now.tick.since(Tick::default()).as_secs(),
                now.wall.as_second(),
            ));
        }
        assert_eq!(seen, [(9, 9), (18, 3_618), (27, -3_573)]);
    }
}
