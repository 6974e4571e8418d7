//! An application that is deleted together with its driver's rights, as by `helm uninstall`.

use std::time::Duration;

use axum::body::Body;
use boatswain::driver::{Handle, start_in};
use boatswain::exit::Exit;
use http::Request;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::ServiceExt as _;

use crate::seconds;
use crate::server::{Network, Server, config};

const CORE: &str = "/api/v1/namespaces/default";

async fn ask(server: &Server, request: http::request::Builder, body: Value) {
    let request = request.header("content-type", "application/json");
    let request = request.body(Body::from(body.to_string())).unwrap();
    let response = server.cluster.router().oneshot(request).await.unwrap();
    assert!(response.status().is_success(), "{response:?}");
}

/// The garbage collector deletes the record, whose owner is gone, and what it owned unless that is kept from it.
async fn collect(server: &Server, propagation: &str) {
    let record = Request::delete(format!("{CORE}/configmaps/boatswain-app"));
    ask(server, record, json!({"propagationPolicy": propagation})).await;
}

/// A driver in a pod, with three executors.
async fn running(server: &Server) -> (Handle, JoinHandle<Exit>) {
    let container = json!({"name": "driver", "image": "none"});
    let pod = json!({"metadata": {"name": "driver-0"}, "spec": {"containers": [container]}});
    ask(server, Request::post(format!("{CORE}/pods")), pod).await;
    seconds(2).await;
    let config = config(3, "auto", &["driver.pod_name=driver-0"]);
    let (handle, running) = start_in(config, server.environment(1));
    let running = actix::spawn(running);
    seconds(10).await;
    (handle, running)
}

// spec: O-95
#[actix::test]
async fn a_driver_whose_record_is_collected_with_its_rights_ends_and_leaves_nothing() {
    tokio::time::pause();
    let server = Server::start();
    let (handle, running) = running(&server).await;
    server.set_network(Network::Forbids).await;
    handle.stop();
    let stopped = Instant::now();
    // The order is not certain.
    tokio::time::sleep(Duration::from_millis(500)).await;
    collect(&server, "Background").await;
    assert_eq!(running.await.unwrap(), Exit::Clean);
    assert!(
        stopped.elapsed() < Duration::from_secs(3),
        "{:?}",
        stopped.elapsed()
    );
    seconds(10).await;
    assert!(!server.has_record().await);
    assert_eq!(server.pods().await.len(), 1, "the driver's");
}

// spec: O-95
#[actix::test]
async fn a_driver_whose_rights_alone_are_gone_hands_over_soon_and_ends_no_executor() {
    tokio::time::pause();
    let server = Server::start();
    let (handle, running) = running(&server).await;
    server.set_network(Network::Forbids).await;
    seconds(10).await;
    handle.stop();
    let stopped = Instant::now();
    assert_eq!(running.await.unwrap(), Exit::Superseded);
    assert!(
        stopped.elapsed() < Duration::from_secs(5),
        "{:?}",
        stopped.elapsed()
    );
    seconds(60).await;
    assert_eq!(server.pods().await.len(), 1 + 3);
    assert!(server.has_record().await);
}

// spec: O-11, O-95
#[actix::test]
async fn a_driver_whose_executors_are_not_collected_says_so_by_its_exit_code() {
    tokio::time::pause();
    let server = Server::start();
    let (handle, running) = running(&server).await;
    server.set_network(Network::Forbids).await;
    collect(&server, "Orphan").await;
    handle.stop();
    let stopped = Instant::now();
    assert_eq!(running.await.unwrap(), Exit::Unreachable);
    assert!(
        stopped.elapsed() < Duration::from_secs(9),
        "{:?}",
        stopped.elapsed()
    );
}

// spec: O-108
#[actix::test]
async fn an_end_without_claims_asks_for_none() {
    tokio::time::pause();
    let mut server = Server::start();
    let (handle, running) = running(&server).await;
    server.take_seen();
    handle.stop_by(boatswain::config::OnSignal::End);
    assert_eq!(running.await.unwrap(), Exit::Clean);
    let seen = server.take_seen().into_iter().map(|seen| seen.line);
    let of_claims: Vec<_> = seen.filter(|line| line.contains("claims")).collect();
    assert!(of_claims.is_empty(), "{of_claims:?}");
}
