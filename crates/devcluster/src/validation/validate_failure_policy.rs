//! Validates a Job's pod failure policy.

use std::collections::BTreeSet;

use serde_json::Value;

use super::names;
use crate::api::status::Causes;
use crate::objects::object::{list, text};

/// The most rules of a policy, and the most pod conditions of one rule.
const MAX_RULES: usize = 20;

/// The most exit codes of one rule.
const MAX_EXIT_CODES: usize = 255;

/// Validates the rules of a policy for the pods of this template.
pub(crate) fn rules(policy: &Value, template: &Value, causes: &mut Causes) {
    let rules = list(policy, &["rules"]);
    if rules.len() > MAX_RULES {
        causes.too_many("spec.podFailurePolicy.rules", rules.len(), MAX_RULES);
    }
    let containers = ["containers", "initContainers"];
    let containers = containers.into_iter();
    let containers: BTreeSet<&str> = containers
        .flat_map(|kind| list(template, &["spec", kind]))
        .map(|container| text(container, &["name"]))
        .collect();
    for (i, rule) in rules.iter().enumerate() {
        let path = format!("spec.podFailurePolicy.rules[{i}]");
        self::rule(rule, &path, &containers, causes);
    }
}

fn rule(rule: &Value, path: &str, containers: &BTreeSet<&str>, causes: &mut Causes) {
    let actions = ["Count", "FailIndex", "FailJob", "Ignore"];
    one_of(rule, path, "action", &actions, causes);
    if text(rule, &["action"]) == "FailIndex" {
        let detail = "requires the backoffLimitPerIndex to be set";
        causes.invalid(format!("{path}.action"), "FailIndex", detail);
    }
    let on_codes = rule.get("onExitCodes");
    if let Some(codes) = on_codes {
        exit_codes(codes, &format!("{path}.onExitCodes"), containers, causes);
    }
    let conditions = list(rule, &["onPodConditions"]);
    let below = format!("{path}.onPodConditions");
    if conditions.len() > MAX_RULES {
        causes.too_many(below.as_str(), conditions.len(), MAX_RULES);
    }
    for (i, pattern) in conditions.iter().enumerate() {
        let path = format!("{below}[{i}]");
        let kind = text(pattern, &["type"]);
        if let Err(why) = names::qualified(kind) {
            causes.invalid(format!("{path}.type"), kind, why);
        }
        one_of(
            pattern,
            &path,
            "status",
            &["False", "True", "Unknown"],
            causes,
        );
    }
    if on_codes.is_some() && !conditions.is_empty() {
        let detail = "specifying both OnExitCodes and OnPodConditions is not supported";
        causes.invalid_as_whole(path, detail);
    }
    if on_codes.is_none() && conditions.is_empty() {
        let detail = "specifying one of OnExitCodes and OnPodConditions is required";
        causes.invalid_as_whole(path, detail);
    }
}

/// A field that must be set, to one of these values.
fn one_of(object: &Value, path: &str, field: &str, values: &[&str], causes: &mut Causes) {
    let value = text(object, &[field]);
    let field = format!("{path}.{field}");
    if value.is_empty() {
        let quoted: Vec<String> = values.iter().map(|value| format!("\"{value}\"")).collect();
        causes.required(field, &format!("valid values: [{}]", quoted.join(" ")));
    } else if !values.contains(&value) {
        causes.not_supported(field, value, values);
    }
}

fn exit_codes(codes: &Value, path: &str, containers: &BTreeSet<&str>, causes: &mut Causes) {
    one_of(codes, path, "operator", &["In", "NotIn"], causes);
    if let Some(name) = codes.get("containerName")
        && !containers.contains(name.as_str().unwrap_or_default())
    {
        let detail = "must be one of the container or initContainer names in the pod template";
        causes.invalid(format!("{path}.containerName"), name, detail);
    }
    let values = list(codes, &["values"]);
    let below = format!("{path}.values");
    if values.is_empty() {
        causes.invalid(below.as_str(), values, "at least one value is required");
    } else if values.len() > MAX_EXIT_CODES {
        causes.too_many(below.as_str(), values.len(), MAX_EXIT_CODES);
    }
    let code = |value: &Value| value.as_i64().unwrap_or_default();
    let mut seen = BTreeSet::new();
    for (i, value) in values.iter().enumerate() {
        let path = format!("{below}[{i}]");
        if code(value) == 0 && text(codes, &["operator"]) == "In" {
            causes.invalid(path.as_str(), 0, "must not be 0 for the In operator");
        }
        if !seen.insert(code(value)) {
            causes.duplicate(path, value);
        }
    }
    if !values.is_sorted_by_key(code) {
        causes.invalid(below, values, "must be ordered");
    }
}
