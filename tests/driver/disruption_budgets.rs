//! The PodDisruptionBudgets that the driver keeps for executors, and what evictions they refuse.

use std::collections::BTreeMap;

use axum::body::Body;
use boatswain::driver::{Handle, start_in};
use boatswain::exit::Exit;
use boatswain::server::api::tokens::Tokens;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::seconds;
use crate::server::{Server, config};

const BUDGET: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/boatswain-default";

async fn ask(server: &Server, request: http::request::Builder, body: Value) -> (StatusCode, Value) {
    let body = match body {
        Value::Null => Body::empty(),
        body => Body::from(body.to_string()),
    };
    let request = request.body(body).unwrap();
    let response = server.cluster.router().oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// Asks the driver's API, and expects success.
async fn api(handle: &Handle, request: http::request::Builder, body: Value) {
    let tokens = Tokens::parse("all\n", "tokens").unwrap();
    let request = request.header("authorization", "Bearer all");
    let request = request.body(Body::from(body.to_string())).unwrap();
    let routes = handle.routes(tokens).await.unwrap();
    let status = routes.oneshot(request).await.unwrap().status();
    assert_eq!(status, StatusCode::OK);
}

async fn min_available(server: &Server) -> Value {
    let (_, budget) = ask(server, Request::get(BUDGET), Value::Null).await;
    budget["spec"]["minAvailable"].clone()
}

/// Evicts the executor that is the n-th by name, and returns the answer's status.
async fn evict(server: &Server, n: usize) -> StatusCode {
    let (name, _) = server.pods().await.swap_remove(n);
    let path = format!("/api/v1/namespaces/default/pods/{name}/eviction");
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    let request = Request::post(path).header("content-type", "application/json");
    ask(server, request, eviction).await.0
}

// spec: K-12
#[actix::test]
async fn evictions_leave_as_many_executors_as_the_budget_says_which_follows_the_target() {
    tokio::time::pause();
    let server = Server::start();
    let least = "profiles.default.min_available=3";
    let (handle, running) = start_in(config(4, "end", &[least]), server.environment(1));
    let running = actix::spawn(running);
    seconds(10).await;
    assert_eq!(min_available(&server).await, 3);
    // The evicted executor is not yet replaced when the next eviction is asked for.
    assert_eq!(evict(&server, 0).await, StatusCode::CREATED);
    assert_eq!(evict(&server, 1).await, StatusCode::TOO_MANY_REQUESTS);
    seconds(40).await;
    assert_eq!(server.pods().await.len(), 4, "it was replaced");
    assert_eq!(evict(&server, 0).await, StatusCode::CREATED);

    let target = |executors| BTreeMap::from([("default".into(), executors)]);
    let _ = handle.set_targets(target(1)).await.unwrap();
    seconds(3).await;
    assert_eq!(min_available(&server).await, 1);
    seconds(40).await;
    assert_eq!(server.pods().await.len(), 1, "no budget is asked");
    let _ = handle.set_targets(target(9)).await.unwrap();
    seconds(10).await;
    assert_eq!(min_available(&server).await, 3);

    handle.stop();
    assert_eq!(running.await.unwrap(), Exit::Clean);
    seconds(10).await;
    assert_eq!(
        min_available(&server).await,
        Value::Null,
        "the record owned it"
    );
}

// spec: K-12
#[actix::test]
async fn a_budget_that_somebody_changed_or_deleted_is_corrected() {
    tokio::time::pause();
    let server = Server::start();
    let least = "profiles.default.min_available=2";
    let (_handle, running) = start_in(config(2, "end", &[least]), server.environment(1));
    actix::spawn(running);
    seconds(10).await;
    let patch = Request::patch(BUDGET).header("content-type", "application/merge-patch+json");
    let (status, _) = ask(&server, patch, json!({"spec": {"minAvailable": "50%"}})).await;
    assert_eq!(status, StatusCode::OK);
    seconds(301).await;
    assert_eq!(min_available(&server).await, 2);
    let (status, _) = ask(&server, Request::delete(BUDGET), Value::Null).await;
    assert_eq!(status, StatusCode::OK);
    seconds(301).await;
    assert_eq!(min_available(&server).await, 2);
}

// spec: B-57, K-12
#[actix::test]
async fn the_budget_of_a_removed_profile_is_deleted_by_a_successor_as_well() {
    tokio::time::pause();
    let budget = BUDGET.replace("boatswain-default", "boatswain-large");
    let server = Server::start();
    let (handle, running) = start_in(config(1, "hand-over", &[]), server.environment(1));
    let running = actix::spawn(running);
    seconds(5).await;
    let described = json!({"executors": 1, "image": "none", "min_available": 1});
    api(&handle, Request::put("/v1/profiles/large"), described).await;
    seconds(5).await;
    let (status, _) = ask(&server, Request::get(&budget), Value::Null).await;
    assert_eq!(status, StatusCode::OK);
    api(&handle, Request::delete("/v1/profiles/large"), json!({})).await;
    handle.stop();
    assert_eq!(running.await.unwrap(), Exit::Superseded);
    let (status, _) = ask(&server, Request::get(&budget), Value::Null).await;
    assert_eq!(status, StatusCode::OK, "its executor is left");

    let (_handle, running) = start_in(config(1, "hand-over", &[]), server.environment(2));
    actix::spawn(running);
    seconds(120).await;
    let (status, _) = ask(&server, Request::get(&budget), Value::Null).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(server.pods().await.len(), 1);
}
