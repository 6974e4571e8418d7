//! The Deployment controller: makes a ReplicaSet for each template, and rolls the pods over to the newest.

use std::sync::Arc;

use serde_json::{Value, json};

use super::pods;
use super::{desired_replicas, update_status};

use crate::changes::write::{Part, Write};
use crate::objects::object::{Object, at, set, text};
use crate::objects::resource::Resource;
use crate::storage::store::State;

/// The label that distinguishes the pods of one template from those of another.
const HASH: &str = "pod-template-hash";

const REVISION: &str = "deployment.kubernetes.io/revision";

pub(super) fn reconcile(state: &State, owner: &Object, writes: &mut Vec<Write>) {
    let template = pods::template(owner);
    let hash = pods::hash(&template);
    let sets = pods::claim(state, owner, Resource::ReplicaSets, |_| true, writes);
    let (new, old): (Vec<_>, Vec<_>) = sets
        .into_iter()
        .partition(|set| pods::label(set, HASH) == hash);
    let new = new.first().copied();
    if !owner.is_terminating() {
        step(owner, &template, &hash, new, &old, writes);
    }
    let all = || new.into_iter().chain(old.iter().copied());
    let sum = |field: &str| -> u64 { all().map(|set| count(set, field)).sum() };
    let ready = sum("readyReplicas");
    let available = sum("availableReplicas");
    let lacking = u64::from(desired_replicas(owner)).saturating_sub(available);
    let mut status = json!({
        "replicas": sum("replicas"),
        "updatedReplicas": new.map_or(0, |set| count(set, "replicas")),
        "readyReplicas": ready,
        "availableReplicas": available,
        "unavailableReplicas": lacking,
    });
    let is_available = lacking <= rolling_limit(owner, "maxUnavailable", false);
    status["conditions"] = json!([{
        "type": "Available",
        "status": if is_available { "True" } else { "False" },
        "reason": if is_available { "MinimumReplicasAvailable" } else { "MinimumReplicasUnavailable" },
    }]);
    update_status(owner, status, writes);
}

/// The next step of the rollout.
fn step(
    owner: &Object,
    template: &Value,
    hash: &str,
    new: Option<&Arc<Object>>,
    old: &[&Arc<Object>],
    writes: &mut Vec<Write>,
) {
    let replicas = u64::from(desired_replicas(owner));
    let of_old: u64 = old.iter().map(|set| u64::from(desired_replicas(set))).sum();
    let of_new = new.map_or(0, |set| u64::from(desired_replicas(set)));
    let recreates = text(owner.value(), &["spec", "strategy", "type"]) == "Recreate";
    let room = if recreates {
        let left = old.iter().any(|set| count(set, "replicas") > 0);
        if of_old > 0 || left { 0 } else { replicas }
    } else {
        (replicas + rolling_limit(owner, "maxSurge", true)).saturating_sub(of_old + of_new)
    };
    let next = if of_new > replicas {
        replicas
    } else {
        replicas.min(of_new + room)
    };
    match new {
        None => writes.push(create(owner, template, hash, next, old)),
        Some(set) if next != of_new => writes.push(scale(set, next)),
        Some(_) => {}
    }
    // Unavailable pods of old sets go at once, available ones only as far as `maxUnavailable` permits. A set's status
    // can be older than its spec, so it is capped by the wanted replicas.
    let is_ready =
        |set: &Object| count(set, "availableReplicas").min(u64::from(desired_replicas(set)));
    let available: u64 = new
        .into_iter()
        .chain(old.iter().copied())
        .map(|set| is_ready(set))
        .sum();
    let least = match recreates {
        true => 0,
        false => replicas.saturating_sub(rolling_limit(owner, "maxUnavailable", false)),
    };
    let mut may_go = available.saturating_sub(least);
    for set in old {
        let there = u64::from(desired_replicas(set));
        let idle = there.saturating_sub(is_ready(set));
        let going = may_go.min(there - idle);
        may_go -= going;
        if idle + going > 0 {
            writes.push(scale(set, there - idle - going));
        }
    }
    let limit = at(owner.value(), &["spec", "revisionHistoryLimit"]).and_then(Value::as_u64);
    let limit = usize::try_from(limit.unwrap_or(10)).unwrap_or(usize::MAX);
    let mut spent: Vec<&&Arc<Object>> = old
        .iter()
        .filter(|set| desired_replicas(set) == 0 && count(set, "replicas") == 0)
        .collect();
    spent.sort_by_key(|set| revision(set));
    let surplus = spent.len().saturating_sub(limit);
    writes.extend(
        spent
            .into_iter()
            .take(surplus)
            .map(|set| Write::delete(set)),
    );
}

fn create(
    owner: &Object,
    template: &Value,
    hash: &str,
    replicas: u64,
    old: &[&Arc<Object>],
) -> Write {
    let mut template = template.clone();
    set(&mut template, &["metadata", "labels", HASH], hash.into());
    let labels = template["metadata"]["labels"].clone();
    let mut selector = owner.value()["spec"]["selector"].clone();
    set(&mut selector, &["matchLabels", HASH], hash.into());
    let last = old.iter().map(|set| revision(set)).max().unwrap_or(0);
    let set = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", owner.key().name),
            "labels": labels,
            "annotations": {REVISION: (last + 1).to_string()},
            "ownerReferences": [pods::reference(owner)],
        },
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    });
    pods::create(owner, Resource::ReplicaSets, set)
}

fn revision(set: &Object) -> u64 {
    let revision = text(set.value(), &["metadata", "annotations", REVISION]);
    revision.parse().unwrap_or(0)
}

fn scale(set: &Object, replicas: u64) -> Write {
    Write::merge_patch(
        set.key(),
        Part::Main,
        json!({"spec": {"replicas": replicas}}),
    )
}

fn count(set: &Object, field: &str) -> u64 {
    let count = at(set.value(), &["status", field]).and_then(Value::as_u64);
    count.unwrap_or_default()
}

/// The value of `maxSurge` (rounded up) or `maxUnavailable`: a number of pods or a percentage of the replicas.
fn rolling_limit(owner: &Object, field: &str, up: bool) -> u64 {
    let amount = |field| at(owner.value(), &["spec", "strategy", "rollingUpdate", field]);
    let all = u64::from(desired_replicas(owner));
    let of = |field, up: bool| match amount(field) {
        Some(Value::Number(number)) => number.as_u64().unwrap_or_default(),
        Some(Value::String(share)) => {
            let share: u64 = share.trim_end_matches('%').parse().unwrap_or_default();
            match up {
                true => (all * share).div_ceil(100),
                false => all * share / 100,
            }
        }
        _ => 0,
    };
    // If both are zero, the rollout could not make progress.
    match (field, of(field, up)) {
        ("maxUnavailable", 0) if of("maxSurge", true) == 0 => 1,
        (_, most) => most,
    }
}
