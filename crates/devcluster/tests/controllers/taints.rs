//! Taints of nodes: which pods they end, when, and which they keep away.

use k8s_openapi::api::core::v1::Node;
use kube::api::PostParams;

use super::*;

impl World {
    async fn taint(&self, taints: Value) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
        let params = PatchParams::default();
        nodes.patch("simulated", &params, &patch).await.unwrap();
        settle().await;
    }

    async fn tolerant(&self, name: &str, tolerations: Value) {
        let pod = json!({
            "metadata": {"name": name},
            "spec": {"tolerations": tolerations, "containers": [{"name": "main", "image": "i:1"}]},
        });
        let pod = serde_json::from_value(pod).unwrap();
        let pods = self.pods();
        pods.create(&PostParams::default(), &pod).await.unwrap();
    }

    async fn names(&self) -> Vec<String> {
        let pods = self.all_pods().await.into_iter();
        let mut names: Vec<String> = pods.map(|pod| pod.name_any()).collect();
        names.sort();
        names
    }
}

fn maintenance(effect: &str) -> Value {
    json!([{"key": "maintenance", "value": "tonight", "effect": effect}])
}

fn toleration(more: Value) -> Value {
    let mut toleration = json!({"key": "maintenance", "operator": "Exists"});
    for (field, value) in more.as_object().into_iter().flatten() {
        toleration[field] = value.clone();
    }
    json!([toleration])
}

#[tokio::test(start_paused = true)]
async fn a_taint_deletes_pods_that_do_not_tolerate_it() {
    let world = World::with(NodeKind::Simulated(SimulatedNode {
        stop_delay: Duration::from_secs(20),
        ..SimulatedNode::default()
    }));
    world.tolerant("plain", json!([])).await;
    world.tolerant("tolerant", toleration(json!({}))).await;
    let other = json!({"operator": "Equal", "value": "another", "effect": "NoExecute"});
    world.tolerant("other", toleration(other)).await;
    pass(1).await;
    world.taint(maintenance("NoExecute")).await;
    let pod = world.pods().get("plain").await.unwrap();
    assert!(is_terminating(&pod));
    let conditions = pod.status.unwrap().conditions.unwrap();
    let disrupted = conditions
        .iter()
        .find(|c| c.type_ == "DisruptionTarget")
        .unwrap();
    assert_eq!(disrupted.reason.as_deref(), Some("DeletionByTaintManager"));
    pass(25).await;
    assert_eq!(world.names().await, ["tolerant"]);
}

#[tokio::test(start_paused = true)]
async fn a_taint_can_be_tolerated_for_a_while() {
    let world = World::with_node();
    let for_a_minute = json!({"effect": "NoExecute", "tolerationSeconds": 60});
    world.tolerant("a", toleration(for_a_minute)).await;
    pass(1).await;
    world.taint(maintenance("NoExecute")).await;
    pass(59).await;
    assert_eq!(world.names().await, ["a"]);
    pass(2).await;
    assert!(world.names().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn pods_stay_if_the_taint_is_removed_in_time() {
    let world = World::with_node();
    let for_a_minute = json!({"effect": "NoExecute", "tolerationSeconds": 60});
    world.tolerant("a", toleration(for_a_minute)).await;
    pass(1).await;
    world.taint(maintenance("NoExecute")).await;
    pass(30).await;
    world.taint(json!(null)).await;
    pass(100).await;
    assert_eq!(world.names().await, ["a"]);
    world.taint(maintenance("NoExecute")).await;
    pass(59).await;
    assert_eq!(world.names().await, ["a"], "its time begins anew");
    pass(2).await;
    assert!(world.names().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn new_pods_wait_until_the_node_has_no_taint_that_keeps_them_away() {
    for effect in ["NoSchedule", "NoExecute"] {
        let world = World::with_node();
        world.tolerant("running", json!([])).await;
        pass(1).await;
        world.taint(maintenance(effect)).await;
        pass(1).await;
        let stays = effect == "NoSchedule";
        assert_eq!(world.names().await.len(), usize::from(stays));
        world.tolerant("new", json!([])).await;
        world.tolerant("tolerant", toleration(json!({}))).await;
        pass(5).await;
        let of = async |name: &str| phase(&world.pods().get(name).await.unwrap()).to_owned();
        assert_eq!(
            (of("new").await, of("tolerant").await),
            ("Pending".into(), "Running".into())
        );
        let new = world.pods().get("new").await.unwrap();
        let conditions = new.status.unwrap().conditions.unwrap();
        assert_eq!(conditions[0].reason.as_deref(), Some("Unschedulable"));
        world.taint(json!(null)).await;
        pass(1).await;
        assert_eq!(of("new").await, "Running");
    }
}
