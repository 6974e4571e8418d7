//! The table cells of pods, above all the one-word status that kubectl shows.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{age, or_nothing};
use crate::objects::object::{at, condition, is_true, list, number, text};

/// Counters over a pod's containers.
#[derive(Debug, Default)]
struct Count {
    ready: usize,
    restarts: i64,
    /// When the container that restarted last had terminated.
    last: Option<Timestamp>,
}

impl Count {
    fn restarted(&mut self, container: &Value) {
        self.restarts += number(container, &["restartCount"]).unwrap_or(0);
        let ended = text(container, &["lastState", "terminated", "finishedAt"]);
        self.last = self.last.max(ended.parse().ok());
    }
}

pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let spec = |field: &str| list(pod, &["spec", field]);
    let sidecars: Vec<&str> = spec("initContainers")
        .iter()
        .filter(|c| text(c, &["restartPolicy"]) == "Always")
        .map(|c| text(c, &["name"]))
        .collect();
    let total = spec("containers").len() + sidecars.len();
    let mut count = Count::default();
    let status = status(pod, &sidecars, &mut count);
    let restarts = match count.last.filter(|_| count.restarts != 0) {
        Some(last) => format!(
            "{} ({} ago)",
            count.restarts,
            super::age::since(&last.to_string(), now)
        ),
        None => count.restarts.to_string(),
    };
    vec![
        text(pod, &["metadata", "name"]).into(),
        format!("{}/{total}", count.ready).into(),
        status.into(),
        restarts.into(),
        age(pod, now).into(),
        or_nothing(address(pod)).into(),
        or_nothing(text(pod, &["spec", "nodeName"])).into(),
        or_nothing(text(pod, &["status", "nominatedNodeName"])).into(),
        readiness_gates(pod),
    ]
}

fn address(pod: &Value) -> &str {
    match list(pod, &["status", "podIPs"]).first() {
        Some(first) => text(first, &["ip"]),
        None => "",
    }
}

fn readiness_gates(pod: &Value) -> Value {
    let gates = list(pod, &["spec", "readinessGates"]);
    if gates.is_empty() {
        return json!(super::NOTHING);
    }
    let open = gates
        .iter()
        .filter(|gate| has_condition(pod, text(gate, &["conditionType"])))
        .count();
    format!("{open}/{}", gates.len()).into()
}

fn has_condition(pod: &Value, kind: &str) -> bool {
    condition(pod, kind) == "True"
}

/// The reason why a container terminated, or else its exit code or signal.
fn ending(terminated: &Value) -> String {
    let number = |field: &str| number(terminated, &[field]).unwrap_or(0);
    match (text(terminated, &["reason"]), number("signal")) {
        ("", 0) => format!("ExitCode:{}", number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// The one-word status of a pod. Which containers count towards readiness and restarts depends on the pod's progress.
fn status(pod: &Value, sidecars: &[&str], count: &mut Count) -> String {
    let phase = text(pod, &["status", "phase"]);
    let reason = text(pod, &["status", "reason"]);
    let mut status = if reason.is_empty() { phase } else { reason }.to_owned();
    let gated = |c: &Value| {
        text(c, &["type"]) == "PodScheduled" && text(c, &["reason"]) == "SchedulingGated"
    };
    if list(pod, &["status", "conditions"]).iter().any(gated) {
        status = "SchedulingGated".to_owned();
    }
    let mut of_sidecars = Count::default();
    let initializing = init_status(pod, sidecars, count, &mut of_sidecars);
    if let Some(initializing) = &initializing {
        status.clone_from(initializing);
    }
    if initializing.is_none() || has_condition(pod, "Initialized") {
        (count.restarts, count.last) = (of_sidecars.restarts, of_sidecars.last);
        main_status(pod, &mut status, count);
    }
    if at(pod, &["metadata", "deletionTimestamp"]).is_none() {
        return status;
    }
    match (reason, phase) {
        ("NodeLost", _) => "Unknown".to_owned(),
        (_, "Succeeded" | "Failed") => status,
        _ => "Terminating".to_owned(),
    }
}

/// The status while the init containers are not complete.
fn init_status(
    pod: &Value,
    sidecars: &[&str],
    count: &mut Count,
    of_sidecars: &mut Count,
) -> Option<String> {
    let total = list(pod, &["spec", "initContainers"]).len();
    for (i, container) in list(pod, &["status", "initContainerStatuses"])
        .iter()
        .enumerate()
    {
        let is_sidecar = sidecars.contains(&text(container, &["name"]));
        count.restarted(container);
        if is_sidecar {
            of_sidecars.restarted(container);
        }
        let terminated = at(container, &["state", "terminated"]);
        let is = |field: &str| is_true(container, &[field]);
        match terminated {
            Some(t) if number(t, &["exitCode"]).unwrap_or(0) == 0 => continue,
            _ if is_sidecar && is("started") => {
                count.ready += usize::from(is("ready"));
                continue;
            }
            Some(t) => return Some(format!("Init:{}", ending(t))),
            None => {}
        }
        let waiting = text(container, &["state", "waiting", "reason"]);
        return Some(match waiting {
            "" | "PodInitializing" => format!("Init:{i}/{total}"),
            waiting => format!("Init:{waiting}"),
        });
    }
    None
}

/// The first container that waits or has terminated determines the status, unless another one still runs.
fn main_status(pod: &Value, status: &mut String, count: &mut Count) {
    let mut runs = false;
    for container in list(pod, &["status", "containerStatuses"]).iter().rev() {
        count.restarted(container);
        let waiting = text(container, &["state", "waiting", "reason"]);
        if !waiting.is_empty() {
            waiting.clone_into(status);
        } else if let Some(terminated) = at(container, &["state", "terminated"]) {
            *status = ending(terminated);
        } else if is_true(container, &["ready"]) && at(container, &["state", "running"]).is_some() {
            runs = true;
            count.ready += 1;
        }
    }
    if status == "Completed" && runs {
        let ready = has_condition(pod, "Ready");
        *status = if ready { "Running" } else { "NotReady" }.to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T01:00:00Z";

    /// Ready, status and restarts of a pod.
    fn shown(pod: &Value) -> [String; 3] {
        let cells = cells(pod, NOW.parse().expect("a time"));
        assert_eq!(
            cells.len(),
            super::super::columns(crate::objects::resource::Resource::Pods).len()
        );
        [1, 2, 3].map(|i| cells[i].as_str().unwrap_or_default().to_owned())
    }

    fn pod(phase: &str, states: &[Value]) -> Value {
        let names = (0..states.len()).map(|i| json!({"name": format!("c{i}")}));
        let statuses = states.iter().enumerate().map(|(i, state)| {
            json!({"name": format!("c{i}"), "ready": state.get("running").is_some(), "restartCount": 0, "state": state})
        });
        json!({
            "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": names.collect::<Vec<_>>()},
            "status": {"phase": phase, "containerStatuses": statuses.collect::<Vec<_>>()},
        })
    }

    fn status(pod: &Value) -> String {
        shown(pod)[1].clone()
    }

    #[test]
    fn the_status_of_a_pod_follows_from_its_containers() {
        let ended = |fields: Value| pod("Failed", &[json!({"terminated": fields})]);
        for (pod, wanted) in [
            (pod("Pending", &[]), "Pending"),
            (
                pod(
                    "Pending",
                    &[json!({"waiting": {"reason": "ContainerCreating"}})],
                ),
                "ContainerCreating",
            ),
            (
                pod("Pending", &[json!({"waiting": {"reason": "ErrImagePull"}})]),
                "ErrImagePull",
            ),
            (pod("Running", &[json!({"running": {}})]), "Running"),
            (
                ended(json!({"exitCode": 0, "reason": "Completed"})),
                "Completed",
            ),
            (ended(json!({"exitCode": 1, "reason": "Error"})), "Error"),
            (
                ended(json!({"exitCode": 137, "reason": "OOMKilled"})),
                "OOMKilled",
            ),
            (ended(json!({"exitCode": 3})), "ExitCode:3"),
            (ended(json!({"exitCode": 137, "signal": 9})), "Signal:9"),
        ] {
            assert_eq!(status(&pod), wanted, "{pod}");
        }
    }

    #[test]
    fn a_pod_with_a_running_container_is_running() {
        let mut pod = pod(
            "Running",
            &[
                json!({"terminated": {"exitCode": 0, "reason": "Completed"}}),
                json!({"running": {}}),
            ],
        );
        assert_eq!(shown(&pod), ["1/2", "NotReady", "0"]);
        pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        assert_eq!(status(&pod), "Running");
    }

    #[test]
    fn a_deleted_pod_is_terminating_until_its_containers_have_terminated() {
        let mut running = pod("Running", &[json!({"running": {}})]);
        running["metadata"]["deletionTimestamp"] = json!(NOW);
        assert_eq!(status(&running), "Terminating");
        running["status"]["reason"] = json!("NodeLost");
        assert_eq!(status(&running), "Unknown");
        let mut failed = pod(
            "Failed",
            &[json!({"terminated": {"exitCode": 1, "reason": "Error"}})],
        );
        failed["metadata"]["deletionTimestamp"] = json!(NOW);
        assert_eq!(status(&failed), "Error");
    }

    #[test]
    fn the_status_shows_the_progress_of_init_containers() {
        let init = |states: &[Value]| {
            let mut pod = pod(
                "Pending",
                &[json!({"waiting": {"reason": "PodInitializing"}})],
            );
            let statuses = states.iter().map(|s| json!({"name": "i", "state": s}));
            pod["spec"]["initContainers"] = json!([{"name": "i"}, {"name": "j"}]);
            pod["status"]["initContainerStatuses"] = statuses.collect();
            status(&pod)
        };
        let done = json!({"terminated": {"exitCode": 0}});
        assert_eq!(init(&[json!({"running": {}})]), "Init:0/2");
        assert_eq!(
            init(&[
                done.clone(),
                json!({"waiting": {"reason": "PodInitializing"}})
            ]),
            "Init:1/2"
        );
        assert_eq!(init(&[done.clone(), done]), "PodInitializing");
        assert_eq!(
            init(&[json!({"terminated": {"exitCode": 2}})]),
            "Init:ExitCode:2"
        );
        assert_eq!(
            init(&[json!({"terminated": {"exitCode": 2, "signal": 9}})]),
            "Init:Signal:9"
        );
        assert_eq!(
            init(&[json!({"terminated": {"exitCode": 2, "reason": "Error"}})]),
            "Init:Error"
        );
        assert_eq!(
            init(&[json!({"waiting": {"reason": "CrashLoopBackOff"}})]),
            "Init:CrashLoopBackOff"
        );
    }

    #[test]
    fn sidecars_count_as_containers() {
        let mut pod = pod("Running", &[json!({"running": {}})]);
        pod["spec"]["initContainers"] = json!([{"name": "i", "restartPolicy": "Always"}]);
        pod["status"]["initContainerStatuses"] = json!([{"name": "i", "started": true, "ready": true, "restartCount": 2, "state": {"running": {}}}]);
        assert_eq!(shown(&pod), ["2/2", "Running", "2"]);
    }

    #[test]
    fn restarts_show_the_age_of_the_last_one() {
        let mut pod = pod("Running", &[json!({"running": {}})]);
        let status = &mut pod["status"]["containerStatuses"][0];
        status["restartCount"] = json!(3);
        assert_eq!(shown(&pod)[2], "3");
        pod["status"]["containerStatuses"][0]["lastState"] =
            json!({"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:55:00Z"}});
        assert_eq!(shown(&pod)[2], "3 (5m ago)");
    }

    #[test]
    fn the_reason_of_a_pod_precedes_its_phase() {
        let mut evicted = pod("Failed", &[]);
        evicted["status"]["reason"] = json!("Evicted");
        assert_eq!(status(&evicted), "Evicted");
        let mut gated = pod("Pending", &[]);
        gated["status"]["conditions"] =
            json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);
        assert_eq!(status(&gated), "SchedulingGated");
    }
}
