//! The controllers of StatefulSets, Deployments and ReplicaSets: they create, replace and delete pods.
//!
//! A set is reconciled when it or a dependent has changed, from the state alone. Sets adopt the orphans that they select,
//! and release what they do not select any more. Unlike the real controllers, these keep no revisions to roll back to, and
//! count a pod as available as soon as it is ready.

pub(crate) mod budget;
mod deployment;
mod pods;
mod replica_set;
mod stateful_set;
pub(crate) mod taints;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::changes::write::{Part, Write};
use crate::objects::object::{Key, Object, at, entries};
use crate::objects::resource::Resource;
use crate::storage::server::Store;
use crate::storage::store::{Event, State};
use crate::storage::work_queue::WorkQueue;

/// The delay before a refused write is retried, for example one that a quota refuses.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Reconciles all sets until the cluster stops. It holds `_alive` until it ends.
pub(super) async fn run(store: Store, _alive: watch::Receiver<()>) {
    let mut queue = WorkQueue::new(&store);
    while let Some(mut keys) = queue.next(|key| key.resource.is_workload(), affected).await {
        while let Some(key) = queue.due() {
            keys.insert(key);
        }
        for key in keys {
            if !reconcile(&store, &key).await {
                queue.later(key, RETRY_DELAY);
            }
        }
    }
}

/// Adds the sets that an event may affect.
fn affected(state: &State, event: &Event, due: &mut BTreeSet<Key>) {
    let object = event.object();
    let resource = object.key().resource;
    if resource.is_workload() {
        due.insert(object.key().clone());
    }
    if resource == Resource::Pods || resource.is_workload() {
        let owners = object.owners().filter_map(|owner| state.by_uid(owner.uid));
        let sets = owners.filter(|owner| owner.key().resource.is_workload());
        due.extend(sets.map(|owner| owner.key().clone()));
        if object.controller().is_none() {
            due.extend(may_adopt(state, object));
        }
    }
}

/// The sets that select an object that no controller has.
fn may_adopt<'a>(state: &'a State, orphan: &'a Object) -> impl Iterator<Item = Key> + use<'a> {
    let kinds: &[Resource] = match orphan.key().resource {
        Resource::Pods => &[Resource::StatefulSets, Resource::ReplicaSets],
        Resource::ReplicaSets => &[Resource::Deployments],
        _ => &[],
    };
    (kinds.iter())
        .flat_map(|kind| state.list(*kind, Some(&orphan.key().namespace)))
        .filter(|set| pods::selects(set, orphan))
        .map(|set| set.key().clone())
}

/// Reconciles one set. Returns whether all its writes were accepted.
async fn reconcile(store: &Store, key: &Key) -> bool {
    let state = store.state();
    let Some(set) = state.get(key) else {
        return true;
    };
    let mut writes = Vec::new();
    match key.resource {
        Resource::Deployments => deployment::reconcile(&state, set, &mut writes),
        Resource::ReplicaSets => replica_set::reconcile(&state, set, &mut writes),
        Resource::StatefulSets => stateful_set::reconcile(&state, set, &mut writes),
        _ => {}
    }
    let mut accepted = true;
    for write in writes {
        if let Err(error) = store.write(write).await {
            tracing::debug!(target: "cluster.sets", set = ?key, error = error.message, "a write was refused");
            accepted = false;
        }
    }
    accepted
}

/// Updates the set's status, if it differs.
fn update_status(set: &Object, mut status: Value, writes: &mut Vec<Write>) {
    status["observedGeneration"] = at(set.value(), &["metadata", "generation"])
        .cloned()
        .unwrap_or_else(|| 1.into());

    let same = entries(&status, &[])
        .all(|(name, value)| at(set.value(), &["status", name]) == Some(value));
    if !same {
        let patch = json!({"status": status});
        writes.push(Write::merge_patch(set.key(), Part::Status, patch));
    }
}

/// The number of replicas in the set's spec.
fn desired_replicas(set: &Object) -> u32 {
    let replicas = at(set.value(), &["spec", "replicas"]).and_then(Value::as_u64);
    replicas
        .and_then(|n| u32::try_from(n).ok())
        .unwrap_or_default()
}
