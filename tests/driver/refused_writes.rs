//! Writes that the API server refuses for long.

use std::collections::BTreeMap;

use axum::Router;
use axum::body::Body;
use boatswain::driver::{Handle, start_in};
use boatswain::exit::Exit;
use boatswain::server::api::tokens::Tokens;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::kept_pods::exits;
use crate::seconds;
use crate::server::{Network, Server, config};

async fn status(handle: &Handle) -> Value {
    let tokens = Tokens::parse("all\n", "tokens").unwrap();
    let routes: Router = handle.routes(tokens).await.unwrap();
    let request = Request::get("/v1/status").header("authorization", "Bearer all");
    let answer = routes.oneshot(request.body(Body::empty()).unwrap()).await;
    let body = answer.unwrap().into_body().collect().await.unwrap();
    serde_json::from_slice(&body.to_bytes()).unwrap()
}

// spec: O-128, L-35
#[actix::test]
async fn deletes_that_are_refused_are_shown_with_the_rule_that_is_missing_until_they_are_not() {
    tokio::time::pause();
    let server = Server::start();
    let (handle, running) = start_in(config(3, "end", &[]), server.environment(1));
    let running = actix::spawn(running);
    seconds(10).await;
    server.set_network(Network::KeepsPods).await;
    let none = BTreeMap::from([("default".into(), 0)]);
    handle.set_targets(none).await.unwrap().unwrap();
    seconds(12).await;
    assert_eq!(
        status(&handle).await["refused_writes"],
        Value::Null,
        "not yet"
    );
    seconds(30).await;
    let shown = status(&handle).await["refused_writes"].clone();
    assert_eq!(shown.as_array().map(Vec::len), Some(1), "{shown}");
    let shown = &shown[0];
    assert_eq!(
        (&shown["verb"], &shown["resource"]),
        (&json!("delete"), &json!("pods"))
    );
    let why = shown["why"].as_str().unwrap();
    let rule = r#"{apiGroups: [""], resources: ["pods"], verbs: ["delete"]}"#;
    assert!(why.contains(rule), "{why}");
    server.set_network(Network::Works).await;
    seconds(31).await;
    assert_eq!(status(&handle).await["refused_writes"], Value::Null);
    assert_eq!(server.pods().await, []);
    handle.stop();
    assert_eq!(running.await.unwrap(), Exit::Clean);
}

// spec: O-128, K-12, O-77
#[actix::test]
async fn labels_and_budgets_that_are_refused_are_shown_in_the_same_way() {
    tokio::time::pause();
    let cases = [
        (
            Network::LeavesPods,
            "lifecycle.keep=failed",
            ["patch", "pods"],
            r#"{apiGroups: [""], resources: ["pods"], verbs: ["patch"]}"#,
        ),
        (
            Network::RefusesBudgets,
            "profiles.default.min_available=1",
            ["create", "poddisruptionbudgets"],
            r#"{apiGroups: ["policy"], resources: ["poddisruptionbudgets"], verbs: ["create"]}"#,
        ),
    ];
    for (network, set, write, rule) in cases {
        let server = Server::start();
        server.set_network(network).await;
        let (handle, running) = start_in(config(2, "hand-over", &[set]), server.environment(1));
        let running = actix::spawn(running);
        seconds(10).await;
        // A label would say that its pod is kept.
        exits(&server, "boatswain-exec-1", 3).await;
        seconds(60).await;
        let shown = status(&handle).await["refused_writes"].clone();
        assert_eq!(shown.as_array().map(Vec::len), Some(1), "{shown}");
        assert_eq!([&shown[0]["verb"], &shown[0]["resource"]], write);
        let why = shown[0]["why"].as_str().unwrap();
        assert!(why.contains(rule), "{why}");
        server.set_network(Network::Works).await;
        seconds(61).await;
        assert_eq!(status(&handle).await["refused_writes"], Value::Null);
        handle.stop();
        assert_eq!(running.await.unwrap(), Exit::Superseded);
    }
}
