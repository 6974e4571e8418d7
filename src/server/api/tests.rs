//! Tests of the API's routes with a running DriverBackend and SnapshotStore, without a socket.

use crate::model::executor::Session;
use std::collections::BTreeMap;
use std::time::Duration;

use actix::Actor;
use axum::body::Body;
use futures::StreamExt as _;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::tokens::Tokens;
use super::*;
use crate::actors::snapshot_store::messages::Tell;
use crate::actors::snapshot_store::{self, SnapshotStore};
use crate::clock::Clock;
use crate::config::Config;
use crate::model::news::{News, Outcome};
use crate::model::pod::Sighting;
use crate::model::testing::pending;
use crate::testing::{Scenario, backend, id, metrics, running};

mod adoption;
mod page;

/// A driver's store and backend, with the API's router.
struct Driver {
    store: Addr<SnapshotStore>,
    router: Router,
}

fn driver(targets: &[(&str, u32)]) -> Driver {
    driver_of(Scenario::new(targets), targets)
}

/// The same, with what this ledger contains.
fn driver_of(scenario: Scenario, targets: &[(&str, u32)]) -> Driver {
    driver_with(scenario, targets, Room::of(answers::MOST))
}

/// The same, with this room for unread answers.
fn driver_with(scenario: Scenario, targets: &[(&str, u32)], unread: Room) -> Driver {
    let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
    let counted = metrics();
    let store = SnapshotStore::new(snapshot_store::Wiring {
        ledger: scenario.ledger,
        clock,
        watch: None,
        metrics: counted.clone(),
    })
    .start();
    let mut config = Config::default();
    config.autoscaling.enabled = true;
    let backend = backend(&store, clock, targets, config);
    let scraper = Scraper {
        metrics: counted,
        actors: vec![("store", store.clone().recipient())],
    };
    let actors = Actors {
        backend: backend.backend,
        history: backend.history,
        scraper,
        adoption: Adoption::told_by(backend.adopted),
        callers: None,
        evidence: None,
    };
    let tokens = Tokens::parse("full-one\nlooks read\n", "tokens").unwrap();
    Driver {
        store,
        router: router_with(actors, tokens.into(), Limits::of(4_096, 0), unread),
    }
}

impl Driver {
    async fn send(
        &self,
        method: Method,
        path: &str,
        token: &str,
        body: &str,
    ) -> (StatusCode, Value) {
        let mut request = Request::builder().method(method).uri(path);
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    async fn get(&self, path: &str) -> Value {
        let (status, answer) = self.send(Method::GET, path, "looks", "").await;
        assert_eq!(status, StatusCode::OK, "{path}: {answer}");
        answer
    }

    fn request(&self, n: u64) {
        let outcome = Outcome::Sent {
            profile: "default".into(),
        };
        let news = News::Requested { id: id(n), outcome };
        self.store.do_send(Tell(news));
    }

    /// The next events of a stream: their names and contents.
    async fn events(&self, path: &str, last: Option<&str>, count: usize) -> Vec<(String, Value)> {
        let mut request = Request::get(path).header("authorization", "Bearer looks");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let request = request.body(Body::empty()).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let mut body = response.into_body().into_data_stream();
        let mut text = String::new();
        while text.matches("\n\n").count() < count {
            text.push_str(std::str::from_utf8(&body.next().await.unwrap().unwrap()).unwrap());
        }
        (text
            .split("\n\n")
            .filter(|message| message.contains("data:")))
        .map(|message| {
            let field = |name: &str| {
                let line = message.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap().trim().to_owned()
            };
            (field("id:"), serde_json::from_str(&field("data:")).unwrap())
        })
        .collect()
    }
}

/// Advances the time, because batches are sent on a timer.
async fn a_moment() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

// spec: O-50
#[actix::test]
async fn requests_need_a_token_and_a_read_only_one_changes_nothing() {
    tokio::time::pause();
    let driver = driver(&[("default", 2)]);
    for (token, method, path, status) in [
        ("", Method::GET, "/v1/status", 401),
        ("looks2", Method::GET, "/v1/status", 401),
        ("", Method::PUT, "/v1/targets", 401),
        ("looks", Method::PUT, "/v1/targets", 403),
        ("looks", Method::DELETE, "/v1/profiles/gpu", 403),
        ("full-one", Method::DELETE, "/v1/profiles/gpu", 404),
        ("looks", Method::GET, "/v1/status", 200),
        ("", Method::GET, "/healthz", 200),
        ("", Method::GET, "/nothing", 404),
        ("looks", Method::DELETE, "/v1/status", 405),
        ("full-one", Method::DELETE, "/v1/status", 405),
    ] {
        let (got, answer) = driver.send(method.clone(), path, token, "{}").await;
        assert_eq!(got.as_u16(), status, "{method} {path} as {token:?}");
        if status >= 400 {
            assert!(
                answer["code"].is_string() && answer["message"].is_string(),
                "{answer}"
            );
        }
    }
}

// spec: B-25
#[actix::test]
async fn targets_are_set_as_a_whole_and_answered_with_the_new_ones() {
    tokio::time::pause();
    let driver = driver(&[("default", 2), ("gpu", 1)]);
    a_moment().await;
    for (body, status, field) in [
        (
            json!({"targets": {"default": 5, "nope": 1}}),
            422,
            "targets.nope",
        ),
        (
            json!({"targets": {"default": 5, "gpu": 4_000_000}}),
            422,
            "targets.gpu",
        ),
        (json!({"targets": {"default": -5}}), 400, "targets.default"),
        (
            json!({"targets": {"default": "many"}}),
            400,
            "targets.default",
        ),
        (json!({"targets": 5}), 400, "targets"),
        (json!({"target": {}}), 400, "target"),
        (json!([]), 400, ""),
    ] {
        let body = body.to_string();
        let (got, answer) = driver
            .send(Method::PUT, "/v1/targets", "full-one", &body)
            .await;
        assert_eq!(got.as_u16(), status, "{body}: {answer}");
        assert_eq!(
            answer["field"].as_str().unwrap_or_default(),
            field,
            "{body}"
        );
    }
    let unchanged = json!({"targets": {"default": 2, "gpu": 1}});
    a_moment().await;
    assert_eq!(driver.get("/v1/targets").await, unchanged);
    let (_, set) = driver
        .send(
            Method::PUT,
            "/v1/targets",
            "full-one",
            r#"{"targets":{"gpu":3}}"#,
        )
        .await;
    assert_eq!(set, json!({"targets": {"default": 2, "gpu": 3}}));
    let (_, set) = driver
        .send(
            Method::PUT,
            "/v1/targets/default",
            "full-one",
            r#"{"executors":0}"#,
        )
        .await;
    assert_eq!(set, json!({"targets": {"default": 0, "gpu": 3}}));
    a_moment().await;
    assert_eq!(driver.get("/v1/targets").await, set);
}

// spec: O-42, O-43
#[actix::test]
async fn the_status_shows_the_numbers_of_each_profile() {
    tokio::time::pause();
    let driver = driver(&[("default", 2)]);
    driver.request(1);
    a_moment().await;
    let status = driver.get("/v1/status").await;
    assert_eq!(
        (&status["adopted"], &status["incarnation"]),
        (&json!(true), &json!(1))
    );
    let profile = &status["profiles"]["default"];
    assert_eq!(
        (&profile["target"], &profile["requested"]),
        (&json!(2), &json!(1))
    );
    let executors = driver.get("/v1/executors").await;
    assert_eq!(executors["executors"][0]["state"], "requested");
}

// spec: O-133
#[actix::test]
async fn many_readers_of_one_list_of_executors_take_the_room_of_one() {
    tokio::time::pause();
    let targets = [("default", 2)];
    let driver = driver_with(Scenario::new(&targets), &targets, Room::of(128 << 10));
    for n in 1..=1_000 {
        driver.request(n);
    }
    a_moment().await;
    let ask = async |path: &str| {
        let request = Request::get(path).header("authorization", "Bearer looks");
        let request = request.body(Body::empty()).unwrap();
        driver.router.clone().oneshot(request).await.unwrap()
    };
    let mut unread = Vec::new();
    for _ in 0..50 {
        unread.push(ask("/v1/executors").await);
    }
    let last = unread.last().unwrap();
    let length = http_body::Body::size_hint(last.body()).exact().unwrap();
    assert!((64 << 10..128 << 10).contains(&length), "{length}");
    assert!(
        unread
            .iter()
            .all(|answer| answer.status() == StatusCode::OK)
    );
    let other = "/v1/executors?profile=default";
    assert_eq!(ask(other).await.status(), StatusCode::TOO_MANY_REQUESTS);
    driver.request(1_001);
    a_moment().await;
    let changed = ask("/v1/executors").await;
    assert_eq!(changed.status(), StatusCode::TOO_MANY_REQUESTS, "another");
    let read = unread.pop().unwrap().into_body().collect().await.unwrap();
    let read: Value = serde_json::from_slice(&read.to_bytes()).unwrap();
    assert_eq!(read["executors"].as_array().unwrap().len(), 1_000);
    drop(unread);
    assert_eq!(ask(other).await.status(), StatusCode::OK);
    let all = driver.get("/v1/executors?after=1000").await;
    assert_eq!(all["executors"][0]["executor"], 1_001);
}

// spec: B-51
#[actix::test]
async fn an_executors_history_is_returned_and_an_unknown_executor_is_an_error() {
    tokio::time::pause();
    let driver = driver(&[("default", 2)]);
    driver.request(7);
    a_moment().await;
    let history = driver.get("/v1/executors/7").await;
    assert_eq!(history["now"]["state"], "requested");
    assert_eq!(history["events"][0]["event"], "requested");
    for (path, status) in [
        ("8", 404),
        ("0", 400),
        ("x", 400),
        ("-1", 400),
        ("%20", 400),
    ] {
        let path = format!("/v1/executors/{path}");
        let (got, answer) = driver.send(Method::GET, &path, "looks", "").await;
        assert_eq!(got.as_u16(), status, "{path}: {answer}");
    }
}

// spec: B-50, B-66
#[actix::test]
async fn events_are_streamed_after_the_live_executors_and_resumed_after_the_last_event() {
    tokio::time::pause();
    let driver = driver(&[("default", 2)]);
    driver.request(1);
    a_moment().await;
    let names = |events: &[(String, Value)]| -> Vec<String> {
        (events
            .iter()
            .map(|(_, event)| event["event"].as_str().unwrap().to_owned()))
        .collect()
    };
    let first = driver.events("/v1/events", None, 1).await;
    assert_eq!(names(&first), ["living"]);
    assert_eq!(first[0].1["executors"][0]["executor"], 1);
    assert_eq!(first[0].1["gap"], false);
    assert!(first[0].1["time"].is_string());
    let last = first[0].0.clone();
    driver.request(2);
    driver.request(3);
    let next = driver.events("/v1/events", Some(&last), 2).await;
    assert_eq!(names(&next), ["requested", "requested"]);
    assert_eq!(next[1].1["executor"], 3);
    let again = driver
        .events(&format!("/v1/events?after={}", next[0].0), None, 1)
        .await;
    assert_eq!(again, next[1..]);
    let lost = driver.events("/v1/events?after=7-1", None, 1).await;
    assert_eq!(
        (names(&lost), &lost[0].1["gap"]),
        (vec!["living".to_owned()], &json!(true))
    );
    let (status, answer) = driver
        .send(Method::GET, "/v1/events?after=x", "looks", "")
        .await;
    assert_eq!((status.as_u16(), &answer["field"]), (400, &json!("after")));
}

// spec: O-41
#[actix::test]
async fn the_metrics_are_served_to_prometheus() {
    tokio::time::pause();
    let driver = driver(&[("default", 2)]);
    driver.request(1);
    a_moment().await;
    let request = Request::get("/metrics").header("authorization", "Bearer looks");
    let request = request.body(Body::empty()).unwrap();
    let response = driver.router.clone().oneshot(request).await.unwrap();
    let text = response.into_body().collect().await.unwrap().to_bytes();
    let text = std::str::from_utf8(&text).unwrap();
    for line in [
        "boatswain_target_executors{profile=\"default\"} 2",
        "boatswain_executors{profile=\"default\",state=\"requested\"} 1",
        "boatswain_adopted 1",
        "boatswain_snapshots_waiting 0",
    ] {
        assert!(text.lines().any(|l| l == line), "no {line} in {text}");
    }
    assert!(
        text.contains("boatswain_round_seconds_count{subscriber=\"backend\"} "),
        "{text}"
    );
    assert!(text.ends_with("# EOF\n"));
}

// spec: O-113
#[actix::test]
async fn a_body_that_is_too_long_is_refused() {
    tokio::time::pause();
    let driver = driver(&[("default", 2)]);
    let targets: BTreeMap<String, u32> = (0..20_000).map(|n| (format!("profile-{n}"), 1)).collect();
    let body = json!({"targets": targets}).to_string();
    let (status, _) = driver
        .send(Method::PUT, "/v1/targets", "full-one", &body)
        .await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
}

// spec: B-41
#[actix::test]
async fn idle_executors_are_decommissioned_when_the_target_falls() {
    tokio::time::pause();
    let driver = driver(&[("default", 4)]);
    for n in 1..=4 {
        driver.request(n);
        let pod = running(pending("a", n, &format!("u{n}"), 200 + n));
        let outcome = Outcome::Created(Sighting::Read(Arc::new(pod)));
        driver
            .store
            .do_send(Tell(News::Requested { id: id(n), outcome }));
        let idle = n % 2 == 0;
        driver
            .store
            .do_send(Tell(News::Session(id(n), Session::open(idle))));
    }
    let body = json!({"profiles": {"default": {"pending": 0, "running": 2}}}).to_string();
    for _ in 0..70 {
        let (status, answer) = driver
            .send(Method::POST, "/v1/demand", "full-one", &body)
            .await;
        assert_eq!(
            (status, &answer),
            (StatusCode::OK, &json!({"wanted": {"default": 1}}))
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(
        driver.get("/v1/targets").await,
        json!({"targets": {"default": 2}})
    );
    let executors = driver.get("/v1/executors").await;
    let states: Vec<&str> = (executors["executors"].as_array().unwrap().iter())
        .map(|executor| executor["state"].as_str().unwrap())
        .collect();
    assert_eq!(
        states,
        ["running", "leaving", "running", "leaving"],
        "the busy ones stay"
    );
    let history = driver.get("/v1/executors/2").await;
    let last = history["events"].as_array().unwrap().last().unwrap();
    assert_eq!(last["why"], "decommissioned by autoscaling");
}

// spec: B-28
#[actix::test]
async fn a_kill_spares_and_lists_busy_executors_unless_forced() {
    tokio::time::pause();
    let driver = driver(&[("default", 2)]);
    for n in 1..=2 {
        driver.request(n);
        driver
            .store
            .do_send(Tell(News::Session(id(n), Session::open(n == 1))));
    }
    let kill = |force: bool| {
        let body = json!({"executors": [1, 2], "force": force}).to_string();
        let driver = &driver;
        async move {
            driver
                .send(Method::POST, "/v1/executors/kill", "full-one", &body)
                .await
                .1
        }
    };
    let answer = kill(false).await;
    assert_eq!(
        (&answer["leaving"], &answer["busy"]),
        (&json!([1]), &json!([2]))
    );
    assert_eq!(answer["targets"], json!({"default": 1}));
    let answer = kill(true).await;
    assert_eq!(
        (&answer["leaving"], &answer["already_leaving"]),
        (&json!([2]), &json!([1]))
    );
    assert_eq!(answer["targets"], json!({"default": 0}));
}
