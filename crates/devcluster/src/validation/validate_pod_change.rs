//! Validates updates of pods. Most of a pod's spec is immutable.

use serde_json::Value;

use super::defaults::quality_of_service;
use crate::api::status::Causes;
use crate::objects::object::{at, entries, list, number, set, text, unset};

const MAY_CHANGE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
     `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
     tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Validates an update of a pod's spec.
pub(crate) fn spec(old: &Value, new: &Value, causes: &mut Causes) {
    let none = Value::Null;
    let (before, after) = (
        old.get("spec").unwrap_or(&none),
        new.get("spec").unwrap_or(&none),
    );
    if before == after {
        return;
    }
    for kind in ["containers", "initContainers"] {
        if list(before, &[kind]).len() != list(after, &[kind]).len() {
            let detail = "pod updates may not add or remove containers";
            causes.forbidden(format!("spec.{kind}"), detail);
            return;
        }
    }
    if !deadline(before, after, causes) {
        return;
    }
    tolerations(before, after, causes);
    if !gates(before, after, causes) {
        return;
    }
    let mut as_before = after.clone();
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        match before.get(field) {
            Some(value) => set(&mut as_before, &[field], value.clone()),
            None => {
                unset(&mut as_before, &[field]);
            }
        }
    }
    if !list(before, &["schedulingGates"]).is_empty() {
        narrowed(before, after, causes);
        for field in ["nodeSelector", "affinity"] {
            match before.get(field) {
                Some(value) => set(&mut as_before, &[field], value.clone()),
                None => {
                    unset(&mut as_before, &[field]);
                }
            }
        }
    }
    let seconds = |spec: &Value| {
        let seconds = spec.get("terminationGracePeriodSeconds");
        seconds.and_then(Value::as_i64).unwrap_or(0)
    };
    if seconds(before) < 0 && seconds(after) == 1 {
        let kept = seconds(before).into();
        set(&mut as_before, &["terminationGracePeriodSeconds"], kept);
    }
    for kind in ["containers", "initContainers"] {
        let olds = list(before, &[kind]);
        let news = as_before
            .get_mut(kind)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten();
        for (old, new) in olds.iter().zip(news) {
            if let Some(image) = old.get("image") {
                set(new, &["image"], image.clone());
            }
        }
    }
    if as_before != *before {
        causes.forbidden("spec", MAY_CHANGE);
    }
}

/// Validates that a pod's containers may get these resources while they run.
pub(crate) fn resize(old: &Value, new: &Value, causes: &mut Causes) {
    let before = text(old, &["status", "qosClass"]);
    if quality_of_service(new) != before {
        let detail = "Pod QOS Class may not change as a result of resizing";
        causes.invalid("spec", before, detail);
    }
    // Nodes whose kubelets resize report what a running container has.
    let cannot = |status: &Value| {
        at(status, &["state", "running"]).is_some() && at(status, &["resources"]).is_none()
    };
    if list(old, &["status", "containerStatuses"])
        .iter()
        .any(cannot)
    {
        let detail = "Pod running on node without support for resize";
        causes.forbidden("spec", detail);
    }
    let containers = |pod| list(pod, &["spec", "containers"]);
    for (before, after) in containers(old).iter().zip(containers(new)) {
        if immutable_resources(before) != immutable_resources(after) {
            causes.forbidden("spec", "only cpu and memory resources are mutable");
        }
    }
}

/// What a container has of other resources than CPU and memory.
fn immutable_resources(container: &Value) -> Vec<(&String, &Value)> {
    let kinds = ["limits", "requests"].into_iter();
    let all = kinds.flat_map(|kind| entries(container, &["resources", kind]));
    all.filter(|(name, _)| !matches!(name.as_str(), "cpu" | "memory"))
        .collect()
}

/// The deadline may be set and shortened.
fn deadline(before: &Value, after: &Value, causes: &mut Causes) -> bool {
    const FIELD: &str = "spec.activeDeadlineSeconds";
    let seconds = |spec: &Value| number(spec, &["activeDeadlineSeconds"]);
    match (seconds(before), seconds(after)) {
        (_, Some(new)) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            let detail = "must be between 0 and 2147483647, inclusive";
            causes.invalid(FIELD, new, detail);
            false
        }
        (Some(old), Some(new)) if old < new => {
            let detail = "must be less than or equal to previous value";
            causes.invalid(FIELD, new, detail);
            false
        }
        (Some(_), None) => {
            let detail = "must not update from a positive integer to nil value";
            causes.invalid(FIELD, &Value::Null, detail);
            true
        }
        _ => true,
    }
}

/// Scheduling gates may only be removed.
fn gates(before: &Value, after: &Value, causes: &mut Causes) -> bool {
    let olds = list(before, &["schedulingGates"]);
    for (at, gate) in list(after, &["schedulingGates"]).iter().enumerate() {
        if !olds.contains(gate) {
            let name = text(gate, &["name"]);
            let detail =
                format!("only deletion is allowed, but found new scheduling gate '{name}'");
            let field = format!("spec.schedulingGates[{at}].name");
            causes.forbidden(field, &detail);
        }
    }
    list(after, &["schedulingGates"])
        .iter()
        .all(|gate| olds.contains(gate))
}

/// A gated pod may be narrowed to fewer nodes: what was selected stays selected.
fn narrowed(before: &Value, after: &Value, causes: &mut Causes) {
    let gone = entries(before, &["nodeSelector"])
        .any(|(key, value)| at(after, &["nodeSelector", key]) != Some(value));
    if gone {
        let selector = after.get("nodeSelector").unwrap_or(&Value::Null);
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        causes.invalid("spec.nodeSelector", selector, detail);
    }
    let terms = |spec: &Value| spec.pointer(REQUIRED).and_then(Value::as_array).cloned();
    let Some(olds) = terms(before) else {
        return;
    };
    let news = terms(after).unwrap_or_default();
    let field = format!("spec{}", REQUIRED.replace('/', "."));
    if olds.len() != news.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return causes.invalid(field, &news, detail);
    }
    for (i, (old, new)) in olds.iter().zip(&news).enumerate() {
        let kept = ["matchExpressions", "matchFields"]
            .iter()
            .all(|kind| list(new, &[kind]).starts_with(list(old, &[kind])));
        if !kept {
            let detail = "only additions are allowed (no mutations or deletions)";
            causes.invalid(format!("{field}[{i}]"), new, detail);
        }
    }
}

const REQUIRED: &str =
    "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";

/// Tolerations may be added, and their durations changed.
fn tolerations(before: &Value, after: &Value, causes: &mut Causes) {
    let timeless = |toleration: &Value| {
        let mut toleration = toleration.clone();
        unset(&mut toleration, &["tolerationSeconds"]);
        toleration
    };
    let now: Vec<Value> = list(after, &["tolerations"]).iter().map(timeless).collect();
    let kept = |toleration: &Value| now.contains(&timeless(toleration));
    if !list(before, &["tolerations"]).iter().all(kept) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        causes.forbidden("spec.tolerations", detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wrong(before: Value, after: Value) -> Vec<String> {
        let mut causes = Causes::default();
        spec(
            &json!({"spec": before}),
            &json!({"spec": after}),
            &mut causes,
        );
        let each = causes
            .0
            .into_iter()
            .map(|c| format!("{}: {}", c.field, c.message));
        each.collect()
    }

    fn with(fields: Value) -> Value {
        let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
        for (name, value) in fields.as_object().into_iter().flatten() {
            spec[name] = value.clone();
        }
        spec
    }

    #[test]
    fn images_deadlines_and_further_tolerations_may_change() {
        let taint =
            |seconds: i64| json!({"key": "a", "operator": "Exists", "tolerationSeconds": seconds});
        let before = with(
            json!({"activeDeadlineSeconds": 9, "tolerations": [taint(1)], "terminationGracePeriodSeconds": -1}),
        );
        let after = json!({
            "containers": [{"name": "c", "image": "other"}],
            "activeDeadlineSeconds": 3,
            "tolerations": [{"key": "b"}, taint(7)],
            "terminationGracePeriodSeconds": 1,
        });
        assert_eq!(wrong(before, after), [""; 0]);
    }

    #[test]
    fn scheduling_gates_may_only_be_removed() {
        let gated = |names: &[&str]| {
            let gates: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
            with(json!({"schedulingGates": gates}))
        };
        assert_eq!(wrong(gated(&["a", "b"]), gated(&["b"])), [""; 0]);
        assert_eq!(wrong(gated(&["a"]), with(json!({}))), [""; 0]);
        assert_eq!(
            wrong(gated(&["a"]), gated(&["a", "c"])),
            [
                "spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new scheduling gate 'c'"
            ]
        );
    }

    #[test]
    fn a_running_container_may_get_more_memory_if_its_node_can_and_no_other_quality_of_service() {
        let pod = |request: &str, limit: &str, status: Value| {
            let resources = json!({"requests": {"memory": request}, "limits": {"memory": limit}});
            let container = json!({"name": "c", "image": "i", "resources": resources});
            let class = "Burstable";
            let status = json!({"qosClass": class, "containerStatuses": [status]});
            json!({"spec": {"containers": [container]}, "status": status})
        };
        let refused = |status: Value, after: Value| {
            let mut causes = Causes::default();
            resize(&pod("1Mi", "2Mi", status), &after, &mut causes);
            let of = causes.0.into_iter().map(|c| c.message);
            of.collect::<Vec<_>>()
        };
        let running = json!({"state": {"running": {}}, "resources": {}});
        let grown = || pod("1Mi", "4Mi", Value::Null);
        assert_eq!(refused(running.clone(), grown()), [""; 0]);
        assert_eq!(refused(json!({"state": {"waiting": {}}}), grown()), [""; 0]);
        assert_eq!(
            refused(json!({"state": {"running": {}}}), grown()),
            ["Forbidden: Pod running on node without support for resize"]
        );
        let mut without = grown();
        unset(&mut without, &["spec"]);
        set(
            &mut without,
            &["spec"],
            json!({"containers": [{"name": "c"}]}),
        );
        assert_eq!(
            refused(running.clone(), without),
            ["Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing"]
        );
        let mut device = grown();
        device["spec"]["containers"][0]["resources"]["limits"]["a/b"] = "1".into();
        assert_eq!(
            refused(running, device),
            ["Forbidden: only cpu and memory resources are mutable"]
        );
    }

    #[test]
    fn other_changes_are_refused() {
        let found = wrong(with(json!({})), with(json!({"nodeSelector": {"a": "b"}})));
        assert_eq!(found, [format!("spec: Forbidden: {MAY_CHANGE}")]);
        for (before, after, want) in [
            (
                json!({}),
                json!({"containers": []}),
                "spec.containers: Forbidden: pod updates may not add or remove containers",
            ),
            (
                json!({"tolerations": [{"key": "a"}]}),
                json!({"tolerations": []}),
                "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
            ),
            (
                json!({"activeDeadlineSeconds": 1}),
                json!({"activeDeadlineSeconds": 2}),
                "spec.activeDeadlineSeconds: Invalid value: 2: must be less than or equal to previous value",
            ),
            (
                json!({"activeDeadlineSeconds": 1}),
                json!({}),
                "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value",
            ),
        ] {
            assert_eq!(wrong(with(before), with(after)), [want]);
        }
    }
}
