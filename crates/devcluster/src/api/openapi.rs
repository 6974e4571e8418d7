//! The OpenAPI documents: enough for kubectl to see which parameters are served.

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

/// The OpenAPI v3 document of a group: its patches and their query parameters, from which kubectl learns that the server
/// validates fields.
pub fn document(group: &str) -> Option<Value> {
    let version = version_of(group);
    if !is_served(group, version) {
        return None;
    }
    let root = match group {
        "" => "/api/v1".to_owned(),
        group => format!("/apis/{group}/{version}"),
    };
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let parameters = ["dryRun", "fieldManager", "fieldValidation"].map(parameter);
    let all = Resource::ALL.into_iter().map(Resource::traits);
    let paths: serde_json::Map<String, Value> = all
        .filter(|t| t.group == group)
        .map(|t| {
            let namespace = match t.namespaced {
                true => "/namespaces/{namespace}",
                false => "",
            };
            let patch = json!({
                "parameters": parameters,
                "responses": {},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind":
                    {"group": t.group, "version": t.version, "kind": t.kind},
            });
            let path = format!("{root}{namespace}/{}/{{name}}", t.plural);
            (path, json!({"patch": patch}))
        })
        .collect();
    let info = json!({"title": "Kubernetes", "version": super::router::VERSION});
    Some(json!({"openapi": "3.0.0", "info": info, "paths": paths}))
}

#[cfg(test)]
mod tests {
    use super::*;

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
