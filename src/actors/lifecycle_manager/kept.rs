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
    /// The oldest first, each with how long it had been kept at that time. A pod that someone else deletes stays until
    /// its time is over.
    pods: BTreeMap<(Timestamp, PodUid), (KeptPod, Tick, Duration)>,
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

    pub fn keep_by(&mut self, policy: Policy) {
        self.policy = policy;
    }

    pub fn add(&mut self, pod: KeptPod, now: Now) {
        if self.uids.insert(pod.uid.clone()) {
            let age = now.wall.duration_since(pod.since);
            let age = Duration::try_from(age).unwrap_or_default();
            let key = (pod.since, pod.uid.clone());
            self.pods.insert(key, (pod, now.tick, age));
        }
    }

    /// Removes and returns what is too old or too much, as far as it is `labelled`.
    pub fn take_surplus(
        &mut self,
        labelled: impl Fn(ExecutorId) -> bool,
        now: Tick,
    ) -> Vec<KeptPod> {
        let surplus = self.pods.len().saturating_sub(self.policy.most);
        let longest = self.policy.longest;
        let is_old = |(_, seen, age): &(KeptPod, Tick, Duration)| {
            age.saturating_add(now.since(*seen)) >= longest
        };
        let pods = self.pods.values().enumerate();
        let over = pods.take_while(|(at, pod)| *at < surplus || is_old(pod));
        let taken: Vec<KeptPod> = over
            .map(|(_, (pod, ..))| pod)
            .filter(|pod| pod.executor.is_none_or(&labelled))
            .cloned()
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

    // spec: C-6, O-77
    #[test]
    fn a_new_policy_applies_to_pods_that_are_kept_already() {
        let mut kept = keeping(9, 60);
        kept.add(pod(1, -50), now(0));
        kept.add(pod(2, 0), now(0));
        kept.add(pod(3, 1), now(1));
        let by = |most, longest| Policy {
            which: Which::Failed,
            most,
            longest: Duration::from_secs(longest),
        };
        kept.keep_by(by(9, 1_000));
        assert!(kept.take_surplus(|_| true, now(60).tick).is_empty());
        kept.keep_by(by(9, 100));
        assert_eq!(names(kept.take_surplus(|_| true, now(60).tick)), ["u1"]);
        kept.keep_by(by(1, 100));
        assert_eq!(names(kept.take_surplus(|_| true, now(60).tick)), ["u2"]);
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
