//! Init containers: the executor waits for what they wait for.

use serde_json::{Value, json};

use super::words;
use crate::kubernetes::{LabelScheme, PodReader};
use crate::model::Pod;
use crate::model::PodState;
use crate::model::pod::{ContainerState, Sighting};

/// A scheduled pod with these states of the executor container and of the init containers.
fn pod(phase: &str, executor: Value, inits: Value) -> Pod {
    let reader = PodReader {
        app_id: "etl".into(),
        prefix: "etl".into(),
        record: "etl-app".into(),
        of_sets: false,
        labels: LabelScheme::Boatswain,
        container: "executor".into(),
        check_all_containers: true,
    };
    let json = json!({
        "metadata": {"name": "etl-exec-1", "uid": "u", "resourceVersion": "1"},
        "spec": {
            "nodeName": "n", "restartPolicy": "Never",
            "initContainers": [{"name": "fetch"}, {"name": "sidecar", "restartPolicy": "Always"}],
            "containers": [{"name": "executor"}],
        },
        "status": {
            "phase": phase,
            "containerStatuses": [{"name": "executor", "state": executor}],
            "initContainerStatuses": inits,
        },
    });
    match reader.read(&json.to_string()) {
        Sighting::Read(pod) => (*pod).clone(),
        Sighting::Unreadable(part) => panic!("{part:?}"),
    }
}

fn waiting(reason: &str) -> Value {
    json!({"waiting": {"reason": reason, "message": "in its own words"}})
}

fn reason_of(pod: &Pod) -> Option<&str> {
    match &pod.executor {
        ContainerState::Waiting { reason, .. } => reason.as_deref(),
        other => panic!("{other:?}"),
    }
}

// spec: A-100
#[test]
fn the_executor_has_the_waiting_reason_of_its_init_container() {
    let not_yet = json!({"waiting": {"reason": "PodInitializing"}});
    for reason in [
        "ImagePullBackOff",
        "CreateContainerConfigError",
        "InvalidImageName",
    ] {
        let inits = json!([
            {"name": "first", "state": {"terminated": {"exitCode": 0}}},
            {"name": "second", "state": waiting(reason)},
            {"name": "third", "state": not_yet},
        ]);
        let pod = pod("Pending", not_yet.clone(), inits);
        assert_eq!(reason_of(&pod), Some(reason));
        let said = format!("{reason}: init container second: in its own words");
        assert_eq!(words(&pod), said);
        assert!(matches!(pod.state(), PodState::Pending(_)));
    }
}

// spec: A-100
#[test]
fn an_init_container_that_runs_or_succeeded_does_not_affect_the_executor() {
    let inits = json!([
        {"name": "first", "state": {"terminated": {"exitCode": 0}}},
        {"name": "second", "state": {"running": {}}},
    ]);
    let own = waiting("ErrImagePull");
    assert_eq!(
        reason_of(&pod("Pending", own, inits.clone())),
        Some("ErrImagePull")
    );
    // A sidecar that restarts does not affect a running executor.
    let restarting = json!([{"name": "sidecar", "state": waiting("CrashLoopBackOff")}]);
    let running = pod("Running", json!({"running": {}}), restarting);
    assert_eq!(running.executor, ContainerState::Running { started: None });
    assert_eq!(running.state(), PodState::Running);
}

// spec: A-100, L-20
#[test]
fn an_init_container_that_failed_is_named_with_its_exit_code() {
    let inits =
        json!([{"name": "fetch", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}]);
    let pod = pod(
        "Failed",
        json!({"waiting": {"reason": "PodInitializing"}}),
        inits,
    );
    assert_eq!(pod.state(), PodState::Failed);
    assert_eq!(words(&pod), "Error: init container fetch ended with exit 3");
}

fn behind() -> Value {
    json!({"waiting": {"reason": "PodInitializing"}})
}

// spec: A-100
#[test]
fn an_init_container_that_hangs_is_named() {
    let pod = pod(
        "Pending",
        behind(),
        json!([{"name": "fetch", "started": true, "state": {"running": {}}}]),
    );
    assert_eq!(
        words(&pod),
        "PodInitializing: init container fetch has not finished"
    );
    let why = pod.why_pending();
    assert_eq!(
        why.as_deref(),
        Some("PodInitializing: init container fetch")
    );
}

// spec: A-100
#[test]
fn a_native_sidecar_that_does_not_start_is_named_and_one_that_started_is_not() {
    let of = |sidecar: Value| {
        let mut status = json!({"name": "sidecar"});
        status
            .as_object_mut()
            .unwrap()
            .extend(sidecar.as_object().unwrap().clone());
        let done = json!({"name": "fetch", "state": {"terminated": {"exitCode": 0}}});
        pod("Pending", behind(), json!([done, status]))
    };
    for (sidecar, said, restarts) in [
        (
            json!({"started": false, "state": {"running": {}}}),
            "PodInitializing: sidecar sidecar runs, and its startup probe has not succeeded",
            0,
        ),
        (
            json!({"restartCount": 2, "state": waiting("CrashLoopBackOff")}),
            "CrashLoopBackOff: sidecar sidecar: in its own words",
            2,
        ),
        (
            json!({"restartCount": 1, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}),
            "Completed: sidecar sidecar ended with exit 0",
            1,
        ),
    ] {
        let pod = of(sidecar);
        assert_eq!(words(&pod), said);
        let init = pod.init.unwrap();
        assert_eq!((init.sidecar, init.restarts), (true, restarts));
    }
    let started = of(json!({"started": true, "state": {"running": {}}}));
    assert_eq!(started.init, None);
    assert_eq!(words(&started), "PodInitializing");
}

// spec: L-20
#[test]
fn a_sidecar_that_ends_with_its_pod_is_not_why_it_failed() {
    let failed =
        json!({"name": "fetch", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}});
    let ended =
        json!({"name": "sidecar", "state": {"terminated": {"exitCode": 143, "reason": "Error"}}});
    let pod = pod("Failed", behind(), json!([ended, failed]));
    assert_eq!(words(&pod), "Error: init container fetch ended with exit 3");
}

// spec: L-20, E-13
#[test]
fn an_init_container_that_never_ran_is_not_why_its_pod_failed() {
    let unknown = json!({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}});
    let inits = json!([{"name": "fetch", "restartCount": 0, "state": unknown}]);
    let pod = pod("Failed", unknown, inits);
    assert_eq!((pod.init.clone(), pod.exit_code()), (None, None));
}

// spec: L-20, A-100
#[test]
fn an_init_container_that_is_ended_by_the_deletion_of_its_pod_did_not_fail() {
    let reading = |deleting: bool, phase: &str, state: Value| {
        let mut json = json!({
            "metadata": {"name": "etl-exec-1", "uid": "u", "resourceVersion": "1"},
            "spec": {"nodeName": "n", "initContainers": [{"name": "fetch"}], "containers": [{"name": "executor"}]},
            "status": {
                "phase": phase,
                "initContainerStatuses": [{"name": "fetch", "state": state}],
                "containerStatuses": [{"name": "executor", "state": behind()}],
            },
        });
        if deleting {
            json["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let reader = PodReader {
            app_id: "etl".into(),
            prefix: "etl".into(),
            record: "etl-app".into(),
            of_sets: false,
            labels: LabelScheme::Boatswain,
            container: "executor".into(),
            check_all_containers: true,
        };
        match reader.read(&json.to_string()) {
            Sighting::Read(pod) => pod,
            Sighting::Unreadable(part) => panic!("{part:?}"),
        }
    };
    let hangs = reading(false, "Pending", json!({"running": {}}));
    let killed = json!({"terminated": {"exitCode": 137, "reason": "Error"}});
    for phase in ["Pending", "Failed"] {
        let killed = reading(true, phase, killed.clone());
        assert_eq!(killed.init, None);
        let said = "PodInitializing: init container fetch has not finished";
        assert_eq!(words(&killed.keeping_evidence(&hangs)), said);
    }
}

// spec: K-6
#[test]
fn an_init_container_that_must_not_be_root_is_named_and_the_profile_is_not_blamed() {
    let message =
        "container has runAsNonRoot and image will run as root (pod: \"a\", container: fetch)";
    let state = json!({"waiting": {"reason": "CreateContainerConfigError", "message": message}});
    let not_yet = json!({"waiting": {"reason": "PodInitializing"}});
    let said = words(&pod(
        "Pending",
        not_yet,
        json!([{"name": "fetch", "state": state}]),
    ));
    assert!(
        said.contains("; this is init container fetch: choose its user"),
        "{said}"
    );
    assert!(!said.contains("security.run_as_non_root"), "{said}");
}
