//! The OpenAPI documents: enough for clients to see which resources and parameters are served.

use serde_json::{Value, json};

use super::discovery::{GROUPS, is_served, version_of};
use crate::objects::resource::Resource;

/// The index of the OpenAPI v3 documents.
pub fn paths() -> Value {
    let entry = |path: String| {
        let url = format!("/openapi/v3/{path}?hash={}", env!("CARGO_PKG_VERSION"));
        (path, json!({"serverRelativeURL": url}))
    };
    let mut paths: serde_json::Map<String, Value> = GROUPS
        .iter()
        .map(|group| entry(format!("apis/{group}/{}", version_of(group))))
        .collect();
    let (path, value) = entry("api/v1".to_owned());
    paths.insert(path, value);
    json!({"paths": paths})
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": super::router::VERSION})
}

/// The query parameters from which clients learn what the server supports.
fn parameters() -> Value {
    let text = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let mut force = text("force");
    force["schema"]["type"] = "boolean".into();
    json!([
        text("dryRun"),
        text("fieldManager"),
        text("fieldValidation"),
        force
    ])
}

/// The OpenAPI v3 document of a group. It lists kinds and paths; the schemas accept any field.
pub fn document(group: &str) -> Option<Value> {
    let version = version_of(group);
    if !is_served(group, version) {
        return None;
    }
    let root = if group.is_empty() {
        "/api/v1".to_owned()
    } else {
        format!("/apis/{group}/{version}")
    };
    let mut paths = serde_json::Map::new();
    let mut schemas = serde_json::Map::new();
    for resource in Resource::ALL {
        let t = resource.traits();
        if t.group != group {
            continue;
        }
        let kind = json!({"group": t.group, "version": t.version, "kind": t.kind});
        let schema = schema_name(t.group, t.kind);
        let namespace = if t.namespaced {
            "/namespaces/{namespace}"
        } else {
            ""
        };
        let response = json!({
            "description": "OK",
            "content": {"application/json": {"schema": {"$ref": format!("#/components/schemas/{schema}")}}},
        });
        let operation = |action: &str, parameters: Value| {
            json!({
                "operationId": format!("{action}{}", t.kind),
                "parameters": parameters,
                "responses": {"200": response},
                "x-kubernetes-action": action,
                "x-kubernetes-group-version-kind": kind,
            })
        };
        let many =
            json!({"get": operation("list", json!([])), "post": operation("post", parameters())});
        let one = json!({
            "get": operation("get", json!([])),
            "put": operation("put", parameters()),
            "patch": operation("patch", parameters()),
            "delete": operation("delete", parameters()),
        });
        paths.insert(format!("{root}{namespace}/{}", t.plural), many);
        paths.insert(format!("{root}{namespace}/{}/{{name}}", t.plural), one);
        schemas.insert(schema, definition(&kind));
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": info(),
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

fn schema_name(group: &str, kind: &str) -> String {
    let package = group.split('.').next().unwrap_or_default();
    let package = if package.is_empty() { "core" } else { package };
    format!("io.k8s.api.{package}.{}.{kind}", version_of(group))
}

fn definition(kind: &Value) -> Value {
    json!({
        "type": "object",
        "description": "The embedded cluster does not describe the fields of this kind; see the documentation of Kubernetes.",
        "x-kubernetes-group-version-kind": [kind],
    })
}

/// The OpenAPI v2 document, for all groups.
pub fn swagger() -> Value {
    let definitions: serde_json::Map<String, Value> = Resource::ALL
        .into_iter()
        .map(|resource| {
            let t = resource.traits();
            let kind = json!({"group": t.group, "version": t.version, "kind": t.kind});
            (schema_name(t.group, t.kind), definition(&kind))
        })
        .collect();
    json!({"swagger": "2.0", "info": info(), "paths": {}, "definitions": definitions})
}

/// The media type of the protobuf form of that document, and an older name of it.
pub const BINARY_SWAGGER: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
];

/// The OpenAPI v2 document in protobuf. It defines no kinds, because clients would validate objects against a
/// definition.
pub fn binary_swagger() -> Vec<u8> {
    /// The field numbers of `openapi.v2.Document` and of its `Info`.
    const SWAGGER: u8 = 1;
    const INFO: u8 = 2;
    const TITLE: u8 = 1;
    const VERSION: u8 = 2;
    // A length-delimited field: tag, length, bytes. A length below 128 fits into one byte.
    let field = |number: u8, bytes: &[u8]| {
        [
            &[
                number << 3 | 2,
                u8::try_from(bytes.len()).unwrap_or_default(),
            ],
            bytes,
        ]
        .concat()
    };
    let info = [
        field(TITLE, b"Kubernetes"),
        field(VERSION, super::router::VERSION.as_bytes()),
    ];
    [field(SWAGGER, b"2.0"), field(INFO, &info.concat())].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stored_kind_has_a_schema() {
        for resource in Resource::ALL {
            let t = resource.traits();
            let document = document(t.group).expect("a document");
            assert!(document["components"]["schemas"][schema_name(t.group, t.kind)].is_object());
        }
        assert_eq!(document("none.example.com"), None);
    }

    #[test]
    fn the_protobuf_document_has_a_title_and_a_version() {
        let version = super::super::router::VERSION;
        let length = u8::try_from(version.len()).expect("short");
        let want = [
            b"\x0a\x032.0\x12" as &[u8],
            &[14 + length],
            b"\x0a\x0aKubernetes\x12",
            &[length],
            version.as_bytes(),
        ];
        assert_eq!(binary_swagger(), want.concat());
    }

    #[test]
    fn patch_lists_the_field_validation_parameter() {
        let document = document("").expect("the core group");
        let patch = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
        let names: Vec<&Value> = patch["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|p| &p["name"])
            .collect();
        assert!(names.contains(&&json!("fieldValidation")));
        assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Pod");
    }
}
