//! Defaults and validation of events.

use serde_json::{Value, json};

use super::object::text;
use crate::api::status::Causes;
use crate::validation::defaults::default;
use crate::validation::names;

/// The longest action and the like of an event, in bytes.
const MAX_WORD: usize = 128;

/// The longest note of an event, in bytes.
const MAX_NOTE: usize = 1024;

/// Sets the fields that every event has, even if they are empty.
pub fn fill(event: &mut Value) {
    for (field, nothing) in [
        ("reportingComponent", json!("")),
        ("reportingInstance", json!("")),
        ("source", json!({})),
    ] {
        default(event, &[field], nothing);
    }
}

pub fn validate(event: &Value, causes: &mut Causes) {
    let namespace = text(event, &["metadata", "namespace"]);
    let about = text(event, &["involvedObject", "namespace"]);
    let is_new = !text(event, &["eventTime"]).is_empty();
    let fits = match (is_new, about) {
        (false, "") => namespace == "default",
        (true, "") => matches!(namespace, "default" | "kube-system"),
        (_, about) => about == namespace || is_new,
    };
    if !fits {
        let detail = "does not match event.namespace";
        causes.invalid("involvedObject.namespace", about, detail);
    }
    if !is_new {
        return;
    }
    let component = text(event, &["reportingComponent"]);
    if component.is_empty() {
        causes.required("reportingComponent", "");
    }
    for why in names::all_of_qualified(component) {
        causes.invalid("reportingComponent", component, why);
    }
    for field in ["reportingInstance", "action", "reason"] {
        let value = text(event, &[field]);
        if value.is_empty() {
            causes.required(field, "");
        } else if value.len() > MAX_WORD {
            causes.invalid(field, "", "can have at most 128 characters");
        }
    }
    if text(event, &["message"]).len() > MAX_NOTE {
        causes.invalid("message", "", "can have at most 1024 characters");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::cause::Cause;

    fn causes(object: &Value) -> Vec<Cause> {
        Causes::of(|causes| validate(object, causes)).0
    }

    #[test]
    fn an_event_must_be_in_the_namespace_of_its_object() {
        let event = |about: &str| json!({"metadata": {"namespace": "ns"}, "involvedObject": {"namespace": about}});
        assert_eq!(causes(&event("ns")), []);
        assert_eq!(causes(&event("other")).len(), 1);
        assert_eq!(causes(&event("")).len(), 1);
    }
}
