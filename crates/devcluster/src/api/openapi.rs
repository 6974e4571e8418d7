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
