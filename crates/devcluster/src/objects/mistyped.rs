//! Error messages for values of the wrong type, in the words of real servers, which name fields as Go's JSON decoder
//! does.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

/// The Go struct of a field's value, where it differs from the field's name. Other structs are named after the object's
/// kind.
const STRUCTS: [(&str, &str); 32] = [
    ("metadata", "ObjectMeta"),
    ("ownerReferences", "OwnerReference"),
    ("containers", "Container"),
    ("initContainers", "Container"),
    ("ephemeralContainers", "EphemeralContainer"),
    ("resources", "ResourceRequirements"),
    ("env", "EnvVar"),
    ("valueFrom", "EnvVarSource"),
    ("envFrom", "EnvFromSource"),
    ("volumeMounts", "VolumeMount"),
    ("volumes", "Volume"),
    ("emptyDir", "EmptyDirVolumeSource"),
    ("configMap", "ConfigMapVolumeSource"),
    ("secret", "SecretVolumeSource"),
    ("projected", "ProjectedVolumeSource"),
    ("securityContext", "SecurityContext"),
    ("affinity", "Affinity"),
    ("tolerations", "Toleration"),
    ("lifecycle", "Lifecycle"),
    ("livenessProbe", "Probe"),
    ("readinessProbe", "Probe"),
    ("startupProbe", "Probe"),
    ("conditions", "PodCondition"),
    ("containerStatuses", "ContainerStatus"),
    ("initContainerStatuses", "ContainerStatus"),
    ("schedulingGates", "PodSchedulingGate"),
    ("readinessGates", "PodReadinessGate"),
    ("topologySpreadConstraints", "TopologySpreadConstraint"),
    ("imagePullSecrets", "LocalObjectReference"),
    ("hostAliases", "HostAlias"),
    ("subjects", "Subject"),
    ("rules", "PolicyRule"),
];

/// Fields whose values are maps with user-defined keys; messages omit the keys.
const MAPS: [&str; 9] = [
    "labels",
    "annotations",
    "nodeSelector",
    "selector",
    "matchLabels",
    "limits",
    "requests",
    "data",
    "hard",
];

/// Why a value cannot be decoded as an object of its type.
#[derive(Debug)]
pub struct Mistyped {
    /// The path of the wrong value, if it is known.
    path: Option<Path>,
    found: Value,
    why: String,
}

impl Mistyped {
    /// Finds the wrong value, given the error that decoding returned.
    pub fn of<T: DeserializeOwned>(object: &Value, error: serde_json::Error) -> Self {
        match serde_path_to_error::deserialize::<_, T>(object) {
            Ok(_) => Self {
                path: None,
                found: Value::Null,
                why: error.to_string(),
            },
            Err(error) => Self {
                path: Some(error.path().clone()),
                found: value_at(object, error.path()).cloned().unwrap_or_default(),
                why: error.inner().to_string(),
            },
        }
    }

    /// The type that serde expected, if its message contains one.
    fn expected(&self) -> Option<&str> {
        let (_, expected) = self
            .why
            .strip_prefix("invalid type: ")?
            .rsplit_once("expected ")?;
        Some(expected)
    }

    pub fn in_object(&self, kind: &str) -> String {
        let Some(path) = &self.path else {
            return self.why.clone();
        };
        let field = field(kind, path);
        let found = match &self.found {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        match self.expected() {
            Some(expected) => {
                let wanted = go_type(path, expected);
                let literal = match &self.found {
                    Value::Number(number) if wanted.starts_with("int") => format!(" {number}"),
                    _ => String::new(),
                };
                format!(
                    "json: cannot unmarshal {found}{literal} into Go struct field {field} of type {wanted}"
                )
            }
            None => format!("{field}: {}", self.why),
        }
    }
}

/// The field names of a path, without list indices and user-defined keys.
fn names(path: &Path) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for segment in path.iter() {
        if let Segment::Map { key } = segment {
            if names.last().is_some_and(|last| MAPS.contains(last)) {
                break;
            }
            names.push(key);
        }
    }
    names
}

/// The field as Go names it, struct first: `ObjectMeta.metadata.name`.
fn field(kind: &str, path: &Path) -> String {
    let names = names(path);
    let parents = names.split_last().map_or(&[][..], |(_, parents)| parents);
    let holder = match parents {
        [.., "spec"] => format!("{kind}Spec"),
        [.., "status"] => format!("{kind}Status"),
        [.., last] => struct_of(last).unwrap_or(kind).to_owned(),
        [] => kind.to_owned(),
    };
    format!("{holder}.{}", names.join("."))
}

fn struct_of(name: &str) -> Option<&'static str> {
    let found = STRUCTS.iter().find(|(field, _)| *field == name);
    found.map(|(_, name)| *name)
}

/// The Go type for one in serde's message.
fn go_type(path: &Path, expected: &str) -> String {
    let names = names(path);
    let last = names.last().copied().unwrap_or_default();
    match expected {
        "a string" | "a borrowed string" => "string".to_owned(),
        "a boolean" => "bool".to_owned(),
        "i32" | "i64" => expected.replace('i', "int"),
        "f64" => "float64".to_owned(),
        "a sequence" => match struct_of(last) {
            Some(name) => format!("[]v1.{name}"),
            None => "[]string".to_owned(),
        },
        "a map" => "map[string]string".to_owned(),
        // Structs are expected by their name.
        other => format!("v1.{}", other.trim_start_matches("struct ")),
    }
}

fn value_at<'a>(object: &'a Value, path: &Path) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, step| match step {
        Segment::Seq { index } => value.get(index),
        Segment::Map { key } => value.get(key),
        Segment::Enum { .. } | Segment::Unknown => None,
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    fn message(pod: Value) -> String {
        let error = serde_json::from_value::<Pod>(pod.clone()).expect_err("mistyped");
        Mistyped::of::<Pod>(&pod, error).in_object("Pod")
    }

    #[test]
    fn errors_name_the_field_as_real_servers_do() {
        let pod = |field: Value| json!({"spec": {"containers": [{"name": "a"}, {"name": "b", "env": field}]}});
        for (bad, want) in [
            (
                json!({"metadata": {"name": 5}}),
                "number into Go struct field ObjectMeta.metadata.name of type string",
            ),
            (
                json!({"metadata": {"labels": {"a.b/c": true}}}),
                "bool into Go struct field ObjectMeta.metadata.labels of type string",
            ),
            (
                json!({"metadata": {"labels": ["a"]}}),
                "array into Go struct field ObjectMeta.metadata.labels of type map[string]string",
            ),
            (
                json!({"spec": {"containers": {}}}),
                "object into Go struct field PodSpec.spec.containers of type []v1.Container",
            ),
            (
                json!({"spec": {"terminationGracePeriodSeconds": "x"}}),
                "string into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64",
            ),
            (
                pod(json!([{"name": 1}])),
                "number into Go struct field EnvVar.spec.containers.env.name of type string",
            ),
            (
                json!({"spec": []}),
                "array into Go struct field Pod.spec of type v1.PodSpec",
            ),
        ] {
            assert_eq!(message(bad), format!("json: cannot unmarshal {want}"));
        }
    }
}
