//! Drivers in pods of a Deployment, a StatefulSet or none, whose pod is stopped for each reason there is.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use boatswain::driver::{Handle, start_in};
use boatswain::exit::Exit;
use http::{Method, Request};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tower::ServiceExt as _;

use crate::seconds;
use crate::server::{Network, Server, config};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Longer than it takes to learn what a signal means.
const LEARNED: Duration = Duration::from_secs(2);

async fn ask(server: &Server, method: Method, path: &str, body: Value) {
    let kind = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder().method(method).uri(path);
    let request = request.header("content-type", kind);
    let request = request.body(Body::from(body.to_string())).unwrap();
    let response = server.cluster.router().oneshot(request).await.unwrap();
    assert!(response.status().is_success(), "{path}: {response:?}");
}

fn path(kind: &str) -> String {
    format!("/apis/apps/v1/namespaces/default/{kind}")
}

/// Creates a controller `driver` with as many pods.
async fn create(server: &Server, kind: &str, replicas: u32) {
    let labels = json!({"app": "driver"});
    let pod = json!({"containers": [{"name": "driver", "image": "none"}]});
    let set = json!({
        "metadata": {"name": "driver"},
        "spec": {
            "replicas": replicas, "serviceName": "driver", "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    });
    ask(server, Method::POST, &path(kind), set).await;
    seconds(5).await;
}

async fn scale(server: &Server, kind: &str, replicas: u32) {
    let path = format!("{}/driver", path(kind));
    let patch = json!({"spec": {"replicas": replicas}});
    ask(server, Method::PATCH, &path, patch).await;
    sleep(Duration::from_millis(1)).await;
}

async fn delete(server: &Server, path: &str) {
    ask(server, Method::DELETE, path, json!({})).await;
    sleep(Duration::from_millis(1)).await;
}

/// A pod of the set that is not being deleted.
async fn own_pod(server: &Server) -> String {
    let state = server.cluster.state().await;
    let mut pods = state.pods("default").filter(|pod| {
        pod["metadata"]["labels"]["app"] == "driver"
            && pod["metadata"]["deletionTimestamp"].is_null()
            && pod["status"]["phase"] == "Running"
    });
    pods.next().unwrap()["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Keeps a pod that is being deleted, as the kubelet does while its process runs.
async fn keep(server: &Server, pod: &str) {
    let patch = json!({"metadata": {"finalizers": ["example.com/runs"]}});
    ask(server, Method::PATCH, &format!("{PODS}/{pod}"), patch).await;
}

/// The uids of the executors' pods, by name.
async fn executors(server: &Server) -> BTreeMap<String, String> {
    let pods = server.pods().await.into_iter();
    pods.filter(|(name, _)| !name.starts_with("driver"))
        .collect()
}

/// The record's data; `None` if there is no record.
async fn record(server: &Server) -> Option<Value> {
    let state = server.cluster.state().await;
    let mut maps = state.config_maps("default");
    let map = maps.find(|map| map["metadata"]["name"] == "boatswain-app")?;
    Some(map["data"].clone())
}

struct Driver {
    handle: Handle,
    running: JoinHandle<Exit>,
}

impl Driver {
    fn start(server: &Server, holder: u64, pod: &str, more: &[&str]) -> Self {
        let pod = format!("driver.pod_name={pod}");
        let more = [&[pod.as_str()], more].concat();
        let (handle, running) = start_in(config(3, "auto", &more), server.environment(holder));
        let running = actix::spawn(running);
        Self { handle, running }
    }

    /// One that has its executors.
    async fn with_executors(server: &Server, holder: u64, pod: &str, more: &[&str]) -> Self {
        let driver = Self::start(server, holder, pod, more);
        seconds(20).await;
        assert_eq!(executors(server).await.len(), 3);
        driver
    }

    /// Sends it a signal. Returns how and after what time it ends.
    async fn signalled(self) -> (Exit, Duration) {
        self.handle.stop();
        let began = Instant::now();
        let exit = self.running.await.unwrap();
        (exit, began.elapsed())
    }
}

// spec: O-67, A-80
#[actix::test]
async fn executors_of_sets_are_let_go_with_their_set_and_a_later_driver_makes_it_again() {
    tokio::time::pause();
    for strategy in ["statefulset", "deployment"] {
        let server = Server::start();
        create(&server, "deployments", 1).await;
        let strategy = format!("allocation.strategy={strategy}");
        let pod = own_pod(&server).await;
        let network = Server::of(server.cluster.clone());
        let first = Driver::with_executors(&network, 1, &pod, &[&strategy]).await;
        scale(&server, "deployments", 0).await;
        assert_eq!(first.signalled().await.0, Exit::Superseded, "{strategy}");
        // Its process is over, and with it all its actors.
        network.set_network(Network::Silent).await;
        seconds(60).await;
        assert_eq!(executors(&server).await, BTreeMap::new(), "{strategy}");
        scale(&server, "deployments", 1).await;
        seconds(1).await;
        let pod = own_pod(&server).await;
        let second = Driver::with_executors(&server, 2, &pod, &[&strategy]).await;
        assert_eq!(second.handle.look().await.unwrap().entries.len(), 3);
    }
}

// spec: O-66, O-107
#[actix::test]
async fn a_signal_at_any_instant_of_a_start_means_the_same() {
    tokio::time::pause();
    for n in 0..12 {
        for drained in [true, false] {
            let server = Server::start();
            create(&server, "deployments", 1).await;
            let pod = own_pod(&server).await;
            let first = Driver::with_executors(&server, 1, &pod, &[]).await;
            assert_eq!(first.signalled().await.0, Exit::Superseded);
            let before = executors(&server).await;
            keep(&server, &pod).await;
            server.set_latency(Duration::from_millis(100));
            let second = Driver::start(&server, 2, &pod, &[]);
            let after = Duration::from_millis(120 * n + 5);
            sleep(after).await;
            match drained {
                true => delete(&server, &format!("{PODS}/{pod}")).await,
                false => scale(&server, "deployments", 0).await,
            }
            let (exit, _) = second.signalled().await;
            assert_eq!(exit, Exit::Superseded, "{drained} after {after:?}");
            seconds(5).await;
            let left = executors(&server).await;
            match drained {
                true => assert_eq!(left, before, "after {after:?}"),
                false => assert_eq!(left, BTreeMap::new(), "after {after:?}"),
            }
            let record = record(&server).await.unwrap();
            assert_eq!(record["finished"], Value::Null, "after {after:?}");
        }
    }
}

// spec: O-66, O-107
#[actix::test]
async fn a_first_start_that_is_drained_makes_nothing_and_does_not_say_that_the_application_is_over()
{
    tokio::time::pause();
    // Before the record is looked for.
    for (owner, after, expected) in [
        ("drained", 5, Exit::Superseded),
        ("drained", 105, Exit::Superseded),
        ("scaled to 0", 5, Exit::Superseded),
        ("scaled to 0", 105, Exit::Superseded),
        ("deleted", 5, Exit::Clean),
        ("deleted", 105, Exit::Clean),
    ] {
        let server = Server::start();
        create(&server, "deployments", 1).await;
        let pod = own_pod(&server).await;
        keep(&server, &pod).await;
        server.set_latency(Duration::from_millis(100));
        let driver = Driver::start(&server, 1, &pod, &[]);
        sleep(Duration::from_millis(after)).await;
        match owner {
            "drained" => delete(&server, &format!("{PODS}/{pod}")).await,
            "scaled to 0" => scale(&server, "deployments", 0).await,
            _ => delete(&server, &format!("{}/driver", path("deployments"))).await,
        }
        let (exit, _) = driver.signalled().await;
        assert_eq!(exit, expected, "{owner} after {after} ms");
        seconds(60).await;
        assert_eq!(executors(&server).await, BTreeMap::new(), "{owner}");
        assert_eq!(record(&server).await, None, "{owner} after {after} ms");
    }
}

// spec: O-66
#[actix::test]
async fn a_driver_that_cannot_reach_the_api_server_hands_over() {
    tokio::time::pause();
    for network in [Network::Refuses, Network::Silent] {
        let server = Server::start();
        create(&server, "deployments", 1).await;
        let pod = own_pod(&server).await;
        let driver = Driver::with_executors(&server, 1, &pod, &[]).await;
        let before = executors(&server).await;
        server.set_network(network).await;
        let (exit, took) = driver.signalled().await;
        assert_eq!(exit, Exit::Superseded, "{network:?}");
        // After that it waits for its requests and for the record, as each hand-over does.
        assert!(took < LEARNED + Duration::from_secs(26), "{took:?}");
        assert_eq!(executors(&server).await, before);
        // During a start there is nothing to wait for.
        let driver = Driver::start(&server, 2, &pod, &[]);
        seconds(1).await;
        let (exit, took) = driver.signalled().await;
        assert_eq!(exit, Exit::Superseded, "{network:?}");
        assert!(took < LEARNED + Duration::from_millis(10), "{took:?}");
    }
}

// spec: O-66, O-89
#[actix::test]
async fn with_the_lease_the_active_driver_lets_go_and_the_standby_takes_no_part() {
    tokio::time::pause();
    let server = Server::start();
    create(&server, "statefulsets", 2).await;
    let lease = ["ha.lease=true"];
    let first = Driver::with_executors(&server, 1, "driver-0", &lease).await;
    let second = Driver::start(&server, 2, "driver-1", &lease);
    seconds(10).await;
    scale(&server, "statefulsets", 0).await;
    let ((second, _), (first, _)) = tokio::join!(second.signalled(), first.signalled());
    assert_eq!([first, second], [Exit::Superseded; 2]);
    seconds(2).await;
    assert_eq!(executors(&server).await, BTreeMap::new());
    assert_eq!(record(&server).await.unwrap()["finished"], Value::Null);
    // The next one need not wait for the lease.
    scale(&server, "statefulsets", 2).await;
    seconds(4).await;
    let third = Driver::start(&server, 3, "driver-1", &lease);
    seconds(10).await;
    assert_eq!(executors(&server).await.len(), 3);
    assert!(!third.running.is_finished());
}
