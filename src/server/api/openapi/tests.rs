//! Tests that the OpenAPI document agrees with the routes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::testing::pages::{code, rows};

const PAGE: &str = include_str!("../../../../docs/api.md");

/// All values with this key in the document, at any depth.
fn all<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get(key));
            fields.values().for_each(|value| all(value, key, found));
        }
        Value::Array(items) => items.iter().for_each(|value| all(value, key, found)),
        _ => {}
    }
}

// spec: O-43
#[test]
fn the_document_has_exactly_the_routes_and_methods() {
    let document = document();
    let described: BTreeSet<(String, String)> = (document["paths"].as_object().unwrap().iter())
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys();
            methods.map(|method| (method.to_uppercase(), path.clone()))
        })
        .collect();
    let routes = table();
    let served: BTreeSet<(String, String)> = (routes.iter())
        .map(|route| (route.method.to_string(), route.path.to_owned()))
        .collect();
    assert_eq!(described, served);
    assert_eq!(routes.len(), served.len(), "each once");
    for route in &routes {
        assert!(!route.summary.is_empty(), "{}", route.path);
        let known = |status: &u16| REFUSALS.iter().any(|(known, _)| known == status);
        assert!(route.refusals.iter().all(known), "{}", route.path);
    }
}

// spec: O-43
#[test]
fn every_schema_is_defined_and_used() {
    let document = document();
    let mut named = Vec::new();
    all(&document, "$ref", &mut named);
    let named: BTreeSet<&str> = (named.iter())
        .map(|name| {
            name.as_str()
                .unwrap()
                .strip_prefix("#/components/schemas/")
                .unwrap()
        })
        .collect();
    let there = document["components"]["schemas"].as_object().unwrap();
    let there: BTreeSet<&str> = there.keys().map(String::as_str).collect();
    assert_eq!(named, there);
}

// spec: O-43
#[test]
fn every_example_matches_its_schema() {
    let document = document();
    let mut examples = 0;
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        let whole = json!({
            "$ref": format!("#/components/schemas/{name}"),
            "components": document["components"],
        });
        let validator = jsonschema::validator_for(&whole).unwrap();
        for example in schema["examples"].as_array().into_iter().flatten() {
            let wrong: Vec<String> = validator
                .iter_errors(example)
                .map(|e| e.to_string())
                .collect();
            assert!(wrong.is_empty(), "{name}: {example}: {wrong:?}");
            examples += 1;
        }
        assert!(
            !validator.is_valid(&json!(["something else"])),
            "{name} takes anything"
        );
    }
    assert!(examples > 20, "{examples}");
}

/// Whether the path of an example has this shape; its own values stand where the shape has a name in braces.
fn fits(shape: &str, path: &str) -> bool {
    let (shape, path): (Vec<&str>, Vec<&str>) =
        (shape.split('/').collect(), path.split('/').collect());
    let same = |(shape, path): (&&str, &&str)| shape == path || shape.starts_with('{');
    shape.len() == path.len() && shape.iter().zip(&path).all(same)
}

// spec: O-43
#[test]
fn the_documentation_lists_all_requests() {
    let mut documented = BTreeSet::new();
    for row in rows(PAGE, "## Requests") {
        let mut method = "";
        for word in code(row[0]) {
            let path = word
                .split_once(' ')
                .filter(|(method, _)| method.chars().all(char::is_uppercase));
            if let Some((named, _)) = path {
                method = named;
            }
            let path = path.map_or(word, |(_, path)| path);
            let path = path.split('?').next().unwrap();
            if path.starts_with('/') {
                documented.insert((method.to_owned(), path.to_owned()));
            }
        }
    }
    // The page for people is no part of the document.
    assert!(documented.remove(&("GET".to_owned(), "/".to_owned())));
    let routes = table();
    let is = |route: &Route, (method, path): &(String, String)| {
        route.method.as_str() == method && fits(route.path, path)
    };
    let unknown = documented
        .iter()
        .filter(|request| !routes.iter().any(|route| is(route, request)));
    assert_eq!(unknown.collect::<Vec<_>>(), Vec::<&(String, String)>::new());
    let missing = routes
        .iter()
        .filter(|route| !documented.iter().any(|request| is(route, request)));
    let missing: Vec<_> = missing.map(|route| (&route.method, route.path)).collect();
    assert_eq!(missing, []);
}

// spec: B-50
#[test]
fn the_documentation_lists_all_events() {
    let rows = rows(PAGE, "## Events");
    let documented: BTreeSet<&str> = rows.iter().flat_map(|row| code(row[0])).collect();
    let document = document();
    let known = &document["components"]["schemas"]["Event"]["properties"]["event"]["enum"];
    let known: BTreeSet<&str> = known
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    assert_eq!(documented, known);
}
