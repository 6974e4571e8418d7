//! Validates what a pod asks of the node that it is placed on.

use serde_json::Value;

use super::{names, rules};
use crate::api::status::Causes;
use crate::objects::label_selector;
use crate::objects::object::{list, text};

pub(super) fn placement(pod: &Value, causes: &mut Causes) {
    for terms in [
        "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[*]",
        "preferredDuringSchedulingIgnoredDuringExecution[*].preference",
    ] {
        let path = format!("spec.affinity.nodeAffinity.{terms}");
        let requirements = format!("{path}.matchExpressions[*]");
        rules::each(pod, &requirements, &mut |at, wanted| {
            node_requirement(wanted, at, causes);
        });
        rules::each(pod, &format!("{path}.matchFields[*]"), &mut |at, wanted| {
            field_requirement(wanted, at, causes);
        });
    }
    for terms in [
        "requiredDuringSchedulingIgnoredDuringExecution[*]",
        "preferredDuringSchedulingIgnoredDuringExecution[*].podAffinityTerm",
    ] {
        let path = format!("spec.affinity.podAffinity|podAntiAffinity.{terms}");
        rules::each(pod, &path, &mut |at, term| pod_term(term, at, causes));
    }
    let constraints = list(pod, &["spec", "topologySpreadConstraints"]);
    for (i, constraint) in constraints.iter().enumerate() {
        let path = format!("spec.topologySpreadConstraints[{i}]");
        spread(constraint, &path, causes);
        let of = |other: &Value| {
            ["topologyKey", "whenUnsatisfiable"].map(|f| text(other, &[f]).to_owned())
        };
        if constraints[i + 1..]
            .iter()
            .any(|other| of(other) == of(constraint))
        {
            let field = format!("{path}.{{topologyKey, whenUnsatisfiable}}");
            causes.duplicate(field, of(constraint).join(", "));
        }
    }
}

fn node_requirement(wanted: &Value, path: &str, causes: &mut Causes) {
    let key = text(wanted, &["key"]);
    let values = list(wanted, &["values"]);
    let field = format!("{path}.values");
    match text(wanted, &["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            causes.required(field, detail);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            causes.forbidden(field, detail);
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            causes.required(field, detail);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => {
            causes.invalid(
                format!("{path}.operator"),
                other,
                "not a valid selector operator",
            );
        }
    }
    for why in names::all_of_qualified(key) {
        causes.invalid(format!("{path}.key"), key, why);
    }
    for (i, value) in values.iter().enumerate() {
        if let Err(why) = names::label_value(value.as_str().unwrap_or_default()) {
            causes.invalid(format!("{path}.values[{i}]"), value, why);
        }
    }
}

/// A node can be chosen by no field but its name.
fn field_requirement(wanted: &Value, path: &str, causes: &mut Causes) {
    let operator = text(wanted, &["operator"]);
    if !["In", "NotIn"].contains(&operator) {
        causes.invalid(
            format!("{path}.operator"),
            operator,
            "not a valid selector operator",
        );
    } else if list(wanted, &["values"]).len() != 1 {
        let detail =
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
        causes.required(format!("{path}.values"), detail);
    }
    let key = text(wanted, &["key"]);
    if key != "metadata.name" {
        causes.invalid(format!("{path}.key"), key, "not a valid field selector key");
    }
}

fn pod_term(term: &Value, path: &str, causes: &mut Causes) {
    selected(term, path, causes);
    for name in list(term, &["namespaces"]) {
        if let Err(why) = names::label(name.as_str().unwrap_or_default()) {
            causes.invalid(format!("{path}.namespace"), name, why);
        }
    }
    let (field, key) = (format!("{path}.topologyKey"), text(term, &["topologyKey"]));
    if key.is_empty() {
        causes.required(field.as_str(), "can not be empty");
    }
    for why in names::all_of_qualified(key) {
        causes.invalid(field.as_str(), key, why);
    }
}

fn spread(constraint: &Value, path: &str, causes: &mut Causes) {
    let least = constraint
        .get("minDomains")
        .filter(|_| text(constraint, &["whenUnsatisfiable"]) != "DoNotSchedule");
    if let Some(least) = least {
        let detail = "can only use minDomains if whenUnsatisfiable=DoNotSchedule";
        causes.invalid(format!("{path}.minDomains"), least, detail);
    }
    selected(constraint, path, causes);
}

/// The pods that count: those with these labels, and the values of further ones in common.
fn selected(term: &Value, path: &str, causes: &mut Causes) {
    let keys = list(term, &["matchLabelKeys"]);
    match term.get("labelSelector") {
        Some(selector) => {
            label_selector::validate(selector, &format!("{path}.labelSelector"), causes);
        }
        None if !keys.is_empty() => {
            let detail = "must not be specified when labelSelector is not set";
            causes.forbidden(format!("{path}.matchLabelKeys"), detail);
        }
        None => {}
    }
}
