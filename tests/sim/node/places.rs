//! Which nodes there are, and which of them a pod may be on.

use serde_json::Value;

/// There are so many nodes.
pub(super) const NODES: u64 = 3;

/// They are called so.
pub const NODE_NAMES: [&str; NODES as usize] = ["node-1", "node-2", "node-3"];

/// The name of a node.
pub(super) fn name_of(node: u64) -> &'static str {
    NODE_NAMES[node as usize % NODE_NAMES.len()]
}

/// That node, or where the pod may not be there the next on which it may.
pub(super) fn allowed(node: u64, pod: &Value) -> u64 {
    let avoided = avoided(pod);
    let free = |node: &u64| !avoided.contains(&name_of(*node));
    (node..node + NODES).find(free).unwrap_or(node) % NODES
}

/// The nodes on which a pod may not be.
pub fn avoided(pod: &Value) -> Vec<&str> {
    let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
                 /nodeSelectorTerms/0/matchExpressions/0/values";
    let values = pod.pointer(terms).and_then(Value::as_array);
    (values.into_iter().flatten())
        .filter_map(Value::as_str)
        .collect()
}
