//! Claims on volumes that the cluster refuses.

use axum::body::Body;
use boatswain::driver::start_in;
use boatswain::exit::Exit;
use boatswain::model::ProfileName;
use http::Request;
use serde_json::json;
use tower::ServiceExt as _;

use crate::seconds;
use crate::server::{Server, config};

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

async fn write(server: &Server, request: http::request::Builder, claims: u32) {
    let quota = json!({
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"persistentvolumeclaims": claims.to_string()}},
    });
    let request = request.body(Body::from(quota.to_string())).unwrap();
    let response = server.cluster.router().oneshot(request).await.unwrap();
    assert!(response.status().is_success(), "{response:?}");
}

// spec: A-61, A-113, A-31
#[actix::test]
async fn a_quota_on_claims_ends_no_executor_and_no_application() {
    tokio::time::pause();
    let server = Server::start();
    let json = "application/json";
    let quota = Request::post(QUOTAS).header("content-type", json);
    write(&server, quota, 2).await;
    let claims = r#"[{name = "data", mount_path = "/data", size = "1Gi"}]"#;
    let claims = format!("profiles.default.claims={claims}");
    let (handle, running) = start_in(config(4, "end", &[&claims]), server.environment(1));
    let running = actix::spawn(running);
    seconds(30).await;
    let pods = server.pods().await;
    seconds(600).await;
    assert!(!running.is_finished(), "two executors have their claims");
    assert_eq!(server.pods().await, pods, "no pod came or went");
    let now = handle.look().await.unwrap();
    let counts = now.counts(&ProfileName::from("default"));
    assert_eq!((counts.running, counts.leaving), (2, 0));

    let patch = Request::patch(format!("{QUOTAS}/few"));
    let patch = patch.header("content-type", "application/merge-patch+json");
    write(&server, patch, 4).await;
    seconds(70).await;
    let now = handle.look().await.unwrap();
    assert_eq!(now.counts(&ProfileName::from("default")).running, 4);
    handle.stop();
    assert_eq!(running.await.unwrap(), Exit::Clean);
}
