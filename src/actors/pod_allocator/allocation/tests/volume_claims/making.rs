//! Which claims are created, and when.

use super::*;
use crate::actors::pod_allocator::claims::making::Ensured;
use crate::model::pod::{ContainerState, Scheduling};
use crate::model::{LossClass, PodState};

/// Executor 1 has an unscheduled pod.
fn with_a_pod() -> Driver {
    let mut driver = Driver::with(claiming(Reuse::Never), Scenario::new(&[("default", 2)]));
    assert_eq!(driver.round(), [1]);
    assert!(driver.ensures.is_empty(), "no claim before there is a pod");
    driver.creates(1);
    driver
}

// spec: K-10
#[test]
fn a_claim_is_created_once_and_only_after_a_pod_mentions_it() {
    let mut driver = with_a_pod();
    driver.round();
    let ensure = driver.ensures.pop().unwrap();
    assert_eq!(
        (ensure.id, &*ensure.name, ensure.new),
        (id(1), &*own(1), true)
    );
    driver.round();
    assert!(driver.ensures.is_empty(), "one call at a time");
    let now = driver.scenario.now().tick;
    driver
        .allocation
        .claims()
        .making
        .answered(&ensure, Ensured::There, now);
    driver.scenario.pass(59_000);
    driver.round();
    assert!(driver.ensures.is_empty());
    // A pod that stays pending may have lost its claim: it is looked up, and created if missing.
    driver.scenario.pass(2_000);
    driver.round();
    assert!(driver.ensures.pop().is_some_and(|ensure| !ensure.new));
    // A scheduled pod has its claims.
    let mut pod = driver.scenario.pod(1);
    (pod.scheduling, pod.executor) = (Scheduling::Bound, ContainerState::Absent);
    assert!(matches!(pod.state(), PodState::Pending(_)));
    driver.scenario.observe(pod);
    driver.scenario.pass(61_000);
    driver.round();
    assert!(driver.ensures.is_empty());
}

// spec: K-10, A-26
#[test]
fn while_the_server_fails_the_creation_of_a_claim_is_repeated_without_limit() {
    let mut driver = with_a_pod();
    let mut tries = 0;
    driver.live(120_000, |driver| {
        driver.answer_all(|_, _| Reply::Unreachable);
        while let Some(ensure) = driver.ensures.pop() {
            tries += 1;
            let now = driver.scenario.now().tick;
            driver
                .allocation
                .claims()
                .making
                .answered(&ensure, Ensured::Trouble, now);
        }
    });
    assert!((8..=14).contains(&tries), "{tries}");
    assert!(driver.retired.is_empty());
}

// spec: A-61
#[test]
fn a_refused_claim_costs_its_executor_and_nothing_else() {
    let mut driver = with_a_pod();
    driver.round();
    driver.answer_all(|_, _| Reply::Created);
    let ensure = driver.ensures.remove(0);
    let now = driver.scenario.now().tick;
    let refused = Ensured::Refused("exceeded quota: storage".into());
    driver
        .allocation
        .claims()
        .making
        .answered(&ensure, refused, now);
    driver.round();
    assert_eq!(driver.retired, [1]);
    assert_eq!(driver.allocation.claims().making.in_flight(), 0);
    let entry = driver.scenario.entry(1).cloned().unwrap();
    let reason = reason_of(&entry);
    assert_eq!(
        (reason.class, reason.failure),
        (LossClass::StartFailed, true)
    );
    assert!(
        reason.message.contains("exceeded quota: storage"),
        "{}",
        reason.message
    );
    let pending = driver.scenario.counts("default").pending;
    assert_eq!(pending, 1, "it does not count as pending any more");
    // It is retired once, and another executor gets its slot.
    driver.round();
    assert_eq!(driver.retired, [1]);
    assert_eq!(driver.live_of("default"), 2);
    assert_eq!(driver.allocation.in_flight() as usize, driver.flights.len());
}

// spec: K-10, A-14
#[test]
fn a_pod_of_an_earlier_driver_gets_its_missing_claim() {
    let mut scenario = Scenario::before_adoption(&[("default", 1)], Inheritance::default());
    let mut pod = crate::model::testing::pending("a", 7, "u7", 1);
    pod.volume_claims = Some(Arc::from([PodClaim {
        volume: "data".into(),
        name: own(7).into(),
    }]));
    scenario.list(vec![pod]);
    let mut driver = Driver::with(claiming(Reuse::IfFree), scenario);
    driver.round();
    let ensured: Vec<&str> = driver.ensures.iter().map(|e| &*e.name).collect();
    assert_eq!(ensured, [own(7)]);
}

// spec: K-10, W-14
#[test]
fn a_claim_whose_creation_failed_is_tried_again_when_the_server_is_back() {
    let mut driver = with_a_pod();
    driver.live(40_000, |driver| {
        driver.answer_all(|_, _| Reply::Unreachable);
        while let Some(ensure) = driver.ensures.pop() {
            let now = driver.scenario.now().tick;
            let making = &mut driver.allocation.claims().making;
            making.answered(&ensure, Ensured::Trouble, now);
        }
    });
    driver.round();
    assert!(driver.ensures.is_empty());
    let now = driver.scenario.now().tick;
    driver.allocation.server_is_back(now);
    driver.round();
    assert_eq!(driver.ensures.len(), 1);
}
