//! Tests rolling restarts, which replace one executor after the other.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::world::driver;

// spec: B-32, B-65
#[actix::test]
async fn a_rolling_restart_replaces_one_by_one_without_falling_below_the_target() {
    let (_world, driver) = driver(&["roll.interval=60s", "roll.policy=id"]).await;
    for _ in 0..1_200 {
        let running = driver.get("/v1/status").await["profiles"]["default"]["running"].clone();
        assert!(running.as_u64().unwrap() >= 3, "{running} run");
        sleep(Duration::from_millis(200)).await;
    }
    // After three minutes plus the starts, executors 1, 2 and 3 have been replaced.
    let living = driver.living().await;
    assert_eq!(living[..3], [4, 5, 6], "{living:?}");
    let end = driver.end_of(1).await;
    assert_eq!(end["why"], "decommissioned by the roll");
    assert_eq!(end["reason"], "Decommissioned");
}

// spec: B-65, O-31
#[actix::test]
async fn a_hand_over_aborts_a_rolling_restart() {
    let (mut world, first) = driver(&["roll.interval=60s"]).await;
    first
        .until("a fourth is wanted", |status| {
            status["profiles"]["default"]["target"] == 4
        })
        .await;
    first.post("/v1/application/hand-over", json!({})).await;
    first.exit().await;
    let second = world.start(&[]).await;
    second.until_running(3).await;
    assert_eq!(second.target().await, 3);
}
