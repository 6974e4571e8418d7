//! Tests commands that name executors: kill and decommission.

use std::time::Duration;

use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::world::{Driver, STOPS_AFTER, driver};

const KILL: &str = "/v1/executors/kill";
const DECOMMISSION: &str = "/v1/executors/decommission";

/// The lists of executor ids in an answer.
fn places(answer: &Value) -> [&Value; 4] {
    ["leaving", "already_leaving", "busy", "unknown"].map(|place| &answer[place])
}

async fn gone_after(driver: &Driver, executor: u64) -> Duration {
    let began = Instant::now();
    driver.end_of(executor).await;
    began.elapsed()
}

// spec: B-28, A-42
#[actix::test]
async fn killed_executors_end_within_their_grace_and_lower_the_target() {
    let (_world, driver) = driver(&[]).await;
    let answer = driver
        .post(KILL, json!({"executors": [1, 2, 99], "by": "alice"}))
        .await;
    assert_eq!(
        places(&answer),
        [&json!([1, 2]), &json!([]), &json!([]), &json!([99])]
    );
    assert_eq!(answer["targets"], json!({"default": 1}));
    assert_eq!(driver.target().await, 1);
    sleep(Duration::from_millis(500)).await;
    let again = driver.post(KILL, json!({"executors": [1, 2]})).await;
    assert_eq!(
        places(&again),
        [&json!([]), &json!([1, 2]), &json!([]), &json!([])]
    );
    assert_eq!(
        again["targets"],
        json!({"default": 1}),
        "killing an executor again lowers no target"
    );
    // The node would take longer than the grace of 5 s, after which the driver deletes the pod without grace.
    let took = gone_after(&driver, 1).await;
    let second = Duration::from_secs(1);
    assert!(took > 4 * second && took < 7 * second, "{took:?}");
    let end = driver.end_of(1).await;
    assert_eq!(
        (&end["reason"], &end["why"]),
        (&json!("Killed"), &json!("killed by alice"))
    );
    assert_eq!(end["failure"], false);
    driver.end_of(2).await;
    let status = driver.until_running(1).await;
    assert_eq!(status["losses"].as_array().unwrap().len(), 2);
    assert_eq!(driver.living().await, [3]);
}

// spec: B-28
#[actix::test]
async fn killing_with_replacement_keeps_the_target() {
    let (_world, driver) = driver(&[]).await;
    let answer = driver
        .post(KILL, json!({"executors": [2], "replace": true}))
        .await;
    assert_eq!(answer["targets"], json!({"default": 3}));
    driver.end_of(2).await;
    driver.until_running(3).await;
    assert_eq!(driver.living().await, [1, 3, 4]);
}

// spec: B-30, L-12
#[actix::test]
async fn a_decommissioned_executors_pod_is_marked_and_the_executor_replaced() {
    let (_world, driver) = driver(&[]).await;
    let answer = driver
        .post(DECOMMISSION, json!({"executors": [2], "by": "bob"}))
        .await;
    assert_eq!(answer["leaving"], json!([2]));
    assert_eq!(answer["targets"], json!({"default": 3}));
    sleep(Duration::from_secs(1)).await;
    let pod = driver.pod(2).await;
    assert_eq!(
        pod["metadata"]["labels"]["boatswain.dev/decommissioning"],
        "true"
    );
    let mark: Value = serde_json::from_str(
        pod["metadata"]["annotations"]["boatswain.dev/draining"]
            .as_str()
            .unwrap(),
    )
    .unwrap();
    assert_eq!(mark["by"], "bob");
    let until: jiff::Timestamp = mark["until"].as_str().unwrap().parse().unwrap();
    let begun: jiff::Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
    assert!(until > begun, "the default period is a minute: {until}");
    assert_eq!(
        pod["metadata"]["deletionGracePeriodSeconds"], 30,
        "with its own grace"
    );
    let took = gone_after(&driver, 2).await;
    assert!(took < STOPS_AFTER + Duration::from_secs(2), "{took:?}");
    let end = driver.end_of(2).await;
    let want = (&json!("Decommissioned"), &json!("decommissioned by bob"));
    assert_eq!((&end["reason"], &end["why"]), want);
    driver.until_running(3).await;
    assert_eq!(driver.living().await, [1, 3, 4]);
}

// spec: B-30, L-12, O-31
#[actix::test]
async fn a_successor_does_not_count_leaving_executors() {
    let (mut world, first) = driver(&[]).await;
    first
        .post(DECOMMISSION, json!({"executors": [2], "by": "bob"}))
        .await;
    sleep(Duration::from_secs(1)).await;
    first.post("/v1/application/hand-over", json!({})).await;
    assert_eq!(first.exit().await.code(), 75);
    let second = world.start(&[]).await;
    let end = second.end_of(2).await;
    let want = (&json!("Decommissioned"), &json!("decommissioned by bob"));
    assert_eq!((&end["reason"], &end["why"]), want);
    second.until_running(3).await;
}

// spec: B-28, B-30
#[actix::test]
async fn invalid_commands_are_refused_with_the_offending_field() {
    let (_world, driver) = driver(&[]).await;
    for (path, body, field) in [
        (KILL, json!({}), ""),
        (KILL, json!({"executors": [1, 0]}), "executors[1]"),
        (KILL, json!({"executors": [-1]}), "executors[0]"),
        (KILL, json!({"executors": "all"}), "executors"),
        (KILL, json!({"executors": [1], "gently": true}), "gently"),
        (
            DECOMMISSION,
            json!({"executors": [1], "within": "soon"}),
            "within",
        ),
        (
            DECOMMISSION,
            json!({"executors": [1], "within": "9000h"}),
            "within",
        ),
        (
            "/v1/application/end",
            json!({"exit_code": 256}),
            "exit_code",
        ),
        ("/v1/application/resume", json!({"now": true}), "now"),
    ] {
        let (status, answer) = driver.call(Method::POST, path, body.clone()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path} {body}: {answer}");
        assert_eq!(
            answer["field"].as_str().unwrap_or_default(),
            field,
            "{path} {body}"
        );
    }
    assert_eq!(driver.living().await, [1, 2, 3]);
}

// spec: B-53
#[actix::test]
async fn an_executor_is_found_by_the_address_of_its_pod() {
    let (_world, driver) = driver(&[]).await;
    let all = driver.get("/v1/executors").await["executors"].clone();
    let one = all[1].clone();
    let (ip, node) = (one["ip"].as_str().unwrap(), one["node"].as_str().unwrap());
    let status = driver.pod(2).await["status"].clone();
    assert_eq!(
        (ip, node.is_empty()),
        (status["podIP"].as_str().unwrap(), false)
    );
    let found = driver.get(&format!("/v1/executors?ip={ip}")).await;
    assert_eq!(found["executors"], json!([one]));
    let none = driver.get("/v1/executors?ip=192.0.2.1").await;
    assert_eq!(none["executors"], json!([]));
}

// spec: B-53
#[actix::test]
async fn executors_are_listed_by_profile_and_state_and_a_part_at_a_time() {
    let (_world, driver) = driver(&[]).await;
    let ids = async |query: &str| {
        let answer = driver.get(&format!("/v1/executors?{query}")).await;
        let ids = answer["executors"].as_array().unwrap().iter();
        let ids: Vec<u64> = ids.map(|one| one["executor"].as_u64().unwrap()).collect();
        (ids, answer["more_after"].as_u64())
    };
    assert_eq!(
        ids("profile=default&state=running").await,
        (vec![1, 2, 3], None)
    );
    assert_eq!(ids("profile=other").await, (vec![], None));
    assert_eq!(ids("state=leaving").await, (vec![], None));
    assert_eq!(ids("limit=2").await, (vec![1, 2], Some(2)));
    assert_eq!(ids("limit=2&after=2").await, (vec![3], None));
    assert_eq!(ids("limit=3&after=0").await, (vec![1, 2, 3], None));
    for (query, field) in [
        ("ip=node-1", json!("ip")),
        ("state=runing", json!("state")),
        ("after=x", json!("after")),
        ("limit=0", json!("limit")),
        ("profil=default", json!(null)),
        ("limit=1&limit=2", json!(null)),
    ] {
        let path = format!("/v1/executors?{query}");
        let (status, answer) = driver
            .call(http::Method::GET, &path, crate::world::nothing())
            .await;
        assert_eq!(
            (status, &answer["field"]),
            (StatusCode::BAD_REQUEST, &field),
            "{query}: {answer}"
        );
    }
}
