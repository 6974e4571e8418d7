//! Validates objects and their updates, and reports every invalid field.

use std::collections::BTreeSet;

use serde_json::Value;

use super::names;
use super::validate_meta;
use crate::api::status::Causes;
use crate::changes::write::Part;
use crate::objects::object::{at, entries, is_true, list, number, text};
use crate::objects::{kinds, label_selector, quantity};
use crate::objects::resource::Resource;

/// The most data of a ConfigMap, in bytes.
const MAX_DATA: usize = 1024 * 1024;

pub fn object(resource: Resource, object: &Value) -> Causes {
    let mut causes = validate_meta::whole(resource, object);
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

pub fn change(resource: Resource, part: Part, old: &Value, new: &Value) -> Causes {
    // As on real servers, metadata is validated for all kinds and again by each kind, so its causes appear twice.
    let mut causes = validate_meta::change(old, new);
    causes.extend(validate_meta::change(old, new));
    validate_meta::finalizers_of_core(new, &mut causes);
    match (resource, part) {
        (Resource::Pods, Part::Status) => {
            super::validate_pod_change::status(old, new, &mut causes);
        }
        (_, Part::Status | Part::Finalizers) => {}
        (Resource::Pods, Part::Main) => {
            causes.extend(object(resource, new));
            super::validate_pod_change::spec(old, new, &mut causes);
        }
        (Resource::ConfigMaps, Part::Main) => {
            immutable(old, new, &["immutable", "data", "binaryData"], &mut causes);
            causes.extend(object(resource, new));
        }
        (other, Part::Main) => {
            causes.extend(object(resource, new));
            kinds::change(other, old, new, &mut causes);
        }
    }
    causes
}

/// Validates that these fields do not change if an object is `immutable`.
pub(crate) fn immutable(old: &Value, new: &Value, fields: &[&str], causes: &mut Causes) {
    for field in fields {
        if is_true(old, &["immutable"]) && old.get(field) != new.get(field) {
            causes.forbidden(*field, "field is immutable when `immutable` is set");
        }
    }
}

pub(crate) fn labels(object: &Value, path: &[&str], field: &str, causes: &mut Causes) {
    for (key, value) in at(object, path)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        if let Err(why) = names::qualified(key) {
            causes.invalid(field, key.as_str(), why);
        }
        if let Err(why) = names::label_value(value.as_str().unwrap_or_default()) {
            causes.invalid(field, value, why);
        }
    }
}

fn config_map(object: &Value, causes: &mut Causes) {
    let mut total = 0;
    let mut seen = BTreeSet::new();
    for field in ["data", "binaryData"] {
        for (key, value) in entries(object, &[field]) {
            if let Err(why) = names::data_key(key) {
                causes.invalid(format!("{field}[{key}]"), key, why);
            }
            if !seen.insert(key) {
                causes.duplicate(format!("{field}[{key}]"), key);
            }
            total += value.as_str().map_or(0, str::len);
        }
    }
    if total > MAX_DATA {
        causes.too_long("", MAX_DATA);
    }
}

fn service(object: &Value, causes: &mut Causes) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let ports = list(spec, &["ports"]);
    let headless = text(spec, &["clusterIP"]) == "None" || text(spec, &["type"]) == "ExternalName";
    if ports.is_empty() && !headless {
        causes.required("spec.ports", "");
    }
    for (i, port) in ports.iter().enumerate() {
        let number = number(port, &["port"]).unwrap_or(0);
        if !(1..=65_535).contains(&number) {
            let detail = "must be between 1 and 65535, inclusive";
            causes.invalid(format!("spec.ports[{i}].port"), number, detail);
        }
        if ports.len() > 1 && text(port, &["name"]).is_empty() {
            causes.required(format!("spec.ports[{i}].name"), "");
        }
    }
    let kind = text(spec, &["type"]);
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !kinds.contains(&kind) {
        causes.not_supported("spec.type", kind, &kinds);
    }
    labels(object, &["spec", "selector"], "spec.selector", causes);
}

fn claim(object: &Value, causes: &mut Causes) {
    claim_spec(
        object.get("spec").unwrap_or(&Value::Null),
        "spec",
        causes,
    );
}

/// Validates what is claimed, by a claim or by the template of one.
pub(crate) fn claim_spec(spec: &Value, path: &str, causes: &mut Causes) {
    let modes = list(spec, &["accessModes"]);
    if modes.is_empty() {
        let detail = "at least 1 access mode is required";
        causes.required(format!("{path}.accessModes"), detail);
    }
    let known = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for mode in modes.iter().filter_map(Value::as_str) {
        if !known.contains(&mode) {
            causes.not_supported(format!("{path}.accessModes"), mode, &known);
        }
        if mode == "ReadWriteOncePod" && modes.len() > 1 {
            let detail = "may not use ReadWriteOncePod with other access modes";
            causes.forbidden(format!("{path}.accessModes"), detail);
        }
    }
    match at(spec, &["resources", "requests", "storage"]) {
        None => causes.required(format!("{path}.resources[storage]"), ""),
        Some(size) => {
            if size.as_str().and_then(quantity::parse).is_none_or(|size| size <= 0) {
                let field = format!("{path}.resources[storage]");
                causes.invalid(field, size, "must be greater than zero");
            }
        }
    }
    if let Some(selector) = spec.get("selector") {
        label_selector::validate(selector, &format!("{path}.selector"), causes);
    }
    for class in ["storageClassName", "volumeAttributesClassName"] {
        let name = text(spec, &[class]);
        if let Err(why) = names::subdomain(name)
            && !name.is_empty()
        {
            causes.invalid(format!("{path}.{class}"), name, why);
        }
    }
    causes.one_of(spec, format!("{path}.volumeMode"), &["Block", "Filesystem"]);
    for source in ["dataSource", "dataSourceRef"] {
        for field in ["kind", "name"] {
            if spec.get(source).is_some_and(|source| text(source, &[field]).is_empty()) {
                causes.required(format!("{path}.{source}.{field}"), "");
            }
        }
    }
}
