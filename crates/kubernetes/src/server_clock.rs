//! The API server's clock, as the dates of its answers show it (spec O-68). Pure.

use std::time::Duration;

use http::HeaderMap;
use http::header::DATE;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use tokio::time::Instant;

/// From this difference on, the clocks differ.
const DIFFERS: Duration = Duration::from_secs(60);

/// Below this difference, clocks that differed agree again.
const AGREES: Duration = Duration::from_secs(30);

/// The API server's time in an answer. The monotonic clock carries it on, because the wall clock may be set at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerClock {
    said: Timestamp,
    heard: Instant,
}

impl ServerClock {
    /// The clock according to an answer whose head was received at `heard`; `None` without a readable date.
    pub fn of_answer(headers: &HeaderMap, heard: Instant) -> Option<Self> {
        let date = headers.get(DATE)?.to_str().ok()?;
        let said = rfc2822::DateTimeParser::new().parse_timestamp(date).ok()?;
        Some(Self { said, heard })
    }

    pub fn at(self, now: Instant) -> Timestamp {
        let since = now.saturating_duration_since(self.heard);
        // A time that no date can show is ignored.
        self.said.checked_add(since).unwrap_or(self.said)
    }
}

/// Whether this machine's clock differs from the API server's.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Comparison {
    differs: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Now by this much.
    Differs(Duration),
    Agrees,
}

impl Comparison {
    /// Compares the clocks, and returns what has changed since the last comparison.
    pub fn compare(&mut self, server: Timestamp, own: Timestamp) -> Option<Change> {
        let by = server.duration_since(own).unsigned_abs();
        let differs = by >= if self.differs { AGREES } else { DIFFERS };
        let before = std::mem::replace(&mut self.differs, differs);
        (differs != before).then_some(if differs {
            Change::Differs(by)
        } else {
            Change::Agrees
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dated(date: &str) -> Option<ServerClock> {
        let headers = HeaderMap::from_iter([(DATE, date.parse().unwrap())]);
        ServerClock::of_answer(&headers, Instant::now())
    }

    // spec: O-68
    #[tokio::test(start_paused = true)]
    async fn an_answers_date_is_carried_on_by_the_monotonic_clock() {
        let clock = dated("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        tokio::time::advance(Duration::from_secs(90)).await;
        let now = clock.at(Instant::now());
        assert_eq!(now.to_string(), "1994-11-06T08:51:07Z");
    }

    // spec: O-68
    #[tokio::test(start_paused = true)]
    async fn an_unreadable_or_missing_date_says_nothing() {
        for date in ["", "yesterday", "784111777", "Sun, 06 Nov 1994 08:49:37"] {
            assert_eq!(dated(date), None, "{date}");
        }
        assert_eq!(
            ServerClock::of_answer(&HeaderMap::new(), Instant::now()),
            None
        );
    }

    // spec: O-68
    #[test]
    fn a_difference_of_the_clocks_is_said_once_when_it_begins_and_once_when_it_ends() {
        let mut comparison = Comparison::default();
        let own = Timestamp::from_second(100_000).unwrap();
        let differs = |by| Some(Change::Differs(Duration::from_secs(by)));
        for (ahead, said) in [
            (0, None),
            (59, None),
            (-60, differs(60)),
            (-61, None),
            (40, None),
            (29, Some(Change::Agrees)),
            (59, None),
            (7_200, differs(7_200)),
        ] {
            let server = Timestamp::from_second(100_000 + ahead).unwrap();
            assert_eq!(comparison.compare(server, own), said, "{ahead}");
        }
    }
}
