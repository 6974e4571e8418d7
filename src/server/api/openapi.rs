//! Generates the OpenAPI document from the table of routes and the schemas in `schemas.json`.

use http::Method;
use serde_json::{Map, Value, json};

use super::packed::packed;
use super::table::{Answers, Route, table};
use crate::model::LossClass;

/// The schemas of requests and answers, each with examples.
static SCHEMAS: &[u8] = packed!("schemas.json");

const REFUSALS: [(u16, &str); 10] = [
    (400, "The request is malformed"),
    (401, "No token, or an unknown one"),
    (403, "The token may only read"),
    (404, "Not found"),
    (408, "The body did not arrive in time"),
    (409, "Not in the present state"),
    (413, "The body is too long"),
    (
        422,
        "The request is well-formed, but its content is invalid",
    ),
    (429, "Too many concurrent requests"),
    (
        503,
        "The driver is ending, or has not adopted its executors yet",
    ),
];

pub fn document() -> Value {
    let mut paths = Map::new();
    for route in table() {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation(&route);
    }
    // The schemas are compiled in, and a test parses them.
    let mut schemas: Value = serde_json::from_slice(SCHEMAS).unwrap_or_default();
    let classes = LossClass::ALL.iter();
    schemas["Reason"]["enum"] = classes.map(|(name, _)| *name).collect();
    let token = json!({"type": "http", "scheme": "bearer"});
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "boatswain",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Queries and commands for a running driver.",
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"token": token}},
    })
}

fn operation(route: &Route) -> Value {
    let mut answers = Map::new();
    let content = match route.answers {
        Answers::Json("") => json!({"application/json": {}}),
        Answers::Json(schema) => json!({"application/json": {"schema": named(schema)}}),
        Answers::Text(kind) => json!({kind: {"schema": {"type": "string"}}}),
    };
    let good = json!({"description": "As asked", "content": content});
    answers.insert(route.status.to_string(), good);
    for (status, meaning) in REFUSALS
        .iter()
        .filter(|(status, _)| may_answer(route, *status))
    {
        let problem = json!({"application/json": {"schema": named("Problem")}});
        let mut answer = json!({"description": meaning, "content": problem});
        if *status == 503 {
            let about =
                "Seconds after which the request, which was not carried out, is worth repeating";
            answer["headers"] =
                json!({"Retry-After": {"description": about, "schema": {"type": "integer"}}});
        }
        answers.insert(status.to_string(), answer);
    }
    let mut operation = json!({"summary": route.summary, "responses": answers});
    if !route.open {
        operation["security"] = json!([{"token": []}]);
    }
    let parameters = parameters(route);
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(schema) = route.takes {
        operation["requestBody"] = json!({
            "required": true,
            "content": {"application/json": {"schema": named(schema)}},
        });
    }
    operation
}

/// Whether a route may answer with this status, itself or by authentication or asking an actor.
pub(super) fn may_answer(route: &Route, status: u16) -> bool {
    let in_common = match status {
        401 | 408 | 413 | 429 => !route.open,
        403 => route.method != Method::GET,
        503 => true,
        _ => false,
    };
    in_common || route.refusals.contains(&status)
}

fn parameters(route: &Route) -> Vec<Value> {
    let names = route.path.split('/').filter_map(|part| {
        part.strip_prefix('{')
            .and_then(|part| part.strip_suffix('}'))
    });
    let mut parameters: Vec<Value> = names
        .map(|name| {
            let schema = match name {
                "id" => named("Id"),
                _ => json!({"type": "string"}),
            };
            json!({"name": name, "in": "path", "required": true, "schema": schema})
        })
        .collect();
    for (name, about) in route.finds {
        let schema = json!({"type": "string"});
        parameters
            .push(json!({"name": name, "in": "query", "description": about, "schema": schema}));
    }
    if route.answers == Answers::Text("text/event-stream") {
        let schema = json!({"type": "string", "pattern": "^[0-9]+-[0-9]+$"});
        for (name, place) in [("after", "query"), ("Last-Event-ID", "header")] {
            let about = "The last event that the client has";
            parameters
                .push(json!({"name": name, "in": place, "description": about, "schema": schema}));
        }
    }
    parameters
}

fn named(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

#[cfg(test)]
mod tests;
