//! Tests driver processes in a Deployment: a drain, a scale to 0, and the Deployment's end.

use std::collections::BTreeSet;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::api::{Grace, Pod};
use super::cluster::Cluster;
use super::driver::{Driver, RECORD};
use super::process::until;

const EXECUTORS: usize = 5;

fn deployments(cluster: &Cluster) -> String {
    format!(
        "/apis/apps/v1/namespaces/{}/deployments",
        cluster.api.namespace
    )
}

fn is_drivers(pod: &Pod) -> bool {
    pod.labels.get("app").is_some_and(|app| app == "driver")
}

/// Waits for the Deployment's pod, and returns its name.
fn own_pod(cluster: &Cluster) -> String {
    until("the Deployment's pod runs", || {
        let mut pods = cluster.api.try_pods().ok()?.into_iter();
        let pod = pods.find(|pod| is_drivers(pod) && pod.phase == "Running" && !pod.deleting)?;
        Some(pod.name)
    })
}

/// Waits until there are as many executors, and returns their uids.
fn executors(cluster: &Cluster, count: usize) -> BTreeSet<String> {
    until(&format!("{count} executors run"), || {
        let pods = cluster.api.try_pods().ok()?;
        let runs = |pod: &&Pod| pod.phase == "Running" && !pod.deleting;
        let pods = || pods.iter().filter(|pod| !is_drivers(pod));
        let all_run = pods().count() == count && pods().filter(runs).count() == count;
        all_run.then(|| pods().map(|pod| pod.uid.clone()).collect())
    })
}

fn start(cluster: &Cluster) -> Driver {
    let pod = format!("driver.pod_name={}", own_pod(cluster));
    Driver::start(cluster, EXECUTORS, &[&pod])
}

/// Sends SIGTERM. Returns the exit code and what the driver learned.
fn stopped(mut driver: Driver) -> (Option<i32>, Value) {
    driver.signal(Signal::TERM);
    let code = driver.exit();
    let learned = driver.says("asked to stop: what it means for the application is learned");
    (code, learned["meaning"].clone())
}

fn patch(cluster: &Cluster, spec: Value) {
    let set = format!("{}/driver", deployments(cluster));
    let patch = json!({"spec": spec});
    cluster.api.call("PATCH", &set, Some(&patch)).unwrap();
}

// spec: O-10, O-66, O-67
#[test]
fn an_application_in_a_deployment_outlives_drains_and_scales_to_0_and_ends_with_the_deployment() {
    // tests/real has drivers in Jobs too.
    let reason = "tests/real has drivers in their own pods, with real kubelets";
    let Some(cluster) = Cluster::embedded(&["--node", "simulated"], reason) else {
        return;
    };
    let labels = json!({"app": "driver"});
    let set = json!({
        "metadata": {"name": "driver"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "driver", "image": "none"}]},
            },
        },
    });
    cluster
        .api
        .call("POST", &deployments(&cluster), Some(&set))
        .unwrap();
    let first = start(&cluster);
    let before = executors(&cluster, EXECUTORS);

    let pod = own_pod(&cluster);
    cluster.api.delete_pod(&pod, Grace::Own);
    assert_eq!(stopped(first), (Some(75), json!("HandOver")));
    let mut second = start(&cluster);
    let adopted = second.says("executors adopted");
    assert_eq!(adopted["found"], EXECUTORS);
    assert_eq!(executors(&cluster, EXECUTORS), before);

    patch(&cluster, json!({"replicas": 0}));
    assert_eq!(stopped(second), (Some(75), json!("LetGo")));
    executors(&cluster, 0);
    let record = cluster.api.config_map(RECORD).unwrap();
    assert_eq!(record["data"]["finished"], Value::Null);

    patch(&cluster, json!({"replicas": 1}));
    let third = start(&cluster);
    let after = executors(&cluster, EXECUTORS);
    assert!(after.is_disjoint(&before));
    let background = json!({"propagationPolicy": "Background"});
    let set = format!("{}/driver", deployments(&cluster));
    cluster.api.call("DELETE", &set, Some(&background)).unwrap();
    assert_eq!(stopped(third), (Some(0), json!("End")));
    executors(&cluster, 0);
}
