//! Counts failures within a time window: exactly while they are few, in bounded space when they are
//! many (spec L-30, O-30).

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;

use crate::model::failures::Times;
use crate::model::{Now, Tick};

/// The most failures that are recorded one by one.
const EXACT: usize = 256;

/// Further failures are grouped by this fraction of the window. They count longer than the window
/// by at most that fraction, and never shorter.
const PARTS: u32 = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// How long a failure counts; zero: forever.
    length: Duration,
    groups: VecDeque<Group>,
    count: u32,
}

/// Failures that are forgotten together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group {
    /// When the first of them would be forgotten, on the driver's clock.
    first_until: Tick,
    /// When all are forgotten: when the last of them is.
    until: Tick,
    /// When the last of them happened, for the record.
    wall: Timestamp,
    count: u32,
}

impl Window {
    /// An empty window; `length` zero: nothing is ever forgotten.
    pub fn new(length: Duration) -> Self {
        Self {
            length,
            groups: VecDeque::new(),
            count: 0,
        }
    }

    /// Continues from what an earlier incarnation wrote. The two drivers' wall clocks may differ: a
    /// time in the future counts as now.
    pub fn resume(length: Duration, saved: &Times, now: Now) -> Self {
        let mut window = Self::new(length);
        for &(millis, count) in saved {
            let wall = Timestamp::from_millisecond(millis).unwrap_or(now.wall);
            let age = Duration::try_from(now.wall.duration_since(wall)).unwrap_or_default();
            let Some(left) = length.checked_sub(age).filter(|left| !left.is_zero()) else {
                if length.is_zero() {
                    window.push(now.tick, wall.min(now.wall), count);
                }
                continue;
            };
            window.push(now.tick + left, wall.min(now.wall), count);
        }
        window
    }

    pub fn add(&mut self, now: Now) {
        self.push(now.tick + self.length, now.wall, 1);
    }

    pub fn count(&mut self, now: Tick) -> u32 {
        self.drop_old(now);
        self.count
    }

    /// When the count falls next if there is no further failure.
    pub fn falls_at(&self) -> Option<Tick> {
        (self.groups.front())
            .filter(|_| !self.length.is_zero())
            .map(|group| group.until)
    }

    pub fn last(&self) -> Option<Timestamp> {
        self.groups.back().map(|group| group.wall)
    }

    /// The failures as the record keeps them.
    pub fn save(&self) -> Times {
        (self.groups.iter())
            .map(|group| (group.wall.as_millisecond(), group.count))
            .collect()
    }

    /// Keeps only the newest `most` failures.
    pub fn keep_newest(&mut self, most: u32) {
        while self.count > most
            && let Some(oldest) = self.groups.front_mut()
        {
            let surplus = oldest.count.min(self.count - most);
            self.count -= surplus;
            oldest.count -= surplus;
            if oldest.count == 0 {
                self.groups.pop_front();
            }
        }
    }

    fn push(&mut self, until: Tick, wall: Timestamp, count: u32) {
        self.count = self.count.saturating_add(count);
        let together = self.groups.len() >= EXACT;
        if let Some(last) = self.groups.back_mut()
            && (self.length.is_zero()
                || together && until.since(last.first_until) < self.length / PARTS)
        {
            last.until = last.until.max(until);
            last.wall = last.wall.max(wall);
            last.count = last.count.saturating_add(count);
            return;
        }
        self.groups.push_back(Group {
            first_until: until,
            until,
            wall,
            count,
        });
    }

    fn drop_old(&mut self, now: Tick) {
        while !self.length.is_zero()
            && let Some(oldest) = self.groups.front()
            && oldest.until <= now
        {
            self.count = self.count.saturating_sub(oldest.count);
            self.groups.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: Timestamp = Timestamp::UNIX_EPOCH;

    fn now(millis: u64) -> Now {
        let since = Duration::from_millis(millis);
        Now::new(
            Tick::after_start(since),
            START.checked_add(since).unwrap_or(START),
        )
    }

    // spec: L-30
    #[test]
    fn a_failure_counts_until_the_window_has_passed_and_no_longer() {
        let mut window = Window::new(Duration::from_secs(2));
        for millis in [0, 500, 1_999] {
            window.add(now(millis));
        }
        let mut counts = |millis| window.count(now(millis).tick);
        assert_eq!((counts(1_999), counts(2_000), counts(2_499)), (3, 2, 2));
        assert_eq!((counts(2_500), counts(3_998), counts(3_999)), (1, 1, 0));
    }

    // spec: O-98, L-32
    #[test]
    fn absurd_counts_of_an_earlier_incarnation_cost_no_time() {
        let saved = vec![(0, u32::MAX), (1, 0), (2, u32::MAX)];
        let mut window = Window::resume(Duration::from_secs(10), &saved, now(1_000));
        window.add(now(1_000));
        window.keep_newest(3);
        assert_eq!(window.count(now(1_000).tick), 3);
    }

    // spec: L-38
    #[test]
    fn without_a_window_nothing_is_forgotten_and_a_million_take_the_space_of_one() {
        let mut window = Window::new(Duration::ZERO);
        for n in 0..1_000_000 {
            window.add(now(n * 60_000));
        }
        assert_eq!(window.count(now(u64::MAX / 1_000_000).tick), 1_000_000);
        assert_eq!((window.save().len(), window.falls_at()), (1, None));
        let resumed = Window::resume(Duration::ZERO, &window.save(), now(5));
        assert_eq!(resumed.clone().count(now(5).tick), 1_000_000);
    }

    // spec: L-38, O-30
    #[test]
    fn a_restart_forgets_nothing_that_is_within_the_window() {
        let mut before = Window::new(Duration::from_secs(10));
        for second in [1, 4, 4, 9] {
            before.add(now(second * 1_000));
        }
        // The next process's clock starts anew; the wall clock continues.
        let begin = |wall: u64| Now::new(Tick::after_start(Duration::ZERO), now(wall).wall);
        let mut after = Window::resume(Duration::from_secs(10), &before.save(), begin(12_000));
        assert_eq!(after.count(Tick::default()), 3, "that of second 1 has gone");
        let at = |seconds| Tick::after_start(Duration::from_secs(seconds));
        assert_eq!((after.count(at(1)), after.count(at(2))), (3, 1));
        // A wall clock that was set back does not make a failure count longer than the window.
        let mut early = Window::resume(Duration::from_secs(10), &before.save(), begin(0));
        assert_eq!((early.count(at(9)), early.count(at(10))), (4, 0));
    }

    // spec: L-32
    #[test]
    fn only_the_newest_failures_are_kept() {
        let mut window = Window::new(Duration::from_secs(10));
        for second in 0..5 {
            window.add(now(second * 1_000));
        }
        window.keep_newest(2);
        assert_eq!((window.count(now(4_000).tick), window.save().len()), (2, 2));
        assert_eq!(window.falls_at(), Some(now(13_000).tick));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        // spec: L-38, I-8
        #[test]
        fn many_failures_count_at_least_as_long_as_the_window_in_bounded_space(
            gaps in prop::collection::vec(0u64..400, 1..3_000),
        ) {
            let length = Duration::from_secs(60);
            let (mut window, mut times, mut millis) = (Window::new(length), Vec::new(), 0);
            for gap in gaps {
                millis += gap;
                times.push(millis);
                window.add(now(millis));
                let count = window.count(now(millis).tick) as usize;
                let within = |length: u64| times.iter().filter(|at| *at + length > millis).count();
                prop_assert!(within(60_000) <= count && count <= within(60_000 + 60_000 / 256 + 1));
                prop_assert!(window.save().len() <= EXACT + PARTS as usize + 1);
                if times.len() <= EXACT {
                    prop_assert_eq!(count, within(60_000));
                }
            }
        }
    }
}
