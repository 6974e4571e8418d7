//! Tests targets that follow the demand reported by the application.

use std::time::Duration;

use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::world::{Driver, driver};

async fn demand(driver: &Driver, pending: u32, running: u32) -> Value {
    let body = json!({"profiles": {"default": {"pending": pending, "running": running}}});
    driver.post("/v1/demand", body).await
}

// spec: B-40, B-42, B-50
#[actix::test]
async fn targets_rise_in_steps_while_reported_demand_exceeds_them() {
    let sets = [
        "autoscaling.enabled=true",
        "profiles.default.slots=4",
        "profiles.default.max_executors=20",
    ];
    let (_world, driver) = driver(&sets).await;
    let mut targets = vec![driver.target().await];
    for _ in 0..80 {
        let wanted = demand(&driver, 70, 12).await;
        assert_eq!(wanted, json!({"wanted": {"default": 20}}));
        sleep(Duration::from_millis(100)).await;
        targets.push(driver.target().await);
    }
    targets.dedup();
    assert_eq!(targets, [3, 4, 6, 10, 18, 20]);
    driver.until_running(20).await;
    // Demand that is not renewed changes nothing, and lower demand removes no executors that may be busy.
    sleep(Duration::from_secs(600)).await;
    demand(&driver, 0, 0).await;
    sleep(Duration::from_secs(50)).await;
    assert_eq!(driver.target().await, 20);
}

// spec: B-40
#[actix::test]
async fn autoscaling_is_off_by_default() {
    let (_world, off) = driver(&[]).await;
    let body = json!({"profiles": {"default": {"pending": 9, "running": 0}}});
    let (status, answer) = off.call(Method::POST, "/v1/demand", body).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(answer["message"], "autoscaling is off");
}

// spec: B-40, B-31
#[actix::test]
async fn demand_requests_no_executor_during_a_hold_and_unknown_profiles_are_refused() {
    let (_world, driver) = driver(&["autoscaling.enabled=true"]).await;
    driver.post("/v1/application/hold", json!({})).await;
    driver.until_running(0).await;
    for _ in 0..20 {
        demand(&driver, 9, 0).await;
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(driver.target().await, 0);
    assert_eq!(driver.living().await, [0; 0]);
    let unknown = json!({"profiles": {"default": {"pending": 1, "running": 0}, "gpu": {"pending": 1, "running": 0}}});
    let (status, answer) = driver.call(Method::POST, "/v1/demand", unknown).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(answer["field"], "profiles.gpu");
}

// spec: B-25
#[actix::test]
async fn targets_above_the_profiles_maximum_are_refused() {
    let (_world, driver) = driver(&["profiles.default.max_executors=5"]).await;
    let want = |executors: u32| {
        let body = json!({"executors": executors});
        driver.call(Method::PUT, "/v1/targets/default", body)
    };
    assert_eq!(want(6).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(driver.target().await, 3);
    assert_eq!(want(5).await.0, StatusCode::OK);
}
