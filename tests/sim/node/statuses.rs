//! What kubelets, schedulers and controllers write about a pod: merge patches of its status.

use serde_json::{Value, json};

use crate::hand::text;

/// What webhooks add beside an executor.
pub const SIDECAR: &str = "sidecar";

/// Its container runs.
pub fn running(pod: &Value, since: &str) -> Value {
    let state = json!({"running": {"startedAt": since}});
    phased("Running", container(pod, true, &state))
}

/// Its container has ended with this code; where another one beside it runs on, so does the pod.
pub fn ended(pod: &Value, code: i32, reason: &str, now: &str) -> Value {
    let state = json!({"terminated": termination(pod, code, reason, now)});
    let executor = container(pod, false, &state);
    if has_sidecar(pod) {
        let mut sidecar = container(pod, true, &json!({"running": {"startedAt": now}}));
        sidecar["name"] = SIDECAR.into();
        return json!({"phase": "Running", "containerStatuses": [executor, sidecar]});
    }
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    phased(phase, executor)
}

/// The code with which the executor's container has ended, where it has.
pub fn exit_code(pod: &Value) -> Option<i32> {
    let code = pod.pointer("/status/containerStatuses/0/state/terminated/exitCode")?;
    i32::try_from(code.as_i64()?).ok()
}

/// Its container runs on, and another one beside it has ended with this code.
pub fn sidecar_ended(pod: &Value, code: i32, now: &str) -> Value {
    let mut status = running(pod, &since(pod, now));
    let end = json!({"terminated": termination(pod, code, "Error", now)});
    let mut sidecar = container(pod, false, &end);
    sidecar["name"] = SIDECAR.into();
    if let Some(containers) = status["containerStatuses"].as_array_mut() {
        containers.push(sidecar);
    }
    status
}

/// The pod has failed, in the words of whoever ended it.
pub fn failed(pod: &Value, reason: &str, message: &str, now: &str) -> Value {
    let mut status = ended(pod, 137, "Error", now);
    status["reason"] = reason.into();
    status["message"] = message.into();
    status
}

/// The node has refused it.
pub fn rejected(reason: &str) -> Value {
    json!({"phase": "Failed", "reason": reason, "message": "Pod was rejected: Node didn't have enough resource: cpu"})
}

/// Its container waits, for this reason.
pub fn waiting(pod: &Value, reason: &str) -> Value {
    let state =
        json!({"waiting": {"reason": reason, "message": "Back-off pulling image \"none\""}});
    phased("Pending", container(pod, false, &state))
}

/// No node takes it.
pub fn unschedulable() -> Value {
    json!({"conditions": [{
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient cpu.",
    }]})
}

/// Something else is about to end it.
pub fn disrupted(reason: &str) -> Value {
    json!({"conditions": [{
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": "it has to go",
    }]})
}

/// Its node says nothing.
pub fn not_ready() -> Value {
    json!({"conditions": [{"type": "Ready", "status": "False", "reason": "NodeNotReady"}]})
}

/// Nobody knows how it is.
pub fn unknown() -> Value {
    json!({"phase": "Unknown"})
}

fn phased(phase: &str, container: Value) -> Value {
    json!({"phase": phase, "containerStatuses": [container]})
}

/// Since when its container runs.
pub fn since(pod: &Value, now: &str) -> String {
    let since = text(pod, "/status/containerStatuses/0/state/running/startedAt");
    if since.is_empty() { now } else { since }.to_owned()
}

fn termination(pod: &Value, code: i32, reason: &str, now: &str) -> Value {
    let since = since(pod, now);
    json!({"exitCode": code, "reason": reason, "startedAt": since, "finishedAt": now})
}

fn has_sidecar(pod: &Value) -> bool {
    text(pod, "/spec/containers/0/name") == SIDECAR
}

fn container(pod: &Value, ready: bool, state: &Value) -> Value {
    let at = usize::from(has_sidecar(pod));
    json!({
        "name": text(pod, &format!("/spec/containers/{at}/name")),
        "image": "none",
        "imageID": "",
        "ready": ready,
        "restartCount": 0,
        "state": state,
    })
}
