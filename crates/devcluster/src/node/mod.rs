//! What runs the pods: it binds them to a node and reports what becomes of them, as a scheduler and a kubelet do.
//!
//! A pod costs as few writes as there are things to tell: bound, running, ended, gone.

mod down;
pub(super) mod hardship;
mod mounts;
pub(super) mod process;
mod reaper;
pub(super) mod register;
mod report;
mod restart;
mod runner;
pub(super) mod simulated;
mod spawn;
pub(super) mod volumes;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::changes::delete::DeleteOptions;
use crate::changes::write::Write;
use crate::objects::object::{Key, Object, list, text};
use crate::objects::resource::Resource;
use crate::storage::server::Store;
use crate::storage::store::{Event, EventKind};

/// What a pod needs of its node next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// It has no node yet.
    Bind,
    /// It was bound here and shall run.
    Start,
    /// It runs here, or ran.
    Nothing,
    /// It was told to go.
    Stop,
}

/// What a pod needs of the node of that name; nothing at all if it is none of its business.
fn need(pod: &Object, node: &str) -> Option<Need> {
    let assigned = text(pod.value(), &["spec", "nodeName"]);
    if assigned.is_empty() {
        return (!pod.is_terminating()).then_some(Need::Bind);
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

/// The names of a pod's containers, with their images.
fn containers(pod: &Value) -> impl Iterator<Item = (&str, &str)> {
    list(pod, &["spec", "containers"])
        .iter()
        .map(|c| (text(c, &["name"]), text(c, &["image"])))
}

/// Where a process node keeps what a container writes.
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

/// The end of a pod whose containers have ended.
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

/// Carries out a write of the node's. What is refused has changed or gone, and the node hears of that as well.
async fn carry_out(store: &Store, write: Write) {
    if let Err(error) = store.write(write).await {
        tracing::debug!(target: "cluster.node", error = error.message, "not done");
    }
}

/// The pod an event is about, if it is about one.
fn pod_of(event: &Event) -> Option<(&Object, bool)> {
    let pod = event.object();
    (pod.key().resource == Resource::Pods).then_some((pod, event.kind() == EventKind::Deleted))
}
