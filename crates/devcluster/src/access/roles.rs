//! The RBAC roles that exist from the start.

use serde_json::{Value, json};

/// The cluster roles that always exist when RBAC is on.
pub fn default_roles() -> Vec<Value> {
    let role = |name: &str, rules: Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": rules,
        })
    };
    let looks = ["get", "list", "watch"].as_slice();
    let plain = [
        "configmaps",
        "events",
        "persistentvolumeclaims",
        "pods",
        "pods/log",
        "pods/status",
        "resourcequotas",
        "serviceaccounts",
        "services",
    ]
    .as_slice();
    let rule = |groups: &[&str], resources: &[&str], verbs: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
    let view = vec![
        rule(&[""], plain, looks),
        rule(&[""], &["namespaces"], looks),
        rule(&["coordination.k8s.io"], &["leases"], looks),
        rule(&["policy"], &["poddisruptionbudgets"], looks),
    ];
    vec![
        role(
            "cluster-admin",
            json!([rule(&["*"], &["*"], &["*"]), {"nonResourceURLs": ["*"], "verbs": ["*"]}]),
        ),
        role(
            "system:auth-delegator",
            json!([
                rule(&["authentication.k8s.io"], &["tokenreviews"], &["create"]),
                rule(
                    &["authorization.k8s.io"],
                    &["subjectaccessreviews"],
                    &["create"]
                ),
            ]),
        ),
        role("view", json!(view)),
    ]
}
