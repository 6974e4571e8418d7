//! Container restarts within a pod made by a set (spec A-80), with the backoff of a kubelet.

use std::time::Duration;

use rand::RngExt;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Exited, Nodes, short, statuses};
use crate::objects::{label, text};
use crate::trace::trace_line;

/// The first backoff, which precedes the second restart.
const FIRST_BACKOFF: Duration = Duration::from_secs(10);

/// The longest backoff; shorter than a real kubelet's, to keep runs short.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

/// The number of restarts of a pod's container, and how it last ended.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    count: u32,
    last: Option<Value>,
    /// When the ended container is restarted.
    restart_at: Option<Instant>,
}

impl Restarts {
    /// Makes a pending restart due now.
    pub(super) fn make_due(&mut self, now: Instant) {
        self.restart_at = self.restart_at.map(|_| now);
    }

    fn backoff(&self) -> Duration {
        match self.count {
            0 => Duration::ZERO,
            n => (FIRST_BACKOFF * (1 << (n - 1).min(10))).min(LONGEST_BACKOFF),
        }
    }

    /// The status of a running container, with its restart count.
    fn running(&self, pod: &Value, since: &str) -> Value {
        let mut status = statuses::running(pod, since);
        status["conditions"] = ready("True");
        self.write_count(&mut status);
        status
    }

    /// The status after the container has ended while the pod stays. A kubelet reports the exit itself, or only the
    /// backoff that follows it.
    fn stopped(&self, ended: Value, in_backoff: bool) -> Value {
        let mut status = ended;
        status["phase"] = "Running".into();
        status["conditions"] = ready("False");
        self.write_count(&mut status);
        let container = &mut status["containerStatuses"][0];
        if in_backoff {
            container["lastState"] = container["state"].take();
            container["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        }
        status
    }

    fn write_count(&self, status: &mut Value) {
        let container = &mut status["containerStatuses"][0];
        container["restartCount"] = self.count.into();
        if let Some(last) = &self.last {
            container["lastState"] = json!({"terminated": last});
        }
    }
}

fn ready(status: &str) -> Value {
    json!([{"type": "Ready", "status": status}])
}

/// Whether a pod's containers are restarted: only if a set has made the pod. Pods created by the simulation itself
/// name no restart policy and need no restarts.
pub fn restarts_containers(pod: &Value) -> bool {
    let owner = text(pod, "/metadata/ownerReferences/0/kind");
    matches!(owner, "StatefulSet" | "ReplicaSet") && text(pod, "/spec/restartPolicy") == "Always"
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    (conditions.into_iter().flatten())
        .any(|one| text(one, "/type") == "Ready" && text(one, "/status") == "True")
}

impl Nodes {
    pub(super) fn running(&self, pod: &Value) -> Value {
        let wall_clock = self.wall_clock();
        match self.plans.get(text(pod, "/metadata/uid")) {
            Some(plan) if restarts_containers(pod) => plan.restarts.running(pod, &wall_clock),
            _ => statuses::running(pod, &wall_clock),
        }
    }

    /// Processes a running pod whose container is restarted: ends or restarts the container when due, and restores the
    /// condition `Ready` if something else has removed it.
    pub(super) async fn process_restarts(&mut self, pod: &Value, now: Instant) {
        let (name, uid) = (text(pod, "/metadata/name"), text(pod, "/metadata/uid"));
        let wall_clock = self.wall_clock();
        let crash = self.crashing.get(label(pod, "boatswain.dev/profile"));
        let crash = crash.copied().filter(|(until, _)| now < *until);
        let life = Duration::from_millis(self.rng.random_range(0..2_000));
        let Some(plan) = self.plans.get_mut(uid) else {
            return;
        };
        if let Some(restart_at) = plan.restarts.restart_at {
            if now < restart_at {
                return self.wake(restart_at);
            }
            plan.restarts.restart_at = None;
            plan.restarts.count += 1;
            self.restarted.extend(plan.restarts.last.clone());
            plan.end = crash.map(|(_, code)| (now + life, code));
            let (status, end) = (plan.restarts.running(pod, &wall_clock), plan.end);
            trace_line!("node: {name} {} is restarted", short(uid));
            self.client.status(name, status).await;
            if let Some((at, _)) = end {
                self.wake(at);
            }
            return;
        }
        match plan.end {
            Some((at, code)) if at <= now => {
                let reason = match (plan.out_of_memory, code) {
                    (true, _) => "OOMKilled",
                    (false, 0) => "Completed",
                    (false, _) => "Error",
                };
                let ended = statuses::ended(pod, code, reason, &wall_clock);
                let restart_at = now + plan.restarts.backoff();
                let status = plan.restarts.stopped(ended.clone(), plan.reports);
                let last = ended.pointer("/containerStatuses/0/state/terminated");
                plan.restarts.last = last.cloned();
                plan.restarts.restart_at = Some(restart_at);
                (plan.end, plan.out_of_memory) = (None, false);
                trace_line!(
                    "node: {name} {} ends with {code}, and is to be restarted",
                    short(uid)
                );
                self.exited.push(Exited {
                    name: name.to_owned(),
                    uid: uid.to_owned(),
                    code,
                    is_restarted: true,
                });
                self.client.status(name, status).await;
                self.wake(restart_at);
            }
            Some((at, _)) => self.wake(at),
            None if !is_ready(pod) => {
                let since = statuses::since(pod, &wall_clock);
                let status = plan.restarts.running(pod, &since);
                self.client.status(name, status).await;
            }
            None => {}
        }
    }
}
