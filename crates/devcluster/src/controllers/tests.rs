//! Tests of the controllers, as a client of the API observes them.

use std::time::Duration;

use axum::body::Body;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::time::sleep;
use tower::ServiceExt as _;

use crate::{DevCluster, NodeKind, Options, SimulatedNode};

const APPS: &str = "/apis/apps/v1/namespaces/default";

struct World(DevCluster);

impl World {
    fn new() -> Self {
        Self::on(SimulatedNode::default())
    }

    fn on(node: SimulatedNode) -> Self {
        Self(crate::start(Options {
            node: NodeKind::Simulated(node),
            ..Options::default()
        }))
    }

    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let kind = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", kind).body(body).unwrap();
        let response = self.0.router().oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn make(&self, plural: &str, set: Value) -> Value {
        let path = format!("{APPS}/{plural}");
        let (code, made) = self.ask(Method::POST, &path, Some(set)).await;
        assert_eq!(code, 201, "{made}");
        made
    }

    async fn get(&self, path: &str) -> Value {
        self.ask(Method::GET, path, None).await.1
    }

    async fn patch(&self, path: &str, patch: Value) -> Value {
        let (code, patched) = self.ask(Method::PATCH, path, Some(patch)).await;
        assert_eq!(code, 200, "{patched}");
        patched
    }

    /// All pods, ordered by name.
    async fn pods(&self) -> Vec<Value> {
        let list = self.get("/api/v1/namespaces/default/pods").await;
        list["items"].as_array().unwrap().clone()
    }

    async fn names(&self) -> Vec<String> {
        let pods = self.pods().await;
        let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
        pods.iter().map(name).collect()
    }
}

fn set(kind: &str, replicas: u32, more: Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i:1"}]},
            },
        },
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        set["spec"][field] = value.clone();
    }
    set
}

async fn seconds(n: u64) {
    sleep(Duration::from_secs(n)).await;
}

#[tokio::test(start_paused = true)]
async fn stateful_set_pods_have_ordinals_and_start_in_order() {
    let world = World::new();
    world
        .make("statefulsets", set("StatefulSet", 3, json!({})))
        .await;
    sleep(Duration::from_millis(50)).await;
    assert_eq!(world.names().await, ["web-0"]);
    seconds(5).await;
    assert_eq!(world.names().await, ["web-0", "web-1", "web-2"]);
    let seen = world.get(&format!("{APPS}/statefulsets/web")).await;
    assert_eq!(seen["status"]["readyReplicas"], 3);
    assert_eq!(seen["status"]["observedGeneration"], 1);
    let pod = &world.pods().await[1];
    let labels = &pod["metadata"]["labels"];
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "web-1");
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "1");
    let owner = &pod["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["controller"]),
        (&json!("StatefulSet"), &json!(true))
    );
}

#[tokio::test(start_paused = true)]
async fn parallel_stateful_set_pods_start_at_once_and_the_highest_ordinals_are_deleted_first() {
    let world = World::new();
    let parallel = json!({"podManagementPolicy": "Parallel"});
    world
        .make("statefulsets", set("StatefulSet", 4, parallel))
        .await;
    sleep(Duration::from_millis(50)).await;
    assert_eq!(world.names().await.len(), 4);
    seconds(5).await;
    let scale = format!("{APPS}/statefulsets/web/scale");
    let scaled = world.patch(&scale, json!({"spec": {"replicas": 2}})).await;
    assert_eq!(
        (&scaled["kind"], &scaled["spec"]["replicas"]),
        (&json!("Scale"), &json!(2))
    );
    seconds(5).await;
    assert_eq!(world.names().await, ["web-0", "web-1"]);
    let seen = world.get(&format!("{APPS}/statefulsets/web")).await;
    assert_eq!(seen["status"]["observedGeneration"], 2);
    let (code, _) = world
        .ask(
            Method::PATCH,
            &scale,
            Some(json!({"metadata": {"uid": "another"}, "spec": {"replicas": 9}})),
        )
        .await;
    assert_eq!(code, 409, "a scale of another set of that name");
}

#[tokio::test(start_paused = true)]
async fn claims_go_with_a_surplus_pod_or_with_the_set_as_its_policy_says() {
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    for scaled in ["Delete", "Retain"] {
        let world = World::new();
        let policy = json!({"whenDeleted": "Delete", "whenScaled": scaled});
        let more = json!({
            "podManagementPolicy": "Parallel",
            "volumeClaimTemplates": [claim],
            "persistentVolumeClaimRetentionPolicy": policy,
        });
        let made = (world.make("statefulsets", set("StatefulSet", 2, more))).await;
        // The names of the claims, and the kinds of their owners.
        let seen = async || {
            let list = world.get(claims).await;
            let of = |claim: &Value| {
                let owner = &claim["metadata"]["ownerReferences"][0]["kind"];
                format!("{} {}", claim["metadata"]["name"], owner).replace('"', "")
            };
            let items = list["items"].as_array().unwrap().iter();
            items.map(of).collect::<Vec<_>>()
        };
        let both = ["data-web-0 StatefulSet", "data-web-1 StatefulSet"];
        seconds(5).await;
        assert_eq!(seen().await, both);
        let path = format!("{APPS}/statefulsets/web");
        world.patch(&path, json!({"spec": {"replicas": 1}})).await;
        seconds(5).await;
        match scaled {
            "Delete" => assert_eq!(seen().await, both[..1]),
            _ => assert_eq!(seen().await, both),
        }
        world.patch(&path, json!({"spec": {"replicas": 2}})).await;
        seconds(5).await;
        assert_eq!(seen().await, both);

        // Orphaned claims belong to the set that takes over their pods.
        let orphan = json!({"propagationPolicy": "Orphan"});
        world.ask(Method::DELETE, &path, Some(orphan)).await;
        seconds(5).await;
        assert_eq!(seen().await, ["data-web-0 null", "data-web-1 null"]);
        let again = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"}, "spec": made["spec"]});
        world.make("statefulsets", again).await;
        seconds(5).await;
        assert_eq!(seen().await, both);
        world.ask(Method::DELETE, &path, None).await;
        seconds(5).await;
        assert_eq!(seen().await, [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_or_evicted_pod_of_a_set_is_replaced() {
    for (plural, kind) in [
        ("statefulsets", "StatefulSet"),
        ("deployments", "Deployment"),
    ] {
        let world = World::new();
        world.make(plural, set(kind, 2, json!({}))).await;
        seconds(5).await;
        let before = world.pods().await;
        let name = before[0]["metadata"]["name"].as_str().unwrap();
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        world.ask(Method::DELETE, &path, None).await;
        seconds(5).await;
        let after = world.pods().await;
        assert_eq!(after.len(), 2, "{kind}");
        let uids = |pods: &[Value]| -> Vec<Value> {
            pods.iter()
                .map(|pod| pod["metadata"]["uid"].clone())
                .collect()
        };
        assert!(!uids(&after).contains(&before[0]["metadata"]["uid"]));
        // Everything the set made has it as its owner, and is deleted with it.
        world
            .ask(Method::DELETE, &format!("{APPS}/{plural}/web"), None)
            .await;
        seconds(10).await;
        assert_eq!(world.names().await, Vec::<String>::new(), "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_scales_down_by_deletion_cost() {
    let world = World::new();
    world
        .make("deployments", set("Deployment", 4, json!({})))
        .await;
    seconds(5).await;
    let names = world.names().await;
    let cheap = &names[1];
    let cost =
        json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}});
    world
        .patch(&format!("/api/v1/namespaces/default/pods/{cheap}"), cost)
        .await;
    let scale = format!("{APPS}/deployments/web/scale");
    world.patch(&scale, json!({"spec": {"replicas": 3}})).await;
    seconds(5).await;
    let left = world.names().await;
    assert_eq!(left.len(), 3);
    assert!(!left.contains(cheap));
}

#[tokio::test(start_paused = true)]
async fn a_new_template_rolls_the_pods_over_step_by_step() {
    for (plural, kind) in [
        ("statefulsets", "StatefulSet"),
        ("deployments", "Deployment"),
    ] {
        let world = World::new();
        world.make(plural, set(kind, 3, json!({}))).await;
        seconds(5).await;
        let containers = json!([{"name": "c", "image": "i:2"}]);
        let path = format!("{APPS}/{plural}/web");
        let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        world.patch(&path, patch).await;
        for _ in 0..100 {
            sleep(Duration::from_millis(100)).await;
            let pods = world.pods().await;
            let ready = |pod: &&Value| {
                pod["status"]["phase"] == "Running"
                    && pod["metadata"]["deletionTimestamp"].is_null()
            };
            assert!(pods.iter().filter(ready).count() >= 2, "{kind}");
        }
        seconds(20).await;
        let pods = world.pods().await;
        assert_eq!(pods.len(), 3, "{kind}");
        for pod in pods {
            assert_eq!(pod["spec"]["containers"][0]["image"], "i:2", "{kind}");
        }
        if kind == "Deployment" {
            let sets = world.get(&format!("{APPS}/replicasets")).await;
            assert_eq!(sets["items"].as_array().unwrap().len(), 2);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_terminated_container_is_restarted_with_increasing_backoff() {
    let world = World::on(SimulatedNode {
        crash_rate: 1.0,
        trouble_within: Duration::from_secs(1),
        ..SimulatedNode::default()
    });
    world
        .make("deployments", set("Deployment", 1, json!({})))
        .await;
    seconds(5).await;
    let first = world.pods().await.remove(0);
    seconds(100).await;
    let later = world.pods().await.remove(0);
    assert_eq!(first["metadata"]["uid"], later["metadata"]["uid"]);
    let container = &later["status"]["containerStatuses"][0];
    let restarts = container["restartCount"].as_u64().unwrap();
    assert!((3..=6).contains(&restarts), "{restarts}");
    assert_eq!(container["lastState"]["terminated"]["exitCode"], 1);
    assert_eq!(later["status"]["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn invalid_sets_are_refused() {
    let world = World::new();
    let mut once = set("Deployment", 1, json!({}));
    once["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
    let mut other = set("Deployment", 1, json!({}));
    other["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
    let negative = set("Deployment", 0, json!({"replicas": -1}));
    for wrong in [once, other, negative] {
        let (code, answer) = world
            .ask(Method::POST, &format!("{APPS}/deployments"), Some(wrong))
            .await;
        assert_eq!(code, 422, "{answer}");
    }
    world
        .make("statefulsets", set("StatefulSet", 1, json!({})))
        .await;
    let path = format!("{APPS}/statefulsets/web");
    let patch = Some(json!({"spec": {"serviceName": "other"}}));
    let (code, _) = world.ask(Method::PATCH, &path, patch).await;
    assert_eq!(code, 422);
}

#[tokio::test(start_paused = true)]
async fn a_set_adopts_the_pods_that_a_deleted_one_has_left() {
    for (kind, plural) in [
        ("StatefulSet", "statefulsets"),
        ("Deployment", "deployments"),
    ] {
        let world = World::new();
        world.make(plural, set(kind, 2, json!({}))).await;
        seconds(10).await;
        let uids = |pods: &[Value]| -> Vec<Value> {
            (pods.iter())
                .map(|pod| pod["metadata"]["uid"].clone())
                .collect()
        };
        let before = uids(&world.pods().await);
        assert_eq!(before.len(), 2);
        let path = format!("{APPS}/{plural}/web");
        let orphan = json!({"propagationPolicy": "Orphan"});
        world.ask(Method::DELETE, &path, Some(orphan)).await;
        seconds(5).await;
        assert_eq!(world.ask(Method::GET, &path, None).await.0, 404);
        assert_eq!(uids(&world.pods().await), before);
        let made = world.make(plural, set(kind, 2, json!({}))).await;
        seconds(10).await;
        let pods = world.pods().await;
        assert_eq!(uids(&pods), before);
        let mut owner = pods[0]["metadata"]["ownerReferences"][0].clone();
        if kind == "Deployment" {
            let sets = world.get(&format!("{APPS}/replicasets")).await;
            assert_eq!(sets["items"].as_array().unwrap().len(), 1);
            owner = sets["items"][0]["metadata"]["ownerReferences"][0].clone();
        }
        assert_eq!(owner["uid"], made["metadata"]["uid"]);
        assert_eq!(owner["controller"], true);
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_releases_pods_that_it_does_not_select_and_adopts_those_that_it_selects_again() {
    let world = World::new();
    world
        .make("statefulsets", set("StatefulSet", 1, json!({})))
        .await;
    seconds(5).await;
    let path = "/api/v1/namespaces/default/pods/web-0";
    let uid = world.get(path).await["metadata"]["uid"].clone();
    let relabel = |app: &str| json!({"metadata": {"labels": {"app": app}}});
    world.patch(path, relabel("other")).await;
    seconds(5).await;
    let released = world.get(path).await;
    assert_eq!(released["metadata"]["uid"], uid);
    assert!(
        released["metadata"]["ownerReferences"]
            .as_array()
            .is_none_or(Vec::is_empty)
    );
    world.patch(path, relabel("web")).await;
    seconds(5).await;
    let adopted = world.get(path).await;
    assert_eq!(adopted["metadata"]["uid"], uid);
    assert_eq!(
        adopted["metadata"]["ownerReferences"][0]["kind"],
        "StatefulSet"
    );
    // Pods of another name are no members of a StatefulSet, whatever their labels say.
    let misnamed = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "other", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i:1"}]},
    });
    let pods = "/api/v1/namespaces/default/pods";
    world.ask(Method::POST, pods, Some(misnamed)).await;
    seconds(5).await;
    let misnamed = world.get(&format!("{pods}/other")).await;
    assert!(misnamed["metadata"].get("ownerReferences").is_none());
}
