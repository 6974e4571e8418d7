//! Limits the requests a second (spec A-3).

use std::time::Duration;

use crate::model::Tick;

/// No second exceeds the configured number: a burst is subtracted from the steady rate.
#[derive(Debug)]
pub struct Rate {
    spacing: Duration,
    /// How far ahead of steady spacing a burst may be.
    slack: Duration,
    burst: u32,
    /// When the next request is due at steady spacing; not before now.
    steady: Tick,
    now: Tick,
}

impl Rate {
    pub fn new(most: u32, now: Tick) -> Self {
        let most = most.max(1);
        let burst = (most / 20).max(1);
        let steadily = if burst > 1 { most - burst } else { most };
        // Rounded up, so that no second contains one more.
        let spacing = Duration::from_secs(1) / steadily + Duration::from_nanos(1);
        Self {
            spacing,
            slack: spacing * (burst - 1),
            burst,
            steady: now,
            now,
        }
    }

    pub fn room(&mut self, now: Tick) -> u32 {
        self.now = now;
        self.steady = self.steady.max(now);
        let ahead = now.until(self.steady);
        let Some(free) = self.slack.checked_sub(ahead) else {
            return 0;
        };
        let more = free.as_nanos() / self.spacing.as_nanos();
        u32::try_from(more).map_or(self.burst, |more| (more + 1).min(self.burst))
    }

    /// When there is room; `None` if there is now.
    pub fn next_room(&self, now: Tick) -> Option<Tick> {
        let missing = now.until(self.steady).checked_sub(self.slack)?;
        (!missing.is_zero()).then(|| now + missing)
    }

    pub fn sent(&mut self) {
        self.steady = self.steady.max(self.now) + self.spacing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Tick {
        Tick::after_start(Duration::from_millis(millis))
    }

    // spec: A-3
    #[test]
    fn no_more_than_max_rate_requests_leave_in_any_second() {
        for rate in [1, 3, 10, 39, 40, 500] {
            let mut pace = Rate::new(rate, at(0));
            let mut sent = Vec::new();
            for millis in 0..10_000 {
                for _ in 0..pace.room(at(millis)) {
                    sent.push(millis);
                    pace.sent();
                }
            }
            let in_second = |from: &u64| {
                let second = *from..from + 1_000;
                sent.iter().filter(move |at| second.contains(*at))
            };
            let most = sent.iter().map(|from| in_second(from).count()).max();
            assert!(most <= Some(rate as usize), "{most:?} of {rate}");
            let least = rate as usize * 9;
            assert!(
                sent.len() >= least,
                "{} in ten seconds of {rate}",
                sent.len()
            );
        }
    }

    // spec: A-3
    #[test]
    fn a_rate_has_room_at_the_time_it_returns() {
        let mut pace = Rate::new(3, at(0));
        let mut time = at(0);
        for _ in 0..50 {
            assert_eq!(pace.room(time), 1, "{time:?}");
            pace.sent();
            assert_eq!(pace.room(time), 0);
            time = pace.next_room(time).unwrap();
        }
    }
}
