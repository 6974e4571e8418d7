//! Tests spares: executors whose pods run already when others are lost.

use serde_json::Value;

use super::place::{API, Place, config, sessions};
use super::process::{Log, until};

const PROMOTED: &str = "executor promoted: it was a spare";

fn with_a_spare() -> String {
    let executors = "executors = 2\n";
    let profile = config(2).replace(executors, &format!("{executors}spares = 1\n"));
    profile + &sessions() + API
}

/// The spare that runs, once there is one.
fn spare(place: &Place) -> (String, u64) {
    until("a spare runs", || {
        let label = |pod: &Value, key: &str| {
            let labels = &pod["metadata"]["labels"];
            labels[format!("boatswain.dev/{key}")]
                .as_str()
                .map(str::to_owned)
        };
        let mut pods = place.executors().into_iter();
        let pod = pods.find(|pod| label(pod, "profile").as_deref() == Some("default-spares"))?;
        let runs = !pod["status"]["containerStatuses"][0]["state"]["running"].is_null();
        let name = pod["metadata"]["name"].as_str()?.to_owned();
        let id = label(&pod, "executor-id")?.parse().ok()?;
        runs.then_some((name, id))
    })
}

/// The place of this executor's message in the log.
fn place_of(log: &Log, message: &str, executor: u64) -> Option<usize> {
    (log.0.iter()).position(|line| line["message"] == message && line["executor"] == executor)
}

// spec, B-77, O-146
#[test]
fn a_spare_takes_a_lost_executors_place_before_another_pod_runs_also_from_a_successor() {
    let place = Place::new("spares");
    let driver = place.drive(&with_a_spare(), &["--generate-secrets"]);
    driver.registered(2);
    let (name, first) = spare(&place);
    let lost = place
        .executors()
        .into_iter()
        .find(|pod| pod["metadata"]["name"] != name.as_str());
    let lost = lost.unwrap()["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let told = place.told(&["logs", &name]);
    assert!(
        told.contains("a spare: the command is started when an executor is needed"),
        "{told}"
    );
    place.told(&["delete", "pod", &lost, "--wait=false"]);
    driver.says(PROMOTED);
    driver.registered(3);
    let (_, second) = spare(&place);
    let log = driver.log();
    let registered = place_of(&log, "executor registered", first).unwrap();
    let another = place_of(&log, "executor running", second).unwrap();
    assert!(registered < another, "{registered} {another}");
    let status = place.ask(&["status"]);
    assert!(
        status.contains("default-spares  1       1        0"),
        "{status}"
    );
    let history = place.ask(&["explain", &first.to_string()]);
    assert!(history.contains("promoted"), "{history}");

    let driver_pod = driver.name();
    place.told(&["delete", "pod", &driver_pod]);
    until("another driver begins", || {
        let pods = driver.pods();
        (pods.len() == 1 && pods[0]["metadata"]["name"] != driver_pod.as_str()).then_some(())
    });
    driver.says("executors adopted");
    driver.registered(2);
    place.told(&["delete", "pod", &name, "--wait=false"]);
    let promoted = driver.says(PROMOTED);
    assert_eq!(promoted["executor"], second);
    driver.registered(3);
}
