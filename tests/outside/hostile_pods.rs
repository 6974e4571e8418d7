//! Tests a driver among pods that other clients have created or changed.

use serde_json::{Value, json};

use super::api::Grace;
use super::cluster::Cluster;
use super::driver::Driver;

/// A pod with the labels of an executor of this application, and further labels.
fn pod(name: &str, app: &str, labels: Value) -> Value {
    let mut all = json!({
        "boatswain.dev/app-id": app,
        "boatswain.dev/role": "executor",
    });
    if let (Value::Object(all), Value::Object(labels)) = (&mut all, labels) {
        all.extend(labels);
    }
    json!({
        "metadata": {"name": name, "labels": all},
        "spec": {"containers": [{"name": "executor", "image": "none"}]},
    })
}

fn labels_of(executor: u64) -> Value {
    json!({
        "boatswain.dev/executor-id": executor.to_string(),
        "boatswain.dev/incarnation": "1",
        "boatswain.dev/profile": "default",
    })
}

fn app_of(driver: &mut Driver) -> String {
    driver.says("application taken over")["app"]
        .as_str()
        .unwrap()
        .to_owned()
}

// spec: E-8, S-15
#[test]
fn pods_with_invalid_labels_are_left_alone_and_affect_no_other_pod() {
    let cluster = Cluster::any();
    let mut driver = Driver::start(&cluster, 10, &[]);
    let before = cluster.converges(10);
    let app = app_of(&mut driver);
    let odd = [
        json!({}),
        json!({"boatswain.dev/executor-id": ""}),
        json!({"boatswain.dev/executor-id": "0"}),
        json!({"boatswain.dev/executor-id": "007"}),
        json!({"boatswain.dev/executor-id": "1e3"}),
        json!({"boatswain.dev/executor-id": "18446744073709551616"}),
        json!({"boatswain.dev/executor-id": "9".repeat(63)}),
        json!({"boatswain.dev/executor-id": "captain"}),
        json!({"boatswain.dev/profile": "no-such-profile"}),
    ];
    let count = odd.len();
    for (n, labels) in odd.into_iter().enumerate() {
        cluster
            .api
            .create_pod(&pod(&format!("unrecognised-{n}"), &app, labels));
    }
    let after = cluster.settles(10 + count);
    assert!(after.is_superset(&before));
    assert!(driver.is_alive());
    let log = driver.log();
    assert_eq!(
        (log.count("executor requested"), log.count("executor ended")),
        (10, 0)
    );
    assert!(!log.at("warn").is_empty(), "it is said that they are odd");
}

// spec: E-1
#[test]
fn a_copy_under_another_name_is_not_an_executor() {
    let cluster = Cluster::any();
    let mut driver = Driver::start(&cluster, 10, &[]);
    cluster.converges(10);
    let app = app_of(&mut driver);
    cluster
        .api
        .create_pod(&pod("copy-of-3", &app, labels_of(3)));
    let said = "a pod bears this application's labels but is none of its executors: left alone";
    assert_eq!(driver.says(said)["pod"], "copy-of-3");
    cluster.settles(11);
    let log = driver.log();
    assert_eq!(
        (log.count("executor requested"), log.count("executor ended")),
        (10, 0)
    );
}

// spec: E-16, I-1
#[test]
fn an_orphan_pod_is_deleted_and_not_counted() {
    let cluster = Cluster::any();
    let mut driver = Driver::start(&cluster, 10, &[]);
    cluster.converges(10);
    let app = app_of(&mut driver);
    cluster.api.delete_pod("t-exec-3", Grace::Force);
    driver.end_of(3);
    let before = cluster.converges(10);
    cluster.api.create_pod(&pod("t-exec-3", &app, labels_of(3)));
    driver.says("a pod came too late, or is a copy: it is deleted");
    assert_eq!(cluster.settles(10), before);
    let log = driver.log();
    assert_eq!(
        (log.count("executor requested"), log.count("executor ended")),
        (11, 1)
    );
}

// spec: A-25
#[test]
fn executor_names_that_are_taken_are_skipped() {
    let cluster = Cluster::any();
    for n in [2, 3] {
        let unrecognised = json!({
            "metadata": {"name": format!("t-exec-{n}")},
            "spec": {"containers": [{"name": "other", "image": "none"}]},
        });
        cluster.api.create_pod(&unrecognised);
    }
    let mut driver = Driver::start(&cluster, 10, &[]);
    cluster.converges(12);
    driver.until("all ten run", |log| {
        (log.executors("executor running").len() == 10).then_some(())
    });
    let log = driver.log();
    assert_eq!(log.count("executor requested"), 12);
    assert_eq!(
        log.count("executor ended"),
        0,
        "none was bound, so none has ended"
    );
}

// spec: E-14, S-15
#[test]
fn unknown_pod_statuses_end_no_executor() {
    let cluster = Cluster::any();
    let mut driver = Driver::start(&cluster, 10, &[]);
    cluster.converges(10);
    let odd = [
        json!({"phase": "Confused"}),
        json!({"phase": null}),
        json!({"containerStatuses": null, "conditions": null}),
        json!({"containerStatuses": []}),
        json!({"containerStatuses": [{"name": "somebody-else", "image": "x", "imageID": "", "ready": true,
            "restartCount": 2_147_483_647, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}),
        json!({"reason": "\u{1b}[31mred\u{7}".repeat(50), "message": "x".repeat(50_000)}),
        json!({"startTime": "9999-12-31T23:59:59Z"}),
    ];
    for (n, status) in odd.iter().enumerate() {
        let name = format!("t-exec-{}", n + 1);
        // The driver cannot see a status that the API server refuses.
        let _ = cluster.api.try_set_pod_status(&name, status);
    }
    // The driver still processes what comes after these statuses.
    cluster.api.delete_pod("t-exec-10", Grace::Own);
    driver.end_of(10);
    driver.until("it is replaced", |log| {
        (log.executors("executor running").len() == 11).then_some(())
    });
    let log = driver.log();
    assert!(driver.is_alive());
    assert!(log.at("error").is_empty(), "{:?}", log.at("error"));
    assert!(
        !driver.stderr().contains('\u{1b}'),
        "no control characters in the log"
    );
}
