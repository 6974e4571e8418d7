//! Pod statuses as kubelets, schedulers and controllers write them, as merge patches.

use boatswain_agent::{AGENT, NO_DRIVER};
use serde_json::{Value, json};

use crate::objects::text;

/// Name of the container that a webhook adds to an executor's pod.
pub const SIDECAR: &str = "sidecar";

pub fn running(pod: &Value, since: &str) -> Value {
    let state = json!({"running": {"startedAt": since}});
    let mut status = phased("Running", container(pod, true, &state));
    if pod.pointer("/status/conditions").is_some() {
        status["conditions"] = prepared("True")["conditions"].take();
    }
    status
}

/// The container has exited with this code. If a sidecar still runs, so does the pod.
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

/// The exit code of the executor's container, if it has ended.
pub fn exit_code(pod: &Value) -> Option<i32> {
    let code = pod.pointer("/status/containerStatuses/0/state/terminated/exitCode")?;
    i32::try_from(code.as_i64()?).ok()
}

/// The executor's container still runs, and the sidecar has exited with this code.
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

/// The pod has failed with the reason and message of the component that ended it.
pub fn failed(pod: &Value, reason: &str, message: &str, now: &str) -> Value {
    let mut status = ended(pod, 137, "Error", now);
    status["reason"] = reason.into();
    status["message"] = message.into();
    status
}

/// The node has rejected the pod.
pub fn rejected(reason: &str) -> Value {
    json!({"phase": "Failed", "reason": reason, "message": "Pod was rejected: Node didn't have enough resource: cpu"})
}

pub fn waiting(pod: &Value, reason: &str) -> Value {
    let state =
        json!({"waiting": {"reason": reason, "message": "Back-off pulling image \"none\""}});
    phased("Pending", container(pod, false, &state))
}

pub fn unschedulable() -> Value {
    json!({"conditions": [{
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient cpu.",
    }]})
}

/// The node has not mounted the pod's volumes.
pub fn unprepared() -> Value {
    prepared("False")
}

fn prepared(status: &str) -> Value {
    json!({"conditions": [{"type": "PodReadyToStartContainers", "status": status}]})
}

/// The pod is about to be disrupted.
pub fn disrupted(reason: &str) -> Value {
    json!({"conditions": [{
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": "the pod is about to be deleted",
    }]})
}

/// The pod's node has stopped reporting.
pub fn not_ready() -> Value {
    json!({"conditions": [{"type": "Ready", "status": "False", "reason": "NodeNotReady"}]})
}

pub fn unknown() -> Value {
    json!({"phase": "Unknown"})
}

fn phased(phase: &str, container: Value) -> Value {
    json!({"phase": phase, "containerStatuses": [container]})
}

/// Since when the container runs.
pub fn since(pod: &Value, now: &str) -> String {
    let since = text(pod, "/status/containerStatuses/0/state/running/startedAt");
    if since.is_empty() { now } else { since }.to_owned()
}

fn termination(pod: &Value, code: i32, reason: &str, now: &str) -> Value {
    let since = since(pod, now);
    let mut termination =
        json!({"exitCode": code, "reason": reason, "startedAt": since, "finishedAt": now});
    if code == i32::from(NO_DRIVER) {
        termination["message"] = format!("{AGENT}no driver for 1m").into();
    }
    termination
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
