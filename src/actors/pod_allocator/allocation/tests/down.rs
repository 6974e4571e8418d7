//! Which executors are retired, through whole rounds.

use super::*;
use crate::model::executor::Session;
use crate::model::ledger::Inheritance;
use crate::testing::running;

// spec: A-43
#[test]
fn a_chosen_executor_is_neither_counted_nor_chosen_again() {
    let mut driver = Driver::new(&[("default", 4)]);
    driver.settle(|_, _| Reply::Created);
    driver.scenario.pass(20_000);
    driver.scenario.want("default", 2);
    driver.round();
    assert_eq!(driver.retired, [4, 3]);
    driver.live(60_000, |_| {});
    assert_eq!(driver.retired, [4, 3]);
    assert_eq!(driver.live_of("default"), 2);
    driver.scenario.want("default", 3);
    assert_eq!(driver.round(), [5], "a mark never ends");
}

// spec
#[test]
fn a_lower_target_retires_pending_and_running_surplus_after_the_delay() {
    let mut driver = Driver::new(&[("default", 1)]);
    driver.fill();
    driver.scenario.pass(30_000);
    driver.scenario.want("default", 4);
    driver.settle(|_, _| Reply::Created);
    driver.scenario.runs(2);
    driver.round();
    driver.scenario.want("default", 1);
    driver.round();
    assert_eq!(
        driver.retired, [0u64; 0],
        "3 and 4 are too young, the target is too new"
    );
    driver.live(9_900, |_| {});
    assert_eq!(driver.retired, [0u64; 0]);
    driver.live(200, |_| {});
    let mut retired = driver.retired.clone();
    retired.sort_unstable();
    assert_eq!(retired, [2, 3, 4]);
    driver.live(60_000, |_| {});
    assert_eq!((driver.retired.len(), driver.live_of("default")), (3, 1));
}

// spec: A-43
#[test]
fn a_pending_victim_that_is_found_running_costs_no_other() {
    let mut driver = Driver::new(&[("default", 3)]);
    driver.settle(|_, _| Reply::Created);
    driver.scenario.pass(20_000);
    driver.scenario.want("default", 1);
    driver.round();
    for n in 1..=3 {
        driver.scenario.runs(n);
    }
    driver.live(60_000, |_| {});
    assert_eq!(driver.retired, [3, 2]);
}

// spec: A-45
#[test]
fn target_zero_drains_and_touches_no_other_profile() {
    let mut driver = Driver::new(&[("a", 3), ("b", 3)]);
    driver.fill();
    driver.scenario.want("a", 0);
    driver.live(11_000, |_| {});
    assert_eq!((driver.live_of("a"), driver.live_of("b")), (0, 3));
    assert_eq!(driver.retired.len(), 3);
    driver.bury();
    driver.live(60_000, |_| {});
    assert_eq!(driver.left.len(), 6, "and nothing is asked for");
}

// spec: A-45
#[test]
fn executors_of_a_profile_that_is_no_longer_wanted_are_retired() {
    let mut scenario = Scenario::before_adoption(&[("default", 1)], Inheritance::default());
    let mut orphan = scenario.pod(3);
    orphan.identity = crate::model::pod::PodIdentity::Executor {
        id: id(3),
        profile: Some("gone".into()),
        incarnation: None,
    };
    let own = running(scenario.pod(4));
    scenario.list(vec![running(orphan), own]);
    let mut driver = Driver::with(settings(), scenario);
    driver.live(15_000, |_| {});
    assert_eq!(driver.retired, [3]);
    assert_eq!(driver.left.len(), 0);
}

// spec: A-40, I-3
#[test]
fn requests_in_flight_and_unknown_ones_are_not_chosen_but_counted() {
    let mut driver = Driver::new(&[("default", 3)]);
    driver.round();
    driver.answer(1, Reply::Created);
    driver.round();
    driver.answer(2, Reply::Broke);
    driver.scenario.pass(20_000);
    driver.scenario.want("default", 1);
    driver.round();
    assert_eq!(
        driver.retired,
        [1],
        "2 is unknown, 3 is in flight: two beyond the target"
    );
    assert_eq!(driver.live_of("default"), 2);
    driver.answer(3, Reply::Created);
    driver.live(30_000, |_| {});
    assert_eq!(driver.retired, [1, 3]);
    assert_eq!(driver.left.iter().filter(|(_, n)| *n > 3).count(), 0);
}

// spec: A-40
#[test]
fn a_victim_that_is_too_young_is_retired_when_it_is_old_enough_without_any_news() {
    let mut driver = Driver::new(&[("default", 1)]);
    driver.settle(|_, _| Reply::Created);
    let since = driver.scenario.entry(1).unwrap().since;
    driver.scenario.want("default", 0);
    driver.round();
    assert_eq!(driver.wake, Some(since + Duration::from_secs(10)));
}

// spec: A-41
#[test]
fn a_registered_executor_is_drained_and_another_is_deleted() {
    let mut driver = Driver::new(&[("default", 2)]);
    driver.fill();
    driver
        .scenario
        .tell(News::Session(id(1), Session::open(false)));
    driver.scenario.pass(30_000);
    driver.scenario.want("default", 0);
    driver.live(20_000, |_| {});
    let how = |n| {
        driver
            .scenario
            .entry(n)
            .unwrap()
            .leaving
            .clone()
            .unwrap()
            .how
    };
    let within = Duration::from_secs(60);
    assert_eq!(
        (how(1), how(2)),
        (LeaveMethod::Drain { within }, LeaveMethod::Delete)
    );
}

// spec
#[test]
fn two_profiles_that_are_lowered_at_once_each_lose_their_own() {
    let mut driver = Driver::new(&[("a", 4), ("b", 5)]);
    driver.settle(|_, _| Reply::Created);
    driver.scenario.pass(20_000);
    driver.scenario.want("a", 1);
    driver.scenario.want("b", 2);
    driver.round();
    let of = |profile: &str| {
        let own = |n: &&u64| driver.scenario.profile_of(**n).as_str() == profile;
        driver.retired.iter().filter(own).count()
    };
    assert_eq!((of("a"), of("b")), (3, 3));
    assert_eq!((driver.live_of("a"), driver.live_of("b")), (1, 2));
}

// spec
#[test]
fn young_executors_are_spared_and_then_unregistered_ones_are_retired_first() {
    let mut driver = Driver::new(&[("default", 4)]);
    driver.fill();
    for n in 1..=2 {
        driver
            .scenario
            .tell(News::Session(id(n), Session::open(false)));
    }
    driver.all_stay();
    driver.scenario.want("default", 5);
    driver.settle(|_, _| Reply::Created);
    driver.scenario.want("default", 2);
    driver.live(9_900, |_| {});
    assert_eq!(
        driver.retired, [0u64; 0],
        "5 is young, and so is the target"
    );
    driver.live(200, |_| {});
    let mut retired = driver.retired.clone();
    retired.sort_unstable();
    assert_eq!(retired, [3, 4, 5]);
}
