//! Which failed, disrupted and deleted pods of a Job are replaced.

use super::*;

#[tokio::test(start_paused = true)]
async fn an_exit_code_can_fail_the_job_at_once() {
    let world = World::without_node();
    world
        .job(json!({"podFailurePolicy": policy(), "parallelism": 2, "completions": 2}))
        .await;
    let pods = world.all_pods().await;
    world.runs(&pods[1]).await;
    world.exits(&pods[0], 64).await;
    settle().await;
    let why = "PodFailurePolicy";
    assert_eq!(
        world.conditions().await,
        pairs(&[("FailureTarget", why), ("Failed", why)])
    );
    let status = world.status().await;
    let message = status.conditions.unwrap()[0].message.clone().unwrap();
    let name = pods[0].name_any();
    let expected = format!(
        "Container main for pod default/{name} failed with exit code 64 matching FailJob rule at index 0"
    );
    assert_eq!(message, expected);
    let left = world.all_pods().await;
    assert_eq!(left.len(), 1, "the other pod is deleted: {left:?}");
}

#[tokio::test(start_paused = true)]
async fn ignored_failures_do_not_count_but_delay_the_next_pod() {
    let world = World::without_node();
    world
        .job(json!({"podFailurePolicy": policy(), "backoffLimit": 0}))
        .await;
    for pause in [10, 20] {
        let pod = world.next().await;
        assert_eq!(world.replaced_after(&pod, 75).await, pause);
    }
    assert_eq!(world.status().await.failed, None);
    let pod = world.next().await;
    world.exits(&pod, 137).await;
    settle().await;
    let why = "BackoffLimitExceeded";
    assert_eq!(
        world.conditions().await,
        pairs(&[("FailureTarget", why), ("Failed", why)])
    );
    assert_eq!(world.status().await.failed, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_disrupted_pod_is_replaced_when_it_has_ended_if_only_failed_pods_are() {
    let world = World::with(NodeKind::Simulated(SimulatedNode {
        stop_delay: Duration::from_secs(25),
        ..SimulatedNode::default()
    }));
    world
        .job(json!({"podFailurePolicy": policy(), "backoffLimit": 0}))
        .await;
    pass(1).await;
    let first = world.active().await.unwrap();
    let at = world.seconds();
    world
        .pods()
        .evict(&first.name_any(), &Default::default())
        .await
        .unwrap();
    pass(20).await;
    let status = world.status().await;
    assert_eq!((status.active, status.terminating), (None, Some(1)));
    assert_eq!(
        world.all_pods().await.len(),
        1,
        "it is not replaced while it ends"
    );
    let second = world.next().await;
    assert_ne!(second.uid(), first.uid());
    assert_eq!(world.seconds() - at, 35, "its end and the delay");
    assert_eq!(world.all_pods().await.len(), 1, "the first pod is gone");
    let status = world.status().await;
    assert_eq!((status.failed, status.conditions), (None, None));
}

#[tokio::test(start_paused = true)]
async fn without_a_policy_a_deleted_pod_is_replaced_while_it_ends() {
    let world = World::with(NodeKind::Simulated(SimulatedNode {
        stop_delay: Duration::from_secs(25),
        ..SimulatedNode::default()
    }));
    world.job(json!({})).await;
    pass(1).await;
    let first = world.active().await.unwrap();
    let at = world.seconds();
    world.delete(&first).await;
    let second = world.next().await;
    assert_eq!(world.seconds() - at, 10);
    let pods = world.all_pods().await;
    assert_eq!(pods.len(), 2);
    assert!(
        pods.iter()
            .any(|pod| is_terminating(pod) && pod.uid() == first.uid())
    );
    assert_eq!(
        world.status().await.failed,
        Some(1),
        "a deletion counts as a failure"
    );
    pass(30).await;
    assert_eq!(world.active().await.unwrap().uid(), second.uid());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_that_never_ran_is_replaced() {
    for node in [
        NodeKind::None,
        NodeKind::Simulated(SimulatedNode {
            start_delay: Duration::from_secs(3_600),
            ..SimulatedNode::default()
        }),
    ] {
        let world = World::with(node);
        world.job(json!({"podReplacementPolicy": "Failed"})).await;
        let first = world.active().await.unwrap();
        world.delete(&first).await;
        let second = world.next().await;
        assert_ne!(first.uid(), second.uid());
        assert_eq!(world.status().await.failed, Some(1));
    }
}
