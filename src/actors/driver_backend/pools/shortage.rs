//! How many executors have been missing all the time of late.

use std::collections::VecDeque;
use std::time::Duration;

use crate::model::Tick;

/// The numbers of missing executors that can still be the fewest, the oldest first, each with the time at which another
/// one followed. They rise, because a number ends all higher ones before it.
#[derive(Debug, Default)]
pub struct Shortage(VecDeque<(u32, Option<Tick>)>);

impl Shortage {
    /// So many are missing from now on.
    pub fn note(&mut self, missing: u32, now: Tick) {
        let Some((last, until)) = self.0.back_mut() else {
            // Nothing is known of the time before.
            self.0.extend([(0, Some(now)), (missing, None)]);
            return;
        };
        if *last == missing {
            return;
        }
        *until = Some(now);
        while self.0.back().is_some_and(|(higher, _)| *higher >= missing) {
            self.0.pop_back();
        }
        self.0.push_back((missing, None));
    }

    /// So many of them are requested elsewhere, and will be missing no longer.
    pub fn moved(&mut self, by: u32) {
        for (missing, _) in &mut self.0 {
            *missing = missing.saturating_sub(by);
        }
    }

    /// The fewest that were missing at any time of this long until now.
    pub fn least(&mut self, time: Duration, now: Tick) -> u32 {
        let is_over =
            |(_, until): &(u32, Option<Tick>)| until.is_some_and(|until| now.since(until) >= time);
        while self.0.front().is_some_and(is_over) {
            self.0.pop_front();
        }
        self.0.front().map_or(0, |(missing, _)| *missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    fn seconds(n: u64) -> Tick {
        at(n * 1_000)
    }

    // spec: B-74
    #[test]
    fn as_many_lack_as_were_missing_all_the_time() {
        let mut shortage = Shortage::default();
        let least = |shortage: &mut Shortage, time, now| {
            shortage.least(Duration::from_secs(time), seconds(now))
        };
        shortage.note(5, seconds(10));
        assert_eq!(
            least(&mut shortage, 6, 15),
            0,
            "nothing is known of that time"
        );
        assert_eq!(least(&mut shortage, 5, 15), 5);
        shortage.note(9, seconds(20));
        shortage.note(7, seconds(30));
        assert_eq!(least(&mut shortage, 20, 35), 5);
        assert_eq!(least(&mut shortage, 15, 35), 7);
        shortage.note(0, seconds(40));
        assert_eq!(least(&mut shortage, 20, 45), 0);
        shortage.note(3, seconds(50));
        assert_eq!(least(&mut shortage, 10, 55), 0);
        assert_eq!(least(&mut shortage, 5, 55), 3);
    }

    // spec: B-74
    #[test]
    fn what_has_moved_is_not_missing_again_before_the_ledger_shows_it() {
        let mut shortage = Shortage::default();
        let all = Duration::from_secs(10);
        shortage.note(2, seconds(10));
        shortage.note(5, seconds(15));
        assert_eq!(shortage.least(all, seconds(20)), 2);
        shortage.moved(2);
        shortage.note(5, seconds(20));
        assert_eq!(shortage.least(all, seconds(21)), 0);
        shortage.note(3, seconds(22));
        assert_eq!(shortage.least(all, seconds(25)), 3);
    }
}
