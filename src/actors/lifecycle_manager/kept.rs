//! Decides which kept pods are kept no longer (spec O-77).
//!
//! Neither source reads a kept pod, so the ledger does not contain it. A successor lists them once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::model::{ExecutorId, Now, PodUid, Tick};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    None,
    /// Those of ends that are failures.
    Failed,
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    pub which: Which,
    /// How many pods are kept.
    pub most: usize,
    /// How long a pod is kept.
    pub longest: Duration,
}

impl Policy {
    #[cfg(test)]
    pub const NONE: Self = Self {
        which: Which::None,
        most: 0,
        longest: Duration::ZERO,
    };

    pub fn keeps(&self, failed: bool) -> bool {
        match self.which {
            Which::None => false,
            Which::Failed => failed,
            Which::All => true,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptPod {
    pub uid: PodUid,
    pub name: Arc<str>,
    pub since: Timestamp,
    /// The executor whose pod this driver labels; `None`: an earlier driver did.
    pub executor: Option<ExecutorId>,
}

#[derive(Debug)]
pub struct KeptPods {
    policy: Policy,
    /// The oldest first, each with its deadline. A pod that someone else deletes stays until then.
    pods: BTreeMap<(Timestamp, PodUid), (KeptPod, Tick)>,
    uids: BTreeSet<PodUid>,
}

impl KeptPods {
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            pods: BTreeMap::new(),
            uids: BTreeSet::new(),
        }
    }

    pub fn add(&mut self, pod: KeptPod, now: Now) {
        if self.uids.insert(pod.uid.clone()) {
            let age = now.wall.duration_since(pod.since);
            let age = Duration::try_from(age).unwrap_or_default();
            let until = now.tick + self.policy.longest.saturating_sub(age);
            let key = (pod.since, pod.uid.clone());
            self.pods.insert(key, (pod, until));
        }
    }

    /// Removes and returns what is too old or too much, as far as it is `labelled`.
    pub fn take_surplus(
        &mut self,
        labelled: impl Fn(ExecutorId) -> bool,
        now: Tick,
    ) -> Vec<KeptPod> {
        let surplus = self.pods.len().saturating_sub(self.policy.most);
        let over = |(at, (_, until)): &(usize, &(KeptPod, Tick))| *at < surplus || *until <= now;
        let over = self.pods.values().enumerate().take_while(over);
        let taken: Vec<KeptPod> = over
            .filter(|(_, (pod, _))| pod.executor.is_none_or(&labelled))
            .map(|(_, (pod, _))| pod.clone())
            .collect();
        for pod in &taken {
            self.pods.remove(&(pod.since, pod.uid.clone()));
            self.uids.remove(&pod.uid);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(seconds: i64) -> Now {
        let tick = Tick::after_start(Duration::from_secs(seconds.unsigned_abs()));
        Now::new(tick, wall(seconds))
    }

    fn wall(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    fn pod(n: u64, since: i64) -> KeptPod {
        KeptPod {
            uid: PodUid::from(format!("u{n}").as_str()),
            name: format!("etl-exec-{n}").into(),
            since: wall(since),
            executor: ExecutorId::new(n),
        }
    }

    fn keeping(most: usize, longest: u64) -> KeptPods {
        KeptPods::new(Policy {
            which: Which::All,
            most,
            longest: Duration::from_secs(longest),
        })
    }

    fn names(pods: Vec<KeptPod>) -> Vec<String> {
        pods.iter().map(|pod| pod.uid.to_string()).collect()
    }

    // spec: O-77
    #[test]
    fn beyond_the_most_the_oldest_pods_go_whoever_kept_them() {
        let mut kept = keeping(2, 1_000);
        for (n, since) in [(1, 5), (2, 3), (3, -50)] {
            kept.add(pod(n, since), now(6));
            kept.add(pod(n, since), now(6));
        }
        assert_eq!(names(kept.take_surplus(|_| true, now(6).tick)), ["u3"]);
        assert!(kept.take_surplus(|_| true, now(6).tick).is_empty());
    }

    // spec: O-77
    #[test]
    fn a_pod_goes_when_it_was_kept_long_enough_under_all_drivers_together() {
        let mut kept = keeping(9, 60);
        kept.add(pod(1, -50), now(0));
        kept.add(pod(2, 0), now(0));
        kept.add(pod(3, 1_000_000), now(0));
        let mut gone = |at| names(kept.take_surplus(|_| true, now(at).tick));
        assert!(gone(9).is_empty());
        assert_eq!(gone(10), ["u1"]);
        assert!(gone(59).is_empty());
        assert_eq!(gone(60), ["u2", "u3"], "a wrong clock delays nothing");
    }

    // spec: O-77, L-11
    #[test]
    fn a_pod_whose_label_is_not_settled_is_not_deleted_yet() {
        let mut kept = keeping(1, 60);
        for n in 1..=3 {
            kept.add(pod(n, 0), now(0));
        }
        let first = ExecutorId::new(1);
        let labelled = |id| Some(id) != first;
        assert_eq!(names(kept.take_surplus(labelled, now(0).tick)), ["u2"]);
        assert_eq!(names(kept.take_surplus(|_| true, now(0).tick)), ["u1"]);
    }

    // spec: O-77
    #[test]
    fn the_policy_names_whose_pods_are_kept() {
        let keeps = |which| {
            let policy = Policy {
                which,
                ..Policy::NONE
            };
            (policy.keeps(false), policy.keeps(true))
        };
        assert_eq!(keeps(Which::None), (false, false));
        assert_eq!(keeps(Which::Failed), (false, true));
        assert_eq!(keeps(Which::All), (true, true));
    }
}
