//! The chart's values.schema.json: the schema of the configuration is the driver's own, all else is written by hand.
//! `BOATSWAIN_WRITE_EXPECTED=1 cargo test --test chart` writes the driver's part.

use std::fs;

use boatswain::config::Config;
use serde_json::{Value, json};

const FILE: &str = "deploy/chart/values.schema.json";
const ABOUT: &str = "The configuration: each section of the TOML file is a map. \
                     Written by BOATSWAIN_WRITE_EXPECTED=1 cargo test --test chart";

/// A longer line of what can be broken is broken.
const WIDTH: usize = 200;

fn schema() -> Value {
    serde_json::from_str(&fs::read_to_string(FILE).unwrap()).unwrap()
}

/// What Helm is given may have null for a key, which TOML cannot: it unsets the key.
fn with_nulls(mut schema: Value) -> Value {
    for (place, may_be_null) in [
        ("properties", true),
        ("additionalProperties", true),
        ("items", false),
    ] {
        let inner = match &mut schema[place] {
            Value::Object(keys) if place == "properties" => keys.values_mut().collect(),
            inner @ Value::Object(_) => vec![inner],
            _ => Vec::new(),
        };
        for inner in inner {
            let described = with_nulls(inner.take());
            *inner = if may_be_null {
                or_null(described)
            } else {
                described
            };
        }
    }
    // Looking for a place has made it.
    let places = schema.as_object_mut().unwrap();
    places.retain(|_, inner| !inner.is_null());
    schema
}

fn or_null(mut schema: Value) -> Value {
    let places = schema.as_object_mut().unwrap();
    if let Some(kind) = places.get_mut("type") {
        match kind {
            Value::Array(kinds) => kinds.push("null".into()),
            kind => *kind = json!([kind.take(), "null"]),
        }
    } else if let Some(Value::Array(words)) = places.get_mut("enum") {
        words.push(Value::Null);
    } else if let Some(Value::Array(schemas)) = places.get_mut("anyOf") {
        schemas.push(json!({"type": "null"}));
    }
    schema
}

/// JSON with a line for each key.
fn show(value: &Value, of: &str, indent: usize) -> String {
    let line = value.to_string();
    let is_one_key = of != "properties" && !line.contains("\"properties\":");
    let Some(places) = value
        .as_object()
        .filter(|_| line.len() > WIDTH && !is_one_key)
    else {
        return line;
    };
    let inner = indent + 2;
    let mut sorted: Vec<_> = places.iter().collect();
    sorted.sort_by_key(|(key, _)| *key);
    let lines: Vec<String> = (sorted.into_iter())
        .map(|(key, value)| format!("{:inner$}{}: {}", "", json!(key), show(value, key, inner)))
        .collect();
    format!("{{\n{}\n{:indent$}}}", lines.join(",\n"), "")
}

// spec: C-11
#[test]
fn the_schema_of_the_values_has_the_drivers_own_of_the_configuration() {
    let mut expected = schema();
    let mut config = with_nulls(Config::schema());
    config["description"] = ABOUT.into();
    expected["properties"]["config"] = config;
    if std::env::var_os("BOATSWAIN_WRITE_EXPECTED").is_some() {
        fs::write(FILE, format!("{}\n", show(&expected, "", 0))).unwrap();
    }
    assert!(
        schema() == expected,
        "{FILE} differs from the driver's keys: write it with BOATSWAIN_WRITE_EXPECTED=1"
    );
}

// spec: C-5, C-11
#[test]
fn the_shipped_configurations_fit_the_schema_and_a_key_that_is_none_does_not() {
    let validator = jsonschema::validator_for(&Config::schema()).unwrap();
    for entry in fs::read_dir("config").unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "toml") {
            continue;
        }
        let config: Value = toml::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let wrong: Vec<_> = (validator.iter_errors(&config))
            .map(|error| error.to_string())
            .collect();
        assert!(wrong.is_empty(), "{}: {wrong:?}", path.display());
    }
    for wrong in [
        json!({"profiles": {"default": {"image_pull_policy": "Always"}}}),
        json!({"profiles": {"default": {"claims": [{"class": "fast"}]}}}),
        json!({"scheduling": {"queue": false}}),
        json!({"allocation": {"max_in_flight": 0}}),
        json!({"poll": {"interval": 30}}),
    ] {
        assert!(!validator.is_valid(&wrong), "{wrong}");
    }
}

// spec: O-51
#[test]
fn the_values_have_each_option_of_the_schema() {
    let values = fs::read_to_string("deploy/chart/values.yaml").unwrap();
    let values: Value = serde_saphyr::from_str(&values).unwrap();
    assert_same_keys(&schema(), &values, "values");
}

fn assert_same_keys(schema: &Value, values: &Value, place: &str) {
    let Some(declared) = schema["properties"].as_object() else {
        return;
    };
    let values = values.as_object().unwrap();
    for key in values.keys() {
        assert!(
            declared.contains_key(key),
            "{place}.{key} is not in the schema"
        );
    }
    let of_chart = |key: &str| key != "global" && key != "config";
    for (key, schema) in declared.iter().filter(|(key, _)| of_chart(key)) {
        let value = values
            .get(key)
            .unwrap_or_else(|| panic!("{place}.{key} has no default"));
        assert_same_keys(schema, value, &format!("{place}.{key}"));
    }
}
