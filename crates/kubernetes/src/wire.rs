//! The parts of a pod's JSON that are decoded (spec E-14); the rest is skipped.
//!
//! Texts are borrowed from the JSON. `null` and a missing field are equivalent, as they are to Kubernetes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A text, borrowed unless it contains an escape. Inside an `Option`, serde borrows only through a separate type.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// A map of texts, in order, with duplicate keys kept.
#[derive(Debug, Default)]
pub(super) struct Pairs<'a>(Vec<(Text<'a>, Option<Text<'a>>)>);

impl Pairs<'_> {
    /// The value of a key. As in Go's decoder, the last duplicate wins.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        let (_, value) = self.0.iter().rev().find(|(k, _)| k.0 == key)?;
        value.as_ref().map(|text| &*text.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;

        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::with_capacity(12);
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(PairsVisitor)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct PodWire<'a> {
    #[serde(borrow)]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) metadata: Option<MetaWire<'a>>,
    #[serde(borrow)]
    pub(super) spec: Option<SpecWire<'a>>,
    #[serde(borrow)]
    pub(super) status: Option<StatusWire<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MetaWire<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) uid: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) resource_version: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) creation_timestamp: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) deletion_timestamp: Option<Text<'a>>,
    pub(super) deletion_grace_period_seconds: Option<i64>,
    #[serde(borrow)]
    pub(super) labels: Option<Pairs<'a>>,
    #[serde(borrow)]
    pub(super) annotations: Option<Pairs<'a>>,
    #[serde(borrow)]
    pub(super) owner_references: Option<Vec<OwnerWire<'a>>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct OwnerWire<'a> {
    #[serde(borrow)]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) uid: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SpecWire<'a> {
    #[serde(borrow)]
    pub(super) node_name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) restart_policy: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) scheduling_gates: Option<Vec<GateWire<'a>>>,
    #[serde(borrow)]
    pub(super) containers: Option<Vec<DeclaredWire<'a>>>,
    #[serde(borrow)]
    pub(super) init_containers: Option<Vec<DeclaredWire<'a>>>,
    #[serde(borrow)]
    pub(super) volumes: Option<Vec<VolumeWire<'a>>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GateWire<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VolumeWire<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) persistent_volume_claim: Option<ClaimWire<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClaimWire<'a> {
    #[serde(borrow)]
    pub(super) claim_name: Option<Text<'a>>,
}

/// A container as the pod's spec declares it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeclaredWire<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) restart_policy: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) restart_policy_rules: Option<Vec<RestartRuleWire<'a>>>,
    #[serde(borrow)]
    pub(super) resources: Option<ResourcesWire<'a>>,
    pub(super) liveness_probe: Option<IgnoredAny>,
    pub(super) startup_probe: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ResourcesWire<'a> {
    #[serde(borrow)]
    pub(super) limits: Option<LimitsWire<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct LimitsWire<'a> {
    /// A text, and a number where an API server keeps what it was sent.
    #[serde(borrow)]
    pub(super) memory: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RestartRuleWire<'a> {
    #[serde(borrow)]
    pub(super) action: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) exit_codes: Option<ExitCodesWire<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ExitCodesWire<'a> {
    #[serde(borrow)]
    pub(super) operator: Option<Text<'a>>,
    pub(super) values: Option<Vec<i64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatusWire<'a> {
    #[serde(borrow)]
    pub(super) phase: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) reason: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) message: Option<Text<'a>>,
    #[serde(borrow, rename = "podIP")]
    pub(super) pod_ip: Option<Text<'a>>,
    #[serde(borrow, rename = "hostIP")]
    pub(super) host_ip: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) conditions: Option<Vec<ConditionWire<'a>>>,
    #[serde(borrow)]
    pub(super) container_statuses: Option<Vec<ContainerWire<'a>>>,
    #[serde(borrow)]
    pub(super) init_container_statuses: Option<Vec<ContainerWire<'a>>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ConditionWire<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) status: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) reason: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) message: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContainerWire<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) state: Option<ContainerStateWire<'a>>,
    /// Of a container that was created.
    #[serde(borrow, rename = "containerID")]
    pub(super) container_id: Option<Text<'a>>,
    /// Whether it runs, and its startup probe, if any, has succeeded.
    pub(super) started: Option<bool>,
    pub(super) restart_count: Option<i64>,
    /// What its kubelet has given it, if kubelets can change that while it runs.
    #[serde(borrow)]
    pub(super) resources: Option<ResourcesWire<'a>>,
    #[serde(borrow)]
    pub(super) last_state: Option<ContainerStateWire<'a>>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ContainerStateWire<'a> {
    #[serde(borrow)]
    pub(super) waiting: Option<WaitingWire<'a>>,
    #[serde(borrow)]
    pub(super) running: Option<RunningWire<'a>>,
    #[serde(borrow)]
    pub(super) terminated: Option<TerminatedWire<'a>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct WaitingWire<'a> {
    #[serde(borrow)]
    pub(super) reason: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) message: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunningWire<'a> {
    #[serde(borrow)]
    pub(super) started_at: Option<Text<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TerminatedWire<'a> {
    pub(super) exit_code: Option<i64>,
    #[serde(borrow)]
    pub(super) reason: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) message: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) started_at: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) finished_at: Option<Text<'a>>,
}

/// The metadata of objects of which there are few, such as sets and claims: owned texts, with name and uid required.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlainMetaWire {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) creation_timestamp: Option<String>,
    pub(super) deletion_timestamp: Option<String>,
    pub(super) labels: Option<BTreeMap<String, String>>,
    pub(super) annotations: Option<BTreeMap<String, String>>,
    pub(super) owner_references: Option<Vec<PlainOwnerWire>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PlainOwnerWire {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// The uid of the application record named `record`, if it is among the owners.
pub(super) fn record_among<'a>(owners: &'a [PlainOwnerWire], record: &str) -> Option<&'a str> {
    let mut owners = owners.iter();
    let owner = owners.find(|owner| owner.kind == "ConfigMap" && owner.name == record)?;
    Some(&owner.uid)
}

/// A pod that could not be decoded; each part is then tried separately.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Skeleton<'a> {
    #[serde(borrow)]
    pub(super) metadata: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MetaSkeleton<'a> {
    #[serde(borrow)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) uid: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) resource_version: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) labels: Option<&'a RawValue>,
}

/// A page of a list; the items are decoded or raw.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "Item: Deserialize<'de>"))]
pub(super) struct ListWire<'a, Item> {
    #[serde(borrow)]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) metadata: Option<ListMetaWire<'a>>,
    /// Go writes an empty list as `null`, but a response without `items` is not a list. `deserialize_with` makes the
    /// field required, which a plain `Option` is not.
    #[serde(deserialize_with = "present")]
    pub(super) items: Option<Vec<Item>>,
}

fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::deserialize(deserializer)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListMetaWire<'a> {
    #[serde(borrow)]
    pub(super) resource_version: Option<Text<'a>>,
    #[serde(borrow, rename = "continue")]
    pub(super) continue_token: Option<Text<'a>>,
}

/// A line of a watch; the type determines how the object is decoded.
#[derive(Debug, Deserialize)]
pub(super) struct LineWire<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) object: Option<&'a RawValue>,
}
