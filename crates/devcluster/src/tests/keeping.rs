use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::*;
use crate::DataFileError;

/// Resumes a cluster, after the previous one has released the file.
async fn resumed_with(options: Options, data: &Path) -> DevCluster {
    let resume = async {
        loop {
            match super::super::resume(options.clone(), data) {
                Ok(cluster) => return cluster,
                Err(error) => assert!(why(&error).contains("another cluster"), "{error:?}"),
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, resume).await.expect("the file is free")
}

async fn resumed(data: &Path) -> DevCluster {
    resumed_with(options(), data).await
}

/// An error with its cause.
fn why(error: &DataFileError) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    format!("{error}: {}", cause.unwrap_or_default())
}

fn refused_for(data: &Path) -> String {
    why(&super::super::resume(options(), data).expect_err("refused"))
}

// spec: O-71
#[tokio::test(start_paused = true)]
async fn a_restart_preserves_the_state_and_watches_resume() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let first = resumed(&data).await;
    let seen = create(&first, "a").await;
    create(&first, "b").await;
    delete(&first, &pods("/a?gracePeriodSeconds=0")).await;
    let before = get(&first, &pods("")).await;
    first.shutdown().await;
    drop(first);

    let second = resumed(&data).await;
    assert_eq!(get(&second, &pods("")).await, before);
    let from = format!("?watch=1&resourceVersion={}", version(&seen));
    let mut events = watch(&second, &pods(&from)).await;
    assert_eq!(events.next_named().await, named("ADDED", "b"));
    assert_eq!(events.next_named().await, named("MODIFIED", "a"));
    assert_eq!(events.next_named().await, named("DELETED", "a"));
    events.quiet().await;
    let next = create(&second, "c").await;
    assert_eq!(version(&next), "1005", "versions go on");
    assert_eq!(events.next_named().await, named("ADDED", "c"));
}

// spec: O-71, O-73
#[tokio::test(start_paused = true)]
async fn a_restarted_simulated_node_keeps_its_pods_and_reuses_no_address() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let node = NodeKind::Simulated(crate::SimulatedNode::default());
    let options = Options { node, ..options() };
    let runs = |pod: Option<&Value>| pod.is_some_and(|p| p["status"]["phase"] == "Running");
    let first = resumed_with(options.clone(), &data).await;
    create(&first, "a").await;
    until(&first, "a", runs).await;
    let before = get(&first, &pods("/a")).await;
    first.shutdown().await;
    drop(first);
    let second = resumed_with(options, &data).await;
    create(&second, "b").await;
    until(&second, "b", runs).await;
    assert_eq!(get(&second, &pods("/a")).await, before);
    let (_, other) = get(&second, &pods("/b")).await;
    assert_ne!(other["status"]["podIP"], before.1["status"]["podIP"]);
}

// spec: O-71
#[tokio::test(start_paused = true)]
async fn an_emptied_cluster_is_empty_after_a_restart_too() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let first = resumed(&data).await;
    create(&first, "a").await;
    first.empty().await;
    create(&first, "b").await;
    first.shutdown().await;
    drop(first);
    let second = resumed(&data).await;
    assert_eq!(get(&second, &pods("/a")).await.0, 404);
    assert_eq!(version(&get(&second, &pods("/b")).await.1), "1001");
}

// spec: O-72
#[tokio::test(start_paused = true)]
async fn the_data_file_is_private_and_locked() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let cluster = resumed(&data).await;
    create(&cluster, "a").await;
    let mode = fs::metadata(&data).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let told = refused_for(&data);
    assert!(told.contains("another cluster uses this file"), "{told}");
}

// spec: O-71
#[tokio::test(start_paused = true)]
async fn a_write_that_cannot_be_persisted_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let cluster = resumed(&directory.path().join("data")).await;
    fs::remove_dir_all(directory.path()).expect("removed");
    let (code, status) = post(&cluster, &pods(""), &pod("a")).await;
    assert_eq!(
        (code, status["reason"].as_str()),
        (503, Some("ServiceUnavailable"))
    );
    assert!(cluster.state().await.pod("default", "a").is_none());
    let stopped = async {
        cluster
            .store
            .published()
            .wait_for(|p| p.stopping)
            .await
            .is_ok()
    };
    assert!(timeout(SOON, stopped).await.expect("it stops"));
}

// spec: O-71
#[tokio::test(start_paused = true)]
async fn a_foreign_file_is_refused_and_not_changed() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let head = r#"{"devcluster":"state","format":1,"compacted":1000}"#;
    let cases = [
        ("once upon a time\n".to_owned(), "is it another file?"),
        ("{}\n".to_owned(), "is it another file?"),
        ("no end".to_owned(), "is it another file?"),
        (head.replace('1', "2") + "\n", "format 2"),
        (
            format!("{head}\n{{\"put\":7}}\n"),
            "line 2: an object without metadata",
        ),
        (
            format!("{head}\n{{}}\n"),
            "line 2: neither base, put nor removed",
        ),
        (
            format!(
                "{head}\n{{\"removed\":{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"a\"}}}}\n"
            ),
            "line 2: a is removed, but was not there",
        ),
        (
            format!(
                "{head}\n{}\n",
                json!({"put": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": "a", "resourceVersion": "1002"},
                }})
            ),
            "line 2: resource version 1002 where 1001 comes next",
        ),
    ];
    for (text, expected) in cases {
        fs::write(&data, &text).expect("written");
        let told = refused_for(&data);
        assert!(told.contains(expected), "{text}: {told}");
        assert_eq!(fs::read_to_string(&data).expect("a file"), text);
    }
}

#[tokio::test(start_paused = true)]
async fn managed_fields_and_their_reset_survive_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let first = resumed(&data).await;
    create(&first, "a").await;
    create(&first, "b").await;
    let reset = json!({"metadata": {"managedFields": []}});
    assert_eq!(patch(&first, &pods("/b"), &reset).await.0, 200);
    let before = get(&first, &pods("")).await;
    first.shutdown().await;
    drop(first);
    let second = resumed(&data).await;
    assert_eq!(get(&second, &pods("")).await, before);
    let owners = |i: usize| before.1["items"][i]["metadata"]["managedFields"].is_array();
    assert_eq!((owners(0), owners(1)), (true, false));
}

/// A data file of a cluster that has had the pods a, b and c, and whose lines are changed.
async fn damaged(data: &Path, change: impl Fn(usize, &str) -> String) -> String {
    let first = resumed(data).await;
    for name in ["a", "b", "c"] {
        create(&first, name).await;
    }
    first.shutdown().await;
    drop(first);
    timeout(SOON, async {
        while super::super::rescue(data).is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the file is free");
    let text = fs::read_to_string(data).expect("a file");
    let lines = text.lines().zip(1..);
    let text: String = lines
        .map(|(line, number)| change(number, line) + "\n")
        .collect();
    fs::write(data, &text).expect("written");
    text
}

fn line_with(text: &str, part: &str) -> usize {
    let place = text.lines().position(|line| line.contains(part));
    place.expect("such a line") + 1
}

// spec: O-71
#[tokio::test(start_paused = true)]
async fn the_damaged_lines_of_a_data_file_are_named_and_the_others_can_be_rescued() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let text = damaged(&data, |_, line| {
        if line.contains(r#""name":"b""#) {
            line.replacen("{", "{{", 2)
        } else {
            line.to_owned()
        }
    })
    .await;
    let line = line_with(&text, r#""name":"b""#);
    let message = refused_for(&data);
    let place = format!("line {line}, column 2: key must be a string: ");
    for part in [&*data.to_string_lossy(), &place, "--rescue"] {
        assert!(message.contains(part), "{message}");
    }

    let rescued = super::super::rescue(&data)
        .expect("rescued")
        .expect("damage");
    assert_eq!(
        rescued.damage,
        [format!("line {line}, column 2: key must be a string")]
    );
    assert_eq!(rescued.original, directory.path().join("data.damaged"));
    let original = fs::read_to_string(&rescued.original).expect("the original");
    assert_eq!(original, text);
    let mode = fs::metadata(&rescued.original)
        .expect("a file")
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    assert!(super::super::rescue(&data).expect("undamaged").is_none());

    let second = resumed(&data).await;
    for (name, code) in [("a", 200), ("b", 404), ("c", 200)] {
        assert_eq!(get(&second, &pods(&format!("/{name}"))).await.0, code);
    }
    let old = pods("?resourceVersionMatch=Exact&resourceVersion=1001");
    assert_eq!(
        refusal(get(&second, &old).await),
        refused(410, "Expired"),
        "its history has a gap"
    );
    let next = create(&second, "d").await;
    assert_eq!(version(&next), "1004", "versions go on");
}

// spec: O-71
#[tokio::test(start_paused = true)]
async fn a_lost_line_is_damage_and_the_original_is_never_overwritten() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    damaged(&data, |_, line| line.to_owned()).await;
    let text = fs::read_to_string(&data).expect("a file");
    let kept = text.lines().filter(|line| !line.contains(r#""name":"b""#));
    let text: String = kept.map(|line| format!("{line}\n")).collect();
    fs::write(&data, text).expect("written");
    let other = directory.path().join("data.damaged");
    fs::write(&other, "of an earlier rescue").expect("written");
    let message = why(&super::super::rescue(&data).expect_err("in the way"));
    assert!(message.contains("data.damaged is in the way"), "{message}");
    assert_eq!(
        fs::read_to_string(&other).expect("a file"),
        "of an earlier rescue"
    );
    fs::remove_file(&other).expect("removed");
    let rescued = super::super::rescue(&data)
        .expect("rescued")
        .expect("damage");
    assert!(rescued.damage[0].contains("where"), "{rescued:?}");
    let second = resumed(&data).await;
    assert_eq!(get(&second, &pods("/c")).await.0, 200);
}

// spec: O-71
#[tokio::test(start_paused = true)]
async fn an_object_with_the_most_levels_survives_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let first = resumed(&data).await;
    create(&first, "a").await;
    let mut accepted = 0;
    for levels in 80..130 {
        let fields = (0..levels).fold(json!({}), |inner, _| json!({"f:a": inner}));
        let manager = json!({
            "manager": "m",
            "operation": "Update",
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        });
        let operation =
            json!([{"op": "add", "path": "/metadata/managedFields/0", "value": manager}]);
        let request = Request::patch(pods("/a"))
            .header("content-type", "application/json-patch+json")
            .body(Body::from(operation.to_string()));
        let response = first.router().oneshot(request.expect("a request")).await;
        accepted += usize::from(response.expect("an answer").status() == 200);
    }
    assert!((5..45).contains(&accepted), "{accepted} are accepted");
    let before = get(&first, &pods("/a")).await;
    first.shutdown().await;
    drop(first);
    let second = resumed(&data).await;
    assert_eq!(get(&second, &pods("/a")).await, before);
}
