//! Two drivers of one application in two pods, without the lease. A driver that exits is started again in its pod, as
//! the kubelet does.

use std::time::Duration;

use axum::body::Body;
use boatswain::driver::start_in;
use boatswain::exit::Exit;
use http::Request;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tower::ServiceExt as _;

use crate::seconds;
use crate::server::{Network, Server, config};

async fn ask(server: &Server, request: http::request::Builder, body: Value) {
    let request = request.header("content-type", "application/json");
    let request = request.body(Body::from(body.to_string())).unwrap();
    let response = server.cluster.router().oneshot(request).await.unwrap();
    assert!(response.status().is_success(), "{response:?}");
}

async fn pods(server: &Server) {
    for name in ["driver-0", "driver-1"] {
        pod(server, json!({"name": name})).await;
    }
    seconds(5).await;
}

async fn pod(server: &Server, metadata: Value) {
    let container = json!({"name": "driver", "image": "none"});
    let pod = json!({"metadata": metadata, "spec": {"containers": [container]}});
    let request = Request::post("/api/v1/namespaces/default/pods");
    ask(server, request, pod).await;
}

/// Runs a driver in this pod again and again, and reports each exit, with the pod's number.
fn keep_running(server: &Server, pod: u64, exits: mpsc::UnboundedSender<(u64, Exit)>) {
    let starts = (1..).map(|start| server.environment(10 * start + pod));
    let environments: Vec<_> = starts.take(20).collect();
    let pod_name = format!("driver.pod_name=driver-{pod}");
    actix::spawn(async move {
        for environment in environments {
            let config = config(3, "hand-over", &[&pod_name]);
            let (_handle, running) = start_in(config, environment);
            let exit = actix::spawn(running).await.unwrap();
            exits.send((pod, exit)).unwrap();
            sleep(Duration::from_secs(2)).await;
        }
    });
}

async fn incarnation(server: &Server) -> u64 {
    let state = server.cluster.state().await;
    let record = state.config_maps("default").next().unwrap();
    record["data"]["incarnation"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

// spec: O-34
#[actix::test]
async fn two_drivers_in_pods_do_not_supersede_each_other_in_turns() {
    tokio::time::pause();
    for latency in [0, 50] {
        let server = Server::start();
        pods(&server).await;
        server.set_latency(Duration::from_millis(latency));
        let (exits, mut seen) = mpsc::unbounded_channel();
        keep_running(&server, 0, exits.clone());
        keep_running(&server, 1, exits);
        seconds(120).await;
        assert_eq!(server.pods().await.len(), 2 + 3);
        assert_eq!(incarnation(&server).await, 1, "nobody was superseded");
        let exits: Vec<_> = std::iter::from_fn(|| seen.try_recv().ok()).collect();
        assert!(exits.len() <= 1, "{exits:?}");
    }
}

// spec: O-104, O-31
#[actix::test]
async fn the_younger_driver_takes_over_when_the_pod_of_the_older_one_is_being_deleted_or_gone() {
    tokio::time::pause();
    for grace in [0, 30] {
        let server = Server::start();
        pods(&server).await;
        let (exits, mut seen) = mpsc::unbounded_channel();
        keep_running(&server, 0, exits.clone());
        seconds(5).await;
        keep_running(&server, 1, exits);
        seconds(60).await;
        assert_eq!(incarnation(&server).await, 1);
        let options = json!({"gracePeriodSeconds": grace});
        let pod = "/api/v1/namespaces/default/pods/driver-0";
        ask(&server, Request::delete(pod), options).await;
        seconds(3).await;
        assert_eq!(incarnation(&server).await, 2);
        assert_eq!(seen.recv().await, Some((0, Exit::Superseded)));
    }
}

// spec: O-104, O-31
#[actix::test]
async fn a_driver_that_was_killed_is_followed_at_once_in_its_pod() {
    tokio::time::pause();
    let mut server = Server::start();
    pods(&server).await;
    let start = |holder| {
        start_in(
            config(3, "hand-over", &["driver.pod_name=driver-0"]),
            server.environment(holder),
        )
    };
    let (first, running) = start(1);
    let running = actix::spawn(running);
    seconds(10).await;
    // As a kill does: nothing was handed over.
    running.abort();
    let (second, running) = start(2);
    let running = actix::spawn(running);
    sleep(Duration::from_millis(100)).await;
    assert_eq!(incarnation(&server).await, 2);
    assert_eq!(second.look().await.unwrap().entries.len(), 3);
    drop(first);
    second.stop();
    assert_eq!(running.await.unwrap(), Exit::Superseded);
    server.take_seen();
}

// spec: O-97
#[actix::test]
async fn a_driver_that_outlives_its_controller_begins_no_application() {
    tokio::time::pause();
    let server = Server::start();
    let controller = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "driver-5f", "uid": "gone", "controller": true,
    });
    let metadata = json!({
        "name": "driver-0", "ownerReferences": [controller], "finalizers": ["example.org/held"],
    });
    pod(&server, metadata).await;
    for start in 1..3 {
        let config = config(3, "auto", &["driver.pod_name=driver-0"]);
        let (_handle, running) = start_in(config, server.environment(start));
        assert_eq!(actix::spawn(running).await.unwrap(), Exit::Clean);
        assert_eq!(server.pods().await.len(), 1, "the driver's own");
        assert!(!server.has_record().await);
    }
}

// spec: O-134, O-11, O-108
#[actix::test]
async fn what_an_end_could_not_delete_the_next_driver_deletes_before_it_exits_with_the_same_code() {
    tokio::time::pause();
    let server = Server::start();
    pods(&server).await;
    let sets = ["app.id=etl", "driver.pod_name=driver-0"];
    let (handle, running) = start_in(config(3, "end", &sets), server.environment(1));
    let running = actix::spawn(running);
    seconds(10).await;
    server.set_network(Network::KeepsPods).await;
    handle.stop();
    assert_eq!(running.await.unwrap(), Exit::Unreachable);
    let another = ["app.id=other", "driver.pod_name=driver-0"];
    let (_handle, running) = start_in(config(3, "end", &another), server.environment(5));
    let exit = actix::spawn(running).await.unwrap();
    assert_eq!(exit, Exit::Configuration, "it deletes nothing of others");
    let next = |holder| {
        let (_handle, running) = start_in(config(3, "end", &sets), server.environment(holder));
        actix::spawn(running)
    };
    assert_eq!(next(2).await.unwrap(), Exit::Rights);
    assert_eq!(server.pods().await.len(), 2 + 3);
    server.set_network(Network::Works).await;
    assert_eq!(next(3).await.unwrap().code(), 0);
    seconds(40).await;
    assert_eq!(server.pods().await.len(), 2, "the drivers' own");
    assert_eq!(next(4).await.unwrap().code(), 0);
}

// spec: O-144
#[actix::test]
async fn an_end_goes_on_deleting_beyond_its_time_as_long_as_there_are_fewer() {
    tokio::time::pause();
    let server = Server::start();
    pods(&server).await;
    let sets = [
        "app.id=etl",
        "driver.pod_name=driver-0",
        "allocation.max_in_flight=1",
        "shutdown.grace=10s",
    ];
    let (handle, running) = start_in(config(30, "end", &sets), server.environment(1));
    let running = actix::spawn(running);
    seconds(30).await;
    assert_eq!(server.pods().await.len(), 2 + 30);
    // One delete after the other, so that the time is enough for half of them.
    server.set_latency(Duration::from_millis(400));
    handle.stop();
    assert_eq!(running.await.unwrap().code(), 0);
    seconds(40).await;
    assert_eq!(server.pods().await.len(), 2, "the drivers' own");
}

// spec: O-11, L-1, L-3
#[actix::test]
async fn executors_that_an_end_does_not_wait_for_have_their_ends_in_the_record_that_is_kept() {
    tokio::time::pause();
    let server = Server::with_slow_ends();
    pods(&server).await;
    let sets = ["app.id=etl", "driver.pod_name=driver-0"];
    let (handle, running) = start_in(config(3, "end", &sets), server.environment(1));
    let running = actix::spawn(running);
    seconds(10).await;
    handle.stop();
    assert_eq!(running.await.unwrap().code(), 0);
    assert_eq!(server.pods().await.len(), 2 + 3, "they terminate");
    let state = server.cluster.state().await;
    let record = state.config_maps("default").next().unwrap();
    let ends = record["data"]["ends"].as_str().unwrap();
    let told = ends.matches("deleted, its end was not waited for");
    assert_eq!(told.count(), 3, "{ends}");
    assert_eq!(record["data"]["reported"], "1-3");
}
