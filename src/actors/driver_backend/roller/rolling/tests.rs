use crate::model::executor::Session;
use std::time::Duration;

use super::*;
use crate::model::news::{News, Outcome};
use crate::testing::{Scenario, at, id};

const MINUTE: u64 = 60_000;

/// Three running executors, and their replacements.
struct World {
    scenario: Scenario,
    rolling: Rolling,
    /// The values of the metric.
    figures: BTreeMap<u64, f64>,
    /// The values of the metric `tasks`.
    tasks: BTreeMap<u64, f64>,
}

fn finish(old: u64) -> Step {
    let (profile, old) = ("default".into(), id(old));
    Step::Finish { profile, old }
}

impl World {
    fn new(policy: RollPolicy) -> Self {
        let mut world = Self {
            scenario: Scenario::new(&[("default", 3)]),
            rolling: Rolling::new(
                Roll {
                    interval: Duration::from_secs(60),
                    policy,
                    metric: Some("gc_ms".to_owned()),
                    min_tasks: 0,
                },
                at(0),
            ),
            figures: BTreeMap::new(),
            tasks: BTreeMap::new(),
        };
        for n in 1..=3 {
            world.request(n);
            world.scenario.created(n);
            world.scenario.runs(n);
        }
        world
    }

    fn request(&mut self, n: u64) {
        let profile = "default".into();
        self.scenario.requested(n, Outcome::Sent { profile });
    }

    fn surge(&mut self, by: u32) {
        let profile = "default".into();
        self.scenario.tell(News::Surge { profile, by });
    }

    fn decide(&mut self, millis: u64) -> Option<Step> {
        let (figures, tasks) = (&self.figures, &self.tasks);
        let figure = |id: ExecutorId, metric: &str| match metric {
            "gc_ms" => figures.get(&id.get()).copied(),
            "tasks" => tasks.get(&id.get()).copied(),
            _ => None,
        };
        self.rolling
            .decide(self.scenario.current(), figure, at(millis))
    }

    /// The replacement of executor 1 has begun.
    fn begun() -> Self {
        let mut world = Self::new(RollPolicy::Id);
        let begin = Step::Begin {
            profile: "default".into(),
            old: id(1),
        };
        assert_eq!(world.decide(MINUTE), Some(begin));
        world.surge(1);
        world
    }
}

fn given_up() -> Step {
    Step::GiveUp {
        profile: "default".into(),
        old: id(1),
    }
}

// spec: B-32, B-65
#[test]
fn the_replacement_runs_before_the_old_one_drains_and_the_next_begins_an_interval_later() {
    let mut world = World::new(RollPolicy::Id);
    assert_eq!(world.decide(MINUTE - 1), None);
    let mut world = World::begun();
    assert_eq!(world.decide(MINUTE + 1), None);
    world.request(4);
    world.scenario.created(4);
    assert_eq!(world.decide(MINUTE + 2), None, "it does not run yet");
    world.scenario.runs(4);
    assert_eq!(world.decide(MINUTE + 3), Some(finish(1)));
    world.surge(0);
    world.scenario.goes(1);
    assert_eq!(world.decide(2 * MINUTE + 2), None);
    let next = world.decide(2 * MINUTE + 3);
    assert!(
        matches!(next, Some(Step::Begin { old, .. }) if old == id(2)),
        "{next:?}"
    );
}

// spec: B-65
#[test]
fn a_registered_executor_stays_until_its_replacement_is_registered() {
    let mut world = World::begun();
    let registered = |n| News::Session(id(n), Session::open(true));
    world.scenario.tell(registered(1));
    world.request(4);
    world.scenario.created(4);
    world.scenario.runs(4);
    assert_eq!(world.decide(MINUTE + 3), None);
    world.scenario.tell(registered(4));
    assert_eq!(world.decide(MINUTE + 4), Some(finish(1)));
}

// spec: B-32
#[test]
fn the_oldest_executor_has_the_oldest_pod_and_not_the_lowest_id() {
    let mut world = World::new(RollPolicy::Oldest);
    for (n, seconds) in [(1, 30), (2, 10), (3, 20)] {
        let mut pod = world.scenario.pod(n);
        pod.created = Timestamp::from_second(seconds).ok();
        world.scenario.observe(pod);
    }
    let begin = world.decide(MINUTE);
    assert!(
        matches!(begin, Some(Step::Begin { old, .. }) if old == id(2)),
        "{begin:?}"
    );
}

// spec: B-65
#[test]
fn no_replacement_begins_while_executors_are_missing_or_surplus() {
    let mut world = World::new(RollPolicy::Id);
    world.scenario.exits(2, 1);
    assert_eq!(world.decide(MINUTE), None);
    world.request(4);
    world.scenario.created(4);
    assert_eq!(world.decide(MINUTE + 1), None);
    world.scenario.runs(4);
    assert!(world.decide(MINUTE + 2).is_some());
}

// spec: B-65
#[test]
fn a_replacement_that_does_not_run_in_time_is_given_up() {
    let mut world = World::begun();
    world.request(4);
    world.scenario.created(4);
    assert_eq!(world.decide(2 * MINUTE - 1), None);
    assert_eq!(world.decide(2 * MINUTE), Some(given_up()));
}

// spec: B-65
#[test]
fn a_replacement_is_given_up_if_the_old_executor_ends_by_itself() {
    let mut world = World::begun();
    world.scenario.exits(1, 0);
    assert_eq!(world.decide(MINUTE + 1), Some(given_up()));
}

// spec: B-65, B-25
#[test]
fn a_target_set_meanwhile_ends_the_replacement() {
    let mut world = World::begun();
    world.scenario.want("default", 7);
    assert_eq!(world.decide(MINUTE + 1), Some(Step::Forget { old: id(1) }));
    assert_eq!(world.decide(MINUTE + 2), None);
}

// spec: B-32, B-31, B-52
#[test]
fn a_hold_or_a_removal_ends_the_replacement() {
    let hold = News::Hold {
        by: None,
        how: crate::model::executor::LeaveMethod::Delete,
    };
    for news in [hold, News::Remove("default".into())] {
        let mut world = World::begun();
        world.scenario.tell(news);
        assert_eq!(world.decide(MINUTE + 1), Some(Step::Forget { old: id(1) }));
        assert_eq!(world.decide(MINUTE * 3), None);
    }
}

// spec: B-32
#[test]
fn the_outlier_of_a_profile_is_replaced_and_no_executor_if_there_is_none() {
    let mut world = World::new(RollPolicy::Outlier);
    let others = [("default", 4..=5), ("other", 6..=10)];
    for (profile, ids) in others {
        for n in ids {
            let profile = profile.into();
            world.scenario.requested(n, Outcome::Sent { profile });
            world.scenario.created(n);
            world.scenario.runs(n);
        }
    }
    for (profile, target) in [("default", 5), ("other", 5)] {
        world.scenario.want(profile, target);
    }
    // A value that is normal in one profile would be an outlier in the other.
    world.figures = (1..=10)
        .map(|n| (n, if n <= 5 { 10.0 } else { 500.0 } + n as f64 / 10.0))
        .collect();
    assert_eq!(world.decide(MINUTE), None);
    world.figures.insert(3, 60.0);
    assert_eq!(
        world.decide(2 * MINUTE - 1),
        None,
        "it is looked at each interval"
    );
    let begin = Step::Begin {
        profile: "default".into(),
        old: id(3),
    };
    assert_eq!(world.decide(2 * MINUTE), Some(begin));
}

// spec: B-32
#[test]
fn the_executor_with_the_highest_metric_is_replaced_and_none_if_no_metric_is_known() {
    let mut world = World::new(RollPolicy::Highest);
    let needs = world
        .rolling
        .needs_metrics(world.scenario.current(), at(MINUTE));
    assert!(needs);
    assert_eq!(world.decide(MINUTE), None);
    world.figures = [(1, 5.0), (2, 7.5), (3, 7.5)].into();
    assert_eq!(
        world.decide(2 * MINUTE - 1),
        None,
        "it is looked at each interval"
    );
    let profile = "default".into();
    let begin = Step::Begin {
        profile,
        old: id(2),
    };
    assert_eq!(world.decide(2 * MINUTE), Some(begin));
}

// spec: B-32
#[test]
fn an_executor_that_has_run_too_few_tasks_or_does_not_say_is_not_replaced() {
    let mut world = World::new(RollPolicy::Id);
    world.rolling.roll.min_tasks = 100;
    world.tasks = [(2, 99.0)].into();
    assert_eq!(world.decide(MINUTE), None);
    world.tasks = [(2, 99.0), (3, 100.0)].into();
    let profile = "default".into();
    let begin = Step::Begin {
        profile,
        old: id(3),
    };
    assert_eq!(world.decide(2 * MINUTE), Some(begin));
}
