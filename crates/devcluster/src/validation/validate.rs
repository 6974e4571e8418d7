//! Validates objects and their updates, and reports every invalid field.

use std::collections::BTreeSet;

use serde_json::Value;

use super::names;
use super::validate_meta;
use crate::api::status::Causes;
use crate::changes::write::Part;
use crate::objects::object::{at, entries, is_true, list, number, text};
use crate::objects::resource::Resource;
use crate::objects::{kinds, label_selector, quantity};

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
        (_, Part::Status) => {}
        (_, Part::Resize) => {
            causes.extend(object(resource, new));
            super::validate_pod_change::resize(old, new, &mut causes);
        }
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
                let detail = "duplicate of key present in binaryData";
                causes.invalid(format!("data[{key}]"), key, detail);
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
    let kind = text(spec, &["type"]);
    let is_external = kind == "ExternalName";
    let address = text(spec, &["clusterIP"]);
    let ports = list(spec, &["ports"]);
    if ports.is_empty() && address != "None" && !is_external {
        causes.required("spec.ports", "");
    }
    for (i, port) in ports.iter().enumerate() {
        service_port(spec, ports, i, causes);
        if kind == "ClusterIP" && port.get("nodePort").is_some() {
            let detail = "may not be used when `type` is 'ClusterIP'";
            causes.forbidden(format!("spec.ports[{i}].nodePort"), detail);
        }
    }
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    causes.one_of(spec, "spec.type", &kinds);
    causes.one_of(spec, "spec.sessionAffinity", &["ClientIP", "None"]);
    causes.one_of(spec, "spec.internalTrafficPolicy", &["Cluster", "Local"]);
    if let Some(policy) = spec.get("externalTrafficPolicy")
        && !matches!(kind, "LoadBalancer" | "NodePort")
    {
        let detail = "may only be set for externally-accessible services";
        causes.invalid("spec.externalTrafficPolicy", policy, detail);
    }
    let name = text(spec, &["externalName"]);
    if is_external && name.is_empty() {
        causes.required("spec.externalName", "");
    } else if is_external && let Err(why) = names::subdomain(name) {
        causes.invalid("spec.externalName", name, why);
    }
    let is_address = |text: &str| text.parse::<std::net::IpAddr>().is_ok();
    if address == "None" && matches!(kind, "LoadBalancer" | "NodePort") {
        let detail = format!("may not be set to 'None' for {kind} services");
        causes.invalid("spec.clusterIPs[0]", address, &detail);
    } else if !matches!(address, "" | "None") && !is_address(address) {
        causes.invalid("spec.clusterIPs[0]", address, "must be a valid IP address");
    }
    for (i, address) in list(spec, &["externalIPs"]).iter().enumerate() {
        if !is_address(address.as_str().unwrap_or_default()) {
            let field = format!("spec.externalIPs[{i}]");
            causes.invalid(field, address, "must be a valid IP address");
        }
    }
    labels(object, &["spec", "selector"], "spec.selector", causes);
}

fn service_port(spec: &Value, ports: &[Value], i: usize, causes: &mut Causes) {
    const RANGE: &str = "must be between 1 and 65535, inclusive";
    let (port, path) = (&ports[i], format!("spec.ports[{i}]"));
    let is_port = |n: i64| (1..=65_535).contains(&n);
    let name = text(port, &["name"]);
    if name.is_empty() && ports.len() > 1 {
        causes.required(format!("{path}.name"), "");
    } else if let Err(why) = names::label(name)
        && !name.is_empty()
    {
        causes.invalid(format!("{path}.name"), name, why);
    } else if !name.is_empty()
        && ports[..i]
            .iter()
            .any(|other| text(other, &["name"]) == name)
    {
        causes.duplicate(format!("{path}.name"), name);
    }
    let number = number(port, &["port"]).unwrap_or(0);
    if !is_port(number) {
        causes.invalid(format!("{path}.port"), number, RANGE);
    }
    causes.one_of(port, format!("{path}.protocol"), &["SCTP", "TCP", "UDP"]);
    let target = port.get("targetPort").unwrap_or(&Value::Null);
    super::rules::port(&format!("{path}.targetPort"), target, causes);
    let same = |other: &Value| {
        ["port", "protocol"]
            .iter()
            .all(|f| other.get(f) == port.get(f))
    };
    if ports[..i].iter().any(same) {
        causes.duplicate(path.as_str(), number);
    }
    let on_nodes = port.get("nodePort").and_then(Value::as_i64);
    if let Some(on_nodes) = on_nodes.filter(|n| !(30_000..=32_767).contains(n))
        && text(spec, &["type"]) != "ClusterIP"
    {
        let detail =
            "provided port is not in the valid range. The range of valid ports is 30000-32767";
        causes.invalid(format!("{path}.nodePort"), on_nodes, detail);
    }
}

fn claim(object: &Value, causes: &mut Causes) {
    claim_spec(object.get("spec").unwrap_or(&Value::Null), "spec", causes);
}

/// Validates what is claimed, by a claim or by the template of one.
pub(crate) fn claim_spec(spec: &Value, path: &str, causes: &mut Causes) {
    let modes = list(spec, &["accessModes"]);
    if modes.is_empty() {
        let detail = "at least 1 access mode is required";
        causes.required(format!("{path}.accessModes"), detail);
    }
    let known = [
        "ReadOnlyMany",
        "ReadWriteMany",
        "ReadWriteOnce",
        "ReadWriteOncePod",
    ];
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
            if size
                .as_str()
                .and_then(quantity::parse)
                .is_none_or(|size| size <= 0)
            {
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
            if spec
                .get(source)
                .is_some_and(|source| text(source, &[field]).is_empty())
            {
                causes.required(format!("{path}.{source}.{field}"), "");
            }
        }
    }
}
