//! Binds PersistentVolumeClaims: a pod waits for the claims that it mounts, and they are bound once the pod has a node
//! (spec O-70).
//!
//! No storage is behind them: each claim gets a volume of its own when a pod first uses it, like a provisioner with
//! `WaitForFirstConsumer`.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::{carry_out, pod_of};
use crate::changes::write::{Part, Write};
use crate::objects::object::{Key, Object, at, list, text};
use crate::objects::resource::Resource;
use crate::storage::follow::{Follower, Update};
use crate::storage::server::Store;
use crate::storage::store::{Event, EventKind, State};

/// Binds claims until the cluster stops. It holds `_alive` until it ends.
pub(crate) async fn run(store: Store, _alive: watch::Receiver<()>) {
    let mut follower = Follower::new(&store);
    // The missing claims of pods that have a node.
    let mut wanted: BTreeSet<Key> = BTreeSet::new();
    while let Some(update) = follower.next().await {
        let mut used = BTreeSet::new();
        let state = match update {
            Update::Reset(state) => {
                wanted.clear();
                for pod in state.list(Resource::Pods, None).filter(|pod| has_node(pod)) {
                    used.extend(claims(pod));
                }
                state
            }
            Update::Events(events, state) => {
                for event in &events {
                    let key = event.object().key();
                    match pod_of(event) {
                        Some((pod, false)) if has_node(pod) => used.extend(claims(pod)),
                        Some(_) => {}
                        None if wanted.remove(key) => drop(used.insert(key.clone())),
                        None => {}
                    }
                }
                state
            }
        };
        for key in used {
            match state.get(&key) {
                Some(claim) => bind(&store, claim).await,
                None => drop(wanted.insert(key)),
            }
        }
    }
}

fn has_node(pod: &Object) -> bool {
    !text(pod.value(), &["spec", "nodeName"]).is_empty()
}

pub(super) fn claims(pod: &Object) -> impl Iterator<Item = Key> {
    let namespace = &pod.key().namespace;
    list(pod.value(), &["spec", "volumes"])
        .iter()
        .map(|volume| text(volume, &["persistentVolumeClaim", "claimName"]))
        .filter(|name| !name.is_empty())
        .map(|name| Key::new(Resource::PersistentVolumeClaims, namespace, name))
}

async fn bind(store: &Store, claim: &Object) {
    let value = claim.value();
    if text(value, &["status", "phase"]) != "Pending" || claim.is_terminating() {
        return;
    }
    let modes = at(value, &["spec", "accessModes"])
        .cloned()
        .unwrap_or(json!([]));
    let size = at(value, &["spec", "resources", "requests"]);
    let size = size.cloned().unwrap_or(json!({}));
    let volume = json!({"spec": {"volumeName": format!("pvc-{}", claim.uid())}});
    let status = json!({"status": {"phase": "Bound", "accessModes": modes, "capacity": size}});
    let key = claim.key();
    carry_out(store, Write::merge_patch(key, Part::Main, volume)).await;
    carry_out(store, Write::merge_patch(key, Part::Status, status)).await;
}

/// The scheduler's message if one of the pod's claims is missing.
pub(super) fn missing_claim(state: &State, pod: &Object) -> Option<String> {
    let there = |key: &Key| state.get(key).is_some_and(|claim| !claim.is_terminating());
    let missing = claims(pod).find(|key| !there(key))?;
    Some(format!(
        "0/1 nodes are available: persistentvolumeclaim {:?} not found.",
        missing.name
    ))
}

/// Whether an event may unblock pods that wait for their claims.
pub(super) fn is_claim_added(event: &Event) -> bool {
    let claim = event.object().key().resource == Resource::PersistentVolumeClaims;
    claim && event.kind() == EventKind::Added
}

/// The name of the claim's directory among those of all volumes.
pub(super) fn directory_of(claim: &Value) -> String {
    let part = |name: &str| text(claim, &["metadata", name]).to_owned();
    format!("{}_{}_{}", part("namespace"), part("name"), part("uid"))
}
