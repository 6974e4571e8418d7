//! Init containers: the executor waits for what they wait for.

use serde_json::{Value, json};

use super::super::*;
use crate::actors::pod_allocator::waiting::words;
use crate::model::PodState;
use crate::model::pod::ContainerState;

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
        "spec": {"nodeName": "n", "containers": [{"name": "executor"}], "restartPolicy": "Never"},
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

// spec: A-51
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

// spec: A-51
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

// spec: A-51, L-20
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
