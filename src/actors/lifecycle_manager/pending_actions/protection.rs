//! Which pods autoscalers of the cluster leave alone: those of executors that have work (spec L-42).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::executor::{Bound, Class};
use crate::model::{Entry, ExecutorId, Tick};

/// For how long an executor has to be idle before its pod is protected no longer. Protected at once when there is work,
/// a pod is changed once a minute on average, at most.
const IDLE: Duration = Duration::from_secs(120);

/// How long a protection is left away that somebody else has taken away.
const AGAIN: Duration = Duration::from_secs(60);

/// What the running executors' pods need.
#[derive(Debug, Default)]
pub(super) struct Protection(BTreeMap<ExecutorId, Known>);

#[derive(Debug, Default)]
struct Known {
    idle_since: Option<Tick>,
    was_protected: bool,
    /// When somebody else took the protection away.
    taken_away: Option<Tick>,
}

impl Protection {
    pub(super) fn remove(&mut self, id: ExecutorId) {
        self.0.remove(&id);
    }

    /// Whether the pod of an executor is to be protected, or not any more, and when; `None`: it is as it has to be.
    pub(super) fn owed(&mut self, entry: &Entry, bound: &Bound, now: Tick) -> Option<(bool, Tick)> {
        if entry.class() != Class::Running {
            self.remove(entry.id);
            return None;
        }
        let (is_protected, is_busy) = (bound.pod.is_protected, entry.session.is_busy());
        let known = self.0.entry(entry.id).or_default();
        let was_protected = std::mem::replace(&mut known.was_protected, is_protected);
        if was_protected && !is_protected && is_busy {
            known.taken_away = Some(now);
        }
        known.idle_since = match is_busy {
            true => None,
            false => Some(known.idle_since.unwrap_or(now)),
        };
        let at = match is_busy {
            true => known.taken_away.map(|since| since + AGAIN),
            false => known.idle_since.map(|since| since + IDLE),
        };
        (is_busy != is_protected).then_some((is_busy, at.unwrap_or(now).max(now)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::State;
    use crate::model::executor::Session;
    use crate::model::news::News;
    use crate::testing::{Scenario, id, running};

    struct World {
        scenario: Scenario,
        protection: Protection,
    }

    impl World {
        fn new() -> Self {
            let mut scenario = Scenario::new(&[("default", 1)]);
            let profile = "default".into();
            scenario.requested(1, crate::model::news::Outcome::Sent { profile });
            scenario.created(1);
            scenario.runs(1);
            Self {
                scenario,
                protection: Protection::default(),
            }
        }

        fn is_busy(&mut self, is_busy: bool) {
            self.scenario
                .tell(News::Session(id(1), Session::open(!is_busy)));
        }

        fn is_protected(&mut self, is_protected: bool) {
            let mut pod = running(self.scenario.pod(1));
            pod.is_protected = is_protected;
            self.scenario.observe(pod);
        }

        /// What is owed, and in how many seconds.
        fn owed(&mut self) -> Option<(bool, u64)> {
            let now = self.scenario.now().tick;
            let entry = Arc::clone(self.scenario.current().entry(id(1)).unwrap());
            let State::Bound(bound) = &entry.state else {
                panic!("{entry:?}")
            };
            let owed = self.protection.owed(&entry, bound, now);
            owed.map(|(is, at)| (is, now.until(at).as_secs()))
        }
    }

    // spec: L-42
    #[test]
    fn the_pod_of_a_busy_executor_is_protected_at_once_and_no_longer_when_it_was_idle_for_two_minutes()
     {
        let mut world = World::new();
        assert_eq!(world.owed(), None, "it never was");
        world.is_busy(true);
        assert_eq!(world.owed(), Some((true, 0)));
        world.is_protected(true);
        assert_eq!(world.owed(), None);
        world.is_busy(false);
        assert_eq!(world.owed(), Some((false, 120)));
        world.scenario.pass(20_000);
        assert_eq!(world.owed(), Some((false, 100)));
        world.is_busy(true);
        assert_eq!(world.owed(), None);
        world.is_busy(false);
        assert_eq!(world.owed(), Some((false, 120)));
        world.scenario.pass(120_000);
        assert_eq!(world.owed(), Some((false, 0)));
        world.is_protected(false);
        assert_eq!(world.owed(), None);
        world.is_busy(true);
        assert_eq!(world.owed(), Some((true, 0)), "there is work again");
    }

    // spec: L-42
    #[test]
    fn a_protection_that_somebody_else_takes_away_is_given_again_once_a_minute() {
        let mut world = World::new();
        world.is_busy(true);
        world.is_protected(true);
        assert_eq!(world.owed(), None);
        world.is_protected(false);
        assert_eq!(world.owed(), Some((true, 60)));
        world.scenario.pass(60_000);
        assert_eq!(world.owed(), Some((true, 0)));
    }
}
