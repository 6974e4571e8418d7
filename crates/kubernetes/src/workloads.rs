//! Kueue's Workloads: what a block of executors asks a queue for, and what the queue grants (spec A-90).

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::labels::{BLOCK, LabelScheme, TEMPLATE_HASH};
use super::pod_template::{PodBody, owner_reference};
use super::wire::{PlainOwnerWire, record_among};
use boatswain_model::pod::cut;
use boatswain_model::{AppId, PodUid, ProfileName};

pub const GROUP: &str = "kueue.x-k8s.io";
pub const VERSION: &str = "v1beta2";

/// The only podSet of each Workload.
const POD_SET: &str = "main";

/// Kubernetes counts pods in 32 bits.
const MOST: u32 = i32::MAX as u32;

const NOT_LOOKED_AT: &str = "Kueue has not looked at it yet; it does not if it is not running, or does not know the LocalQueue";

/// A Workload of the application: a block of executors that are queued together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Unique among the application's blocks; the block's pods have it as a label.
    pub number: u32,
    pub profile: ProfileName,
    pub name: Arc<str>,
    pub uid: PodUid,
    /// The resource version.
    pub version: Arc<str>,
    /// The uid of the application record that owns it, if one does.
    pub owner: Option<PodUid>,
    /// The hash of the template that it was made with.
    pub hash: Arc<str>,
    /// How many pods it asks for.
    pub count: u32,
    /// How many of them need no quota any more. It never falls while quota is reserved.
    pub reclaimed: u32,
    /// Whether nobody has deactivated it.
    pub active: bool,
    pub deleting: bool,
    pub state: BlockState,
    /// Why it is in this state, in Kueue's words.
    pub why: Arc<str>,
}

/// What the queue says of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockState {
    /// It has no quota. Only now can its size be changed.
    Queued,
    /// It has quota for so many pods, and waits for admission checks.
    Reserved(u32),
    Admitted {
        pods: u32,
        /// The names of the ResourceFlavors that its pods were assigned.
        flavors: BTreeSet<String>,
        /// How pods get to the nodes of these flavors; `None`: not read yet.
        placement: Option<Arc<Placement>>,
    },
    /// Its pods have to go. It keeps its quota until it is deleted.
    Evicted,
}

/// What the pods of an admitted block get in addition: fields of a pod's `spec`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    node_labels: Map<String, Value>,
    tolerations: Vec<Value>,
}

impl Placement {
    /// Adds what a ResourceFlavor says.
    pub fn add(&mut self, flavor: &Value) {
        let labels = flavor["spec"]["nodeLabels"].as_object();
        (self.node_labels).extend(labels.cloned().unwrap_or_default());
        let tolerations = flavor["spec"]["tolerations"].as_array();
        (self.tolerations).extend(tolerations.cloned().unwrap_or_default());
    }
}

impl PodBody {
    /// Makes it a pod of the block with this number.
    #[must_use]
    pub fn in_block(self, number: u32, placement: &Placement) -> Self {
        let Ok(mut pod) = serde_json::from_slice::<Value>(&self.json) else {
            return self;
        };
        pod["metadata"]["labels"][BLOCK] = number.to_string().into();
        let spec = &mut pod["spec"];
        for (key, value) in &placement.node_labels {
            spec["nodeSelector"][key] = value.clone();
        }
        if !placement.tolerations.is_empty() {
            let mut all = spec["tolerations"].as_array().cloned().unwrap_or_default();
            all.extend(placement.tolerations.iter().cloned());
            spec["tolerations"] = all.into();
        }
        Self {
            name: self.name,
            json: Bytes::from(pod.to_string()),
        }
    }
}

/// What a queue has to know of a profile's pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedPods {
    pub template: Value,
    pub hash: Arc<str>,
}

/// The queue, and what all Workloads of the application have in common.
#[derive(Debug, Clone)]
pub struct Queue {
    /// The name of the LocalQueue.
    pub name: String,
    pub priority: Option<i32>,
}

/// Where a Workload belongs.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub prefix: &'a str,
    pub app_id: &'a AppId,
    pub labels: LabelScheme,
    pub record: &'a PodUid,
}

/// The body of a new Workload.
pub fn workload(
    queue: &Queue,
    place: Place<'_>,
    (number, profile): (u32, &ProfileName),
    pods: &QueuedPods,
    size: (u32, u32),
) -> Value {
    let keys = place.labels.keys();
    let mut spec = json!({"queueName": queue.name, "podSets": pod_sets(pods, size)});
    if let Some(priority) = queue.priority {
        spec["priority"] = priority.into();
    }
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "Workload",
        "metadata": {
            "name": format!("{}-{profile}-{number}", place.prefix),
            "labels": {
                keys.app_id: place.app_id.as_str(),
                keys.profile: profile.as_str(),
                BLOCK: number.to_string(),
            },
            "annotations": {TEMPLATE_HASH: &*pods.hash},
            "ownerReferences": owners(place.prefix, place.record),
        },
        "spec": spec,
    })
}

pub fn owners(prefix: &str, record: &PodUid) -> Value {
    json!([owner_reference(prefix, record)])
}

/// `size`: how many pods, and how few of them may be admitted.
pub fn pod_sets(pods: &QueuedPods, (count, least): (u32, u32)) -> Value {
    let count = count.min(MOST);
    let mut set = json!({"name": POD_SET, "count": count, "template": pods.template});
    if least < count {
        set["minCount"] = least.max(1).into();
    }
    json!([set])
}

/// So many pods of the block need no quota any more.
pub fn reclaimable(pods: u32) -> Value {
    json!([{"name": POD_SET, "count": pods}])
}

#[derive(Deserialize)]
struct Wire {
    metadata: MetaWire,
    spec: Value,
    #[serde(default)]
    status: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetaWire {
    name: String,
    uid: String,
    resource_version: String,
    deletion_timestamp: Option<String>,
    #[serde(default)]
    labels: Map<String, Value>,
    #[serde(default)]
    annotations: Map<String, Value>,
    owner_references: Option<Vec<PlainOwnerWire>>,
}

/// Reads a Workload; `None` if it is no block of executors.
pub(super) fn read(json: &str, labels: LabelScheme, record: &str) -> Result<Option<Block>, String> {
    let Wire {
        metadata: meta,
        spec,
        status,
    } = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let label = |key: &str| meta.labels.get(key).and_then(Value::as_str);
    let number = label(BLOCK).and_then(|number| number.parse().ok());
    let Some((number, profile)) = number.zip(label(labels.keys().profile)) else {
        return Ok(None);
    };
    let of = |value: &Value| value.as_u64().and_then(|pods| u32::try_from(pods).ok());
    let count = of(&spec["podSets"][0]["count"]).unwrap_or(1);
    let owners = meta.owner_references.unwrap_or_default();
    let hash = meta.annotations.get(TEMPLATE_HASH).and_then(Value::as_str);
    let (state, why) = state(&status, count);
    Ok(Some(Block {
        number,
        profile: profile.into(),
        uid: PodUid::from(meta.uid),
        version: meta.resource_version.into(),
        owner: record_among(&owners, record).map(Into::into),
        hash: hash.unwrap_or_default().into(),
        count,
        reclaimed: of(&status["reclaimablePods"][0]["count"]).unwrap_or(0),
        active: spec["active"] != false,
        deleting: meta.deletion_timestamp.is_some(),
        state,
        why,
        name: meta.name.into(),
    }))
}

fn state(status: &Value, count: u32) -> (BlockState, Arc<str>) {
    let conditions = status["conditions"].as_array();
    let condition = |kind: &str| {
        let mut all = conditions.into_iter().flatten();
        all.find(|condition| condition["type"] == kind)
    };
    let is_true =
        |kind: &str| condition(kind).is_some_and(|condition| condition["status"] == "True");
    let why = |kind: &str| match condition(kind) {
        Some(condition) => {
            let text = |field: &str| condition[field].as_str().unwrap_or_default();
            cut(&format!("{}: {}", text("reason"), text("message")))
        }
        None => Arc::from(NOT_LOOKED_AT),
    };
    let assigned = &status["admission"]["podSetAssignments"][0];
    let pods = assigned["count"]
        .as_u64()
        .and_then(|pods| u32::try_from(pods).ok());
    let pods = pods.unwrap_or(count);
    if is_true("Finished") {
        return (BlockState::Evicted, why("Finished"));
    }
    if !is_true("QuotaReserved") || status["admission"].is_null() {
        return (BlockState::Queued, why("QuotaReserved"));
    }
    if is_true("Evicted") {
        return (BlockState::Evicted, why("Evicted"));
    }
    if !is_true("Admitted") {
        return (BlockState::Reserved(pods), why("QuotaReserved"));
    }
    let flavors = assigned["flavors"].as_object();
    let flavors = flavors.into_iter().flatten().map(|(_, name)| name.as_str());
    let admitted = BlockState::Admitted {
        pods,
        flavors: flavors.flatten().map(str::to_owned).collect(),
        placement: None,
    };
    (admitted, why("Admitted"))
}

#[cfg(test)]
mod tests;
