//! Tests of profiles that are removed while the driver runs.

use std::time::Duration;

use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::profiles::{add, kept_key, profiles, until_running};
use crate::world::{Driver, World, driver, nothing};

async fn remove(driver: &Driver, name: &str) -> (StatusCode, Value) {
    let path = format!("/v1/profiles/{name}");
    driver.call(Method::DELETE, &path, nothing()).await
}

async fn until_gone(driver: &Driver, name: &str) {
    let gone =
        |status: &Value| status["profiles"].is_object() && status["profiles"][name].is_null();
    driver.until(&format!("{name} is removed"), gone).await;
}

/// Two executors of a profile that was added.
async fn with_large(sets: &[&str]) -> (World, Driver) {
    let (world, driver) = driver(sets).await;
    let (status, answer) = add(&driver, "large", json!({"executors": 2})).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    until_running(&driver, "large", 2).await;
    (world, driver)
}

/// The names of the events of profile `large` itself.
fn of_the_profile(events: &[Value]) -> Vec<&str> {
    let own = |event: &&Value| event["profile"] == "large" && event["executor"].is_null();
    (events.iter().filter(own))
        .map(|event| event["event"].as_str().unwrap())
        .collect()
}

// spec: B-52, B-56, B-57, B-26, B-50, O-41
#[actix::test]
async fn a_removed_profile_is_forgotten_when_its_executors_have_ended_and_may_be_added_again() {
    let (world, driver) = with_large(&[]).await;
    let others = json!({"targets": {"default": 3}});
    assert_eq!(
        remove(&driver, "large").await,
        (StatusCode::OK, others.clone())
    );
    assert_eq!(
        remove(&driver, "large").await,
        (StatusCode::OK, others.clone()),
        "twice"
    );
    assert_eq!(driver.get("/v1/targets").await, others);
    let status = driver.get("/v1/status").await;
    assert_eq!(status["profiles"]["large"]["removing"], true, "{status}");
    // Nothing of that name can be asked for meanwhile.
    let same = add(&driver, "large", json!({"executors": 2})).await;
    assert_eq!(
        (same.0, &same.1["code"]),
        (StatusCode::CONFLICT, &json!("being-removed"))
    );
    let target = json!({"executors": 2});
    let target = driver.call(Method::PUT, "/v1/targets/large", target).await;
    assert_eq!(target.0, StatusCode::UNPROCESSABLE_ENTITY);
    sleep(Duration::from_secs(6)).await;
    let data = world.record().await["data"].clone();
    assert_eq!(data["profiles-being-removed"], r#"["large"]"#);
    assert_eq!(data["profiles"], r#"{"large":{"executors":2}}"#);

    until_gone(&driver, "large").await;
    for executor in [4, 5] {
        assert_eq!(driver.end_of(executor).await["reason"], "ScaledDown");
    }
    let events = driver.events().await;
    let expected = ["target-changed", "removing", "target-changed", "removed"];
    assert_eq!(of_the_profile(&events), expected);
    sleep(Duration::from_secs(2)).await;
    let (_, metrics) = driver.text("/metrics").await;
    assert!(!metrics.contains("profile=\"large\""), "{metrics}");
    assert!(metrics.contains("profile=\"default\""), "{metrics}");
    sleep(Duration::from_secs(6)).await;
    let data = world.record().await["data"].to_string();
    assert!(
        !data.contains("large\\\":{") && !data.contains("being-removed"),
        "{data}"
    );
    assert_eq!(remove(&driver, "large").await.0, StatusCode::NOT_FOUND);

    let (status, answer) = add(&driver, "large", json!({"executors": 1, "memory": "1Gi"})).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    until_running(&driver, "large", 1).await;
    assert_eq!(driver.living().await, [1, 2, 3, 6]);
}

// spec: B-52, A-41
#[actix::test]
async fn running_executors_of_a_removed_profile_go_even_where_a_lower_target_spares_them() {
    let (_world, driver) = with_large(&["allocation.scale_down=pending-only"]).await;
    remove(&driver, "large").await;
    until_gone(&driver, "large").await;
    assert_eq!(driver.living().await, [1, 2, 3]);
}

// spec: B-52
#[actix::test]
async fn profiles_of_the_configuration_and_unknown_ones_are_not_removed() {
    let (_world, driver) = driver(&[]).await;
    let (status, answer) = remove(&driver, "default").await;
    assert_eq!(
        (status, &answer["code"]),
        (StatusCode::CONFLICT, &json!("configured"))
    );
    let hint = answer["hint"].as_str().unwrap();
    assert!(
        hint.contains("remove [profiles.NAME] from the file"),
        "{hint}"
    );
    assert_eq!(remove(&driver, "large").await.0, StatusCode::NOT_FOUND);
    driver.until_running(3).await;
}

// spec: B-52, O-30, O-31, B-50
#[actix::test]
async fn the_successor_of_a_killed_driver_goes_on_with_a_removal() {
    let directory = tempfile::tempdir().unwrap();
    let key = kept_key(&directory);
    let (mut world, first) = with_large(&[&key]).await;
    assert_eq!(remove(&first, "large").await.0, StatusCode::OK);
    first.kill();
    let second = world.start(&[&key]).await;
    let living = second.events_after(None).await.swap_remove(0);
    assert_eq!(
        (&living["event"], &living["removing"]),
        (&json!("living"), &json!(["large"]))
    );
    assert_eq!(profiles(&second).await, ["default"]);
    let (status, _) = add(&second, "large", json!({"executors": 2})).await;
    assert_eq!(status, StatusCode::CONFLICT);
    until_gone(&second, "large").await;
    // Whenever the next one dies, it is forgotten.
    second.kill();
    let third = world.start(&[&key]).await;
    until_gone(&third, "large").await;
    assert_eq!(third.living().await, [1, 2, 3]);
    sleep(Duration::from_secs(2)).await;
    let (status, answer) = add(&third, "large", json!({"executors": 1})).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    until_running(&third, "large", 1).await;
}

// spec: B-69, B-52
#[actix::test]
async fn a_profile_whose_engine_is_silent_for_its_ttl_is_removed_also_by_a_successor() {
    let directory = tempfile::tempdir().unwrap();
    let key = kept_key(&directory);
    let (mut world, first) = driver(&[&key]).await;
    let described = json!({"executors": 2, "ttl": "30s"});
    let (status, answer) = add(&first, "large", described.clone()).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    until_running(&first, "large", 2).await;
    for n in 0..8 {
        sleep(Duration::from_secs(20)).await;
        let (status, answer) = match n % 2 {
            0 => add(&first, "large", described.clone()).await,
            _ => {
                let target = json!({"executors": 2});
                first.call(Method::PUT, "/v1/targets/large", target).await
            }
        };
        assert_eq!(status, StatusCode::OK, "{answer}");
    }
    sleep(Duration::from_secs(20)).await;
    first.kill();
    let second = world.start(&[&key]).await;
    sleep(Duration::from_secs(20)).await;
    assert_eq!(profiles(&second).await, ["default", "large"]);
    until_gone(&second, "large").await;
    assert_eq!(second.living().await, [1, 2, 3]);
    let events = second.events_after(Some("2-0")).await;
    let of_large = events.iter().filter(|event| event["profile"] == "large");
    let named: Vec<_> = of_large
        .filter_map(|event| event["event"].as_str())
        .collect();
    let silent = named.iter().position(|name| *name == "silent");
    assert!(
        silent < named.iter().position(|name| *name == "removing"),
        "{named:?}"
    );
    assert!(silent.is_some(), "{named:?}");
}

// spec: B-56
#[actix::test]
async fn a_profile_that_the_configuration_has_at_the_next_start_is_not_removed_any_more() {
    let directory = tempfile::tempdir().unwrap();
    let key = kept_key(&directory);
    let (mut world, first) = with_large(&[&key]).await;
    remove(&first, "large").await;
    first.kill();
    let configured = "profiles.large.executors=1";
    let second = world.start(&[&key, configured]).await;
    until_running(&second, "large", 1).await;
    assert_eq!(profiles(&second).await, ["default", "large"]);
    assert_eq!(remove(&second, "large").await.0, StatusCode::CONFLICT);
}

// spec: B-52, B-31
#[actix::test]
async fn a_profile_removed_during_a_hold_does_not_come_back_with_it() {
    let (_world, driver) = with_large(&[]).await;
    driver.post("/v1/application/hold", json!({})).await;
    remove(&driver, "large").await;
    let status = driver.get("/v1/status").await;
    assert_eq!(status["held"]["targets"], json!({"default": 3}));
    until_gone(&driver, "large").await;
    driver.post("/v1/application/resume", json!({})).await;
    driver.until_running(3).await;
    assert_eq!(profiles(&driver).await, ["default"]);
}

// spec: B-52, O-11
#[actix::test]
async fn an_application_ends_while_a_profile_is_being_removed() {
    let (world, driver) = with_large(&["shutdown.grace=60s"]).await;
    remove(&driver, "large").await;
    driver
        .post("/v1/application/end", json!({"exit_code": 3}))
        .await;
    assert_eq!(driver.exit().await.code(), 3);
    assert_eq!(world.record().await, Value::Null);
}
