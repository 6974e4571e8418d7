//! Pods that are kept after their executors have ended.

use std::time::Duration;

use axum::body::Body;
use boatswain::clock::Clock;
use boatswain::config::OnSignal;
use boatswain::driver::{Environment, start_in};
use boatswain::exit::Exit;
use http::Request;
use serde_json::json;
use tower::ServiceExt as _;

use crate::seconds;
use crate::server::{Server, config};

const POLICY: [&str; 3] = [
    "lifecycle.keep=failed",
    "lifecycle.keep_most=2",
    "lifecycle.keep_for=10m",
];

/// The executor of the pod exits with this code.
pub async fn exits(server: &Server, pod: &str, code: i32) {
    let terminated = json!({"exitCode": code, "reason": "Error"});
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    let status = json!({"status": {"phase": phase, "containerStatuses": [{
        "name": "executor", "image": "none", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": terminated},
    }]}});
    let request = Request::patch(format!("/api/v1/namespaces/default/pods/{pod}/status"))
        .header("content-type", "application/merge-patch+json")
        .body(Body::from(status.to_string()));
    let response = server.cluster.router().oneshot(request.unwrap()).await;
    assert!(response.unwrap().status().is_success());
    seconds(5).await;
}

/// The names of kept pods.
async fn kept(server: &Server) -> Vec<String> {
    let state = server.cluster.state().await;
    let kept = (state.pods("default"))
        .filter(|pod| pod["metadata"]["labels"]["boatswain.dev/inactive"] == "true")
        .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned());
    kept.collect()
}

// spec: O-77, L-2
#[actix::test]
async fn the_newest_pods_of_failures_are_kept_for_a_while_whichever_driver_kept_them() {
    tokio::time::pause();
    let server = Server::start();
    let (first, running) = start_in(config(4, "hand-over", &POLICY), server.environment(1));
    let running = actix::spawn(running);
    seconds(5).await;
    let name = |id: u64| format!("boatswain-exec-{id}");
    exits(&server, &name(1), 0).await;
    assert_eq!(kept(&server).await, [""; 0], "it has not failed");
    exits(&server, &name(2), 3).await;
    exits(&server, &name(3), 3).await;
    assert_eq!(kept(&server).await, [name(2), name(3)]);
    first.stop_by(OnSignal::HandOver);
    assert_eq!(running.await.unwrap(), Exit::Superseded);

    seconds(60).await;
    let epoch = jiff::Timestamp::UNIX_EPOCH;
    let environment = Environment {
        clock: Clock::starting_at(epoch + Duration::from_secs(80)),
        ..server.environment(2)
    };
    let (second, running) = start_in(config(4, "hand-over", &POLICY), environment);
    let running = actix::spawn(running);
    seconds(30).await;
    assert_eq!(kept(&server).await, [name(2), name(3)]);
    exits(&server, &name(4), 3).await;
    let newest = [name(3), name(4)];
    assert_eq!(kept(&server).await, newest, "the oldest is deleted");
    seconds(490).await;
    assert_eq!(kept(&server).await, newest);
    seconds(20).await;
    assert_eq!(
        kept(&server).await,
        [name(4)],
        "ten minutes under both drivers"
    );
    seconds(100).await;
    assert_eq!(kept(&server).await, [""; 0]);
    second.stop_by(OnSignal::HandOver);
    assert_eq!(running.await.unwrap(), Exit::Superseded);
}
