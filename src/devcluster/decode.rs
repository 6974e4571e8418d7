//! From what a client sent to an object of its type.

use serde_json::Value;

use super::object::{set, unset};
use super::resource::Resource;
use super::status::ApiError;

/// An object as its type has it, and what the client sent that the type lacks.
#[derive(Debug)]
pub struct Decoded {
    /// The object.
    pub object: Value,
    /// The fields that were dropped, as `spec.nonsense`.
    pub unknown: Vec<String>,
}

/// Fields whose keys are chosen by the user, in which empty text means something.
const FREE_FORM: [&str; 16] = [
    "labels",
    "annotations",
    "data",
    "binaryData",
    "nodeSelector",
    "matchLabels",
    "selector",
    "limits",
    "requests",
    "capacity",
    "overhead",
    "parameters",
    "stringData",
    "hard",
    "used",
    "allocatable",
];

/// Fields that are written even if they are empty.
const KEPT_EMPTY: [&str; 5] = ["containers", "image", "imageID", "value", "name"];

/// An object as JSON text.
pub fn parse(kind: &str, body: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(body).map_err(|e| {
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {e}"
        ))
    })
}

/// The object as its type has it: unknown fields and empty ones are dropped, wrong types refused.
pub fn object(resource: Resource, mut object: Value) -> Result<Decoded, ApiError> {
    let traits = resource.traits();
    let Some(fields) = object.as_object_mut() else {
        return Err(ApiError::bad_request(format!(
            "the object provided is no {}",
            traits.kind
        )));
    };
    let unlike = |e: &dyn std::fmt::Display, kind: &str, version: &str| {
        let want = traits.kind;
        ApiError::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {want}: {e}"
        ))
    };
    let given = |field: &str, default: &str| match fields.get(field) {
        None | Some(Value::Null) => Ok(default.to_owned()),
        Some(Value::String(s)) if s.is_empty() => Ok(default.to_owned()),
        Some(Value::String(s)) => Ok(s.clone()),
        Some(_) => Err(ApiError::bad_request(format!(
            "couldn't get version/kind; {field} is no string"
        ))),
    };
    let (kind, version) = (
        given("kind", traits.kind)?,
        given("apiVersion", traits.api_version)?,
    );
    if kind != traits.kind || version != traits.api_version {
        return Err(unlike(&"converting it is not possible", &kind, &version));
    }
    fields.insert("kind".into(), kind.as_str().into());
    fields.insert("apiVersion".into(), version.as_str().into());
    // Which client set which field is not tracked here, and what old servers added is of no use.
    for field in ["managedFields", "selfLink"] {
        unset(&mut object, &["metadata", field]);
    }
    let mut typed = resource
        .typed(object.clone())
        .map_err(|e| unlike(&e, traits.kind, traits.api_version))?;
    let mut unknown = Vec::new();
    find_unknown(&object, &typed, &mut String::new(), &mut unknown);
    if typed.get("metadata").is_none() {
        set(
            &mut typed,
            &["metadata"],
            Value::Object(serde_json::Map::new()),
        );
    }
    prune(&mut typed);
    Ok(Decoded {
        object: typed,
        unknown,
    })
}

fn find_unknown(given: &Value, typed: &Value, path: &mut String, unknown: &mut Vec<String>) {
    let before = path.len();
    match (given, typed) {
        (Value::Object(given), Value::Object(typed)) => {
            for (name, value) in given {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
                match typed.get(name) {
                    Some(typed) => find_unknown(value, typed, path, unknown),
                    None if value.is_null() => {}
                    None => unknown.push(path.clone()),
                }
                path.truncate(before);
            }
        }
        (Value::Array(given), Value::Array(typed)) => {
            for (i, (given, typed)) in given.iter().zip(typed).enumerate() {
                path.push_str(&format!("[{i}]"));
                find_unknown(given, typed, path, unknown);
                path.truncate(before);
            }
        }
        _ => {}
    }
}

/// Takes out what real servers do not write: empty lists, texts and maps of the user's own keys.
fn prune(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, field| {
                if FREE_FORM.contains(&name.as_str()) {
                    return field.as_object().is_none_or(|map| !map.is_empty());
                }
                prune(field);
                match field {
                    Value::String(s) if s.is_empty() => KEPT_EMPTY.contains(&name.as_str()),
                    Value::Array(list) if list.is_empty() => KEPT_EMPTY.contains(&name.as_str()),
                    Value::Null => false,
                    _ => true,
                }
            });
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_fields_are_dropped_and_named() {
        let decoded = object(
            Resource::Pods,
            json!({"nonsense": 1, "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "imag": "x"}]}}),
        )
        .expect("a pod");
        assert_eq!(decoded.unknown, ["nonsense", "spec.containers[0].imag"]);
        assert_eq!(decoded.object["nonsense"], Value::Null);
        assert_eq!(decoded.object["kind"], "Pod");
    }

    #[test]
    fn wrong_types_and_kinds_are_bad_requests() {
        for bad in [
            json!([]),
            json!(1),
            json!({"kind": "ConfigMap"}),
            json!({"kind": 1}),
            json!({"apiVersion": "v2"}),
            json!({"metadata": {"labels": {"a": 1}}}),
            json!({"metadata": 7}),
            json!({"spec": {"containers": "none"}}),
        ] {
            let error = object(Resource::Pods, bad.clone()).expect_err("refused");
            assert_eq!((error.code, error.reason), (400, "BadRequest"), "{bad}");
        }
    }

    #[test]
    fn empty_fields_are_not_kept_but_the_users_own_are() {
        let decoded = object(
            Resource::Pods,
            json!({"metadata": {"name": "a", "namespace": "", "labels": {}, "annotations": {"x": ""}}, "spec": {"containers": []}}),
        )
        .expect("a pod");
        assert_eq!(
            decoded.object["metadata"],
            json!({"name": "a", "annotations": {"x": ""}})
        );
    }
}
