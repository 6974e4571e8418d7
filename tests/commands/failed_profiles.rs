//! Tests of profiles that have failed too often.

use std::time::Duration;

use boatswain::exit::{Exit, OVER_BUDGET};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::profiles::{add, kept_key, until_running};
use crate::world::{Driver, World, driver};

const WHY: &str = "2 failures within 1h, and failures.max allows 1; 2 of the last 2 ran less than ";

/// Profile `bad` is added, and both of its executors fail.
async fn with_failed(sets: &[&str]) -> (World, Driver) {
    let (world, driver) = driver(sets).await;
    let (status, answer) = add(&driver, "bad", json!({"executors": 2})).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    until_running(&driver, "bad", 2).await;
    world.fail(4).await;
    driver.end_of(4).await;
    world.fail(5).await;
    until_failed(&driver, "bad").await;
    (world, driver)
}

async fn until_failed(driver: &Driver, profile: &str) {
    let failed = |status: &Value| {
        let profile = &status["profiles"][profile];
        let none = ["target", "running", "pending", "leaving"];
        profile["failed"].is_string() && none.iter().all(|state| profile[*state] == 0)
    };
    driver.until(&format!("{profile} has failed"), failed).await;
}

async fn reset(driver: &Driver, profile: &str) -> (StatusCode, Value) {
    let path = format!("/v1/profiles/{profile}/reset");
    driver.call(Method::POST, &path, json!({})).await
}

fn of_bad(events: &[Value], name: &str) -> Vec<Value> {
    let own = |event: &&Value| event["profile"] == "bad" && event["event"] == name;
    events.iter().filter(own).cloned().collect()
}

// spec: L-40, L-41, L-30, B-25, B-50, O-42
#[actix::test]
async fn a_profile_that_was_added_fails_alone_and_is_refused_targets_until_it_is_reset() {
    let (_world, driver) = with_failed(&["failures.max=1"]).await;
    let status = driver.get("/v1/status").await;
    let why = status["profiles"]["bad"]["failed"].as_str().unwrap();
    assert!(why.starts_with(WHY), "{why}");
    assert_eq!(status["profiles"]["default"]["failed"], Value::Null);
    sleep(Duration::from_secs(600)).await;
    assert_eq!(driver.living().await, [1, 2, 3], "the others stay");

    let two = json!({"executors": 2});
    let refused = [
        driver
            .call(Method::PUT, "/v1/targets/bad", two.clone())
            .await,
        add(&driver, "bad", two.clone()).await,
        add(&driver, "bad", json!({"executors": 1})).await,
    ];
    for (status, answer) in refused {
        assert_eq!(status, StatusCode::CONFLICT, "{answer}");
        assert_eq!(answer["code"], "failed");
        assert!(
            answer["message"].as_str().unwrap().contains(WHY),
            "{answer}"
        );
        let hint = answer["hint"].as_str().unwrap();
        assert!(hint.contains("boatswain reset PROFILE"), "{hint}");
    }
    let both = json!({"targets": {"default": 2, "bad": 1}});
    let (status, _) = driver.call(Method::PUT, "/v1/targets", both).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(driver.target().await, 3, "nothing was changed");

    let targets = json!({"targets": {"default": 3, "bad": 2}});
    assert_eq!(
        reset(&driver, "bad").await,
        (StatusCode::OK, targets.clone())
    );
    until_running(&driver, "bad", 2).await;
    assert_eq!(
        reset(&driver, "bad").await,
        (StatusCode::OK, targets),
        "twice"
    );
    assert_eq!(reset(&driver, "none").await.0, StatusCode::NOT_FOUND);
    let events = driver.events().await;
    let failed = of_bad(&events, "failed");
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["why"], why);
    assert_eq!(of_bad(&events, "reset").len(), 1);
}

// spec: L-40, L-41, O-30, B-50
#[actix::test]
async fn a_failed_profile_stays_failed_over_restarts_and_hand_overs_and_a_reset_one_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let key = kept_key(&directory);
    let sets = [&*key, "failures.max=1"];
    let (mut world, first) = with_failed(&sets).await;
    first.kill();
    let second = world.start(&sets).await;
    let living = second.events_after(None).await.swap_remove(0);
    let why = living["failed"]["bad"].as_str().unwrap();
    assert!(why.starts_with(WHY), "{living}");
    second.post("/v1/application/hand-over", json!({})).await;
    second.exit().await;
    let third = world.start(&sets).await;
    sleep(Duration::from_secs(600)).await;
    until_failed(&third, "bad").await;
    assert_eq!(third.living().await, [1, 2, 3]);
    assert_eq!(reset(&third, "bad").await.0, StatusCode::OK);
    third.kill();
    let fourth = world.start(&sets).await;
    until_running(&fourth, "bad", 2).await;
    let status = fourth.get("/v1/status").await;
    assert_eq!(status["profiles"]["bad"]["failed"], Value::Null);
}

// spec: L-40, B-52, B-57
#[actix::test]
async fn a_failed_profile_can_be_removed_and_added_again() {
    let (_world, driver) = with_failed(&["failures.max=1"]).await;
    let path = "/v1/profiles/bad";
    let (status, _) = driver.call(Method::DELETE, path, Value::Null).await;
    assert_eq!(status, StatusCode::OK);
    let gone = |status: &Value| status["profiles"]["bad"].is_null();
    driver.until("it is gone", gone).await;
    let (status, answer) = add(&driver, "bad", json!({"executors": 1})).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    until_running(&driver, "bad", 1).await;
}

// spec: L-30, L-40
#[actix::test]
async fn a_profile_of_the_configuration_ends_the_application_unless_that_says_otherwise() {
    let (world, first) = driver(&["failures.max=0", "failures.on_exceeded=profile"]).await;
    world.fail(2).await;
    until_failed(&first, "default").await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(reset(&first, "default").await.0, StatusCode::OK);
    first.until_running(3).await;
    let mut world = World::new();
    let second = world.start(&["failures.max=0"]).await;
    second.until_running(3).await;
    world.fail(2).await;
    assert_eq!(second.exit().await, Exit::Finished(OVER_BUDGET));
}
