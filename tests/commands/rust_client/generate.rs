//! Writes the Rust types and requests of an OpenAPI document.

use std::fmt::Write as _;

use serde_json::{Map, Value};

const TYPES: &str = "\
//! The types of the bodies and answers of the HTTP API.
//!
//! Made from the driver's OpenAPI document. Do not edit: see CONTRIBUTING.md.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::words::*;
";

const WORDS: &str = "\
//! The words of the HTTP API that stand for one of several things.
//!
//! Made from the driver's OpenAPI document. Do not edit: see CONTRIBUTING.md.

use serde::{Deserialize, Serialize};
";

const REQUESTS: &str = "\
//! The requests of the HTTP API.
//!
//! Made from the driver's OpenAPI document. Do not edit: see CONTRIBUTING.md.

use std::collections::BTreeMap;

use http::Method;
use serde_json::json;

use crate::client::{Client, ClientError, segment, with_query};
use crate::types::*;
";

/// Their answers are no JSON, or the client reads them in a way of its own.
const LEFT_OUT: [&str; 5] = [
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/v1/events",
];

/// Objects with more keys than the document lists.
const OPEN: [&str; 2] = ["Event", "NewProfile"];

/// Problems are errors, and these bodies are arguments.
const NO_TYPES: [&str; 4] = ["Demand", "Nothing", "Problem", "Target"];

const WIDTH: usize = 100;

/// The file `types.rs`.
pub fn types(document: &Value) -> String {
    file(TYPES, document, |schema| !schema["enum"].is_array())
}

/// The file `words.rs`.
pub fn words(document: &Value) -> String {
    file(WORDS, document, |schema| schema["enum"].is_array())
}

fn file(head: &str, document: &Value, is_in: impl Fn(&Value) -> bool) -> String {
    let mut text = head.to_owned();
    for (name, schema) in schemas(document) {
        if is_in(schema) && !NO_TYPES.contains(&name.as_str()) {
            text.push('\n');
            text.push_str(&type_named(name, schema));
        }
    }
    text
}

/// The file `requests.rs`.
pub fn requests(document: &Value) -> String {
    let mut methods = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (verb, operation) in operations.as_object().unwrap() {
            if !LEFT_OUT.contains(&path.as_str()) {
                methods.push(method(path, verb, operation, schemas(document)));
            }
        }
    }
    format!("{REQUESTS}\nimpl Client {{\n{}}}\n", methods.join("\n"))
}

fn schemas(document: &Value) -> &Map<String, Value> {
    document["components"]["schemas"].as_object().unwrap()
}

fn comment(described: &Value, indent: &str, text: &mut String) {
    let Some(described) = described["description"].as_str() else {
        return;
    };
    let mut line = String::new();
    for word in described.split_whitespace() {
        if !line.is_empty() && indent.len() + 4 + line.len() + 1 + word.len() > WIDTH {
            writeln!(text, "{indent}/// {line}").unwrap();
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    writeln!(text, "{indent}/// {line}").unwrap();
}

fn type_named(name: &str, schema: &Value) -> String {
    let mut text = String::new();
    comment(schema, "", &mut text);
    if let Some(words) = schema["enum"].as_array() {
        text.push_str(
            "#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]\n",
        );
        writeln!(text, "pub enum {name} {{").unwrap();
        for word in words {
            let word = word.as_str().unwrap();
            let variant = camel(word);
            if variant != word {
                writeln!(text, "    #[serde(rename = \"{word}\")]").unwrap();
            }
            writeln!(text, "    {variant},").unwrap();
        }
        text.push_str("    /// One that this client does not know.\n    #[default]\n    #[serde(other)]\n    Unknown,\n}\n");
        return text;
    }
    let Some(properties) = schema["properties"].as_object() else {
        writeln!(text, "pub type {name} = {};", type_of(schema)).unwrap();
        return text;
    };
    let is_open = OPEN.contains(&name);
    text.push_str("#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]\n");
    if is_open {
        text.push_str("#[serde(default)]\n");
    }
    writeln!(text, "pub struct {name} {{").unwrap();
    for (key, property) in properties {
        comment(property, "    ", &mut text);
        let plain = type_of(property);
        let optional = !is_required(schema, key);
        let already = plain.starts_with("Option<") || plain == "Who";
        if optional {
            let default = if is_open { "" } else { "default, " };
            writeln!(
                text,
                "    #[serde({default}skip_serializing_if = \"Option::is_none\")]"
            )
            .unwrap();
        }
        let of_field = match optional && !already {
            true => format!("Option<{plain}>"),
            false => plain,
        };
        writeln!(text, "    pub {key}: {of_field},").unwrap();
    }
    if is_open {
        text.push_str(
            "    /// The other keys.\n    #[serde(flatten)]\n    pub more: Map<String, Value>,\n",
        );
    }
    text.push_str("}\n");
    text
}

fn is_required(schema: &Value, key: &str) -> bool {
    let required = schema["required"].as_array();
    required.is_some_and(|keys| keys.iter().any(|required| required == key))
}

fn camel(word: &str) -> String {
    let capital = |part: &str| {
        let mut letters = part.chars();
        let first = letters.next().map(|c| c.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    word.split('-').map(capital).collect()
}

fn name_of(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap()
}

fn type_of(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        return name_of(reference).to_owned();
    }
    if let Some(either) = schema["oneOf"].as_array() {
        let other = either.iter().find(|one| one["type"] != "null").unwrap();
        return format!("Option<{}>", type_of(other));
    }
    if let Some(kinds) = schema["type"].as_array() {
        let kind = kinds.iter().find(|kind| **kind != "null").unwrap();
        let mut plain = schema.clone();
        plain["type"] = kind.clone();
        return format!("Option<{}>", type_of(&plain));
    }
    let plain = match schema["type"].as_str() {
        // An exit code may be negative.
        Some("integer") if schema["minimum"].is_null() => "i64",
        Some("integer") => "u64",
        Some("number") => "f64",
        Some("string") => "String",
        Some("boolean") => "bool",
        Some("array") => return format!("Vec<{}>", type_of(&schema["items"])),
        Some("object") if schema["additionalProperties"].is_object() => {
            return format!(
                "BTreeMap<String, {}>",
                type_of(&schema["additionalProperties"])
            );
        }
        Some("object") => "Map<String, Value>",
        _ => "Value",
    };
    plain.to_owned()
}

/// `GET /v1/executors/{id}` is `executor`, `PUT /v1/targets` is `put_targets`, `POST /v1/executors/kill` is `kill`.
fn method_name(path: &str, verb: &str) -> String {
    let parts: Vec<&str> = path.split('/').skip(2).collect();
    let last = parts[parts.len() - 1];
    let of_one = last
        .starts_with('{')
        .then(|| parts[parts.len() - 2].trim_end_matches('s'));
    let name = of_one.unwrap_or(last).replace('-', "_");
    match verb {
        "get" | "post" => name,
        _ => format!("{verb}_{name}"),
    }
}

/// The body's argument, and its expression. A body of a single key is passed as that key's value.
fn body(operation: &Value, schemas: &Map<String, Value>) -> (Option<String>, String) {
    let content = &operation["requestBody"]["content"]["application/json"]["schema"];
    let Some(reference) = content["$ref"].as_str() else {
        return (None, "None".to_owned());
    };
    let name = name_of(reference);
    if name == "Nothing" {
        return (None, "Some(json!({}))".to_owned());
    }
    let schema = &schemas[name];
    let properties = schema["properties"].as_object().unwrap();
    let only = properties.iter().next().filter(|(key, _)| {
        properties.len() == 1 && is_required(schema, key) && !OPEN.contains(&name)
    });
    match only {
        Some((key, property)) => {
            let plain = type_of(property);
            let given = if plain == "u64" {
                plain
            } else {
                format!("&{plain}")
            };
            let expression = format!("Some(json!({{\"{key}\": {key}}}))");
            (Some(format!("{key}: {given}")), expression)
        }
        None => (
            Some(format!("body: &{name}")),
            "Some(json!(body))".to_owned(),
        ),
    }
}

fn method(path: &str, verb: &str, operation: &Value, schemas: &Map<String, Value>) -> String {
    let mut arguments = Vec::new();
    let mut finds = Vec::new();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let name = parameter["name"].as_str().unwrap();
        if parameter["in"] == "query" {
            arguments.push(format!("{name}: Option<&str>"));
            finds.push(format!("(\"{name}\", {name})"));
            continue;
        }
        let plain = type_of(&parameter["schema"]);
        let given = if plain == "String" {
            "&str".to_owned()
        } else {
            plain
        };
        arguments.push(format!("{name}: {given}"));
    }
    let (argument, expression) = body(operation, schemas);
    arguments.extend(argument);
    let responses = operation["responses"].as_object().unwrap();
    let (_, success) = responses
        .iter()
        .find(|(status, _)| status.starts_with('2'))
        .unwrap();
    let answer = &success["content"]["application/json"]["schema"]["$ref"];
    let answer = answer.as_str().map_or("Value", name_of);
    let name = method_name(path, verb);
    let verb = verb.to_ascii_uppercase();
    let mut text = String::new();
    let summary = operation["summary"].as_str().unwrap();
    writeln!(text, "    /// {summary}").unwrap();
    text.push_str("    ///\n    /// # Errors\n    ///\n    /// There is no answer within 10 s, or it is a refusal.\n");
    arguments.insert(0, "&self".to_owned());
    let together = arguments.join(", ");
    let head = format!("    pub async fn {name}({together}) -> Result<{answer}, ClientError> {{");
    if head.len() <= WIDTH {
        writeln!(text, "{head}").unwrap();
    } else {
        writeln!(text, "    pub async fn {name}(").unwrap();
        for argument in &arguments {
            writeln!(text, "        {argument},").unwrap();
        }
        writeln!(text, "    ) -> Result<{answer}, ClientError> {{").unwrap();
    }
    let is_fixed = !path.contains('{') && finds.is_empty();
    if !finds.is_empty() {
        let finds = finds.join(", ");
        writeln!(
            text,
            "        let path = with_query(\"{path}\", &[{finds}]);"
        )
        .unwrap();
    } else if is_fixed {
        writeln!(text, "        let path = \"{path}\";").unwrap();
    } else {
        let variable = path
            .split('/')
            .find_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let variable = variable.unwrap();
        writeln!(
            text,
            "        let path = format!(\"{path}\", {variable} = segment({variable}));"
        )
        .unwrap();
    }
    let reference = if is_fixed { "path" } else { "&path" };
    writeln!(
        text,
        "        self.ask(Method::{verb}, {reference}, {expression}).await"
    )
    .unwrap();
    text.push_str("    }\n");
    text
}
