//! Defaulting, validation and immutable fields of Deployments, ReplicaSets and StatefulSets.

use serde_json::{Value, json};

use super::object::{at, list, set, text, unset};
use super::resource::Resource;
use crate::api::status::Causes;
use crate::validation::defaults::{self, default};
use crate::validation::{validate, validate_pod};

pub(super) fn fill(resource: Resource, object: &mut Value) {
    default(object, &["spec", "replicas"], 1.into());
    let spec = &mut object["spec"];
    match resource {
        Resource::Deployments => {
            default(spec, &["revisionHistoryLimit"], 10.into());
            default(spec, &["progressDeadlineSeconds"], 600.into());
            default(spec, &["strategy", "type"], ROLLING.into());
            if text(spec, &["strategy", "type"]) == ROLLING {
                for limit in ["maxSurge", "maxUnavailable"] {
                    default(spec, &["strategy", "rollingUpdate", limit], "25%".into());
                }
            }
        }
        Resource::StatefulSets => {
            default(spec, &["revisionHistoryLimit"], 10.into());
            default(spec, &["podManagementPolicy"], "OrderedReady".into());
            default(spec, &["updateStrategy", "type"], ROLLING.into());
            for when in ["whenDeleted", "whenScaled"] {
                let path = ["persistentVolumeClaimRetentionPolicy", when];
                default(spec, &path, "Retain".into());
            }
            if text(spec, &["updateStrategy", "type"]) == ROLLING {
                let path = ["updateStrategy", "rollingUpdate", "partition"];
                default(spec, &path, 0.into());
            }
        }
        _ => {}
    }
    let claims = object
        .pointer_mut("/spec/volumeClaimTemplates")
        .and_then(Value::as_array_mut);
    for claim in claims.into_iter().flatten() {
        default(claim, &["spec", "volumeMode"], "Filesystem".into());
        default(claim, &["status", "phase"], "Pending".into());
    }
    if let Some(template) = object.pointer_mut("/spec/template") {
        defaults::pod(template);
    }
}

const ROLLING: &str = "RollingUpdate";

pub(super) fn validate(resource: Resource, object: &Value, causes: &mut Causes) {
    for field in ["replicas", "minReadySeconds", "revisionHistoryLimit"] {
        if let Some(count) = at(object, &["spec", field])
            && count.as_i64().is_none_or(|n| n < 0)
        {
            let detail = "must be greater than or equal to 0";
            causes.invalid(format!("spec.{field}"), count, detail);
        }
    }
    let strategy = at(object, &["spec", "strategy"]).unwrap_or(&Value::Null);
    let kind = text(strategy, &["type"]);
    if resource == Resource::Deployments && !["Recreate", ROLLING].contains(&kind) {
        causes.not_supported("spec.strategy", strategy, &["Recreate", ROLLING]);
    }
    let is_none = |limit: &str| {
        let limit = at(strategy, &["rollingUpdate", limit]);
        limit.is_some_and(|limit| *limit == 0 || *limit == "0%")
    };
    if is_none("maxUnavailable") && is_none("maxSurge") {
        let detail = "may not be 0 when `maxSurge` is 0";
        causes.invalid("spec.strategy.rollingUpdate.maxUnavailable", 0, detail);
    }
    let selector = at(object, &["spec", "selector", "matchLabels"]);
    let selected = selector.and_then(Value::as_object);
    let others = at(object, &["spec", "selector", "matchExpressions"]);
    if selected.is_none_or(serde_json::Map::is_empty) && others.is_none() {
        let detail = "empty selector is invalid for deployment";
        causes.invalid("spec.selector", at(object, &["spec", "selector"]), detail);
    }
    let template = at(object, &["spec", "template"]).unwrap_or(&Value::Null);
    let labels = at(template, &["metadata", "labels"]).unwrap_or(&Value::Null);
    let matches = selected
        .into_iter()
        .flatten()
        .all(|(key, value)| labels.get(key) == Some(value));
    if !matches {
        let detail = "`selector` does not match template `labels`";
        causes.invalid("spec.template.metadata.labels", labels, detail);
    }
    let template = with_claimed_volumes(object, template);
    validate_template(&template, causes);
    let policy = text(&template, &["spec", "restartPolicy"]);
    if policy != "Always" {
        causes.not_supported("spec.template.spec.restartPolicy", policy, &["Always"]);
    }
    if at(&template, &["spec", "activeDeadlineSeconds"]).is_some() {
        let detail = "activeDeadlineSeconds in ReplicaSet is not Supported";
        causes.forbidden("spec.template.spec.activeDeadlineSeconds", detail);
    }
    let management = text(object, &["spec", "podManagementPolicy"]);
    if resource == Resource::StatefulSets && !["OrderedReady", "Parallel"].contains(&management) {
        let detail = "must be 'OrderedReady' or 'Parallel'";
        causes.invalid("spec.podManagementPolicy", management, detail);
    }
}

/// Validates a pod template, whose fields are below `spec.template`.
pub(super) fn validate_template(template: &Value, causes: &mut Causes) {
    let mut of_pods = Causes::default();
    validate_pod::pod(template, &mut of_pods);
    validate::labels(
        template,
        &["metadata", "labels"],
        "metadata.labels",
        &mut of_pods,
    );
    for cause in &mut of_pods.0 {
        cause.field = format!("spec.template.{}", cause.field);
    }
    causes.extend(of_pods);
}

/// The pod template of a set, with the volumes from its claim templates added.
fn with_claimed_volumes(object: &Value, template: &Value) -> Value {
    let mut template = template.clone();
    let claimed = list(object, &["spec", "volumeClaimTemplates"]);
    if !claimed.is_empty() {
        let name = |claim: &Value| text(claim, &["metadata", "name"]).to_owned();
        let names: Vec<String> = claimed.iter().map(name).collect();
        let mut volumes = list(&template, &["spec", "volumes"]).to_vec();
        volumes.retain(|volume| !names.iter().any(|name| volume["name"] == **name));
        let volume =
            |name: &String| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
        volumes.extend(names.iter().map(volume));
        set(&mut template, &["spec", "volumes"], volumes.into());
    }
    template
}

pub(super) fn change(resource: Resource, old: &Value, new: &Value, causes: &mut Causes) {
    if old.pointer("/spec/selector") != new.pointer("/spec/selector")
        && resource != Resource::StatefulSets
    {
        let selector = new.pointer("/spec/selector").cloned().unwrap_or_default();
        causes.invalid("spec.selector", &selector, "field is immutable");
    }
    if resource == Resource::StatefulSets {
        let fixed = |set: &Value| {
            let mut spec = set.get("spec").cloned().unwrap_or_else(|| json!({}));
            for free in MAY_CHANGE {
                unset(&mut spec, &[free]);
            }
            spec
        };
        if fixed(old) != fixed(new) {
            let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                          'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                          'minReadySeconds' are forbidden";
            causes.forbidden("spec", detail);
        }
    }
}

/// The fields of a StatefulSet's spec that may change.
const MAY_CHANGE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];
