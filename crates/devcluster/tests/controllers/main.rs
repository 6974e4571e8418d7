//! The controllers of the embedded cluster, as a client of the API sees them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod evictions;
mod taints;

use std::time::Duration;

use devcluster::{DevCluster, NodeKind, Options, SimulatedNode};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// The wall-clock time at which every test starts.
const EPOCH: &str = "2026-01-01T00:00:00Z";

/// A cluster, and a client of its default namespace.
struct World {
    _cluster: DevCluster,
    client: Client,
    began: Instant,
}

impl World {
    fn with(node: NodeKind) -> Self {
        Self::start(Options {
            node,
            register_node: true,
            ..Options::default()
        })
    }

    fn start(options: Options) -> Self {
        let cluster = devcluster::start(Options {
            wall_clock_start: EPOCH.parse().ok(),
            ..options
        });
        Self {
            client: Client::new(cluster.router(), "default"),
            _cluster: cluster,
            began: Instant::now(),
        }
    }

    /// A cluster whose node runs pods.
    fn with_node() -> Self {
        Self::with(NodeKind::Simulated(SimulatedNode::default()))
    }

    /// A cluster without nodes: the test says what pods do.
    fn without_node() -> Self {
        Self::with(NodeKind::None)
    }

    /// An API server alone.
    fn without_controllers() -> Self {
        Self::start(Options {
            collect_garbage: false,
            ..Options::default()
        })
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    /// All pods, in the order of their creation.
    async fn all_pods(&self) -> Vec<Pod> {
        let mut pods = self
            .pods()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items;
        pods.sort_by_key(|pod| (pod.metadata.creation_timestamp.clone(), pod.name_any()));
        pods
    }

    /// The whole seconds since the test began.
    fn seconds(&self) -> u64 {
        self.began.elapsed().as_secs()
    }

    /// The present time, as objects have it.
    fn now(&self) -> String {
        let start: jiff::Timestamp = EPOCH.parse().unwrap();
        let passed = i64::try_from(self.seconds()).unwrap();
        (start + jiff::SignedDuration::from_secs(passed)).to_string()
    }

    /// Reports a pod's status, as a node does.
    async fn report(&self, pod: &Pod, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        let params = PatchParams::default();
        let pods = self.pods();
        pods.patch_status(&pod.name_any(), &params, &patch)
            .await
            .unwrap();
    }

    async fn runs(&self, pod: &Pod) {
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": self.now()});
        self.report(pod, json!({"phase": "Running", "conditions": [ready]}))
            .await;
    }

    /// Reports that a pod's container has ended with this code.
    async fn exits(&self, pod: &Pod, code: i32) {
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let terminated = json!({"exitCode": code, "finishedAt": self.now()});
        let container = json!({
            "name": "main", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": terminated},
        });
        let status = json!({"phase": phase, "containerStatuses": [container]});
        self.report(pod, status).await;
    }
}

/// The code, the message and the causes of a refusal.
fn refusal<T: std::fmt::Debug>(answer: Result<T, kube::Error>) -> (u16, String, Vec<String>) {
    let Err(kube::Error::Api(status)) = answer else {
        panic!("it was not refused: {answer:?}");
    };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let causes = causes.map(|cause| match &*cause.field {
        "" => format!("{}: {}", cause.reason, cause.message),
        field => format!("{field}: {}", cause.message),
    });
    (status.code, status.message.clone(), causes.collect())
}

/// Lets the controllers work.
async fn settle() {
    sleep(Duration::from_millis(20)).await;
}

async fn pass(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status.and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}
