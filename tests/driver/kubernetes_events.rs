//! The Kubernetes Events that the driver records on its own pod.

use std::time::Duration;

use axum::body::Body;
use boatswain::clock::Clock;
use boatswain::config::{Config, OnSignal};
use boatswain::driver::{Environment, Handle, start_in};
use boatswain::exit::Exit;
use boatswain::kubernetes::Clients;
use devcluster::DevCluster;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

use crate::cluster;

async fn ask(cluster: &DevCluster, request: http::request::Builder, body: Value) -> Value {
    let request = request.header("content-type", "application/json");
    let request = request.body(Body::from(body.to_string())).unwrap();
    let response = cluster.router().oneshot(request).await.unwrap();
    assert!(response.status().is_success(), "{response:?}");
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap()
}

async fn make(cluster: &DevCluster, what: &str, object: Value) {
    let path = format!("/api/v1/namespaces/default/{what}");
    ask(cluster, Request::post(path), object).await;
}

/// The cluster, with the driver's pod and a quota for this many pods.
async fn cluster_for(pods: u32) -> DevCluster {
    let cluster = cluster();
    let container = json!({"name": "driver", "image": "none"});
    let driver = json!({"metadata": {"name": "driver-0"}, "spec": {"containers": [container]}});
    make(&cluster, "pods", driver).await;
    let hard = json!({"pods": pods.to_string()});
    let quota = json!({"metadata": {"name": "small"}, "spec": {"hard": hard}});
    make(&cluster, "resourcequotas", quota).await;
    cluster
}

fn start(cluster: &DevCluster, sets: &[&str]) -> (Handle, JoinHandle<Exit>) {
    let all = sets.iter().chain(&["driver.pod_name=driver-0"]);
    let all: Vec<String> = all.copied().map(str::to_owned).collect();
    let config = Config::from_toml("", "none.toml", [], &all).unwrap();
    let environment = Environment {
        clients: Clients::in_process(cluster.router(), "default"),
        clock: Clock::starting_at(jiff::Timestamp::UNIX_EPOCH),
        seed: 1,
        holder: 1,
    };
    let (handle, running) = start_in(config, environment);
    (handle, actix::spawn(running))
}

/// The driver's events.
async fn events(cluster: &DevCluster) -> Vec<Value> {
    let path = "/api/v1/namespaces/default/events";
    let list = ask(cluster, Request::get(path), Value::Null).await;
    let events = list["items"].as_array().unwrap().iter();
    let ours = events.filter(|event| event["source"]["component"] == "boatswain");
    ours.cloned().collect()
}

// spec: O-45, A-21
#[actix::test]
async fn an_exhausted_quota_is_one_event_on_the_drivers_pod_however_often_it_refuses() {
    tokio::time::pause();
    // Enough for the driver and one executor.
    let cluster = cluster_for(2).await;
    let sets = [
        "profiles.default.image=none",
        "profiles.default.executors=3",
    ];
    let (handle, running) = start(&cluster, &sets);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let first = events(&cluster).await;
    assert_eq!(first.len(), 1, "{first:?}");
    let event = &first[0];
    assert_eq!(event["reason"], "QuotaExceeded");
    assert_eq!(event["type"], "Warning");
    assert_eq!(event["involvedObject"]["kind"], "Pod");
    assert_eq!(event["involvedObject"]["name"], "driver-0");
    let said = event["message"].as_str().unwrap();
    assert!(said.contains("small") && said.contains("default"), "{said}");
    tokio::time::sleep(Duration::from_secs(600)).await;
    let later = events(&cluster).await;
    assert_eq!(later.len(), 1, "{later:?}");
    let count = later[0]["count"].as_u64().unwrap();
    assert!(
        count <= 11,
        "at most once a minute, and not per request: {count}"
    );
    handle.stop_by(OnSignal::HandOver);
    assert_eq!(running.await.unwrap(), Exit::Superseded);
    cluster.shutdown().await;
}

// spec: O-45
#[actix::test]
async fn events_that_wait_when_the_driver_ends_are_recorded_before_it_has_ended() {
    tokio::time::pause();
    let cluster = cluster_for(1).await;
    let sets = [
        "profiles.default.executors=0",
        "profiles.a.image=none",
        "profiles.b.image=none",
        "profiles.c.image=none",
    ];
    let (handle, running) = start(&cluster, &sets);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(events(&cluster).await.len(), 1, "one a second");
    handle.stop_by(OnSignal::HandOver);
    assert_eq!(running.await.unwrap(), Exit::Superseded);
    let recorded = events(&cluster).await;
    assert_eq!(recorded.len(), 3, "{recorded:?}");
    cluster.shutdown().await;
}
