//! Validates pods.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{names, rules, validate_placement, validate_resources, validate_security};
use crate::api::status::Causes;
use crate::objects::object::{at, is_true, list, number, text, text_or};
use crate::objects::quantity;

pub(crate) fn pod(pod: &Value, causes: &mut Causes) {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let volumes = volumes(spec, causes);
    let containers = list(spec, &["containers"]);
    if containers.is_empty() {
        causes.required("spec.containers", "");
    }
    let mut seen = BTreeSet::new();
    for kind in ["containers", "initContainers"] {
        for (i, container) in list(spec, &[kind]).iter().enumerate() {
            let path = format!("spec.{kind}[{i}]");
            self::container(spec, container, &path, &volumes, &mut seen, causes);
            if kind == "initContainers" && text(container, &["restartPolicy"]) != "Always" {
                for field in [
                    "lifecycle",
                    "livenessProbe",
                    "readinessProbe",
                    "startupProbe",
                ] {
                    if container.get(field).is_some() {
                        let detail =
                            "may not be set for init containers without restartPolicy=Always";
                        causes.forbidden(format!("{path}.{field}"), detail);
                    }
                }
            }
        }
    }
    if spec.get("ephemeralContainers").is_some() {
        let detail = "ephemeral containers can only be added to a pod that exists";
        causes.forbidden("spec.ephemeralContainers", detail);
    }
    app_armor(pod, causes);
    rules::check(pod, causes);
    super::validate::labels(pod, &["spec", "nodeSelector"], "spec.nodeSelector", causes);
    tolerations(spec, causes);
    validate_placement::placement(pod, causes);
    validate_security::security(pod, causes);
    gates(spec, causes);
    if text(spec, &["dnsPolicy"]) == "None" && spec.get("dnsConfig").is_none() {
        causes.required(
            "spec.dnsConfig",
            "must provide `dnsConfig` when `dnsPolicy` is None",
        );
    }
    validate_resources::of_pod(spec, causes);
}

/// Validates the annotations that give containers an AppArmor profile: each names a container.
fn app_armor(pod: &Value, causes: &mut Causes) {
    const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
    let annotations = at(pod, &["metadata", "annotations"]).and_then(Value::as_object);
    let names = |name: &str| {
        let mut kinds = ["containers", "initContainers"].into_iter();
        kinds.any(|kind| {
            list(pod, &["spec", kind])
                .iter()
                .any(|one| text(one, &["name"]) == name)
        })
    };
    for key in annotations.into_iter().flat_map(|map| map.keys()) {
        if let Some(name) = key.strip_prefix(PREFIX).filter(|name| !names(name)) {
            let path = format!("metadata.annotations[{key}]");
            causes.invalid(path, name, "container not found");
        }
    }
}

fn gates(spec: &Value, causes: &mut Causes) {
    let gates = list(spec, &["schedulingGates"]);
    for (i, gate) in gates.iter().enumerate() {
        if gates[..i].contains(gate) {
            let name = text(gate, &["name"]);
            causes.duplicate(format!("spec.schedulingGates[{i}]"), name);
        }
    }
    // A gated pod can be bound neither by a request for it nor by its own specification.
    if !gates.is_empty() && !text(spec, &["nodeName"]).is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        causes.forbidden("spec.nodeName", detail);
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

fn volumes<'a>(spec: &'a Value, causes: &mut Causes) -> BTreeMap<&'a str, &'a Value> {
    let mut seen = BTreeSet::new();
    for (i, volume) in list(spec, &["volumes"]).iter().enumerate() {
        let path = format!("spec.volumes[{i}]");
        unique_name(volume, &path, &mut seen, causes);
        let kinds = volume.as_object().into_iter().flatten();
        for (kind, _) in kinds.filter(|(kind, _)| *kind != "name").skip(1) {
            let detail = "may not specify more than 1 volume type";
            causes.forbidden(format!("{path}.{kind}"), detail);
        }
        let size = at(volume, &["emptyDir", "sizeLimit"]).and_then(Value::as_str);
        if size.and_then(quantity::parse).is_some_and(|size| size < 0) {
            let detail = "SizeLimit field must be a valid resource quantity";
            causes.forbidden(format!("{path}.emptyDir.sizeLimit"), detail);
        }
        let template = at(volume, &["ephemeral", "volumeClaimTemplate", "spec"]);
        if let Some(claim) = template {
            let path = format!("{path}.ephemeral.volumeClaimTemplate.spec");
            super::validate::claim_spec(claim, &path, causes);
        }
        for item in list(volume, &["downwardAPI", "items"]) {
            let path = format!("{path}.downwardAPI");
            downward(item, &path, false, causes);
            if item.get("fieldRef").is_none() && item.get("resourceFieldRef").is_none() {
                causes.required(path, "one of fieldRef and resourceFieldRef is required");
            }
        }
        for (j, source) in list(volume, &["projected", "sources"]).iter().enumerate() {
            if source.as_object().is_some_and(|kinds| kinds.len() > 1) {
                let field = format!("{path}.projected.sources[{j}]");
                causes.forbidden(field, "may not specify more than 1 volume type per source");
            }
        }
    }
    let all = list(spec, &["volumes"]).iter();
    all.map(|volume| (text(volume, &["name"]), volume))
        .collect()
}

/// The fields of a pod that both its variables and its files may show.
const SHOWN: [&str; 3] = ["metadata.name", "metadata.namespace", "metadata.uid"];

/// Those that only variables may show.
const IN_VARIABLES: [&str; 6] = [
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Validates what a variable or a file shows of the pod.
fn downward(source: &Value, path: &str, is_variable: bool, causes: &mut Causes) {
    if let Some(field) = source.get("fieldRef") {
        field_of_pod(field, &format!("{path}.fieldRef"), is_variable, causes);
    }
    let Some(amount) = source.get("resourceFieldRef") else {
        return;
    };
    let path = format!("{path}.resourceFieldRef");
    if !is_variable && text(amount, &["containerName"]).is_empty() {
        causes.required(format!("{path}.containerName"), "");
    }
    let resource = text(amount, &["resource"]);
    if resource.is_empty() {
        return causes.required(format!("{path}.resource"), "");
    }
    if !RESOURCES.contains(&resource) && !resource.contains(".hugepages-") {
        return causes.not_supported(format!("{path}.resource"), resource, &RESOURCES);
    }
    let divisor = text_or(amount, &["divisor"], "0");
    let allowed: &[&str] = match resource.ends_with("cpu") {
        true => &["0", "1m", "1"],
        false => &[
            "0", "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
        ],
    };
    if !allowed.contains(&divisor) {
        let detail = format!("only divisor's values {} are supported", allowed.join(", "));
        causes.invalid(format!("{path}.divisor"), divisor, &detail);
    }
}

fn field_of_pod(field: &Value, path: &str, is_variable: bool, causes: &mut Causes) {
    let at = format!("{path}.fieldPath");
    let shown = text(field, &["fieldPath"]);
    if shown.is_empty() {
        return causes.required(at, "");
    }
    if text(field, &["apiVersion"]) != "v1" {
        return causes.invalid(
            at,
            shown,
            "error converting fieldPath: unsupported pod version",
        );
    }
    let keyed = shown.strip_suffix("']").and_then(|p| p.split_once("['"));
    match keyed {
        Some(("metadata.labels" | "metadata.annotations", key)) => {
            for why in names::all_of_qualified(key) {
                causes.invalid(path, key, why);
            }
        }
        _ if SHOWN.contains(&shown) || (is_variable && IN_VARIABLES.contains(&shown)) => {}
        _ if matches!(shown, "metadata.labels" | "metadata.annotations") && !is_variable => {}
        _ => {
            let others = [
                "metadata.labels",
                "metadata.annotations",
                "status.phase",
                "spec.restartPolicy",
            ];
            if IN_VARIABLES.contains(&shown) || others.contains(&shown) {
                causes.not_supported(at, shown, &SHOWN);
            } else {
                let detail =
                    format!("error converting fieldPath: field label not supported: {shown}");
                causes.invalid(at, shown, &detail);
            }
        }
    }
}

fn container<'a>(
    spec: &Value,
    container: &'a Value,
    path: &str,
    volumes: &BTreeMap<&str, &Value>,
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
    for (i, variable) in list(container, &["env"]).iter().enumerate() {
        environment(variable, &format!("{path}.env[{i}]"), causes);
    }
    ports(spec, container, path, causes);
    mounts(container, path, volumes, causes);
    restarts(spec, container, path, causes);
    validate_resources::of_container(spec, container, path, causes);
}

fn mounts(container: &Value, path: &str, volumes: &BTreeMap<&str, &Value>, causes: &mut Causes) {
    let mut paths = BTreeSet::new();
    for (i, mount) in list(container, &["volumeMounts"]).iter().enumerate() {
        let name = text(mount, &["name"]);
        let at = text(mount, &["mountPath"]);
        if !volumes.contains_key(name) {
            causes.not_found(format!("{path}.volumeMounts[{i}].name"), name);
        }
        if !at.is_empty() && !paths.insert(at) {
            let field = format!("{path}.volumeMounts[{i}].mountPath");
            causes.invalid(field, at, "must be unique");
        }
        let expression = text(mount, &["subPathExpr"]);
        if !expression.is_empty() && !text(mount, &["subPath"]).is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            let field = format!("{path}.volumeMounts[{i}].subPathExpr");
            causes.invalid(field, expression, detail);
        }
        let is_privileged = is_true(container, &["securityContext", "privileged"]);
        if text(mount, &["mountPropagation"]) == "Bidirectional" && !is_privileged {
            let detail =
                "Bidirectional mount propagation is available only to privileged containers";
            causes.forbidden(format!("{path}.volumeMounts.mountPropagation"), detail);
        }
        let recursive = text(mount, &["recursiveReadOnly"]);
        if matches!(recursive, "Enabled" | "IfPossible") && !is_true(mount, &["readOnly"]) {
            let detail = "may only be specified when readOnly is true";
            causes.forbidden(format!("{path}.volumeMounts.recursiveReadOnly"), detail);
        }
    }
    for (i, device) in list(container, &["volumeDevices"]).iter().enumerate() {
        let name = text(device, &["name"]);
        let field = format!("{path}.volumeDevices[{i}].name");
        match volumes.get(name) {
            None => causes.not_found(field, name),
            Some(volume) if volume.get("persistentVolumeClaim").is_none() => {
                let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                causes.invalid(field, name, detail);
            }
            Some(_) => {}
        }
    }
}

/// What the kubelet does about the end of one container, rather than of the pod.
fn restarts(spec: &Value, container: &Value, path: &str, causes: &mut Causes) {
    let has_rules = !list(container, &["restartPolicyRules"]).is_empty();
    if has_rules && container.get("restartPolicy").is_none() {
        let detail = "must specify restartPolicy when restart rules are used";
        causes.required(format!("{path}.restartPolicy"), detail);
    }
    let grace = number(spec, &["terminationGracePeriodSeconds"]).unwrap_or(0);
    for hook in ["postStart", "preStop"] {
        if let Some(seconds) = number(container, &["lifecycle", hook, "sleep", "seconds"])
            && !(0..=grace).contains(&seconds)
        {
            let detail = format!(
                "must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            );
            causes.invalid(format!("{path}.lifecycle.{hook}.sleep"), seconds, &detail);
        }
    }
    let policies = list(container, &["resizePolicy"]);
    for (i, policy) in policies.iter().enumerate() {
        let resource = |policy: &Value| text(policy, &["resourceName"]).to_owned();
        if policies[..i]
            .iter()
            .any(|other| resource(other) == resource(policy))
        {
            causes.duplicate(format!("{path}.resizePolicy[{i}]"), resource(policy));
        }
    }
}

fn ports(spec: &Value, container: &Value, path: &str, causes: &mut Causes) {
    const RANGE: &str = "must be between 1 and 65535, inclusive";
    let (mut seen, mut taken) = (BTreeSet::new(), BTreeSet::new());
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
        let on_host = number("hostPort");
        let protocol = text(port, &["protocol"]);
        if on_host != 0 && !taken.insert((on_host, protocol, text(port, &["hostIP"]))) {
            causes.duplicate(format!("{path}.hostPort"), on_host);
        }
        if is_true(spec, &["hostNetwork"]) && ![0, number("containerPort")].contains(&on_host) {
            let detail = "must match `containerPort` when `hostNetwork` is true";
            causes.invalid(format!("{path}.hostPort"), on_host, detail);
        }
    }
}

fn environment(variable: &Value, path: &str, causes: &mut Causes) {
    if let Some(source) = variable.get("valueFrom") {
        let field = format!("{path}.valueFrom");
        downward(source, &field, true, causes);
        for kind in ["configMapKeyRef", "secretKeyRef"] {
            if let Some(reference) = source.get(kind)
                && text(reference, &["name"]).is_empty()
            {
                causes.invalid(format!("{field}.{kind}.name"), "", names::SUBDOMAIN);
            }
        }
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
