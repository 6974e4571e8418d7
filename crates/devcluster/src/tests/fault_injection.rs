//! Injected faults of the node, and how the cluster reacts.

use super::*;
use crate::ProcessNode;
use crate::SimulatedNode;
use crate::control::node_faults::{self, NodeRequest, PodName};

const NODE: &str = "/api/v1/nodes/simulated";

fn simulated() -> DevCluster {
    super::super::start(Options {
        node: NodeKind::Simulated(SimulatedNode::default()),
        register_node: true,
        ..options()
    })
}

pub(super) async fn told(cluster: &DevCluster, request: NodeRequest) {
    let obeyed = node_faults::inject(cluster, request.clone()).await;
    assert_eq!(obeyed, Ok(()), "{request:?}");
}

fn not_ready(evict_after: Option<Duration>) -> NodeRequest {
    NodeRequest::NotReady {
        name: None,
        evict_after,
    }
}

async fn image_missing(cluster: &DevCluster, off: bool) {
    let image = "i".to_owned();
    told(cluster, NodeRequest::ImageMissing { image, off }).await;
}

pub(super) fn pod_name(name: &str) -> PodName {
    PodName {
        namespace: "default".to_owned(),
        name: name.to_owned(),
    }
}

fn runs(pod: Option<&Value>) -> bool {
    pod.is_some_and(|p| p["status"]["phase"] == "Running")
}

/// The status, reason and message of a condition.
fn condition(object: Option<&Value>, kind: &str) -> Option<[String; 3]> {
    let conditions = object?["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|c| c["type"] == kind)?;
    let of = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    Some([of("status"), of("reason"), of("message")])
}

fn has(object: Option<&Value>, kind: &str, status: &str, reason: &str) -> bool {
    condition(object, kind).is_some_and(|c| c[0] == status && c[1] == reason)
}

fn waiting(pod: Option<&Value>) -> Option<&Value> {
    pod?.pointer("/status/containerStatuses/0/state/waiting")
}

fn ended(pod: Option<&Value>) -> Option<(i64, &str)> {
    let ended = pod?.pointer("/status/containerStatuses/0/state/terminated")?;
    Some((ended["exitCode"].as_i64()?, ended["reason"].as_str()?))
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_node_that_is_not_ready_are_evicted_but_not_removed() {
    let cluster = simulated();
    create(&cluster, "a").await;
    until(&cluster, "a", runs).await;
    told(&cluster, not_ready(Some(Duration::from_secs(5)))).await;
    until(&cluster, "a", |pod| {
        condition(pod, "Ready").is_some_and(|c| c[0] == "False")
    })
    .await;
    let (_, node) = get(&cluster, NODE).await;
    let unheard = [
        "Unknown",
        "NodeStatusUnknown",
        "Kubelet stopped posting node status.",
    ];
    assert_eq!(
        condition(Some(&node), "Ready"),
        Some(unheard.map(str::to_owned))
    );
    let taints: Vec<_> = node["spec"]["taints"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(taints.len(), 2);
    assert!(
        taints
            .iter()
            .all(|t| t["key"] == "node.kubernetes.io/unreachable")
    );

    until(&cluster, "a", |pod| {
        pod.is_some_and(|p| !p["metadata"]["deletionTimestamp"].is_null())
            && has(pod, "DisruptionTarget", "True", "DeletionByTaintManager")
    })
    .await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let (code, pod) = get(&cluster, &pods("/a")).await;
    assert_eq!(
        (code, &pod["status"]["phase"]),
        (200, &json!("Running")),
        "nobody confirms"
    );

    told(&cluster, NodeRequest::Ready(None)).await;
    until(&cluster, "a", |pod| pod.is_none()).await;
    let (_, node) = get(&cluster, NODE).await;
    assert!(has(Some(&node), "Ready", "True", "KubeletReady"), "{node}");
    assert_eq!(node["spec"]["taints"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_pod_stays_on_an_unreachable_node_while_it_tolerates_the_taint() {
    let cluster = simulated();
    let key = "node.kubernetes.io/unreachable";
    for (name, seconds) in [("hasty", json!(7)), ("patient", Value::Null)] {
        let mut pod = pod(name);
        let mut toleration = json!({"key": key, "operator": "Exists", "effect": "NoExecute"});
        if !seconds.is_null() {
            toleration["tolerationSeconds"] = seconds;
        }
        pod["spec"]["tolerations"] = json!([toleration]);
        assert_eq!(post(&cluster, &pods(""), &pod).await.0, 201);
    }
    create(&cluster, "usual").await;
    for name in ["hasty", "patient", "usual"] {
        until(&cluster, name, runs).await;
    }
    told(&cluster, not_ready(None)).await;
    let mut going = Vec::new();
    for wait in [6, 2, 291, 2, 100_000] {
        tokio::time::sleep(Duration::from_secs(wait)).await;
        let state = cluster.state().await;
        let told = state
            .pods("default")
            .filter(|p| !p["metadata"]["deletionTimestamp"].is_null());
        going.push(told.count());
    }
    assert_eq!(going, [0, 1, 1, 2, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_recovers_in_time_keeps_its_pods() {
    let cluster = simulated();
    let before = create(&cluster, "a").await;
    until(&cluster, "a", runs).await;
    told(&cluster, not_ready(None)).await;
    until(&cluster, "a", |pod| has(pod, "Ready", "False", "")).await;
    create(&cluster, "b").await;
    until(&cluster, "b", |pod| {
        condition(pod, "PodScheduled").is_some_and(|c| {
            c[1] == "Unschedulable"
                && c[2] == "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
        })
    })
    .await;
    told(&cluster, NodeRequest::Ready(None)).await;
    until(&cluster, "a", |pod| has(pod, "Ready", "True", "")).await;
    until(&cluster, "b", runs).await;
    let (_, after) = get(&cluster, &pods("/a")).await;
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_node_are_removed_and_new_ones_wait_for_it() {
    let cluster = simulated();
    create(&cluster, "a").await;
    until(&cluster, "a", runs).await;
    let version = cluster.state().await.resource_version();
    let from = format!("?watch=1&resourceVersion={version}");
    let mut events = watch(&cluster, &pods(&from)).await;
    told(&cluster, NodeRequest::Gone(None)).await;
    let mut last = Value::Null;
    while last["type"] != "DELETED" {
        last = events.next().await.expect("an event");
    }
    let last = &last["object"];
    assert_eq!(last["status"]["phase"], "Failed");
    assert!(
        has(Some(last), "DisruptionTarget", "True", "DeletionByPodGC"),
        "{last}"
    );
    assert_eq!(get(&cluster, NODE).await.0, 404);
    create(&cluster, "b").await;
    until(&cluster, "b", |pod| {
        condition(pod, "PodScheduled").is_some_and(|c| {
            c[1] == "Unschedulable" && c[2] == "no nodes available to schedule pods"
        })
    })
    .await;
    told(&cluster, NodeRequest::Ready(None)).await;
    until(&cluster, "b", runs).await;
    assert_eq!(get(&cluster, NODE).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn only_pods_with_a_missing_image_wait_for_it() {
    let cluster = simulated();
    create(&cluster, "before").await;
    until(&cluster, "before", runs).await;
    image_missing(&cluster, false).await;
    create(&cluster, "a").await;
    for (reason, says) in [
        (
            "ErrImagePull",
            "rpc error: code = NotFound desc = failed to pull and unpack image \"docker.io/library/i:latest\"",
        ),
        (
            "ImagePullBackOff",
            "Back-off pulling image \"i\": ErrImagePull: rpc error",
        ),
    ] {
        until(&cluster, "a", |pod| {
            waiting(pod).is_some_and(|w| {
                w["reason"] == reason && w["message"].as_str().is_some_and(|m| m.starts_with(says))
            })
        })
        .await;
    }
    let state = cluster.state().await;
    let phase = |name| {
        state
            .pod("default", name)
            .map(|p| p["status"]["phase"].clone())
    };
    assert_eq!(phase("a"), Some(json!("Pending")));
    assert_eq!(phase("before"), Some(json!("Running")));
    image_missing(&cluster, true).await;
    until(&cluster, "a", runs).await;
}

#[tokio::test(start_paused = true)]
async fn an_injected_fault_appears_in_the_status_of_the_pod() {
    let cluster = simulated();
    for (name, request, end, reason) in [
        (
            "a",
            NodeRequest::OutOfMemory(pod_name("a")),
            (137, "OOMKilled"),
            Value::Null,
        ),
        (
            "b",
            NodeRequest::Crash {
                pod: pod_name("b"),
                code: 42,
            },
            (42, "Error"),
            Value::Null,
        ),
        (
            "c",
            NodeRequest::Evict(pod_name("c")),
            (137, "Error"),
            json!("Evicted"),
        ),
    ] {
        create(&cluster, name).await;
        until(&cluster, name, runs).await;
        told(&cluster, request).await;
        until(&cluster, name, |pod| ended(pod) == Some(end)).await;
        let (_, pod) = get(&cluster, &pods(&format!("/{name}"))).await;
        assert_eq!(
            (&pod["status"]["phase"], &pod["status"]["reason"]),
            (&json!("Failed"), &reason)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_inapplicable_fault_is_refused_with_advice() {
    let cluster = simulated();
    let refused = async |request| {
        node_faults::inject(&cluster, request)
            .await
            .expect_err("refused")
    };
    let other = NodeRequest::Gone(Some("other".to_owned()));
    assert_eq!(
        refused(other).await,
        "there is no node other: the only one is simulated"
    );
    let pod = || NodeRequest::OutOfMemory(pod_name("a"));
    assert!(
        refused(pod())
            .await
            .contains("no pod a in the namespace default")
    );
    told(&cluster, NodeRequest::Gone(None)).await;
    assert!(refused(pod()).await.contains("`ctl node ready`"));
    assert!(refused(not_ready(None)).await.contains("`ctl node ready`"));
    let off = NodeRequest::ImageMissing {
        image: "i".to_owned(),
        off: true,
    };
    assert!(refused(off).await.contains("not missing"));
}

#[tokio::test]
async fn a_process_is_killed_by_an_injected_fault_and_waits_for_a_missing_image() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = cluster_with(NodeKind::Process(ProcessNode {
        state_dir: Some(dir.path().to_owned()),
        ..ProcessNode::default()
    }));
    image_missing(&cluster, false).await;
    for name in ["a", "b"] {
        let mut pod = pod(name);
        pod["spec"]["containers"][0]["command"] = json!(["sleep", "1000"]);
        assert_eq!(post(&cluster, &pods(""), &pod).await.0, 201);
        until(&cluster, name, |pod| {
            waiting(pod).is_some_and(|w| w["reason"] == "ErrImagePull")
        })
        .await;
    }
    image_missing(&cluster, true).await;
    until(&cluster, "a", runs).await;
    until(&cluster, "b", runs).await;
    told(&cluster, NodeRequest::OutOfMemory(pod_name("a"))).await;
    until(&cluster, "a", |pod| ended(pod) == Some((137, "OOMKilled"))).await;

    told(&cluster, not_ready(Some(Duration::ZERO))).await;
    until(&cluster, "b", |pod| {
        pod.is_some_and(|p| !p["metadata"]["deletionTimestamp"].is_null())
    })
    .await;
    told(&cluster, NodeRequest::Ready(None)).await;
    until(&cluster, "b", |pod| pod.is_none()).await;
    cluster.shutdown().await;
}
