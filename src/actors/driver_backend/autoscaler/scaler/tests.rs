use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::testing::{at, id};

const CONFIG: Autoscaling = Autoscaling {
    enabled: true,
    ratio: 1_000,
    backlog_timeout: Duration::from_secs(1),
    sustained_timeout: Duration::from_secs(1),
    idle_timeout: Duration::from_secs(60),
    demand_ttl: Duration::from_secs(30),
};

const BOUNDS: Bounds = Bounds {
    slots: 4,
    least: 1,
    most: 50,
};

fn decide(scaler: &mut Scaler, target: u32, now: Tick) -> Option<Step> {
    scaler.decide(target, &CONFIG, BOUNDS, now)
}

fn demand(pending: u32, running: u32) -> Demand {
    Demand { pending, running }
}

// spec: B-40
#[test]
fn demand_takes_work_times_ratio_by_slots_rounded_up_within_bounds() {
    for (pending, running, ratio, wanted) in [
        (0, 0, 1_000, 1),
        (4, 0, 1_000, 1),
        (4, 1, 1_000, 2),
        (3, 6, 1_000, 3),
        (8, 0, 500, 1),
        (9, 0, 500, 2),
        (8, 0, 1_250, 3),
        (u32::MAX, u32::MAX, 100_000, 50),
    ] {
        assert_eq!(
            demand(pending, running).wanted(ratio, BOUNDS),
            wanted,
            "{pending} {running} {ratio}"
        );
    }
}

// spec: B-40
#[test]
fn steps_up_begin_after_the_backlog_timeout_and_double_while_it_lasts() {
    let mut scaler = Scaler::default();
    scaler.demanded(demand(100, 0), at(0));
    let mut target = 1;
    let mut steps = Vec::new();
    for half_second in 0..16 {
        if let Some(step) = decide(&mut scaler, target, at(half_second * 500)) {
            assert_eq!(step.retire, []);
            target = step.target;
            steps.push((half_second * 500, target));
        }
    }
    let doubling = [(1_000, 2), (2_000, 4), (3_000, 8), (4_000, 16), (5_000, 25)];
    assert_eq!(steps, doubling);
}

// spec: B-40
#[test]
fn a_new_backlog_starts_with_a_step_of_one() {
    let mut scaler = Scaler::default();
    scaler.demanded(demand(100, 0), at(0));
    decide(&mut scaler, 1, at(0));
    assert_eq!(decide(&mut scaler, 1, at(1_000)).unwrap().target, 2);
    scaler.demanded(demand(0, 0), at(1_500));
    assert_eq!(decide(&mut scaler, 2, at(1_500)), None);
    scaler.demanded(demand(100, 0), at(2_000));
    assert_eq!(decide(&mut scaler, 2, at(2_000)), None);
    assert_eq!(decide(&mut scaler, 2, at(3_000)).unwrap().target, 3);
}

// spec: B-41
#[test]
fn idle_executors_are_retired_after_the_timeout_by_quarters_and_not_below_the_demand() {
    let mut scaler = Scaler::default();
    for n in 1..=20 {
        scaler.observe(id(n), true, at(n * 100));
    }
    let mut target = 20;
    let mut steps = Vec::new();
    for second in 0..100 {
        scaler.demanded(demand(0, 32), at(second * 1_000));
        if let Some(step) = decide(&mut scaler, target, at(second * 1_000)) {
            assert_eq!(
                step.target,
                target - u32::try_from(step.retire.len()).unwrap()
            );
            target = step.target;
            steps.push((second, step.retire.len(), step.retire[0].get()));
        }
    }
    // The first became idle 60 s before 60.1 s; the others follow.
    assert_eq!(steps, [(61, 5, 1), (62, 3, 6), (63, 3, 9), (64, 1, 12)]);
    assert_eq!(target, 8);
}

// spec: B-41
#[test]
fn work_restarts_the_idle_timeout() {
    let mut scaler = Scaler::default();
    scaler.observe(id(1), true, at(0));
    scaler.observe(id(1), false, at(59_000));
    scaler.observe(id(1), true, at(59_500));
    scaler.demanded(demand(0, 0), at(60_000));
    assert_eq!(decide(&mut scaler, 3, at(60_000)), None);
    scaler.demanded(demand(0, 0), at(119_500));
    assert_eq!(decide(&mut scaler, 3, at(119_500)).unwrap().retire, [id(1)]);
}

// spec: B-42
#[test]
fn an_outdated_demand_keeps_the_last_target() {
    let mut scaler = Scaler::default();
    scaler.observe(id(1), true, at(0));
    assert_eq!(
        decide(&mut scaler, 3, at(100_000)),
        None,
        "nothing was ever demanded"
    );
    scaler.demanded(demand(100, 0), at(100_000));
    decide(&mut scaler, 3, at(128_999));
    assert_eq!(decide(&mut scaler, 3, at(130_000)), None);
    assert_eq!(decide(&mut scaler, 3, at(500_000)), None);
}

#[derive(Debug, Clone)]
enum Act {
    Demand(u32, u32),
    Idle(u64, bool),
    Pass(u64),
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0..300_u32, 0..300_u32).prop_map(|(pending, running)| Act::Demand(pending, running)),
        (1..40_u64, any::<bool>()).prop_map(|(n, idle)| Act::Idle(n, idle)),
        (0..90_000_u64).prop_map(Act::Pass),
    ]
}

proptest! {
    // spec: B-40, B-41, B-42
    #[test]
    fn a_step_goes_towards_the_demand_and_never_beyond_it(
        start in 0..80_u32,
        slots in 1..6_u32,
        least in 0..5_u32,
        most in 5..60_u32,
        acts in prop::collection::vec(acts(), 0..120),
    ) {
        let bounds = Bounds { slots, least, most };
        let mut scaler = Scaler::default();
        let (mut target, mut millis) = (start, 0);
        let mut latest: Option<(Demand, u64)> = None;
        let mut idle: BTreeMap<u64, u64> = BTreeMap::new();
        let mut last_down = None;
        for act in acts {
            match act {
                Act::Demand(pending, running) => {
                    latest = Some((demand(pending, running), millis));
                    scaler.demanded(demand(pending, running), at(millis));
                }
                Act::Idle(n, is_idle) => {
                    scaler.observe(id(n), is_idle, at(millis));
                    if is_idle { idle.entry(n).or_insert(millis); } else { idle.remove(&n); }
                }
                Act::Pass(more) => millis += more,
            }
            let Some(step) = scaler.decide(target, &CONFIG, bounds, at(millis)) else { continue };
            let (demand, since) = latest.expect("only of what was demanded");
            prop_assert!(millis - since < 30_000, "B-42");
            let wanted = demand.wanted(1_000, bounds);
            prop_assert!((least..=most).contains(&wanted));
            if step.target > target {
                prop_assert!(step.target <= wanted && step.retire.is_empty(), "B-40");
            } else {
                let fewer = target - step.target;
                prop_assert!(fewer > 0 && step.target >= wanted, "B-41");
                prop_assert!(fewer <= (target / 4).max(1), "B-41: a quarter");
                prop_assert_eq!(step.retire.len(), fewer as usize);
                for gone in &step.retire {
                    let since = idle.remove(&gone.get()).expect("only one that is idle");
                    prop_assert!(millis - since >= 60_000, "B-41");
                }
                prop_assert!(last_down.is_none_or(|last| millis - last >= 1_000), "a step at a time");
                last_down = Some(millis);
            }
            target = step.target;
        }
    }

    // spec: B-40
    #[test]
    fn a_lasting_demand_is_met_in_the_time_that_doubling_takes(pending in 0..2_000_u32, start in 0..50_u32) {
        let mut scaler = Scaler::default();
        let wanted = demand(pending, 0).wanted(1_000, BOUNDS);
        let mut target = start.min(wanted);
        for second in 0..=8 {
            scaler.demanded(demand(pending, 0), at(second * 1_000));
            target = decide(&mut scaler, target, at(second * 1_000)).map_or(target, |step| step.target);
        }
        prop_assert_eq!(target, wanted);
    }
}

// spec: C-6
#[test]
fn new_settings_apply_to_the_demand_that_is_known() {
    let mut scaler = Scaler::default();
    scaler.demanded(demand(100, 0), at(0));
    let config = Autoscaling {
        backlog_timeout: Duration::ZERO,
        ..CONFIG
    };
    let bounds = Bounds { most: 21, ..BOUNDS };
    let mut decide = |target, millis| scaler.decide(target, &config, bounds, at(millis));
    assert_eq!(decide(20, 5_001).unwrap().target, 21);
    assert_eq!(decide(21, 9_000), None);
}
