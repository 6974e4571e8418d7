//! Merges a template with a profile (spec K-1). For single values the profile wins; labels, annotations, environment,
//! volumes and tolerations are combined.

use serde_json::{Map, Value, json};

use super::{EXECUTOR_CONTAINER, ProfileSpec, secure};
use boatswain_model::quantity::Quantity;

/// The merged `metadata` and `spec` of a pod, with the executor container and with secure defaults.
pub(super) fn shape(spec: &ProfileSpec) -> Value {
    let mut pod = match &spec.base {
        Value::Object(_) => spec.base.clone(),
        _ => json!({}),
    };
    for (map, entries) in [("labels", &spec.labels), ("annotations", &spec.annotations)] {
        let entries = entries
            .iter()
            .map(|(key, value)| (key.clone(), value.as_str().into()));
        let entries: Map<String, Value> = entries.collect();
        if !entries.is_empty() {
            by_key(&mut pod["metadata"][map], &Value::Object(entries));
        }
    }
    if !pod["spec"].is_object() {
        pod["spec"] = json!({});
    }
    let inner = &mut pod["spec"];
    for (field, value) in &spec.pod {
        match field.as_str() {
            "volumes" => by_name(&mut inner[field], value, "name"),
            "tolerations" => all_of(&mut inner[field], value),
            "nodeSelector" | "securityContext" => by_key(&mut inner[field], value),
            _ => inner[field] = value.clone(),
        }
    }
    let container = executor(inner);
    for (field, value) in &spec.container {
        match field.as_str() {
            "env" => by_name(&mut container[field], value, "name"),
            "volumeMounts" => by_name(&mut container[field], value, "mountPath"),
            "securityContext" | "resources" => deeply(&mut container[field], value),
            "lifecycle" => by_key(&mut container[field], value),
            _ => container[field] = value.clone(),
        }
    }
    // In Kubernetes a container's security context overrides the pod's. Here the profile's overrides the template's.
    let said = (spec.pod.get("securityContext")).and_then(Value::as_object);
    let of_template = (container.get_mut("securityContext")).and_then(Value::as_object_mut);
    if let Some((said, of_template)) = said.zip(of_template) {
        of_template.retain(|field, _| !said.contains_key(field));
    }
    secure::secure(inner);
    pod
}

/// The executor container of a pod's spec, inserted if missing.
pub(super) fn executor(spec: &mut Value) -> &mut Value {
    let is_executor = |container: &Value| container["name"] == EXECUTOR_CONTAINER;
    let containers = spec["containers"].as_array();
    let at = containers.and_then(|containers| containers.iter().position(is_executor));
    if containers.is_none() {
        spec["containers"] = json!([]);
    }
    let at = at.unwrap_or_else(|| {
        if let Some(containers) = spec["containers"].as_array_mut() {
            containers.insert(0, json!({"name": EXECUTOR_CONTAINER}));
        }
        0
    });
    &mut spec["containers"][at]
}

/// Adds entries and replaces those with the same key.
fn by_key(into: &mut Value, from: &Value) {
    match (into.as_object_mut(), from.as_object()) {
        (Some(into), Some(from)) => {
            let entries = from.iter().map(|(key, value)| (key.clone(), value.clone()));
            into.extend(entries);
        }
        _ => *into = from.clone(),
    }
}

/// As [`by_key`], recursively.
fn deeply(into: &mut Value, from: &Value) {
    match (into.as_object_mut(), from.as_object()) {
        (Some(into), Some(from)) => {
            for (key, value) in from {
                deeply(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        _ => *into = from.clone(),
    }
}

/// Adds items and replaces those with the same value in `field`.
fn by_name(into: &mut Value, from: &Value, field: &str) {
    if !into.is_array() {
        *into = json!([]);
    }
    let (Some(into), Some(from)) = (into.as_array_mut(), from.as_array()) else {
        return;
    };
    for item in from {
        match into.iter_mut().find(|there| there[field] == item[field]) {
            Some(there) => *there = item.clone(),
            None => into.push(item.clone()),
        }
    }
}

fn all_of(into: &mut Value, from: &Value) {
    if !into.is_array() {
        *into = json!([]);
    }
    let (Some(into), Some(from)) = (into.as_array_mut(), from.as_array()) else {
        return;
    };
    for item in from {
        if !into.contains(item) {
            into.push(item.clone());
        }
    }
}

/// Finds a resource whose request is above its limit; the error has the resource, the request and the limit.
pub(super) fn check_resources(pod: &Value) -> Result<(), (String, String, String)> {
    let containers = pod["spec"]["containers"].as_array();
    for container in containers.into_iter().flatten() {
        let of = |kind: &str, name: &str| container["resources"][kind][name].as_str();
        let requests = container["resources"]["requests"].as_object();
        for name in requests.into_iter().flat_map(Map::keys) {
            let Some((request, limit)) = of("requests", name).zip(of("limits", name)) else {
                continue;
            };
            let amounts = quantity(request).zip(quantity(limit));
            if amounts.is_some_and(|(request, limit)| request > limit) {
                return Err((name.clone(), request.to_owned(), limit.to_owned()));
            }
        }
    }
    Ok(())
}

/// The executor container's cpu in thousandths and memory in bytes: the limit, else the request.
pub(super) fn amounts(container: &Value) -> (Option<u64>, Option<u64>) {
    let of = |name: &str| {
        let limit = container["resources"]["limits"][name].as_str();
        limit.or_else(|| container["resources"]["requests"][name].as_str())
    };
    let cpu = of("cpu").and_then(quantity).map(|cpu| cpu.millis());
    let memory = of("memory").and_then(quantity).map(|memory| memory.bytes());
    (cpu, memory)
}

fn quantity(text: &str) -> Option<Quantity> {
    text.parse().ok()
}
