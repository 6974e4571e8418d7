//! The table cells of every kind but pods.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{NOTHING, age, or_nothing};
use crate::objects::object::{
    at, condition, entries, is_true, list, number, strings, text, text_or,
};
use crate::objects::resource::Resource;

pub(super) fn cells(resource: Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    let field = |path: &[&str]| Value::from(text(object, path));
    let count = |name: &str| match object.get(name) {
        Some(Value::Object(fields)) => fields.len(),
        Some(Value::Array(items)) => items.len(),
        _ => 0,
    };
    let name = field(&["metadata", "name"]);
    let age: Value = age(object, now).into();
    match resource {
        Resource::Namespaces => vec![name, field(&["status", "phase"]), age],
        Resource::ConfigMaps => vec![name, (count("data") + count("binaryData")).into(), age],
        Resource::Secrets => vec![name, field(&["type"]), count("data").into(), age],
        Resource::Services => service(object, name, age),
        Resource::PersistentVolumeClaims => claim(object, name, age),
        Resource::Leases => vec![name, field(&["spec", "holderIdentity"]), age],
        Resource::Events => event(object, name, now),
        Resource::Nodes => node(object, name, age),
        Resource::ResourceQuotas => {
            let [requests, limits] = quota(object);
            vec![name, requests.into(), limits.into(), age]
        }
        Resource::ServiceAccounts => vec![name, count("secrets").into(), age],
        Resource::RoleBindings | Resource::ClusterRoleBindings => binding(object, name, age),
        Resource::Deployments | Resource::ReplicaSets | Resource::StatefulSets => {
            set(resource, object, name, age)
        }
        Resource::PodDisruptionBudgets => budget(object, name, age),
        Resource::Workloads | Resource::ResourceFlavors | Resource::PodGroups => vec![name, age],
        Resource::Pods | Resource::LimitRanges | Resource::Roles | Resource::ClusterRoles => {
            vec![name, field(&["metadata", "creationTimestamp"])]
        }
    }
}

/// A workload: its replica counts, age, containers and selector.
fn set(resource: Resource, set: &Value, name: Value, age: Value) -> Vec<Value> {
    let count = |path: &[&str]| at(set, path).and_then(Value::as_u64).unwrap_or(0);
    let wanted = count(&["spec", "replicas"]);
    let status = |field: &str| count(&["status", field]);
    let ready = format!("{}/{wanted}", status("readyReplicas"));
    let mut cells = match resource {
        Resource::Deployments => vec![
            name,
            ready.into(),
            status("updatedReplicas").into(),
            status("availableReplicas").into(),
            age,
        ],
        Resource::ReplicaSets => vec![
            name,
            wanted.into(),
            status("replicas").into(),
            status("readyReplicas").into(),
            age,
        ],
        _ => vec![name, ready.into(), age],
    };
    cells.extend(containers(set));
    if resource != Resource::StatefulSets {
        cells.push(labels(set, &["spec", "selector", "matchLabels"]).into());
    }
    cells
}

/// The names and the images of a template's containers.
fn containers(set: &Value) -> [Value; 2] {
    let containers = list(set, &["spec", "template", "spec", "containers"]);
    ["name", "image"].map(|field| {
        let each: Vec<&str> = containers.iter().map(|c| text(c, &[field])).collect();
        each.join(",").into()
    })
}

fn budget(budget: &Value, name: Value, age: Value) -> Vec<Value> {
    let limit = |field: &str| match at(budget, &["spec", field]) {
        Some(Value::String(share)) => share.clone(),
        Some(number) => number.to_string(),
        None => "N/A".to_owned(),
    };
    let allowed = number(budget, &["status", "disruptionsAllowed"]).unwrap_or(0);
    let limits = ["minAvailable", "maxUnavailable"].map(|field| limit(field).into());
    let [least, most] = limits;
    vec![name, least, most, allowed.into(), age]
}

fn join<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.collect();
    or_nothing(&words.join(",")).to_owned()
}

fn labels(object: &Value, path: &[&str]) -> String {
    let each = at(object, path).and_then(Value::as_object);
    let pairs: Vec<String> = each
        .into_iter()
        .flatten()
        .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()))
        .collect();
    join(pairs.iter().map(String::as_str))
}

fn service(service: &Value, name: Value, age: Value) -> Vec<Value> {
    let kind = text(service, &["spec", "type"]);
    let own = strings(service, &["spec", "externalIPs"]);
    let outside = match kind {
        "ClusterIP" | "NodePort" => join(own),
        "LoadBalancer" => {
            let balancer = list(service, &["status", "loadBalancer", "ingress"]).iter();
            let addresses = balancer.map(|i| text_or(i, &["ip"], text(i, &["hostname"])));
            let all: Vec<&str> = addresses.chain(own).collect();
            if all.is_empty() {
                "<pending>".to_owned()
            } else {
                all.join(",")
            }
        }
        "ExternalName" => text(service, &["spec", "externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    };
    let ports: Vec<String> = list(service, &["spec", "ports"])
        .iter()
        .map(|port| {
            let number = |field: &str| number(port, &[field]).unwrap_or(0);
            let protocol = text(port, &["protocol"]);
            match number("nodePort") {
                0 => format!("{}/{protocol}", number("port")),
                node => format!("{}:{node}/{protocol}", number("port")),
            }
        })
        .collect();
    vec![
        name,
        kind.into(),
        or_nothing(text(service, &["spec", "clusterIP"])).into(),
        outside.into(),
        join(ports.iter().map(String::as_str)).into(),
        age,
        labels(service, &["spec", "selector"]).into(),
    ]
}

fn claim(claim: &Value, name: Value, age: Value) -> Vec<Value> {
    let volume = text(claim, &["spec", "volumeName"]);
    let going = at(claim, &["metadata", "deletionTimestamp"]).is_some();
    let phase = if going {
        "Terminating"
    } else {
        text(claim, &["status", "phase"])
    };
    let (mut capacity, mut modes) = ("", String::new());
    if !volume.is_empty() {
        capacity = text(claim, &["status", "capacity", "storage"]);
        modes = access_modes(list(claim, &["status", "accessModes"]));
    }
    let or_unset = |path: &[&str]| match text(claim, path) {
        "" => "<unset>".to_owned(),
        text => text.to_owned(),
    };
    let annotation = "volume.beta.kubernetes.io/storage-class";
    let class = text_or(
        claim,
        &["metadata", "annotations", annotation],
        text(claim, &["spec", "storageClassName"]),
    );
    vec![
        name,
        phase.into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        class.into(),
        or_unset(&["spec", "volumeAttributesClassName"]).into(),
        age,
        or_unset(&["spec", "volumeMode"]).into(),
    ]
}

fn access_modes(modes: &[Value]) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let there = short
        .iter()
        .filter(|(mode, _)| modes.iter().any(|m| m == mode));
    there.map(|(_, s)| *s).collect::<Vec<_>>().join(",")
}

fn event(event: &Value, name: Value, now: Timestamp) -> Vec<Value> {
    let since = |path: &[&str]| super::age::since(text(event, path), now);
    let is = |path: &[&str]| !text(event, path).is_empty();
    let first = match is(&["firstTimestamp"]) {
        true => since(&["firstTimestamp"]),
        false => since(&["eventTime"]),
    };
    let (last, count) = if let Some(series) = event.get("series") {
        let count = number(series, &["count"]).unwrap_or(0);
        (since(&["series", "lastObservedTime"]), count)
    } else {
        let last = match is(&["lastTimestamp"]) {
            true => since(&["lastTimestamp"]),
            false => first.clone(),
        };
        (
            last,
            number(event, &["count"]).filter(|c| *c != 0).unwrap_or(1),
        )
    };
    let about = text(event, &["involvedObject", "kind"]).to_lowercase();
    let about = match text(event, &["involvedObject", "name"]) {
        "" => about,
        named => format!("{about}/{named}"),
    };
    let source = match text(event, &["source", "component"]) {
        "" => [&["reportingComponent"][..], &["reportingInstance"]],
        _ => [&["source", "component"][..], &["source", "host"]],
    };
    let source = source.map(|path| text(event, path)).join(", ");
    vec![
        last.into(),
        text(event, &["type"]).into(),
        text(event, &["reason"]).into(),
        about.into(),
        text(event, &["involvedObject", "fieldPath"]).into(),
        source.trim_end_matches(", ").into(),
        text(event, &["message"]).trim().into(),
        first.into(),
        count.into(),
        name,
    ]
}

fn node(node: &Value, name: Value, age: Value) -> Vec<Value> {
    let mut status = match condition(node, "Ready") {
        "True" => "Ready",
        "" => "Unknown",
        _ => "NotReady",
    }
    .to_owned();
    if is_true(node, &["spec", "unschedulable"]) {
        status.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<&str> = entries(node, &["metadata", "labels"])
        .filter_map(|(key, value)| match key.as_str() {
            "kubernetes.io/role" => value.as_str().filter(|v| !v.is_empty()),
            key => key
                .strip_prefix("node-role.kubernetes.io/")
                .filter(|r| !r.is_empty()),
        })
        .collect();
    roles.sort_unstable();
    let address = |kind: &str| {
        let found = list(node, &["status", "addresses"])
            .iter()
            .find(|a| text(a, &["type"]) == kind);
        found.map_or(NOTHING, |a| text(a, &["address"]))
    };
    let info = |field: &str| text_or(node, &["status", "nodeInfo", field], "<unknown>");
    vec![
        name,
        status.into(),
        join(roles.into_iter()).into(),
        age,
        text(node, &["status", "nodeInfo", "kubeletVersion"]).into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        info("osImage").into(),
        info("kernelVersion").into(),
        info("containerRuntimeVersion").into(),
    ]
}

/// The used and the granted amounts of a quota: of requests, then of limits.
fn quota(quota: &Value) -> [String; 2] {
    let mut shown = [Vec::new(), Vec::new()];
    let hard = at(quota, &["status", "hard"]).and_then(Value::as_object);
    for (name, granted) in hard.into_iter().flatten() {
        let amount = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let used = at(quota, &["status", "used", name]).map_or_else(|| "0".to_owned(), amount);
        let line = format!("{name}: {used}/{}", amount(granted));
        let of = usize::from(name.starts_with("limits."));
        shown[of].push(line);
    }
    shown.map(|mut lines| {
        lines.sort_unstable();
        lines.join(", ")
    })
}

fn binding(binding: &Value, name: Value, age: Value) -> Vec<Value> {
    let role = format!(
        "{}/{}",
        text(binding, &["roleRef", "kind"]),
        text(binding, &["roleRef", "name"])
    );
    let of = |kind: &str| -> Value {
        let names: Vec<String> = list(binding, &["subjects"])
            .iter()
            .filter(|s| text(s, &["kind"]) == kind)
            .map(|s| match text(s, &["namespace"]) {
                "" => text(s, &["name"]).to_owned(),
                namespace => format!("{namespace}/{}", text(s, &["name"])),
            })
            .collect();
        json!(names.join(", "))
    };
    vec![
        name,
        role.into(),
        age,
        of("User"),
        of("Group"),
        of("ServiceAccount"),
    ]
}

#[cfg(test)]
mod tests;
