//! Tests of targets and requested numbers (spec B-28, B-31, B-32, O-30).

use crate::ProfileName;
use crate::executor::{LeaveMethod, LeaveReason};
use crate::news::{News, TargetChange};
use crate::snapshot::{Hold, Target};
use crate::testing::{Scenario, id};

fn three() -> Scenario {
    let mut scenario = Scenario::new(&[("default", 3), ("other", 3)]);
    for n in 1..=3 {
        let profile = "default".into();
        scenario.requested(n, crate::news::Outcome::Sent { profile });
        scenario.created(n);
        scenario.runs(n);
    }
    scenario
}

fn retire(ids: &[u64], aim: TargetChange) -> News {
    News::Retire {
        ids: ids.iter().map(|n| id(*n)).collect(),
        aim,
        why: LeaveReason::Decommissioned("me".into()),
        how: LeaveMethod::Delete,
    }
}

fn hold() -> News {
    News::Hold {
        by: Some("me".into()),
        how: LeaveMethod::Delete,
    }
}

fn surge(by: u32) -> News {
    let profile = "default".into();
    News::Surge { profile, by }
}

fn no_surge() -> TargetChange {
    TargetChange::Surge([("default".into(), 0)].into())
}

/// The wanted and the requested number of executors, and whether the record keeps the latter.
fn target(scenario: &Scenario) -> (u32, u32, bool) {
    let targets = &scenario.current().targets;
    let Target {
        executors,
        asked,
        is_set,
        ..
    } = targets[&ProfileName::from("default")];
    (executors, asked, is_set)
}

// spec: O-30
#[test]
fn the_record_keeps_only_targets_that_were_set_at_run_time_even_if_the_number_is_the_same() {
    let mut scenario = three();
    assert_eq!(target(&scenario), (3, 3, false));
    scenario.want("default", 3);
    assert_eq!(target(&scenario), (3, 3, true));
    let since =
        |scenario: &Scenario| scenario.current().targets[&ProfileName::from("default")].since;
    let before = since(&scenario);
    scenario.pass(1_000);
    scenario.want("default", 3);
    assert_eq!(since(&scenario), before);
    scenario.want("default", 4);
    assert_ne!(since(&scenario), before);
}

// spec
#[test]
fn no_more_than_a_surplus_leaves_even_if_others_have_ended_since_the_decision() {
    let mut scenario = three();
    scenario.want("default", 1);
    scenario.tell(retire(&[3], TargetChange::Fall));
    scenario.want("default", 1);
    // The decision is from before 3 became leaving.
    scenario.tell(retire(&[2, 1], TargetChange::Surplus));
    let leaves = |n| scenario.entry(n).unwrap().leaving.is_some();
    assert_eq!([1, 2, 3].map(leaves), [false, true, true]);
    assert_eq!(target(&scenario), (1, 1, true));
}

// spec: B-31
#[test]
fn during_a_hold_no_executors_are_wanted_and_the_requested_number_is_remembered() {
    let mut scenario = three();
    scenario.tell(hold());
    assert_eq!(target(&scenario), (0, 3, false));
    let held = Hold {
        by: Some("me".into()),
    };
    assert_eq!(scenario.current().held, Some(held));
    let leaves = |n| scenario.entry(n).unwrap().leaving.clone().unwrap().why;
    let why = LeaveReason::Decommissioned("me's hold".into());
    assert_eq!([1, 2, 3].map(leaves), [0; 3].map(|_| why.clone()));
    scenario.tell(retire(&[1], TargetChange::Fall));
    assert_eq!(target(&scenario), (0, 3, false));
    scenario.want("default", 5);
    scenario.want("new", 1);
    assert_eq!(target(&scenario), (0, 5, true));
    scenario.tell(surge(1));
    assert_eq!(target(&scenario), (0, 5, true));
    scenario.tell(News::Resume);
    assert_eq!(target(&scenario), (5, 5, true));
    assert_eq!(scenario.current().target(&"new".into()), 1);
    assert_eq!(scenario.current().held, None);
}

/// The executors of `default` end, and their entries go.
fn all_go(scenario: &mut Scenario) {
    for n in 1..=3 {
        scenario.goes(n);
        scenario.report(n);
    }
    scenario.batch();
    scenario.release();
}

fn fails() -> News {
    News::Failed {
        profile: "default".into(),
        why: "4 failures".into(),
    }
}

// spec: L-40, L-41
#[test]
fn none_of_a_failed_profile_is_wanted_until_it_is_reset_and_then_the_requested_number() {
    let mut scenario = three();
    scenario.tell(News::Reset("default".into()));
    assert_eq!(target(&scenario), (3, 3, false), "it has not failed");
    scenario.tell(fails());
    assert_eq!(target(&scenario), (0, 3, false));
    assert_eq!(scenario.current().target(&"other".into()), 3);
    let why = &scenario.current().failed[&ProfileName::from("default")];
    assert_eq!(&**why, "4 failures");
    scenario.tell(retire(&[1], TargetChange::Fall));
    scenario.tell(surge(1));
    assert_eq!(target(&scenario), (0, 3, false));
    scenario.want("default", 5);
    assert_eq!(target(&scenario), (0, 5, true));
    scenario.tell(News::Reset("default".into()));
    assert_eq!(target(&scenario), (5, 5, true));
    assert!(scenario.current().failed.is_empty());
}

// spec: L-43, L-41
#[test]
fn memory_that_has_grown_stays_so_until_the_profile_is_reset_or_removed() {
    let grown = |limit| News::Grown {
        profile: "default".into(),
        limit,
    };
    let limit = |scenario: &Scenario| {
        let limits = &scenario.current().memory_limits;
        limits.get(&ProfileName::from("default")).copied()
    };
    let mut scenario = three();
    scenario.tell(grown(200));
    scenario.tell(grown(300));
    scenario.tell(grown(200));
    assert_eq!(limit(&scenario), Some(300));
    assert_eq!(target(&scenario), (3, 3, false));
    scenario.tell(News::Reset("default".into()));
    assert_eq!(limit(&scenario), None);
    scenario.tell(grown(200));
    scenario.tell(News::Remove("default".into()));
    scenario.tell(grown(300));
    assert_eq!(limit(&scenario), Some(200), "nobody is requested any more");
    all_go(&mut scenario);
    scenario.tell(News::ProfileGone("default".into()));
    assert_eq!(limit(&scenario), None);
}

// spec: L-41, B-31
#[test]
fn a_profile_that_is_reset_during_a_hold_waits_for_its_end_and_one_that_failed_does_not_come_with_it()
 {
    let mut scenario = three();
    scenario.tell(hold());
    scenario.tell(fails());
    scenario.tell(News::Reset("default".into()));
    assert_eq!(target(&scenario), (0, 3, false));
    scenario.tell(fails());
    scenario.tell(News::Resume);
    assert_eq!(target(&scenario), (0, 3, false));
    assert_eq!(scenario.current().target(&"other".into()), 3);
}

// spec: L-40, B-52
#[test]
fn a_failed_profile_that_is_removed_is_forgotten() {
    let mut scenario = Scenario::new(&[("default", 0), ("other", 3)]);
    scenario.tell(fails());
    scenario.tell(News::Remove("default".into()));
    scenario.tell(News::ProfileGone("default".into()));
    assert!(scenario.current().failed.is_empty());
    scenario.tell(fails());
    assert!(scenario.current().failed.is_empty(), "there is no such one");
    scenario.want("default", 2);
    assert_eq!(target(&scenario), (2, 2, true));
}

// spec: L-40, O-30
#[test]
fn a_driver_that_starts_with_a_failed_profile_remembers_the_requested_number() {
    let mut scenario = three().with_profiles_failed(vec![
        ("default".into(), "4 failures".into()),
        ("gone".into(), "4 failures".into()),
    ]);
    assert_eq!(target(&scenario), (0, 3, false));
    assert_eq!(scenario.current().failed.len(), 1);
    scenario.tell(News::Reset("default".into()));
    assert_eq!(target(&scenario), (3, 3, false));
}

// spec: B-31, O-30
#[test]
fn a_driver_that_starts_during_a_hold_remembers_the_requested_number() {
    let mut scenario = three().with_executors_held();
    assert_eq!(target(&scenario), (0, 3, false));
    scenario.tell(News::Resume);
    assert_eq!(target(&scenario), (3, 3, false));
}

// spec: B-65
#[test]
fn a_replacement_in_progress_is_wanted_and_not_requested() {
    let mut scenario = three();
    scenario.tell(surge(1));
    assert_eq!(target(&scenario), (4, 3, false));
    scenario.tell(surge(0));
    assert_eq!(target(&scenario), (3, 3, false));
    scenario.tell(surge(1));
    scenario.tell(retire(&[1], no_surge()));
    assert_eq!(target(&scenario), (3, 3, false));
    scenario.tell(surge(1));
    scenario.exits(2, 0);
    scenario.tell(retire(&[2], no_surge()));
    assert_eq!(
        target(&scenario),
        (3, 3, false),
        "also where it has ended meanwhile"
    );
    scenario.tell(surge(1));
    scenario.want("default", 3);
    assert_eq!(target(&scenario), (4, 3, true), "the same is asked again");
    scenario.want("default", 6);
    assert_eq!(target(&scenario), (6, 6, true), "it is forgotten");
}

// spec: B-28, B-65
#[test]
fn a_target_that_falls_during_a_replacement_stays_lower() {
    let mut scenario = three();
    scenario.tell(surge(1));
    scenario.tell(retire(&[2], TargetChange::Fall));
    assert_eq!(target(&scenario), (3, 2, true));
    scenario.tell(surge(0));
    assert_eq!(target(&scenario), (2, 2, true));
}

// spec: B-52
#[test]
fn the_target_of_a_profile_that_is_being_removed_stays_0_until_the_profile_is_forgotten() {
    let mut scenario = three();
    let profile: ProfileName = "default".into();
    scenario.tell(News::Remove(profile.clone()));
    scenario.want("default", 3);
    scenario.tell(surge(1));
    scenario.tell(retire(
        &[1],
        TargetChange::Become([(profile.clone(), 2)].into()),
    ));
    assert_eq!(target(&scenario), (0, 0, false));
    let shown = crate::snapshot::asked(&scenario.current().targets);
    assert_eq!(shown, [("other".into(), 3)].into());
    scenario.tell(News::ProfileGone(profile.clone()));
    assert!(scenario.current().is_removed(&profile), "it has executors");
    all_go(&mut scenario);
    scenario.tell(News::ProfileGone("other".into()));
    scenario.tell(News::ProfileGone(profile.clone()));
    let left: Vec<&ProfileName> = scenario.current().targets.keys().collect();
    assert_eq!(left, [&ProfileName::from("other")]);
    assert!(!scenario.current().counts.contains_key(&profile));
    scenario.want("default", 1);
    assert_eq!(target(&scenario), (1, 1, true));
}
