//! Tests starts that cannot succeed: the error message, the exit code, and that nothing in the cluster changes.

use std::net::TcpListener;

use serde_json::json;

use super::cluster::Cluster;
use super::driver::{Driver, RECORD};
use super::process::until;

/// Waits for the driver's exit; returns its code and its last error, which says what to do.
fn refusal(driver: &mut Driver) -> (Option<i32>, String) {
    let code = driver.exit();
    let log = driver.log();
    let errors = log.at("error");
    assert_eq!(errors.len(), 1, "one line says it: {errors:?}");
    (code, errors[0].to_string())
}

/// Starts a driver that must not succeed, and checks that it leaves the cluster unchanged.
fn refused(cluster: &Cluster, sets: &[&str]) -> (Option<i32>, String) {
    let before = cluster.api.versions();
    let refusal = refusal(&mut Driver::start(cluster, 3, sets));
    assert_eq!(
        cluster.api.versions(),
        before,
        "a start that fails touches nothing"
    );
    refusal
}

fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

// spec: O-2
#[test]
fn an_unreachable_cluster_is_given_up_after_the_start_timeout() {
    let Some(mut cluster) = Cluster::own() else {
        return;
    };
    let address = cluster.address();
    cluster.kill();
    let mut driver = Driver::start(&cluster, 3, &["cluster.start_timeout=2s"]);
    let (code, said) = refusal(&mut driver);
    assert_eq!(code, Some(69), "{said}");
    says(&said, &[&address, "refused", "cluster.start_timeout"]);
}

// spec: O-2
#[test]
fn a_cluster_that_does_not_answer_is_given_up_after_the_start_timeout() {
    let Some(cluster) = Cluster::own() else {
        return;
    };
    cluster.freeze();
    let sets = ["cluster.start_timeout=2s", "cluster.request_timeout=1s"];
    let (code, said) = refusal(&mut Driver::start(&cluster, 3, &sets));
    assert_eq!(code, Some(69), "{said}");
    says(&said, &["cluster.start_timeout"]);
}

// spec: C-1, O-2
#[test]
fn a_connection_that_is_not_made_is_given_up_after_the_connect_timeout() {
    let cluster = Cluster::any();
    // Connections are accepted, and no TLS handshake is ever answered.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap().to_string();
    let kubeconfig = cluster.kubeconfig_at(&format!("https://{server}"));
    let sets = ["cluster.request_timeout=1h", "cluster.start_timeout=1h"];
    let mut driver = Driver::start_with(&cluster, &kubeconfig, 3, &sets);
    listener.set_nonblocking(true).unwrap();
    let mut tries = Vec::new();
    until("it has tried twice", || {
        tries.extend(listener.accept());
        (tries.len() == 2).then_some(())
    });
    let line = driver.says("the cluster is out of reach, trying again");
    says(&line.to_string(), &["deadline"]);
    driver.kill();
}

// spec: O-2
#[test]
fn the_driver_waits_for_a_cluster_that_starts_late() {
    let Some(mut cluster) = Cluster::own() else {
        return;
    };
    cluster.kill();
    let mut driver = Driver::start(&cluster, 3, &[]);
    driver.says("the cluster is out of reach, trying again");
    cluster.start();
    cluster.converges(3);
}

// spec: O-2, O-72
#[test]
fn a_wrong_token_exits_with_77() {
    let Some(cluster) = Cluster::logged() else {
        return;
    };
    let kubeconfig = cluster.kubeconfig_of("wrong-token-7d1b");
    let mut driver = Driver::start_with(&cluster, &kubeconfig, 3, &[]);
    let (code, said) = refusal(&mut driver);
    assert_eq!(code, Some(77), "{said}");
    says(&said, &["401", "kubeconfig"]);
    assert!(
        !driver.stderr().contains("wrong-token-7d1b"),
        "a token is never said"
    );
    assert_eq!(cluster.writes(), [] as [serde_json::Value; 0]);
}

// spec: O-2
#[test]
fn a_namespace_that_is_missing_exits_with_78() {
    let cluster = Cluster::any();
    let (code, said) = refused(&cluster, &["cluster.namespace=nowhere"]);
    assert_eq!(code, Some(78), "{said}");
    says(&said, &["nowhere", "cluster.namespace"]);
}

// spec: O-2, O-30
#[test]
fn the_record_of_another_application_exits_with_78() {
    let cluster = Cluster::any();
    let mut first = Driver::start(&cluster, 3, &["app.id=one"]);
    cluster.converges(3);
    first.kill();
    let (code, said) = refused(&cluster, &["app.id=two"]);
    assert_eq!(code, Some(78), "{said}");
    says(&said, &[RECORD, "one", "two"]);
}

// spec: O-2, O-30
#[test]
fn a_record_in_a_newer_format_exits_with_78() {
    let cluster = Cluster::any();
    let mut first = Driver::start(&cluster, 3, &[]);
    cluster.converges(3);
    first.kill();
    cluster
        .api
        .patch_config_map(RECORD, &json!({"format": "1000"}));
    let (code, said) = refused(&cluster, &[]);
    assert_eq!(code, Some(78), "{said}");
    says(&said, &[RECORD, "1000"]);
}

// spec: O-2, O-30, O-98
#[test]
fn a_malformed_record_exits_with_78() {
    let cluster = Cluster::any();
    cluster
        .api
        .create_config_map(RECORD, &json!({"colour": "blue"}));
    let (code, said) = refused(&cluster, &[]);
    assert_eq!(code, Some(78), "{said}");
    says(&said, &[RECORD]);
}

// spec: O-2, O-98
#[test]
fn a_record_with_more_bound_executors_than_any_cluster_runs_exits_with_78() {
    let cluster = Cluster::any();
    let mut first = Driver::start(&cluster, 3, &[]);
    cluster.converges(3);
    first.kill();
    let data = json!({"bound": "1-100000000"});
    cluster.api.patch_config_map(RECORD, &data);
    let (code, said) = refused(&cluster, &[]);
    assert_eq!(code, Some(78), "{said}");
    says(&said, &[RECORD, "bound", "allowed are 1000000"]);
}

// spec: O-3
#[test]
fn a_missing_driver_pod_exits_with_78_and_is_named() {
    let cluster = Cluster::any();
    let (code, said) = refused(&cluster, &["driver.pod_name=nobody-0"]);
    assert_eq!(code, Some(78), "{said}");
    says(
        &said,
        &["nobody-0", &cluster.api.namespace, "driver.pod_name"],
    );
}

// spec: K-2, O-1
#[test]
fn the_driver_pod_owns_the_record() {
    let cluster = Cluster::any();
    let pod = json!({
        "metadata": {"name": "driver-0"},
        "spec": {"containers": [{"name": "driver", "image": "boatswain"}]},
    });
    cluster.api.create_pod(&pod);
    let _driver = Driver::start(&cluster, 3, &["driver.pod_name=driver-0"]);
    cluster.converges(4);
    let pods = cluster.api.pods();
    let uid = &pods.iter().find(|pod| pod.name == "driver-0").unwrap().uid;
    let record = cluster.api.config_map(RECORD).unwrap();
    assert_eq!(record["metadata"]["ownerReferences"][0]["uid"], **uid);
}

// spec: B-20
#[test]
fn an_application_that_begins_with_too_few_executors_says_that_its_wait_is_over() {
    let (cluster, elsewhere) = Cluster::without_node();
    let mut driver = Driver::start(&cluster, 8, &[elsewhere, "app.max_wait=1s"]);
    let said = driver.says(
        "app.max_wait is over: the application begins with fewer executors than it waited for",
    );
    let numbers = [&said["executors"], &said["wanted"]];
    assert_eq!(numbers, [&json!(0), &json!(7)], "80 % of eight");
    driver.says("ready");
}

// spec: O-2
#[test]
fn an_unusable_kubeconfig_exits_with_78() {
    let cluster = Cluster::any();
    let kubeconfig = cluster.directory.path().join("missing");
    let (code, said) = refusal(&mut Driver::start_with(&cluster, &kubeconfig, 3, &[]));
    assert_eq!(code, Some(78), "{said}");
    says(&said, &["cluster.kubeconfig", kubeconfig.to_str().unwrap()]);
    let (code, said) = refused(&cluster, &["cluster.context=elsewhere"]);
    assert_eq!(code, Some(78), "{said}");
    says(&said, &["elsewhere"]);
}
