//! Tests profiles that are added while the driver runs.

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::world::{Driver, World, driver};

pub async fn add(driver: &Driver, name: &str, described: Value) -> (StatusCode, Value) {
    driver
        .call(Method::PUT, &format!("/v1/profiles/{name}"), described)
        .await
}

pub async fn until_running(driver: &Driver, profile: &str, executors: u64) {
    driver
        .until(&format!("{executors} of {profile} run"), |status| {
            status["profiles"][profile]["running"] == executors
        })
        .await;
}

/// The setting of a key that survives the driver.
pub fn kept_key(directory: &tempfile::TempDir) -> String {
    format!(
        "backend.key_file={}",
        directory.path().join("key").display()
    )
}

/// Changes these keys of the application record, as one may who has rights on ConfigMaps only.
async fn forge(world: &World, keys: &[(&str, Value)]) {
    let data: BTreeMap<&str, String> = keys.iter().map(|(k, v)| (*k, v.to_string())).collect();
    let metadata = json!({"name": "t-app"});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
    world.apply("configmaps/t-app", &map).await;
}

async fn hand_over(driver: Driver) {
    driver.post("/v1/application/hand-over", json!({})).await;
    driver.exit().await;
}

/// The names of the profiles that a driver knows.
pub async fn profiles(driver: &Driver) -> Vec<String> {
    let targets = driver.get("/v1/targets").await;
    targets["targets"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect()
}

// spec: O-58, B-26
#[actix::test]
async fn a_forged_profile_in_the_record_makes_no_pod() {
    let directory = tempfile::tempdir().unwrap();
    let key = kept_key(&directory);
    let (mut world, first) = driver(&[&key]).await;
    add(&first, "large", json!({"executors": 2})).await;
    add(&first, "small", json!({"executors": 1})).await;
    until_running(&first, "large", 2).await;
    until_running(&first, "small", 1).await;
    hand_over(first).await;

    let evil = json!({"executors": 1, "command": ["steal"]});
    let forged = json!({"large": {"executors": 2}, "small": evil.clone(), "evil": evil});
    let record = world.record().await;
    let proofs: Value =
        serde_json::from_str(record["data"]["profile-proofs"].as_str().unwrap()).unwrap();
    // A proof is for one name.
    let copied =
        json!({"large": proofs["large"], "small": proofs["small"], "evil": proofs["large"]});
    forge(&world, &[("profiles", forged), ("profile-proofs", copied)]).await;
    let second = world.start(&[&key]).await;
    until_running(&second, "large", 2).await;
    assert_eq!(profiles(&second).await, ["default", "large"]);
    sleep(std::time::Duration::from_secs(60)).await;
    for executor in second.living().await {
        let pod = second.pod(executor).await;
        let command = &pod["spec"]["containers"][0]["command"];
        assert_ne!(command, &json!(["steal"]), "executor {executor}");
    }
    // It can be added again, with a proof.
    let (status, answer) = add(&second, "small", json!({"executors": 1})).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    hand_over(second).await;
    let third = world.start(&[&key]).await;
    assert_eq!(profiles(&third).await, ["default", "large", "small"]);
}

// spec: O-117
#[actix::test]
async fn without_a_secret_that_survives_the_driver_no_successor_has_its_profiles() {
    let (mut world, first) = driver(&[]).await;
    add(&first, "large", json!({"executors": 2})).await;
    until_running(&first, "large", 2).await;
    hand_over(first).await;
    let second = world.start(&[]).await;
    second.until_running(3).await;
    assert_eq!(profiles(&second).await, ["default"]);
}

// spec: O-98, B-25
#[actix::test]
async fn a_target_in_the_record_cannot_exceed_the_most_executors_of_its_profile() {
    let most = "profiles.default.max_executors=5";
    let (mut world, first) = driver(&[most]).await;
    hand_over(first).await;
    let targets = json!({"default": 50});
    forge(&world, &[("targets", targets)]).await;
    let second = world.start(&[most]).await;
    second.until_running(5).await;
    assert_eq!(second.target().await, 5);
}

// spec: B-26, A-45
#[actix::test]
async fn an_added_profile_runs_executors_that_outlive_the_driver() {
    let directory = tempfile::tempdir().unwrap();
    let key = kept_key(&directory);
    let (mut world, first) = driver(&[&key]).await;
    let described = json!({"executors": 2, "env": {"SHAPE": "large"}, "max_executors": 5});
    let (status, answer) = add(&first, "large", described.clone()).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(answer, json!({"targets": {"default": 3, "large": 2}}));
    until_running(&first, "large", 2).await;
    let env = first.pod(4).await["spec"]["containers"][0]["env"].clone();
    assert!(
        env.as_array()
            .unwrap()
            .contains(&json!({"name": "SHAPE", "value": "large"})),
        "{env}"
    );
    let again = add(&first, "large", described).await;
    assert_eq!(again, (StatusCode::OK, answer), "twice the same: no harm");
    let more = first
        .call(Method::PUT, "/v1/targets/large", json!({"executors": 6}))
        .await;
    assert_eq!(more.0, StatusCode::UNPROCESSABLE_ENTITY);
    first
        .call(Method::PUT, "/v1/targets/large", json!({"executors": 3}))
        .await;
    until_running(&first, "large", 3).await;

    hand_over(first).await;
    let second = world.start(&[&key]).await;
    until_running(&second, "large", 3).await;
    second
        .post(
            "/v1/executors/kill",
            json!({"executors": [4], "replace": true}),
        )
        .await;
    second.end_of(4).await;
    until_running(&second, "large", 3).await;
}

// spec: B-26
#[actix::test]
async fn existing_profiles_do_not_change_and_invalid_ones_are_refused_by_key() {
    let (world, driver) = driver(&[]).await;
    add(&driver, "large", json!({"executors": 0})).await;
    for (name, described, field) in [
        ("default", json!({"executors": 1}), ""),
        ("large", json!({"executors": 1}), ""),
        ("other", json!({"executers": 1}), "executers"),
        ("other", json!({"memory": "much"}), "memory"),
        (
            "other",
            json!({"executors": 1, "max_executors": 0}),
            "executors",
        ),
        ("Other", json!({"executors": 1}), ""),
        ("other", json!({"args": vec!["x".repeat(1_000); 20]}), ""),
    ] {
        let (status, answer) = add(&driver, name, described.clone()).await;
        assert_eq!(
            status,
            StatusCode::UNPROCESSABLE_ENTITY,
            "{name} {described}: {answer}"
        );
        assert_eq!(
            answer["field"].as_str().unwrap_or_default(),
            field,
            "{answer}"
        );
    }
    sleep(std::time::Duration::from_secs(1)).await;
    let record = world.record().await;
    assert_eq!(record["data"]["profiles"], r#"{"large":{"executors":0}}"#);
}

// spec: B-26, B-31
#[actix::test]
async fn a_profile_added_during_a_hold_starts_on_resume() {
    let (_world, driver) = driver(&[]).await;
    driver.post("/v1/application/hold", json!({})).await;
    driver.until_running(0).await;
    add(&driver, "large", json!({"executors": 2})).await;
    sleep(std::time::Duration::from_secs(30)).await;
    assert_eq!(driver.living().await, [0; 0]);
    driver.post("/v1/application/resume", json!({})).await;
    until_running(&driver, "large", 2).await;
}

/// The executor's pod whose profile was added to a driver with this gang scheduler.
async fn pod_of_an_added_gang(scheduler: &str) -> Value {
    let gang = format!("scheduling.gang={scheduler}");
    let (_world, driver) = driver(&[&gang, "profiles.default.min_executors=3"]).await;
    let described = json!({"executors": 2, "min_executors": 2});
    let (status, answer) = add(&driver, "large", described).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    until_running(&driver, "large", 2).await;
    driver.pod(4).await
}

async fn annotations_of_an_added_gang(scheduler: &str) -> Value {
    let pod = pod_of_an_added_gang(scheduler).await;
    assert_eq!(pod["spec"]["schedulerName"], scheduler);
    pod["metadata"]["annotations"].clone()
}

// spec: A-82, B-26
#[actix::test]
async fn the_pods_of_an_added_profile_name_their_pod_group() {
    let annotations = annotations_of_an_added_gang("volcano").await;
    assert_eq!(annotations["scheduling.k8s.io/group-name"], "t-large");
}

// spec: A-82, B-26
#[actix::test]
async fn the_pods_of_an_added_profile_name_their_pod_group_of_kubernetes() {
    let pod = pod_of_an_added_gang("kubernetes").await;
    let group = json!({"podGroupName": "t-large"});
    assert_eq!(pod["spec"]["schedulingGroup"], group);
}

// spec: A-82, B-26
#[actix::test]
async fn the_pods_of_an_added_profile_list_their_task_group_beside_the_others() {
    let annotations = annotations_of_an_added_gang("yunikorn").await;
    assert_eq!(annotations["yunikorn.apache.org/task-group-name"], "large");
    let groups = annotations["yunikorn.apache.org/task-groups"].as_str();
    let groups: Value = serde_json::from_str(groups.unwrap()).unwrap();
    let least = |group: &Value| (group["name"].clone(), group["minMember"].clone());
    let groups: Vec<_> = groups.as_array().unwrap().iter().map(least).collect();
    let expected = [("default", 3), ("large", 2)].map(|(name, n)| (json!(name), json!(n)));
    assert_eq!(groups, expected);
}
