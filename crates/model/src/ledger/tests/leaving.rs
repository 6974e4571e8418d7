//! Tests of leaving marks and the targets that fall with them.

use proptest::prelude::*;

use crate::executor::{LeaveMethod, LeaveReason};
use crate::news::{News, Outcome, TargetChange};
use crate::testing::{Scenario, id};

fn scenario(states: &[u8], target: u32) -> Scenario {
    let mut scenario = Scenario::new(&[("default", target), ("other", 3)]);
    for (n, state) in (1..).zip(states) {
        let profile = "default".into();
        scenario.requested(n, Outcome::Sent { profile });
        if *state > 0 {
            scenario.created(n);
        }
        match state {
            2 => scenario.runs(n),
            3 => scenario.terminates(n),
            4 => scenario.exits(n, 1),
            _ => {}
        }
    }
    scenario
}

fn kill(ids: &[u64], aim: TargetChange) -> News {
    News::Retire {
        ids: ids.iter().map(|n| id(*n)).collect(),
        aim,
        why: LeaveReason::Killed("me".into()),
        how: LeaveMethod::Kill {
            grace: std::time::Duration::from_secs(5),
        },
    }
}

// spec: B-28, E-5
#[test]
fn the_target_falls_once_in_the_step_that_marks_the_executors() {
    let mut scenario = scenario(&[2, 2, 2, 1, 0], 5);
    let before = scenario.current().seq;
    scenario.tell(kill(&[1, 4, 5, 77], TargetChange::Fall));
    let after = scenario.current();
    assert_eq!(after.seq, before + 1);
    assert_eq!(
        (
            after.target(&"default".into()),
            after.target(&"other".into())
        ),
        (2, 3)
    );
    assert_eq!(scenario.counts("default").live(), 2);
    scenario.tell(kill(&[1, 4, 5, 77], TargetChange::Fall));
    assert_eq!(
        scenario.current().target(&"default".into()),
        2,
        "twice the same: no harm"
    );
    scenario.tell(kill(&[2], TargetChange::Stay));
    assert_eq!(
        scenario.current().target(&"default".into()),
        2,
        "it is replaced"
    );
    assert_eq!(scenario.counts("default").live(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // spec: B-28, I-3
    #[test]
    fn targets_fall_by_exactly_the_executors_that_no_longer_count(
        states in prop::collection::vec(0..5_u8, 0..10),
        target in 0..12_u32,
        rounds in prop::collection::vec(prop::collection::vec(1..12_u64, 0..6), 1..4),
    ) {
        let mut scenario = scenario(&states, target);
        for ids in rounds {
            let (live, target) = (scenario.counts("default").live(), scenario.current().target(&"default".into()));
            scenario.tell(kill(&ids, TargetChange::Fall));
            let fewer = live - scenario.counts("default").live();
            prop_assert_eq!(scenario.current().target(&"default".into()), target.saturating_sub(fewer));
            for n in ids {
                let live = scenario.entry(n).is_some_and(|entry| entry.class().is_live());
                prop_assert!(!live, "{n} stays");
            }
        }
    }
}
