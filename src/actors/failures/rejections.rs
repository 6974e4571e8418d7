//! New executors prefer other nodes to one that has just rejected several (spec L-45).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::nodes::MOST_NODES;
use crate::model::Tick;

/// A node with this many rejections is avoided. One or two are usual: two schedulers gave the same room away, or the
/// kubelet still counts a pod that has ended.
const ENOUGH: u32 = 3;

/// How long a rejection is remembered, and a node avoided after its last one. A kubelet reports within seconds what it
/// has; one that goes on rejecting costs three pods a minute.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The rejections of each node, none of them longer than [`REMEMBERED`] after the one before.
#[derive(Debug, Default)]
pub(super) struct Rejections(BTreeMap<Arc<str>, Recent>);

#[derive(Debug)]
struct Recent {
    count: u32,
    last: Tick,
}

impl Rejections {
    /// The node has rejected an executor.
    pub(super) fn add(&mut self, node: &Arc<str>, now: Tick) {
        self.forget_old(now);
        let recent = (self.0).entry(Arc::clone(node)).or_insert(Recent {
            count: 0,
            last: now,
        });
        recent.count = recent.count.saturating_add(1);
        recent.last = now;
        if self.0.len() > MOST_NODES {
            let oldest = self.0.iter().min_by_key(|(_, recent)| recent.last);
            if let Some(oldest) = oldest.map(|(node, _)| Arc::clone(node)) {
                self.0.remove(&oldest);
            }
        }
    }

    /// The nodes to avoid.
    pub(super) fn avoided(&mut self, now: Tick) -> Vec<Arc<str>> {
        self.forget_old(now);
        (self.0.iter())
            .filter(|(_, recent)| recent.count >= ENOUGH)
            .map(|(node, _)| Arc::clone(node))
            .collect()
    }

    fn forget_old(&mut self, now: Tick) {
        self.0
            .retain(|_, recent| now.since(recent.last) < REMEMBERED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick::after_start(Duration::from_secs(seconds))
    }

    /// The nodes have rejected executors at these seconds.
    fn rejections(of: &[(&str, u64)]) -> Rejections {
        let mut rejections = Rejections::default();
        for (node, second) in of {
            rejections.add(&Arc::from(*node), at(*second));
        }
        rejections
    }

    fn avoided(rejections: &mut Rejections, second: u64) -> Vec<String> {
        let nodes = rejections.avoided(at(second)).into_iter();
        nodes.map(|node| node.to_string()).collect()
    }

    // spec: L-45
    #[test]
    fn a_node_is_avoided_from_its_third_rejection_until_a_minute_after_its_last_one() {
        let mut two = rejections(&[("a", 10), ("b", 10), ("a", 11), ("b", 12)]);
        assert_eq!(avoided(&mut two, 12), [""; 0]);
        let mut three = rejections(&[("a", 10), ("b", 10), ("a", 11), ("a", 12)]);
        assert_eq!(avoided(&mut three, 12), ["a"]);
        assert_eq!(avoided(&mut three, 71), ["a"]);
        assert_eq!(avoided(&mut three, 72), [""; 0]);
        let mut more = rejections(&[("a", 10), ("a", 10), ("a", 10), ("a", 50)]);
        assert_eq!(avoided(&mut more, 109), ["a"]);
        assert_eq!(avoided(&mut more, 110), [""; 0]);
    }

    // spec: L-45
    #[test]
    fn rejections_a_minute_apart_do_not_add_up() {
        let mut rare = rejections(&[("a", 0), ("a", 59), ("a", 119), ("a", 120)]);
        assert_eq!(avoided(&mut rare, 120), [""; 0]);
        rare.add(&Arc::from("a"), at(121));
        assert_eq!(avoided(&mut rare, 121), ["a"]);
    }

    // spec: L-45, I-8
    #[test]
    fn of_many_nodes_those_that_rejected_last_are_remembered() {
        let mut many = Rejections::default();
        for n in 0..1_000 {
            for _ in 0..3 {
                many.add(&Arc::from(format!("node-{n}")), at(n / 100));
            }
        }
        let avoided = avoided(&mut many, 10);
        assert_eq!(avoided.len(), MOST_NODES);
        assert!(avoided.iter().all(|node| node.starts_with("node-9")));
    }
}
