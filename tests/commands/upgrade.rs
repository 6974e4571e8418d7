//! Tests that a driver takes over what drivers of earlier releases wrote.
//!
//! `upgrade/VERSION.json` is what the driver of that release leaves behind when it hands over: its record, and its
//! executors' pods. With BOATSWAIN_WRITE_EXPECTED set, the file of this version is written anew. Those of earlier
//! releases are never changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use http::Method;
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use crate::world::{Driver, World};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/commands/upgrade");

/// The secret by which the added profile is proven.
const KEY: &str = "the same in every release of this test's\n";

/// What a successor cannot do without.
const NEEDED: [&str; 3] = ["format", "app-id", "incarnation"];

/// What each start writes anew.
const OF_THE_START: [&str; 4] = ["incarnation", "holder", "holder-pod", "reserved"];

const PROFILES: [(&str, u64); 2] = [("default", 4), ("large", 2)];

/// From the hand-over to the upgraded driver's start: at once, and long enough for all that is forgotten with time.
const LATER: [Duration; 2] = [
    Duration::from_secs(60),
    Duration::from_secs(3 * 24 * 60 * 60),
];

/// Longer than a driver waits with anything that it may do after its start.
const LONG: Duration = Duration::from_secs(10 * 60);

fn settings(directory: &Path, more: &[&str]) -> Vec<String> {
    let key = directory.join("key");
    fs::write(&key, KEY).unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    let mut sets = vec![format!("backend.key_file={}", key.display())];
    sets.extend(more.iter().map(|set| (*set).to_owned()));
    sets
}

async fn start(world: &mut World, sets: &[String]) -> Driver {
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    world.start(&sets).await
}

async fn until_all_run(driver: &Driver) {
    driver
        .until("every wanted executor runs", |status| {
            let running = |profile: &str| status["profiles"][profile]["running"].as_u64();
            (PROFILES.iter()).all(|(profile, number)| running(profile) == Some(*number))
        })
        .await;
}

/// The life of an application that leaves most of what a record can hold.
async fn lived() -> (Value, Vec<Value>) {
    tokio::time::pause();
    let directory = tempfile::tempdir().unwrap();
    let sets = settings(directory.path(), &["driver.pod_name=driver-0"]);
    let mut world = World::new();
    world.make_pod("driver-0").await;
    let driver = start(&mut world, &sets).await;
    driver.until_running(3).await;
    let four = json!({"targets": {"default": 4}});
    driver.call(Method::PUT, "/v1/targets", four).await;
    driver.until_running(4).await;
    let large = json!({"executors": 2, "env": {"SHAPE": "large"}});
    driver.call(Method::PUT, "/v1/profiles/large", large).await;
    until_all_run(&driver).await;
    // One that ended and is forgotten, and early ends, whose backoff is kept.
    for executor in [1, 5, 6] {
        world.fail(executor).await;
        driver.end_of(executor).await;
        until_all_run(&driver).await;
    }
    driver.post("/v1/application/hand-over", json!({})).await;
    driver.exit().await;
    (world.record().await, world.executor_pods().await)
}

fn written() -> Vec<(String, Value)> {
    let mut files: Vec<_> = fs::read_dir(FOLDER)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    let read = |path: &Path| serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert!(!files.is_empty(), "see BOATSWAIN_WRITE_EXPECTED");
    let name = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    files.iter().map(|path| (name(path), read(path))).collect()
}

fn keys(record: &Value) -> BTreeSet<String> {
    record["data"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect()
}

fn data(record: &Value) -> Map<String, Value> {
    let mut data = record["data"].as_object().unwrap().clone();
    data.retain(|key, _| !OF_THE_START.contains(&key.as_str()));
    data
}

/// Uids by name.
fn uids(pods: &[Value]) -> BTreeMap<String, String> {
    let text = |pod: &Value, key: &str| pod["metadata"][key].as_str().unwrap().to_owned();
    pods.iter()
        .map(|pod| (text(pod, "name"), text(pod, "uid")))
        .collect()
}

/// A cluster with what a release left in it, some time later.
async fn restored(left: &Value, later: Duration, without: Option<&str>) -> World {
    let world = World::new();
    let mut record = left["record"].clone();
    if let Some(key) = without {
        record["data"].as_object_mut().unwrap().remove(key);
    }
    world
        .restore(record, left["pods"].as_array().unwrap())
        .await;
    sleep(later).await;
    world
}

// spec: O-76
#[actix::test]
async fn the_record_that_this_version_writes_is_kept_for_its_successors() {
    let (record, pods) = lived().await;
    let version = env!("CARGO_PKG_VERSION");
    if std::env::var_os("BOATSWAIN_WRITE_EXPECTED").is_some() {
        let text = format!("{:#}\n", json!({"record": record, "pods": pods}));
        fs::write(format!("{FOLDER}/{version}.json"), text).unwrap();
    }
    let kept = written().into_iter().find(|(name, _)| name == version);
    let (_, kept) = kept.expect("a file of this version: see BOATSWAIN_WRITE_EXPECTED");
    assert_eq!(
        keys(&kept["record"]),
        keys(&record),
        "{version}.json: see BOATSWAIN_WRITE_EXPECTED"
    );
}

async fn is_taken_over_whole(version: &str, left: &Value, later: Duration) {
    let directory = tempfile::tempdir().unwrap();
    // Three executors are configured; the fourth is wanted because the record says so.
    let sets = settings(directory.path(), &[]);
    let mut world = restored(left, later, None).await;
    let before = uids(&world.executor_pods().await);
    let driver = start(&mut world, &sets).await;
    until_all_run(&driver).await;
    sleep(LONG).await;
    assert_eq!(uids(&world.executor_pods().await), before, "{version}");
    let after = world.record().await;
    let incarnation = |record: &Value| -> u64 {
        let text = record["data"]["incarnation"].as_str().unwrap();
        text.parse().unwrap()
    };
    assert_eq!(incarnation(&after), incarnation(&left["record"]) + 1);
    let (mut before, mut after) = (data(&left["record"]), data(&after));
    // Ids that were reserved and not used count as ended from now on.
    let [ended, still] = [&before, &after].map(|data| data["ended"].as_str().unwrap().to_owned());
    assert!(still.starts_with(&ended), "{version}: {still}");
    // The pause of a profile is over when its executors run.
    let mut forgotten = vec!["ended", "backoffs"];
    if later > LATER[0] {
        forgotten.extend(["failures", "failures-counted"]);
    }
    for key in forgotten {
        before.remove(key);
        after.remove(key);
    }
    assert_eq!(after, before, "{version} after {later:?}");
    let events = driver.events().await;
    let ends: Vec<_> = (events.iter())
        .filter(|event| event["event"] == "ended")
        .collect();
    assert!(ends.is_empty(), "{version}: {ends:?}");
    driver.post("/v1/application/hand-over", json!({})).await;
    driver.exit().await;
}

// spec: O-76, O-31
#[actix::test]
async fn what_each_release_wrote_is_taken_over_whole_and_no_executor_ends() {
    tokio::time::pause();
    for (version, left) in written() {
        for later in LATER {
            is_taken_over_whole(&version, &left, later).await;
        }
    }
}

// spec: O-76, O-30
#[actix::test]
async fn a_record_without_any_one_of_the_keys_that_came_later_is_taken_over_and_no_executor_ends() {
    tokio::time::pause();
    for (version, left) in written() {
        for key in keys(&left["record"]) {
            if NEEDED.contains(&key.as_str()) {
                continue;
            }
            let directory = tempfile::tempdir().unwrap();
            let sets = settings(directory.path(), &["profiles.default.executors=4"]);
            let mut world = restored(&left, LATER[0], Some(&key)).await;
            let mut before = uids(&world.executor_pods().await);
            let driver = start(&mut world, &sets).await;
            sleep(LONG).await;
            let mut after = uids(&world.executor_pods().await);
            if matches!(key.as_str(), "profiles" | "profile-proofs") {
                // Without a proof the profile is not used, as a rule of its own says.
                let large = |pods: &mut BTreeMap<String, String>| {
                    pods.retain(|name, _| !matches!(name.as_str(), "t-exec-8" | "t-exec-9"));
                };
                large(&mut before);
                large(&mut after);
            }
            assert_eq!(after, before, "{version} without {key}");
            driver.post("/v1/application/hand-over", json!({})).await;
            driver.exit().await;
        }
    }
}
