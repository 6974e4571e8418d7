//! Which claims new executors get, and which executors wait for one.

mod making;

use std::collections::BTreeSet;

use super::*;
use crate::actors::pod_allocator::claims::Reuse;
use crate::model::claims::{Claim, ClaimOwner, ClaimShape, ClaimTemplate, PodClaim};
use crate::model::ledger::Inheritance;
use crate::testing::{exited, running};

/// The requested size in bytes.
const SIZE: u64 = 10 << 30;

fn shape(class: Option<&str>, bytes: u64) -> ClaimShape {
    ClaimShape {
        storage_class: class.map(Arc::from),
        access_modes: BTreeSet::from(["ReadWriteOnce".into()]),
        bytes,
        ..ClaimShape::default()
    }
}

fn claiming(reuse: Reuse) -> AllocationRules {
    let template = ClaimTemplate {
        volume: "data".into(),
        shape: shape(Some("fast"), SIZE),
        owner: ClaimOwner::Application,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    };
    let claims = claims::ClaimRules {
        prefix: "a".into(),
        reuse,
        profiles: BTreeMap::from([("default".into(), Arc::from([template]))]),
    };
    AllocationRules {
        claims,
        ..settings()
    }
}

/// A claim that is old enough and fits any executor.
fn claim(name: &str) -> Claim {
    let hours_ago = jiff::Timestamp::from_second(-36_000).unwrap();
    Claim {
        name: name.into(),
        uid: format!("uid of {name}").into(),
        ours: true,
        record: Some("record".into()),
        of_a_pod: false,
        created: Some(hours_ago),
        spent: false,
        shape: shape(Some("fast"), SIZE),
    }
}

fn own(n: u64) -> String {
    format!("a-exec-{n}-data")
}

impl Driver {
    /// A driver that started long enough ago for earlier drivers' requests to be settled.
    fn claims(wanted: u32, reuse: Reuse) -> Self {
        let scenario = Scenario::new(&[("default", wanted)]);
        let mut driver = Self::with(claiming(reuse), scenario);
        driver.scenario.pass(11_000);
        driver
    }

    /// A round, the list it requests, and the next round. Returns the requested executors.
    fn rounds(&mut self, claims: &[Claim]) -> Vec<u64> {
        let mut asked = self.round();
        while let Some(epoch) = self.lists.pop() {
            let now = self.scenario.now().tick;
            (self.allocation.claims()).listed(Some(claims.to_vec()), now, epoch);
            asked.extend(self.round());
        }
        asked
    }

    /// The claim that an executor was given.
    fn given(&mut self, n: u64) -> Option<String> {
        let given = self.allocation.claims().given(id(n));
        given.first().map(|claim| claim.name.to_string())
    }

    /// Answers the request with a pod that mounts the given claim, or one of its own.
    fn creates(&mut self, n: u64) {
        self.answer(n, Reply::Created);
        let name = self.given(n).unwrap_or_else(|| own(n));
        let mut pod = self.scenario.pod(n);
        pod.volume_claims = Some(Arc::from([PodClaim {
            volume: "data".into(),
            name: name.into(),
        }]));
        self.scenario.observe(pod);
    }

    /// Running executors, each with a claim of its own.
    fn with_claims(wanted: u32, reuse: Reuse) -> (Self, Vec<Claim>) {
        let mut driver = Self::claims(wanted, reuse);
        for _ in 0..10 {
            for n in driver.rounds(&[]) {
                driver.creates(n);
                let pod = running(driver.scenario.pod(n));
                driver.scenario.observe(pod);
            }
        }
        assert_eq!(driver.live_of("default"), wanted);
        driver.ensures.clear();
        driver.scenario.pass(61_000);
        let claims = (1..=u64::from(wanted)).map(|n| claim(&own(n)));
        (driver, claims.collect())
    }
}

// spec: A-60
#[test]
fn a_free_claim_is_mounted_instead_of_a_new_one() {
    let mut driver = Driver::claims(1, Reuse::IfFree);
    assert_eq!(
        driver.round(),
        [0; 0],
        "not before it is known what there is"
    );
    assert_eq!(driver.round(), [0; 0]);
    assert_eq!(driver.lists.len(), 1, "one list at a time is asked for");
    let now = driver.scenario.now().tick;
    let there = vec![claim("a-exec-9-data")];
    driver
        .allocation
        .claims()
        .listed(Some(there), now, Epoch::default());
    assert_eq!(driver.round(), [1]);
    assert_eq!(driver.given(1), Some("a-exec-9-data".to_owned()));
}

// spec: A-60
#[test]
fn a_claim_younger_than_the_longest_request_is_not_reused() {
    let now = jiff::Timestamp::UNIX_EPOCH;
    let recent = Claim {
        created: Some(now - CREATION_TIMEOUT + Duration::from_secs(1)),
        ..claim("recent")
    };
    let mut driver = Driver::claims(1, Reuse::IfFree);
    assert_eq!(driver.rounds(std::slice::from_ref(&recent)), [1]);
    assert_eq!(driver.given(1), None);
    driver.answer(1, Reply::Unreachable);
    // The server's clock may be wrong; by our own clock the claim is old enough.
    driver.scenario.pass(61_000);
    assert_eq!(driver.rounds(&[recent]), [2]);
    assert_eq!(driver.given(2), Some("recent".to_owned()));
}

// spec: A-60
#[test]
fn if_claims_cannot_be_listed_none_is_reused_and_no_executor_waits() {
    let mut driver = Driver::claims(2, Reuse::OrWait);
    assert_eq!(driver.round(), [0; 0]);
    let (now, epoch) = (driver.scenario.now().tick, driver.lists.pop().unwrap());
    driver.allocation.claims().listed(None, now, epoch);
    assert_eq!(driver.round(), [1]);
    driver.creates(1);
    assert_eq!(
        driver.round(),
        [2],
        "and a failed list is not asked for anew at once"
    );
    assert!(driver.lists.is_empty() && driver.given(2).is_none());
}

// spec: A-60
#[test]
fn a_claim_that_does_not_fit_or_is_being_deleted_or_is_not_ours_is_not_reused() {
    let unfit = [
        Claim {
            shape: shape(Some("slow"), SIZE),
            ..claim("class")
        },
        Claim {
            shape: shape(Some("fast"), SIZE - 1),
            ..claim("small")
        },
        Claim {
            spent: true,
            ..claim("deleted")
        },
        Claim {
            ours: false,
            ..claim("foreign")
        },
        Claim {
            of_a_pod: true,
            ..claim("of a pod")
        },
        Claim {
            record: Some("an older record".into()),
            ..claim("old record")
        },
        Claim {
            record: None,
            ..claim("orphan")
        },
    ];
    for reuse in [Reuse::IfFree, Reuse::OrWait] {
        let mut driver = Driver::claims(1, reuse);
        assert_eq!(driver.rounds(&unfit), [1], "and nobody waits for them");
        assert_eq!(driver.given(1), None);
    }
    let larger = Claim {
        shape: shape(Some("fast"), 2 * SIZE),
        ..claim("larger")
    };
    let mut driver = Driver::claims(1, Reuse::IfFree);
    driver.rounds(&[larger.clone(), claim("fits")]);
    assert_eq!(
        driver.given(1),
        Some("fits".to_owned()),
        "the smallest that does"
    );
    let mut driver = Driver::claims(1, Reuse::IfFree);
    driver.rounds(&[larger]);
    assert_eq!(driver.given(1), Some("larger".to_owned()));
}

// spec: A-101
#[test]
fn a_claim_that_any_snapshot_of_the_batch_mentions_is_in_use() {
    let (mut driver, claims) = Driver::with_claims(2, Reuse::IfFree);
    // The pod is gone in the latest snapshot, but an earlier one of the same batch has it.
    driver.scenario.terminates(1);
    driver.scenario.goes(1);
    let now = driver.scenario.now().tick;
    (driver.allocation.claims()).listed(Some(claims.clone()), now, Epoch::default());
    assert_eq!(driver.round(), [3]);
    assert_eq!(driver.given(3), None);
    driver.answer(3, Reply::Unreachable);
    // In the next batch the claim is free.
    driver.bury();
    driver.round();
    driver.scenario.pass(6_000);
    assert_eq!(driver.rounds(&claims), [4]);
    assert_eq!(driver.given(4), Some(own(1)));
}

// spec: A-101
#[test]
fn no_claim_is_given_to_two_executors_even_while_no_pod_is_known() {
    let mut driver = Driver::claims(2, Reuse::IfFree);
    let there = [claim("one")];
    assert_eq!(driver.rounds(&there), [1]);
    driver.answer(1, Reply::Broke);
    driver.scenario.pass(600);
    let asked = driver.rounds(&there);
    assert_eq!(asked, [2]);
    assert_eq!(
        driver.given(2),
        None,
        "the first one's request may yet commit"
    );
    // A repeat is the same request.
    driver.creates(2);
    driver.scenario.pass(2_000);
    assert_eq!(driver.rounds(&there), [1]);
    assert_eq!(driver.given(1), Some("one".to_owned()));
    // Once the look-up shows that there is no pod, the claim is free again.
    driver.answer(1, Reply::Broke);
    driver.scenario.pass(61_000);
    let (sent, epoch) = (driver.scenario.now().tick, Epoch::default());
    driver.scenario.tell(News::LookedUp {
        id: id(1),
        sent,
        epoch,
        found: crate::model::news::Found::Nothing,
    });
    assert_eq!(driver.rounds(&there), [3]);
    assert_eq!(driver.given(3), Some("one".to_owned()));
}

// spec: A-60
#[test]
fn after_a_start_claims_that_an_earlier_driver_may_have_requested_are_not_reused() {
    let mut driver = Driver::with(claiming(Reuse::IfFree), Scenario::new(&[("default", 1)]));
    assert_eq!(driver.rounds(&[claim("one")]), [1]);
    assert_eq!(driver.given(1), None);
}

// spec: A-110
#[test]
fn only_as_many_executors_wait_as_claims_are_about_to_be_free() {
    let (mut driver, claims) = Driver::with_claims(3, Reuse::OrWait);
    driver.scenario.terminates(2);
    driver.round();
    driver.scenario.pass(1_000);
    assert_eq!(
        driver.rounds(&claims),
        [0; 0],
        "there are as many claims as executors wanted"
    );
    // There are fewer claims than executors wanted, so the additional one need not wait.
    driver.scenario.want("default", 4);
    driver.scenario.pass(6_000);
    assert_eq!(driver.rounds(&claims), [4]);
    assert_eq!(driver.given(4), None);
    driver.creates(4);
    driver.scenario.goes(2);
    driver.bury();
    driver.round();
    driver.scenario.pass(6_000);
    assert_eq!(driver.rounds(&claims), [5]);
    assert_eq!(driver.given(5), Some(own(2)));
}

// spec: A-110
#[test]
fn without_waiting_a_new_claim_is_used_while_none_is_free() {
    let (mut driver, claims) = Driver::with_claims(3, Reuse::IfFree);
    driver.scenario.terminates(2);
    assert_eq!(driver.rounds(&claims), [4]);
    assert_eq!(driver.given(4), None);
}

// spec: A-110
#[test]
fn no_executor_waits_forever_for_a_claim_that_does_not_become_free() {
    // Its pod stays Terminating, and its end was reported.
    let (mut driver, claims) = Driver::with_claims(2, Reuse::OrWait);
    driver.scenario.terminates(1);
    driver.round();
    driver.scenario.pass(6_000);
    assert_eq!(driver.rounds(&claims), [0; 0]);
    driver.scenario.report(1);
    driver.scenario.pass(6_000);
    assert_eq!(driver.rounds(&claims), [3]);

    // Its pod has ended and cannot be deleted.
    let (mut driver, claims) = Driver::with_claims(2, Reuse::OrWait);
    let pod = exited(driver.scenario.pod(1), 0);
    driver.scenario.observe(pod);
    driver.round();
    driver.scenario.pass(6_000);
    assert_eq!(driver.rounds(&claims), [0; 0]);
    driver.scenario.pass(61_000);
    assert_eq!(driver.rounds(&claims), [3]);

    // The claim is deleted while an executor waits for it.
    let (mut driver, claims) = Driver::with_claims(2, Reuse::OrWait);
    driver.scenario.terminates(1);
    driver.round();
    driver.scenario.pass(6_000);
    assert_eq!(driver.rounds(&claims), [0; 0]);
    driver.scenario.pass(6_000);
    assert_eq!(driver.rounds(&claims[1..]), [3]);
}

// spec: A-110
#[test]
fn a_recent_claim_is_waited_for_until_it_is_old_enough_by_either_clock() {
    let ahead = Claim {
        created: Some(jiff::Timestamp::from_second(86_400).unwrap()),
        ..claim("ahead")
    };
    let mut driver = Driver::claims(1, Reuse::OrWait);
    let mut waited = 0;
    while driver.rounds(std::slice::from_ref(&ahead)).is_empty() {
        driver.scenario.pass(1_000);
        waited += 1;
        assert!(waited <= 61, "the server's clock is a day ahead");
    }
    assert!(waited >= 55, "{waited}");
    assert_eq!(driver.given(1), Some("ahead".to_owned()));
}

// spec: A-101
#[test]
fn while_a_pod_cannot_be_read_no_claim_is_reused() {
    let mut scenario = Scenario::before_adoption(&[("default", 2)], Inheritance::default());
    let mut pod = crate::model::testing::pending("a", 1, "u1", 1);
    pod.phase = crate::model::pod::Phase::unreadable();
    scenario.list(vec![pod]);
    let mut driver = Driver::with(claiming(Reuse::IfFree), scenario);
    driver.scenario.pass(11_000);
    let asked = driver.rounds(&[claim("whose")]);
    assert_eq!(asked.len(), 1);
    assert_eq!(driver.given(asked[0]), None);
}
