//! Registers the node: keeps its `Node` object and its lease.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use super::carry_out;
use super::fault_injection::{NodeFaults, changed};
use crate::api::router::VERSION;

use crate::changes::write::{Part, Write, seconds};
use crate::objects::object::{Key, Object, condition, is_true, list, text};
use crate::objects::pod::set_explained;
use crate::objects::resource::Resource;
use crate::objects::taints::{self, UNREACHABLE};
use crate::storage::follow::{Follower, Update};
use crate::storage::server::Store;
use crate::storage::store::{Event, State};

/// How often the lease is renewed: rarely enough to cause no load, often enough to count as alive.
const RENEW_EVERY: Duration = Duration::from_secs(40);

/// The namespace of node leases.
const LEASES: &str = "kube-node-lease";

/// Keeps the node registered until the cluster stops. It holds `_alive` until it ends.
pub(crate) async fn run(
    store: Store,
    name: String,
    runtime: &'static str,
    mut injected: watch::Receiver<NodeFaults>,
    _alive: watch::Receiver<()>,
) {
    let key = Key::new(Resource::Nodes, "", &name);
    let mut follower = Follower::new(&store);
    loop {
        let update = tokio::select! {
            biased;
            update = follower.next() => match update {
                None => return,
                Some(Update::Reset(_)) => true,
                Some(Update::Events(events, _)) => events.iter().any(|e| *e.object().key() == key),
            },
            () = changed(&mut injected) => true,
            () = sleep(RENEW_EVERY) => true,
        };
        // A deleted node is registered again, as a kubelet does.
        if update && injected.borrow().is_up() {
            maintain(&store, &key, runtime).await;
        }
    }
}

async fn maintain(store: &Store, key: &Key, runtime: &str) {
    if store.state().get(key).is_none() {
        let now = seconds(store.clock().now());
        carry_out(store, create(key, runtime, &now)).await;
    }
    if let Some(node) = store.state().get(key) {
        let now = seconds(store.clock().now());
        for write in recover(node, runtime, &now) {
            carry_out(store, write).await;
        }
    }
    let lease = Key::new(Resource::Leases, LEASES, &key.name);
    let state = store.state();
    let due = state.get(&lease).is_none_or(|l| is_due(l, store));
    if due && let Some(node) = state.get(key) {
        carry_out(store, renew(&state, lease, node, store)).await;
    }
}

fn is_due(lease: &Object, store: &Store) -> bool {
    let renewed: Option<jiff::Timestamp> = text(lease.value(), &["spec", "renewTime"]).parse().ok();
    renewed.is_none_or(|at| {
        let passed = store.clock().now().duration_since(at);
        passed >= jiff::SignedDuration::try_from(RENEW_EVERY).unwrap_or_default()
    })
}

fn create(key: &Key, runtime: &str, now: &str) -> Write {
    let object = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": &*key.name, "labels": {
            // On many clusters it differs from the name, so here too.
            "kubernetes.io/hostname": format!("{}.cluster.internal", key.name),
            "kubernetes.io/os": "linux",
        }},
        "spec": {},
        "status": status(&key.name, runtime, now),
    });
    Write::create(key.resource, "", object)
}

fn renew(state: &State, key: Key, node: &Object, store: &Store) -> Write {
    // Leases use microseconds.
    let now = store
        .clock()
        .now()
        .strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
        .to_string();
    let spec = json!({
        "holderIdentity": &*key.name,
        "leaseDurationSeconds": 3 * RENEW_EVERY.as_secs(),
        "renewTime": now,
    });
    if state.get(&key).is_some() {
        return Write::merge_patch(&key, Part::Main, json!({"spec": spec}));
    }
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": &*key.name, "uid": node.uid()});
    let object = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": &*key.name, "namespace": LEASES, "ownerReferences": [owner]},
        "spec": spec,
    });
    Write::create(key.resource, LEASES, object)
}

fn status(name: &str, runtime: &str, now: &str) -> Value {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        })
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // Scheduling ignores resource requests here, so the capacity is generous.
    let capacity = json!({"cpu": cores.to_string(), "memory": "64Gi", "pods": "20000"});
    json!({
        "capacity": capacity,
        "allocatable": capacity,
        "addresses": [
            {"type": "InternalIP", "address": "127.0.0.1"},
            {"type": "Hostname", "address": name},
        ],
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "memory is not watched here"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "disks are not watched here"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "processes are not counted here"),
            condition("Ready", "True", "KubeletReady", "the embedded node is running"),
        ],
        "nodeInfo": {
            "architecture": std::env::consts::ARCH,
            "bootID": "",
            "containerRuntimeVersion": runtime,
            "kernelVersion": "",
            "kubeProxyVersion": "",
            "kubeletVersion": VERSION,
            "machineID": "",
            "operatingSystem": "linux",
            "osImage": "devcluster",
            "systemUUID": "",
        },
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
    })
}

/// The scheduler's message if every node is cordoned.
pub(super) const CORDONED: &str = "0/1 nodes are available: 1 node(s) were unschedulable.";

/// The scheduler's message if every node is tainted.
pub(super) const TAINTED: &str = "0/1 nodes are available: 1 node(s) had untolerated taint(s).";

/// Why a pod may not be bound to a node, if so. A node without a `Node` object accepts all pods.
pub(super) fn refusal(state: &State, name: &str, pod: &Object) -> Option<&'static str> {
    let node = state.get(&Key::new(Resource::Nodes, "", name))?;
    if is_true(node.value(), &["spec", "unschedulable"]) {
        return Some(CORDONED);
    }
    (!taints::admits(node, pod)).then_some(TAINTED)
}

pub(super) fn makes_schedulable(event: &Event, name: &str) -> bool {
    let closed = |object: &Object| is_true(object.value(), &["spec", "unschedulable"]);
    let key = event.object().key();
    key.resource == Resource::Nodes
        && &*key.name == name
        && event.previous().is_some_and(|before| {
            closed(before) || other_taints(before) != other_taints(event.object())
        })
        && !closed(event.object())
}

/// The scheduler's condition for a pod that no node accepts.
pub(super) fn mark_unschedulable(pod: &Object, why: &str, now: jiff::Timestamp) -> Option<Write> {
    let mut value = pod.value().clone();
    let is_reported = list(&value, &["status", "conditions"])
        .iter()
        .any(|c| text(c, &["reason"]) == "Unschedulable" && text(c, &["message"]) == why);
    if is_reported {
        return None;
    }
    let why = ("Unschedulable", why);
    set_explained(&mut value, "PodScheduled", false, why, &seconds(now).into());
    let status = json!({"conditions": value["status"]["conditions"]});
    Some(Write::report(pod, status))
}

/// Whether a node is marked as not reporting.
pub(super) fn is_marked_unreachable(node: &Object) -> bool {
    let unknown = condition(node.value(), "Ready") == "Unknown";
    let taints = list(node.value(), &["spec", "taints"]);
    unknown && taints.len() == other_taints(node).len() + 2
}

/// A node's taints other than the unreachable taint.
pub(super) fn other_taints(node: &Object) -> Vec<Value> {
    let taints = list(node.value(), &["spec", "taints"]);
    let others = taints.iter().filter(|t| text(t, &["key"]) != UNREACHABLE);
    others.cloned().collect()
}

/// The writes that mark a node as reporting again.
fn recover(node: &Object, runtime: &str, now: &str) -> Vec<Write> {
    let key = node.key();
    let mut writes = Vec::new();
    if condition(node.value(), "Ready") == "Unknown" {
        let conditions = status(&key.name, runtime, now)["conditions"].take();
        let reported = json!({"status": {"conditions": conditions}});
        writes.push(Write::merge_patch(key, Part::Status, reported));
    }
    let others = other_taints(node);
    if others.len() < list(node.value(), &["spec", "taints"]).len() {
        let left = (!others.is_empty()).then_some(others);
        let reached = json!({"spec": {"taints": left}});
        writes.push(Write::merge_patch(key, Part::Main, reached));
    }
    writes
}
