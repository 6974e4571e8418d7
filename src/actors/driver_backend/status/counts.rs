//! The numbers of each profile's executors over the last hour, for the API: pure (spec O-82).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::model::{Now, ProfileName, Snapshot, Tick};

/// The time between two points.
const INTERVAL: Duration = Duration::from_secs(10);

/// An hour of them.
const MOST_POINTS: usize = 360;

/// The most profiles of all points together: 2 MB. With more than a hundred profiles less than an hour is kept.
const MOST_ROWS: usize = 100 * MOST_POINTS;

/// The names of the numbers, which are those of the status.
const NAMES: [&str; 8] = [
    "target",
    "running",
    "registered",
    "pending",
    "requested",
    "unanswered",
    "uncertain",
    "leaving",
];

type Numbers = [u32; NAMES.len()];

#[derive(Debug, Default)]
pub struct CountsHistory {
    /// The oldest first.
    points: VecDeque<Point>,
    /// When the last point was made.
    last: Option<Tick>,
    /// The profiles of all points together.
    rows: usize,
}

#[derive(Debug)]
struct Point {
    time: Timestamp,
    profiles: Vec<(ProfileName, Numbers)>,
}

/// A column for each number of each profile, with one entry for each time.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct CountsView {
    pub times: Vec<Timestamp>,
    /// 0 at times when there was no such profile.
    pub profiles: BTreeMap<String, BTreeMap<&'static str, Vec<u32>>>,
}

impl CountsHistory {
    /// Adds a point if it is time for one: O(profiles).
    pub fn look(&mut self, snapshot: &Snapshot, registered: &BTreeMap<ProfileName, u32>, now: Now) {
        if (self.last).is_some_and(|last| now.tick.since(last) < INTERVAL) {
            return;
        }
        self.last = Some(now.tick);
        let numbers = snapshot.targets.iter().map(|(profile, target)| {
            let counts = snapshot.counts(profile);
            let numbers = [
                target.executors,
                counts.running,
                registered.get(profile).copied().unwrap_or(0),
                counts.pending,
                counts.sent,
                counts.unknown,
                counts.uncertain,
                counts.leaving + counts.terminating,
            ];
            (profile.clone(), numbers)
        });
        let profiles: Vec<_> = numbers.collect();
        self.rows += profiles.len();
        self.points.push_back(Point {
            time: now.wall,
            profiles,
        });
        while self.points.len() > MOST_POINTS || self.rows > MOST_ROWS {
            let Some(oldest) = self.points.pop_front() else {
                return;
            };
            self.rows -= oldest.profiles.len();
        }
    }

    pub fn view(&self) -> CountsView {
        let mut view = CountsView::default();
        for (place, point) in self.points.iter().enumerate() {
            view.times.push(point.time);
            for (profile, numbers) in &point.profiles {
                let columns = view.profiles.entry(profile.to_string()).or_default();
                for (name, number) in NAMES.into_iter().zip(numbers) {
                    let column = columns.entry(name).or_default();
                    column.resize(place, 0);
                    column.push(*number);
                }
            }
        }
        let columns = view.profiles.values_mut().flat_map(BTreeMap::values_mut);
        columns.for_each(|column| column.resize(self.points.len(), 0));
        view
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, at};

    fn now(seconds: u64) -> Now {
        let wall = Timestamp::UNIX_EPOCH + Duration::from_secs(seconds);
        Now::new(at(seconds * 1_000), wall)
    }

    fn snapshot(targets: &[(&str, u32)]) -> Snapshot {
        Scenario::new(targets).current().clone()
    }

    // spec: O-82
    #[test]
    fn an_hour_of_points_is_kept_ten_seconds_apart_whatever_looks_come_between() {
        let mut history = CountsHistory::default();
        let registered = BTreeMap::from([("a".into(), 3)]);
        for second in 0..=7_200 {
            history.look(&snapshot(&[("a", 4)]), &registered, now(second));
        }
        let view = history.view();
        let times: Vec<i64> = view.times.iter().map(|time| time.as_second()).collect();
        let wanted: Vec<i64> = (3_610..=7_200).step_by(10).collect();
        assert_eq!(times, wanted);
        let columns = &view.profiles["a"];
        assert_eq!(columns.len(), NAMES.len());
        assert_eq!(columns["target"], vec![4; 360]);
        assert_eq!(columns["registered"], vec![3; 360]);
        assert_eq!(columns["running"], vec![0; 360]);
    }

    // spec: O-82
    #[test]
    fn a_profile_has_zeros_for_the_times_when_it_was_not_there() {
        let mut history = CountsHistory::default();
        let of = [&[("a", 1)][..], &[("a", 2), ("b", 5)], &[("b", 6)]];
        for (n, targets) in (0..).zip(of) {
            history.look(&snapshot(targets), &BTreeMap::new(), now(n * 10));
        }
        let profiles = history.view().profiles;
        assert_eq!(profiles["a"]["target"], [1, 2, 0]);
        assert_eq!(profiles["b"]["target"], [0, 5, 6]);
    }

    // spec: O-82
    #[test]
    fn many_profiles_shorten_the_history() {
        let mut history = CountsHistory::default();
        let names: Vec<String> = (0..1_000).map(|n| format!("profile-{n}")).collect();
        let targets: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        let snapshot = snapshot(&targets);
        for n in 0..MOST_POINTS as u64 {
            history.look(&snapshot, &BTreeMap::new(), now(n * 10));
        }
        assert_eq!(history.view().times.len(), MOST_ROWS / 1_000);
    }
}
