//! Decodes a pod's JSON into the fields the driver keeps (spec E-14), or into whatever could be read (spec S-15).

mod containers;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;

use super::draining;
use super::labels::{
    BLOCK, DELETION_COST, DRAINING, EXECUTOR_ROLE, INACTIVE, LabelScheme, MAX_LABEL_VALUE,
    PROTECTION, QUEUE,
};
use super::refusal::clean;
use super::wire::{
    MetaSkeleton, MetaWire, OwnerWire, Pairs, PodWire, Skeleton, SpecWire, StatusWire, Text,
};
use boatswain_model::claims::PodClaim;
use boatswain_model::ids::{ExecutorId, Incarnation, PodUid, id_in_pod_name, pod_name};
use boatswain_model::planted::{self, Planted};
use boatswain_model::pod::{
    Deletion, Disruption, Phase, PodIdentity, Scheduling, Sighting, Unreadable, cut,
};
use boatswain_model::{AppId, Pod, ResourceVersion};
use containers::Containers;

/// The maximum length of a Kubernetes name or uid. A longer value is rejected, to bound memory.
const MAX_NAME_BYTES: usize = 253;

/// The condition that a node sets once the pod's volumes are mounted and its network is set up, before it pulls images.
const PREPARED: &str = "PodReadyToStartContainers";

/// The standard conditions of every pod.
const ORDINARY_CONDITIONS: [&str; 5] = [
    "PodScheduled",
    PREPARED,
    "Initialized",
    "ContainersReady",
    "Ready",
];

/// The maximum number of other conditions kept per pod (spec E-14).
const MAX_CONDITIONS: usize = 4;

/// The maximum number of volume claims kept per pod; no profile has this many (spec A-60).
const MAX_CLAIMS: usize = 32;

/// Decodes pods: it knows the application they must belong to and the name of the executor container.
#[derive(Debug, Clone)]
pub struct PodReader {
    pub app_id: AppId,
    /// The prefix of the application's pod names.
    pub prefix: Arc<str>,
    /// The application record's name, which identifies it among a pod's owner references.
    pub record: Arc<str>,
    /// The scheme of the label keys to read.
    pub labels: LabelScheme,
    /// The name of the executor container.
    pub container: Arc<str>,
    /// Whether any container that exits with a non-zero code makes the pod count as Failed.
    pub check_all_containers: bool,
    /// Whether sets make the pods, so that a pod's name does not contain its executor id.
    pub of_sets: bool,
}

impl PodReader {
    /// Decodes a pod. If the text is not a valid pod, returns the parts that could be read.
    pub fn read(&self, json: &str) -> Sighting {
        match self.try_read(json) {
            Ok(pod) => Sighting::Read(Arc::new(pod)),
            Err(why) => Sighting::Unreadable(self.skeleton(json, &why)),
        }
    }

    fn try_read(&self, json: &str) -> Result<Pod, String> {
        self.pod(serde_json::from_str(json).map_err(|_| where_it_fails(json))?)
    }

    /// Converts a parsed pod; the error names the field that is invalid.
    pub(super) fn pod(&self, wire: PodWire<'_>) -> Result<Pod, String> {
        if let Some(kind) = &wire.kind
            && kind.0 != "Pod"
        {
            return Err(format!("it is a {}", clean(&kind.0, 64)));
        }
        let meta = wire.metadata.unwrap_or_default();
        let spec = wire.spec.unwrap_or_default();
        let status = wire.status.unwrap_or_default();
        let name = required(&meta.name, "metadata.name")?;
        let uid = required(&meta.uid, "metadata.uid")?;
        let version = text(&meta.resource_version)
            .and_then(ResourceVersion::parse)
            .ok_or("metadata.resourceVersion: no unsigned integer")?;
        let labels = meta.labels.as_ref();
        let annotations = meta.annotations.as_ref();
        let deletion = deletion(&meta);
        let Containers {
            executor,
            memory_limit,
            resizes,
            probed,
            init,
            failed_sidecar,
            restarts,
        } = self.containers(&spec, &status, deletion.is_some());
        Ok(Pod {
            identity: self.identity(name, labels),
            uid: PodUid::from(uid),
            name: Arc::from(name),
            version,
            created: time(&meta.creation_timestamp),
            deletion,
            phase: Phase::parse(text(&status.phase).unwrap_or_default()),
            reason: kept(&status.reason),
            message: kept(&status.message),
            node: kept(&spec.node_name),
            ip: text(&status.pod_ip).and_then(|ip| ip.parse().ok()),
            host_ip: text(&status.host_ip).and_then(|ip| ip.parse().ok()),
            volume_claims: volume_claims(&spec),
            scheduling: scheduling(&spec, &status),
            awaits_node: awaits_node(&status),
            disruption: disruption(&status),
            conditions: conditions(&status),
            executor,
            memory_limit,
            resizes,
            probed,
            init: init.map(Arc::new),
            failed_sidecar: failed_sidecar.map(Arc::new),
            draining: annotations
                .and_then(|pairs| pairs.get(DRAINING))
                .and_then(draining::read)
                .map(Arc::new),
            is_protected: annotations.is_some_and(|pairs| {
                (PROTECTION.iter()).all(|(key, value)| pairs.get(key) == Some(value))
            }),
            deletion_cost: annotations
                .and_then(|pairs| pairs.get(DELETION_COST)?.parse().ok())
                .unwrap_or_default(),
            block: labels.and_then(|pairs| pairs.get(BLOCK)?.parse().ok()),
            queue: labels.and_then(|pairs| pairs.get(QUEUE)).map(cut),
            owner: self.owner(meta.owner_references.as_deref().unwrap_or_default()),
            restarts,
        })
    }

    /// Extracts the identifying fields of a pod that could not be decoded.
    fn skeleton(&self, json: &str, why: &str) -> Unreadable {
        let meta: MetaSkeleton<'_> = serde_json::from_str::<Skeleton<'_>>(json)
            .ok()
            .and_then(|part| serde_json::from_str(part.metadata?.get()).ok())
            .unwrap_or_default();
        let part = |raw: Option<&serde_json::value::RawValue>| {
            let text = Text::deserialize(raw?).ok()?.0.into_owned();
            (!text.is_empty() && text.len() <= MAX_NAME_BYTES).then_some(text)
        };
        let name = part(meta.name);
        let labels = meta
            .labels
            .and_then(|labels| serde_json::from_str::<Pairs<'_>>(labels.get()).ok());
        let identity =
            (name.as_ref().zip(labels)).map(|(name, labels)| self.identity(name, Some(&labels)));
        Unreadable {
            name: name.map(Arc::from),
            uid: part(meta.uid).map(PodUid::from),
            version: part(meta.resource_version).and_then(|text| ResourceVersion::parse(&text)),
            identity,
            error: clean(why, 512),
        }
    }

    /// The pod's identity according to its labels and its name (spec E-1, E-2).
    fn identity(&self, name: &str, labels: Option<&Pairs<'_>>) -> PodIdentity {
        let keys = self.labels.keys();
        let label = |key| labels.and_then(|pairs| pairs.get(key));
        let foreign = |key: &str| PodIdentity::Foreign {
            label: Arc::from(key),
        };
        if label(keys.app_id) != Some(self.app_id.as_str()) {
            return foreign(keys.app_id);
        }
        if label(keys.role) != Some(EXECUTOR_ROLE) {
            return foreign(keys.role);
        }
        if label(keys.inactive) == Some(INACTIVE) {
            return foreign(keys.inactive);
        }
        let unrecognised = |why: String| PodIdentity::Unrecognised { why: cut(&why) };
        let short = |key| label(key).filter(|value| value.len() <= MAX_LABEL_VALUE);
        let profile = || short(keys.profile).map(Into::into);
        if self.of_sets && label(keys.executor_id).is_none() {
            return PodIdentity::UnassignedPod { profile: profile() };
        }
        let Some(id) = label(keys.executor_id) else {
            return unrecognised(format!("it has no label {}", keys.executor_id));
        };
        let id = match ExecutorId::parse(id) {
            Ok(id) => id,
            Err(why) => {
                return unrecognised(format!(
                    "its label {} is {:?}: {why}",
                    keys.executor_id,
                    clean(id, 64)
                ));
            }
        };
        let named = id_in_pod_name(&self.prefix, name) == Some(id);
        if !self.of_sets && !named && !planted::is(Planted::NameUnchecked) {
            return unrecognised(format!(
                "its label {} is {id}, but that one's name would be {}",
                keys.executor_id,
                pod_name(&self.prefix, id)
            ));
        }
        PodIdentity::Executor {
            id,
            profile: profile(),
            incarnation: short(keys.incarnation)
                .and_then(|value| value.parse().ok())
                .map(Incarnation),
        }
    }

    fn owner(&self, owners: &[OwnerWire<'_>]) -> Option<PodUid> {
        let record = owners.iter().find(|owner| {
            text(&owner.kind) == Some("ConfigMap") && text(&owner.name) == Some(&*self.record)
        })?;
        text(&record.uid)
            .filter(|uid| uid.len() <= MAX_NAME_BYTES)
            .map(PodUid::from)
    }
}

fn text<'a>(field: &'a Option<Text<'_>>) -> Option<&'a str> {
    field.as_ref().map(|text| &*text.0)
}

fn kept(field: &Option<Text<'_>>) -> Option<Arc<str>> {
    text(field).filter(|text| !text.is_empty()).map(cut)
}

fn time(field: &Option<Text<'_>>) -> Option<Timestamp> {
    text(field)?.parse().ok()
}

fn required<'a>(field: &'a Option<Text<'_>>, path: &str) -> Result<&'a str, String> {
    match text(field) {
        None | Some("") => Err(format!("{path}: missing")),
        Some(text) if text.len() > MAX_NAME_BYTES => {
            Err(format!("{path}: {} bytes long", text.len()))
        }
        Some(text) => Ok(text),
    }
}

/// A deletionTimestamp that cannot be parsed still marks the pod as being deleted.
fn deletion(meta: &MetaWire<'_>) -> Option<Deletion> {
    meta.deletion_timestamp.as_ref().map(|_| Deletion {
        deadline: time(&meta.deletion_timestamp),
        grace: meta
            .deletion_grace_period_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .map(Duration::from_secs),
    })
}

fn scheduling(spec: &SpecWire<'_>, status: &StatusWire<'_>) -> Scheduling {
    if text(&spec.node_name).is_some_and(|node| !node.is_empty()) {
        return Scheduling::Bound;
    }
    let gates = spec.scheduling_gates.as_deref().unwrap_or_default();
    if !gates.is_empty() {
        let names: Vec<&str> = gates.iter().filter_map(|gate| text(&gate.name)).collect();
        return Scheduling::Gated(cut(&names.join(", ")));
    }
    let conditions = status.conditions.as_deref().unwrap_or_default();
    Scheduling::Waiting(
        conditions
            .iter()
            .find(|c| text(&c.kind) == Some("PodScheduled") && text(&c.status) == Some("False"))
            .and_then(|c| kept(&c.message).or_else(|| kept(&c.reason))),
    )
}

/// An old node does not set the condition, so that its absence says nothing.
fn awaits_node(status: &StatusWire<'_>) -> bool {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    conditions
        .iter()
        .any(|c| text(&c.kind) == Some(PREPARED) && text(&c.status) == Some("False"))
}

fn disruption(status: &StatusWire<'_>) -> Option<Disruption> {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    conditions
        .iter()
        .find(|c| text(&c.kind) == Some("DisruptionTarget") && text(&c.status) == Some("True"))
        .map(|c| Disruption {
            reason: cut(text(&c.reason).unwrap_or_default()),
            message: kept(&c.message),
        })
}

/// The conditions that a failure rule can match (spec L-31), at most `MAX_CONDITIONS` per pod.
fn conditions(status: &StatusWire<'_>) -> Option<Arc<[Arc<str>]>> {
    let extraordinary = |kind: &&str| !ORDINARY_CONDITIONS.contains(kind) && !kind.is_empty();
    let kept: Arc<[Arc<str>]> = (status.conditions.as_deref().unwrap_or_default().iter())
        .filter(|c| text(&c.status) == Some("True"))
        .filter_map(|c| text(&c.kind))
        .filter(extraordinary)
        .take(MAX_CONDITIONS)
        .map(cut)
        .collect();
    (!kept.is_empty()).then_some(kept)
}

/// The volume claims that a pod references (spec A-60), at most `MAX_CLAIMS`; names that are too long are skipped.
fn volume_claims(spec: &SpecWire<'_>) -> Option<Arc<[PodClaim]>> {
    let kept: Arc<[PodClaim]> = (spec.volumes.as_deref().unwrap_or_default().iter())
        .filter_map(|volume| {
            let claim = volume.persistent_volume_claim.as_ref()?;
            let name = text(&claim.claim_name).filter(|name| name.len() <= MAX_NAME_BYTES)?;
            Some(PodClaim {
                volume: cut(text(&volume.name).unwrap_or_default()),
                name: Arc::from(name),
            })
        })
        .take(MAX_CLAIMS)
        .collect();
    (!kept.is_empty()).then_some(kept)
}

/// Parses the text again, with path tracking, to find the field that is invalid.
fn where_it_fails(json: &str) -> String {
    let mut slowly = serde_json::Deserializer::from_str(json);
    match serde_path_to_error::deserialize::<_, PodWire<'_>>(&mut slowly) {
        Ok(_) => "something follows the object".to_owned(),
        Err(error) => {
            let path = error.path().to_string();
            format!("{}: {}", clean(&path, 96), error.inner())
        }
    }
}

#[cfg(test)]
mod tests;
