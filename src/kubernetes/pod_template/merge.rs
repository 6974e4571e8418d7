//! A template and a profile put together (spec K-1): later wins for single values; labels, annotations, environment, volumes
//! and tolerations add up.

use serde_json::{Map, Value, json};

use super::{EXECUTOR_CONTAINER, ProfileSpec, secure};
use crate::model::quantity::Quantity;

/// A pod's `metadata` and `spec` as the template and the profile have them, secure where neither says otherwise; the
/// executor's container is among its containers.
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
    // To Kubernetes a container's word goes before its pod's; here the profile's goes before the template's.
    let said = (spec.pod.get("securityContext")).and_then(Value::as_object);
    let of_template = (container.get_mut("securityContext")).and_then(Value::as_object_mut);
    if let Some((said, of_template)) = said.zip(of_template) {
        of_template.retain(|field, _| !said.contains_key(field));
    }
    secure::secure(inner);
    pod
}

/// The executor's container of a pod's spec, made where there is none.
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

/// Entries are added, and those of the same key replaced.
fn by_key(into: &mut Value, from: &Value) {
    match (into.as_object_mut(), from.as_object()) {
        (Some(into), Some(from)) => {
            let entries = from.iter().map(|(key, value)| (key.clone(), value.clone()));
            into.extend(entries);
        }
        _ => *into = from.clone(),
    }
}

/// As [`by_key`], and so within the entries that are maps themselves.
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

/// Items are added, and those that this field tells to be the same replaced.
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

/// Items are added that are not there yet.
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

/// Of which resource a container asks for more than it is granted: its name, the request and the limit.
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

/// What the executor's container of this spec may use at most of cpu, in thousandths, and of memory, in bytes; where it has
/// no limit, what is reserved for it.
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
