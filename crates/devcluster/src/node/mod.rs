//! The node: binds pods and reports their status, as a scheduler and a kubelet do.
//!
//! Each pod takes as few writes as possible: bound, running, terminated, removed.

mod cleanup;
mod down;
pub(super) mod fault_injection;
mod mount_points;
mod mounts;
pub(super) mod process;
mod reaper;
pub(super) mod register;
mod report;
mod restart;
mod runner;
pub(super) mod simulated;
mod spawn;
mod termination_message;
pub(super) mod volumes;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::changes::delete::DeleteOptions;
use crate::changes::write::Write;
use crate::objects::object::{Key, Object, list, text};
use crate::objects::resource::Resource;
use crate::storage::server::Store;
use crate::storage::store::{Event, EventKind};

/// What a pod needs from the node next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// To be bound to the node.
    Bind,
    /// To be started; it is bound to the node.
    Start,
    /// Nothing; it runs or has terminated here.
    Nothing,
    /// To be stopped; it was deleted.
    Stop,
}

/// What a pod needs from the node of this name; `None` if it is not this node's concern.
fn need(pod: &Object, node: &str) -> Option<Need> {
    let assigned = text(pod.value(), &["spec", "nodeName"]);
    if assigned.is_empty() {
        let is_gated = !list(pod.value(), &["spec", "schedulingGates"]).is_empty();
        return (!pod.is_terminating() && !is_gated).then_some(Need::Bind);
    }
    if assigned != node {
        return None;
    }
    if pod.is_terminating() {
        return Some(Need::Stop);
    }
    Some(match text(pod.value(), &["status", "phase"]) {
        "Pending" => Need::Start,
        _ => Need::Nothing,
    })
}

/// The names and images of a pod's containers.
fn containers(pod: &Value) -> impl Iterator<Item = (&str, &str)> {
    list(pod, &["spec", "containers"])
        .iter()
        .map(|c| (text(c, &["name"]), text(c, &["image"])))
}

pub(super) use spawn::previous_log_path;

/// The path of a container's log on a process node.
pub(super) fn log_path(state_dir: &Path, pod: &Object, container: &str) -> PathBuf {
    let key = pod.key();
    let directory = spawn::pod_directory(state_dir, &key.namespace, &key.name, pod.uid());
    spawn::log_path(&directory, container)
}

fn bind(pod: &Object, node: &str) -> Write {
    let binding = json!({
        "metadata": {"name": &*pod.key().name, "uid": pod.uid()},
        "target": {"kind": "Node", "name": node},
    });
    Write::Bind {
        key: pod.key().clone(),
        binding,
    }
}

/// Removes a pod whose containers have terminated.
fn remove(key: &Key, uid: &str) -> Write {
    let options = DeleteOptions {
        grace: Some(0),
        uid: Some(uid.to_owned()),
        ..DeleteOptions::default()
    };
    Write::Delete {
        key: key.clone(),
        options,
    }
}

/// Carries out a write of the node. If it is refused, the pod has changed or is gone, and the event of that reaches the
/// node.
async fn carry_out(store: &Store, write: Write) {
    if let Err(error) = store.write(write).await {
        tracing::debug!(target: "cluster.node", error = error.message, "a write was refused");
    }
}

/// The pod of an event and whether it was deleted; `None` for other kinds.
fn pod_of(event: &Event) -> Option<(&Object, bool)> {
    let pod = event.object();
    (pod.key().resource == Resource::Pods).then_some((pod, event.kind() == EventKind::Deleted))
}
