//! Container restarts within a pod made by a set (spec A-80), with the backoff of a kubelet.

use std::time::Duration;

use rand::RngExt;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Node, short, statuses};
use crate::objects::{label, text};
use crate::trace::say;

/// The first backoff, which precedes the second restart.
const FIRST_WAIT: Duration = Duration::from_secs(10);

/// The longest backoff; shorter than a real kubelet's, to keep runs short.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The number of restarts of a pod's container, and how it last ended.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    count: u32,
    last: Option<Value>,
    /// When the ended container is restarted.
    again: Option<Instant>,
}

impl Restarts {
    /// Makes a pending restart due now.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.again = self.again.map(|_| now);
    }

    fn wait(&self) -> Duration {
        match self.count {
            0 => Duration::ZERO,
            n => (FIRST_WAIT * (1 << (n - 1).min(10))).min(LONGEST_WAIT),
        }
    }

    /// The status of a running container, with its restart count.
    fn running(&self, pod: &Value, since: &str) -> Value {
        let mut status = statuses::running(pod, since);
        status["conditions"] = ready("True");
        self.tell(&mut status);
        status
    }

    /// The status after the container has ended while the pod stays. A kubelet reports the exit itself, or only the
    /// backoff that follows it.
    fn stopped(&self, ended: Value, waits: bool) -> Value {
        let mut status = ended;
        status["phase"] = "Running".into();
        status["conditions"] = ready("False");
        self.tell(&mut status);
        let container = &mut status["containerStatuses"][0];
        if waits {
            container["lastState"] = container["state"].take();
            container["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        }
        status
    }

    fn tell(&self, status: &mut Value) {
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
pub(super) fn are_wanted(pod: &Value) -> bool {
    let owner = text(pod, "/metadata/ownerReferences/0/kind");
    matches!(owner, "StatefulSet" | "ReplicaSet") && text(pod, "/spec/restartPolicy") == "Always"
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    (conditions.into_iter().flatten())
        .any(|one| text(one, "/type") == "Ready" && text(one, "/status") == "True")
}

impl Node {
    pub(super) fn running(&self, pod: &Value) -> Value {
        let wall = self.wall();
        match self.fates.get(text(pod, "/metadata/uid")) {
            Some(fate) if are_wanted(pod) => fate.restarts.running(pod, &wall),
            _ => statuses::running(pod, &wall),
        }
    }

    /// Processes a running pod whose container is restarted: ends or restarts the container when due, and restores the
    /// condition `Ready` if something else has removed it.
    pub(super) async fn keep_going(&mut self, pod: &Value, now: Instant) {
        let (name, uid) = (text(pod, "/metadata/name"), text(pod, "/metadata/uid"));
        let wall = self.wall();
        let crash = self.crashing.get(label(pod, "boatswain.dev/profile"));
        let crash = crash.copied().filter(|(until, _)| now < *until);
        let life = Duration::from_millis(self.rng.random_range(0..2_000));
        let Some(fate) = self.fates.get_mut(uid) else {
            return;
        };
        if let Some(again) = fate.restarts.again {
            if now < again {
                return self.wake(again);
            }
            fate.restarts.again = None;
            fate.restarts.count += 1;
            self.restarted.extend(fate.restarts.last.clone());
            fate.end = crash.map(|(_, code)| (now + life, code));
            let (status, end) = (fate.restarts.running(pod, &wall), fate.end);
            say!("node: {name} {} is started again", short(uid));
            self.hand.status(name, status).await;
            if let Some((at, _)) = end {
                self.wake(at);
            }
            return;
        }
        match fate.end {
            Some((at, code)) if at <= now => {
                let reason = match (fate.out_of_memory, code) {
                    (true, _) => "OOMKilled",
                    (false, 0) => "Completed",
                    (false, _) => "Error",
                };
                let ended = statuses::ended(pod, code, reason, &wall);
                let again = now + fate.restarts.wait();
                let status = fate.restarts.stopped(ended.clone(), fate.reports);
                let last = ended.pointer("/containerStatuses/0/state/terminated");
                fate.restarts.last = last.cloned();
                fate.restarts.again = Some(again);
                (fate.end, fate.out_of_memory) = (None, false);
                say!("node: {name} {} ends with {code}, and goes on", short(uid));
                self.hand.status(name, status).await;
                self.wake(again);
            }
            Some((at, _)) => self.wake(at),
            None if !is_ready(pod) => {
                let since = statuses::since(pod, &wall);
                let status = fate.restarts.running(pod, &since);
                self.hand.status(name, status).await;
            }
            None => {}
        }
    }
}
