//! The taint manager: deletes pods that do not tolerate a `NoExecute` taint of their node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::changes::write::{Write, seconds};
use crate::objects::object::{Key, Object, text};
use crate::objects::pod::set_explained;
use crate::objects::resource::Resource;
use crate::objects::taints::{self, NO_EXECUTE};
use crate::storage::server::Store;
use crate::storage::store::{Event, State};
use crate::storage::work_queue::WorkQueue;

/// The longest time until a pod is looked at again.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Since when pods, with these uids, have been on a node whose taints they tolerate for a while only.
type Since = BTreeMap<Key, (String, Instant)>;

/// Deletes pods until the cluster stops. It holds `_alive` until it ends.
pub(crate) async fn run(store: Store, _alive: watch::Receiver<()>) {
    let mut queue = WorkQueue::new(&store);
    let mut since = Since::new();
    let is_node = |key: &Key| key.resource == Resource::Nodes;
    while let Some(mut keys) = queue.next(is_node, affected).await {
        while let Some(key) = queue.due() {
            keys.insert(key);
        }
        let state = store.state();
        let (nodes, mut pods): (BTreeSet<Key>, BTreeSet<Key>) = keys.into_iter().partition(is_node);
        if !nodes.is_empty() {
            let all = state.list(Resource::Pods, None);
            let on_these = all.filter(|pod| nodes.contains(&node_key(pod)));
            pods.extend(on_these.map(|pod| pod.key().clone()));
        }
        for pod in pods {
            if let Some(wait) = check(&store, &mut since, &pod).await {
                queue.later(pod, wait.min(MAX_WAIT));
            }
        }
    }
}

fn node_key(pod: &Object) -> Key {
    Key::new(
        Resource::Nodes,
        "",
        text(pod.value(), &["spec", "nodeName"]),
    )
}

/// The taints of a node that end pods.
fn no_execute(node: &Object) -> Vec<&Value> {
    taints::of(node, &[NO_EXECUTE]).collect()
}

/// Adds the nodes whose taints have changed, and the changed pods on tainted nodes.
fn affected(state: &State, event: &Event, due: &mut BTreeSet<Key>) {
    let object = event.object();
    match object.key().resource {
        Resource::Nodes => {
            let before = event.previous().map(|before| no_execute(before));
            if before.unwrap_or_default() != no_execute(object) {
                due.insert(object.key().clone());
            }
        }
        Resource::Pods => {
            let node = state.get(&node_key(object));
            if node.is_some_and(|node| !no_execute(node).is_empty()) {
                due.insert(object.key().clone());
            }
        }
        _ => {}
    }
}

/// Deletes a pod if its time is over. Returns how much of it is left.
async fn check(store: &Store, since: &mut Since, key: &Key) -> Option<Duration> {
    let state = store.state();
    let known = since.remove(key);
    let pod = state.get(key).filter(|pod| !pod.is_terminating())?;
    let tolerated = taints::tolerated_for(pod, &no_execute(state.get(&node_key(pod))?))?;
    let known = known.filter(|(uid, _)| uid == pod.uid());
    let (uid, began) = known.unwrap_or_else(|| (pod.uid().to_owned(), Instant::now()));
    let left = tolerated.saturating_sub(began.elapsed());
    if !left.is_zero() {
        since.insert(key.clone(), (uid, began));
        return Some(left);
    }
    for write in delete(pod, &seconds(store.clock().now())) {
        // A refused write means that the pod has changed; the event of that brings it back here.
        if let Err(error) = store.write(write).await {
            tracing::debug!(target: "cluster.taints", pod = ?key, error = error.message, "a write was refused");
        }
    }
    None
}

fn delete(pod: &Object, now: &str) -> [Write; 2] {
    let mut value = pod.value().clone();
    let message = "Taint manager: deleting due to NoExecute taint";
    let why = ("DeletionByTaintManager", message);
    set_explained(&mut value, "DisruptionTarget", true, why, &now.into());
    let status = json!({"conditions": value["status"]["conditions"]});
    [Write::report(pod, status), Write::delete(pod)]
}
