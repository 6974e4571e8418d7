//! Where a Spark application is, by its Job and its pods: pure functions.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::CONTAINER;

/// Where an application is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// Its pod does not run yet, for this reason.
    Waits(String),
    /// This pod runs.
    Runs { pod: String },
    Ended {
        /// `None`: there is no pod any more, and no log.
        pod: Option<String>,
        code: u8,
        /// Why, where the code does not say it.
        why: Option<String>,
    },
}

/// The exit code of an application whose own is not known.
const FAILED: u8 = 1;

pub(super) fn seen(job: Option<&Job>, pods: &[Pod]) -> Seen {
    let newest = pods
        .iter()
        .max_by_key(|pod| pod.metadata.creation_timestamp.clone());
    if let Some(pod) = newest {
        return of_pod(pod);
    }
    let Some(job) = job else {
        return lost("its Job was deleted".to_owned());
    };
    let status = job.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let is = |kind: &str| {
        let mut conditions = conditions.into_iter().flatten();
        conditions.find(|one| one.type_ == kind && one.status == "True")
    };
    if let Some(failed) = is("Failed") {
        let why = failed.message.as_deref().unwrap_or("its Job has failed");
        return lost(format!("{why}: the pod is gone"));
    }
    if is("Complete").is_some() {
        return Seen::Ended {
            pod: None,
            code: 0,
            why: None,
        };
    }
    Seen::Waits("it has no pod yet".to_owned())
}

fn lost(why: String) -> Seen {
    Seen::Ended {
        pod: None,
        code: FAILED,
        why: Some(why),
    }
}

/// Whether no pod runs any more.
pub(super) fn have_ended(pods: &[Pod]) -> bool {
    pods.iter()
        .all(|pod| matches!(of_pod(pod), Seen::Ended { .. }))
}

fn of_pod(pod: &Pod) -> Seen {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let status = pod.status.as_ref();
    let containers = status.and_then(|status| status.container_statuses.as_ref());
    let spark = containers
        .into_iter()
        .flatten()
        .find(|one| one.name == CONTAINER);
    let state = spark.and_then(|spark| spark.state.as_ref());
    if let Some(ended) = state.and_then(|state| state.terminated.as_ref()) {
        let code = u8::try_from(ended.exit_code).unwrap_or(FAILED);
        let said = ended
            .reason
            .as_deref()
            .filter(|why| !matches!(*why, "Error" | "Completed"));
        let parts: Vec<&str> = said.into_iter().chain(ended.message.as_deref()).collect();
        return Seen::Ended {
            pod: Some(name),
            code,
            why: (!parts.is_empty()).then(|| parts.join(": ")),
        };
    }
    let phase = status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default();
    if matches!(phase, "Failed" | "Succeeded") {
        let status = status.map(|status| (status.reason.as_deref(), status.message.as_deref()));
        let (reason, message) = status.unwrap_or_default();
        let parts: Vec<&str> = reason.into_iter().chain(message).collect();
        return match parts.is_empty() {
            true => lost(format!("pod {name} has {phase}")),
            false => lost(parts.join(": ")),
        };
    }
    match state.is_some_and(|state| state.running.is_some()) {
        true => Seen::Runs { pod: name },
        false => Seen::Waits(waits_for(pod, &name)),
    }
}

/// What a pod waits for: what its containers say, or else the scheduler.
fn waits_for(pod: &Pod, name: &str) -> String {
    let status = pod.status.as_ref();
    let of = |list: Option<&Vec<ContainerStatus>>| list.cloned().unwrap_or_default();
    let init = of(status.and_then(|status| status.init_container_statuses.as_ref()));
    let containers = of(status.and_then(|status| status.container_statuses.as_ref()));
    let waiting = (init.iter().chain(&containers))
        .filter_map(|container| container.state.as_ref()?.waiting.as_ref())
        .find(|waiting| waiting.message.is_some());
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let unscheduled = (conditions.into_iter().flatten())
        .find(|one| one.type_ == "PodScheduled" && one.status == "False");
    let (reason, message) = match (waiting, unscheduled) {
        (Some(waiting), _) => (waiting.reason.as_deref(), waiting.message.as_deref()),
        (None, Some(condition)) => (condition.reason.as_deref(), condition.message.as_deref()),
        (None, None) => (None, None),
    };
    let parts: Vec<&str> = reason.into_iter().chain(message).collect();
    match parts.is_empty() {
        true => format!("pod {name} is being started"),
        false => format!("pod {name}: {}", parts.join(": ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "a-x"}, "status": status})).unwrap()
    }

    fn container(state: Value) -> Value {
        json!({
            "name": "spark", "state": state, "image": "", "imageID": "", "ready": false, "restartCount": 0,
        })
    }

    fn of(status: Value) -> Seen {
        seen(None, &[pod(status)])
    }

    fn job(conditions: Value) -> Job {
        serde_json::from_value(json!({"metadata": {}, "status": {"conditions": conditions}}))
            .unwrap()
    }

    fn ended(pod: Option<&str>, code: u8, why: Option<&str>) -> Seen {
        let (pod, why) = (pod.map(str::to_owned), why.map(str::to_owned));
        Seen::Ended { pod, code, why }
    }

    // spec: O-139
    #[test]
    fn the_exit_code_is_the_container_s() {
        let with = |state: Value| of(json!({"containerStatuses": [container(state)]}));
        let done = with(json!({"terminated": {"exitCode": 0, "reason": "Completed"}}));
        assert_eq!(done, ended(Some("a-x"), 0, None));
        let failed = with(json!({"terminated": {"exitCode": 3, "reason": "Error"}}));
        assert_eq!(failed, ended(Some("a-x"), 3, None));
        let killed = with(json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}));
        assert_eq!(killed, ended(Some("a-x"), 137, Some("OOMKilled")));
        let running = with(json!({"running": {}}));
        assert_eq!(
            running,
            Seen::Runs {
                pod: "a-x".to_owned()
            }
        );
        // What an answer may say, too.
        let odd = with(json!({"terminated": {"exitCode": -1}}));
        assert_eq!(odd, ended(Some("a-x"), 1, None));
    }

    // spec: O-139
    #[test]
    fn what_a_pod_waits_for_is_told() {
        let image = container(
            json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}),
        );
        let waits = of(json!({"phase": "Pending", "containerStatuses": [image]}));
        assert_eq!(
            waits,
            Seen::Waits("pod a-x: ImagePullBackOff: no such image".to_owned())
        );
        let unscheduled = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]);
        let waits = of(json!({"phase": "Pending", "conditions": unscheduled}));
        assert_eq!(
            waits,
            Seen::Waits("pod a-x: Unschedulable: 0/3 nodes".to_owned())
        );
        let creating = container(json!({"waiting": {"reason": "ContainerCreating"}}));
        let waits = of(json!({"phase": "Pending", "containerStatuses": [creating]}));
        assert_eq!(waits, Seen::Waits("pod a-x is being started".to_owned()));
    }

    // spec: O-139
    #[test]
    fn an_application_without_a_pod_has_ended_if_its_job_has() {
        assert_eq!(
            seen(Some(&job(json!([]))), &[]),
            Seen::Waits("it has no pod yet".to_owned())
        );
        assert_eq!(seen(None, &[]), ended(None, 1, Some("its Job was deleted")));
        let failed = job(
            json!([{"type": "Failed", "status": "True", "message": "Job has reached the specified backoff limit"}]),
        );
        let why = "Job has reached the specified backoff limit: the pod is gone";
        assert_eq!(seen(Some(&failed), &[]), ended(None, 1, Some(why)));
        let complete = job(json!([{"type": "Complete", "status": "True"}]));
        assert_eq!(seen(Some(&complete), &[]), ended(None, 0, None));
    }

    // spec: O-139
    #[test]
    fn an_evicted_pod_has_ended_for_the_reason_that_it_has() {
        let evicted = of(json!({"phase": "Failed", "reason": "Evicted", "message": "low on disk"}));
        assert_eq!(evicted, ended(None, 1, Some("Evicted: low on disk")));
        assert_eq!(
            of(json!({"phase": "Failed"})),
            ended(None, 1, Some("pod a-x has Failed"))
        );
        assert!(have_ended(&[]) && have_ended(&[pod(json!({"phase": "Failed"}))]));
        assert!(!have_ended(&[pod(json!({"phase": "Pending"}))]));
    }
}
