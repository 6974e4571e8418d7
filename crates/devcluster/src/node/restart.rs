//! Restarts the containers of a pod with `restartPolicy: Always`, with a backoff, as kubelets do.
//!
//! All containers of a pod are restarted together, when all have terminated; a kubelet restarts each on its own.

use std::time::Duration;

use serde_json::{Value, json};

use crate::objects::object::text;

/// The backoff before the second restart; it doubles with each further one. The first restart is immediate.
const FIRST_BACKOFF: Duration = Duration::from_secs(10);

const MAX_BACKOFF: Duration = Duration::from_secs(300);

/// How often a pod's containers were restarted, and how they terminated last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Restarts {
    count: u32,
    /// The `terminated` state of each container.
    last: Vec<Value>,
    waits: bool,
}

impl Restarts {
    pub(super) fn are_enabled(pod: &Value) -> bool {
        text(pod, &["spec", "restartPolicy"]) == "Always"
    }

    /// Reads the restarts from a pod's status, for a node that has no memory of the pod.
    pub(super) fn of(pod: &Value) -> Self {
        let containers = pod.pointer("/status/containerStatuses");
        let containers = containers.and_then(Value::as_array);
        let each = || containers.into_iter().flatten();
        let counts = each().filter_map(|c| c["restartCount"].as_u64());
        let count = counts.max().unwrap_or_default();
        Self {
            count: u32::try_from(count).unwrap_or(u32::MAX),
            last: each()
                .map(|c| c["lastState"]["terminated"].clone())
                .collect(),
            waits: false,
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Changes the status of a pod whose containers have all terminated into that of one that will be restarted.
    /// Returns the backoff.
    pub(super) fn ended(&mut self, status: &mut Value) -> Duration {
        let statuses = status["containerStatuses"].as_array();
        let statuses = statuses.into_iter().flatten();
        self.last = statuses.map(|c| c["state"]["terminated"].clone()).collect();
        self.waits = true;
        self.add_to(status);
        match self.count {
            0 => Duration::ZERO,
            n => FIRST_BACKOFF
                .saturating_mul(1 << (n - 1).min(10))
                .min(MAX_BACKOFF),
        }
    }

    pub(super) fn begin(&mut self) {
        self.count += 1;
        self.waits = false;
    }

    /// Adds the restart counts and the last states to a status.
    pub(super) fn add_to(&self, status: &mut Value) {
        if self.last.is_empty() {
            return;
        }
        let phase_before = text(status, &["phase"]).to_owned();
        let containers = status["containerStatuses"].as_array_mut();
        for (container, last) in containers.into_iter().flatten().zip(&self.last) {
            container["restartCount"] = self.count.into();
            // The first restart is immediate, so the container never waits.
            if self.waits && self.count == 0 {
                continue;
            }
            container["lastState"] = match last {
                Value::Null => json!({}),
                last => json!({"terminated": last}),
            };
            if self.waits {
                let message = "back-off restarting failed container";
                let waiting = json!({"reason": "CrashLoopBackOff", "message": message});
                container["state"] = json!({"waiting": waiting});
            }
        }
        if self.waits {
            status["phase"] = "Running".into();
            let conditions = status["conditions"].as_array_mut();
            for condition in conditions.into_iter().flatten() {
                let of_phase = matches!(text(condition, &["reason"]), "PodFailed" | "PodCompleted");
                if of_phase && phase_before != "Running" {
                    condition["reason"] = "ContainersNotReady".into();
                }
            }
        }
    }
}
