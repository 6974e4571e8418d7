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
