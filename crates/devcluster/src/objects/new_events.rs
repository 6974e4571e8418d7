//! Converts events between the core group and `events.k8s.io`: the same objects, with different names for some fields.
//! They are stored with the core group's names.

use serde_json::Value;

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
