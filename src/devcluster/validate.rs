//! What makes an object unacceptable, field by field.

use std::collections::BTreeSet;

use serde_json::Value;

use super::kinds;
use super::names;
use super::object::{at, list, text};
use super::resource::Resource;
use super::status::Cause;

/// All annotations of an object together, in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// All the data of a ConfigMap together, in bytes.
const MAX_DATA: usize = 1024 * 1024;

/// What is wrong with an object that shall be stored.
pub fn object(resource: Resource, object: &Value) -> Vec<Cause> {
    let mut causes = metadata(resource, object);
    match resource {
        Resource::Pods => super::validate_pod::pod(object, &mut causes),
        Resource::ConfigMaps => config_map(object, &mut causes),
        Resource::Services => service(object, &mut causes),
        Resource::PersistentVolumeClaims => claim(object, &mut causes),
        Resource::Namespaces => {}
        other => kinds::validate(other, object, &mut causes),
    }
    causes
}

/// What is wrong with a change of one object into another.
pub fn change(resource: Resource, old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let (before, after) = (at(old, &["metadata", field]), at(new, &["metadata", field]));
        if before != after {
            let value = after.unwrap_or(&Value::Null);
            causes.push(Cause::invalid(
                format!("metadata.{field}"),
                value,
                "field is immutable",
            ));
        }
    }
    if at(old, &["metadata", "deletionTimestamp"]).is_some() {
        let before = list(old, &["metadata", "finalizers"]);
        let added: Vec<&Value> = list(new, &["metadata", "finalizers"])
            .iter()
            .filter(|f| !before.contains(f))
            .collect();
        if !added.is_empty() {
            let names: Vec<String> = added.iter().map(|f| f.to_string()).collect();
            causes.push(Cause::forbidden(
                "metadata.finalizers",
                &format!(
                    "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                    names.join(", ")
                ),
            ));
        }
    }
    match resource {
        Resource::Pods => super::validate_pod::pod_change(old, new, &mut causes),
        Resource::ConfigMaps if old.get("immutable") == Some(&Value::Bool(true)) => {
            for field in ["data", "binaryData", "immutable"] {
                if old.get(field) != new.get(field) {
                    causes.push(Cause::forbidden(
                        field,
                        "field is immutable when `immutable` is set",
                    ));
                }
            }
        }
        other => kinds::change(other, old, new, &mut causes),
    }
    causes
}

fn metadata(resource: Resource, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = text(object, &["metadata", "name"]);
    if name.is_empty() {
        causes.push(Cause::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else {
        let form = match resource {
            Resource::Namespaces => names::label(name),
            Resource::Services => names::label_1035(name),
            other if kinds::takes_any_path_segment(other) => names::path_segment(name),
            _ => names::subdomain(name),
        };
        if let Err(why) = form {
            causes.push(Cause::invalid("metadata.name", &name.into(), why));
        }
    }
    labels(
        object,
        &["metadata", "labels"],
        "metadata.labels",
        &mut causes,
    );
    annotations(object, &mut causes);
    for finalizer in list(object, &["metadata", "finalizers"]) {
        let name = finalizer.as_str().unwrap_or_default();
        let known = matches!(name, "orphan" | "foregroundDeletion" | "kubernetes");
        if names::qualified(name).is_err() || (!name.contains('/') && !known) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid("metadata.finalizers", finalizer, detail));
        }
    }
    owners(object, &mut causes);
    causes
}

/// The labels at a path.
pub(super) fn labels(object: &Value, path: &[&str], field: &str, causes: &mut Vec<Cause>) {
    for (key, value) in at(object, path)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        if let Err(why) = names::qualified(key) {
            causes.push(Cause::invalid(field, &key.as_str().into(), why));
        }
        if let Err(why) = names::label_value(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid(field, value, why));
        }
    }
}

fn annotations(object: &Value, causes: &mut Vec<Cause>) {
    let annotations = at(object, &["metadata", "annotations"]).and_then(Value::as_object);
    let mut total = 0;
    for (key, value) in annotations.into_iter().flatten() {
        // An annotation's key may be in capitals where a label's may not.
        if let Err(why) = names::qualified(&key.to_lowercase()) {
            causes.push(Cause::invalid(
                "metadata.annotations",
                &key.as_str().into(),
                why,
            ));
        }
        total += key.len() + value.as_str().map_or(0, str::len);
    }
    if total > MAX_ANNOTATIONS {
        causes.push(Cause::too_long("metadata.annotations", MAX_ANNOTATIONS));
    }
}

fn owners(object: &Value, causes: &mut Vec<Cause>) {
    let mut controllers = 0;
    for (i, owner) in list(object, &["metadata", "ownerReferences"])
        .iter()
        .enumerate()
    {
        for (field, what) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if text(owner, &[field]).is_empty() {
                let value = owner.get(field).cloned().unwrap_or_else(|| "".into());
                causes.push(Cause::invalid(
                    format!("metadata.ownerReferences[{i}].{field}"),
                    &value,
                    what,
                ));
            }
        }
        controllers += usize::from(owner.get("controller") == Some(&Value::Bool(true)));
    }
    if controllers > 1 {
        let all = at(object, &["metadata", "ownerReferences"]).unwrap_or(&Value::Null);
        let detail = "Only one reference can have Controller set to true";
        causes.push(Cause::invalid("metadata.ownerReferences", all, detail));
    }
}

fn config_map(object: &Value, causes: &mut Vec<Cause>) {
    let mut total = 0;
    let mut seen = BTreeSet::new();
    for field in ["data", "binaryData"] {
        for (key, value) in object
            .get(field)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            if let Err(why) = names::data_key(key) {
                causes.push(Cause::invalid(
                    format!("{field}[{key}]"),
                    &key.as_str().into(),
                    why,
                ));
            }
            if !seen.insert(key) {
                causes.push(Cause::duplicate(
                    format!("{field}[{key}]"),
                    &key.as_str().into(),
                ));
            }
            total += value.as_str().map_or(0, str::len);
        }
    }
    if total > MAX_DATA {
        causes.push(Cause::too_long("", MAX_DATA));
    }
}

fn service(object: &Value, causes: &mut Vec<Cause>) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let ports = list(spec, &["ports"]);
    let headless = text(spec, &["clusterIP"]) == "None" || text(spec, &["type"]) == "ExternalName";
    if ports.is_empty() && !headless {
        causes.push(Cause::required("spec.ports", ""));
    }
    for (i, port) in ports.iter().enumerate() {
        let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
        if !(1..=65_535).contains(&number) {
            let detail = "must be between 1 and 65535, inclusive";
            causes.push(Cause::invalid(
                format!("spec.ports[{i}].port"),
                &number.into(),
                detail,
            ));
        }
        if ports.len() > 1 && text(port, &["name"]).is_empty() {
            causes.push(Cause::required(format!("spec.ports[{i}].name"), ""));
        }
    }
    let kind = text(spec, &["type"]);
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !kinds.contains(&kind) {
        causes.push(Cause::not_supported("spec.type", &kind.into(), &kinds));
    }
    labels(object, &["spec", "selector"], "spec.selector", causes);
}

fn claim(object: &Value, causes: &mut Vec<Cause>) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    if list(spec, &["accessModes"]).is_empty() {
        causes.push(Cause::required(
            "spec.accessModes",
            "at least 1 access mode is required",
        ));
    }
    if at(spec, &["resources", "requests", "storage"]).is_none() {
        causes.push(Cause::required("spec.resources[storage]", ""));
    }
}
