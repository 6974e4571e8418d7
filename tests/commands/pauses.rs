//! Tests what the status shows about executors that are wanted but cannot be requested.

use http::Method;
use serde_json::{Value, json};

use crate::world::{Driver, World, driver};

const TARGETS: &str = "/v1/targets";

async fn paused(driver: &Driver, so: impl Fn(&Value) -> bool) -> Value {
    let status = driver
        .until("its profile stands so", |status| {
            so(&status["profiles"]["default"]["paused"])
        })
        .await;
    // This also checks the answer against the OpenAPI document.
    driver.get("/v1/status").await;
    status["profiles"]["default"]["paused"].clone()
}

async fn quota(world: &World, pods: u32) {
    let quota = json!({
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"pods": pods.to_string()}},
    });
    world.apply("resourcequotas/few", &quota).await;
}

// spec
#[actix::test]
async fn a_profile_that_waits_for_its_queue_is_shown_with_the_words_of_kueue() {
    tokio::time::pause();
    let mut world = World::new();
    let queue = ["scheduling.queue=kueue", "scheduling.queue_name=team"];
    let driver = world.start(&queue).await;
    let shown = paused(&driver, |paused| !paused.is_null()).await;
    assert_eq!(shown["cause"], "queued");
    let why = shown["why"].as_str().unwrap();
    let expected = "the Workload t-default-1: Kueue has not looked at it yet";
    assert!(why.starts_with(expected), "{why}");
    assert_eq!(shown["again_in_seconds"], Value::Null);
}

// spec, O-43, B-50
#[actix::test]
async fn a_full_quota_is_shown_with_its_message_and_next_retry_until_raised() {
    let (world, driver) = driver(&[]).await;
    quota(&world, 3).await;
    let wanted = json!({"targets": {"default": 5}});
    driver.call(Method::PUT, TARGETS, wanted).await;
    let shown = paused(&driver, |paused| {
        paused["again_in_seconds"].as_u64() > Some(20)
    })
    .await;
    assert_eq!(shown["cause"], "quota-exceeded");
    assert_eq!(
        shown["why"],
        "quota few is used up: pods=1 more would be beyond pods=3, pods=3 is used"
    );
    let tries = shown["for_seconds"].as_u64().unwrap();
    assert!(tries > 20, "since the first refusal: {shown}");
    quota(&world, 5).await;
    paused(&driver, Value::is_null).await;
    driver.until_running(5).await;
    let told: Vec<Value> = (driver.events().await.into_iter())
        .filter(|event| matches!(event["event"].as_str(), Some("paused" | "unpaused")))
        .map(|event| json!([event["event"], event["profile"], event["cause"]]))
        .collect();
    let began = json!(["paused", "default", "quota-exceeded"]);
    assert_eq!(
        told,
        [began, json!(["unpaused", "default", null])],
        "said once"
    );
}
