use super::*;
use crate::actors::driver_backend::autoscaler::scaler::Demand;
use crate::testing::{Scenario, at, profiles};

fn autoscaler(enabled: bool) -> Autoscaler {
    let mut config = Config::default();
    config.autoscaling.enabled = enabled;
    Autoscaler::new(Arc::new(config))
}

fn demand(pending: u32) -> PostDemand {
    let demand = Demand {
        pending,
        running: 0,
    };
    PostDemand {
        demands: BTreeMap::from([("default".into(), demand)]),
        ..PostDemand::default()
    }
}

/// The target after some seconds, one batch each.
fn play(scaler: &mut Autoscaler, scenario: &mut Scenario, seconds: std::ops::Range<u64>) -> u32 {
    let profiles = profiles(&[("default", 1)]);
    for second in seconds {
        let now = at(second * 1_000);
        scaler.observe(&scenario.batch(), &profiles, now);
        let plan = scaler.decide(scenario.current(), &profiles, now);
        plan.news.into_iter().for_each(|news| scenario.tell(news));
    }
    scenario.current().targets[&ProfileName::from("default")].asked
}

// spec: B-40, B-31
#[test]
fn targets_follow_demand_except_during_a_hold() {
    let (mut scaler, mut scenario) = (autoscaler(true), Scenario::new(&[("default", 1)]));
    scenario.tell(News::Hold {
        by: None,
        how: LeaveMethod::Delete,
    });
    let profiles = profiles(&[("default", 1)]);
    let (wanted, _) = scaler.demand(demand(12), &profiles, true, at(0)).unwrap();
    assert_eq!(wanted, BTreeMap::from([("default".into(), 6)]));
    assert_eq!(play(&mut scaler, &mut scenario, 0..10), 1);
    scenario.tell(News::Resume);
    assert_eq!(play(&mut scaler, &mut scenario, 10..20), 6);
}

// spec: B-40
#[test]
fn a_demand_is_refused_if_autoscaling_is_off_or_the_profile_unknown() {
    let profiles = profiles(&[("other", 1)]);
    let refused = |enabled| {
        let mut scaler = autoscaler(enabled);
        let demanded = scaler.demand(demand(1), &profiles, true, at(0));
        demanded.unwrap_err()
    };
    assert_eq!(refused(false), RefusedDemand::Off);
    let unknown = RefusedDemand::UnknownProfile("default".into());
    assert_eq!(refused(true), unknown);
}

// spec: B-54
#[test]
fn nodes_are_refused_where_sets_make_the_pods_and_the_demand_does_not_count() {
    let (mut scaler, mut scenario) = (autoscaler(true), Scenario::new(&[("default", 1)]));
    let mut post = demand(12);
    let nodes = BTreeMap::from([("node-1".into(), 1)]);
    post.nodes.insert("default".into(), nodes);
    let profiles = profiles(&[("default", 1)]);
    let refused = scaler.demand(post, &profiles, false, at(0)).unwrap_err();
    assert_eq!(refused, RefusedDemand::OfASet("default".into()));
    assert_eq!(play(&mut scaler, &mut scenario, 0..10), 1);
}

// spec: B-40, B-52
#[test]
fn a_profile_that_is_being_removed_gets_no_target_and_a_later_one_of_that_name_no_old_demand() {
    let (mut scaler, mut scenario) = (autoscaler(true), Scenario::new(&[("default", 1)]));
    let known = profiles(&[("default", 1)]);
    scaler.demand(demand(12), &known, true, at(0)).unwrap();
    let none = profiles(&[]);
    for second in 0..10 {
        scaler.observe(&scenario.batch(), &none, at(second * 1_000));
        let plan = scaler.decide(scenario.current(), &none, at(second * 1_000));
        assert_eq!(plan, Plan::default());
    }
    assert_eq!(play(&mut scaler, &mut scenario, 10..20), 1);
}
