//! A node that the scheduler takes for free, and whose kubelet rejects each pod.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use boatswain::driver::start_in;
use boatswain::exit::Exit;
use devcluster::Options;
use http::Request;
use serde_json::{Value, json};
use tokio::time::sleep;
use tower::ServiceExt as _;

use crate::server::{Server, config};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Where a pod says which nodes it would rather not have.
const PREFERENCE: &str = "/spec/affinity/nodeAffinity\
                          /preferredDuringSchedulingIgnoredDuringExecution/0\
                          /preference/matchFields/0";

/// The pods that the node `bad` has rejected, and those that run on the node `good`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Placed {
    rejected: u32,
    running: u32,
}

async fn ask(server: &Server, request: http::request::Builder, body: Value) {
    let request = request.body(Body::from(body.to_string())).unwrap();
    let response = server.cluster.router().oneshot(request).await.unwrap();
    assert!(response.status().is_success(), "{response:?}");
}

/// Places new pods: on `bad`, which looks empty, unless they prefer others.
async fn place_pods(server: &Server, placed: &mut Placed) {
    let state = server.cluster.state().await;
    let is_new = |pod: &&Value| pod["spec"]["nodeName"].is_null();
    let not_bad = json!({"key": "metadata.name", "operator": "NotIn", "values": ["bad"]});
    for pod in state.pods("default").filter(is_new) {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let (node, status) = if pod.pointer(PREFERENCE) == Some(&not_bad) {
            placed.running += 1;
            let container = json!({
                "name": "executor", "image": "none", "imageID": "", "ready": true,
                "restartCount": 0, "state": {"running": {}},
            });
            let running = json!({"phase": "Running", "containerStatuses": [container]});
            ("good", running)
        } else {
            placed.rejected += 1;
            let reason = "UnexpectedAdmissionError";
            let message = "Pod was rejected: Allocate failed due to no healthy devices present";
            let failed = json!({"phase": "Failed", "reason": reason, "message": message});
            ("bad", failed)
        };
        let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": node}});
        let request = Request::post(format!("{PODS}/{name}/binding"));
        let request = request.header("content-type", "application/json");
        ask(server, request, binding).await;
        let request = Request::patch(format!("{PODS}/{name}/status"));
        let request = request.header("content-type", "application/merge-patch+json");
        ask(server, request, json!({"status": status})).await;
    }
}

/// The scheduler works for so many seconds.
async fn work(server: &Server, seconds: u32, placed: &mut Placed) {
    for _ in 0..10 * seconds {
        sleep(Duration::from_millis(100)).await;
        place_pods(server, placed).await;
    }
}

// spec: L-45, L-30
#[actix::test]
async fn executors_get_past_a_node_that_rejects_them_and_try_it_again_later() {
    tokio::time::pause();
    let server = Server::of(devcluster::start(Options::default()));
    let more = ["failures.max=0"];
    let (handle, running) = start_in(config(5, "hand-over", &more), server.environment(1));
    let running = actix::spawn(running);
    let mut placed = Placed::default();
    work(&server, 20, &mut placed).await;
    // Those that were requested before the third rejection are rejected as well.
    let rejected = placed.rejected;
    assert!((3..=7).contains(&rejected), "{rejected}");
    work(&server, 60, &mut placed).await;
    let first = Placed {
        rejected,
        running: 5,
    };
    assert_eq!(placed, first);

    let six = BTreeMap::from([("default".into(), 6)]);
    handle.set_targets(six).await.unwrap().unwrap();
    work(&server, 20, &mut placed).await;
    let then = Placed {
        rejected: rejected + 3,
        running: 6,
    };
    assert_eq!(placed, then, "it is tried again, and avoided again");
    handle.stop();
    assert_eq!(running.await.unwrap(), Exit::Superseded);
}
