//! The security defaults of pods: minimal privileges on the node and in the cluster (spec K-6).

use serde_json::{Value, json};

/// Fills in what neither the template nor the profile sets, unless it would conflict with what they set.
pub(super) fn secure(spec: &mut Value) {
    default(&mut spec["automountServiceAccountToken"], false);
    // Windows has neither capabilities nor seccomp.
    let windows = spec["os"]["name"] == "windows";
    if spec["securityContext"]["runAsUser"] != 0 {
        default(&mut spec["securityContext"]["runAsNonRoot"], true);
    }
    if !windows {
        let seccomp = json!({"type": "RuntimeDefault"});
        default(&mut spec["securityContext"]["seccompProfile"], seccomp);
    }
    for list in ["containers", "initContainers"] {
        if !spec[list].is_array() {
            continue;
        }
        for container in spec[list].as_array_mut().into_iter().flatten() {
            secure_container(&mut container["securityContext"], windows);
        }
    }
}

fn secure_container(context: &mut Value, windows: bool) {
    // `runAsUser: 0` requests root explicitly.
    if context["runAsUser"] == 0 {
        default(&mut context["runAsNonRoot"], false);
    }
    if windows {
        return;
    }
    let added = context["capabilities"]["add"].as_array();
    let mut added = added.into_iter().flatten().filter_map(Value::as_str);
    // With these capabilities, Kubernetes refuses `allowPrivilegeEscalation: false`.
    let mighty = added.any(|name| matches!(name, "SYS_ADMIN" | "CAP_SYS_ADMIN"));
    if context["privileged"] != true && !mighty {
        default(&mut context["allowPrivilegeEscalation"], false);
    }
    if context["privileged"] != true {
        default(&mut context["capabilities"]["drop"], json!(["ALL"]));
    }
}

fn default(field: &mut Value, value: impl Into<Value>) {
    if field.is_null() {
        *field = value.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secured(mut spec: Value) -> Value {
        secure(&mut spec);
        spec
    }

    // spec: K-6
    #[test]
    fn a_pod_has_minimal_privileges_by_default() {
        let spec = secured(
            json!({"containers": [{"name": "executor"}], "initContainers": [{"name": "first"}]}),
        );
        let container =
            json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
        let want = json!({
            "automountServiceAccountToken": false,
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "executor", "securityContext": container}],
            "initContainers": [{"name": "first", "securityContext": container}],
        });
        // Fields that were only read are not left behind as nulls.
        assert_eq!(without_nulls(spec), want);
    }

    fn without_nulls(mut value: Value) -> Value {
        super::super::without_nulls(&mut value);
        value
    }

    // spec: K-6
    #[test]
    fn each_default_can_be_overridden() {
        let told = json!({
            "automountServiceAccountToken": true,
            "securityContext": {"runAsNonRoot": false, "seccompProfile": {"type": "Unconfined"}},
            "containers": [{"name": "executor", "securityContext": {
                "allowPrivilegeEscalation": true, "capabilities": {"drop": []},
            }}],
        });
        assert_eq!(without_nulls(secured(told.clone())), told);
    }

    // spec: K-6
    #[test]
    fn defaults_that_conflict_with_explicit_settings_are_left_out() {
        let of = |context: Value| {
            let spec =
                secured(json!({"containers": [{"name": "executor", "securityContext": context}]}));
            without_nulls(spec)["containers"][0]["securityContext"].clone()
        };
        assert_eq!(of(json!({"privileged": true})), json!({"privileged": true}));
        let mighty = of(json!({"capabilities": {"add": ["SYS_ADMIN"]}}));
        assert_eq!(
            mighty,
            json!({"capabilities": {"add": ["SYS_ADMIN"], "drop": ["ALL"]}})
        );
        assert_eq!(of(json!({"runAsUser": 0}))["runAsNonRoot"], false);
        let root = secured(json!({"securityContext": {"runAsUser": 0}}));
        assert_eq!(root["securityContext"]["runAsNonRoot"], Value::Null);
        let windows =
            secured(json!({"os": {"name": "windows"}, "containers": [{"name": "executor"}]}));
        let windows = without_nulls(windows);
        assert_eq!(windows["securityContext"], json!({"runAsNonRoot": true}));
    }
}
