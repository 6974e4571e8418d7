//! The simulated nodes' names, and the choice of a node that a pod's affinity allows.

use serde_json::Value;

use crate::leaving_nodes::NodeObjects;

pub(super) const NODES: u64 = 3;

pub const NODE_NAMES: [&str; NODES as usize] = ["node-1", "node-2", "node-3"];

pub fn node_name(node: u64) -> &'static str {
    NODE_NAMES[node as usize % NODE_NAMES.len()]
}

/// This node, or the next one that the pod's affinity allows and that is not about to leave.
pub(super) fn allowed_node(node: u64, pod: &Value, objects: &NodeObjects) -> u64 {
    let excluded_nodes = excluded_nodes(pod);
    let free = |node: &u64| {
        let name = node_name(*node);
        !excluded_nodes.contains(&name) && objects.is_schedulable(name)
    };
    (node..node + NODES).find(free).unwrap_or(node) % NODES
}

/// The nodes that the pod's affinity excludes.
pub fn excluded_nodes(pod: &Value) -> Vec<&str> {
    let fields = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
                  /nodeSelectorTerms/0/matchFields";
    let fields = pod.pointer(fields).and_then(Value::as_array);
    (fields.into_iter().flatten())
        .filter_map(|field| field.pointer("/values/0")?.as_str())
        .collect()
}
