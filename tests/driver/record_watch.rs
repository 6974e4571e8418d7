//! The watch on the application record outlives the server's history.

use std::time::Duration;

use axum::body::Body;
use boatswain::driver::start_in;
use boatswain::exit::Exit;
use http::Request;
use tokio::time::{Instant, sleep};
use tower::ServiceExt as _;

use crate::seconds;
use crate::server::{Server, config};

async fn uid_of_record(server: &Server) -> Option<String> {
    let state = server.cluster.state().await;
    let record = state.config_maps("default").next()?;
    record["metadata"]["uid"].as_str().map(str::to_owned)
}

async fn delete_record(server: &Server) {
    let path = "/api/v1/namespaces/default/configmaps/boatswain-app";
    let request = Request::delete(path).body(Body::empty()).unwrap();
    let response = server.cluster.router().oneshot(request).await.unwrap();
    assert!(response.status().is_success(), "{response:?}");
}

// spec: W-10
#[actix::test]
async fn a_deleted_record_is_noticed_at_once_also_when_its_version_has_left_the_history() {
    tokio::time::pause();
    let mut server = Server::start();
    let (handle, running) = start_in(config(2, "hand-over", &[]), server.environment(1));
    let running = actix::spawn(running);
    seconds(10).await;
    // The history moves on, and the API server is started again.
    for _ in 0..3 {
        server.cluster.compact().await;
        server.cluster.cut_watches().await;
        seconds(60).await;
        let first = uid_of_record(&server).await.unwrap();
        delete_record(&server).await;
        let deleted = Instant::now();
        let again = loop {
            match uid_of_record(&server).await {
                Some(uid) => break uid,
                None => sleep(Duration::from_millis(5)).await,
            }
            assert!(deleted.elapsed() < Duration::from_secs(30), "it is noticed");
        };
        assert_ne!(again, first);
        assert!(
            deleted.elapsed() < Duration::from_millis(100),
            "{:?}",
            deleted.elapsed()
        );
    }
    // An idle application asks for nothing but its polls, and for the watches when they are over.
    server.cluster.compact().await;
    server.cluster.cut_watches().await;
    seconds(60).await;
    server.take_seen();
    seconds(240).await;
    let seen = server.take_seen().into_iter().map(|seen| seen.line);
    let of_record: Vec<_> = seen.filter(|line| line.contains("/configmaps")).collect();
    assert!(of_record.len() <= 3, "{of_record:?}");
    handle.stop();
    assert_eq!(running.await.unwrap(), Exit::Superseded);
}
