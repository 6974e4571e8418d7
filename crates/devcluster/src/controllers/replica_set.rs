//! The ReplicaSet controller: keeps the number of interchangeable pods.

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::{Value, json};

use super::pods;
use super::{desired_replicas, update_status};
use crate::changes::write::Write;
use crate::objects::object::{Object, at, set, text};
use crate::objects::resource::Resource;
use crate::storage::store::State;

/// The annotation with a pod's deletion cost; pods with the lowest cost are deleted first.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

pub(super) fn reconcile(state: &State, owner: &Object, writes: &mut Vec<Write>) {
    let is_active = |pod: &Object| !pods::is_over(pod);
    let active = pods::claim(state, owner, Resource::Pods, is_active, writes);
    let there = active.len();
    if !owner.is_terminating() {
        let wanted = desired_replicas(owner) as usize;
        for _ in there..wanted {
            writes.push(pods::create(owner, Resource::Pods, new_pod(owner)));
        }
        let surplus = there.saturating_sub(wanted);
        let mut ranked = active.clone();
        ranked.sort_by_cached_key(|pod| rank(pod));
        writes.extend(
            ranked
                .into_iter()
                .take(surplus)
                .map(|pod| Write::delete(pod)),
        );
    }
    let ready = active.iter().filter(|pod| pods::is_ready(pod)).count();
    let status = json!({
        "replicas": there,
        "fullyLabeledReplicas": there,
        "readyReplicas": ready,
        "availableReplicas": ready,
    });
    update_status(owner, status, writes);
}

fn new_pod(owner: &Object) -> Value {
    let mut pod = pods::from_template(owner, &pods::template(owner));
    let name = format!("{}-", owner.key().name);
    set(&mut pod, &["metadata", "generateName"], name.into());
    pod
}

/// The order of deletion, as in the real controller: pods without a node first, then not started, not ready, cheapest,
/// youngest.
type Rank = (bool, u8, bool, i64, Reverse<String>, Reverse<u64>, Arc<str>);

pub(super) fn rank(pod: &Object) -> Rank {
    let value = pod.value();
    let cost = at(value, &["metadata", "annotations", DELETION_COST])
        .and_then(Value::as_str)
        .and_then(|cost| cost.parse().ok())
        .unwrap_or_default();
    let phase = match text(value, &["status", "phase"]) {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    };
    let restarts = value.pointer("/status/containerStatuses/0/restartCount");
    (
        !text(value, &["spec", "nodeName"]).is_empty(),
        phase,
        pods::is_ready(pod),
        cost,
        Reverse(text(value, &["metadata", "creationTimestamp"]).to_owned()),
        Reverse(restarts.and_then(Value::as_u64).unwrap_or_default()),
        pod.key().name.clone(),
    )
}
