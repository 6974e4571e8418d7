//! Sorts a command's executors by whether they can leave: pure (spec B-28, B-30, A-42).

use std::collections::BTreeSet;

use crate::actors::driver_backend::messages::CommandOutcome;
use crate::model::{ExecutorId, Snapshot};

/// The named executors, each in one list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Picked {
    /// Can leave.
    pub chosen: Vec<ExecutorId>,
    /// Are leaving already.
    pub leaving: Vec<ExecutorId>,
    /// Are busy, and are not killed.
    pub busy: Vec<ExecutorId>,
    /// Do not exist, or have ended.
    pub unknown: Vec<ExecutorId>,
}

/// Sorts the named executors. `spare_busy`: busy executors stay.
pub fn pick(snapshot: &Snapshot, named: &BTreeSet<ExecutorId>, spare_busy: bool) -> Picked {
    let mut picked = Picked::default();
    for id in named {
        let place = match snapshot.entry(*id) {
            None => &mut picked.unknown,
            Some(entry) if entry.has_ended() => &mut picked.unknown,
            Some(entry) if !entry.class().is_live() => &mut picked.leaving,
            Some(entry) if spare_busy && entry.session.is_busy() => &mut picked.busy,
            Some(_) => &mut picked.chosen,
        };
        place.push(*id);
    }
    picked
}

impl Picked {
    /// `marked` has the executors that the ledger marked. Since the look, one may have ended, or have been retired by
    /// another actor.
    pub fn outcome(self, marked: &[ExecutorId], ledger: Snapshot) -> CommandOutcome {
        let (leaving, overtaken): (Vec<_>, Vec<_>) =
            (self.chosen.into_iter()).partition(|id| marked.contains(id));
        let mut already_leaving = [self.leaving, overtaken].concat();
        already_leaving.sort_unstable();
        CommandOutcome {
            leaving,
            already_leaving,
            busy: self.busy,
            unknown: self.unknown,
            ledger,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::executor::Session;
    use crate::model::news::{News, Outcome};
    use crate::testing::{Scenario, id};

    /// Executors in the states that the numbers stand for.
    fn scenario(states: &[u8]) -> Scenario {
        let mut scenario = Scenario::new(&[("default", 9)]);
        for (n, state) in (1..).zip(states) {
            if *state == 0 {
                continue;
            }
            let profile = "default".into();
            scenario.requested(n, Outcome::Sent { profile });
            if *state == 1 {
                continue;
            }
            scenario.created(n);
            scenario.runs(n);
            match state {
                3 | 4 => scenario.tell(News::Session(id(n), Session::open(*state == 3))),
                5 => scenario.terminates(n),
                6 => scenario.exits(n, 1),
                _ => {}
            }
        }
        scenario
    }

    // spec: B-28
    #[test]
    fn unknown_busy_and_leaving_executors_are_listed() {
        let scenario = scenario(&[0, 1, 2, 3, 4, 5, 6]);
        let named = (1..=8).map(id).collect();
        let ids = |ids: &[u64]| ids.iter().map(|n| id(*n)).collect::<Vec<_>>();
        let spared = pick(scenario.current(), &named, true);
        let want = Picked {
            chosen: ids(&[2, 3, 4]),
            leaving: ids(&[6]),
            busy: ids(&[5]),
            unknown: ids(&[1, 7, 8]),
        };
        assert_eq!(spared, want);
        let forced = pick(scenario.current(), &named, false);
        assert_eq!(forced.chosen, ids(&[2, 3, 4, 5]));
        assert_eq!(forced.busy, []);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        // spec: B-28, A-42
        #[test]
        fn each_named_executor_and_no_other_is_in_exactly_one_list(
            states in prop::collection::vec(0..7_u8, 0..12),
            named in prop::collection::btree_set(1..15_u64, 0..12),
            spare in any::<bool>(),
        ) {
            let scenario = scenario(&states);
            let named: BTreeSet<ExecutorId> = named.into_iter().map(id).collect();
            let Picked { chosen, leaving, busy, unknown } = pick(scenario.current(), &named, spare);
            let mut all: Vec<ExecutorId> = [chosen, leaving, busy, unknown].concat();
            all.sort_unstable();
            prop_assert_eq!(all, named.into_iter().collect::<Vec<_>>());
        }
    }
}
