//! Tests the two ways to stop a driver, and the obstacles to each.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use super::cluster::Cluster;
use super::driver::{Driver, RECORD};
use super::local_run::{Local, nothing_is_left};
use super::process::until;

/// Executors that ignore SIGTERM.
const STUBBORN: &str = "profiles.default.args=[\"trap : TERM; while true; do sleep 1; done\"]";

// spec: O-10, O-11, O-108, K-2
#[test]
fn the_end_deletes_every_executor_and_then_the_record() {
    let cluster = Cluster::any();
    let mut driver = Driver::start(&cluster, 50, &[]);
    cluster.converges(50);
    driver.signal(Signal::TERM);
    assert_eq!(driver.exit(), Some(0));
    driver.says("the application has ended, nothing is left");
    cluster.settles(0);
    assert_eq!(cluster.api.config_map(RECORD), None);
}

// spec: O-10, O-11
#[test]
fn ending_the_application_during_creates_leaves_no_pod() {
    let cluster = Cluster::any();
    let mut driver = Driver::start(&cluster, 200, &[]);
    driver.until("some run", |log| {
        (log.count("executor running") > 5).then_some(())
    });
    driver.signal(Signal::TERM);
    assert_eq!(driver.exit(), Some(0));
    cluster.converges(0);
    assert_eq!(cluster.api.config_map(RECORD), None);
}

// spec: O-11, O-73
#[test]
fn the_end_kills_executors_that_will_not_exit() {
    let mut local = Local::start(&[STUBBORN, "profiles.default.termination_grace=1s"]);
    local.runs(&[1, 2, 3, 4]);
    let mark = local.mark();
    local.driver.signal(Signal::TERM);
    assert_eq!(local.driver.exit(), Some(0));
    nothing_is_left(&mark);
}

// spec: O-109
#[test]
fn a_signal_that_is_delivered_twice_is_one() {
    let mut local = Local::start(&[STUBBORN, "profiles.default.termination_grace=3s"]);
    local.runs(&[1, 2, 3, 4]);
    let mark = local.mark();
    local.driver.signal(Signal::TERM);
    local
        .driver
        .says("stopping; a second signal ends the process at once");
    local.driver.signal(Signal::TERM);
    local.driver.signal(Signal::INT);
    assert_eq!(local.driver.exit(), Some(0));
    nothing_is_left(&mark);
}

// spec: O-109
#[test]
fn a_second_signal_exits_at_once_without_cleanup() {
    let mut local = Local::start(&[STUBBORN, "profiles.default.termination_grace=1h"]);
    local.runs(&[1, 2, 3, 4]);
    let mark = local.mark();
    local.driver.signal(Signal::TERM);
    local
        .driver
        .says("ending the application: its executors are deleted");
    assert!(local.driver.is_alive());
    // Sooner it would be the same signal.
    thread::sleep(Duration::from_millis(1_100));
    local.driver.signal(Signal::INT);
    assert_eq!(local.driver.exit(), Some(130));
    let line = local
        .driver
        .says("second signal: exiting at once, without cleaning up");
    let number = |field: &str| line[field].as_u64().unwrap();
    assert_eq!(number("executors") + number("terminating"), 4, "{line}");
    let removed_by = line["removed_by"].as_str().unwrap();
    if local.is_embedded() {
        assert!(removed_by.starts_with("the embedded cluster"), "{line}");
        nothing_is_left(&mark);
    }
}

// spec: O-70
#[test]
fn killing_a_driver_kills_the_processes_of_its_embedded_cluster() {
    let reason = "there the driver has no embedded cluster, and executors outlive it";
    let Some(mut local) = Local::embedded(&[STUBBORN], reason) else {
        return;
    };
    local.runs(&[1, 2, 3, 4]);
    let mark = local.mark();
    local.driver.kill();
    nothing_is_left(&mark);
}

// spec: O-11, O-109
#[test]
fn ending_without_an_api_server_reports_what_is_left() {
    let Some(cluster) = Cluster::own() else {
        return;
    };
    let sets = ["shutdown.grace=2s", "cluster.request_timeout=1s"];
    let mut driver = Driver::start(&cluster, 5, &sets);
    cluster.converges(5);
    cluster.freeze();
    driver.signal(Signal::TERM);
    assert_eq!(driver.exit(), Some(69));
    let line = driver.says("the time to end is over and not everything is gone");
    let command = line["clean"].as_str().unwrap();
    let app = driver.says("application taken over")["app"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        command.starts_with("kubectl -n default delete pods -l "),
        "{command}"
    );
    assert!(command.contains(&app), "{command}");
    assert_eq!(line["record_closed"], false);

    // What the driver could not delete while the API server was frozen is left to the next one.
    cluster.thaw();
    let mut next = Driver::start(&cluster, 5, &[]);
    // The executors may all be there before the driver handles signals.
    next.says("application taken over");
    cluster.converges(5);
    next.signal(Signal::TERM);
    assert_eq!(next.exit(), Some(0));
    cluster.converges(0);
}

// spec: O-2, O-107
#[test]
fn a_signal_before_the_cluster_is_reached_is_no_clean_end_because_executors_may_be_left() {
    let Some(mut cluster) = Cluster::own() else {
        return;
    };
    cluster.kill();
    for (on_signal, code) in [("end", 69), ("hand-over", 75)] {
        let on_signal = format!("shutdown.on_signal={on_signal}");
        let mut driver = Driver::start(&cluster, 5, &[&on_signal, "shutdown.grace=2s"]);
        driver.says("the cluster is out of reach, trying again");
        driver.signal(Signal::TERM);
        assert_eq!(driver.exit(), Some(code), "{on_signal}");
    }
}

// spec: O-97, K-2
#[test]
fn a_driver_whose_controller_was_deleted_ends_though_no_signal_comes() {
    let cluster = Cluster::any();
    let labels = json!({"app": "driver"});
    let container = json!({"name": "driver", "image": "debian:stable-slim"});
    let deployment = json!({"metadata": {"name": "owner"}, "spec": {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }});
    let path = format!(
        "/apis/apps/v1/namespaces/{}/deployments",
        cluster.api.namespace
    );
    cluster.api.call("POST", &path, Some(&deployment)).unwrap();
    let pod = until("the driver has a pod", || {
        cluster.api.pods().pop().map(|pod| pod.name)
    });
    let mut driver = Driver::start(&cluster, 3, &[&format!("driver.pod_name={pod}")]);
    cluster.converges(4);
    let background = json!({"propagationPolicy": "Background"});
    let path = format!("{path}/owner");
    cluster
        .api
        .call("DELETE", &path, Some(&background))
        .unwrap();
    assert_eq!(driver.exit(), Some(0));
    driver.says("the application is over");
    cluster.settles(0);
    assert_eq!(cluster.api.config_map(RECORD), None);
}
