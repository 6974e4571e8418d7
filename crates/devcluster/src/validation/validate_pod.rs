//! Validates pods.

use std::collections::BTreeSet;

use serde_json::Value;

use super::names;
use crate::api::status::Causes;
use crate::objects::object::{at, entries, list, number, text};
use crate::objects::quantity;

pub(crate) fn pod(pod: &Value, causes: &mut Causes) {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let volumes = volumes(spec, causes);
    let containers = list(spec, &["containers"]);
    if containers.is_empty() {
        causes.required("spec.containers", "");
    }
    let mut seen = BTreeSet::new();
    for (i, container) in containers.iter().enumerate() {
        let path = format!("spec.containers[{i}]");
        self::container(container, &path, &volumes, &mut seen, causes);
        if container.get("restartPolicy").is_some() {
            let detail = "may not be set for non-init containers";
            causes.forbidden(format!("{path}.restartPolicy"), detail);
        }
    }
    for (i, container) in list(spec, &["initContainers"]).iter().enumerate() {
        let path = format!("spec.initContainers[{i}]");
        self::container(container, &path, &volumes, &mut seen, causes);
    }
    let policies = ["Always", "OnFailure", "Never"];
    causes.one_of(spec, "spec.restartPolicy", &policies);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    causes.one_of(spec, "spec.dnsPolicy", &policies);
    super::validate::labels(pod, &["spec", "nodeSelector"], "spec.nodeSelector", causes);
    check_names(
        spec,
        &["serviceAccountName", "nodeName"],
        names::subdomain,
        causes,
    );
    if let Some(seconds) = spec.get("activeDeadlineSeconds")
        && !seconds
            .as_i64()
            .is_some_and(|s| (1..=i64::from(i32::MAX)).contains(&s))
    {
        causes.invalid(
            "spec.activeDeadlineSeconds",
            seconds,
            "must be between 1 and 2147483647, inclusive",
        );
    }
    check_names(spec, &["hostname", "subdomain"], names::label, causes);
    tolerations(spec, causes);
    check_names(spec, &["priorityClassName"], names::subdomain, causes);
    let policies = ["PreemptLowerPriority", "Never"];
    causes.one_of(spec, "spec.preemptionPolicy", &policies);
}

fn check_names(
    spec: &Value,
    fields: &[&str],
    validate: fn(&str) -> Result<(), &'static str>,
    causes: &mut Causes,
) {
    for field in fields {
        let value = text(spec, &[field]);
        if let Err(why) = validate(value)
            && !value.is_empty()
        {
            causes.invalid(format!("spec.{field}"), value, why);
        }
    }
}

fn tolerations(spec: &Value, causes: &mut Causes) {
    for (i, toleration) in list(spec, &["tolerations"]).iter().enumerate() {
        let path = format!("spec.tolerations[{i}]");
        let of = |field: &str| text(toleration, &[field]);
        let (key, operator, value, effect) = (of("key"), of("operator"), of("value"), of("effect"));
        if let Err(why) = names::qualified(key)
            && !key.is_empty()
        {
            causes.invalid(format!("{path}.key"), key, why);
        }
        if key.is_empty() && operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            causes.invalid(format!("{path}.operator"), operator, detail);
        }
        if toleration.get("tolerationSeconds").is_some() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            causes.invalid(format!("{path}.effect"), effect, detail);
        }
        let field = format!("{path}.operator");
        match (operator, names::label_value(value)) {
            ("" | "Equal", Err(why)) => causes.invalid(field, value, why),
            ("Exists", _) if !value.is_empty() => {
                let detail = "value must be empty when `operator` is 'Exists'";
                causes.invalid(field, value, detail);
            }
            ("" | "Equal" | "Exists", _) => {}
            _ => causes.not_supported(field, operator, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            causes.one_of(toleration, format!("{path}.effect"), &effects);
        }
    }
}

/// Validates a name that must be unique among its siblings.
fn unique_name<'a>(
    named: &'a Value,
    path: &str,
    seen: &mut BTreeSet<&'a str>,
    causes: &mut Causes,
) {
    let name = text(named, &["name"]);
    let field = format!("{path}.name");
    if name.is_empty() {
        causes.required(field, "");
    } else if let Err(why) = names::label(name) {
        causes.invalid(field, name, why);
    } else if !seen.insert(name) {
        causes.duplicate(field, name);
    }
}

fn volumes<'a>(spec: &'a Value, causes: &mut Causes) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    for (i, volume) in list(spec, &["volumes"]).iter().enumerate() {
        unique_name(volume, &format!("spec.volumes[{i}]"), &mut seen, causes);
        let sources = volume
            .as_object()
            .map_or(0, |fields| fields.len().saturating_sub(1));
        if sources > 1 {
            let field = format!("spec.volumes[{i}]");
            causes.forbidden(field, "may not specify more than 1 volume type");
        }
    }
    seen
}

fn container<'a>(
    container: &'a Value,
    path: &str,
    volumes: &BTreeSet<&str>,
    seen: &mut BTreeSet<&'a str>,
    causes: &mut Causes,
) {
    unique_name(container, path, seen, causes);
    let image = text(container, &["image"]);
    if image.is_empty() {
        causes.required(format!("{path}.image"), "");
    } else if image.trim() != image {
        let detail = "must not have leading or trailing whitespace";
        causes.invalid(format!("{path}.image"), image, detail);
    }
    let policies = ["Always", "IfNotPresent", "Never"];
    causes.one_of(container, format!("{path}.imagePullPolicy"), &policies);
    for (i, variable) in list(container, &["env"]).iter().enumerate() {
        environment(variable, &format!("{path}.env[{i}]"), causes);
    }
    ports(container, path, causes);
    let mut paths = BTreeSet::new();
    for (i, mount) in list(container, &["volumeMounts"]).iter().enumerate() {
        let name = text(mount, &["name"]);
        let at = text(mount, &["mountPath"]);
        let field = format!("{path}.volumeMounts[{i}].name");
        if name.is_empty() {
            causes.required(field, "");
        } else if !volumes.contains(name) {
            causes.not_found(field, name);
        }
        let field = format!("{path}.volumeMounts[{i}].mountPath");
        if at.is_empty() {
            causes.required(field, "");
        } else if !paths.insert(at) {
            causes.invalid(field, at, "must be unique");
        }
        sub_paths(mount, &format!("{path}.volumeMounts[{i}]"), causes);
    }
    resources(container, path, causes);
}

/// Checks which part of a volume is mounted: it must not be outside of the volume.
fn sub_paths(mount: &Value, path: &str, causes: &mut Causes) {
    for kind in ["subPath", "subPathExpr"] {
        let (field, part) = (format!("{path}.{kind}"), text(mount, &[kind]));
        if part.starts_with('/') {
            causes.invalid(field, part, "must be a relative path");
        } else if part.split('/').any(|step| step == "..") {
            causes.invalid(field, part, "must not contain '..'");
        }
    }
    let expression = text(mount, &["subPathExpr"]);
    if !expression.is_empty() && !text(mount, &["subPath"]).is_empty() {
        let detail = "subPathExpr and subPath are mutually exclusive";
        causes.invalid(format!("{path}.subPathExpr"), expression, detail);
    }
}

fn ports(container: &Value, path: &str, causes: &mut Causes) {
    const RANGE: &str = "must be between 1 and 65535, inclusive";
    let mut seen = BTreeSet::new();
    for (i, port) in list(container, &["ports"]).iter().enumerate() {
        let path = format!("{path}.ports[{i}]");
        let name = text(port, &["name"]);
        let wrong = if name.is_empty() {
            Vec::new()
        } else {
            names::port(name)
        };
        if !wrong.is_empty() {
            for why in wrong {
                causes.invalid(format!("{path}.name"), name, why);
            }
        } else if !name.is_empty() && !seen.insert(name) {
            causes.duplicate(format!("{path}.name"), name);
        }
        let number = |field: &str| number(port, &[field]).unwrap_or(0);
        if number("containerPort") == 0 {
            causes.required(format!("{path}.containerPort"), "");
        }
        for field in ["containerPort", "hostPort"] {
            let number = number(field);
            if number != 0 && !(1..=65_535).contains(&number) {
                causes.invalid(format!("{path}.{field}"), number, RANGE);
            }
        }
        causes.one_of(port, format!("{path}.protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

fn environment(variable: &Value, path: &str, causes: &mut Causes) {
    let name = text(variable, &["name"]);
    if name.is_empty() {
        causes.required(format!("{path}.name"), "");
    } else if !name
        .bytes()
        .all(|b| (b' '..=b'~').contains(&b) && b != b'=')
    {
        let detail = "a valid environment variable name must consist only of printable ASCII characters other than '='";
        causes.invalid(format!("{path}.name"), name, detail);
    }
    if let Some(source) = variable.get("valueFrom") {
        let field = format!("{path}.valueFrom");
        let detail = match source.as_object().map_or(0, serde_json::Map::len) {
            0 => {
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
            }
            1 if text(variable, &["value"]).is_empty() => return,
            1 => "may not be specified when `value` is not empty",
            _ => "may not have more than one field specified at a time",
        };
        causes.invalid(field, "", detail);
    }
}

fn resources(container: &Value, path: &str, causes: &mut Causes) {
    for kind in ["limits", "requests"] {
        for (name, amount) in entries(container, &["resources", kind]) {
            let field = format!("{path}.resources.{kind}[{name}]");
            match quantity::parse(amount.as_str().unwrap_or_default()) {
                None => causes.invalid(field, amount, "must be a quantity"),
                Some(amount_in_nano) if amount_in_nano < 0 => {
                    causes.invalid(field, amount, "must be greater than or equal to 0");
                }
                Some(requested) if kind == "requests" => {
                    let limit =
                        at(container, &["resources", "limits", name]).and_then(Value::as_str);
                    if let Some(limit) = limit
                        && quantity::parse(limit).is_some_and(|limit| requested > limit)
                    {
                        let detail =
                            format!("must be less than or equal to {name} limit of {limit}");
                        causes.invalid(format!("{path}.resources.requests"), amount, &detail);
                    }
                }
                Some(_) => {}
            }
        }
    }
}
