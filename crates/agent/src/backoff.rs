//! Exponential backoff with jitter.

use std::time::Duration;

/// The delay after consecutive failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub initial: Duration,
    /// The longest delay, jitter included.
    pub max: Duration,
}

impl Backoff {
    /// The delay after failure number `failures` (1, 2, 3 …): doubles from `initial` up to `max`.
    pub fn delay(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.initial.saturating_mul(1 << doublings).min(self.max)
    }

    /// The same delay, shortened by up to a quarter, so that clients that failed at the same time
    /// do not retry at the same time. `random` is in [0, 1).
    pub fn jittered(&self, failures: u32, random: f64) -> Duration {
        self.delay(failures)
            .mul_f64(1.0 - random.clamp(0.0, 1.0) / 4.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_its_maximum_and_jitter_only_shortens_it() {
        let backoff = Backoff {
            initial: Duration::from_secs(1),
            max: Duration::from_secs(300),
        };
        let seconds = |n| backoff.delay(n).as_secs();
        assert_eq!(
            (seconds(1), seconds(2), seconds(3), seconds(9), seconds(10)),
            (1, 2, 4, 256, 300)
        );
        assert_eq!(backoff.delay(u32::MAX), backoff.max);
        assert_eq!(backoff.jittered(3, 0.0), Duration::from_secs(4));
        assert_eq!(backoff.jittered(3, 1.0), Duration::from_secs(3));
    }
}
