//! Builds and reads PersistentVolumeClaims (spec K-10, A-60).

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::labels::LabelScheme;
use super::pod_template::{owner_reference, recommended_labels};
use super::record::record_name;
use super::wire::{PlainMetaWire, record_among};
use boatswain_model::claims::{Claim, ClaimOwner, ClaimShape, ClaimTemplate, DataSource};
use boatswain_model::quantity::Quantity;
use boatswain_model::{AppId, ExecutorId, PodUid, ProfileName};

/// The annotation of a claim that requests no storage class. The class it shows is then the cluster's default class.
const DEFAULT_CLASS: &str = "boatswain.dev/default-storage-class";

/// A volume claim of each executor of a profile, and its mount path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimSpec {
    pub template: ClaimTemplate,
    pub mount_path: String,
}

/// The application and the executor that a claim is made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimFor<'a> {
    pub app_id: &'a AppId,
    /// For display.
    pub app_name: &'a str,
    pub namespace: &'a str,
    pub prefix: &'a str,
    pub labels: LabelScheme,
    pub record: &'a PodUid,
    pub id: ExecutorId,
    pub profile: &'a ProfileName,
    /// The pod's name, and its uid if it exists.
    pub pod: (&'a str, Option<&'a PodUid>),
}

pub fn claim_json(name: &str, template: &ClaimTemplate, of: &ClaimFor<'_>) -> Value {
    let keys = of.labels.keys();
    let mut labels = recommended_labels(of.app_id, of.app_name, "claim");
    for (key, value) in &template.labels {
        labels.insert(key.clone(), value.as_str().into());
    }
    for (key, value) in [
        (keys.app_id, of.app_id.as_str()),
        (keys.executor_id, &of.id.to_string()),
        (keys.profile, of.profile.as_str()),
    ] {
        labels.insert(key.to_owned(), value.into());
    }
    let (pod, uid) = of.pod;
    let owner = match (template.owner, uid) {
        (ClaimOwner::Application, _) => Some(owner_reference(of.prefix, of.record)),
        (ClaimOwner::Executor, Some(uid)) => Some(json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod,
            "uid": uid.as_str(),
            "controller": true,
            "blockOwnerDeletion": false,
        })),
        (ClaimOwner::Executor, None) => None,
    };
    let mut claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": of.namespace,
            "labels": labels,
            "ownerReferences": owner.map(|owner| vec![owner]).unwrap_or_default(),
        },
        "spec": claim_spec(&template.shape),
    });
    let mut annotations = json!(template.annotations);
    if template.shape.storage_class.is_none() {
        annotations[DEFAULT_CLASS] = "true".into();
    }
    if annotations != json!({}) {
        claim["metadata"]["annotations"] = annotations;
    }
    claim
}

pub(super) fn claim_spec(shape: &ClaimShape) -> Value {
    let ClaimShape {
        storage_class,
        attributes_class,
        data_source,
        access_modes,
        bytes,
    } = shape;
    let modes: Vec<&str> = access_modes.iter().map(AsRef::as_ref).collect();
    let mut spec = json!({
        "accessModes": modes,
        "resources": {"requests": {"storage": bytes.to_string()}},
    });
    if let Some(class) = storage_class {
        spec["storageClassName"] = json!(class);
    }
    if let Some(class) = attributes_class {
        spec["volumeAttributesClassName"] = json!(class);
    }
    if let Some(DataSource { group, kind, name }) = data_source {
        spec["dataSource"] = json!({"kind": kind, "name": name});
        if !group.is_empty() {
            spec["dataSource"]["apiGroup"] = json!(group);
        }
    }
    spec
}

/// Reads a claim; `prefix` is the prefix of the record's name. Fails if the text is not a valid claim.
pub(super) fn read_claim(
    json: &str,
    labels: LabelScheme,
    app_id: &AppId,
    prefix: &str,
) -> Result<Claim, String> {
    let wire: Wire = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let meta = wire.metadata;
    let label = |key: &str| meta.labels.as_ref().and_then(|labels| labels.get(key));
    let owners = meta.owner_references.unwrap_or_default();
    let status = wire.status.unwrap_or_default();
    let storage = |amounts: Option<Amounts>| {
        let amount: Option<Quantity> = amounts?.storage?.parse().ok();
        amount.map(|amount| amount.bytes())
    };
    let claimed = storage(wire.spec.resources.and_then(|r| r.requests));
    let has = storage(status.capacity);
    let default = (meta.annotations.as_ref())
        .is_some_and(|annotations| annotations.get(DEFAULT_CLASS).is_some());
    Ok(Claim {
        ours: label(labels.keys().app_id).is_some_and(|id| id == app_id.as_str()),
        record: record_among(&owners, &record_name(prefix)).map(PodUid::from),
        of_a_pod: owners.iter().any(|owner| owner.kind == "Pod"),
        created: meta.creation_timestamp.and_then(|at| at.parse().ok()),
        spent: meta.deletion_timestamp.is_some() || status.phase.as_deref() == Some("Lost"),
        shape: ClaimShape {
            storage_class: (wire.spec.storage_class_name)
                .filter(|_| !default)
                .map(Arc::from),
            attributes_class: (wire.spec.volume_attributes_class_name).map(Arc::from),
            data_source: wire.spec.data_source.map(|source| DataSource {
                group: Arc::from(source.api_group.unwrap_or_default()),
                kind: Arc::from(source.kind),
                name: Arc::from(source.name),
            }),
            access_modes: (wire.spec.access_modes.unwrap_or_default().into_iter())
                .map(Arc::from)
                .collect(),
            bytes: has.or(claimed).unwrap_or(0),
        },
        name: Arc::from(meta.name),
        uid: Arc::from(meta.uid),
    })
}

#[derive(Deserialize)]
struct Wire {
    metadata: PlainMetaWire,
    spec: SpecWire,
    status: Option<StatusWire>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecWire {
    storage_class_name: Option<String>,
    volume_attributes_class_name: Option<String>,
    data_source: Option<DataSourceWire>,
    access_modes: Option<Vec<String>>,
    resources: Option<ResourcesWire>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DataSourceWire {
    api_group: Option<String>,
    kind: String,
    name: String,
}

#[derive(Deserialize)]
struct ResourcesWire {
    requests: Option<Amounts>,
}

#[derive(Default, Deserialize)]
struct StatusWire {
    phase: Option<String>,
    capacity: Option<Amounts>,
}

#[derive(Deserialize)]
struct Amounts {
    storage: Option<String>,
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn template(class: Option<&str>, owner: ClaimOwner) -> ClaimTemplate {
        ClaimTemplate {
            volume: "data".into(),
            shape: ClaimShape {
                storage_class: class.map(Arc::from),
                access_modes: BTreeSet::from(["ReadWriteOnce".into()]),
                bytes: 10 << 30,
                ..ClaimShape::default()
            },
            owner,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
        }
    }

    fn written(template: &ClaimTemplate) -> Value {
        let app: AppId = "etl-1".into();
        let of = ClaimFor {
            app_id: &app,
            app_name: "etl",
            namespace: "jobs",
            prefix: "etl",
            labels: LabelScheme::Boatswain,
            record: &"record".into(),
            id: ExecutorId::FIRST,
            profile: &"default".into(),
            pod: ("etl-exec-1", Some(&"pod".into())),
        };
        claim_json("etl-exec-1-data", template, &of)
    }

    /// The claim as read from a server that has filled in its defaults.
    fn shown(template: &ClaimTemplate) -> Claim {
        let mut json = written(template);
        json["metadata"]["uid"] = "u".into();
        if json["spec"]["storageClassName"].is_null() {
            json["spec"]["storageClassName"] = "standard".into();
        }
        let app: AppId = "etl-1".into();
        read_claim(&json.to_string(), LabelScheme::Boatswain, &app, "etl").unwrap()
    }

    // spec: K-10, A-60
    #[test]
    fn a_claim_is_read_as_requested_whatever_default_class_it_has() {
        let source = DataSource {
            group: "snapshot.storage.k8s.io".into(),
            kind: "VolumeSnapshot".into(),
            name: "base".into(),
        };
        for (class, data_source) in [(None, None), (Some("fast"), Some(source))] {
            let mut template = template(class, ClaimOwner::Application);
            template.shape.attributes_class = data_source.as_ref().map(|_| "gold".into());
            template.shape.data_source = data_source;
            let claim = shown(&template);
            assert_eq!(claim.shape, template.shape);
            assert_eq!(claim.record, Some("record".into()));
            assert!(claim.ours && !claim.of_a_pod && !claim.spent);
        }
    }

    // spec: K-10
    #[test]
    fn a_claim_has_the_templates_labels_and_annotations_beside_boatswains_own() {
        let mut template = template(None, ClaimOwner::Application);
        template.labels = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
        template.annotations = BTreeMap::from([("keep".to_owned(), "7 days".to_owned())]);
        let metadata = written(&template)["metadata"].clone();
        assert_eq!(metadata["labels"]["team"], "a");
        assert_eq!(metadata["labels"]["boatswain.dev/app-id"], "etl-1");
        let annotations = json!({"keep": "7 days", DEFAULT_CLASS: "true"});
        assert_eq!(metadata["annotations"], annotations);
    }

    // spec: K-10
    #[test]
    fn a_claim_owned_by_an_executor_has_its_pod_as_owner() {
        let claim = shown(&template(None, ClaimOwner::Executor));
        assert_eq!((claim.of_a_pod, claim.record), (true, None));
    }

    // spec: A-60
    #[test]
    fn the_size_is_the_volumes_once_it_is_bound() {
        let json = json!({
            "metadata": {"name": "c", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Bound", "capacity": {"storage": "2Gi"}},
        });
        let claim =
            read_claim(&json.to_string(), LabelScheme::Boatswain, &"a".into(), "a").unwrap();
        assert_eq!(claim.shape.bytes, 2 << 30);
        assert!(claim.spent && !claim.ours);
    }
}
