//! Tests commands to the whole application through the driver's API: hold, resume, end, and what follows if the
//! application no longer calls the API.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::world::{World, driver, nothing};

const HOLD: &str = "/v1/application/hold";
const RESUME: &str = "/v1/application/resume";
const END: &str = "/v1/application/end";

// spec: B-31
#[actix::test]
async fn hold_removes_all_executors_and_resume_restores_as_many() {
    let (_world, driver) = driver(&[]).await;
    let held = driver.post(HOLD, json!({"by": "alice"})).await;
    assert_eq!(
        held,
        json!({"held": {"by": "alice", "targets": {"default": 3}}})
    );
    let again = driver.post(HOLD, json!({"by": "bob"})).await;
    assert_eq!(again, held, "twice the same: no harm");
    let status = driver.until_running(0).await;
    assert_eq!(status["held"], held["held"]);
    let end = driver.end_of(1).await;
    assert_eq!(end["reason"], "Decommissioned");
    assert_eq!(driver.target().await, 0);
    let set = driver
        .call(Method::PUT, "/v1/targets/default", json!({"executors": 2}))
        .await;
    assert_eq!(set.1, json!({"targets": {"default": 2}}), "what will be");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(
        driver.living().await,
        [0; 0],
        "not before they are wanted again"
    );
    let resumed = driver.post(RESUME, nothing()).await;
    assert_eq!(resumed, json!({"targets": {"default": 2}}));
    let status = driver.until_running(2).await;
    assert!(status["held"].is_null());
    assert_eq!(driver.post(RESUME, nothing()).await, resumed);
}

// spec: B-31, O-30
#[actix::test]
async fn resume_restores_only_profiles_that_are_still_configured() {
    let (mut world, first) = driver(&["profiles.old.executors=1"]).await;
    first.post(HOLD, json!({"by": "alice"})).await;
    first.post("/v1/application/hand-over", nothing()).await;
    first.exit().await;
    let second = world.start(&["profiles.new.executors=2"]).await;
    let status = second.until_running(0).await;
    let all = json!({"default": 3, "new": 2});
    assert_eq!(status["held"], json!({"by": "alice", "targets": all}));
    let resumed = second.post(RESUME, nothing()).await;
    assert_eq!(resumed, json!({"targets": all}));
    let of = |status: &Value, profile: &str| status["profiles"][profile]["running"].clone();
    second
        .until("all run", |status| {
            of(status, "default") == 3 && of(status, "new") == 2
        })
        .await;
}

// spec: B-31, O-30
#[actix::test]
async fn a_hold_outlives_a_driver_restart() {
    let (mut world, first) = driver(&[]).await;
    first
        .call(Method::PUT, "/v1/targets/default", json!({"executors": 2}))
        .await;
    first.until_running(2).await;
    first.post(HOLD, json!({"by": "alice"})).await;
    sleep(Duration::from_millis(500)).await;
    let record = world.record().await;
    let kept: Value = serde_json::from_str(record["data"]["held"].as_str().unwrap()).unwrap();
    assert_eq!(
        kept,
        json!({"by": "alice", "targets": {"default": 2}}),
        "written at once"
    );
    first.post("/v1/application/hand-over", nothing()).await;
    first.exit().await;
    let second = world.start(&[]).await;
    let status = second.until_running(0).await;
    assert_eq!(status["held"]["by"], "alice");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(second.living().await, [0; 0]);
    second.post(RESUME, nothing()).await;
    second.until_running(2).await;
    sleep(Duration::from_secs(1)).await;
    assert!(world.record().await["data"]["held"].is_null());
}

// spec: B-35, O-10, O-11
#[actix::test]
async fn the_application_ends_with_its_code_and_nothing_is_left() {
    let (world, driver) = driver(&["shutdown.grace=60s"]).await;
    let answer = driver.post(END, json!({"exit_code": 7})).await;
    assert_eq!(answer, json!({"exit_code": 7}));
    assert_eq!(driver.exit().await.code(), 7);
    assert!(world.record().await.is_null());
}

// spec: B-35, O-11
#[actix::test]
async fn a_second_end_command_changes_nothing() {
    let (_world, driver) = driver(&["shutdown.grace=60s"]).await;
    driver.post(END, nothing()).await;
    driver.post(END, json!({"exit_code": 4})).await;
    assert_eq!(driver.exit().await.code(), 0);
}

// spec: B-35, O-108
#[actix::test]
async fn in_a_pod_the_record_keeps_the_exit_code_for_a_successor() {
    tokio::time::pause();
    let mut world = World::new();
    world.make_pod("driver-0").await;
    let sets = ["shutdown.grace=60s", "driver.pod_name=driver-0"];
    let first = world.start(&sets).await;
    first.until_running(3).await;
    first.post(END, json!({"exit_code": 7})).await;
    assert_eq!(first.exit().await.code(), 7);
    assert_eq!(world.record().await["data"]["finished"], "7");
    assert_eq!(world.begin(&sets).exit().await.code(), 7);
}

// spec: B-35
#[actix::test]
async fn a_silent_application_is_held_then_resumed_and_finally_ended() {
    let sets = [
        "app.ttl=100s",
        "api.listen=127.0.0.1:0",
        "api.token_file=TOKENS",
        "shutdown.grace=60s",
    ];
    let directory = tempfile::tempdir().unwrap();
    let tokens = directory.path().join("tokens").display().to_string();
    let sets = sets.map(|set| set.replace("TOKENS", &tokens));
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let (_world, driver) = driver(&sets).await;
    // Reads do not count as a sign of life of the application.
    for _ in 0..9 {
        sleep(Duration::from_secs(10)).await;
        driver.get("/v1/status").await;
    }
    assert_eq!(driver.living().await, [1, 2, 3]);
    let status = driver
        .until("it is held", |status| !status["held"].is_null())
        .await;
    assert!(
        status["held"]["by"].is_null(),
        "nobody asked for it: {status}"
    );
    driver.until_running(0).await;
    driver
        .call(Method::PUT, "/v1/targets/default", json!({"executors": 2}))
        .await;
    driver.until_running(2).await;
    driver
        .until("it is held again", |status| !status["held"].is_null())
        .await;
    assert_eq!(driver.exit().await.code(), 12);
}

// spec: B-35, B-31
#[actix::test]
async fn an_operators_hold_outlasts_calls_of_the_application() {
    let (_world, driver) = driver(&[]).await;
    driver.post(HOLD, json!({"by": "alice"})).await;
    driver.until_running(0).await;
    driver
        .call(Method::PUT, "/v1/targets/default", json!({"executors": 3}))
        .await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(driver.living().await, [0; 0]);
}
