//! Tests targets that follow the demand reported by the application.

use std::time::Duration;

use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::world::{Driver, driver};

async fn demand(driver: &Driver, pending: u32, running: u32) -> Value {
    let body = json!({"profiles": {"default": {"pending": pending, "running": running}}});
    driver.post("/v1/demand", body).await
}

// spec: B-40, B-42, B-50
#[actix::test]
async fn targets_rise_in_steps_while_reported_demand_exceeds_them() {
    let sets = [
        "autoscaling.enabled=true",
        "profiles.default.slots=4",
        "profiles.default.max_executors=20",
    ];
    let (_world, driver) = driver(&sets).await;
    let mut targets = vec![driver.target().await];
    for _ in 0..80 {
        let wanted = demand(&driver, 70, 12).await;
        assert_eq!(wanted, json!({"wanted": {"default": 20}}));
        sleep(Duration::from_millis(100)).await;
        targets.push(driver.target().await);
    }
    targets.dedup();
    assert_eq!(targets, [3, 4, 6, 10, 18, 20]);
    driver.until_running(20).await;
    // Demand that is not renewed changes nothing, and lower demand removes no executors that may be busy.
    sleep(Duration::from_secs(600)).await;
    demand(&driver, 0, 0).await;
    sleep(Duration::from_secs(50)).await;
    assert_eq!(driver.target().await, 20);
}

// spec: B-40
#[actix::test]
async fn autoscaling_is_off_by_default() {
    let (_world, off) = driver(&[]).await;
    let body = json!({"profiles": {"default": {"pending": 9, "running": 0}}});
    let (status, answer) = off.call(Method::POST, "/v1/demand", body).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(answer["message"], "autoscaling is off");
}

// spec: B-40, B-31
#[actix::test]
async fn demand_requests_no_executor_during_a_hold_and_unknown_profiles_are_refused() {
    let (_world, driver) = driver(&["autoscaling.enabled=true"]).await;
    driver.post("/v1/application/hold", json!({})).await;
    driver.until_running(0).await;
    for _ in 0..20 {
        demand(&driver, 9, 0).await;
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(driver.target().await, 0);
    assert_eq!(driver.living().await, [0; 0]);
    let unknown = json!({"profiles": {"default": {"pending": 1, "running": 0}, "gpu": {"pending": 1, "running": 0}}});
    let (status, answer) = driver.call(Method::POST, "/v1/demand", unknown).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(answer["field"], "profiles.gpu");
}

// spec: B-25
#[actix::test]
async fn targets_above_the_profiles_maximum_are_refused() {
    let (_world, driver) = driver(&["profiles.default.max_executors=5"]).await;
    let want = |executors: u32| {
        let body = json!({"executors": executors});
        driver.call(Method::PUT, "/v1/targets/default", body)
    };
    assert_eq!(want(6).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(driver.target().await, 3);
    assert_eq!(want(5).await.0, StatusCode::OK);
}

/// What the pod's own affinity says of nodes that it prefers.
async fn preferred(driver: &Driver, executor: u64) -> Value {
    let pod = driver.pod(executor).await;
    let affinity = &pod["spec"]["affinity"]["nodeAffinity"];
    affinity["preferredDuringSchedulingIgnoredDuringExecution"].clone()
}

async fn demand_on(driver: &Driver, pending: u32, nodes: Value) -> (StatusCode, Value) {
    let slots = json!({"pending": pending, "running": 0, "nodes": nodes});
    let body = json!({"profiles": {"default": slots}});
    driver.call(Method::POST, "/v1/demand", body).await
}

// spec: B-67
#[actix::test]
async fn executors_that_are_requested_from_then_on_prefer_the_nodes_of_the_demand() {
    let (_world, driver) = driver(&["autoscaling.enabled=true"]).await;
    let nodes = json!({"node-b": 5, "node-a": 20, "node-c": 0});
    let (status, answer) = demand_on(&driver, 4, nodes).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    driver.until_running(4).await;
    let term = |node: &str, weight: u32| {
        let name = json!({"key": "metadata.name", "operator": "In", "values": [node]});
        json!({"weight": weight, "preference": {"matchFields": [name]}})
    };
    assert_eq!(
        preferred(&driver, 3).await,
        Value::Null,
        "it was there before"
    );
    let expected = json!([term("node-a", 100), term("node-b", 25)]);
    assert_eq!(preferred(&driver, 4).await, expected);
    demand(&driver, 5, 0).await;
    driver.until_running(5).await;
    assert_eq!(preferred(&driver, 5).await, Value::Null);
}

// spec: B-54
#[actix::test]
async fn a_demand_with_too_many_or_impossible_nodes_is_refused_as_a_whole() {
    let (_world, driver) = driver(&["autoscaling.enabled=true"]).await;
    let many: serde_json::Map<String, Value> =
        (0..33).map(|n| (format!("n{n}"), json!(1))).collect();
    for nodes in [
        json!(many),
        json!({"Node_1": 1}),
        json!({"": 1}),
        json!({"a..b": 1}),
    ] {
        let (status, answer) = demand_on(&driver, 9, nodes).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
        assert_eq!(answer["field"], "profiles.default.nodes");
    }
    sleep(Duration::from_secs(10)).await;
    assert_eq!(driver.target().await, 3);
}
