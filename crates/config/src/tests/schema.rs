//! Tests of the file's JSON Schema.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;

/// The paths of all keys of a section and of those below it.
fn keys(section: &Value, path: &str) -> BTreeSet<String> {
    assert_eq!(section["additionalProperties"], false, "{path}");
    let mut all = BTreeSet::new();
    for (key, schema) in section["properties"].as_object().unwrap() {
        let path = notes::join_dotted(path, key);
        if ["profiles", "pools"].contains(&path.as_str()) {
            let profile = &schema["additionalProperties"];
            all.extend(keys(profile, &format!("{path}.NAME")));
        } else if schema["type"] == "object" && schema["properties"].is_object() {
            all.extend(keys(schema, &path));
        } else {
            all.insert(path);
        }
    }
    all
}

// spec: C-11
#[test]
fn the_schema_has_every_key_and_no_other() {
    let known = Config::known_keys().into_iter().map(|key| key.path);
    assert_eq!(keys(&Config::schema(), ""), known.collect());
}

// spec: C-11
#[test]
fn the_schema_says_types_words_and_bounds_and_describes_the_entries_of_lists() {
    let schema = Config::schema();
    let of = |path: &str| schema.pointer(path).unwrap_or_else(|| panic!("{path}"));
    let profile = "/properties/profiles/additionalProperties/properties";
    assert_eq!(
        of(&format!("{profile}/slots")),
        &json!({"type": "integer", "minimum": 1, "maximum": 100_000})
    );
    assert_eq!(
        of(&format!("{profile}/pull_policy")),
        &json!({"enum": ["Always", "IfNotPresent", "Never"]})
    );
    let source = format!("{profile}/claims/items/properties/data_source");
    assert_eq!(
        keys(of(&source), ""),
        BTreeSet::from(["kind".to_owned(), "name".to_owned()])
    );
    let ratio = of("/properties/autoscaling/properties/ratio");
    assert_eq!(
        ratio,
        &json!({"type": "number", "minimum": 0.001, "maximum": 1_000.0})
    );
    let rules = of("/properties/failures/properties/rules");
    assert_eq!(rules["type"], "array");
    let action = &rules["items"]["properties"]["action"];
    assert_eq!(action, &json!({"enum": ["ignore", "count", "stop"]}));
}
