//! A Job and its pods at one time, and the pods to create and delete.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::backoff::Backoff;
use super::failure_policy::{self, Action};
use super::{MAX_PODS, TRACKING, is_tracked, release};
use crate::changes::write::Write;
use crate::controllers::{pods, replica_set};
use crate::objects::object::{Object, is_true, list, number, set, text};
use crate::objects::pod;
use crate::objects::resource::Resource;
use crate::storage::store::State;

/// Why a Job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) succeeds: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Ending {
    pub(super) fn new(succeeds: bool, reason: &str, message: &str) -> Self {
        Self {
            succeeds,
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }
}

pub(super) struct View<'a> {
    pub(super) job: &'a Object,
    pub(super) now: Timestamp,
    pub(super) pods: Vec<&'a Object>,
    /// The pods that neither have ended nor are being deleted.
    pub(super) active: Vec<&'a Object>,
    /// How many pods are being deleted and have not ended.
    pub(super) terminating: usize,
    /// How many pods have succeeded, counted ones included.
    pub(super) succeeded: u64,
    pub(super) backoff: Backoff,
    pub(super) ending: Option<Ending>,
}

impl<'a> View<'a> {
    pub(super) fn new(
        state: &'a State,
        job: &'a Object,
        backoff: &Backoff,
        now: Timestamp,
    ) -> Self {
        let pods: Vec<&Object> = pods::owned(state, job, Resource::Pods)
            .into_iter()
            .map(|pod| &**pod)
            .collect();
        let active = pods.iter().filter(|pod| !pods::is_over(pod)).copied();
        let ends = |pod: &&&Object| pod.is_terminating() && !pod::has_ended(pod);
        let new = |pod: &&&Object| is_tracked(pod) && !is_uncounted(job, pod);
        let new: Vec<&Object> = pods.iter().filter(new).copied().collect();
        let which = |is: &dyn Fn(&Object) -> bool| -> Vec<&Object> {
            new.iter().filter(|pod| is(pod)).copied().collect()
        };
        let new_succeeded = which(&has_succeeded);
        let new_failed = which(&|pod| is_failed(job, pod));
        let counted = |field: &str| {
            let there = number(job.value(), &["status", field]).unwrap_or(0);
            let uncounted = list(job.value(), &["status", "uncountedTerminatedPods", field]);
            u64::try_from(there).unwrap_or(0) + uncounted.len() as u64
        };
        let counts = |pod: &&&Object| failure_policy::action(job, pod) != Action::Ignore;
        let failed = counted("failed") + new_failed.iter().filter(counts).count() as u64;
        let mut view = Self {
            job,
            now,
            active: active.collect(),
            terminating: pods.iter().filter(ends).count(),
            succeeded: counted("succeeded") + new_succeeded.len() as u64,
            backoff: backoff.with(&new_succeeded, &new_failed),
            ending: None,
            pods,
        };
        view.ending = view.find_ending(failed);
        view
    }

    fn find_ending(&self, failed: u64) -> Option<Ending> {
        for (kind, succeeds) in [("SuccessCriteriaMet", true), ("FailureTarget", false)] {
            if let Some(condition) = self.condition(kind) {
                let of = |field: &str| text(condition, &[field]);
                return Some(Ending::new(succeeds, of("reason"), of("message")));
            }
        }
        let failed_pods = self.pods.iter().filter(|pod| is_failed(self.job, pod));
        let mut actions = failed_pods.map(|pod| failure_policy::action(self.job, pod));
        let fails = |action| match action {
            Action::FailJob(message) => Some(message),
            Action::Ignore | Action::Count => None,
        };
        if let Some(message) = actions.find_map(fails) {
            return Some(Ending::new(false, "PodFailurePolicy", &message));
        }
        if failed > self.count("backoffLimit").unwrap_or(6) {
            let message = "Job has reached the specified backoff limit";
            return Some(Ending::new(false, "BackoffLimitExceeded", message));
        }
        if self.until_deadline() == Some(Duration::ZERO) {
            let message = "Job was active longer than specified deadline";
            return Some(Ending::new(false, "DeadlineExceeded", message));
        }
        None
    }

    /// A condition of the Job that holds.
    pub(super) fn condition(&self, kind: &str) -> Option<&'a Value> {
        let mut conditions = list(self.job.value(), &["status", "conditions"]).iter();
        conditions.find(|c| text(c, &["type"]) == kind && text(c, &["status"]) == "True")
    }

    /// A number of the Job's spec.
    pub(super) fn count(&self, field: &str) -> Option<u64> {
        let count = number(self.job.value(), &["spec", field])?;
        u64::try_from(count).ok()
    }

    pub(super) fn is_suspended(&self) -> bool {
        is_true(self.job.value(), &["spec", "suspend"])
    }

    /// The time until the Job has been active for too long; `None` if it may be active without limit.
    fn until_deadline(&self) -> Option<Duration> {
        let limit = number(self.job.value(), &["spec", "activeDeadlineSeconds"])?;
        let started = text(self.job.value(), &["status", "startTime"]);
        let started: Timestamp = started.parse().ok().filter(|_| !self.is_suspended())?;
        let left =
            SignedDuration::from_secs(limit).saturating_sub(self.now.duration_since(started));
        Some(Duration::try_from(left).unwrap_or(Duration::ZERO))
    }

    /// How many pods should be active.
    fn wanted(&self) -> usize {
        let parallelism = self.count("parallelism").unwrap_or(1);
        let wanted = match self.count("completions") {
            // After the first success, the other pods run to their ends and are not replaced.
            None if self.succeeded > 0 => return self.active.len(),
            None => parallelism,
            Some(completions) => completions.saturating_sub(self.succeeded).min(parallelism),
        };
        usize::try_from(wanted).unwrap_or(usize::MAX)
    }

    /// How many pods are missing.
    fn lacking(&self) -> usize {
        if self.ending.is_some() || self.is_suspended() || self.job.is_terminating() {
            return 0;
        }
        let waits_for_ends = replaces_failed_only(self.job);
        let blocked = if waits_for_ends { self.terminating } else { 0 };
        self.wanted()
            .saturating_sub(self.active.len())
            .saturating_sub(blocked)
    }

    /// The time until the Job needs a pod, or fails, without an event.
    pub(super) fn wait(&self) -> Option<Duration> {
        let backoff = self.backoff.remaining(self.now);
        let backoff = Some(backoff).filter(|wait| self.lacking() > 0 && !wait.is_zero());
        let deadline = self.until_deadline().filter(|wait| !wait.is_zero());
        backoff.into_iter().chain(deadline).min()
    }

    /// The pods to create and to delete.
    pub(super) fn pod_writes(&self) -> Vec<Write> {
        if self.ending.is_some() {
            let active = self.active.iter().take(MAX_PODS);
            return active.map(|pod| Write::delete(pod)).collect();
        }
        if self.job.is_terminating() {
            return Vec::new();
        }
        let wanted = if self.is_suspended() {
            0
        } else {
            self.wanted()
        };
        let surplus = self.active.len().saturating_sub(wanted);
        if surplus > 0 {
            let mut ranked = self.active.clone();
            ranked.sort_by_cached_key(|pod| replica_set::rank(pod));
            let going = ranked.into_iter().take(surplus.min(MAX_PODS));
            // Without the finalizer, their ends do not count as failures.
            return going
                .flat_map(|pod| [release(pod), Write::delete(pod)])
                .collect();
        }
        if !self.backoff.remaining(self.now).is_zero() {
            return Vec::new();
        }
        let lacking = self.lacking().min(MAX_PODS);
        (0..lacking).map(|_| self.create()).collect()
    }

    fn create(&self) -> Write {
        let mut pod = pods::from_template(self.job, &pods::template(self.job));
        let base = format!("{}-", self.job.key().name);
        set(&mut pod, &["metadata", "generateName"], base.into());
        let mut finalizers = list(&pod, &["metadata", "finalizers"]).to_vec();
        finalizers.push(TRACKING.into());
        set(&mut pod, &["metadata", "finalizers"], finalizers.into());
        pods::create(self.job, Resource::Pods, pod)
    }
}

/// Whether a pod is replaced when it has failed, and not before, while it is being deleted.
pub(super) fn replaces_failed_only(job: &Object) -> bool {
    text(job.value(), &["spec", "podReplacementPolicy"]) == "Failed"
}

pub(super) fn has_succeeded(pod: &Object) -> bool {
    text(pod.value(), &["status", "phase"]) == "Succeeded"
}

/// Whether a pod counts as failed; a deleted one does at once, unless only failed pods are replaced.
pub(super) fn is_failed(job: &Object, pod: &Object) -> bool {
    match text(pod.value(), &["status", "phase"]) {
        "Failed" => true,
        "Succeeded" => false,
        _ => pod.is_terminating() && !replaces_failed_only(job),
    }
}

/// Whether the Job's status lists the pod as one whose end it is about to count.
pub(super) fn is_uncounted(job: &Object, pod: &Object) -> bool {
    let lists = ["succeeded", "failed"].into_iter();
    lists
        .flat_map(|field| list(job.value(), &["status", "uncountedTerminatedPods", field]))
        .any(|uid| uid.as_str() == Some(pod.uid()))
}
