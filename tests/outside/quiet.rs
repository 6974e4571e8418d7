//! Tests that an idle driver logs nothing, and that secrets are never logged.

use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::cluster::Cluster;
use super::driver::Driver;
use super::users::all_powerful;

// spec: O-40
#[test]
fn an_idle_driver_logs_nothing() {
    let cluster = Cluster::any();
    let driver = Driver::start(&cluster, 20, &["poll.interval=100ms"]);
    cluster.settles(20);
    let before = driver.log().0;
    thread::sleep(Duration::from_secs(3));
    assert_eq!(driver.log().0, before);
    let loud = before.iter().filter(|line| line["level"] != "info");
    assert_eq!(
        loud.collect::<Vec<_>>(),
        [] as [&Value; 0],
        "nothing was odd"
    );
}

// spec: O-40
#[test]
fn an_executor_costs_at_most_six_log_lines() {
    let cluster = Cluster::any();
    let mut driver = Driver::start(&cluster, 3, &[]);
    cluster.converges(3);
    cluster.api.delete_pod("t-exec-2", super::api::Grace::Own);
    driver.end_of(2);
    cluster.converges(3);
    let log = driver.log();
    let scenario: Vec<&Value> = log.0.iter().filter(|line| line["executor"] == 2).collect();
    let told: Vec<&str> = scenario
        .iter()
        .map(|line| line["message"].as_str().unwrap())
        .collect();
    assert!(told.len() <= 6, "{told:?}");
    for message in ["executor requested", "executor running", "executor ended"] {
        assert!(told.contains(&message), "{told:?}");
    }
}

// spec: O-50
#[test]
fn tokens_appear_in_no_log_and_on_no_command_line() {
    let cluster = Cluster::any();
    let level =
        "log.level=trace,kube=trace,hyper=trace,hyper_util=trace,tower=trace,kube_client=trace";
    let token = if cluster.is_real() {
        all_powerful(&cluster)
    } else {
        cluster.token()
    };
    let kubeconfig = cluster.kubeconfig_of(&token);
    let driver = Driver::start_with(&cluster, &kubeconfig, 3, &[level]);
    cluster.converges(3);
    for program in [&*driver].into_iter().chain(cluster.server()) {
        assert!(!program.stderr().contains(&token));
        assert!(!program.stdout().contains(&token));
        for file in ["cmdline", "environ"] {
            let text = fs::read(format!("/proc/{}/{file}", program.pid())).unwrap();
            assert!(!String::from_utf8_lossy(&text).contains(&token), "{file}");
        }
    }
}
