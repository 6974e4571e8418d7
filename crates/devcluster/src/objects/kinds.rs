//! Defaulting, validation and immutable fields of the kinds that have no module of their own.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

use super::bindings;
use super::budgets;
use super::events;
use super::object::{at, number, set, text, unset};
use super::resource::Resource;
use super::workloads;
use crate::api::status::Causes;
use crate::changes::limit_ranges;
use crate::validation::defaults::default;
use crate::validation::names;
use crate::validation::validate::immutable;

/// The most data of a Secret, in bytes.
const MAX_SECRET: usize = 1024 * 1024;

/// Whether names of this kind may be any path segment.
pub fn takes_any_path_segment(resource: Resource) -> bool {
    matches!(
        resource,
        Resource::Roles
            | Resource::RoleBindings
            | Resource::ClusterRoles
            | Resource::ClusterRoleBindings
    )
}

/// Sets the defaults of a new or changed object, as a real server does.
pub fn fill(resource: Resource, object: &mut Value) {
    match resource {
        Resource::Secrets => secret(object),
        Resource::RoleBindings | Resource::ClusterRoleBindings => bindings::fill(object),
        Resource::Events => events::fill(object),
        Resource::Nodes => {
            for (name, amount) in at(object, &["status", "capacity"])
                .and_then(Value::as_object)
                .cloned()
                .into_iter()
                .flatten()
            {
                default(object, &["status", "allocatable", &name], amount);
            }
        }
        Resource::LimitRanges => limit_ranges::complete(object),
        resource if resource.is_workload() => workloads::fill(resource, object),
        _ => {}
    }
}

/// Converts `stringData` to `data`; it overrides existing keys.
fn secret(secret: &mut Value) {
    if let Some(Value::Object(plain)) = unset(secret, &["stringData"]) {
        for (key, value) in plain {
            let encoded = BASE64.encode(value.as_str().unwrap_or_default());
            set(secret, &["data", &key], encoded.into());
        }
    }
    if text(secret, &["type"]).is_empty() {
        set(secret, &["type"], "Opaque".into());
    }
}

pub fn validate(resource: Resource, object: &Value, causes: &mut Causes) {
    match resource {
        Resource::Secrets => validate_secret(object, causes),
        Resource::Events => events::validate(object, causes),
        Resource::Leases => validate_lease(object, causes),
        Resource::RoleBindings | Resource::ClusterRoleBindings => {
            bindings::validate(resource, object, causes);
        }
        Resource::Roles | Resource::ClusterRoles => {
            bindings::validate_role(resource, object, causes)
        }
        Resource::PodDisruptionBudgets => budgets::validate(object, causes),
        resource if resource.is_workload() => workloads::validate(resource, object, causes),
        _ => {}
    }
}

/// The keys that a Secret of a type must have: at least one of them.
fn keys_of_type(kind: &str) -> &'static [&'static str] {
    match kind {
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        _ => &[],
    }
}

fn validate_secret(secret: &Value, causes: &mut Causes) {
    let empty = Map::new();
    let data = secret
        .get("data")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    let mut total = 0;
    for (key, value) in data {
        if let Err(why) = names::data_key(key) {
            causes.invalid(format!("data[{key}]"), key, why);
        }
        total += value.as_str().map_or(0, |v| v.len() / 4 * 3);
    }
    if total > MAX_SECRET {
        causes.too_long("data", MAX_SECRET);
    }
    let kind = text(secret, &["type"]);
    for key in keys_of_type(kind) {
        if !data.contains_key(*key) {
            causes.required(format!("data[{key}]"), "");
        }
    }
    let account = "kubernetes.io/service-account.name";
    if kind == "kubernetes.io/service-account-token"
        && text(secret, &["metadata", "annotations", account]).is_empty()
    {
        causes.required(format!("metadata.annotations[{account}]"), "");
    }
    if kind == "kubernetes.io/basic-auth"
        && !data.contains_key("username")
        && !data.contains_key("password")
    {
        causes.required("data[username]", "");
        causes.required("data[password]", "");
    }
}

fn validate_lease(lease: &Value, causes: &mut Causes) {
    let number = |field: &str| number(lease, &["spec", field]);
    if let Some(seconds) = number("leaseDurationSeconds").filter(|s| *s <= 0) {
        causes.invalid(
            "spec.leaseDurationSeconds",
            seconds,
            "must be greater than 0",
        );
    }
    if let Some(count) = number("leaseTransitions").filter(|n| *n < 0) {
        causes.invalid(
            "spec.leaseTransitions",
            count,
            "must be greater than or equal to 0",
        );
    }
}

pub fn change(resource: Resource, old: &Value, new: &Value, causes: &mut Causes) {
    match resource {
        Resource::Secrets => {
            if old.get("type") != new.get("type") {
                let kind = new.get("type").cloned().unwrap_or_default();
                causes.invalid("type", &kind, "field is immutable");
            }
            immutable(old, new, &["data", "immutable"], causes);
        }
        Resource::Services => service_change(old, new, causes),
        Resource::PersistentVolumeClaims => claim_change(old, new, causes),
        Resource::RoleBindings | Resource::ClusterRoleBindings
            if old.get("roleRef") != new.get("roleRef") =>
        {
            let role = new.get("roleRef").cloned().unwrap_or_default();
            causes.invalid("roleRef", &role, "cannot change roleRef");
        }
        resource if resource.is_workload() => workloads::change(resource, old, new, causes),
        _ => {}
    }
}

/// A service keeps its cluster IP, unless its type changes to or from `ExternalName`.
fn service_change(old: &Value, new: &Value, causes: &mut Causes) {
    let is_external = |service: &Value| text(service, &["spec", "type"]) == "ExternalName";
    if is_external(old) || is_external(new) {
        return;
    }
    let before = text(old, &["spec", "clusterIP"]);
    if !before.is_empty() && before != text(new, &["spec", "clusterIP"]) {
        let all = at(new, &["spec", "clusterIPs"]).unwrap_or(&Value::Null);
        causes.invalid("spec.clusterIPs[0]", all, "may not change once set");
    }
}

/// What was assigned to an object stays where an update leaves it out.
pub(crate) fn keep_assigned(resource: Resource, old: &Value, new: &mut Value) {
    let is_external = text(new, &["spec", "type"]) == "ExternalName";
    if resource != Resource::Services || is_external {
        return;
    }
    for field in ["clusterIP", "clusterIPs"] {
        if let Some(address) = at(old, &["spec", field])
            && at(new, &["spec", field]).is_none_or(|now| now == "")
        {
            set(new, &["spec", field], address.clone());
        }
    }
}

fn claim_change(old: &Value, new: &Value, causes: &mut Causes) {
    let is_bound = text(old, &["status", "phase"]) == "Bound";
    let without_size = |claim: &Value| {
        let mut spec = claim.get("spec").cloned().unwrap_or_default();
        // Only a volume can grow, and only a claim without one may get a class.
        if is_bound {
            unset(&mut spec, &["resources"]);
        } else if at(old, &["spec", "storageClassName"]).is_none() {
            unset(&mut spec, &["storageClassName"]);
        }
        unset(&mut spec, &["volumeAttributesClassName"]);
        // The volume may be set once.
        if text(old, &["spec", "volumeName"]).is_empty() {
            unset(&mut spec, &["volumeName"]);
        }
        spec
    };
    if without_size(old) != without_size(new) {
        causes.forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims");
    }
}

/// The `default` service account, which exists in each namespace.
pub fn default_account(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": namespace},
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::cause::Cause;

    fn causes(resource: Resource, object: &Value) -> Vec<Cause> {
        Causes::of(|causes| validate(resource, object, causes)).0
    }

    #[test]
    fn string_data_of_a_secret_becomes_data() {
        let mut object = json!({"data": {"a": "eA=="}, "stringData": {"a": "new", "b": ""}});
        fill(Resource::Secrets, &mut object);
        assert_eq!(
            object,
            json!({"type": "Opaque", "data": {"a": "bmV3", "b": ""}})
        );
    }

    #[test]
    fn a_secret_must_have_the_keys_of_its_type() {
        let kind = |kind: &str| json!({"type": kind, "data": {}});
        assert_eq!(causes(Resource::Secrets, &kind("Opaque")), []);
        assert_eq!(
            causes(Resource::Secrets, &kind("kubernetes.io/tls")).len(),
            2
        );
        let token = kind("kubernetes.io/service-account-token");
        assert_eq!(causes(Resource::Secrets, &token).len(), 1);
    }

    #[test]
    fn secret_types_and_role_refs_are_immutable() {
        let mut found = Causes::default();
        change(
            Resource::Secrets,
            &json!({"type": "a"}),
            &json!({"type": "b"}),
            &mut found,
        );
        change(
            Resource::RoleBindings,
            &json!({"roleRef": {"name": "a"}}),
            &json!({"roleRef": {"name": "b"}}),
            &mut found,
        );
        assert_eq!(found.0.len(), 2);
    }
}
