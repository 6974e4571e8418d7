//! Limits on pending executors, and on executors over the application's life.

use super::*;
use crate::model::ledger::Inheritance;

fn caps(pending: Option<u32>, over_life: Option<u32>) -> AllocationRules {
    let caps = Caps {
        pending,
        over_life,
        ..Caps::default()
    };
    AllocationRules { caps, ..settings() }
}

impl Driver {
    /// The profiles of live executors, by id.
    fn profiles(&self) -> Vec<(u64, String)> {
        let live = self.ids_where(Class::is_live).into_iter();
        live.map(|n| (n, self.scenario.profile_of(n).to_string()))
            .collect()
    }

    fn enough(&self) -> usize {
        let enough = |notice: &&Notice| matches!(notice, Notice::Enough { .. });
        self.said.iter().filter(enough).count()
    }
}

// spec: A-4
#[test]
fn three_pending_slots_are_shared_by_profiles_that_want_two_and_three() {
    let mut driver = Driver::with(caps(Some(3), None), Scenario::new(&[("a", 2), ("b", 3)]));
    driver.settle(|_, _| Reply::Created);
    let of = |driver: &Driver, profile: &str| driver.live_of(profile);
    assert_eq!(
        driver.ids_where(Class::is_live),
        [1, 2, 3],
        "ids start at 1"
    );
    assert_eq!(
        (of(&driver, "a"), of(&driver, "b")),
        (2, 1),
        "the first takes the remainder"
    );
    // Pending executors keep their slots.
    driver.live(8_000, |_| {});
    assert_eq!(driver.left.len(), 3, "{:?}", driver.profiles());
    // A lower target retires one, once it is old enough, and frees its slot for the other profile.
    driver.scenario.want("a", 1);
    driver.live(4_000, |driver| driver.answer_all(|_, _| Reply::Created));
    assert_eq!(
        (of(&driver, "a"), of(&driver, "b")),
        (1, 2),
        "{:?}",
        driver.profiles()
    );
    assert_eq!(driver.left.len(), 4);
    // A running executor frees its slot.
    let pending = driver.ids_where(|class| matches!(class, Class::Pending(_)));
    driver.scenario.runs(pending[0]);
    driver.settle(|_, _| Reply::Created);
    assert_eq!((of(&driver, "a"), of(&driver, "b")), (1, 3));
}

// spec: A-4
#[test]
fn a_profile_has_its_own_limit_beside_the_common_one() {
    let mut settings = caps(Some(4), None);
    settings.caps.pending_of.insert("a".into(), 1);
    let mut driver = Driver::with(settings, Scenario::new(&[("a", 9), ("b", 9)]));
    driver.settle(|_, _| Reply::Created);
    assert_eq!((driver.live_of("a"), driver.live_of("b")), (1, 3));
    driver.allocation.limit_pending("a".into(), None);
    driver.allocation.limit_pending("b".into(), Some(3));
    for n in driver.ids_where(Class::is_live) {
        driver.scenario.runs(n);
    }
    driver.settle(|_, _| Reply::Created);
    let (a, b) = (driver.live_of("a"), driver.live_of("b"));
    assert!(
        a + b == 8 && b <= 6,
        "{a} and {b}: four pending in all, of b three at most"
    );
}

// spec: A-5
#[test]
fn executors_over_the_applications_life_are_limited_and_the_limit_is_reported_once() {
    let mut driver = Driver::with(caps(None, Some(5)), Scenario::new(&[("a", 2), ("b", 2)]));
    driver.fill();
    driver.all_stay();
    assert_eq!(driver.enough(), 0);
    for n in 1..=4 {
        driver.scenario.exits(n, 0);
        driver.settle(|_, _| Reply::Created);
    }
    assert_eq!(
        (driver.live_of("a") + driver.live_of("b"), driver.left.len()),
        (1, 5)
    );
    driver.live(60_000, |_| {});
    assert_eq!((driver.left.len(), driver.enough()), (5, 1));
}

// spec: A-5
#[test]
fn a_request_whose_outcome_is_unknown_keeps_its_place_and_a_refused_one_does_not() {
    let mut driver = Driver::with(caps(None, Some(2)), Scenario::new(&[("default", 2)]));
    driver.round();
    driver.answer(1, Reply::Broke);
    driver.live(500, |_| {});
    assert_eq!(
        driver.left.iter().filter(|(_, n)| *n > 2).count(),
        0,
        "{:?}",
        driver.left
    );
    let mut refused = Driver::with(caps(None, Some(2)), Scenario::new(&[("default", 2)]));
    refused.round();
    refused.answer(1, Reply::Refused(RefusalKind::Quota));
    refused.live(5_000, |driver| driver.answer_all(|_, _| Reply::Created));
    assert_eq!(refused.live_of("default"), 2);
}

// spec: A-5, O-30
#[test]
fn a_successor_continues_counting() {
    let inherited = Inherited {
        reserved: ExecutorId::new(1_000),
        made: crate::model::made::CreatedCount::inherited(4, [id(3)].into_iter().collect()),
        ..Inherited::default()
    };
    let scenario = Scenario::before_adoption(&[("default", 9)], Inheritance::default());
    let found = vec![crate::testing::running(scenario.pod(3))];
    let now = scenario.now();
    let mut driver = Driver::of(resuming(caps(None, Some(5)), &inherited, now), scenario);
    driver.scenario.list(found);
    let (uid, epoch) = ("record".into(), driver.scenario.current().epoch);
    driver.scenario.tell(News::RecordSeen { uid, epoch });
    driver.live(60_000, |driver| driver.answer_all(|_, _| Reply::Created));
    assert_eq!(
        (
            driver.left.len(),
            driver.live_of("default"),
            driver.enough()
        ),
        (1, 2, 1)
    );
}
