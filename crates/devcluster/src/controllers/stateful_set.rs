//! The StatefulSet controller: keeps pods with ordinals, created in order or in parallel.

mod claims;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::pods;
use super::{desired_replicas, update_status};
use crate::changes::write::Write;
use crate::objects::object::{Object, at, list, set, text};
use crate::objects::pod;
use crate::objects::resource::Resource;
use crate::storage::store::State;

/// The label with the revision of the template that a pod was made from.
const REVISION: &str = "controller-revision-hash";

pub(super) fn reconcile(state: &State, owner: &Object, writes: &mut Vec<Write>) {
    let revision = revision(owner);
    let is_named = |pod: &Object| ordinal(owner, pod).is_some();
    let claimed = pods::claim(state, owner, Resource::Pods, is_named, writes);
    let there = by_ordinal(owner, claimed);
    if !owner.is_terminating() {
        step(state, owner, &revision, &there, writes);
    }
    let count = |which: fn(&Object) -> bool| there.values().filter(|pod| which(pod)).count();
    let (all, ready) = (count(|_| true), count(pods::is_ready));
    let updated = |pod: &&&Arc<Object>| pods::label(pod, REVISION) == revision;
    let updated = there.values().filter(updated).count();
    let status = json!({
        "replicas": all,
        "readyReplicas": ready,
        "availableReplicas": ready,
        "updatedReplicas": updated,
        "currentReplicas": updated,
        "updateRevision": revision,
        "currentRevision": revision,
        "collisionCount": 0,
    });
    update_status(owner, status, writes);
}

fn revision(owner: &Object) -> String {
    format!(
        "{}-{}",
        owner.key().name,
        pods::hash(&pods::template(owner))
    )
}

fn by_ordinal<'a>(owner: &Object, pods: Vec<&'a Arc<Object>>) -> BTreeMap<u32, &'a Arc<Object>> {
    pods.into_iter()
        .filter_map(|pod| Some((ordinal(owner, pod)?, pod)))
        .collect()
}

/// The ordinal in the name of a pod that this set could have made.
fn ordinal(owner: &Object, pod: &Object) -> Option<u32> {
    let rest = pod.key().name.strip_prefix(&*owner.key().name)?;
    rest.strip_prefix('-')?.parse().ok()
}

/// The next step towards the wanted replicas.
fn step(
    state: &State,
    owner: &Object,
    revision: &str,
    there: &BTreeMap<u32, &Arc<Object>>,
    writes: &mut Vec<Write>,
) {
    let replicas = desired_replicas(owner);
    for (ordinal, pod) in there.iter().filter(|(_, pod)| !pods::is_over(pod)) {
        let is_surplus = *ordinal >= replicas;
        if !is_surplus && text(pod.value(), &["status", "phase"]) == "Pending" {
            claims::create(state, owner, &pod.key().name, writes);
        }
        claims::own(state, owner, pod, is_surplus, writes);
    }
    let in_order = text(owner.value(), &["spec", "podManagementPolicy"]) != "Parallel";
    let mut all_well = true;
    for ordinal in 0..replicas {
        match there.get(&ordinal) {
            None => {
                create(state, owner, revision, ordinal, writes);
                all_well = false;
            }
            Some(pod) if pod::has_ended(pod) && !pod.is_terminating() => {
                writes.push(Write::delete(pod));
                all_well = false;
            }
            Some(pod) => all_well &= pods::is_ready(pod),
        }
        if in_order && !all_well {
            return;
        }
    }
    // The highest ordinals are deleted first; with ordered pods, each one only when the one above it is gone.
    let surplus: Vec<&Arc<Object>> = there.range(replicas..).rev().map(|(_, pod)| *pod).collect();
    if in_order {
        if let Some(pod) = surplus.first() {
            writes.extend((!pod.is_terminating()).then(|| Write::delete(pod)));
            return;
        }
    } else {
        let going = surplus.into_iter().filter(|pod| !pod.is_terminating());
        writes.extend(going.map(|pod| Write::delete(pod)));
    }
    if text(owner.value(), &["spec", "updateStrategy", "type"]) != "RollingUpdate" {
        return;
    }
    let partition = ["spec", "updateStrategy", "rollingUpdate", "partition"];
    let partition = at(owner.value(), &partition).and_then(Value::as_u64);
    let partition = u32::try_from(partition.unwrap_or_default()).unwrap_or(u32::MAX);
    for (_, pod) in there.range(partition.min(replicas)..replicas).rev() {
        if pods::label(pod, REVISION) != revision {
            writes.extend((!pod.is_terminating()).then(|| Write::delete(pod)));
            return;
        }
        if !pods::is_ready(pod) {
            return;
        }
    }
}

/// Creates the pod of an ordinal, and first its volume claims.
fn create(state: &State, owner: &Object, revision: &str, ordinal: u32, writes: &mut Vec<Write>) {
    let name = format!("{}-{ordinal}", owner.key().name);
    let mut pod = pods::from_template(owner, &pods::template(owner));
    set(&mut pod, &["metadata", "name"], name.as_str().into());
    for (label, value) in [
        ("statefulset.kubernetes.io/pod-name", name.as_str()),
        ("apps.kubernetes.io/pod-index", &ordinal.to_string()),
        (REVISION, revision),
    ] {
        set(&mut pod, &["metadata", "labels", label], value.into());
    }
    set(&mut pod, &["spec", "hostname"], name.as_str().into());
    let service = text(owner.value(), &["spec", "serviceName"]);
    if !service.is_empty() {
        set(&mut pod, &["spec", "subdomain"], service.into());
    }
    let claimed = claims::volumes(owner, &name);
    let mut volumes = list(&pod, &["spec", "volumes"]).to_vec();
    volumes.retain(|other| {
        (claimed.iter()).all(|claim| text(other, &["name"]) != text(claim, &["name"]))
    });
    volumes.extend(claimed);
    claims::create(state, owner, &name, writes);
    if !volumes.is_empty() {
        set(&mut pod, &["spec", "volumes"], volumes.into());
    }
    writes.push(pods::create(owner, Resource::Pods, pod));
}
