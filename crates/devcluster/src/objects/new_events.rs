//! Converts events between the core group and `events.k8s.io`: the same objects, with different names for some fields.
//! They are stored with the core group's names. What `events.k8s.io` demands beyond the core group is checked here.

use serde_json::Value;

use super::object::{number, text};
use crate::api::status::Causes;
use crate::validation::names;

const VERSION: &str = "events.k8s.io/v1";

/// The fields whose names differ: the core group's name, then that of `events.k8s.io`.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

pub fn is_at(path: &str) -> bool {
    path.trim_start_matches('/')
        .starts_with("apis/events.k8s.io/v1/")
}

/// Converts an event, or a patch of one, to the stored form.
pub fn to_stored(mut event: Value) -> Value {
    let names = NAMES.map(|(old, new)| (new, old));
    rename(&mut event, &names, VERSION, "v1");
    event
}

pub fn to_shown(mut event: Value) -> Value {
    rename(&mut event, &NAMES, "v1", VERSION);
    event
}

fn rename(event: &mut Value, names: &[(&str, &str)], from: &str, to: &str) {
    let Some(fields) = event.as_object_mut() else {
        return;
    };
    for (before, after) in names {
        if let Some(value) = fields.remove(*before) {
            fields.insert((*after).to_owned(), value);
        }
    }
    if fields.get("apiVersion").is_some_and(|v| v == from) {
        fields.insert("apiVersion".to_owned(), to.into());
    }
}

/// Validates what this version of events demands, of an event as it is stored.
pub(crate) fn validate(event: &Value, causes: &mut Causes) {
    if text(event, &["eventTime"]).is_empty() {
        causes.required("eventTime", "");
    }
    let controller = text(event, &["reportingComponent"]);
    if controller.is_empty() {
        causes.required("reportingController", "");
    }
    for why in names::all_of_qualified(controller) {
        causes.invalid("reportingController", controller, why);
    }
    let kind = text(event, &["type"]);
    if !["Normal", "Warning"].contains(&kind) {
        causes.invalid("type", kind, "has invalid value: ");
    }
    if let Some(count) = number(event, &["series", "count"]).filter(|count| *count < 2) {
        causes.invalid("series.count", count, "should be at least 2");
    }
    for field in ["firstTimestamp", "lastTimestamp", "count"] {
        if let Some(value) = event
            .get(field)
            .filter(|value| !value.is_null() && **value != 0)
        {
            causes.invalid(field, value, "needs to be unset");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn event_fields_are_renamed_in_both_directions() {
        let stored = json!({
            "apiVersion": "v1", "kind": "Event", "reason": "R", "message": "m",
            "involvedObject": {"kind": "Pod"}, "reportingComponent": "c", "count": 2,
        });
        let shown = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "reason": "R", "note": "m",
            "regarding": {"kind": "Pod"}, "reportingController": "c", "deprecatedCount": 2,
        });
        assert_eq!(to_shown(stored.clone()), shown);
        assert_eq!(to_stored(shown), stored);
        assert_eq!(to_stored(json!([1])), json!([1]));
    }
}
