//! Defaulting, the generated selector, validation and immutable fields of Jobs.

use serde_json::{Map, Value, json};

use super::object::{at, is_true, list, number, set, text, unset};
use super::workloads::validate_template;
use crate::api::status::Causes;
use crate::validation::defaults::{self, default};
use crate::validation::validate_failure_policy;
use crate::validation::validate_meta::IMMUTABLE;

/// The labels of a Job's pods with the Job's name.
const NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

/// The labels of a Job's pods with the Job's uid.
const UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];

/// The longest `managedBy`.
const MAX_MANAGED_BY: usize = 63;

pub(super) fn fill(job: &mut Value) {
    let labels = at(job, &["spec", "template", "metadata", "labels"]).cloned();
    let spec = &mut job["spec"];
    if at(spec, &["completions"]).is_none() && at(spec, &["parallelism"]).is_none() {
        set(spec, &["completions"], 1.into());
    }
    default(spec, &["parallelism"], 1.into());
    default(spec, &["backoffLimit"], 6.into());
    default(spec, &["completionMode"], "NonIndexed".into());
    default(spec, &["suspend"], false.into());
    default(spec, &["manualSelector"], false.into());
    let replacement = match at(spec, &["podFailurePolicy"]) {
        Some(_) => "Failed",
        None => "TerminatingOrFailed",
    };
    default(spec, &["podReplacementPolicy"], replacement.into());
    let rules = spec
        .pointer_mut("/podFailurePolicy/rules")
        .and_then(Value::as_array_mut);
    for rule in rules.into_iter().flatten() {
        let patterns = rule
            .get_mut("onPodConditions")
            .and_then(Value::as_array_mut);
        for pattern in patterns.into_iter().flatten() {
            default(pattern, &["status"], "True".into());
        }
    }
    if let Some(template) = spec.get_mut("template") {
        defaults::pod(template);
    }
    if let Some(labels) = labels {
        default(job, &["metadata", "labels"], labels);
    }
}

/// Makes the selector and the labels that distinguish the Job's pods, unless `manualSelector` is set.
pub(crate) fn generate_selector(job: &mut Value) {
    if is_true(job, &["spec", "manualSelector"]) {
        return;
    }
    let name = text(job, &["metadata", "name"]).to_owned();
    let uid = text(job, &["metadata", "uid"]).to_owned();
    for (labels, value) in [(NAME_LABELS, &name), (UID_LABELS, &uid)] {
        for label in labels {
            // A label that the client has set stays, and is refused unless it is the right one.
            let path = ["spec", "template", "metadata", "labels", label];
            default(job, &path, value.as_str().into());
        }
    }
    let path = ["spec", "selector", "matchLabels", UID_LABELS[0]];
    default(job, &path, uid.into());
}

pub(super) fn validate(job: &Value, causes: &mut Causes) {
    let spec = job.get("spec").unwrap_or(&Value::Null);
    let template = at(spec, &["template"]).unwrap_or(&Value::Null);
    validate_selector(job, template, causes);
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ] {
        if let Some(value) = number(spec, &[field]).filter(|n| *n < 0) {
            let detail = "must be greater than or equal to 0";
            causes.invalid(format!("spec.{field}"), value, detail);
        }
    }
    if text(spec, &["managedBy"]).len() > MAX_MANAGED_BY {
        causes.too_long("spec.managedBy", MAX_MANAGED_BY);
    }
    // Real servers support `Indexed` as well.
    causes.one_of(spec, "spec.completionMode", &["NonIndexed"]);
    for field in ["backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"] {
        if let Some(value) = spec.get(field) {
            let detail = "requires indexed completion mode";
            causes.invalid(format!("spec.{field}"), value, detail);
        }
    }
    if let Some(policy) = spec.get("podFailurePolicy") {
        validate_failure_policy::rules(policy, template, causes);
    }
    let policies: &[&str] = match spec.get("podFailurePolicy") {
        Some(_) => &["Failed"],
        None => &["Failed", "TerminatingOrFailed"],
    };
    causes.one_of(spec, "spec.podReplacementPolicy", policies);
    validate_template(template, causes);
    validate_restarts(spec, template, causes);
}

fn validate_restarts(spec: &Value, template: &Value, causes: &mut Causes) {
    let field = "spec.template.spec.restartPolicy";
    match text(template, &["spec", "restartPolicy"]) {
        "Never" => {}
        "OnFailure" if spec.get("podFailurePolicy").is_some() => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            causes.invalid(field, "OnFailure", detail);
        }
        "OnFailure" => {}
        "" | "Always" => causes.required(field, "valid values: \"OnFailure\", \"Never\""),
        other => causes.not_supported(field, other, &["OnFailure", "Never"]),
    }
}

/// Validates the selector, and that a generated one selects the Job's own pods.
fn validate_selector(job: &Value, template: &Value, causes: &mut Causes) {
    let empty = Map::new();
    let labels = at(template, &["metadata", "labels"]).and_then(Value::as_object);
    let labels = labels.unwrap_or(&empty);
    let Some(selector) = at(job, &["spec", "selector"]) else {
        causes.required("spec.selector", "");
        return;
    };
    let selected = at(selector, &["matchLabels"]).and_then(Value::as_object);
    let selected = selected.unwrap_or(&empty);
    if !is_true(job, &["spec", "manualSelector"]) {
        let own = |label: &str| match label {
            _ if NAME_LABELS.contains(&label) => Some(text(job, &["metadata", "name"])),
            _ if UID_LABELS.contains(&label) => Some(text(job, &["metadata", "uid"])),
            _ => None,
        };
        for label in NAME_LABELS.into_iter().chain(UID_LABELS) {
            let expected = own(label).unwrap_or_default();
            if labels.get(label).and_then(Value::as_str) != Some(expected) {
                let given = labels.get(label).cloned().unwrap_or_default();
                let detail = format!("must be '{expected}'");
                let field = "spec.template.metadata.labels";
                causes.invalid(field, json!({ label: given }), &detail);
            }
        }
        let is_generated = |(label, value): (&String, &Value)| own(label) == value.as_str();
        if !selected.iter().all(is_generated) {
            causes.invalid("spec.selector", selector, "`selector` not auto-generated");
        }
    }
    let differs = |(label, value): (&String, &Value)| labels.get(label) != Some(value);
    if selected.iter().any(differs) {
        let detail = "`selector` does not match template `labels`";
        causes.invalid("spec.template.metadata.labels", json!(labels), detail);
    }
}

pub(super) fn change(old: &Value, new: &Value, causes: &mut Causes) {
    for field in [
        "completions",
        "selector",
        "completionMode",
        "podFailurePolicy",
        "managedBy",
    ] {
        let (before, after) = (at(old, &["spec", field]), at(new, &["spec", field]));
        if before != after {
            let value = after.cloned().unwrap_or_default();
            causes.invalid(format!("spec.{field}"), value, IMMUTABLE);
        }
    }
    let never_started = is_true(old, &["spec", "suspend"])
        && at(old, &["status", "startTime"]).is_none()
        && list(old, &["status", "conditions"])
            .iter()
            .all(|c| text(c, &["type"]) != "Suspended" || text(c, &["status"]) == "True");
    let fixed = |job: &Value| {
        let mut template = at(job, &["spec", "template"]).cloned().unwrap_or_default();
        if never_started {
            for path in MAY_CHANGE_WHILE_SUSPENDED {
                unset(&mut template, path);
            }
        }
        template
    };
    if fixed(old) != fixed(new) {
        let template = at(new, &["spec", "template"]).cloned().unwrap_or_default();
        causes.invalid("spec.template", template, IMMUTABLE);
    }
}

/// The fields of the template that decide on which nodes pods run. They may change before a suspended Job starts.
const MAY_CHANGE_WHILE_SUSPENDED: [&[&str]; 6] = [
    &["metadata", "labels"],
    &["metadata", "annotations"],
    &["spec", "affinity", "nodeAffinity"],
    &["spec", "nodeSelector"],
    &["spec", "tolerations"],
    &["spec", "schedulingGates"],
];
