//! Nodes, as far as they matter to executors (spec W-15).

use std::sync::Arc;

use imbl::OrdMap;

use crate::clock::Tick;
use crate::executor::Entry;
use crate::ids::ExecutorId;

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub name: Arc<str>,
    pub zone: Option<Arc<str>>,
    /// How its capacity is paid for, such as `spot`.
    pub capacity_type: Option<Arc<str>>,
    /// Whether its kubelet answers.
    pub ready: bool,
    /// Why it is about to leave the cluster; `None` if it is not.
    pub leaves: Option<Arc<str>>,
}

/// All nodes, if they are watched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nodes {
    /// Whether they were listed, so that those that are not here do not exist.
    pub listed: bool,
    pub by_name: OrdMap<Arc<str>, Arc<Node>>,
    /// The nodes that are about to leave, and those that left while executors were on them.
    pub leaving: OrdMap<Arc<str>, LeavingNode>,
}

/// A node that is about to leave, or has left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeavingNode {
    /// When this driver learnt of it.
    pub since: Tick,
    /// The highest id at that time: executors that were requested later have higher ones.
    pub newest: Option<ExecutorId>,
    pub why: Arc<str>,
}

impl LeavingNode {
    /// Whether this executor has to leave it too. One that was requested later is there because it tolerates that.
    pub fn concerns(&self, id: ExecutorId) -> bool {
        Some(id) <= self.newest
    }
}

/// When something is learnt of a node.
#[derive(Debug, Clone, Copy)]
pub struct Learnt {
    pub at: Tick,
    /// The highest id of an executor.
    pub newest: Option<ExecutorId>,
}

impl Nodes {
    /// The node of an executor, if it is about to leave.
    pub fn leaving_of(&self, entry: &Entry) -> Option<(&Arc<str>, &LeavingNode)> {
        // The usual case costs nothing.
        if self.leaving.is_empty() {
            return None;
        }
        self.leaving.get_key_value(entry.pod()?.node.as_ref()?)
    }

    /// The node of an executor, if it is known.
    pub fn of(&self, entry: &Entry) -> Option<&Arc<Node>> {
        self.by_name.get(entry.pod()?.node.as_ref()?)
    }

    /// The node of an executor, if its kubelet does not answer.
    pub fn not_ready_of(&self, entry: &Entry) -> Option<&Arc<str>> {
        let node = self.of(entry)?;
        (!node.ready).then_some(&node.name)
    }

    /// Takes over a node's newest state. Returns whether anything has changed.
    pub fn see(&mut self, node: Node, now: Learnt) -> bool {
        let before = self.by_name.get(&node.name);
        if before.is_some_and(|before| **before == node) {
            return false;
        }
        self.mark(&node.name, node.leaves.clone(), now);
        self.by_name.insert(node.name.clone(), Arc::new(node));
        true
    }

    /// The node is gone: it has left, until [`Self::forget`] is called.
    pub fn remove(&mut self, name: &Arc<str>, now: Learnt) -> bool {
        let was_there = self.by_name.remove(name).is_some();
        if was_there {
            self.mark(name, Some(Arc::from("it was deleted")), now);
        }
        was_there
    }

    /// No executor is on this node, which is gone.
    pub fn forget(&mut self, name: &Arc<str>) -> bool {
        !self.by_name.contains_key(name) && self.leaving.remove(name).is_some()
    }

    /// Takes over a complete list.
    pub fn list(&mut self, nodes: Vec<Node>, now: Learnt) -> bool {
        let listed: OrdMap<Arc<str>, ()> =
            nodes.iter().map(|node| (node.name.clone(), ())).collect();
        let gone: Vec<Arc<str>> = (self.by_name.keys())
            .filter(|name| !listed.contains_key(*name))
            .cloned()
            .collect();
        let mut changed = !std::mem::replace(&mut self.listed, true);
        for name in gone {
            changed |= self.remove(&name, now);
        }
        for node in nodes {
            changed |= self.see(node, now);
        }
        changed
    }

    /// Keeps since when a node is about to leave.
    fn mark(&mut self, name: &Arc<str>, why: Option<Arc<str>>, now: Learnt) -> bool {
        let before = self.leaving.get(name);
        match why {
            None => self.leaving.remove(name).is_some(),
            Some(why) if before.is_some_and(|before| before.why == why) => false,
            Some(why) => {
                let (since, newest) = match before {
                    Some(before) => (before.since, before.newest),
                    None => (now.at, now.newest),
                };
                let leaving = LeavingNode { since, newest, why };
                self.leaving.insert(name.clone(), leaving);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn tick(seconds: u64) -> Tick {
        Tick::after_start(Duration::from_secs(seconds))
    }

    fn at(seconds: u64) -> Learnt {
        Learnt {
            at: tick(seconds),
            newest: None,
        }
    }

    fn node(name: &str, leaves: Option<&str>) -> Node {
        Node {
            name: name.into(),
            zone: None,
            capacity_type: None,
            ready: true,
            leaves: leaves.map(Arc::from),
        }
    }

    fn since(nodes: &Nodes, name: &str) -> Option<Tick> {
        nodes.leaving.get(name).map(|leaving| leaving.since)
    }

    // spec: W-15
    #[test]
    fn a_node_leaves_since_it_was_first_said_and_no_longer_when_that_is_taken_back() {
        let mut nodes = Nodes::default();
        assert!(nodes.list(vec![node("a", None), node("b", Some("spot"))], at(1)));
        assert_eq!(
            (since(&nodes, "a"), since(&nodes, "b")),
            (None, Some(tick(1)))
        );
        assert!(!nodes.see(node("b", Some("spot")), at(2)), "nothing new");
        assert!(nodes.see(node("b", Some("cordoned")), at(3)));
        assert_eq!(since(&nodes, "b"), Some(tick(1)));
        assert!(nodes.see(node("b", None), at(4)));
        assert_eq!(since(&nodes, "b"), None);
    }

    // spec: W-15
    #[test]
    fn a_node_that_is_gone_has_left_whoever_says_so_until_it_is_forgotten() {
        let mut nodes = Nodes::default();
        nodes.list(vec![node("a", None), node("b", None)], at(1));
        assert!(nodes.remove(&"a".into(), at(2)));
        assert!(!nodes.remove(&"a".into(), at(3)), "nothing new");
        assert!(nodes.list(vec![node("d", None)], at(3)));
        let names: Vec<&str> = nodes.leaving.keys().map(|name| &**name).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(!nodes.list(vec![node("d", None)], at(4)), "nothing new");
        assert!(nodes.forget(&"a".into()) && nodes.forget(&"b".into()));
        assert!(nodes.leaving.is_empty());
        nodes.see(node("d", Some("spot")), at(5));
        assert!(!nodes.forget(&"d".into()), "it is there");
    }

    // spec: W-15
    #[test]
    fn a_node_that_is_there_again_does_not_leave() {
        let mut nodes = Nodes::default();
        nodes.list(vec![node("a", None)], at(1));
        nodes.remove(&"a".into(), at(2));
        assert!(nodes.see(node("a", None), at(3)));
        assert!(nodes.leaving.is_empty());
    }
}
