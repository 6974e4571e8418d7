//! The node as others see it: an object that says that it is there and well, and a lease that it renews.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use super::carry_out;
use crate::devcluster::follow::{Follower, News};
use crate::devcluster::object::{Key, Object, at, list, set, text};
use crate::devcluster::patch::PatchKind;
use crate::devcluster::pod::set_condition;
use crate::devcluster::resource::Resource;
use crate::devcluster::server::Store;
use crate::devcluster::store::{Event, State};
use crate::devcluster::write::{Part, Write, seconds};

/// How often the lease is renewed: seldom enough to be no load, often enough to be seen.
const RENEW_EVERY: Duration = Duration::from_secs(40);

/// Where the leases of nodes are.
const LEASES: &str = "kube-node-lease";

/// Keeps the node registered until the cluster is stopped. It holds `_alive` as long as it runs.
pub(in crate::devcluster) async fn run(
    store: Store,
    name: String,
    runtime: &'static str,
    _alive: watch::Receiver<()>,
) {
    let key = Key::new(Resource::Nodes, "", &name);
    let mut follower = Follower::new(&store);
    loop {
        let news = tokio::select! {
            biased;
            news = follower.next() => match news {
                None => return,
                Some(News::StartOver(_)) => true,
                Some(News::Events(events, _)) => events.iter().any(|e| *e.object().key() == key),
            },
            () = sleep(RENEW_EVERY) => true,
        };
        // A node that somebody deleted comes back, as a kubelet registers itself again.
        if news {
            keep(&store, &key, runtime).await;
        }
    }
}

async fn keep(store: &Store, key: &Key, runtime: &str) {
    if store.state().get(key).is_none() {
        let now = seconds(store.clock().now());
        carry_out(store, create(key, runtime, &now)).await;
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

fn patch(key: Key, part: Part, patch: Value) -> Write {
    Write::Patch {
        key,
        part,
        kind: PatchKind::Merge,
        patch,
        strict: false,
    }
}

fn create(key: &Key, runtime: &str, now: &str) -> Write {
    let object = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": &*key.name, "labels": {
            "kubernetes.io/hostname": &*key.name,
            "kubernetes.io/os": "linux",
        }},
        "spec": {},
        "status": status(&key.name, runtime, now),
    });
    Write::Create {
        resource: key.resource,
        namespace: String::new(),
        object,
    }
}

fn renew(state: &State, key: Key, node: &Object, store: &Store) -> Write {
    // Leases tell microseconds.
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
        return patch(key, Part::Main, json!({"spec": spec}));
    }
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": &*key.name, "uid": node.uid()});
    let object = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": &*key.name, "namespace": LEASES, "ownerReferences": [owner]},
        "spec": spec,
    });
    Write::Create {
        resource: key.resource,
        namespace: LEASES.to_owned(),
        object,
    }
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
    // What a pod asks for is not weighed here, so as much is offered as any node has.
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
            "kubeletVersion": crate::devcluster::router::VERSION,
            "machineID": "",
            "operatingSystem": "linux",
            "osImage": "boatswain",
            "systemUUID": "",
        },
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
    })
}

/// Whether pods may be bound to a node. One that nobody registered takes them all.
pub(super) fn takes_pods(state: &State, name: &str) -> bool {
    state
        .get(&Key::new(Resource::Nodes, "", name))
        .and_then(|node| at(node.value(), &["spec", "unschedulable"]))
        .is_none_or(|unschedulable| *unschedulable != Value::Bool(true))
}

/// Whether an event lets a node take pods again.
pub(super) fn opens(event: &Event, name: &str) -> bool {
    let closed = |object: &Object| {
        at(object.value(), &["spec", "unschedulable"]) == Some(&Value::Bool(true))
    };
    let key = event.object().key();
    key.resource == Resource::Nodes
        && &*key.name == name
        && event.previous().is_some_and(|before| closed(before))
        && !closed(event.object())
}

/// What a scheduler says of a pod that no node takes.
pub(super) fn refuse(pod: &Object, now: jiff::Timestamp) -> Option<Write> {
    let mut value = pod.value().clone();
    let told = list(&value, &["status", "conditions"])
        .iter()
        .any(|c| text(c, &["reason"]) == "Unschedulable");
    if told {
        return None;
    }
    set_condition(&mut value, "PodScheduled", false, &seconds(now).into());
    let conditions = value
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        if text(condition, &["type"]) == "PodScheduled" {
            let why = "0/1 nodes are available: 1 node(s) were unschedulable.";
            set(condition, &["reason"], "Unschedulable".into());
            set(condition, &["message"], why.into());
        }
    }
    Some(Write::Report {
        key: pod.key().clone(),
        uid: pod.uid().to_owned(),
        status: json!({"conditions": value["status"]["conditions"]}),
    })
}
