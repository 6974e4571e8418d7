//! Validates the resources of a pod and its containers.

use serde_json::Value;

use super::names;
use crate::api::status::Causes;
use crate::objects::object::{at, entries, list, text};
use crate::objects::quantity;

const NANO: i128 = 1_000_000_000;

/// The resources of containers that are no extended resources.
const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Standard resources that are none of containers.
const OTHERS: [&str; 3] = ["storage", "pods", "services"];

pub(super) fn of_container(spec: &Value, container: &Value, path: &str, causes: &mut Causes) {
    let path = format!("{path}.resources");
    let Some(resources) = container.get("resources") else {
        return;
    };
    for kind in ["limits", "requests"] {
        for (name, amount) in entries(resources, &[kind]) {
            let field = format!("{path}.{kind}[{name}]");
            resource_name(name, &field, causes);
            self::amount(name, amount, &field, causes);
        }
    }
    requests(resources, &path, causes);
    let has = |name: &str| {
        ["limits", "requests"]
            .iter()
            .any(|kind| at(resources, &[kind, name]).is_some())
    };
    let pages = entries(resources, &["limits"]).any(|(name, _)| is_huge(name));
    if pages && !has("cpu") && !has("memory") {
        causes.forbidden(path.as_str(), "HugePages require cpu or memory");
    }
    claims(spec, resources, &path, causes);
}

/// A container may only use claims that its pod has.
fn claims(spec: &Value, resources: &Value, path: &str, causes: &mut Causes) {
    let known = list(spec, &["resourceClaims"]);
    for (i, claim) in list(resources, &["claims"]).iter().enumerate() {
        if !known.iter().any(|one| one.get("name") == claim.get("name")) {
            causes.not_found(format!("{path}.claims[{i}]"), text(claim, &["name"]));
        }
    }
}

fn is_huge(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether a resource is counted in fractions, and its requests may differ from its limit.
fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name)
}

fn resource_name(name: &str, field: &str, causes: &mut Causes) {
    if let Err(why) = names::qualified(name) {
        return causes.invalid(field, name, why);
    }
    if is_standard(name) || is_huge(name) {
        return;
    }
    if !name.contains('/') {
        if !OTHERS.contains(&name) {
            causes.invalid(
                field,
                name,
                "must be a standard resource type or fully qualified",
            );
        }
        causes.invalid(field, name, "must be a standard resource for containers");
    } else if name.starts_with("requests.") {
        causes.invalid(
            field,
            name,
            "doesn't follow extended resource name standard",
        );
    }
}

fn amount(name: &str, amount: &Value, field: &str, causes: &mut Causes) {
    let Some(nano) = quantity::parse(amount.as_str().unwrap_or_default()) else {
        return causes.invalid(field, amount, "must be a quantity");
    };
    let page = name.strip_prefix("hugepages-").and_then(quantity::parse);
    if nano < 0 {
        causes.invalid(field, amount, "must be greater than or equal to 0");
    } else if page.is_some_and(|page| page > 0 && nano % page != 0) {
        let detail = "must be a positive integer multiple of the page size";
        causes.invalid(field, amount, detail);
    } else if !is_standard(name) && nano % NANO != 0 {
        causes.invalid(field, amount, "must be an integer");
    }
}

/// Compares requests with the limits of the same resources.
fn requests(resources: &Value, path: &str, causes: &mut Causes) {
    for (name, requested) in entries(resources, &["requests"]) {
        let parse = |amount: &Value| amount.as_str().and_then(quantity::parse);
        let limit = at(resources, &["limits", name]);
        let (Some(amount), Some(most)) = (parse(requested), limit.map(parse)) else {
            if limit.is_none() && !is_standard(name) && name.contains('/') {
                let detail = "Limit must be set for non overcommitable resources";
                causes.required(format!("{path}.limits"), detail);
            }
            continue;
        };
        let limit = limit.and_then(Value::as_str).unwrap_or_default();
        let field = format!("{path}.requests");
        if !is_standard(name) && most != Some(amount) {
            let detail = format!("must be equal to {name} limit of {limit}");
            causes.invalid(field, requested, &detail);
        } else if most.is_some_and(|most| amount > most) {
            let detail = format!("must be less than or equal to {name} limit of {limit}");
            causes.invalid(field, requested, &detail);
        }
    }
}

/// The resources of all containers together, if the pod names them.
pub(super) fn of_pod(spec: &Value, causes: &mut Causes) {
    const PATH: &str = "spec.resources";
    let Some(resources) = spec.get("resources") else {
        return;
    };
    if !list(resources, &["claims"]).is_empty() {
        let detail = "claims may not be set for Resources at pod-level";
        causes.forbidden(format!("{PATH}.claims"), detail);
    }
    for kind in ["limits", "requests"] {
        for (name, amount) in entries(resources, &[kind]) {
            let field = format!("{PATH}.{kind}[{name}]");
            if !["cpu", "memory"].contains(&name.as_str()) && !is_huge(name) {
                causes.not_supported(field.as_str(), name, &["cpu", "hugepages-", "memory"]);
            }
            self::amount(name, amount, &field, causes);
        }
    }
    requests(resources, PATH, causes);
    claims(spec, resources, PATH, causes);
    let parse = |amount: &Value| amount.as_str().and_then(quantity::parse).unwrap_or(0);
    let containers = list(spec, &["containers"]);
    for (name, most) in entries(resources, &["requests"]) {
        let each = containers
            .iter()
            .filter_map(|c| at(c, &["resources", "requests", name]));
        if each.map(parse).sum::<i128>() > parse(most).max(0) {
            let detail = "must be greater than or equal to aggregate container requests";
            let field = match at(resources, &["limits", name]) {
                Some(_) => format!("{PATH}.requests"),
                None => format!("{PATH}.requests[{name}]"),
            };
            causes.invalid(field, most, detail);
        }
    }
    for (name, most) in entries(resources, &["limits"]) {
        for (i, container) in containers.iter().enumerate() {
            let limit = at(container, &["resources", "limits", name]);
            if let Some(limit) = limit.filter(|limit| parse(limit) > parse(most)) {
                let detail = format!("must be less than or equal to pod limits of {most}");
                let field = format!("{PATH}.containers[{i}][{name}].limits");
                causes.invalid(field, limit, &detail);
            }
        }
    }
}
