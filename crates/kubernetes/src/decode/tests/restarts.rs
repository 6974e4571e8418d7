//! Containers that the kubelet starts again in the same pod.

use super::*;
use boatswain_model::pod::PendingStage;

const RESTARTING: PodState = PodState::Pending(PendingStage::Restarting);

/// A running pod whose executor container is declared like this and has ended like this.
fn pod_of(declared: Value, terminated: &Value) -> Pod {
    read(&changed(|pod| {
        let mut container = json!({"name": "executor"});
        for (key, value) in declared.as_object().unwrap() {
            container[key] = value.clone();
        }
        pod["spec"]["restartPolicy"] = json!("Never");
        pod["spec"]["containers"] = json!([container]);
        pod["status"]["phase"] = json!("Running");
        pod["status"]["containerStatuses"] = json!([
            {"name": "executor", "restartCount": 2, "state": {"terminated": terminated}},
        ]);
    }))
}

fn exit(code: i32) -> Value {
    json!({"exitCode": code, "reason": "Error"})
}

fn rule(action: &str, operator: &str, values: &[i32]) -> Value {
    json!({"action": action, "exitCodes": {"operator": operator, "values": values}})
}

// spec: E-17
#[test]
fn a_container_that_is_about_to_restart_by_its_own_policy_has_not_ended() {
    for (policy, code, state) in [
        ("Always", 0, RESTARTING),
        ("Always", 7, RESTARTING),
        ("OnFailure", 7, RESTARTING),
        ("OnFailure", 0, PodState::Succeeded),
        ("Never", 7, PodState::Failed),
    ] {
        let pod = pod_of(json!({"restartPolicy": policy}), &exit(code));
        assert_eq!(pod.state(), state, "{policy} after {code}");
        assert_eq!(pod.restarts.is_some(), policy != "Never", "{policy}");
    }
}

// spec: E-17
#[test]
fn the_first_restart_rule_that_matches_decides_before_the_policy() {
    let rules = json!({
        "restartPolicy": "Never",
        "restartPolicyRules": [
            rule("Restart", "In", &[42, 43]),
            rule("RestartAllContainers", "In", &[44]),
            rule("Odd", "In", &[45]),
            rule("Restart", "NotIn", &[1, 45]),
        ],
    });
    for (code, state) in [
        (42, RESTARTING),
        (44, RESTARTING),
        (45, PodState::Failed),
        (46, RESTARTING),
        (1, PodState::Failed),
    ] {
        let pod = pod_of(rules.clone(), &exit(code));
        assert_eq!(pod.state(), state, "after {code}");
    }
    let by_another = json!({"exitCode": 137, "reason": "RestartingAllContainers"});
    assert_eq!(pod_of(json!({}), &by_another).state(), RESTARTING);
    for malformed in [
        json!({"restartPolicyRules": [{}]}),
        json!({"restartPolicyRules": [{"action": "Restart", "exitCodes": {}}]}),
        json!({"restartPolicyRules": []}),
    ] {
        assert_eq!(pod_of(malformed, &exit(42)).state(), PodState::Failed);
    }
}

// spec: E-17
#[test]
fn nothing_restarts_in_a_pod_that_is_deleted_or_has_ended() {
    let always = |change: &dyn Fn(&mut Value)| {
        read(&changed(|pod| {
            pod["spec"]["containers"] = json!([{"name": "executor", "restartPolicy": "Always"}]);
            pod["status"]["containerStatuses"] =
                json!([{"name": "executor", "state": {"terminated": exit(7)}}]);
            change(pod);
        }))
    };
    let ended = always(&|pod| pod["status"]["phase"] = json!("Failed"));
    assert_eq!(
        (ended.state(), ended.exit_code()),
        (PodState::Failed, Some(7))
    );
    let deleted =
        always(&|pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    assert_eq!(deleted.exit_code(), Some(7));
}

// spec: E-17
#[test]
fn another_container_that_restarts_fails_no_pod() {
    let strict = PodReader {
        check_all_containers: true,
        ..reader()
    };
    let failed = |policy: &str| {
        let json = changed(|pod| {
            pod["spec"]["restartPolicy"] = json!("Never");
            pod["spec"]["containers"] =
                json!([{"name": "executor"}, {"name": "proxy", "restartPolicy": policy}]);
            pod["status"]["containerStatuses"] = json!([
                {"name": "executor", "state": {"running": {}}},
                {"name": "proxy", "state": {"terminated": exit(9)}},
            ]);
        });
        match strict.read(&json) {
            Sighting::Read(pod) => pod.failed_sidecar.is_some(),
            Sighting::Unreadable(part) => panic!("{part:?}"),
        }
    };
    assert!(!failed("OnFailure"));
    assert!(failed("Never"));
}

// spec: E-17, E-6
#[test]
fn an_executor_in_a_crash_loop_is_pending_and_says_so() {
    let pod = read(&changed(|pod| {
        pod["spec"]["containers"] = json!([{"name": "executor", "restartPolicy": "Always"}]);
        pod["status"]["phase"] = json!("Running");
        pod["status"]["containerStatuses"] = json!([{
            "name": "executor", "restartCount": 7,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}},
            "lastState": {"terminated": {"exitCode": 143, "reason": "Error"}},
        }]);
    }));
    assert_eq!(pod.state(), RESTARTING);
    let said = pod.why_pending();
    assert_eq!(said.as_deref(), Some("CrashLoopBackOff, restarted 7 times"));
    let last = pod.restarts.and_then(|restarts| restarts.last.clone());
    assert_eq!(last.and_then(|last| last.exit_code), Some(143));
}
