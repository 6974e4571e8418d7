//! The delay between a Job's failed pods and their replacements.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::objects::object::{Object, list, text};

/// The delay after one failure. It doubles with each further one.
const FIRST: Duration = Duration::from_secs(10);

const LONGEST: Duration = Duration::from_secs(600);

/// The failures of a Job since its last success. Failures that the pod failure policy ignores count here as well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backoff {
    failures: u32,
    last_failure: Option<Timestamp>,
}

impl Backoff {
    /// Adds pods that have ended since.
    pub(super) fn with(&self, succeeded: &[&Object], failed: &[&Object]) -> Self {
        let last_success = succeeded.iter().map(|pod| ended_at(pod)).max();
        let known = match last_success {
            Some(_) => Self::default(),
            None => self.clone(),
        };
        let later = failed.iter().map(|pod| ended_at(pod));
        let later: Vec<Timestamp> = later
            .filter(|at| last_success.is_none_or(|success| *at > success))
            .collect();
        let new = u32::try_from(later.len()).unwrap_or(u32::MAX);
        Self {
            failures: known.failures.saturating_add(new),
            last_failure: later.into_iter().max().or(known.last_failure),
        }
    }

    /// How long no pod may be created yet; zero if one may be.
    pub(super) fn remaining(&self, now: Timestamp) -> Duration {
        let Some(last_failure) = self.last_failure.filter(|_| self.failures > 0) else {
            return Duration::ZERO;
        };
        let doublings = (self.failures - 1).min(10);
        let delay = FIRST.saturating_mul(1 << doublings).min(LONGEST);
        let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::ZERO);
        let left = delay - now.duration_since(last_failure);
        Duration::try_from(left).unwrap_or(Duration::ZERO)
    }
}

/// When a pod ended: when its last container did, else when it became unready, else when it was deleted.
fn ended_at(pod: &Object) -> Timestamp {
    let value = pod.value();
    let time = |text: &str| text.parse::<Timestamp>().ok();
    let containers = list(value, &["status", "containerStatuses"]);
    let of_containers: Option<Vec<Timestamp>> = containers
        .iter()
        .map(|container| time(text(container, &["state", "terminated", "finishedAt"])))
        .collect();
    let of_condition = || {
        let mut conditions = list(value, &["status", "conditions"]).iter();
        let is_unready =
            |c: &&Value| text(c, &["type"]) == "Ready" && text(c, &["status"]) == "False";
        time(text(conditions.find(is_unready)?, &["lastTransitionTime"]))
    };
    let of_deletion = || {
        let until = time(text(value, &["metadata", "deletionTimestamp"]))?;
        let grace = SignedDuration::from_secs(pod.deletion_grace().unwrap_or(0));
        until.checked_sub(grace).ok()
    };
    of_containers
        .and_then(|times| times.into_iter().max())
        .or_else(of_condition)
        .or_else(of_deletion)
        .or_else(|| time(text(value, &["metadata", "creationTimestamp"])))
        .unwrap_or(Timestamp::UNIX_EPOCH)
}
