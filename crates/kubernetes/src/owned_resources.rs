//! The single objects that the application record owns: the ConfigMap that executors mount (spec K-8) and the Service
//! that names the driver (spec K-9).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::pod_template::recommended_labels;
use super::record::RecordPlace;
use boatswain_model::AppId;

/// An object of which the application has exactly one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedResource {
    /// The resource's plural name, such as `configmaps`.
    pub resource: &'static str,
    pub name: String,
    /// The whole object, without its owner.
    pub json: Value,
}

/// The content of the ConfigMap that executors mount.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Content {
    pub texts: BTreeMap<String, String>,
    /// Binary values in base64, by key.
    pub bytes: BTreeMap<String, String>,
}

pub fn config_map_name(prefix: &str) -> String {
    format!("{prefix}-executor")
}

pub fn service_name(prefix: &str) -> String {
    format!("{prefix}-driver")
}

/// Builds the ConfigMap that executors mount (spec K-8).
pub fn config_map(place: &RecordPlace, app_id: &AppId, content: &Content) -> OwnedResource {
    let name = config_map_name(&place.prefix);
    let mut json = object(place, app_id, "ConfigMap", &name, "executor");
    json["data"] = json!(content.texts);
    if !content.bytes.is_empty() {
        json["binaryData"] = json!(content.bytes);
    }
    OwnedResource {
        resource: "configmaps",
        name,
        json,
    }
}

pub fn secret_name(prefix: &str) -> String {
    format!("{prefix}-tls")
}

/// Builds the Secret with the driver's own CA (spec O-62). The values are in base64.
pub fn secret(
    place: &RecordPlace,
    app_id: &AppId,
    data: &BTreeMap<&'static str, String>,
) -> OwnedResource {
    let name = secret_name(&place.prefix);
    let mut json = object(place, app_id, "Secret", &name, "driver");
    json["type"] = "Opaque".into();
    json["data"] = json!(data);
    OwnedResource {
        resource: "secrets",
        name,
        json,
    }
}

/// Builds the headless Service that points to the driver's pod, ready or not, at this port (spec K-9).
pub fn service(
    place: &RecordPlace,
    app_id: &AppId,
    selector: &BTreeMap<String, String>,
    port: u16,
) -> OwnedResource {
    let name = service_name(&place.prefix);
    let mut json = object(place, app_id, "Service", &name, "driver");
    json["spec"] = json!({
        "clusterIP": "None",
        "publishNotReadyAddresses": true,
        "selector": selector,
        "ports": [{"name": "sessions", "port": port, "targetPort": port, "protocol": "TCP"}],
    });
    OwnedResource {
        resource: "services",
        name,
        json,
    }
}

fn object(place: &RecordPlace, app_id: &AppId, kind: &str, name: &str, component: &str) -> Value {
    let mut labels = recommended_labels(app_id, &place.app_name, component);
    labels.insert(
        place.labels.keys().app_id.to_owned(),
        app_id.as_str().into(),
    );
    json!({
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": place.namespace, "labels": labels},
    })
}

/// Whether an existing object is as wanted. Servers fill in omitted fields, but data, a Service's selector and owners
/// must match exactly.
pub(super) fn is_as_wanted(there: &Value, wanted: &Value) -> bool {
    let whole = |pointer: &str| {
        let part = |object: &Value| {
            object
                .pointer(pointer)
                .cloned()
                .filter(|part| !is_empty(part))
        };
        part(there) == part(wanted)
    };
    ["/data", "/binaryData", "/spec/selector"]
        .into_iter()
        .all(whole)
        && holds(there, wanted)
}

fn is_empty(part: &Value) -> bool {
    part.is_null() || part.as_object().is_some_and(serde_json::Map::is_empty)
}

/// Whether `there` contains all of `wanted`. Lists must have the same length.
fn holds(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => wanted.iter().all(|(key, wanted)| {
            is_empty(wanted) || there.get(key).is_some_and(|there| holds(there, wanted))
        }),
        (Value::Array(there), Value::Array(wanted)) => {
            there.len() == wanted.len() && there.iter().zip(wanted).all(|(a, b)| holds(a, b))
        }
        (there, wanted) => there == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LabelScheme;

    fn place() -> RecordPlace {
        RecordPlace {
            namespace: "jobs".to_owned(),
            prefix: "etl".to_owned(),
            app_name: "etl".to_owned(),
            labels: LabelScheme::Boatswain,
            owner: None,
        }
    }

    // spec: K-8
    #[test]
    fn added_data_is_a_difference_and_omitted_empty_data_is_none() {
        let texts = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        let content = Content {
            texts,
            ..Content::default()
        };
        let wanted = config_map(&place(), &"etl-1".into(), &content).json;
        let mut there = wanted.clone();
        there["metadata"]["uid"] = "u".into();
        assert!(is_as_wanted(&there, &wanted));
        there["data"]["b"] = "2".into();
        assert!(!is_as_wanted(&there, &wanted), "something was added");
        let empty = config_map(&place(), &"etl-1".into(), &Content::default()).json;
        let mut there = empty.clone();
        there["data"].take();
        assert!(
            is_as_wanted(&there, &empty),
            "servers leave out what is empty"
        );
    }

    // spec: K-9
    #[test]
    fn the_service_is_headless_and_includes_a_driver_that_is_not_ready() {
        let selector = BTreeMap::from([("app".to_owned(), "driver".to_owned())]);
        let wanted = service(&place(), &"etl-1".into(), &selector, 7078).json;
        assert_eq!(wanted["spec"]["clusterIP"], "None");
        assert_eq!(wanted["spec"]["publishNotReadyAddresses"], true);
        let mut there = wanted.clone();
        there["spec"]["type"] = "ClusterIP".into();
        assert!(is_as_wanted(&there, &wanted), "what a server fills in");
        there["spec"]["ports"][0]["port"] = 1.into();
        assert!(!is_as_wanted(&there, &wanted));
        there = wanted.clone();
        there["spec"]["selector"]["pod-template-hash"] = "5f".into();
        assert!(!is_as_wanted(&there, &wanted), "it leads to fewer pods");
    }
}
