//! Checks parts of a pod that are written in Kubernetes' own notation against its schema.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use super::document::Value;

/// Why a value does not fit the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Misfit {
    /// The path within the value; empty: the whole value.
    pub path: String,
    pub why: String,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.why),
            path => write!(f, "{path}: {}", self.why),
        }
    }
}

/// Why this is not a `T`: a wrong type, or unknown fields.
pub(super) fn misfits<T: DeserializeOwned + Serialize>(given: &Json) -> Vec<Misfit> {
    let read: T = match serde_path_to_error::deserialize(given) {
        Ok(read) => read,
        Err(error) => {
            let path = error.path().to_string();
            return vec![Misfit {
                path: if path == "." { String::new() } else { path },
                why: error.into_inner().to_string(),
            }];
        }
    };
    // A field that the type does not have is lost when the value is serialised again.
    let kept = serde_json::to_value(read).unwrap_or_default();
    let mut paths = Vec::new();
    unknown(given, &kept, String::new(), &mut paths);
    let misfit = |path| Misfit {
        path,
        why: "Kubernetes has no such field".to_owned(),
    };
    paths.into_iter().map(misfit).collect()
}

fn unknown(given: &Json, kept: &Json, path: String, all: &mut Vec<String>) {
    match (given, kept) {
        (Json::Object(given), Json::Object(kept)) => {
            for (key, value) in given {
                let inner = match path.as_str() {
                    "" => key.clone(),
                    path => format!("{path}.{key}"),
                };
                match kept.get(key) {
                    Some(kept) => unknown(value, kept, inner, all),
                    None if value.is_null() => {}
                    None => all.push(inner),
                }
            }
        }
        (Json::Array(given), Json::Array(kept)) => {
            for (n, (given, kept)) in given.iter().zip(kept).enumerate() {
                unknown(given, kept, format!("{path}[{n}]"), all);
            }
        }
        _ => {}
    }
}

/// Converts a value of the configuration to JSON. `None`: it is a date, or a number that JSON
/// cannot represent.
pub(super) fn json(value: &Value) -> Option<Json> {
    Some(match value {
        Value::Text(text) => Json::from(text.as_str()),
        Value::Whole(number) => Json::from(i64::try_from(*number).ok()?),
        Value::Number(text) => Json::from(text.parse::<f64>().ok()?),
        Value::Flag(flag) => Json::from(*flag),
        Value::Date(_) => return None,
        Value::List(items) => {
            let items = items.iter().map(|item| json(&item.value));
            Json::Array(items.collect::<Option<_>>()?)
        }
        Value::Table(table) => {
            let fields = table
                .iter()
                .map(|(key, node)| Some((key.clone(), json(&node.value)?)));
            Json::Object(fields.collect::<Option<Map<_, _>>>()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Affinity, PodTemplateSpec};
    use serde_json::json;

    use super::*;

    // spec: K-1, K-5
    #[test]
    fn what_kubernetes_would_not_read_is_told_with_its_place() {
        let container = |fields: Json| json!({"spec": {"containers": [{"name": "a"}, fields]}});
        for (given, told) in [
            (
                container(json!({"name": "b", "imagePullPolcy": "Always"})),
                "spec.containers[1].imagePullPolcy: Kubernetes has no such field",
            ),
            (
                json!({"metadata": {"lables": {}}}),
                "metadata.lables: Kubernetes has no such field",
            ),
            (
                json!({"status": {}}),
                "status: Kubernetes has no such field",
            ),
        ] {
            let misfits = misfits::<PodTemplateSpec>(&given);
            let said: Vec<String> = misfits.iter().map(Misfit::to_string).collect();
            assert_eq!(said, [told]);
        }
        let mistyped = container(json!({"name": "b", "env": {"A": "1"}}));
        let told = misfits::<PodTemplateSpec>(&mistyped)[0].to_string();
        assert!(told.starts_with("spec.containers[1].env: "), "{told}");
        let sound = json!({
            "metadata": {"labels": {"a/b": "c"}, "creationTimestamp": null},
            "spec": {
                "containers": [{"name": "a", "resources": {}, "volumeMounts": []}],
                "volumes": [{"name": "v", "emptyDir": {}}],
            },
        });
        assert_eq!(misfits::<PodTemplateSpec>(&sound), []);
        let affinity = json!({"nodeAffinty": {}});
        assert_eq!(misfits::<Affinity>(&affinity).len(), 1);
    }
}
