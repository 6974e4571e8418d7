//! New executors avoid nodes with too many failures, but never all nodes (spec L-32).
//!
//! Unless the driver may list the cluster's nodes, it knows those of its current and recent executors.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::model::failures::{Avoid, Times};
use crate::model::node;
use crate::model::{Entry, ExecutorId, Now, State, Tick};
use crate::planted::{self, Planted};

use super::window::Window;

/// The most nodes with recorded failures. Beyond it the one that failed longest ago is forgotten.
pub(super) const MOST_NODES: usize = 100;

/// How long a node without executors is assumed to exist.
const REMEMBERED: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub struct Nodes {
    /// The limit of failures; `None`: nothing is counted.
    most: Option<u32>,
    window: Duration,
    failed: BTreeMap<Arc<str>, Window>,
    /// The node of each executor in the ledger.
    hosts: BTreeMap<ExecutorId, Arc<str>>,
    /// Nodes that are assumed to exist: their number of executors, and when that last changed.
    known: BTreeMap<Arc<str>, (u32, Tick)>,
}

impl Nodes {
    /// Continues from what an earlier incarnation wrote.
    pub fn resume(
        most: Option<u32>,
        window: Duration,
        kept: &BTreeMap<String, Times>,
        now: Now,
    ) -> Self {
        let resumed = |(node, times): (&String, &Times)| {
            let window = Window::resume(window, times, now);
            (Arc::from(node.as_str()), window)
        };
        let kept = kept.iter().filter(|_| most.is_some());
        Self {
            most,
            window,
            failed: kept.take(MOST_NODES).map(resumed).collect(),
            hosts: BTreeMap::new(),
            known: BTreeMap::new(),
        }
    }

    /// Records on which node an executor is.
    pub fn observe(&mut self, entry: &Entry, now: Tick) {
        let node = match &entry.state {
            State::Bound(bound) if self.most.is_some() => bound.pod.node.as_ref(),
            State::Bound(_) | State::Sent(_) | State::Unknown(_) | State::Gone(_) => return,
        };
        let Some(node) = node.filter(|_| !self.hosts.contains_key(&entry.id)) else {
            return;
        };
        self.hosts.insert(entry.id, Arc::clone(node));
        let known = self.known.entry(Arc::clone(node)).or_insert((0, now));
        *known = (known.0 + 1, now);
    }

    pub fn removed(&mut self, id: ExecutorId, now: Tick) {
        if let Some(node) = self.hosts.remove(&id)
            && let Some(known) = self.known.get_mut(&node)
        {
            *known = (known.0.saturating_sub(1), now);
        }
    }

    pub fn failed(&mut self, node: &Arc<str>, now: Now) {
        let Some(most) = self.most else { return };
        let length = self.window;
        let window = (self.failed)
            .entry(Arc::clone(node))
            .or_insert_with(|| Window::new(length));
        window.add(now);
        window.keep_newest(most);
        if self.failed.len() > MOST_NODES {
            let last = |(_, window): &(&Arc<str>, &Window)| window.last();
            let oldest = self.failed.iter().min_by_key(last);
            if let Some(oldest) = oldest.map(|(node, _)| Arc::clone(node)) {
                self.failed.remove(&oldest);
            }
        }
    }

    pub fn avoid(&mut self, cluster: &node::Nodes, now: Tick) -> Avoid {
        let Some(most) = self.most.filter(|_| !self.failed.is_empty()) else {
            return Avoid::default();
        };
        let is_gone = |node: &Arc<str>| cluster.listed && !cluster.by_name.contains_key(node);
        self.failed
            .retain(|node, window| window.count(now) > 0 && !is_gone(node));
        self.known.retain(|node, (executors, last)| {
            let is_used = *executors > 0 || now.since(*last) < REMEMBERED;
            is_used && !is_gone(node)
        });
        let counts = (self.failed.iter_mut()).map(|(node, window)| (node, window.count(now)));
        let mut never: Vec<Arc<str>> = counts
            .filter(|(_, count)| *count >= most)
            .map(|(node, _)| Arc::clone(node))
            .collect();
        let is_other = |node| !never.contains(node) && !cluster.leaving.contains_key(node);
        let others = self.known.keys().any(is_other);
        let mut rather_not = Vec::new();
        let spares = !others && !planted::is(Planted::EveryNodeAvoided);
        if spares && !never.is_empty() {
            // The node whose last failure is the oldest is the most likely to have recovered.
            let last = |node: &&Arc<str>| self.failed.get(*node).and_then(Window::last);
            if let Some(spared) = never.iter().min_by_key(last).cloned() {
                never.retain(|node| *node != spared);
                rather_not.push(spared);
            }
        }
        Avoid {
            never,
            rather_not,
            rejecting: Vec::new(),
        }
    }

    /// The failures as the record keeps them.
    pub fn save(&self) -> BTreeMap<String, Times> {
        (self.failed.iter())
            .map(|(node, window)| (node.to_string(), window.save()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Pod, Tick};
    use crate::testing::{Scenario, running};

    const WINDOW: Duration = Duration::from_secs(3_600);

    fn now(seconds: u64) -> Now {
        let since = Duration::from_secs(seconds);
        let wall = jiff::Timestamp::UNIX_EPOCH.checked_add(since).unwrap();
        Now::new(Tick::after_start(since), wall)
    }

    fn nodes(most: Option<u32>) -> Nodes {
        Nodes::resume(most, WINDOW, &BTreeMap::new(), now(0))
    }

    /// The cluster's nodes, if they are not watched.
    fn unwatched() -> node::Nodes {
        node::Nodes::default()
    }

    /// Puts an executor on each of these nodes.
    fn on(nodes: &mut Nodes, names: &[&str]) {
        let mut scenario = Scenario::new(&[("default", 9)]);
        for (n, name) in (1..).zip(names) {
            let profile = "default".into();
            scenario.requested(n, crate::model::news::Outcome::Sent { profile });
            let pod = Pod {
                node: Some(Arc::from(*name)),
                ..running(scenario.pod(n))
            };
            scenario.observe(pod);
            nodes.observe(scenario.entry(n).unwrap(), now(0).tick);
        }
    }

    fn fail(nodes: &mut Nodes, name: &str, times: u32, seconds: u64) {
        for _ in 0..times {
            nodes.failed(&Arc::from(name), now(seconds));
        }
    }

    fn names(list: &[Arc<str>]) -> Vec<&str> {
        list.iter().map(|name| &**name).collect()
    }

    // spec: L-32
    #[test]
    fn a_node_with_too_many_failures_is_avoided_until_the_window_has_passed() {
        let mut nodes = nodes(Some(3));
        on(&mut nodes, &["good", "bad"]);
        fail(&mut nodes, "bad", 2, 10);
        fail(&mut nodes, "good", 2, 10);
        assert!(nodes.avoid(&unwatched(), now(11).tick).is_empty());
        fail(&mut nodes, "bad", 1, 20);
        assert_eq!(
            names(&nodes.avoid(&unwatched(), now(20).tick).never),
            ["bad"]
        );
        assert_eq!(
            names(&nodes.avoid(&unwatched(), now(3_609).tick).never),
            ["bad"]
        );
        assert!(nodes.avoid(&unwatched(), now(3_610).tick).is_empty());
    }

    // spec: L-32
    #[test]
    fn at_least_one_known_node_is_not_avoided() {
        let mut nodes = nodes(Some(2));
        on(&mut nodes, &["a", "b", "c"]);
        for (name, at) in [("a", 5), ("b", 3), ("c", 9)] {
            fail(&mut nodes, name, 2, at);
        }
        let avoid = nodes.avoid(&unwatched(), now(10).tick);
        assert_eq!(names(&avoid.never), ["a", "c"]);
        assert_eq!(names(&avoid.rather_not), ["b"], "the oldest failures");
        // All nodes but a working one can be avoided.
        let mut nodes = self::nodes(Some(2));
        on(&mut nodes, &["a", "b"]);
        fail(&mut nodes, "a", 2, 5);
        assert_eq!(names(&nodes.avoid(&unwatched(), now(6).tick).never), ["a"]);
    }

    // spec: L-32
    #[test]
    fn the_only_known_node_is_avoided_by_preference_only() {
        let mut nodes = nodes(Some(1));
        on(&mut nodes, &["only"]);
        fail(&mut nodes, "only", 1, 0);
        let avoid = nodes.avoid(&unwatched(), now(1).tick);
        assert_eq!(
            (names(&avoid.never), names(&avoid.rather_not)),
            (vec![], vec!["only"])
        );
    }

    // spec: L-32
    #[test]
    fn a_node_without_executors_is_known_for_a_while() {
        let mut nodes = nodes(Some(1));
        on(&mut nodes, &["bad", "good"]);
        fail(&mut nodes, "bad", 1, 0);
        for n in 1..=2 {
            nodes.removed(ExecutorId::new(n).unwrap(), now(0).tick);
        }
        assert_eq!(
            names(&nodes.avoid(&unwatched(), now(599).tick).never),
            ["bad"]
        );
        assert_eq!(
            names(&nodes.avoid(&unwatched(), now(600).tick).never),
            [""; 0]
        );
    }

    // spec: L-32
    #[test]
    fn without_a_limit_nothing_is_remembered() {
        let mut nodes = nodes(None);
        on(&mut nodes, &["a"]);
        fail(&mut nodes, "a", 100, 0);
        assert!(nodes.avoid(&unwatched(), now(1).tick).is_empty() && nodes.save().is_empty());
    }

    // spec: L-32, O-30, I-8
    #[test]
    fn counts_survive_a_restart_and_take_bounded_space() {
        let mut nodes = nodes(Some(2));
        for n in 0..1_000 {
            fail(&mut nodes, &format!("node-{n}"), 500, n);
        }
        let saved = nodes.save();
        assert_eq!(saved.len(), MOST_NODES);
        assert!(saved.values().all(|times| times.len() <= 2));
        assert!(saved.contains_key("node-999") && !saved.contains_key("node-0"));
        let mut resumed = Nodes::resume(Some(2), WINDOW, &saved, now(1_000));
        on(&mut resumed, &["well"]);
        assert_eq!(
            resumed.avoid(&unwatched(), now(1_001).tick).never.len(),
            MOST_NODES
        );
    }

    // spec: L-32, W-15
    #[test]
    fn a_node_that_is_gone_or_about_to_leave_is_none_that_is_left() {
        let mut nodes = nodes(Some(1));
        on(&mut nodes, &["bad", "good"]);
        fail(&mut nodes, "bad", 1, 0);
        let node = |name: &str, leaves: Option<&str>| node::Node {
            name: name.into(),
            zone: None,
            capacity_type: None,
            ready: true,
            leaves: leaves.map(Arc::from),
        };
        let learnt = node::Learnt {
            at: now(0).tick,
            newest: None,
        };
        let cluster = |list: &[node::Node]| {
            let mut cluster = node::Nodes::default();
            cluster.list(list.to_vec(), learnt);
            cluster
        };
        let both = cluster(&[node("bad", None), node("good", None)]);
        let avoid = nodes.avoid(&both, now(1).tick);
        assert_eq!(names(&avoid.never), ["bad"]);
        for other in [
            cluster(&[node("bad", None), node("good", Some("spot"))]),
            cluster(&[node("bad", None)]),
        ] {
            let avoid = nodes.avoid(&other, now(2).tick);
            assert_eq!(
                (names(&avoid.never), names(&avoid.rather_not)),
                (vec![], vec!["bad"])
            );
        }
        assert!(
            nodes
                .avoid(&cluster(&[node("new", None)]), now(3).tick)
                .is_empty()
        );
        assert!(
            nodes.save().is_empty(),
            "the failures of a node end with it"
        );
    }
}
