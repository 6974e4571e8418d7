//! Which claims are created, and when.

use super::*;
use crate::actors::pod_allocator::claims::making::{Change, Ensure, Ensured};
use crate::kubernetes::{Failure, FailureKind};
use crate::model::pod::{ContainerState, Scheduling};
use crate::model::reasoning::reason_of;
use crate::model::{LossClass, PodState};

impl Driver {
    /// Answers a call about a claim that was made just now.
    fn ensured(&mut self, ensure: &Ensure, ensured: Ensured) {
        let now = self.scenario.now();
        let said = self
            .allocation
            .claim_answered(ensure, now.tick, ensured, now);
        self.said.extend(said);
    }

    /// Lives where no more claims than this can be made, and all pods. Returns when which claims were tried.
    fn live_with_quota(&mut self, millis: u64, made: &mut BTreeSet<u64>, most: usize) -> Vec<u64> {
        let mut tried = Vec::new();
        self.live(millis, |driver| {
            for n in driver.flights.keys().copied().collect::<Vec<_>>() {
                driver.creates(n.get());
            }
            while let Some(ensure) = driver.ensures.pop() {
                let n = ensure.id.get();
                tried.push(driver.scenario.millis);
                if made.len() < most || made.contains(&n) {
                    made.insert(n);
                    driver.ensured(&ensure, Ensured::There);
                    let pod = running(driver.scenario.pod(n));
                    driver.scenario.observe(pod);
                } else {
                    driver.ensured(&ensure, full());
                }
            }
        });
        tried
    }
}

fn full() -> Ensured {
    Ensured::Refused(RefusalKind::Quota, "quota q is used up".into())
}

fn failed(kind: FailureKind) -> Ensured {
    Ensured::Failed(Failure::new(kind, "no"))
}

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
    driver.ensured(&ensure, Ensured::There);
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
            driver.ensured(&ensure, failed(FailureKind::Server));
        }
    });
    assert!((8..=14).contains(&tries), "{tries}");
    assert!(driver.retired.is_empty());
}

// spec
#[test]
fn a_claim_that_a_quota_refuses_pauses_its_profile_and_costs_no_executor() {
    let mut driver = Driver::with(claiming(Reuse::Never), Scenario::new(&[("default", 40)]));
    let mut made = BTreeSet::new();
    driver.live_with_quota(600_000, &mut made, 2);
    let quota = Cause::Refused(RefusalKind::Quota);
    assert!(
        matches!(driver.pauses()[..], [(cause, since, _)] if cause == quota && since < 1_000),
        "{:?}",
        driver.pauses()
    );
    let pods = driver.left.len();
    assert!(
        (3..=8).contains(&pods),
        "no more pods than were on their way at the first refusal: {pods}"
    );
    assert!(driver.retired.is_empty() && driver.kept_failures.is_empty());
    let began = |notice: &&Notice| matches!(notice, Notice::RefusalBegan { .. });
    assert_eq!(driver.said.iter().filter(began).count(), 1, "said once");
    let tried = driver.live_with_quota(600_000, &mut made, 2);
    assert!((8..=11).contains(&tried.len()), "one a minute: {tried:?}");
    // With room for all, all run, and the end of the pause is said.
    driver.said.clear();
    driver.live_with_quota(80_000, &mut made, 40);
    assert_eq!((made.len(), driver.left.len()), (40, 40));
    assert!(
        matches!(driver.said[..], [Notice::RefusalEnded { .. }]),
        "{:?}",
        driver.said
    );
    assert_eq!(driver.pauses(), []);
}

// spec
#[test]
fn while_claims_are_refused_an_executor_that_ends_is_replaced_by_one_with_its_claim() {
    let (mut driver, claims) = Driver::with_claims(2, Reuse::IfFree);
    driver.scenario.want("default", 4);
    let mut made = BTreeSet::from([1, 2]);
    driver.rounds(&claims);
    driver.live_with_quota(20_000, &mut made, 2);
    let waiting = driver.scenario.counts("default").pending;
    assert_eq!(driver.live_of("default"), 2 + waiting);
    let before = driver.left.len();
    driver.scenario.exits(1, 1);
    driver.bury();
    for _ in 0..10 {
        driver.rounds(&claims);
        driver.scenario.pass(2_000);
    }
    assert_eq!(driver.left.len(), before + 1, "and by no other");
    let (_, replacement) = *driver.left.last().unwrap();
    assert_eq!(driver.given(replacement), Some(own(1)));
}

// spec: A-113
#[test]
fn an_executor_whose_claim_is_refused_takes_no_slot_of_another_profile() {
    let rules = AllocationRules {
        caps: Caps {
            pending: Some(4),
            ..Caps::default()
        },
        ..claiming(Reuse::Never)
    };
    let mut driver = Driver::with(rules, Scenario::new(&[("default", 4), ("other", 0)]));
    driver.live_with_quota(5_000, &mut BTreeSet::new(), 0);
    driver.scenario.want("other", 4);
    driver.live_with_quota(5_000, &mut BTreeSet::new(), 0);
    assert_eq!(driver.live_of("other"), 4);
}

// spec: A-113
#[test]
fn an_executor_that_leaves_takes_its_refused_claim_with_it() {
    let mut driver = with_a_pod();
    driver.round();
    driver.answer_all(|_, _| Reply::Created);
    let ensure = driver.ensures.pop().unwrap();
    driver.ensured(&ensure, full());
    driver.scenario.pass(1_000);
    driver.round();
    let again = driver.ensures.pop().unwrap();
    driver.scenario.want("default", 0);
    driver.live(15_000, |_| {});
    assert!(driver.retired.contains(&1));
    // The answer to the try comes late, and the next executor is tried.
    driver.ensured(&again, full());
    driver.bury();
    driver.round();
    driver.left.clear();
    driver.scenario.want("default", 1);
    driver.live(70_000, |_| {});
    assert_eq!(driver.left.len(), 1, "{:?}", driver.left);
}

// spec: A-61
#[test]
fn an_executor_whose_claims_name_is_taken_is_replaced() {
    let mut driver = with_a_pod();
    driver.round();
    driver.answer_all(|_, _| Reply::Created);
    let ensure = driver.ensures.remove(0);
    driver.ensured(&ensure, Ensured::Taken("its name is taken".into()));
    driver.round();
    assert_eq!(driver.retired, [1]);
    assert_eq!(driver.allocation.claims().making.in_flight(), 0);
    let entry = driver.scenario.entry(1).cloned().unwrap();
    let reason = reason_of(&entry);
    assert_eq!(
        (reason.class, reason.failure),
        (LossClass::StartFailed, true)
    );
    let message = &reason.message;
    assert!(message.contains("its name is taken"), "{message}");
    let pending = driver.scenario.counts("default").pending;
    assert_eq!(pending, 1, "it does not count as pending any more");
    // It is retired once, and another executor gets its slot.
    driver.round();
    assert_eq!(driver.retired, [1]);
    assert_eq!(driver.live_of("default"), 2);
    assert_eq!(driver.allocation.in_flight() as usize, driver.flights.len());
}

// spec: A-61
#[test]
fn each_way_in_which_calls_about_claims_fail_is_said_once_and_the_end_once() {
    let mut driver = with_a_pod();
    let kinds = [
        FailureKind::Server,
        FailureKind::Wait,
        FailureKind::Conflict,
    ];
    let mut calls = 0;
    driver.live(120_000, |driver| {
        driver.answer_all(|_, _| Reply::Unreachable);
        while let Some(ensure) = driver.ensures.pop() {
            driver.ensured(&ensure, failed(kinds[calls % 3]));
            calls += 1;
        }
    });
    assert!(calls > 6);
    let of_claims = |said: &[Notice]| {
        let changes = said.iter().filter_map(|notice| match notice {
            Notice::Claims(change) => Some(*change == Change::Works),
            _ => None,
        });
        changes.collect::<Vec<_>>()
    };
    assert_eq!(of_claims(&driver.said), [false; 3]);
    driver.said.clear();
    driver.live(30_000, |driver| {
        while let Some(ensure) = driver.ensures.pop() {
            driver.ensured(&ensure, Ensured::There);
        }
    });
    assert_eq!(of_claims(&driver.said), [true]);
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
            driver.ensured(&ensure, failed(FailureKind::Server));
        }
    });
    driver.round();
    assert!(driver.ensures.is_empty());
    let now = driver.scenario.now().tick;
    driver.allocation.server_is_back(now);
    driver.round();
    assert_eq!(driver.ensures.len(), 1);
}
