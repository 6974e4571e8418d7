//! Real processes under the real clock. No test sleeps; each waits for its condition.

use super::fault_injection::{pod_name, told};
use super::*;
use crate::ProcessNode;
use crate::control::node_faults::NodeRequest;
use std::path::Path;

fn node(state_dir: &Path) -> DevCluster {
    cluster_with(NodeKind::Process(ProcessNode {
        state_dir: Some(state_dir.to_owned()),
        ..ProcessNode::default()
    }))
}

pub(super) fn running(name: &str, command: &[&str]) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["command"] = command.into();
    pod["spec"]["terminationGracePeriodSeconds"] = 20.into();
    pod
}

fn ended(pod: Option<&Value>) -> Option<(i64, String)> {
    let ended = pod?.pointer("/status/containerStatuses/0/state/terminated")?;
    Some((
        ended["exitCode"].as_i64()?,
        ended["reason"].as_str()?.to_owned(),
    ))
}

pub(super) fn is_running(pod: Option<&Value>) -> bool {
    pod.is_some_and(|p| p["status"]["phase"] == "Running")
}

pub(super) async fn start(cluster: &DevCluster, pod: &Value) {
    let (code, answer) = post(cluster, &pods(""), pod).await;
    assert_eq!(code, 201, "{answer}");
}

fn last_message(pod: Option<&Value>) -> Option<Value> {
    let ended = pod?.pointer("/status/containerStatuses/0/state/terminated")?;
    Some(ended["message"].clone())
}

// spec: O-70
#[tokio::test]
async fn what_a_container_writes_to_its_termination_log_is_in_its_status() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = node(dir.path());
    for (name, path, script, message) in [
        (
            "told",
            None,
            "echo -n why > dev/termination-log; exit 3",
            json!("why"),
        ),
        ("silent", None, "exit 3", Value::Null),
        (
            "elsewhere",
            Some("/tmp/last"),
            "echo -n why > tmp/last",
            json!("why"),
        ),
        (
            "pipe",
            None,
            "rm dev/termination-log; mkfifo dev/termination-log",
            Value::Null,
        ),
        (
            "link",
            None,
            "ln -sf /etc/hostname dev/termination-log",
            Value::Null,
        ),
        (
            "long",
            None,
            "head -c 9999 /dev/zero | tr '\\0' a > dev/termination-log",
            json!("a".repeat(4096)),
        ),
    ] {
        let mut pod = running(name, &["sh", "-c", script]);
        if let Some(path) = path {
            pod["spec"]["containers"][0]["terminationMessagePath"] = path.into();
        }
        start(&cluster, &pod).await;
        assert_eq!(message_of(&cluster, name).await, message, "{name}");
    }
    cluster.shutdown().await;
}

async fn message_of(cluster: &DevCluster, name: &str) -> Value {
    until(cluster, name, |pod| last_message(pod).is_some()).await;
    let (_, pod) = get(cluster, &pods(&format!("/{name}"))).await;
    last_message(Some(&pod)).unwrap_or_default()
}

// spec: O-70
#[tokio::test]
async fn the_end_of_its_log_is_the_message_of_a_failed_container_if_its_policy_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = node(dir.path());
    let long = "head -c 9999 /dev/zero | tr '\\0' a; exit 3";
    for (name, script, message) in [
        ("failed", "echo why; exit 3", json!("why\n")),
        ("long", long, json!("a".repeat(2048))),
        ("well", "echo why", Value::Null),
        ("mute", "exit 3", Value::Null),
        (
            "told",
            "echo out; echo -n why > dev/termination-log; exit 3",
            json!("why"),
        ),
    ] {
        let mut pod = running(name, &["sh", "-c", script]);
        pod["spec"]["containers"][0]["terminationMessagePolicy"] = "FallbackToLogsOnError".into();
        start(&cluster, &pod).await;
        assert_eq!(message_of(&cluster, name).await, message, "{name}");
    }
    cluster.shutdown().await;
}

/// What the container of a pod has written so far.
fn log_of(state_dir: &Path, pod: &Value) -> String {
    let (name, uid) = (&pod["metadata"]["name"], &pod["metadata"]["uid"]);
    let directory = format!(
        "default_{}_{}",
        name.as_str().unwrap_or_default(),
        uid.as_str().unwrap_or_default()
    );
    std::fs::read_to_string(state_dir.join("pods").join(directory).join("c.log"))
        .unwrap_or_default()
}

// spec: O-70, O-73
#[tokio::test]
async fn a_pod_runs_as_a_process_and_its_exit_is_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = node(dir.path());
    for (name, script, code, reason, phase) in [
        ("well", "exit 0", 0, "Completed", "Succeeded"),
        ("badly", "exit 3", 3, "Error", "Failed"),
        ("killed", "kill -9 $$$$", 137, "Error", "Failed"),
        ("terminated", "kill -15 $$$$", 143, "Error", "Failed"),
    ] {
        start(&cluster, &running(name, &["sh", "-c", script])).await;
        until(&cluster, name, |pod| {
            ended(pod) == Some((code, reason.to_owned()))
        })
        .await;
        let (_, pod) = get(&cluster, &pods(&format!("/{name}"))).await;
        assert_eq!(
            (&pod["status"]["phase"], &pod["spec"]["nodeName"]),
            (&json!(phase), &json!("local"))
        );
        assert_eq!(pod["status"]["podIP"], "127.0.0.1");
    }
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_missing_command_is_a_start_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = node(dir.path());
    start(&cluster, &running("a", &["/no/such/program"])).await;
    until(&cluster, "a", |pod| {
        ended(pod) == Some((128, "StartError".to_owned()))
    })
    .await;
    start(&cluster, &pod("no-command")).await;
    until(&cluster, "no-command", |pod| {
        ended(pod) == Some((128, "StartError".to_owned()))
    })
    .await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_volume_that_cannot_be_mounted_is_the_reason_why_its_container_waits() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = node(dir.path());
    let mut pod = running("a", &["sleep", "60"]);
    pod["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    pod["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "v", "mountPath": "/v", "subPathExpr": "$(NONE)"}]);
    pod["spec"]["restartPolicy"] = "Always".into();
    start(&cluster, &pod).await;
    until(&cluster, "a", |pod| {
        let waiting = pod.and_then(|p| p.pointer("/status/containerStatuses/0/state/waiting"));
        waiting.is_some_and(|w| w["reason"] == "CreateContainerConfigError")
    })
    .await;
    let (_, pod) = get(&cluster, &pods("/a")).await;
    assert_eq!(pod["status"]["phase"], "Pending");
    delete(&cluster, &pods("/a")).await;
    until(&cluster, "a", |pod| pod.is_none()).await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn output_is_logged_and_the_environment_is_set() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = node(dir.path());
    let mut pod = running("a", &["sh", "-c", "echo $NAME $(pwd); echo oops >&2"]);
    pod["spec"]["containers"][0]["env"] = json!([
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]);
    start(&cluster, &pod).await;
    until(&cluster, "a", |pod| ended(pod).is_some()).await;
    let (_, pod) = get(&cluster, &pods("/a")).await;
    let log = log_of(dir.path(), &pod);
    assert!(
        log.starts_with("a /") && log.contains("/c\n") && log.ends_with("oops\n"),
        "{log}"
    );
    cluster.shutdown().await;
}

#[tokio::test]
async fn the_log_of_the_run_before_a_restart_is_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = node(dir.path());
    // It fails once.
    let script = "echo run; [ -e ran ] && exec sleep 60; touch ran; echo first; exit 1";
    let mut pod = running("a", &["sh", "-c", script]);
    pod["spec"]["restartPolicy"] = "Always".into();
    start(&cluster, &pod).await;
    until(&cluster, "a", |pod| {
        let status = pod.and_then(|p| p.pointer("/status/containerStatuses/0"));
        status.is_some_and(|s| s["restartCount"] == 1 && !s["state"]["running"].is_null())
    })
    .await;
    let log = async |query: &str| {
        let path = pods(&format!("/a/log?{query}"));
        let response = send(&cluster, Method::GET, &path, None).await;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.expect("a body");
        (code, body.to_bytes())
    };
    assert_eq!(log("previous=true").await, (200, "run\nfirst\n".into()));
    let (code, now) = log("previous=false").await;
    assert!(code == 200 && "run\n".starts_with(std::str::from_utf8(&now).expect("text")));
    start(&cluster, &running("b", &["sleep", "60"])).await;
    until(&cluster, "b", is_running).await;
    assert_eq!(get(&cluster, &pods("/b/log?previous=true")).await.0, 400);
    cluster.shutdown().await;
}

/// The final version of a pod with this script, which is deleted once the script has printed `up`.
async fn deleted_while_up(cluster: &DevCluster, dir: &Path, script: &str, path: &str) -> Value {
    start(cluster, &running("a", &["sh", "-c", script])).await;
    until(cluster, "a", is_running).await;
    let (_, pod) = get(cluster, &pods("/a")).await;
    // The trap must be set before the signal comes.
    while !log_of(dir, &pod).contains("up") {
        tokio::task::yield_now().await;
    }
    let from = format!("?watch=1&resourceVersion={}", version(&pod));
    let mut events = watch(cluster, &pods(&from)).await;
    delete(cluster, &pods(path)).await;
    loop {
        let mut event = events.next().await.expect("an event");
        if event["type"] == "DELETED" {
            return event["object"].take();
        }
    }
}

#[tokio::test]
async fn a_deleted_pod_receives_sigterm_and_its_exit_code_is_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = node(dir.path());
    let script = "trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done";
    let gone = deleted_while_up(&cluster, dir.path(), script, "/a").await;
    assert_eq!(ended(Some(&gone)), Some((7, "Error".to_owned())));
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_process_that_ignores_sigterm_is_killed_after_the_grace_period() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = node(dir.path());
    let script = "trap '' TERM; echo up; while :; do sleep 0.05; done";
    let gone = deleted_while_up(&cluster, dir.path(), script, "/a?gracePeriodSeconds=1").await;
    assert_eq!(ended(Some(&gone)), Some((137, "Error".to_owned())));
    cluster.shutdown().await;
}

/// The number of running processes with this marker in their command line.
fn living(marker: &str) -> usize {
    let processes = std::fs::read_dir("/proc").expect("Linux");
    processes
        .filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
        .filter(|line| String::from_utf8_lossy(line).contains(marker))
        .count()
}

#[tokio::test]
async fn a_stopped_cluster_leaves_no_process() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = node(dir.path());
    let marker = format!(
        "devcluster-test-{}",
        uuid::Uuid::from_u128(u128::from(std::process::id()))
    );
    let script = format!("sh -c 'while :; do sleep 0.05; done; : {marker}' & wait; : {marker}");
    start(&cluster, &running("a", &["sh", "-c", &script])).await;
    start(
        &cluster,
        &running("b", &["sh", "-c", &format!("sleep 60; : {marker}")]),
    )
    .await;
    until(&cluster, "a", is_running).await;
    until(&cluster, "b", is_running).await;
    while living(&marker) < 3 {
        tokio::task::yield_now().await;
    }
    cluster.shutdown().await;
    while living(&marker) > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn faults_of_a_pod_or_its_node_end_its_processes() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = node(dir.path());
    let marker = format!("devcluster-struck-{}", std::process::id());
    let script = format!("trap '' TERM; while :; do sleep 0.05; done; : {marker}");
    let crash = NodeRequest::Crash {
        pod: pod_name("crash"),
        code: 42,
    };
    let struck = [
        ("crash", crash, json!(null)),
        (
            "evict",
            NodeRequest::Evict(pod_name("evict")),
            json!("Evicted"),
        ),
    ];
    for (name, request, reason) in struck {
        start(&cluster, &running(name, &["sh", "-c", &script])).await;
        until(&cluster, name, is_running).await;
        told(&cluster, request).await;
        until(&cluster, name, |pod| ended(pod).is_some()).await;
        let (_, pod) = get(&cluster, &pods(&format!("/{name}"))).await;
        assert_eq!(
            (&pod["status"]["phase"], &pod["status"]["reason"]),
            (&json!("Failed"), &reason)
        );
        while living(&marker) > 0 {
            tokio::task::yield_now().await;
        }
    }
    start(&cluster, &running("last", &["sh", "-c", &script])).await;
    until(&cluster, "last", is_running).await;
    told(&cluster, NodeRequest::Gone(None)).await;
    until(&cluster, "last", |pod| pod.is_none()).await;
    while living(&marker) > 0 {
        tokio::task::yield_now().await;
    }
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_force_deleted_pod_is_killed() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = node(dir.path());
    let marker = format!("devcluster-force-{}", std::process::id());
    start(
        &cluster,
        &running(
            "a",
            &[
                "sh",
                "-c",
                &format!("trap '' TERM; while :; do sleep 0.05; done; : {marker}"),
            ],
        ),
    )
    .await;
    until(&cluster, "a", is_running).await;
    delete(&cluster, &pods("/a?gracePeriodSeconds=0")).await;
    while living(&marker) > 0 {
        tokio::task::yield_now().await;
    }
    cluster.shutdown().await;
}

#[tokio::test]
async fn init_containers_run_first_and_a_failing_one_fails_the_pod() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = node(dir.path());
    for (name, code, phase) in [("good", 0, "Succeeded"), ("bad", 1, "Failed")] {
        let mut pod = running(name, &["sh", "-c", "exit 0"]);
        pod["spec"]["initContainers"] = json!([{"name": "init", "image": "i", "command": ["sh", "-c", format!("exit {code}")]}]);
        start(&cluster, &pod).await;
        until(&cluster, name, |pod| {
            pod.is_some_and(|p| p["status"]["phase"] == phase)
        })
        .await;
    }
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_log_is_followed_until_its_container_has_terminated() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = node(dir.path());
    start(
        &cluster,
        &running("a", &["sh", "-c", "echo one; sleep 0.3; echo two"]),
    )
    .await;
    until(&cluster, "a", is_running).await;
    let response = send(&cluster, Method::GET, &pods("/a/log?follow=true"), None).await;
    let all = response
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    assert_eq!(all, "one\ntwo\n");
    assert_eq!(get(&cluster, &pods("/a/log?container=none")).await.0, 400);
    assert_eq!(get(&cluster, &pods("/none/log")).await.0, 404);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_log_of_a_pod_that_is_on_no_node_is_no_content() {
    let cluster = cluster_with(NodeKind::None);
    create(&cluster, "a").await;
    let response = send(&cluster, Method::GET, &pods("/a/log"), None).await;
    assert_eq!(response.status(), 204);
    assert_eq!(get(&cluster, &pods("/a/log?container=none")).await.0, 400);
}
