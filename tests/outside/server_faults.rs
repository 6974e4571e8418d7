//! Tests a driver whose API server is frozen, killed, restarted or emptied, or whose application record is deleted.

use std::thread;
use std::time::Duration;

use super::api::Grace;
use super::cluster::Cluster;
use super::driver::{Driver, RECORD};
use super::process::until;

const MANY: usize = 50;

// spec: A-26, W-3, E-13
#[test]
fn an_api_server_that_freezes_costs_no_executor() {
    let Some(cluster) = Cluster::own() else {
        return;
    };
    let driver = Driver::start(&cluster, MANY, &["cluster.request_timeout=1s"]);
    let before = cluster.converges(MANY);
    cluster.freeze();
    thread::sleep(Duration::from_secs(4));
    cluster.thaw();
    assert_eq!(cluster.settles(MANY), before);
    let log = driver.log();
    assert_eq!(log.count("executor requested"), MANY);
    assert_eq!(log.count("executor ended"), 0);
}

// spec, I-1
#[test]
fn an_api_server_frozen_during_creates_gets_each_request_once() {
    let Some(cluster) = Cluster::own() else {
        return;
    };
    let sets = ["cluster.request_timeout=1s", "allocation.max_rate=50"];
    let mut driver = Driver::start(&cluster, MANY, &sets);
    driver.until("some run", |log| {
        (log.count("executor running") > 5).then_some(())
    });
    cluster.freeze();
    thread::sleep(Duration::from_secs(4));
    cluster.thaw();
    cluster.settles(MANY);
    // A real API server may log no success of a request whose client has gone away.
    let created = cluster.created();
    assert!(created <= MANY + 1, "{created}: the pods, the record");
}

// spec: E-13, W-6, O-30, L-4
#[test]
fn an_emptied_api_server_gets_all_objects_again() {
    let Some(mut cluster) = Cluster::own() else {
        return;
    };
    let mut driver = Driver::start(&cluster, MANY, &[]);
    let before = cluster.converges(MANY);
    cluster.empty();
    let after = cluster.settles(MANY);
    assert!(after.is_disjoint(&before));
    let highest_before = MANY as u64;
    for pod in cluster.api.pods() {
        let id: u64 = pod.labels["boatswain.dev/executor-id"].parse().unwrap();
        assert!(id > highest_before, "{id} is used up");
    }
    let log = driver.log();
    assert_eq!(log.executors("executor ended").len(), MANY);
    assert_eq!(log.count("executor ended"), MANY, "each once");
    let record = cluster.api.config_map(RECORD).unwrap();
    for pod in cluster.api.pods() {
        assert_eq!(pod.owner.as_deref(), record["metadata"]["uid"].as_str());
    }
    assert!(driver.is_alive());
}

// spec: O-71, W-2, S-13
#[test]
fn an_api_server_restarted_with_its_state_gets_no_new_objects() {
    let Some(mut cluster) = Cluster::own() else {
        return;
    };
    let mut driver = Driver::start(&cluster, 4 * MANY, &[]);
    let before = cluster.converges(4 * MANY);
    cluster.restart();
    let earlier = cluster.written("POST", "/pods").len();
    cluster.api.delete_pod("t-exec-7", Grace::Own);
    driver.end_of(7);
    let after = cluster.settles(4 * MANY);
    assert_eq!(before.difference(&after).count(), 1);
    let written = cluster.written("POST", "/pods");
    assert_eq!(written.len(), earlier + 1, "one is replaced: {written:?}");
    let log = driver.log();
    assert_eq!(log.count("executor ended"), 1);
    assert_eq!(
        log.count("first list completed, watching from its version"),
        1
    );
    let restored = "the API server was restored or emptied: its lists are believed from here on";
    assert_eq!(log.count(restored), 0);
}

// spec: A-26, O-40
#[test]
fn the_driver_waits_for_an_absent_api_server() {
    let Some(mut cluster) = Cluster::own() else {
        return;
    };
    let mut driver = Driver::start(&cluster, 5, &[]);
    cluster.converges(5);
    cluster.kill();
    thread::sleep(Duration::from_secs(3));
    assert!(driver.is_alive());
    let log = driver.log();
    assert_eq!(
        log.count("executor ended"),
        0,
        "not seeing them is not their end"
    );
    let complaints = log.0.iter().filter(|line| line["level"] != "info").count();
    assert!(
        (1..10).contains(&complaints),
        "it is said, and not on and on: {complaints}"
    );
    cluster.start();
    cluster.converges(5);
}

// spec: K-13, O-30, W-11
#[test]
fn a_deleted_record_is_created_again_and_owns_the_existing_pods() {
    let reason = "its collector deletes what a record owned sooner than any driver can own it anew";
    let Some(cluster) = Cluster::embedded(&["--node", "simulated"], reason) else {
        return;
    };
    let mut driver = Driver::start(&cluster, MANY, &[]);
    let before = cluster.converges(MANY);
    let record = cluster.api.config_map(RECORD).unwrap();
    cluster.api.delete_config_map(RECORD);
    let made_anew = until("there is a record again", || {
        let now = cluster.api.config_map(RECORD)?;
        (now["metadata"]["uid"] != record["metadata"]["uid"]).then_some(now)
    });
    assert_eq!(made_anew["data"]["app-id"], record["data"]["app-id"]);
    assert_eq!(cluster.settles(MANY), before, "no executor goes with it");
    for pod in cluster.api.pods() {
        assert_eq!(pod.owner.as_deref(), made_anew["metadata"]["uid"].as_str());
    }
    assert!(driver.is_alive());
    assert_eq!(driver.log().count("executor ended"), 0);
}
