//! Tests `boatswain reset --app` on what an application leaves that has failed too often.

use std::process::{Output, Stdio};

use super::cluster::Cluster;
use super::driver::{Driver, RECORD};
use super::process::boatswain;

const SETS: [&str; 2] = ["app.id=t-1", "failures.max=0"];

fn reset(cluster: &Cluster) -> (Option<i32>, String, String) {
    let mut command = boatswain();
    command.args(["reset", "--app", "t-1"]);
    command.args(["--namespace", &cluster.api.namespace]);
    command.arg("--kubeconfig").arg(&cluster.kubeconfig);
    let Output {
        status,
        stdout,
        stderr,
    } = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

// spec: O-131, L-30
#[test]
fn an_application_that_failed_too_often_goes_on_once_it_was_opened_again() {
    let cluster = Cluster::any();
    let (code, _, stderr) = reset(&cluster);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("t-1 has a record in namespace"), "{stderr}");

    let mut driver = Driver::start(&cluster, 2, &SETS);
    cluster.settles(2);
    let (code, _, stderr) = reset(&cluster);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("has not ended"), "{stderr}");

    cluster.api.kill_for_memory("t-exec-1");
    assert_eq!(driver.exit(), Some(11));
    let mut again = Driver::start(&cluster, 2, &SETS);
    assert_eq!(again.exit(), Some(11), "it stays closed");

    let (code, stdout, stderr) = reset(&cluster);
    assert_eq!(code, Some(0), "{stderr}");
    let why = "application t-1 had ended with code 11: profile default: 1 failures within 1h";
    assert!(stdout.starts_with(why), "{stdout}");
    assert!(stdout.contains("executor 1 ran less than"), "{stdout}");
    assert!(stdout.contains(": OomKilled: killed"), "{stdout}");
    let (code, _, stderr) = reset(&cluster);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("start its driver"), "{stderr}");

    let mut next = Driver::start(&cluster, 2, &SETS);
    cluster.settles(2);
    next.kill();
    cluster
        .api
        .patch_config_map(RECORD, &serde_json::json!({"finished": "3"}));
    let (code, _, stderr) = reset(&cluster);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("ended with code 3"), "{stderr}");
}
