//! What pods leave on disk, under the real clock. No test sleeps; each waits for its condition.

use std::path::{Path, PathBuf};

use super::process::{is_running, running, start};
use super::*;
use crate::ProcessNode;

fn process_options(state_dir: &Path) -> Options {
    Options {
        node: NodeKind::Process(ProcessNode {
            state_dir: Some(state_dir.to_owned()),
            ..ProcessNode::default()
        }),
        ..options()
    }
}

fn node(state_dir: &Path) -> DevCluster {
    super::super::start(process_options(state_dir))
}

async fn directory_of(cluster: &DevCluster, state_dir: &Path, name: &str) -> PathBuf {
    let (_, pod) = get(cluster, &pods(&format!("/{name}"))).await;
    let uid = pod["metadata"]["uid"].as_str().expect("a uid");
    state_dir.join("pods").join(format!("default_{name}_{uid}"))
}

async fn eventually(reached: impl Fn() -> bool) {
    let wait = async {
        while !reached() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, wait).await.expect("it comes to that");
}

/// A pod with a Secret, a token and a claim, which ends with this code.
async fn with_secrets(cluster: &DevCluster, name: &str, script: &str) {
    let secret = json!({"metadata": {"name": "s"}, "data": {"k": "dg=="}});
    post(cluster, "/api/v1/namespaces/default/secrets", &secret).await;
    let account = json!({"metadata": {"name": "default"}});
    post(
        cluster,
        "/api/v1/namespaces/default/serviceaccounts",
        &account,
    )
    .await;
    let claim = json!({"metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}},
    }});
    post(
        cluster,
        "/api/v1/namespaces/default/persistentvolumeclaims",
        &claim,
    )
    .await;
    let mut pod = running(name, &["sh", "-c", script]);
    pod["spec"]["volumes"] = json!([
        {"name": "s", "secret": {"secretName": "s"}},
        {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "c"}},
    ]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([
        {"name": "s", "mountPath": "/secret"},
        {"name": "s", "mountPath": "/file", "subPath": "k"},
        {"name": "t", "mountPath": "/token"},
        {"name": "c", "mountPath": "/claim"},
    ]);
    start(cluster, &pod).await;
}

#[tokio::test]
async fn secrets_are_removed_when_the_containers_have_ended() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = node(dir.path());
    let script = "ls secret/k file token/token && echo kept > claim/kept";
    with_secrets(&cluster, "a", script).await;
    until(&cluster, "a", |pod| {
        pod.is_some_and(|p| p["status"]["phase"] == "Succeeded")
    })
    .await;
    let directory = directory_of(&cluster, dir.path(), "a").await;
    for name in ["secret", "file", "token"] {
        assert!(!directory.join("c").join(name).exists(), "{name}");
    }
    let log = std::fs::read_to_string(directory.join("c.log")).expect("a log");
    assert!(log.contains("secret/k"), "{log}");
    assert!(directory.join("c/claim/kept").exists());
    cluster.shutdown().await;
}

#[tokio::test]
async fn the_directory_of_a_pod_is_removed_when_the_pod_is_gone() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = node(dir.path());
    for (name, path) in [
        ("a", "/a?gracePeriodSeconds=1"),
        ("b", "/b?gracePeriodSeconds=0"),
    ] {
        with_secrets(&cluster, name, "echo up > claim/kept; sleep 60").await;
        until(&cluster, name, is_running).await;
        let directory = directory_of(&cluster, dir.path(), name).await;
        let kept = directory
            .join("c/claim")
            .canonicalize()
            .expect("mounted")
            .join("kept");
        eventually(|| kept.exists()).await;
        delete(&cluster, &pods(path)).await;
        eventually(|| !directory.exists()).await;
        assert!(kept.exists(), "claims keep their files");
    }
    cluster.shutdown().await;
}

#[tokio::test]
async fn the_directory_of_a_pod_with_a_finalizer_is_kept_until_the_pod_is_gone() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = node(dir.path());
    let mut pod = running("a", &["sh", "-c", "exit 0"]);
    pod["metadata"]["finalizers"] = json!(["example.com/wait"]);
    start(&cluster, &pod).await;
    until(&cluster, "a", |pod| {
        pod.is_some_and(|p| p["status"]["phase"] == "Succeeded")
    })
    .await;
    delete(&cluster, &pods("/a")).await;
    let directory = directory_of(&cluster, dir.path(), "a").await;
    assert!(directory.join("c.log").exists());
    let none = json!({"metadata": {"finalizers": null}});
    patch(&cluster, &pods("/a"), &none).await;
    eventually(|| !directory.exists()).await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_restarted_cluster_removes_the_directories_of_pods_that_are_gone() {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = node(dir.path());
    start(&cluster, &running("a", &["sleep", "60"])).await;
    until(&cluster, "a", is_running).await;
    let directory = directory_of(&cluster, dir.path(), "a").await;
    cluster.shutdown().await;
    assert!(directory.exists(), "the pod may be there after a restart");
    drop(cluster);
    let all = dir.path().join("pods");
    let uid = "0c3e2f3e-6d7f-4b6c-9a51-0f6d8f1f2a3b";
    let foreign = [
        "notes".to_owned(),
        "a_b_c".to_owned(),
        format!("a_{uid}"),
        format!("a_b_c_{uid}"),
    ];
    for name in &foreign {
        std::fs::create_dir(all.join(name)).expect("made");
    }
    let linked = all.join(format!("ns_link_{uid}"));
    std::os::unix::fs::symlink(dir.path(), &linked).expect("linked");
    let cluster = node(dir.path());
    eventually(|| !directory.exists()).await;
    start(&cluster, &running("b", &["sleep", "60"])).await;
    until(&cluster, "b", is_running).await;
    for name in &foreign {
        assert!(all.join(name).exists(), "{name}");
    }
    assert!(linked.exists());
    cluster.shutdown().await;
}

#[tokio::test]
async fn a_cluster_removes_nothing_of_another_one_in_the_same_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = node(dir.path());
    start(&first, &running("a", &["sleep", "60"])).await;
    until(&first, "a", is_running).await;
    let directory = directory_of(&first, dir.path(), "a").await;
    let second = super::super::start(Options {
        seed: 1,
        ..process_options(dir.path())
    });
    start(&second, &running("b", &["sleep", "60"])).await;
    until(&second, "b", is_running).await;
    assert!(directory.join("c.log").exists());
    first.shutdown().await;
    second.shutdown().await;
}
