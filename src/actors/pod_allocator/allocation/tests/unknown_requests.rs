//! Requests whose outcome is unknown: when they are repeated, and when not.

use super::*;

// spec: A-13
#[test]
fn an_unknown_request_is_repeated_after_a_backoff_under_the_same_name() {
    let mut driver = Driver::new(&[("default", 1)]);
    driver.round();
    driver.answer(1, Reply::Broke);
    assert_eq!(driver.round(), [0u64; 0], "not at once");
    let mut gaps = Vec::new();
    let mut last = 0;
    driver.live(70_000, |driver| {
        if let Some((when, 1)) = driver.left.last()
            && *when > last
        {
            gaps.push(when - last);
            last = *when;
        }
        driver.answer_all(|_, _| Reply::Broke);
    });
    assert!(
        driver.left.iter().all(|(_, n)| *n == 1),
        "{:?}",
        driver.left
    );
    assert_eq!(
        gaps,
        [1_000, 2_000, 4_000, 8_000, 16_000],
        "and room for its look-up"
    );
}

// spec: A-13
#[test]
fn a_repeat_that_is_created_settles_it() {
    let mut driver = Driver::new(&[("default", 1)]);
    driver.round();
    driver.answer(1, Reply::Broke);
    driver.scenario.pass(1_000);
    assert_eq!(driver.round(), [1]);
    driver.answer(1, Reply::Created);
    driver.live(100_000, |_| {});
    assert_eq!(driver.left.len(), 2);
}

// spec
#[test]
fn a_repeat_that_is_refused_proves_nothing_and_is_not_repeated_before_the_look_up() {
    for reply in [Reply::NameTaken, Reply::Refused(RefusalKind::Quota)] {
        let mut driver = Driver::new(&[("default", 1)]);
        driver.round();
        driver.answer(1, Reply::Broke);
        driver.scenario.pass(1_000);
        driver.round();
        driver.answer(1, reply);
        driver.live(40_000, |_| {});
        assert_eq!(driver.left.len(), 2, "{reply:?}");
        assert_eq!(driver.live_of("default"), 1, "it is counted");
        find_nothing(&mut driver, 1);
        assert_eq!(driver.round(), [2], "its place is free");
    }
}

// spec: A-14
#[test]
fn repeats_stop_in_time_for_the_look_up() {
    let mut driver = Driver::new(&[("default", 1)]);
    driver.round();
    driver.answer(1, Reply::Broke);
    driver.live(300_000, |driver| driver.answer_all(|_, _| Reply::Broke));
    let last = driver.left.last().unwrap().0;
    assert!(last + 10_000 <= 60_000, "{:?}", driver.left);
}

// spec: A-13, I-3
#[test]
fn an_unknown_request_is_not_repeated_while_its_executor_is_not_wanted() {
    let mut driver = Driver::new(&[("default", 2)]);
    driver.round();
    driver.answer(1, Reply::Broke);
    driver.scenario.want("default", 0);
    driver.live(20_000, |_| {});
    assert_eq!(driver.left.len(), 1);
    driver.scenario.want("default", 1);
    assert_eq!(driver.round(), [1], "it counts, and is wanted again");
}

// spec: L-14
#[test]
fn an_unknown_request_that_is_leaving_is_not_sent_again() {
    let mut driver = Driver::new(&[("default", 1)]);
    driver.round();
    driver.answer(1, Reply::Broke);
    driver.scenario.tell(News::Retire {
        aim: crate::model::news::TargetChange::Stay,
        ids: vec![id(1)],
        why: LeaveReason::ApplicationEnded,
        how: LeaveMethod::Delete,
    });
    driver.scenario.want("default", 0);
    driver.live(50_000, |_| {});
    assert_eq!(driver.left.len(), 1);
}

// spec
#[test]
fn an_unknown_request_is_not_repeated_while_its_profile_backs_off_unless_it_is_the_probe() {
    let mut driver = Driver::new(&[("default", 6)]);
    driver.settle(|_, _| Reply::Created);
    driver.scenario.want("default", 7);
    driver.round();
    driver.answer(7, Reply::Broke);
    for n in 1..=6 {
        driver.scenario.exits(n, 1);
    }
    driver.scenario.pass(900);
    driver.round();
    let began = driver.scenario.millis;
    driver.live(10_000, |driver| driver.answer_all(|_, _| Reply::Broke));
    let (first, probe) = driver.left[7];
    assert!(first >= began + 1_000, "{:?}", driver.left);
    assert_eq!(probe, 8, "the probe is a new one");
    assert!(
        driver.left[7..].iter().all(|(_, n)| *n == probe),
        "{:?}",
        driver.left
    );
    assert!(driver.left.len() > 8, "and is repeated: {:?}", driver.left);
}

// spec: A-13, W-14
#[test]
fn an_unknown_request_is_repeated_at_once_when_the_server_is_back() {
    let mut driver = Driver::new(&[("default", 1)]);
    driver.round();
    driver.answer(1, Reply::Broke);
    driver.live(8_000, |driver| driver.answer_all(|_, _| Reply::Broke));
    assert_eq!(driver.round(), [0u64; 0], "the backoff is 8 s");
    let now = driver.scenario.now().tick;
    driver.allocation.server_is_back(now);
    assert_eq!(driver.round(), [1]);
    driver.answer(1, Reply::Broke);
    assert_eq!(driver.round(), [0u64; 0], "once");
}

// spec: A-21
#[test]
fn a_test_request_of_unknown_outcome_does_not_block_its_profile_forever() {
    let mut driver = Driver::new(&[("default", 2)]);
    driver.round();
    driver.answer(1, Reply::Created);
    driver.round();
    driver.answer(2, Reply::Refused(RefusalKind::Quota));
    driver.scenario.pass(1_000);
    assert_eq!(driver.round(), [3]);
    driver.answer(3, Reply::Broke);
    driver.live(60_000, |driver| driver.answer_all(|_, _| Reply::Created));
    assert_eq!(driver.live_of("default"), 2);
    assert_eq!(driver.ids_where(|class| class == Class::Unknown), [0u64; 0]);
}
