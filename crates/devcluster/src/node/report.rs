//! Computes the status of a pod as a kubelet reports it.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fault_injection::Fault;
use crate::changes::write::seconds;
use crate::objects::object::{list, text};
use crate::objects::pod::{set_condition, set_explained};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Container {
    /// It has not been started.
    Waiting,
    /// Its image cannot be pulled.
    NoImage {
        /// Whether the node waits before the next pull.
        backing_off: bool,
    },
    /// It cannot be started as it is specified, for this reason.
    Refused(String),
    /// It has run since then.
    Running(Timestamp),
    Ended(Termination),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Termination {
    pub(super) exit_code: i32,
    pub(super) reason: &'static str,
    pub(super) message: Option<String>,
    pub(super) started: Timestamp,
    pub(super) finished: Timestamp,
}

impl Termination {
    /// The termination with an exit code: 128 plus the signal's number if a signal killed the process.
    pub(super) fn exit(exit_code: i32, started: Timestamp, finished: Timestamp) -> Self {
        let reason = if exit_code == 0 { "Completed" } else { "Error" };
        Self {
            exit_code,
            reason,
            message: None,
            started,
            finished,
        }
    }

    /// The termination by an injected fault.
    pub(super) fn by(fault: Fault, started: Timestamp, finished: Timestamp) -> Self {
        match fault {
            Fault::Crash(code) => Self::exit(code.into(), started, finished),
            Fault::Eviction => Self::exit(137, started, finished),
            Fault::OutOfMemory => Self {
                reason: "OOMKilled",
                ..Self::exit(137, started, finished)
            },
        }
    }
}

/// A pod's phase, from the states of its containers.
fn phase(containers: &[Container], start_failed: bool) -> &'static str {
    let all_ended = containers.iter().all(|c| matches!(c, Container::Ended(_)));
    let all_well = containers
        .iter()
        .all(|c| matches!(c, Container::Ended(e) if e.exit_code == 0));
    let any_started = containers
        .iter()
        .any(|c| matches!(c, Container::Running(_) | Container::Ended(_)));
    match (all_ended, all_well, any_started) {
        _ if start_failed => "Failed",
        (true, true, _) => "Succeeded",
        (true, false, _) => "Failed",
        (false, _, true) => "Running",
        (false, _, false) => "Pending",
    }
}

/// The input of a status report.
#[derive(Debug)]
pub(super) struct Report<'a> {
    /// The pod as it was when it started; its conditions are kept.
    pub(super) pod: &'a Value,
    pub(super) containers: &'a [Container],
    pub(super) init: &'a [Container],
    pub(super) started: Timestamp,
    pub(super) now: Timestamp,
    pub(super) pod_ip: &'a str,
}

impl Report<'_> {
    /// The changed fields of the status.
    pub(super) fn status(&self) -> Value {
        let init_failed = self
            .init
            .iter()
            .any(|c| matches!(c, Container::Ended(e) if e.exit_code != 0));
        let initialized = self
            .init
            .iter()
            .all(|c| matches!(c, Container::Ended(e) if e.exit_code == 0));
        let ready = self
            .containers
            .iter()
            .all(|c| matches!(c, Container::Running(_)));
        let phase = phase(self.containers, init_failed);
        // Init containers and images come after everything else is ready.
        let is_made = phase == "Running"
            || (self.init.iter()).any(|c| !matches!(c, Container::Waiting))
            || (self.containers.iter()).any(|c| matches!(c, Container::NoImage { .. }));
        let now = Value::from(seconds(self.now));
        let mut pod = json!({"status": {"conditions": list(self.pod, &["status", "conditions"])}});
        set_condition(&mut pod, "PodReadyToStartContainers", is_made, &now);
        set_condition(&mut pod, "Initialized", initialized, &now);
        set_condition(&mut pod, "Ready", ready, &now);
        set_condition(&mut pod, "ContainersReady", ready, &now);
        explain(&mut pod, phase);
        let mut status = pod["status"].take();
        status["phase"] = phase.into();
        status["startTime"] = seconds(self.started).into();
        status["hostIP"] = "127.0.0.1".into();
        status["hostIPs"] = json!([{"ip": "127.0.0.1"}]);
        status["podIP"] = self.pod_ip.into();
        status["podIPs"] = json!([{"ip": self.pod_ip}]);
        status["containerStatuses"] = self.statuses("containers", self.containers);
        if !self.init.is_empty() {
            status["initContainerStatuses"] = self.statuses("initContainers", self.init);
        }
        status
    }

    fn statuses(&self, kind: &str, containers: &[Container]) -> Value {
        let specs = list(self.pod, &["spec", kind]);
        specs
            .iter()
            .zip(containers)
            .map(|(spec, container)| self.container(spec, container))
            .collect()
    }

    fn container(&self, spec: &Value, container: &Container) -> Value {
        let id = format!(
            "process://{}/{}",
            uid(self.pod),
            spec["name"].as_str().unwrap_or_default()
        );
        let running = matches!(container, Container::Running(_));
        let state = match container {
            Container::Waiting => json!({"waiting": {"reason": "PodInitializing"}}),
            Container::NoImage { backing_off } => {
                let (reason, message) = no_image(text(spec, &["image"]), *backing_off);
                json!({"waiting": {"reason": reason, "message": message}})
            }
            Container::Refused(message) => {
                json!({"waiting": {"reason": "CreateContainerConfigError", "message": message}})
            }
            Container::Running(since) => json!({"running": {"startedAt": seconds(*since)}}),
            Container::Ended(ending) => {
                let mut terminated = json!({
                    "exitCode": ending.exit_code,
                    "reason": ending.reason,
                    "startedAt": seconds(ending.started),
                    "finishedAt": seconds(ending.finished),
                    "containerID": id,
                });
                if let Some(message) = &ending.message {
                    terminated["message"] = message.as_str().into();
                }
                json!({"terminated": terminated})
            }
        };
        json!({
            "name": spec["name"],
            "image": spec["image"],
            "imageID": "",
            "containerID": id,
            "ready": running,
            "started": running,
            "restartCount": 0,
            "lastState": {},
            "state": state,
        })
    }
}

fn uid(pod: &Value) -> &str {
    text(pod, &["metadata", "uid"])
}

/// The kubelet's reason and message for an image that its registry does not have.
fn no_image(image: &str, backing_off: bool) -> (&'static str, String) {
    let full = full_name(image);
    let failed = format!(
        "rpc error: code = NotFound desc = failed to pull and unpack image \"{full}\": failed to resolve reference \
         \"{full}\": {full}: not found"
    );
    if backing_off {
        let message = format!("Back-off pulling image \"{image}\": ErrImagePull: {failed}");
        return ("ImagePullBackOff", message);
    }
    ("ErrImagePull", failed)
}

/// An image's name with registry and tag, as container runtimes complete it.
fn full_name(image: &str) -> String {
    let place = match image.split_once('/') {
        None => "docker.io/library/",
        Some((host, _)) if host == "localhost" || host.contains(['.', ':']) => "",
        Some(_) => "docker.io/",
    };
    let last = image.rsplit('/').next().unwrap_or_default();
    let tag = if last.contains([':', '@']) {
        ""
    } else {
        ":latest"
    };
    format!("{place}{image}{tag}")
}

/// Adds to a status what the kubelet reports when it evicts a pod because the node is low on resources.
pub(super) fn evicted(status: &mut Value, now: Timestamp) {
    let message = "The node was low on resource: memory.";
    let mut pod = json!({"status": status.take()});
    let why = ("TerminationByKubelet", message);
    set_explained(
        &mut pod,
        "DisruptionTarget",
        true,
        why,
        &seconds(now).into(),
    );
    *status = pod["status"].take();
    status["phase"] = "Failed".into();
    status["reason"] = "Evicted".into();
    status["message"] = message.into();
}

/// Adds the kubelet's reasons to conditions that are false.
fn explain(pod: &mut Value, phase: &str) {
    let reason = match phase {
        "Succeeded" => "PodCompleted",
        "Failed" => "PodFailed",
        _ => "ContainersNotReady",
    };
    let conditions = pod
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten();
    for condition in conditions {
        let is_readiness = matches!(
            condition["type"].as_str(),
            Some("Ready" | "ContainersReady")
        );
        match condition.as_object_mut() {
            Some(fields) if is_readiness && fields.get("status").is_some_and(|s| s == "False") => {
                fields.insert("reason".into(), reason.into());
            }
            Some(fields) if is_readiness => {
                fields.remove("reason");
            }
            _ => {}
        }
    }
}
