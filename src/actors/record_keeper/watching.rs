//! When the application record is watched anew (spec W-7): pure.

use std::time::Duration;

use crate::model::Tick;
use boatswain_agent::backoff::Backoff;

/// The server ends the watch on the record after this many seconds; then the record is read, and watched from there.
pub const SECONDS: u32 = 300;

/// A watch that the server has not ended by then is cut.
pub const DEADLINE: Duration = Duration::from_secs(SECONDS as u64 + 10);

/// Between watches that end at once; one that lasted the longest of these waits begins the count anew.
const AGAIN: Backoff = Backoff {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(30),
};

/// The watch on the record.
#[derive(Debug, Default)]
pub struct Watching {
    /// Since when it is open, or being opened.
    open: Option<Tick>,
    failures: u32,
    not_before: Tick,
}

impl Watching {
    /// Whether the record is not watched and may be.
    pub fn is_due(&self, now: Tick) -> bool {
        self.open.is_none() && self.not_before <= now
    }

    /// When it may be watched, where it is not.
    pub fn next_at(&self) -> Option<Tick> {
        self.open.is_none().then_some(self.not_before)
    }

    /// A watch is being opened.
    pub fn begin(&mut self, now: Tick) {
        self.open = Some(now);
    }

    /// The watch is over, or was never opened.
    pub fn ended(&mut self, now: Tick) {
        let lasted = self.open.take().map_or(Duration::ZERO, |at| now.since(at));
        self.failures = if lasted >= AGAIN.max {
            1
        } else {
            self.failures.saturating_add(1)
        };
        self.not_before = now + AGAIN.delay(self.failures);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick::after_start(Duration::from_secs(seconds))
    }

    // spec: W-7
    #[test]
    fn one_watch_at_a_time() {
        let mut watching = Watching::default();
        assert!(watching.is_due(at(0)));
        watching.begin(at(0));
        assert!(!watching.is_due(at(100)));
        assert_eq!(watching.next_at(), None);
    }

    // spec: W-7
    #[test]
    fn watches_that_end_at_once_come_ever_less_often_and_one_that_lasted_begins_anew() {
        let mut watching = Watching::default();
        let mut now = at(0);
        let mut waits = Vec::new();
        for _ in 0..7 {
            watching.begin(now);
            watching.ended(now);
            let next = watching.next_at().unwrap();
            waits.push(next.since(now).as_secs());
            assert!(!watching.is_due(now));
            assert!(watching.is_due(next));
            now = next;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        watching.begin(now);
        now = now + Duration::from_secs(300);
        watching.ended(now);
        assert_eq!(watching.next_at(), Some(now + Duration::from_secs(1)));
    }
}
