//! Containers that are started again in the same pod, where it wants that (`restartPolicy: Always`), as kubelets do it.
//!
//! All containers of a pod are started again together, once all have ended; a kubelet does so one by one.

use std::time::Duration;

use serde_json::{Value, json};

use crate::objects::object::text;

/// From the second end on a pod waits, at first so long.
const FIRST_WAIT: Duration = Duration::from_secs(10);

/// It waits no longer than this.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// How often a pod's containers were started again, and how they ended last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Restarts {
    count: u32,
    /// As statuses have it: `terminated` of each container.
    last: Vec<Value>,
    waits: bool,
}

impl Restarts {
    /// Whether a pod wants its containers to be started again.
    pub(super) fn are_wanted(pod: &Value) -> bool {
        text(pod, &["spec", "restartPolicy"]) == "Always"
    }

    /// As a pod's status tells of it, for a node that knows nothing of it any more.
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

    /// How often they were started again.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// All have ended, as this status tells: changes it into that of a pod that goes on. How long it waits.
    pub(super) fn ended(&mut self, status: &mut Value) -> Duration {
        let statuses = status["containerStatuses"].as_array();
        let statuses = statuses.into_iter().flatten();
        self.last = statuses.map(|c| c["state"]["terminated"].clone()).collect();
        self.waits = true;
        self.tell(status);
        match self.count {
            0 => Duration::ZERO,
            n => FIRST_WAIT
                .saturating_mul(1 << (n - 1).min(10))
                .min(LONGEST_WAIT),
        }
    }

    /// They are started again.
    pub(super) fn begin(&mut self) {
        self.count += 1;
        self.waits = false;
    }

    /// Adds to a status what was before.
    pub(super) fn tell(&self, status: &mut Value) {
        if self.last.is_empty() {
            return;
        }
        let phase_before = text(status, &["phase"]).to_owned();
        let containers = status["containerStatuses"].as_array_mut();
        for (container, last) in containers.into_iter().flatten().zip(&self.last) {
            container["restartCount"] = self.count.into();
            // The first time it is started again at once, so it does not wait.
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
