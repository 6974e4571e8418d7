//! Spares take the places of lost executors.

use super::*;
use crate::testing::running;

fn driver(spares: u32) -> Driver {
    let mut driver = Driver::new(&[("default", 3), ("default-spares", spares)]);
    driver.fill();
    driver.all_stay();
    assert_eq!(driver.scenario.counts("default").running, 3);
    assert_eq!(driver.scenario.counts("default-spares").running, spares);
    driver
}

impl Driver {
    fn of_profile(&self, profile: &str) -> Vec<u64> {
        let entries = self.scenario.current().entries.values();
        (entries.filter(|entry| entry.profile.as_str() == profile && entry.class().is_live()))
            .map(|entry| entry.id.get())
            .collect()
    }

    fn loses(&mut self, n: u64) {
        self.scenario.goes(n);
        self.scenario.report(n);
    }
}

// spec: A-117
#[test]
fn spares_are_requested_after_all_others() {
    let mut driver = Driver::new(&[("default", 3), ("default-spares", 2)]);
    driver.settle(|_, _| Reply::Created);
    assert_eq!(driver.of_profile("default"), [1, 2, 3]);
    assert_eq!(driver.of_profile("default-spares"), [4, 5]);
}

// spec
#[test]
fn a_lost_executors_place_is_taken_by_the_oldest_spare_that_runs_and_that_ones_by_a_request() {
    let mut driver = driver(2);
    let (all, spares) = (
        driver.of_profile("default"),
        driver.of_profile("default-spares"),
    );
    driver.loses(all[0]);
    let requested = driver.round();
    assert_eq!(driver.of_profile("default"), [all[1], all[2], spares[0]]);
    assert!(
        requested.is_empty(),
        "of spares only when the ledger shows the promotion"
    );
    let requested = driver.round();
    assert_eq!(
        driver.of_profile("default-spares"),
        [spares[1], requested[0]]
    );
    driver.answer_all(|_, _| Reply::Created);
    // Two are lost: one spare runs, and the other one does not yet.
    driver.loses(all[1]);
    driver.loses(all[2]);
    driver.round();
    assert_eq!(
        driver.of_profile("default"),
        [spares[0], spares[1], requested[0]]
    );
}

// spec: A-118
#[test]
fn what_spares_do_not_suffice_for_is_requested() {
    let mut driver = driver(1);
    let all = driver.of_profile("default");
    all.iter().for_each(|n| driver.loses(*n));
    driver.settle(|_, _| Reply::Created);
    assert_eq!(driver.of_profile("default"), [4, 5, 6]);
    assert_eq!(driver.of_profile("default-spares"), [7]);
}

// spec
#[test]
fn a_quota_that_refuses_requests_keeps_no_spare_from_its_place() {
    let mut driver = driver(1);
    driver.scenario.want("default", 5);
    driver.round();
    driver.answer_all(|_, _| Reply::Refused(RefusalKind::Quota));
    driver.round();
    assert_eq!(
        driver.scenario.counts("default").live(),
        4,
        "the spare is one of them"
    );
    assert_eq!(driver.scenario.counts("default-spares").live(), 0);
    driver.round();
    assert!(
        driver
            .flights
            .values()
            .all(|flight| flight.profile.as_str() == "default")
    );
}

// spec
#[test]
fn a_program_that_fails_at_once_in_a_spare_that_waited_for_long_ended_early() {
    let mut driver = driver(1);
    driver.scenario.pass(3_600_000);
    driver.round();
    for _ in 0..3 {
        let all = driver.of_profile("default");
        let youngest = *all.last().unwrap();
        driver.scenario.exits(youngest, 1);
        driver.scenario.report(youngest);
        driver.round();
        driver.fill();
        driver.scenario.pass(1_000);
    }
    let backs_off = |notice: &Notice| matches!(notice, Notice::BackoffBegan { profile, .. } if profile.as_str() == "default");
    assert!(driver.said.iter().any(backs_off), "{:?}", driver.said);
}

// spec: A-118
#[test]
fn a_spare_that_leaves_or_is_missing_in_a_list_is_not_promoted() {
    let mut driver = driver(2);
    let spares = driver.of_profile("default-spares");
    driver.scenario.tell(News::Retire {
        ids: vec![id(spares[0])],
        aim: crate::model::news::TargetChange::Stay,
        why: crate::model::executor::LeaveReason::Killed("me".into()),
        how: LeaveMethod::Delete,
    });
    let pods = driver.of_profile("default").into_iter();
    let pods = pods.map(|n| running(driver.scenario.pod(n))).collect();
    driver.scenario.list(pods);
    let lost = driver.of_profile("default")[0];
    driver.loses(lost);
    driver.round();
    assert!(
        driver
            .of_profile("default")
            .iter()
            .all(|n| !spares.contains(n))
    );
}
