//! The limit of nesting in objects.

use serde_json::Value;

/// The most levels of nested maps and lists in an object. JSON parsers such as `serde_json` read at most 128 levels, so
/// with this limit they also read an object inside a list or a watch event. Objects of the served kinds have about 20
/// levels.
pub const MAX_LEVELS: usize = 100;

/// Whether a value has more than `limit` levels. A scalar has none, an empty map or list has one. Looks no deeper than
/// the limit.
pub fn exceeds(value: &Value, limit: usize) -> bool {
    let below = |item: &Value| exceeds(item, limit.saturating_sub(1));
    match value {
        Value::Array(items) => limit == 0 || items.iter().any(below),
        Value::Object(fields) => limit == 0 || fields.values().any(below),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn levels_are_counted_through_maps_and_lists() {
        for (value, levels) in [
            (json!(1), 0),
            (json!({}), 1),
            (json!([1, {}]), 2),
            (json!({"a": 1, "b": [[2]]}), 3),
        ] {
            assert!(!exceeds(&value, levels), "{value}");
            assert!(levels == 0 || exceeds(&value, levels - 1), "{value}");
        }
    }
}
