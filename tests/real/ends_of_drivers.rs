//! Tests what Jobs, Deployments and StatefulSets do around a driver: its restart, its end, and what is collected after it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::driver::InPod;
use super::place::{API, Place, config};
use super::process::until;

/// The group and the resource of a kind of workload.
const KINDS: [(&str, &str, &str); 3] = [
    ("job", "apis/batch/v1", "jobs"),
    ("deployment", "apis/apps/v1", "deployments"),
    ("statefulset", "apis/apps/v1", "statefulsets"),
];

// spec: K-2, O-11
#[test]
fn what_a_driver_leaves_that_cannot_end_by_itself_is_collected_with_its_controller() {
    for (kind, group, resource) in KINDS {
        let place = Place::new("collected");
        let driver = place.drive(&config(2), &["--kind", kind]);
        place.run(2);
        let controller = place.get(group, resource, "boatswain").unwrap();
        let record = place.api.config_map("t-app").unwrap();
        let owner = &record["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], controller["metadata"]["uid"], "{owner}");
        let pod = driver.name();
        // Nobody is left who could delete anything: the driver is killed together with its controller.
        let path = format!("/{group}/namespaces/{}/{resource}/boatswain", place.name());
        let background = json!({"propagationPolicy": "Background"});
        place.api.call("DELETE", &path, Some(&background)).unwrap();
        // The collector may have been there first.
        place.told(&[
            "delete",
            "pod",
            &pod,
            "--force",
            "--grace-period=0",
            "--ignore-not-found",
        ]);
        place.nothing_is_left();
    }
}

// spec: O-10, O-11, O-66
#[test]
fn a_deleted_controller_ends_the_application_of_each_kind() {
    for (kind, ..) in KINDS {
        let place = Place::new("deleted");
        let driver = place.drive(&config(2), &["--kind", kind]);
        place.run(2);
        let pod = driver.name();
        place.told(&["delete", kind, "boatswain", "--wait=false"]);
        place.nothing_is_left();
        until("the driver's pod is gone", || {
            place.pod(&pod).is_none().then_some(())
        });
    }
}

/// The reason and the message of a Job's failure.
fn failure(place: &Place) -> Option<(Value, String)> {
    let job = place.get("apis/batch/v1", "jobs", "boatswain")?;
    let conditions = job["status"]["conditions"].as_array()?;
    let failed = conditions
        .iter()
        .find(|c| c["type"] == "Failed" && c["status"] == "True")?;
    let message = failed["message"].as_str()?.to_owned();
    Some((failed["reason"].clone(), message))
}

// spec: O-10, L-30
#[test]
fn a_job_fails_at_once_with_the_exit_code_of_an_application_that_failed_too_often() {
    let place = Place::new("exit-11");
    let failing = config(2).replace("trap 'exit 0' TERM; ", "exit 3; ") + "[failures]\nmax = 2\n";
    let driver = place.drive(&failing, &[]);
    let (reason, message) = until("the Job has failed", || failure(&place));
    assert_eq!(reason, "PodFailurePolicy");
    assert!(message.contains("exit code 11"), "{message}");
    assert_eq!(driver.pods().len(), 1, "no second pod was started");
    let record = place.api.config_map("t-app").unwrap();
    assert!(record["data"].to_string().contains("11"), "{record}");
    let shown = place.told(&[
        "describe",
        "pod",
        driver.pods()[0]["metadata"]["name"].as_str().unwrap(),
    ]);
    assert!(shown.contains("Exit Code:    11"), "{shown}");
}

// spec: O-10, O-11, O-43, O-86
#[test]
fn an_application_that_ends_itself_completes_its_job_or_fails_it_with_its_own_code() {
    for code in ["0", "42"] {
        let place = Place::new("stop");
        let driver = place.drive(&(config(2) + API), &["--generate-secrets"]);
        place.run(2);
        until("the kubelet has said that the driver's pod runs", || {
            (driver.pod()["status"]["phase"] == "Running").then_some(())
        });
        place.ask(&["stop", "--exit-code", code]);
        if code == "0" {
            until("the Job is complete", || {
                let job = place.get("apis/batch/v1", "jobs", "boatswain")?;
                (job["status"]["succeeded"] == 1).then_some(())
            });
        } else {
            let (reason, message) = until("the Job has failed", || failure(&place));
            assert_eq!(reason, "PodFailurePolicy");
            assert!(message.contains("exit code 42"), "{message}");
        }
        until("no executor is left", || {
            place.executors().is_empty().then_some(())
        });
    }
}

// spec: O-66, O-67
#[test]
fn a_suspended_job_lets_its_executors_go_and_a_resumed_one_has_as_many_again() {
    let place = Place::new("suspend");
    let driver = place.drive(&config(2), &[]);
    let first = place.run(2);
    place.told(&[
        "patch",
        "job",
        "boatswain",
        "-p",
        r#"{"spec":{"suspend":true}}"#,
    ]);
    until("no executor and no driver is left", || {
        (place.executors().is_empty() && driver.pods().is_empty()).then_some(())
    });
    assert!(place.api.config_map("t-app").is_some());
    place.told(&[
        "patch",
        "job",
        "boatswain",
        "-p",
        r#"{"spec":{"suspend":false}}"#,
    ]);
    let second = place.run(2);
    assert!(
        first.iter().all(|pod| !second.contains(pod)),
        "{first:?} {second:?}"
    );
    let log = driver.log();
    for line in log.lines("executor ended") {
        assert_eq!(
            (&line["reason"], &line["failure"]),
            (&json!("Lost"), &json!(false))
        );
    }
}

// spec: O-90
#[test]
fn a_standby_takes_over_when_the_lease_of_a_lost_driver_is_over() {
    let place = Place::new("standby");
    let lease = "[ha]\nlease = true\nlease_duration = \"15s\"\nrenew_deadline = \"5s\"\nretry_period = \"1s\"\n";
    let driver: InPod<'_> = place.drive(&(config(2) + lease), &["--kind", "deployment"]);
    let before = place.run(2);
    let holder = || {
        let lease = place.get("apis/coordination.k8s.io/v1", "leases", "t-driver")?;
        lease["spec"]["holderIdentity"].as_str().map(str::to_owned)
    };
    let is_active = |pod: &Value| pod["metadata"]["labels"]["boatswain.dev/active"] == "true";
    let active = until("one is active and one stands by", || {
        let pods = driver.pods();
        let ready = pods
            .iter()
            .filter(|pod| pod["status"]["phase"] == "Running")
            .count();
        let active = pods.iter().find(|pod| is_active(pod))?;
        (ready == 2).then(|| active["metadata"]["name"].as_str().unwrap().to_owned())
    });
    let first = holder();
    // As if its node were lost: nothing of it is told to anybody.
    let node = place.pod(&active).unwrap()["spec"]["nodeName"].clone();
    super::registration::freeze_pod(&place, &active);
    let began = Instant::now();
    until("another one holds the lease", || {
        (holder() != first).then_some(())
    });
    let took = began.elapsed();
    assert!(took < Duration::from_secs(30), "{took:?} {node}");
    until("the other one is active", || {
        let other = driver
            .pods()
            .into_iter()
            .find(|pod| is_active(pod) && pod["metadata"]["name"] != *active)?;
        let log = driver.log_of(other["metadata"]["name"].as_str()?);
        (log.lines("executors adopted").first()?["found"] == 2).then_some(())
    });
    assert_eq!(place.run(2), before);
    super::registration::wake_pod(&place, &active);
    until("the earlier one has ended with 75", || {
        let pod = place.pod(&active)?;
        let state = &pod["status"]["containerStatuses"][0];
        let ends = [
            &state["state"]["terminated"]["exitCode"],
            &state["lastState"]["terminated"]["exitCode"],
        ];
        ends.contains(&&json!(75)).then_some(())
    });
    assert_eq!(place.run(2), before);
}
