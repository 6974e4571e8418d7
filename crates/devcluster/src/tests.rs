//! Tests of the embedded cluster through its API, with a client in the same process.

mod access;
mod api;
mod claims;
mod deleting;
mod fault_injection;
mod fuzz;
mod garbage;
mod handle;
mod leftovers;
mod limits;
mod listing;
mod process;
mod properties;
mod quotas;
mod reading;
mod simulated;
mod watching;
mod watching_by_websocket;

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use futures::StreamExt as _;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::time::timeout;
use tower::ServiceExt as _;

use super::{DevCluster, NodeKind, Options};

/// The wall-clock time at which every test starts.
const EPOCH: &str = "2026-01-01T00:00:00Z";

/// The timeout for expected events; virtual time in most tests.
const SOON: Duration = Duration::from_secs(20);

fn options() -> Options {
    Options {
        wall_clock_start: EPOCH.parse().ok(),
        ..Options::default()
    }
}

fn cluster() -> DevCluster {
    super::start(options())
}

fn cluster_with(node: NodeKind) -> DevCluster {
    super::start(Options { node, ..options() })
}

/// The path of the default namespace's pods, with `below` appended.
fn pods(below: &str) -> String {
    format!("/api/v1/namespaces/default/pods{below}")
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "demo"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    })
}

async fn send(cluster: &DevCluster, method: Method, path: &str, body: Option<&Value>) -> Response {
    let content_type = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type);
    let request = request.body(body).expect("a request");
    cluster.router().oneshot(request).await.expect("an answer")
}

async fn ask(
    cluster: &DevCluster,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> (u16, Value) {
    let response = send(cluster, method, path, body).await;
    let code = response.status().as_u16();
    let bytes = response
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn get(cluster: &DevCluster, path: &str) -> (u16, Value) {
    ask(cluster, Method::GET, path, None).await
}

async fn post(cluster: &DevCluster, path: &str, body: &Value) -> (u16, Value) {
    ask(cluster, Method::POST, path, Some(body)).await
}

async fn patch(cluster: &DevCluster, path: &str, body: &Value) -> (u16, Value) {
    ask(cluster, Method::PATCH, path, Some(body)).await
}

async fn delete(cluster: &DevCluster, path: &str) -> (u16, Value) {
    ask(cluster, Method::DELETE, path, None).await
}

/// Creates a pod and returns it as stored.
async fn create(cluster: &DevCluster, name: &str) -> Value {
    let (code, pod) = post(cluster, &pods(""), &pod(name)).await;
    assert_eq!(code, 201, "{pod}");
    pod
}

/// Binds a pod to a node that does not exist.
async fn bind(cluster: &DevCluster, name: &str) {
    let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": "node-1"}});
    let (code, answer) = post(cluster, &pods(&format!("/{name}/binding")), &binding).await;
    assert_eq!(code, 201, "{answer}");
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"]
        .as_str()
        .expect("a version")
}

struct Events {
    body: axum::body::BodyDataStream,
    lines: std::collections::VecDeque<Value>,
}

async fn watch(cluster: &DevCluster, path: &str) -> Events {
    let response = send(cluster, Method::GET, path, None).await;
    assert_eq!(response.status(), 200);
    Events {
        body: response.into_body().into_data_stream(),
        lines: std::collections::VecDeque::new(),
    }
}

impl Events {
    /// The next event; `None` if the watch has ended.
    async fn next(&mut self) -> Option<Value> {
        while self.lines.is_empty() {
            let chunk = timeout(SOON * 10, self.body.next())
                .await
                .expect("something happens")?
                .expect("lines");
            let lines = chunk.split(|b| *b == b'\n').filter(|line| !line.is_empty());
            self.lines
                .extend(lines.map(|line| serde_json::from_slice::<Value>(line).expect("JSON")));
        }
        self.lines.pop_front()
    }

    /// The type of the next event, and the name of its object.
    async fn next_named(&mut self) -> (String, String) {
        let event = self.next().await.expect("the watch is open");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (
            text(&event["type"]),
            text(&event["object"]["metadata"]["name"]),
        )
    }

    /// Asserts that no event comes for a while.
    async fn quiet(&mut self) {
        assert!(self.lines.is_empty(), "{:?}", self.lines);
        let more = timeout(Duration::from_secs(5), self.body.next()).await;
        assert!(more.is_err(), "{more:?}");
    }
}

fn named(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

/// Waits until the pod satisfies the predicate.
async fn until(cluster: &DevCluster, name: &str, wanted: impl Fn(Option<&Value>) -> bool) {
    let mut published = cluster.store.published();
    let reached = timeout(
        SOON,
        published.wait_for(|p| wanted(p.state.pod("default", name))),
    )
    .await;
    assert!(
        reached.is_ok(),
        "it did not come to that: {:?}",
        cluster.state().await.pod("default", name)
    );
}

/// The code and reason of an error.
fn refusal((code, status): (u16, Value)) -> (u16, String) {
    (
        code,
        status["reason"].as_str().unwrap_or_default().to_owned(),
    )
}

fn refused(code: u16, reason: &str) -> (u16, String) {
    (code, reason.to_owned())
}
