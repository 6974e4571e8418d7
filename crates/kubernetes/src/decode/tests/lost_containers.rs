//! Ends that kubelets make up, for containers that never ran or that they have lost.

use std::num::NonZeroU32;

use super::*;
use boatswain_model::pod::{FailedSidecar, STATUS_UNKNOWN};

fn made_up() -> Value {
    json!({"terminated": {
        "exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": null, "finishedAt": null,
        "message": "The container could not be located when the pod was terminated",
    }})
}

fn with(status: Value) -> Pod {
    read(&changed(|pod| {
        pod["status"]["phase"] = json!("Failed");
        pod["status"]["containerStatuses"] = json!([status]);
    }))
}

// spec: E-13, L-20
#[test]
fn a_container_that_never_ran_has_no_exit_code_whatever_its_kubelet_makes_up() {
    let pod = with(json!({"name": "executor", "restartCount": 0, "state": made_up()}));
    let never_ran = ContainerState::Waiting {
        reason: None,
        message: None,
    };
    assert_eq!(pod.executor, never_ran);
    assert_eq!((pod.state(), pod.exit_code()), (PodState::Failed, None));
}

// spec: E-13, L-20
#[test]
fn a_container_that_was_lost_has_ended_with_an_unknown_code() {
    let ran = json!({"terminated": {"exitCode": 3, "reason": "Error"}});
    for status in [
        json!({"name": "executor", "state": made_up(), "containerID": "containerd://7"}),
        json!({"name": "executor", "state": made_up(), "lastState": ran}),
        json!({"name": "executor", "containerID": "containerd://7",
            "state": {"terminated": {"exitCode": 255, "reason": "Unknown"}}}),
    ] {
        let pod = with(status);
        assert!(
            matches!(pod.executor, ContainerState::Terminated(_)),
            "{pod:?}"
        );
        assert_eq!((pod.state(), pod.exit_code()), (PodState::Failed, None));
    }
    // A program may exit with these codes.
    for (code, reason) in [(137, "Error"), (255, "Error"), (137, "Unknown")] {
        let state = json!({"terminated": {"exitCode": code, "reason": reason}});
        let pod = with(json!({"name": "executor", "state": state}));
        assert_eq!(pod.exit_code(), Some(code), "{reason}");
    }
}

// spec: E-12, E-13
#[test]
fn another_container_that_failed_is_known_by_name_and_a_lost_one_fails_nothing() {
    let strict = PodReader {
        check_all_containers: true,
        ..reader()
    };
    let failed = |state: Value| {
        let json = changed(|pod| {
            pod["spec"]["restartPolicy"] = json!("Never");
            pod["status"]["containerStatuses"] = json!([
                {"name": "executor", "state": {"running": {}}},
                {"name": "log-shipper", "containerID": "containerd://8", "state": state},
            ]);
        });
        match strict.read(&json) {
            Sighting::Read(pod) => pod.failed_sidecar.clone(),
            Sighting::Unreadable(part) => panic!("{part:?}"),
        }
    };
    let FailedSidecar { name, end } =
        &*failed(json!({"terminated": {"exitCode": 9, "reason": "Error"}})).unwrap();
    assert_eq!((&**name, end.exit_code), ("log-shipper", Some(9)));
    assert_eq!(failed(made_up()), None, "{STATUS_UNKNOWN}");
}

// spec: L-20
#[test]
fn only_the_executor_containers_liveness_and_startup_probes_end_it() {
    let probed = |probes: Value| {
        read(&changed(|pod| {
            let mut executor = json!({"name": "executor"});
            executor
                .as_object_mut()
                .unwrap()
                .extend(probes.as_object().unwrap().clone());
            pod["spec"]["containers"] =
                json!([{"name": "proxy", "livenessProbe": {"exec": {}}}, executor]);
        }))
        .probed
    };
    assert!(!probed(json!({})));
    assert!(!probed(json!({"readinessProbe": {"exec": {}}})));
    assert!(probed(json!({"livenessProbe": {"exec": {}}})));
    assert!(probed(json!({"startupProbe": {"exec": {}}})));
}

// spec: L-43
#[test]
fn the_memory_limit_is_the_executor_containers_however_it_is_written() {
    let limit = |limits: Value| {
        read(&changed(|pod| {
            pod["spec"]["containers"] = json!([
                {"name": "proxy", "resources": {"limits": {"memory": "1Mi"}}},
                {"name": "executor", "resources": {"limits": limits}},
            ]);
        }))
        .memory_limit
        .map(NonZeroU32::get)
    };
    assert_eq!(limit(json!({"memory": "1536Mi"})), Some(1536));
    assert_eq!(limit(json!({"memory": "1e9"})), Some(954));
    assert_eq!(limit(json!({"memory": 1_048_576})), Some(1));
    for none in [
        json!({}),
        json!({"cpu": "1"}),
        json!(null),
        json!({"memory": "much"}),
        json!({"memory": [1]}),
    ] {
        assert_eq!(limit(none), None);
    }
}

// spec: L-43, L-44
#[test]
fn a_container_has_the_memory_that_its_kubelet_has_given_it_until_that_is_what_the_spec_says() {
    let limits = |wanted: &str, given: Value| {
        let pod = read(&changed(|pod| {
            let resources = json!({"limits": {"memory": wanted}});
            pod["spec"]["containers"] = json!([{"name": "executor", "resources": resources}]);
            let status = json!({"name": "executor", "resources": given, "state": {"running": {}}});
            pod["status"]["containerStatuses"] = json!([status]);
        }));
        (pod.memory_limit.map(NonZeroU32::get), pod.resizes)
    };
    let given = |memory: &str| json!({"limits": {"memory": memory}});
    assert_eq!(limits("150Mi", given("100Mi")), (Some(100), true));
    assert_eq!(limits("150Mi", given("157286400")), (Some(150), false));
    for unknown in [json!(null), json!({}), given("much")] {
        assert_eq!(limits("150Mi", unknown), (Some(150), false));
    }
}
