//! Checks every answer of the driver's API against its OpenAPI document.

use http::{Method, StatusCode};
use serde_json::{Value, json};

/// Fails unless the document allows this answer.
pub fn holds(document: &Value, method: &Method, path: &str, status: StatusCode, answer: &Value) {
    let (path, _) = path.split_once('?').unwrap_or((path, ""));
    let matches = |template: &str| {
        let (known, asked): (Vec<&str>, Vec<&str>) =
            (template.split('/').collect(), path.split('/').collect());
        let same = |(known, asked): (&&str, &&str)| known == asked || known.starts_with('{');
        known.len() == asked.len() && known.iter().zip(&asked).all(same)
    };
    let paths = document["paths"].as_object().unwrap();
    let at = paths.get(path).or_else(|| {
        let found = paths.iter().find(|(template, _)| matches(template));
        found.map(|(_, at)| at)
    });
    let operation = &at.unwrap_or_else(|| panic!("{path} is not described"))
        [method.as_str().to_ascii_lowercase()];
    let described = &operation["responses"][status.as_str()];
    assert!(
        described.is_object(),
        "{method} {path} may not answer {status}: {answer}"
    );
    let schema = &described["content"]["application/json"]["schema"];
    let whole = json!({"allOf": [schema], "components": document["components"]});
    let validator = jsonschema::validator_for(&whole).unwrap();
    let wrong: Vec<String> = (validator.iter_errors(answer))
        .map(|error| error.to_string())
        .collect();
    assert!(wrong.is_empty(), "{method} {path}: {answer}: {wrong:?}");
}
