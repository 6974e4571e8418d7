use super::*;
use crate::actors::driver_backend::autoscaler::scaler::Demand;
use crate::config::{Pool, Profile};
use crate::model::executor::Session;
use crate::model::news::Outcome;
use crate::testing::{Scenario, at, id, profiles};

fn autoscaler(enabled: bool) -> Autoscaler {
    let mut config = Config::default();
    config.autoscaling.enabled = enabled;
    Autoscaler::new(Arc::new(config))
}

fn no_pools() -> Pools {
    Pools::new(Arc::default())
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
        scaler.observe(&scenario.batch(), &no_pools(), &profiles, now);
        let plan = scaler.decide(scenario.current(), &no_pools(), &profiles, now);
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
    let (wanted, _) = scaler
        .demand(demand(12), &no_pools(), &profiles, true, at(0))
        .unwrap();
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
        let demanded = scaler.demand(demand(1), &no_pools(), &profiles, true, at(0));
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
    let refused = scaler
        .demand(post, &no_pools(), &profiles, false, at(0))
        .unwrap_err();
    assert_eq!(refused, RefusedDemand::OfASet("default".into()));
    assert_eq!(play(&mut scaler, &mut scenario, 0..10), 1);
}

// spec: B-40, B-52
#[test]
fn a_profile_that_is_being_removed_gets_no_target_and_a_later_one_of_that_name_no_old_demand() {
    let (mut scaler, mut scenario) = (autoscaler(true), Scenario::new(&[("default", 1)]));
    let known = profiles(&[("default", 1)]);
    scaler
        .demand(demand(12), &no_pools(), &known, true, at(0))
        .unwrap();
    let none = profiles(&[]);
    for second in 0..10 {
        scaler.observe(&scenario.batch(), &no_pools(), &none, at(second * 1_000));
        let plan = scaler.decide(scenario.current(), &no_pools(), &none, at(second * 1_000));
        assert_eq!(plan, Plan::default());
    }
    assert_eq!(play(&mut scaler, &mut scenario, 10..20), 1);
}

// spec: B-74, B-40
#[test]
fn the_target_of_a_pool_follows_its_demand_and_idle_executors_of_any_of_its_profiles_leave() {
    let pool = Pool {
        profiles: vec!["spot".to_owned(), "on-demand".to_owned()],
        ..Pool::default()
    };
    let mut config = Config::default();
    config.autoscaling.enabled = true;
    config.autoscaling.idle_timeout = Duration::ZERO;
    config.pools.insert("pool".into(), pool);
    for name in ["spot", "on-demand"] {
        config.profiles.insert(name.into(), Profile::default());
    }
    let config = Arc::new(config);
    let (mut scaler, pools) = (Autoscaler::new(Arc::clone(&config)), Pools::new(config));
    let known = profiles(&[("spot", 0), ("on-demand", 0)]);
    let mut scenario = Scenario::new(&[("spot", 4), ("on-demand", 0)]);
    let demand = |pending| PostDemand {
        demands: BTreeMap::from([(
            "pool".into(),
            Demand {
                pending,
                running: 0,
            },
        )]),
        ..PostDemand::default()
    };
    let play = |scaler: &mut Autoscaler, scenario: &mut Scenario, pending, second: u64| {
        let now = at(second * 1_000);
        scaler
            .demand(demand(pending), &pools, &known, true, now)
            .unwrap();
        scaler.observe(&scenario.batch(), &pools, &known, now);
        let plan = scaler.decide(scenario.current(), &pools, &known, now);
        plan.news.into_iter().for_each(|news| scenario.tell(news));
        let asked = |name: &str| scenario.current().targets[name].asked;
        (asked("spot"), asked("on-demand"))
    };
    for second in 0..10 {
        play(&mut scaler, &mut scenario, 12, second);
    }
    // Nothing is known of a shortage, so all of it is of the first profile.
    assert_eq!(play(&mut scaler, &mut scenario, 12, 10), (6, 0));
    for (n, profile) in [(1, "spot"), (2, "spot"), (3, "on-demand")] {
        let profile = profile.into();
        scenario.requested(n, Outcome::Sent { profile });
        scenario.created(n);
        scenario.runs(n);
        scenario.tell(News::Session(id(n), Session::open(n != 1)));
    }
    for second in 20..30 {
        play(&mut scaler, &mut scenario, 0, second);
    }
    assert_eq!(play(&mut scaler, &mut scenario, 0, 30), (5, 0));
}
