//! Standby: two drivers of one application, of which the holder of the Lease writes.

use std::time::Duration;

use axum::body::Body;
use boatswain::config::{Config, OnSignal};
use boatswain::driver::{Handle, start_in};
use boatswain::exit::Exit;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::ServiceExt as _;

use crate::seconds;
use crate::server::{Network, Server, config};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/boatswain-driver";

const PODS: &str = "/api/v1/namespaces/default/pods";

struct Driver {
    handle: Handle,
    running: JoinHandle<Exit>,
}

impl Driver {
    fn start(server: &Server, holder: u64, config: Config) -> Self {
        let (handle, running) = start_in(config, server.environment(holder));
        let running = actix::spawn(running);
        Self { handle, running }
    }

    /// Whether it has taken over: a standby has no ledger.
    async fn is_active(&self) -> bool {
        let look = tokio::time::timeout(Duration::from_secs(1), self.handle.look());
        look.await.is_ok_and(|look| look.is_some())
    }
}

fn with_lease(executors: u32, more: &[&str]) -> Config {
    let mut sets = vec!["ha.lease=true"];
    sets.extend(more);
    config(executors, "auto", &sets)
}

async fn ask(server: &Server, request: http::request::Builder, body: Value) -> Value {
    let request = request.header("content-type", "application/json");
    let request = request.body(Body::from(body.to_string())).unwrap();
    let response = server.cluster.router().oneshot(request).await.unwrap();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap()
}

/// Patches the Lease, as an operator might.
async fn write_lease(server: &Server, patch: Value) {
    let request = Request::patch(LEASE).header("content-type", "application/merge-patch+json");
    let request = request.body(Body::from(patch.to_string())).unwrap();
    let response = server.cluster.router().oneshot(request).await.unwrap();
    assert!(response.status().is_success(), "{response:?}");
}

async fn get(server: &Server, path: &str) -> Value {
    ask(server, Request::get(path), Value::Null).await
}

/// The number of the driver that holds the Lease; `None` if it is free.
async fn holder(server: &Server) -> Option<u64> {
    let lease = get(server, LEASE).await;
    let holder = lease["spec"]["holderIdentity"].as_str()?;
    u64::from_str_radix(holder.rsplit('_').next()?, 16).ok()
}

fn writes(server: &mut Server) -> Vec<String> {
    let seen = server.take_seen().into_iter();
    seen.map(|seen| seen.line)
        .filter(|line| !line.starts_with("GET") && !line.contains("/leases"))
        .collect()
}

// spec: O-32, O-89, O-90
#[actix::test]
async fn a_standby_writes_nothing_and_takes_over_at_once_when_the_holder_hands_over() {
    tokio::time::pause();
    let mut server = Server::start();
    let first = Driver::start(&server, 1, with_lease(3, &[]));
    seconds(10).await;
    let pods = server.pods().await;
    assert_eq!(pods.len(), 3);
    writes(&mut server);
    let second = Driver::start(&server, 2, with_lease(3, &[]));
    seconds(60).await;
    assert!(first.is_active().await && !second.is_active().await);
    assert_eq!(writes(&mut server), [""; 0]);
    assert_eq!(holder(&server).await, Some(1));

    // With the lease on, a signal means hand-over.
    first.handle.stop();
    assert_eq!(first.running.await.unwrap(), Exit::Superseded);
    let released = Instant::now();
    while !second.is_active().await {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(released.elapsed() < Duration::from_millis(200));
    seconds(60).await;
    assert_eq!(holder(&server).await, Some(2));
    assert_eq!(server.pods().await, pods, "every executor stays");
    second.handle.stop();
    assert_eq!(second.running.await.unwrap(), Exit::Superseded);
    assert_eq!(holder(&server).await, None);
}

// spec: O-91
#[actix::test]
async fn a_holder_that_cannot_renew_stops_writing_and_ends_before_a_standby_takes_over() {
    tokio::time::pause();
    for network in [Network::Refuses, Network::Silent] {
        let server = Server::start();
        let first = Driver::start(&server, 1, with_lease(3, &[]));
        seconds(10).await;
        let began = Instant::now();
        server.set_network(network).await;
        assert_eq!(first.running.await.unwrap(), Exit::Superseded);
        let took = began.elapsed();
        let bounds = Duration::from_secs(16)..=Duration::from_secs(20 + 2 + 2);
        assert!(bounds.contains(&took), "{network:?}: {took:?}");
        // The other driver reaches the server: it waits for the rest of the lease.
        server.set_network(Network::Works).await;
        let second = Driver::start(&server, 2, with_lease(3, &[]));
        let began = Instant::now();
        while !second.is_active().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let took = began.elapsed();
        let bounds = Duration::from_secs(30)..=Duration::from_secs(31);
        assert!(bounds.contains(&took), "{network:?}: {took:?}");
        assert_eq!(server.pods().await.len(), 3);
        second.handle.stop();
        assert_eq!(second.running.await.unwrap(), Exit::Superseded);
    }
}

// spec: O-89
#[actix::test]
async fn a_standby_that_is_stopped_ends_nothing_whatever_a_signal_means() {
    tokio::time::pause();
    let mut server = Server::start();
    let first = Driver::start(&server, 1, with_lease(3, &[]));
    seconds(10).await;
    let second = Driver::start(&server, 2, with_lease(3, &[]));
    seconds(10).await;
    writes(&mut server);
    second.handle.stop_by(OnSignal::End);
    assert_eq!(second.running.await.unwrap(), Exit::Superseded);
    seconds(60).await;
    assert_eq!(writes(&mut server), [""; 0]);
    assert_eq!(
        (holder(&server).await, server.pods().await.len()),
        (Some(1), 3)
    );
    first.handle.stop();
    assert_eq!(first.running.await.unwrap(), Exit::Superseded);
}

// spec: O-108, O-89
#[actix::test]
async fn after_an_end_a_standby_ends_too_and_does_not_begin_the_application_again() {
    tokio::time::pause();
    let server = Server::start();
    let first = Driver::start(&server, 1, with_lease(3, &[]));
    seconds(10).await;
    let second = Driver::start(&server, 2, with_lease(3, &[]));
    seconds(10).await;
    first.handle.stop_by(OnSignal::End);
    assert_eq!(first.running.await.unwrap(), Exit::Clean);
    assert_eq!(second.running.await.unwrap(), Exit::Finished(0));
    seconds(60).await;
    assert_eq!(server.pods().await.len(), 0);
    assert!(server.has_record().await);
}

// spec: O-91
#[actix::test]
async fn a_lease_that_was_taken_by_hand_ends_its_holder_with_an_event() {
    tokio::time::pause();
    let server = Server::start();
    let container = json!({"name": "driver", "image": "none"});
    let pod = json!({"metadata": {"name": "driver-0"}, "spec": {"containers": [container]}});
    ask(
        &server,
        Request::post("/api/v1/namespaces/default/pods"),
        pod,
    )
    .await;
    let config = with_lease(1, &["driver.pod_name=driver-0"]);
    let first = Driver::start(&server, 1, config);
    seconds(10).await;
    write_lease(&server, json!({"spec": {"holderIdentity": "someone"}})).await;
    assert_eq!(first.running.await.unwrap(), Exit::Superseded);
    let events = get(&server, "/api/v1/namespaces/default/events").await;
    let mut events = events["items"].as_array().unwrap().iter();
    let lost = events.find(|event| event["reason"] == "LeaseLost").unwrap();
    assert_eq!(lost["involvedObject"]["name"], "driver-0");
    assert!(
        lost["message"].as_str().unwrap().contains("someone"),
        "{lost}"
    );
}

// spec: O-93
#[actix::test]
async fn only_the_active_drivers_pod_bears_the_label_of_the_active_one() {
    tokio::time::pause();
    let server = Server::start();
    for name in ["driver-0", "driver-1"] {
        let container = json!({"name": "driver", "image": "none"});
        let labels = json!({"app": "driver", "boatswain.dev/active": "true"});
        let metadata = json!({"name": name, "labels": labels});
        let pod = json!({"metadata": metadata, "spec": {"containers": [container]}});
        ask(
            &server,
            Request::post("/api/v1/namespaces/default/pods"),
            pod,
        )
        .await;
    }
    let of = |pod: &str| {
        let pod = format!("driver.pod_name={pod}");
        with_lease(1, &[&pod])
    };
    let active = || async {
        let mut active = Vec::new();
        for name in ["driver-0", "driver-1"] {
            let pod = get(&server, &format!("/api/v1/namespaces/default/pods/{name}")).await;
            let label = &pod["metadata"]["labels"]["boatswain.dev/active"];
            active.push(label.as_str().is_some_and(|label| label == "true"));
        }
        active
    };
    let first = Driver::start(&server, 1, of("driver-0"));
    seconds(10).await;
    let second = Driver::start(&server, 2, of("driver-1"));
    seconds(10).await;
    assert_eq!(active().await, [true, false]);
    first.handle.stop();
    assert_eq!(first.running.await.unwrap(), Exit::Superseded);
    seconds(10).await;
    assert_eq!(active().await, [false, true]);
    second.handle.stop();
    assert_eq!(second.running.await.unwrap(), Exit::Superseded);
}

// spec: O-93
#[actix::test]
async fn a_successor_takes_the_label_from_the_pod_of_a_driver_that_lost_the_lease() {
    tokio::time::pause();
    let server = Server::start();
    for name in ["driver-0", "driver-1"] {
        let container = json!({"name": "driver", "image": "none"});
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [container]}});
        ask(&server, Request::post(PODS), pod).await;
    }
    let is_active = async |pod: &str| {
        let pod = get(&server, &format!("{PODS}/{pod}")).await;
        pod["metadata"]["labels"]["boatswain.dev/active"] == "true"
    };
    let first = Driver::start(&server, 1, with_lease(1, &["driver.pod_name=driver-0"]));
    seconds(10).await;
    write_lease(&server, json!({"spec": {"holderIdentity": "someone"}})).await;
    assert_eq!(first.running.await.unwrap(), Exit::Superseded);
    assert!(
        is_active("driver-0").await,
        "whoever lost it may be cut off"
    );
    write_lease(&server, json!({"spec": {"holderIdentity": ""}})).await;
    let second = Driver::start(&server, 2, with_lease(1, &["driver.pod_name=driver-1"]));
    seconds(10).await;
    assert!(!is_active("driver-0").await && is_active("driver-1").await);
    second.handle.stop();
    assert_eq!(second.running.await.unwrap(), Exit::Superseded);
}

// spec: O-93
#[actix::test]
async fn a_take_over_does_not_wait_for_the_label_of_its_pod() {
    tokio::time::pause();
    let server = Server::start();
    let container = json!({"name": "driver", "image": "none"});
    for name in ["driver-0", "driver-1"] {
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [container]}});
        ask(&server, Request::post(PODS), pod).await;
    }
    let of = |pod: &str| with_lease(1, &[&format!("driver.pod_name={pod}")]);
    let first = Driver::start(&server, 1, of("driver-0"));
    seconds(10).await;
    let second = Driver::start(&server, 2, of("driver-1"));
    seconds(10).await;
    first.handle.stop();
    server.set_network(Network::FailsForPods).await;
    assert_eq!(first.running.await.unwrap(), Exit::Superseded);
    let released = Instant::now();
    while !second.is_active().await {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(
        released.elapsed() < Duration::from_millis(500),
        "{:?}",
        released.elapsed()
    );
    server.set_network(Network::Works).await;
    seconds(20).await;
    let pod = get(&server, &format!("{PODS}/driver-1")).await;
    assert_eq!(pod["metadata"]["labels"]["boatswain.dev/active"], "true");
    second.handle.stop();
    assert_eq!(second.running.await.unwrap(), Exit::Superseded);
}
