use super::*;
use crate::SimulatedNode;

fn simulated(node: SimulatedNode) -> DevCluster {
    cluster_with(NodeKind::Simulated(node))
}

fn phase(pod: Option<&Value>) -> &str {
    pod.and_then(|p| p["status"]["phase"].as_str())
        .unwrap_or_default()
}

// spec: O-73
#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_and_runs_after_the_start_delay() {
    let start_delay = Duration::from_secs(3);
    let cluster = simulated(SimulatedNode {
        start_delay,
        ..SimulatedNode::default()
    });
    let mut events = watch(&cluster, &pods("?watch=1")).await;
    let began = tokio::time::Instant::now();
    create(&cluster, "a").await;
    until(&cluster, "a", |pod| phase(pod) == "Running").await;
    assert_eq!(began.elapsed(), start_delay);
    for kind in ["ADDED", "MODIFIED", "MODIFIED"] {
        assert_eq!(events.next_named().await, named(kind, "a"));
    }
    events.quiet().await;
    let (_, pod) = get(&cluster, &pods("/a")).await;
    assert_eq!(pod["spec"]["nodeName"], "simulated");
    assert_eq!(
        pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"],
        "2026-01-01T00:00:03Z"
    );
    let conditions: Vec<_> = pod["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    assert_eq!(conditions.len(), 5);
    assert!(
        conditions.iter().all(|c| c["status"] == "True"),
        "{conditions:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_gated_pod_is_not_bound_until_its_gates_are_removed() {
    let cluster = simulated(SimulatedNode::default());
    let mut gated = pod("a");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/quota"}]);
    assert_eq!(post(&cluster, &pods(""), &gated).await.0, 201);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let (_, waiting) = get(&cluster, &pods("/a")).await;
    assert_eq!(phase(Some(&waiting)), "Pending");
    let open = json!({"spec": {"schedulingGates": null}});
    assert_eq!(patch(&cluster, &pods("/a"), &open).await.0, 200);
    until(&cluster, "a", |pod| phase(pod) == "Running").await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_exits_with_143_and_is_then_removed() {
    let cluster = simulated(SimulatedNode::default());
    create(&cluster, "a").await;
    until(&cluster, "a", |pod| phase(pod) == "Running").await;
    let version = cluster.state().await.resource_version();
    let mut events = watch(
        &cluster,
        &pods(&format!("?watch=1&resourceVersion={version}")),
    )
    .await;
    delete(&cluster, &pods("/a")).await;
    let mut last = Value::Null;
    for kind in ["MODIFIED", "MODIFIED", "MODIFIED", "DELETED"] {
        last = events.next().await.expect("an event");
        assert_eq!(last["type"], kind);
    }
    let ended = &last["object"]["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(
        (&ended["exitCode"], &ended["reason"]),
        (&json!(143), &json!("Error"))
    );
    events.quiet().await;
}

#[tokio::test(start_paused = true)]
async fn simulated_failures_are_reported_as_a_kubelet_does() {
    let always = |node: SimulatedNode| simulated(node);
    for (node, code, reason, pod_reason) in [
        (
            SimulatedNode {
                crash_rate: 1.0,
                ..SimulatedNode::default()
            },
            1,
            "Error",
            Value::Null,
        ),
        (
            SimulatedNode {
                out_of_memory_rate: 1.0,
                ..SimulatedNode::default()
            },
            137,
            "OOMKilled",
            Value::Null,
        ),
        (
            SimulatedNode {
                eviction_rate: 1.0,
                ..SimulatedNode::default()
            },
            137,
            "Error",
            json!("Evicted"),
        ),
    ] {
        let cluster = always(SimulatedNode {
            trouble_within: Duration::from_secs(10),
            ..node
        });
        create(&cluster, "a").await;
        until(&cluster, "a", |pod| phase(pod) == "Failed").await;
        let (_, pod) = get(&cluster, &pods("/a")).await;
        let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
        assert_eq!(
            (&ended["exitCode"], &ended["reason"]),
            (&json!(code), &json!(reason))
        );
        assert_eq!(pod["status"]["reason"], pod_reason);
    }
}

#[tokio::test(start_paused = true)]
async fn a_share_of_the_pods_starts_slowly() {
    let cluster = simulated(SimulatedNode {
        slow_start_rate: 0.5,
        ..SimulatedNode::default()
    });
    for i in 0..100 {
        create(&cluster, &format!("a-{i}")).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let running = cluster
        .state()
        .await
        .pods("default")
        .filter(|p| phase(Some(p)) == "Running")
        .count();
    assert!((30..70).contains(&running), "{running}");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let running = cluster
        .state()
        .await
        .pods("default")
        .filter(|p| phase(Some(p)) == "Running")
        .count();
    assert_eq!(running, 100);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_yields_the_same_failures() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let cluster = simulated(SimulatedNode {
            crash_rate: 0.3,
            eviction_rate: 0.3,
            slow_start_rate: 0.3,
            ..SimulatedNode::default()
        });
        for i in 0..50 {
            create(&cluster, &format!("a-{i}")).await;
        }
        tokio::time::sleep(Duration::from_secs(30)).await;
        runs.push(
            cluster
                .state()
                .await
                .pods("default")
                .map(Value::to_string)
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(runs[0], runs[1]);
}

#[tokio::test(start_paused = true)]
async fn the_node_continues_from_a_restored_state() {
    let cluster = simulated(SimulatedNode::default());
    create(&cluster, "a").await;
    let before = cluster.state().await;
    until(&cluster, "a", |pod| phase(pod) == "Running").await;
    cluster.restore(before).await;
    until(&cluster, "a", |pod| phase(pod) == "Running").await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_pods_start_without_delay() {
    let cluster = simulated(SimulatedNode::default());
    for i in 0..1_000 {
        create(&cluster, &format!("a-{i}")).await;
    }
    let all =
        |state: &super::super::State| state.pods("default").all(|p| phase(Some(p)) == "Running");
    let mut published = cluster.store.published();
    timeout(SOON, published.wait_for(|p| all(&p.state)))
        .await
        .expect("in time")
        .expect("the store is there");
    assert_eq!(
        cluster.state().await.resource_version(),
        1_000 + 3 * 1_000,
        "three writes a pod"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cordoned_node_accepts_no_pods_until_it_is_uncordoned() {
    let cluster = super::super::start(Options {
        node: NodeKind::Simulated(SimulatedNode::default()),
        register_node: true,
        ..options()
    });
    let node = "/api/v1/nodes/simulated";
    let mut nodes = watch(&cluster, "/api/v1/nodes?watch=1").await;
    while nodes.next().await.expect("the node")["object"]["status"]["conditions"].is_null() {}
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases?watch=1";
    let mut leases = watch(&cluster, lease).await;
    assert_eq!(leases.next_named().await, named("ADDED", "simulated"));
    let cordon = |on: bool| json!({"spec": {"unschedulable": on}});
    assert_eq!(patch(&cluster, node, &cordon(true)).await.0, 200);
    create(&cluster, "a").await;
    until(&cluster, "a", |pod| {
        pod.is_some_and(|p| p["status"]["conditions"][0]["reason"] == "Unschedulable")
    })
    .await;
    assert_eq!(patch(&cluster, node, &cordon(false)).await.0, 200);
    until(&cluster, "a", |pod| phase(pod) == "Running").await;
    let (_, pod) = get(&cluster, &pods("/a")).await;
    assert_eq!(pod["status"]["conditions"][0]["reason"], Value::Null);
    // A deleted node is registered again, and its lease renewed.
    assert_eq!(delete(&cluster, node).await.0, 200);
    assert_eq!(leases.next_named().await.1, "simulated");
    assert_eq!(get(&cluster, node).await.0, 200);
}
