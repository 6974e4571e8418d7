//! Reads the cluster's nodes: of each only what matters to executors, the rest is skipped (spec W-15).

use std::sync::Arc;

use serde::Deserialize;

use super::Calls;
use super::transport::Query;
use super::watch::Lines;
use crate::refusal::Failure;
use crate::wire::{MetaWire, Text};
use boatswain_model::ResourceVersion;
use boatswain_model::node::Node;

const PATH: &str = "/api/v1/nodes";

/// The labels that tell a node's zone, the newest one first.
const ZONE: [&str; 2] = [
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
];

/// The labels that tell how a node's capacity is paid for, with the value that means `spot`; `None`: any is told as it
/// is.
const CAPACITY: [(&str, Option<&str>); 5] = [
    ("karpenter.sh/capacity-type", None),
    ("eks.amazonaws.com/capacityType", Some("SPOT")),
    ("cloud.google.com/gke-spot", Some("true")),
    ("cloud.google.com/gke-preemptible", Some("true")),
    ("kubernetes.azure.com/scalesetpriority", Some("spot")),
];

/// The taints of autoscalers, clouds and Kubernetes itself that say that a node is about to leave.
const KNOWN_TAINTS: [&str; 9] = [
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "ToBeDeletedByClusterAutoscaler",
    "node.kubernetes.io/out-of-service",
    "node.cloudprovider.kubernetes.io/shutdown",
    "aws-node-termination-handler/spot-itn",
    "aws-node-termination-handler/scheduled-maintenance",
    "aws-node-termination-handler/asg-lifecycle-termination",
    "cloud.google.com/impending-node-termination",
];

/// What tells that a node is about to leave the cluster, beside its deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeavingRules {
    /// The keys of taints, in addition to the known ones.
    taints: Vec<String>,
    /// Whether a node that is cordoned is about to leave.
    cordoned: bool,
}

/// A node in a list or in a line of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenNode {
    pub version: Option<ResourceVersion>,
    pub node: Node,
}

impl Calls {
    /// Lists all nodes as they are now, with the list's version.
    ///
    /// # Errors
    /// If a page cannot be had.
    pub async fn list_nodes(
        &self,
        rules: &LeavingRules,
    ) -> Result<(ResourceVersion, Vec<Node>), Failure> {
        // One that cannot be read is left out: nothing is known of it.
        let read = |object: &str| Ok(rules.read(object).ok().map(|seen| seen.node));
        self.list_all_at(PATH, "NodeList", "", read).await
    }

    /// Watches the nodes from this version on, with bookmarks. As [`Calls::watch_pods`].
    ///
    /// # Errors
    /// If the watch does not begin.
    pub async fn watch_nodes(
        &self,
        rules: &Arc<LeavingRules>,
        from: &ResourceVersion,
        timeout_seconds: u32,
    ) -> Result<Lines<SeenNode>, Failure> {
        let rules = Arc::clone(rules);
        let read = move |object: &str| rules.read(object);
        let (path, query) = (PATH.to_owned(), Query::default());
        self.watch(path, query, Some(from), timeout_seconds, read)
            .await
    }
}

#[derive(Deserialize)]
struct NodeWire<'a> {
    #[serde(borrow)]
    metadata: MetaWire<'a>,
    #[serde(borrow, default)]
    spec: Option<SpecWire<'a>>,
    #[serde(borrow, default)]
    status: Option<StatusWire<'a>>,
}

#[derive(Default, Deserialize)]
struct SpecWire<'a> {
    unschedulable: Option<bool>,
    #[serde(borrow)]
    taints: Option<Vec<TaintWire<'a>>>,
}

#[derive(Deserialize)]
struct TaintWire<'a> {
    #[serde(borrow)]
    key: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
struct StatusWire<'a> {
    #[serde(borrow)]
    conditions: Option<Vec<ConditionWire<'a>>>,
}

#[derive(Deserialize)]
struct ConditionWire<'a> {
    #[serde(borrow)]
    r#type: Option<Text<'a>>,
    #[serde(borrow)]
    status: Option<Text<'a>>,
}

impl LeavingRules {
    pub fn new(taints: Vec<String>, cordoned: bool) -> Self {
        Self { taints, cordoned }
    }

    fn says_that_it_leaves(&self, taint: &str) -> bool {
        KNOWN_TAINTS.contains(&taint) || self.taints.iter().any(|key| key == taint)
    }

    fn read(&self, object: &str) -> Result<SeenNode, String> {
        let wire: NodeWire<'_> = serde_json::from_str(object).map_err(|error| error.to_string())?;
        let name = wire.metadata.name.as_ref().ok_or("a node without a name")?;
        let label = |key: &str| wire.metadata.labels.as_ref()?.get(key);
        let zone = ZONE.iter().find_map(|key| label(key)).map(Arc::from);
        let capacity_type = CAPACITY
            .iter()
            .find_map(|(key, spot)| match (label(key)?, spot) {
                (value, None) => Some(Arc::from(value)),
                (value, Some(spot)) => (value == *spot).then(|| Arc::from("spot")),
            });
        let version = wire.metadata.resource_version.as_ref();
        let conditions = wire
            .status
            .unwrap_or_default()
            .conditions
            .unwrap_or_default();
        let is = |text: &Option<Text<'_>>, wanted: &str| {
            text.as_ref().is_some_and(|text| text.0 == wanted)
        };
        let ready = conditions
            .iter()
            .any(|one| is(&one.r#type, "Ready") && is(&one.status, "True"));
        Ok(SeenNode {
            version: version.and_then(|version| ResourceVersion::parse(&version.0)),
            node: Node {
                name: Arc::from(&*name.0),
                zone,
                capacity_type,
                ready,
                leaves: self.why_it_leaves(&wire.metadata, &wire.spec.unwrap_or_default()),
            },
        })
    }

    fn why_it_leaves(&self, metadata: &MetaWire<'_>, spec: &SpecWire<'_>) -> Option<Arc<str>> {
        if metadata.deletion_timestamp.is_some() {
            return Some(Arc::from("it is being deleted"));
        }
        let taints = spec.taints.as_deref().unwrap_or_default();
        let mut keys = taints.iter().filter_map(|taint| taint.key.as_ref());
        if let Some(key) = keys.find(|key| self.says_that_it_leaves(&key.0)) {
            return Some(Arc::from(format!("it has the taint {}", key.0)));
        }
        let is_cordoned = self.cordoned && spec.unschedulable == Some(true);
        is_cordoned.then(|| Arc::from("it is cordoned"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rules() -> LeavingRules {
        LeavingRules::new(vec!["example.com/leaves".to_owned()], true)
    }

    fn leaves(metadata: Value, spec: Value) -> Option<String> {
        let mut object = json!({"metadata": {"name": "n"}, "spec": spec});
        for (key, value) in metadata.as_object().unwrap() {
            object["metadata"][key] = value.clone();
        }
        let seen = rules().read(&object.to_string()).unwrap();
        seen.node.leaves.map(|why| why.to_string())
    }

    // spec: W-15
    #[test]
    fn a_node_leaves_that_is_deleted_cordoned_or_has_a_taint_that_says_so() {
        let taint = |key: &str| json!({"taints": [{"key": key, "effect": "NoSchedule"}]});
        let none = json!({});
        assert_eq!(leaves(none.clone(), none.clone()), None);
        assert_eq!(leaves(none.clone(), taint("example.com/gpu")), None);
        for (metadata, spec, why) in [
            (
                json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}),
                none.clone(),
                "it is being deleted",
            ),
            (
                none.clone(),
                taint("karpenter.sh/disrupted"),
                "it has the taint karpenter.sh/disrupted",
            ),
            (
                none.clone(),
                taint("example.com/leaves"),
                "it has the taint example.com/leaves",
            ),
            (
                none.clone(),
                json!({"unschedulable": true}),
                "it is cordoned",
            ),
        ] {
            assert_eq!(leaves(metadata, spec).as_deref(), Some(why));
        }
        let cordoned = json!({"metadata": {"name": "n"}, "spec": {"unschedulable": true}});
        let read = LeavingRules::default().read(&cordoned.to_string()).unwrap();
        assert_eq!(read.node.leaves, None, "unless the configuration says so");
    }

    // spec: W-15
    #[test]
    fn zone_capacity_type_and_readiness_are_read_and_nothing_else_is_needed() {
        let object = json!({
            "metadata": {
                "name": "n", "resourceVersion": "7",
                "labels": {"topology.kubernetes.io/zone": "z1", "eks.amazonaws.com/capacityType": "SPOT"},
            },
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "images": [{"names": ["x"]}]},
        });
        let seen = rules().read(&object.to_string()).unwrap();
        let expected = Node {
            name: "n".into(),
            zone: Some("z1".into()),
            capacity_type: Some("spot".into()),
            ready: true,
            leaves: None,
        };
        assert_eq!(seen.node, expected);
        assert_eq!(seen.version, ResourceVersion::parse("7"));
        let bare = rules().read(r#"{"metadata": {"name": "n"}}"#).unwrap();
        assert!(!bare.node.ready);
        for bad in ["{}", r#"{"metadata": {}}"#, "[]"] {
            assert!(rules().read(bad).is_err(), "{bad}");
        }
    }
}
