//! Defaults and validation of roles and of their bindings.

use serde_json::Value;

use super::object::{list, set, text};
use super::resource::Resource;
use crate::api::status::Causes;
use crate::validation::names;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Sets the API group of a binding's role and subjects where their kind implies it.
pub fn fill(binding: &mut Value) {
    if text(binding, &["roleRef", "apiGroup"]).is_empty() && binding.get("roleRef").is_some() {
        set(binding, &["roleRef", "apiGroup"], RBAC.into());
    }
    let subjects = binding.get_mut("subjects").and_then(Value::as_array_mut);
    for subject in subjects.into_iter().flatten() {
        let is_named = matches!(text(subject, &["kind"]), "User" | "Group");
        if is_named && text(subject, &["apiGroup"]).is_empty() {
            set(subject, &["apiGroup"], RBAC.into());
        }
    }
}

pub fn validate(resource: Resource, binding: &Value, causes: &mut Causes) {
    let role = binding.get("roleRef").unwrap_or(&Value::Null);
    let kinds: &[&str] = if resource == Resource::RoleBindings {
        &["ClusterRole", "Role"]
    } else {
        &["ClusterRole"]
    };
    let kind = text(role, &["kind"]);
    if !kinds.contains(&kind) {
        causes.not_supported("roleRef.kind", kind, kinds);
    }
    if text(role, &["name"]).is_empty() {
        causes.required("roleRef.name", "");
    }
    causes.one_of(role, "roleRef.apiGroup", &[RBAC]);
    for (i, subject) in list(binding, &["subjects"]).iter().enumerate() {
        let field = |name: &str| format!("subjects[{i}].{name}");
        if text(subject, &["name"]).is_empty() {
            causes.required(field("name"), "");
        }
        match text(subject, &["kind"]) {
            "User" | "Group" => causes.one_of(subject, field("apiGroup"), &[RBAC]),
            "ServiceAccount" => {
                let name = text(subject, &["name"]);
                if let Err(why) = names::subdomain(name)
                    && !name.is_empty()
                {
                    causes.invalid(field("name"), name, why);
                }
                // In a namespaced binding, the namespace of a service account defaults to the binding's.
                let everywhere = resource == Resource::ClusterRoleBindings;
                if everywhere && text(subject, &["namespace"]).is_empty() {
                    causes.required(field("namespace"), "");
                }
            }
            other => {
                let known = ["Group", "ServiceAccount", "User"];
                causes.not_supported(field("kind"), other, &known);
            }
        }
    }
}

pub fn validate_role(resource: Resource, role: &Value, causes: &mut Causes) {
    for (i, rule) in list(role, &["rules"]).iter().enumerate() {
        let field = |name: &str| format!("rules[{i}].{name}");
        if list(rule, &["verbs"]).is_empty() {
            causes.required(field("verbs"), "verbs must contain at least one value");
        }
        let urls = &rule["nonResourceURLs"];
        if !list(urls, &[]).is_empty() {
            if resource == Resource::Roles {
                let detail = "namespaced rules cannot apply to non-resource URLs";
                causes.invalid(field("nonResourceURLs"), urls, detail);
            }
            continue;
        }
        for (part, what) in [("apiGroups", "api group"), ("resources", "resource")] {
            if list(rule, &[part]).is_empty() {
                let detail = format!("resource rules must supply at least one {what}");
                causes.required(field(part), &detail);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::cause::Cause;

    fn causes(resource: Resource, object: &Value) -> Vec<Cause> {
        Causes::of(|causes| validate(resource, object, causes)).0
    }

    #[test]
    fn a_binding_needs_a_role_and_valid_subjects() {
        let good = json!({
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "ns"}],
        });
        assert_eq!(causes(Resource::RoleBindings, &good), []);
        assert_eq!(causes(Resource::ClusterRoleBindings, &good).len(), 1);
        let bad = json!({"roleRef": {"kind": "Role"}, "subjects": [{"kind": "ServiceAccount", "name": "a"}]});
        assert_eq!(causes(Resource::RoleBindings, &bad).len(), 1);
        assert_eq!(causes(Resource::ClusterRoleBindings, &bad).len(), 3);
    }
}
