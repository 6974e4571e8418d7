use super::*;
use crate::model::executor::LeaveMethod;
use crate::model::news::Outcome;
use crate::testing::{Scenario, id};

// spec: L-1, O-30
#[test]
fn a_gone_executor_is_bound_in_the_record_until_its_end_is_reported_and_has_ended_from_then_on() {
    let mut scenario = Scenario::new(&[("default", 1)]);
    let profile = "default".into();
    scenario.requested(1, Outcome::Sent { profile });
    scenario.created(1);
    scenario.runs(1);
    scenario.goes(1);
    assert!(scenario.entry(1).unwrap().is_gone());
    let found = |scenario: &Scenario| intervals(scenario.current()).unwrap();
    let one = IdSet::from_iter([id(1)]);
    assert_eq!(found(&scenario), (IdSet::new(), one.clone()));
    scenario.report(1);
    assert!(scenario.entry(1).is_some(), "not everybody has seen it");
    assert_eq!(found(&scenario), (one, IdSet::new()));
}

// spec: O-31, L-34, S-15
#[test]
fn an_executor_missing_in_the_first_list_stays_in_the_record_until_its_end_is_reported() {
    let mut scenario = Scenario::new(&[("default", 1)]);
    let profile = "default".into();
    scenario.requested(1, Outcome::Sent { profile });
    scenario.created(1);
    let mut snapshot = scenario.current().clone();
    snapshot.not_found = [1, 2, 3].map(id).into_iter().collect();
    snapshot.ended.insert(id(2));
    let (_, bound) = intervals(&snapshot).unwrap();
    assert_eq!(bound, IdSet::from_iter([id(1), id(3)]));
    scenario.exits(1, 0);
    scenario.goes(1);
    scenario.report(1);
    snapshot.entries = scenario.current().entries.clone();
    let (_, bound) = intervals(&snapshot).unwrap();
    assert_eq!(
        bound,
        IdSet::from_iter([id(3)]),
        "its end is reported already"
    );
}

// spec: O-30, O-80, B-31, B-65
#[test]
fn requested_numbers_are_kept_and_a_hold_or_a_replacement_does_not_change_them() {
    let mut scenario = Scenario::new(&[("default", 3), ("other", 3)]);
    let mut before = OrdMap::new();
    let mut set = |scenario: &Scenario| {
        let now = scenario.current().targets.clone();
        let set = newly_set(&before, &now);
        before = now;
        set
    };
    let to = |executors| BTreeMap::from([("default".into(), executors)]);
    assert_eq!(set(&scenario), BTreeMap::new(), "as configured");
    scenario.want("default", 3);
    assert_eq!(set(&scenario), to(3));
    scenario.tell(News::Surge {
        profile: "default".into(),
        by: 1,
    });
    assert_eq!(set(&scenario), BTreeMap::new());
    scenario.tell(News::Hold {
        by: None,
        how: LeaveMethod::Delete,
    });
    assert_eq!(set(&scenario), BTreeMap::new());
    scenario.want("default", 5);
    assert_eq!(set(&scenario), to(5));
    scenario.tell(News::Resume);
    assert_eq!(set(&scenario), BTreeMap::new());
    scenario.tell(News::Configured(to(4)));
    assert_eq!(set(&scenario), BTreeMap::new(), "as configured");
    scenario.want("default", 4);
    assert_eq!(set(&scenario), to(4));
}

// spec: O-30, O-31, L-1
#[test]
fn a_driver_that_ends_before_adoption_keeps_the_records_executors() {
    let mut snapshot = Snapshot::default();
    assert_eq!(intervals(&snapshot), None);
    snapshot.adopted = true;
    assert_eq!(intervals(&snapshot), Some((IdSet::new(), IdSet::new())));
}
