//! Bounds how often something may happen (spec O-56). Pure.

use std::time::Duration;

use crate::model::Tick;

/// A number of times at once, and then once each interval.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    pub burst: u32,
    pub interval: Duration,
}

/// What of a rate is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    /// When nothing is used up any more.
    until: Tick,
}

impl Rate {
    /// Uses the rate once.
    ///
    /// # Errors
    ///
    /// It is used up; the time after which it can be used again.
    pub fn take(&self, used: &mut Used, now: Tick) -> Result<(), Duration> {
        match self.wait(*used, now) {
            Duration::ZERO => {
                self.delay(used, now);
                Ok(())
            }
            wait => Err(wait),
        }
    }

    /// Uses the rate once, and returns after which time that is allowed.
    pub fn delay(&self, used: &mut Used, now: Tick) -> Duration {
        let wait = self.wait(*used, now);
        used.until = used.until.max(now) + self.interval;
        wait
    }

    fn wait(&self, used: Used, now: Tick) -> Duration {
        let ahead = now + self.interval * self.burst.saturating_sub(1);
        ahead.until(used.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: O-56
    #[test]
    fn a_burst_is_taken_at_once_and_then_one_each_interval() {
        let rate = Rate {
            burst: 3,
            interval: Duration::from_secs(1),
        };
        let at = |millis| Tick::after_start(Duration::from_millis(millis));
        let mut used = Used::default();
        let mut taken = |now, times: u32| (0..times).map(|_| rate.take(&mut used, now)).collect();
        let full: Vec<_> = taken(at(5_000), 4);
        assert_eq!(full, [Ok(()), Ok(()), Ok(()), Err(Duration::from_secs(1))]);
        let soon: Vec<_> = taken(at(5_600), 1);
        assert_eq!(soon, [Err(Duration::from_millis(400))]);
        let later: Vec<_> = taken(at(6_000), 2);
        assert_eq!(later, [Ok(()), Err(Duration::from_secs(1))]);
        // What is delayed is used as well.
        let delays: Vec<_> = (0..2)
            .map(|_| rate.delay(&mut used, at(6_000)).as_secs())
            .collect();
        assert_eq!(delays, [1, 2]);
        let mut taken = |now, times: u32| (0..times).map(|_| rate.take(&mut used, now)).collect();
        let rested: Vec<_> = taken(at(60_000), 4);
        assert_eq!(rested, full);
    }
}
