//! What the API answers before the executors are adopted.

use std::sync::Arc;

use http::header::RETRY_AFTER;
use tokio::time::Instant;

use super::*;
use crate::actors::snapshot_store::messages::{BeginList, ListArrived};
use crate::model::ledger::Inheritance;
use crate::model::news::{ListKind, Listed};
use crate::server::api::table::table;

const TARGETS: &[(&str, u32)] = &[("default", 2)];

fn driver_before_adoption() -> Driver {
    tokio::time::pause();
    let scenario = Scenario::before_adoption(TARGETS, Inheritance::default());
    driver_of(scenario, TARGETS)
}

impl Driver {
    /// A full list with these executors.
    async fn adopt(&self, executors: &[u64]) {
        let ticket = self.store.send(BeginList).await.unwrap();
        let pods = executors
            .iter()
            .map(|n| running(pending("a", *n, &format!("u{n}"), 1)));
        let list = Listed {
            ticket,
            version: 100.into(),
            kind: ListKind::ForWatch,
            items: pods.map(|pod| Sighting::Read(Arc::new(pod))).collect(),
        };
        self.store.send(ListArrived(list)).await.unwrap();
    }
}

/// A path of this route.
fn path(of: &str) -> String {
    of.replace("{id}", "3").replace("{profile}", "default")
}

// spec: B-55, B-61
#[actix::test]
async fn before_adoption_no_request_about_executors_is_carried_out_and_the_answer_says_why() {
    let driver = driver_before_adoption();
    let closed = table().into_iter().filter(|route| !route.early);
    for route in closed {
        let (path, began) = (path(route.path), Instant::now());
        let request = Request::builder().method(route.method).uri(&path);
        let request = request.header("authorization", "Bearer full-one");
        let request = request.body(Body::from("{}")).unwrap();
        let response = driver.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 503, "{path}");
        assert_eq!(response.headers()[RETRY_AFTER], "1", "{path}");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let problem: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(problem["code"], "not-adopted", "{path}");
        let waited = began.elapsed();
        assert!(waited < Duration::from_secs(4), "{path}: {waited:?}");
    }
}

// spec: B-55
#[actix::test]
async fn a_request_waits_for_the_adoption_and_is_answered_with_what_was_adopted() {
    let driver = driver_before_adoption();
    let (asked, _) = tokio::join!(driver.get("/v1/executors"), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        driver.adopt(&[3, 4]).await;
    });
    assert_eq!(asked["executors"].as_array().unwrap().len(), 2, "{asked}");
    assert_eq!(driver.get("/v1/targets").await["targets"]["default"], 2);
    let events = driver.events("/v1/events", Some("0-7"), 1).await;
    let living = &events[0].1;
    assert_eq!(
        (&living["event"], &living["gap"]),
        (&json!("living"), &json!(true))
    );
    assert_eq!(living["executors"].as_array().unwrap().len(), 2, "{living}");
}

// spec: B-61, O-42
#[actix::test]
async fn before_adoption_probes_answer_and_the_driver_can_be_ended() {
    let driver = driver_before_adoption();
    let status =
        async |method: Method, path: &str| driver.send(method, path, "full-one", "").await.0;
    assert_eq!(status(Method::GET, "/healthz").await, 200);
    assert_eq!(status(Method::GET, "/readyz").await, 503);
    assert_eq!(status(Method::GET, "/v1/token").await, 200);
    assert_eq!(status(Method::GET, "/openapi.json").await, 200);
    assert_eq!(status(Method::POST, "/v1/application/hand-over").await, 202);
}

// spec: B-55, O-41
#[actix::test]
async fn before_adoption_no_metric_counts_executors() {
    let driver = driver_before_adoption();
    let scrape = async || {
        let request = Request::get("/metrics").header("authorization", "Bearer looks");
        let request = request.body(Body::empty()).unwrap();
        let response = driver.router.clone().oneshot(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    };
    const COUNTS: [&str; 2] = ["target_executors", "executors"];
    let shown = |text: &str| {
        let shows = |line: &str, name: &str| {
            let rest = line
                .strip_prefix("boatswain_")
                .and_then(|line| line.strip_prefix(name));
            rest.is_some_and(|rest| rest.starts_with('{'))
        };
        COUNTS.map(|name| text.lines().any(|line| shows(line, name)))
    };
    let text = scrape().await;
    assert!(text.contains("boatswain_adopted 0"), "{text}");
    assert_eq!(shown(&text), [false; 2], "{text}");
    driver.adopt(&[3]).await;
    driver.get("/v1/status").await;
    let text = scrape().await;
    assert!(text.contains("boatswain_adopted 1"), "{text}");
    assert_eq!(shown(&text), [true; 2], "{text}");
}
