//! Decides when the watch on the application record is opened (spec W-10).

use std::sync::Arc;
use std::time::Duration;

use crate::model::Tick;
use boatswain_agent::backoff::Backoff;

/// The timeout of the watch, in seconds. Then the record is read, and watched from there.
pub const SECONDS: u32 = 300;

/// When a watch that the server has not ended is cancelled.
pub const DEADLINE: Duration = Duration::from_secs(SECONDS as u64 + 10);

/// The backoff between watches that end at once. A watch that lasts for its maximum resets it.
const AGAIN: Backoff = Backoff {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(30),
};

/// After so many watches in a row that ended at once, an operator is told.
const SAID_AFTER: u32 = 3;

#[derive(Debug, Default)]
pub struct Watching {
    open: Option<Tick>,
    failures: u32,
    not_before: Tick,
    /// Why the watch that is open, or the last one, failed.
    error: Option<Arc<str>>,
    is_said: bool,
}

/// What an operator is told, once.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    Fails(Arc<str>),
    Works,
}

impl Watching {
    /// Whether a watch must be opened now.
    pub fn is_due(&self, now: Tick) -> bool {
        self.open.is_none() && self.not_before <= now
    }

    /// When a watch may be opened; `None` while one is open.
    pub fn next_at(&self) -> Option<Tick> {
        self.open.is_none().then_some(self.not_before)
    }

    pub fn begin(&mut self, now: Tick) {
        self.open = Some(now);
        self.error = None;
    }

    /// The end of an outage ends the backoff (spec W-14).
    pub fn server_is_back(&mut self, now: Tick) {
        self.failures = 0;
        self.not_before = self.not_before.min(now);
    }

    /// The watch was not opened, or has shown an error.
    pub fn failed(&mut self, error: Arc<str>) {
        self.error = Some(error);
    }

    /// The open watch has shown that it works.
    pub fn works(&mut self) -> Option<Said> {
        self.failures = 0;
        std::mem::take(&mut self.is_said).then_some(Said::Works)
    }

    /// The watch was closed, although it may have worked.
    pub fn cancelled(&mut self) {
        self.open = None;
    }

    /// The watch has ended, or was not opened.
    pub fn ended(&mut self, now: Tick) -> Option<Said> {
        let lasted = self.open.take().map_or(Duration::ZERO, |at| now.since(at));
        let lasts = lasted >= AGAIN.max;
        self.failures = if lasts {
            1
        } else {
            self.failures.saturating_add(1)
        };
        self.not_before = now + AGAIN.delay(self.failures);
        if lasts {
            return std::mem::take(&mut self.is_said).then_some(Said::Works);
        }
        if self.failures < SAID_AFTER || std::mem::replace(&mut self.is_said, true) {
            return None;
        }
        let error = self.error.take();
        Some(Said::Fails(error.unwrap_or_else(|| "it ended".into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick::after_start(Duration::from_secs(seconds))
    }

    // spec: W-10
    #[test]
    fn one_watch_at_a_time() {
        let mut watching = Watching::default();
        assert!(watching.is_due(at(0)));
        watching.begin(at(0));
        assert!(!watching.is_due(at(100)));
        assert_eq!(watching.next_at(), None);
    }

    // spec: W-10
    #[test]
    fn watches_that_end_at_once_are_delayed_and_a_lasting_one_resets_the_delay() {
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

    // spec: W-10
    #[test]
    fn watches_that_end_at_once_are_told_of_after_three_and_again_when_one_works() {
        let mut watching = Watching::default();
        let mut said = Vec::new();
        let mut now = at(0);
        for _ in 0..5 {
            watching.begin(now);
            watching.failed("410".into());
            said.push(watching.ended(now));
            now = watching.next_at().unwrap();
        }
        let fails = Said::Fails("410".into());
        assert_eq!(said, [None, None, Some(fails), None, None]);
        watching.begin(now);
        assert_eq!(watching.works(), Some(Said::Works));
        assert_eq!(watching.works(), None);
        assert_eq!(watching.ended(now), None, "the first of another row");
        assert_eq!(watching.next_at(), Some(now + Duration::from_secs(1)));
    }
}
