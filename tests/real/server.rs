//! Tests how a real API server keeps drivers informed, holds them back and forgets: bookmarks, streamed lists,
//! compaction, priority and fairness.

use std::process::Command;

use serde_json::{Value, json};

use super::place::{ON_KWOK, Place, cluster, config};
use super::process::{Log, Program, until};

fn says(program: &Program, message: &str) -> Value {
    until(&format!("the driver says {message:?}"), || {
        program
            .log()
            .lines(message)
            .first()
            .map(|line| (*line).clone())
    })
}

// spec: W-1, W-3, W-4
#[test]
fn the_first_list_is_streamed_and_watches_ask_for_bookmarks_and_get_them() {
    let place = Place::new("stream");
    let metrics = "[metrics]\nlisten = \"0.0.0.0:9090\"\n";
    let driver = place.drive(&(config(2) + metrics), &[]);
    place.run(2);
    // A watch is told of twice: when it opens, and when it is over.
    let watched: Vec<String> = (place.audited("boatswain").iter())
        .filter(|event| event["stage"] == "ResponseStarted")
        .map(|event| event["requestURI"].as_str().unwrap().to_owned())
        .filter(|uri| uri.contains("/pods") && uri.contains("watch="))
        .collect();
    let streamed = watched
        .iter()
        .filter(|uri| uri.contains("sendInitialEvents=true"));
    assert_eq!(streamed.count(), 1, "{watched:?}");
    assert!(
        watched
            .iter()
            .all(|uri| uri.contains("allowWatchBookmarks=true")),
        "{watched:?}"
    );
    let listed = |event: &&Value| {
        event["verb"] == "list"
            && event["objectRef"]["resource"] == "pods"
            && !event["requestURI"]
                .as_str()
                .unwrap()
                .contains("resourceVersion")
    };
    assert_eq!(
        place.audited("boatswain").iter().filter(listed).count(),
        1,
        "no quorum list in pages but for the ids, before the record is new (O-31)"
    );
    // A real server sends one each minute.
    let address = driver.pod()["status"]["podIP"].as_str().unwrap().to_owned();
    until("a bookmark has come", || {
        let mut curl = Command::new("curl");
        let output = curl
            .args(["--silent", &format!("http://{address}:9090/metrics")])
            .output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with("boatswain_watch_bookmark_age_seconds"))?;
        let age: f64 = line.rsplit_once(' ')?.1.parse().ok()?;
        (0.0..60.0).contains(&age).then_some(())
    });
}

/// etcd forgets everything but the present.
fn compact() {
    let etcdctl = |arguments: &[&str]| {
        let output = Command::new("etcdctl").args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let status: Value =
        serde_json::from_str(&etcdctl(&["endpoint", "status", "-w", "json"])).unwrap();
    let revision = status[0]["Status"]["header"]["revision"].to_string();
    etcdctl(&["compact", &revision]);
}

// spec: W-2, W-10, W-8, K-13
#[test]
fn alone_after_a_restart_of_the_api_server_with_a_compacted_history_each_end_is_seen_at_once() {
    let place = Place::new("compacted");
    let driver = place.drive_from_outside(&config(2));
    place.run(2);
    for n in 0..50 {
        place
            .api
            .create_config_map(&format!("noise-{n}"), &json!({}));
    }
    cluster(&["stop", "apiserver"]);
    compact();
    cluster(&["start", "apiserver"]);
    until("the API server answers", || place.api.try_pods().ok());
    says(&driver, "the API server answers again");
    place.told(&["delete", "pod", "t-exec-1", "--wait=false"]);
    // The kubelet, which has to end it, may find its way back to the API server much later.
    until("another one is requested", || {
        let requested = driver.log().executors("executor requested");
        (requested.len() > 2).then_some(())
    });
    let end = until("its end is told", || driver.log().end_of(1).cloned());
    assert_eq!(end["reason"], "Deleted");
    let requested = driver.log().executors("executor requested");
    assert_eq!(requested, [1, 2, 3].into());
    place.run(2);
    // The record's watch is as good as new: that it is gone is seen before a replacement is made under a dead owner.
    let before = place.api.config_map("t-app").unwrap()["metadata"]["uid"].clone();
    place.told(&["delete", "configmap", "t-app", "--cascade=orphan"]);
    until("the record is there again", || {
        let record = place.api.config_map("t-app")?;
        (record["metadata"]["uid"] != before).then_some(())
    });
    assert_eq!(place.run(2).len(), 2);
}

// spec, W-8
#[test]
fn a_driver_that_priority_and_fairness_holds_back_gets_all_its_executors_and_ends_none() {
    let place = Place::new("fairness");
    let name = place.name();
    let level = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration", "metadata": {"name": name},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 1, "lendablePercent": 0, "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Reject"},
        }},
    });
    let schema = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": name},
        "spec": {
            "matchingPrecedence": 100, "priorityLevelConfiguration": {"name": name},
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{
                "subjects": [{"kind": "ServiceAccount", "serviceAccount": {"name": "boatswain", "namespace": name}}],
                "resourceRules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "namespaces": ["*"]}],
            }],
        },
    });
    place.apply(&[level, schema]);
    until("the schema is in force", || {
        let path = format!("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/{name}");
        let schema = place.api.call("GET", &path, None).ok()?;
        let dangling = &schema["status"]["conditions"][0];
        (dangling["type"] == "Dangling" && dangling["status"] == "False").then_some(())
    });
    // Many, on a node that runs none of them.
    let own = format!("executors = 100\nnode_selector = {{ type = \"kwok\" }}\n{ON_KWOK}");
    let fleet = config(100).replace("executors = 100", &own);
    let driver = place.drive(&fleet, &[]);
    place.run(100);
    let of = |code: u64| {
        let events = place.audited("boatswain");
        events
            .iter()
            .filter(|event| event["responseStatus"]["code"] == code)
            .count()
    };
    place.told(&["delete", "flowschema,prioritylevelconfiguration", name]);
    assert!(of(429) > 0, "nothing was held back");
    let log: Log = driver.log();
    assert_eq!(log.count("executor ended"), 0);
    assert_eq!(driver.pods().len(), 1);
    assert_eq!(place.executors().len(), 100);
}
