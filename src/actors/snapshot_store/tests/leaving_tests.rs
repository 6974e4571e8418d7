//! Executors that are chosen to go, and the targets that fall with them.

use proptest::prelude::*;

use crate::model::executor::{How, Why};
use crate::model::news::{Aim, News, Outcome};
use crate::testing::{Story, id};

fn story(states: &[u8], target: u32) -> Story {
    let mut story = Story::new(&[("default", target), ("other", 3)]);
    for (n, state) in (1..).zip(states) {
        let profile = "default".into();
        story.requested(n, Outcome::Sent { profile });
        if *state > 0 {
            story.created(n);
        }
        match state {
            2 => story.runs(n),
            3 => story.terminates(n),
            4 => story.exits(n, 1),
            _ => {}
        }
    }
    story
}

fn kill(ids: &[u64], aim: Aim) -> News {
    News::Retire {
        ids: ids.iter().map(|n| id(*n)).collect(),
        aim,
        why: Why::Killed("me".into()),
        how: How::Kill {
            grace: std::time::Duration::from_secs(5),
        },
    }
}

// spec: B-28, E-5
#[test]
fn the_target_falls_in_the_step_in_which_they_become_leaving_and_once() {
    let mut story = story(&[2, 2, 2, 1, 0], 5);
    let before = story.current().seq;
    story.tell(kill(&[1, 4, 5, 77], Aim::Fall));
    let after = story.current();
    assert_eq!(after.seq, before + 1);
    assert_eq!(
        (
            after.target(&"default".into()),
            after.target(&"other".into())
        ),
        (2, 3)
    );
    assert_eq!(story.counts("default").live(), 2);
    story.tell(kill(&[1, 4, 5, 77], Aim::Fall));
    assert_eq!(
        story.current().target(&"default".into()),
        2,
        "twice the same: no harm"
    );
    story.tell(kill(&[2], Aim::Stay));
    assert_eq!(
        story.current().target(&"default".into()),
        2,
        "it is replaced"
    );
    assert_eq!(story.counts("default").live(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // spec: B-28, I-3
    #[test]
    fn targets_fall_by_exactly_as_many_as_counted_and_do_not_any_more(
        states in prop::collection::vec(0..5_u8, 0..10),
        target in 0..12_u32,
        rounds in prop::collection::vec(prop::collection::vec(1..12_u64, 0..6), 1..4),
    ) {
        let mut story = story(&states, target);
        for ids in rounds {
            let (live, target) = (story.counts("default").live(), story.current().target(&"default".into()));
            story.tell(kill(&ids, Aim::Fall));
            let fewer = live - story.counts("default").live();
            prop_assert_eq!(story.current().target(&"default".into()), target.saturating_sub(fewer));
            for n in ids {
                let live = story.entry(n).is_some_and(|entry| entry.class().is_live());
                prop_assert!(!live, "{n} stays");
            }
        }
    }
}
