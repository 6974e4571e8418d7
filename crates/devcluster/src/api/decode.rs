//! Decodes a parsed request body into an object of its type: drops unknown fields, and refuses wrong types.

use serde_json::Value;

use super::body;
use super::status::ApiError;
use crate::objects::messages;
use crate::objects::object::{set, unset};
use crate::objects::quantities;
use crate::objects::resource::{Resource, Traits};

/// A decoded object, and the unknown fields that were dropped.
#[derive(Debug)]
pub struct Decoded {
    pub object: Value,
    /// Messages with the paths of the dropped fields, as `unknown field "spec.nonsense"`.
    pub unknown: Vec<String>,
}

/// Fields that are maps with keys chosen by the user, in which an empty string is a value.
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

/// Fields that are serialized even if they are empty.
const KEPT_EMPTY: [&str; 5] = ["containers", "image", "imageID", "value", "name"];

/// Why a body is not an object of the expected type.
#[derive(Debug)]
pub struct DecodeError {
    pub why: String,
    /// The kind and version that the body declares, if any.
    of: Option<(String, String)>,
}

impl DecodeError {
    fn new(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            of: None,
        }
    }

    /// The error for a client that sent the body for an object of kind `want`.
    pub fn refused(self, want: &str, body: &[u8]) -> ApiError {
        let why = self.why;
        ApiError::bad_request(match self.of {
            Some((kind, version)) => {
                format!("{kind} in version \"{version}\" cannot be handled as a {want}: {why}")
            }
            None => format!(
                "the object provided is unrecognized (must be of type {want}): {why} ({})",
                body::summary(body)
            ),
        })
    }
}

pub fn parse(kind: &str, body: &[u8]) -> Result<Value, ApiError> {
    body::json(body).map_err(|why| {
        DecodeError::new(format!(
            "couldn't get version/kind; json parse error: {why}"
        ))
        .refused(kind, body)
    })
}

/// Decodes an object as its type: drops unknown and empty fields, refuses wrong types.
pub fn object(resource: Resource, mut object: Value) -> Result<Decoded, DecodeError> {
    let traits = resource.traits();
    let Some(fields) = object.as_object_mut() else {
        return Err(DecodeError::new(
            "couldn't get version/kind; json parse error: it is no object",
        ));
    };
    let given = |field: &str, default: &str| match fields.get(field) {
        None | Some(Value::Null) => Ok(default.to_owned()),
        Some(Value::String(s)) if s.is_empty() => Ok(default.to_owned()),
        Some(Value::String(s)) => Ok(s.clone()),
        Some(_) => Err(DecodeError::new(format!(
            "couldn't get version/kind; json parse error: {field} is no string"
        ))),
    };
    let (kind, version) = (
        given("kind", traits.kind)?,
        given("apiVersion", traits.api_version)?,
    );
    if kind != traits.kind || version != traits.api_version {
        return Err(other_kind(traits, kind, version));
    }
    let unlike = |why: String| DecodeError {
        why,
        of: Some((traits.kind.to_owned(), traits.version.to_owned())),
    };
    fields.insert("kind".into(), kind.into());
    fields.insert("apiVersion".into(), version.into());
    unset(&mut object, &["metadata", "selfLink"]);
    unset(&mut object, &["metadata", "managedFields"]);
    if matches!(resource, Resource::Leases | Resource::Events) {
        micro_times(&object).map_err(unlike)?;
    }
    let mut typed = resource.typed(&object).map_err(unlike)?;
    quantities::normalize(&mut typed).map_err(unlike)?;
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

/// The error for an object of another kind than the path's.
fn other_kind(traits: &Traits, kind: String, version: String) -> DecodeError {
    let wanted = traits.kind;
    let why = format!("no conversion of kind \"{kind}\" of version \"{version}\" to {wanted}");
    let version = version.rsplit('/').next().unwrap_or_default().to_owned();
    DecodeError {
        why,
        of: Some((kind, version)),
    }
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
                    None => messages::add(unknown, format!("unknown field \"{path}\"")),
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

/// The times with microseconds, which real servers read in no other form.
const MICRO_TIMES: [&str; 5] = [
    "/spec/acquireTime",
    "/spec/renewTime",
    "/eventTime",
    "/series/lastObservedTime",
    "/deprecatedSeries/lastObservedTime",
];

fn micro_times(object: &Value) -> Result<(), String> {
    for time in MICRO_TIMES
        .iter()
        .filter_map(|path| object.pointer(path)?.as_str())
    {
        let fraction = time.split_once('.').map_or("", |(_, rest)| rest);
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits != 6 || time.parse::<jiff::Timestamp>().is_err() {
            let form = "2006-01-02T15:04:05.000000Z07:00";
            return Err(format!(
                "parsing time {time:?} as {form:?}: cannot parse {time:?}"
            ));
        }
    }
    Ok(())
}

/// Drops what real servers omit when they serialize: empty lists, strings and free-form maps.
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
    fn unknown_fields_are_dropped_and_reported() {
        let decoded = object(
            Resource::Pods,
            json!({"nonsense": 1, "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "imag": "x"}]}}),
        )
        .expect("a pod");
        let unknown = [
            "unknown field \"nonsense\"",
            "unknown field \"spec.containers[0].imag\"",
        ];
        assert_eq!(decoded.unknown, unknown);
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
            let error = error.refused("Pod", b"{}");
            assert_eq!((error.code, error.reason), (400, "BadRequest"), "{bad}");
        }
    }

    #[test]
    fn empty_fields_are_dropped_except_in_free_form_maps() {
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
