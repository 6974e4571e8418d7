//! Evictions, and the disruption budgets that refuse them.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use kube::api::{DeleteParams, EvictParams, PostParams};
use kube::core::Status;

use super::*;

const VIOLATED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

impl World {
    fn budgets(&self) -> Api<PodDisruptionBudget> {
        Api::default_namespaced(self.client.clone())
    }

    /// Creates a budget with these fields in its spec, for the pods of the application.
    async fn budget(&self, name: &str, mut spec: Value) {
        spec["selector"] = json!({"matchLabels": {"app": "x"}});
        let budget = json!({"metadata": {"name": name}, "spec": spec});
        let budget = serde_json::from_value(budget).unwrap();
        let made = self.budgets().create(&PostParams::default(), &budget).await;
        made.unwrap();
        settle().await;
    }

    async fn budget_status(&self) -> PodDisruptionBudgetStatus {
        self.budgets().get("budget").await.unwrap().status.unwrap()
    }

    /// The healthy, desired, expected and allowed numbers of the budget.
    async fn counts(&self) -> (i32, i32, i32, i32) {
        let status = self.budget_status().await;
        (
            status.current_healthy.unwrap(),
            status.desired_healthy.unwrap(),
            status.expected_pods.unwrap(),
            status.disruptions_allowed.unwrap(),
        )
    }

    /// Creates a pod of the application, with this owner.
    async fn pod(&self, name: &str, owner: Option<Value>) -> Pod {
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": "x"}, "ownerReferences": owner.map(|o| vec![o])},
            "spec": {"containers": [{"name": "main", "image": "i:1"}]},
        });
        let pod = serde_json::from_value(pod).unwrap();
        let pods = self.pods();
        pods.create(&PostParams::default(), &pod).await.unwrap()
    }

    async fn evict(&self, name: &str) -> kube::Result<Status> {
        let evicted = self.pods().evict(name, &EvictParams::default()).await;
        settle().await;
        evicted
    }

    async fn deployment(&self, replicas: u32) {
        let deployment = json!({
            "metadata": {"name": "web"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "x"}},
                "template": {
                    "metadata": {"labels": {"app": "x"}},
                    "spec": {"containers": [{"name": "main", "image": "i:1"}]},
                },
            },
        });
        let deployment: Deployment = serde_json::from_value(deployment).unwrap();
        let all = Api::<Deployment>::default_namespaced(self.client.clone());
        all.create(&PostParams::default(), &deployment)
            .await
            .unwrap();
        pass(2).await;
    }
}

fn condition(status: &PodDisruptionBudgetStatus) -> (&str, &str, &str) {
    let condition = &status.conditions.as_ref().unwrap()[0];
    (&condition.status, &condition.reason, &condition.message)
}

#[tokio::test(start_paused = true)]
async fn an_eviction_sets_a_condition_and_deletes_with_the_grace_given() {
    let world = World::with(NodeKind::Simulated(SimulatedNode {
        stop_delay: Duration::from_secs(60),
        ..SimulatedNode::default()
    }));
    for (name, grace, expected) in [("a", None, 30), ("b", Some(5), 5)] {
        world.pod(name, None).await;
        pass(1).await;
        // kube's own method sends the options under another name, which API servers ignore.
        let path = format!("/api/v1/namespaces/default/pods/{name}/eviction");
        let options = json!({"gracePeriodSeconds": grace});
        let eviction = json!({"metadata": {"name": name}, "deleteOptions": options});
        let request = http::Request::post(path).header("content-type", "application/json");
        let request = request.body(eviction.to_string().into_bytes()).unwrap();
        let answer: Status = world.client.request(request).await.unwrap();
        assert_eq!(answer.code, 201);
        let pod = world.pods().get(name).await.unwrap();
        assert_eq!(pod.metadata.deletion_grace_period_seconds, Some(expected));
        let conditions = pod.status.unwrap().conditions.unwrap();
        let disrupted = conditions.iter().find(|c| c.type_ == "DisruptionTarget");
        let reason = disrupted.unwrap().reason.as_deref();
        assert_eq!(reason, Some("EvictionByEvictionAPI"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_allows_as_many_evictions_as_leave_enough_pods() {
    let world = World::with_node();
    for name in ["a", "b", "c"] {
        world.pod(name, None).await;
    }
    pass(1).await;
    world.budget("budget", json!({"minAvailable": 2})).await;
    assert_eq!(world.counts().await, (3, 2, 3, 1));
    let status = world.budget_status().await;
    assert_eq!(condition(&status), ("True", "SufficientPods", ""));
    assert_eq!(status.observed_generation, Some(1));
    world.evict("a").await.unwrap();
    let (code, message, causes) = refusal(world.evict("b").await);
    assert_eq!((code, &*message), (429, VIOLATED));
    let cause = "The disruption budget budget needs 2 healthy pods and has 2 currently";
    assert_eq!(causes, [format!("DisruptionBudget: {cause}")]);
    let status = world.budget_status().await;
    assert_eq!(condition(&status), ("False", "InsufficientPods", ""));
    pass(1).await;
    assert_eq!(world.counts().await, (2, 2, 2, 0));
    world.pod("d", None).await;
    pass(1).await;
    world.evict("b").await.unwrap();
    assert_eq!(
        world.budget_status().await.disrupted_pods,
        None,
        "its deletion was seen"
    );
}

#[tokio::test(start_paused = true)]
async fn evictions_at_the_same_time_are_charged_one_by_one() {
    let world = World::with_node();
    for name in ["a", "b", "c"] {
        world.pod(name, None).await;
    }
    pass(1).await;
    world.budget("budget", json!({"minAvailable": 2})).await;
    let params = EvictParams::default();
    let pods = world.pods();
    let (a, b, c) = tokio::join!(
        pods.evict("a", &params),
        pods.evict("b", &params),
        pods.evict("c", &params)
    );
    let evicted = [a, b, c].iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(evicted, 1);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_is_not_charged() {
    let world = World::with_node();
    world.pod("a", None).await;
    pass(1).await;
    world.budget("budget", json!({"minAvailable": 0})).await;
    let params = EvictParams {
        post_options: PostParams {
            dry_run: true,
            ..PostParams::default()
        },
        ..EvictParams::default()
    };
    for _ in 0..3 {
        world.pods().evict("a", &params).await.unwrap();
    }
    settle().await;
    assert_eq!(world.counts().await, (1, 0, 1, 1));
    assert!(!is_terminating(&world.pods().get("a").await.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_budget_refuses_until_its_controller_has_seen_it() {
    let world = World::without_controllers();
    let pod = world.pod("a", None).await;
    world.runs(&pod).await;
    world.budget("budget", json!({"minAvailable": 0})).await;
    let (code, message, causes) = refusal(world.evict("a").await);
    assert_eq!((code, &*message), (429, VIOLATED));
    let cause = "The disruption budget budget is still being processed by the server.";
    assert_eq!(causes, [format!("DisruptionBudget: {cause}")]);
    let seen = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 1}});
    let (params, patch) = (PatchParams::default(), Patch::Merge(seen));
    let budgets = world.budgets();
    budgets
        .patch_status("budget", &params, &patch)
        .await
        .unwrap();
    world.evict("a").await.unwrap();
    let status = world.budget_status().await;
    let disrupted = status.disrupted_pods.unwrap();
    assert!(
        disrupted.contains_key("a"),
        "its controller is to learn of the eviction"
    );
    assert_eq!(status.disruptions_allowed, Some(0));
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_not_ready_are_spared_by_policy() {
    // The pods that are ready, the policy, and whether the unready pod may be evicted.
    for (ready, policy, evicted) in [
        (2, "IfHealthyBudget", true),
        (1, "IfHealthyBudget", false),
        (1, "AlwaysAllow", true),
    ] {
        let world = World::without_node();
        for i in 0..3 {
            let pod = world.pod(&format!("p{i}"), None).await;
            if i < ready {
                world.runs(&pod).await;
            } else {
                world.report(&pod, json!({"phase": "Running"})).await;
            }
        }
        let spec = json!({"minAvailable": 2, "unhealthyPodEvictionPolicy": policy});
        world.budget("budget", spec).await;
        let answer = world.evict("p2").await;
        assert_eq!(answer.is_ok(), evicted, "{ready} {policy}: {answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn pending_and_finished_pods_are_not_protected() {
    let world = World::without_node();
    world.budget("budget", json!({"minAvailable": 9})).await;
    world.pod("pending", None).await;
    let ended = world.pod("ended", None).await;
    world.exits(&ended, 0).await;
    for name in ["pending", "ended"] {
        world.evict(name).await.unwrap();
    }
    assert!(world.all_pods().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_two_budgets_cannot_be_evicted() {
    let world = World::with_node();
    world.pod("a", None).await;
    pass(1).await;
    for name in ["budget", "other"] {
        world.budget(name, json!({"minAvailable": 0})).await;
    }
    let (code, message, _) = refusal(world.evict("a").await);
    assert_eq!(code, 500);
    assert!(
        message.contains("more than one PodDisruptionBudget"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn shares_and_limits_of_unavailable_pods_count_the_replicas_of_the_controller() {
    for (spec, counts) in [
        (json!({"minAvailable": "50%"}), (5, 3, 5, 2)),
        (json!({"maxUnavailable": "50%"}), (5, 2, 5, 3)),
        (json!({"maxUnavailable": 1}), (5, 4, 5, 1)),
    ] {
        let world = World::with_node();
        world.deployment(5).await;
        world.budget("budget", spec.clone()).await;
        assert_eq!(world.counts().await, counts, "{spec}");
    }
}

#[tokio::test(start_paused = true)]
async fn shares_fail_for_controllers_without_replicas() {
    let world = World::with_node();
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "record"}})).unwrap();
    let maps = Api::<ConfigMap>::default_namespaced(world.client.clone());
    let map = maps.create(&PostParams::default(), &map).await.unwrap();
    let owner = |kind: &str, version: &str| {
        json!({
            "apiVersion": version, "kind": kind, "name": "record", "uid": map.uid(), "controller": true,
        })
    };
    world.pod("a", Some(owner("ConfigMap", "v1"))).await;
    pass(1).await;
    world.budget("budget", json!({"maxUnavailable": 1})).await;
    let why = "configmaps does not implement the scale subresource";
    let status = world.budget_status().await;
    assert_eq!(condition(&status), ("False", "SyncFailed", why));
    assert_eq!(status.disruptions_allowed, Some(0));
    assert_eq!(refusal(world.evict("a").await).0, 429);
    world
        .budgets()
        .delete("budget", &DeleteParams::default())
        .await
        .unwrap();
    world.budget("budget", json!({"minAvailable": 0})).await;
    assert_eq!(world.counts().await, (1, 0, 1, 1), "numbers of pods work");
}

#[tokio::test(start_paused = true)]
async fn pods_without_controller_are_not_expected() {
    let world = World::with_node();
    world.pod("a", None).await;
    pass(1).await;
    world.budget("budget", json!({"maxUnavailable": 1})).await;
    assert_eq!(world.counts().await, (1, 0, 0, 0));
    assert_eq!(refusal(world.evict("a").await).0, 429);
}

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_that_is_not_deleted_counts_again_after_two_minutes() {
    let world = World::with_node();
    world.pod("a", None).await;
    pass(1).await;
    world.budget("budget", json!({"minAvailable": 1})).await;
    let patch = Patch::Merge(json!({"status": {"disruptedPods": {"a": world.now()}}}));
    let params = PatchParams::default();
    world
        .budgets()
        .patch_status("budget", &params, &patch)
        .await
        .unwrap();
    settle().await;
    assert_eq!(world.counts().await.0, 0);
    pass(121).await;
    assert_eq!(world.counts().await.0, 1);
}

#[tokio::test(start_paused = true)]
async fn a_budget_follows_the_labels_of_pods_and_its_own_selector() {
    let world = World::with_node();
    for name in ["a", "b"] {
        world.pod(name, None).await;
    }
    pass(1).await;
    world.budget("budget", json!({"minAvailable": 1})).await;
    let params = PatchParams::default();
    let relabel = Patch::Merge(json!({"metadata": {"labels": {"app": "y"}}}));
    world.pods().patch("b", &params, &relabel).await.unwrap();
    settle().await;
    assert_eq!(world.counts().await, (1, 1, 1, 0));
    let expression = json!([{"key": "app", "operator": "In", "values": ["x", "y"]}]);
    let selector = json!({"matchLabels": null, "matchExpressions": expression});
    let reselect = Patch::Merge(json!({"spec": {"selector": selector}}));
    world
        .budgets()
        .patch("budget", &params, &reselect)
        .await
        .unwrap();
    settle().await;
    assert_eq!(world.counts().await, (2, 1, 2, 1));
}

#[tokio::test(start_paused = true)]
async fn invalid_budgets_are_refused() {
    let world = World::without_node();
    for (spec, cause) in [
        (
            json!({"minAvailable": -1}),
            "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            json!({"maxUnavailable": "101%"}),
            "spec.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
        ),
        (
            json!({"unhealthyPodEvictionPolicy": "Never"}),
            "spec.unhealthyPodEvictionPolicy: Unsupported value: \"Never\": supported values: \"AlwaysAllow\", \
             \"IfHealthyBudget\"",
        ),
        (
            json!({"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}),
            "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or \
             'NotIn'",
        ),
    ] {
        let budget = json!({"metadata": {"name": "budget"}, "spec": spec});
        let budget = serde_json::from_value(budget).unwrap();
        let answer = world
            .budgets()
            .create(&PostParams::default(), &budget)
            .await;
        let (code, _, causes) = refusal(answer);
        assert_eq!((code, causes), (422, vec![cause.to_owned()]));
    }
    let both =
        json!({"metadata": {"name": "budget"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}});
    let both = serde_json::from_value(both).unwrap();
    let answer = world.budgets().create(&PostParams::default(), &both).await;
    let (_, _, causes) = refusal(answer);
    assert!(causes[0].ends_with("minAvailable and maxUnavailable cannot be both set"));
}
