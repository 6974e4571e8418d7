//! Logs the allocator's notices (spec A-31, O-40).

use std::time::Duration;

use super::claims::making::Change;
use super::decision::Notice;
use super::kubernetes_events;
use super::refusal::RefusalKind;
use crate::event_recorder::EventRecorder;
use crate::model::{Entry, LossReason, quantity};
use crate::telemetry::millis;

/// Logs that a container was started again (spec O-40).
pub fn log_restart(entry: &Entry, reason: &LossReason) {
    let (executor, profile) = (entry.id.get(), entry.profile.as_str());
    let (class, exit_code, why) = (reason.class, reason.exit_code, reason.message.as_str());
    let failure = reason.failure;
    let restarts = entry.pod().map_or(0, |pod| pod.restart_count());
    tracing::info!(
        executor, profile, restarts, reason = %class, exit_code, failure, why,
        "executor ended, and its container was started again"
    );
}

/// Logs the notice, and records it as a Kubernetes Event if it has one.
pub fn say(notice: &Notice, event_recorder: Option<&EventRecorder>) {
    log(notice);
    if let Some((event_recorder, note)) = event_recorder.zip(kubernetes_events::note(notice)) {
        event_recorder.record(note);
    }
}

pub fn log(notice: &Notice) {
    match notice {
        Notice::Restarted(entry, reason) => log_restart(entry, reason),
        Notice::BackoffBegan { profile, why, wait } => tracing::warn!(
            profile = profile.as_str(),
            why = &**why,
            wait_ms = millis(*wait),
            "executors end early, again and again: backing off, then one at a time is tried"
        ),
        Notice::BackoffEnded { profile, after } => tracing::info!(
            profile = profile.as_str(),
            duration_ms = millis(*after),
            "an executor stayed: no longer backing off"
        ),
        Notice::GangMissed {
            profile,
            least,
            there,
            wait,
        } => tracing::warn!(
            profile = profile.as_str(),
            least,
            there,
            wait_ms = millis(*wait),
            "too few executors of this profile came in time: they are let go, and asked for again later"
        ),
        Notice::GangOver { profile, after } => tracing::info!(
            profile = profile.as_str(),
            duration_ms = millis(*after),
            "no longer waiting for enough executors of this profile"
        ),
        Notice::RefusalBegan {
            profile,
            kind,
            why,
            wait,
        } => tracing::warn!(
            profile = profile.as_str(),
            reason = ?kind,
            error = &**why,
            wait_ms = millis(*wait),
            hint = hint(*kind, *wait),
            "the API server refuses executors of this profile: waiting"
        ),
        Notice::RefusalEnded { profile, after } => tracing::info!(
            profile = profile.as_str(),
            duration_ms = millis(*after),
            "the API server accepts executors of this profile again"
        ),
        Notice::Degraded { .. } | Notice::Recovered { .. } | Notice::Claims(_) => {
            log_of_calls(notice);
        }
        Notice::Spent { .. } | Notice::ProfileFailed { .. } | Notice::Grown { .. } => {
            log_of_failures(notice);
        }
        // The component that ends the driver logs it.
        Notice::Fatal { .. } => {}
        Notice::Enough { made } => tracing::warn!(
            made,
            "the application has had as many executors as app.max_executors allows: no more are requested"
        ),
        Notice::Queued { .. }
        | Notice::Admitted { .. }
        | Notice::QueuedTwice { .. }
        | Notice::QueueTrouble { .. }
        | Notice::QueueWorks { .. } => log_of_queue(notice),
        Notice::OutOfIds => {
            tracing::error!("all executor ids are used up: no more executors can be requested");
        }
    }
}

fn log_of_failures(notice: &Notice) {
    match notice {
        Notice::ProfileFailed { profile, why } => tracing::error!(
            profile = profile.as_str(),
            why = &**why,
            hint = "mend what ends its executors, then `boatswain reset PROFILE`; or remove the profile",
            "a profile has failed too often: its executors go, and the application goes on without it"
        ),
        Notice::Grown { profile, limit } => tracing::warn!(
            profile = profile.as_str(),
            memory_limit = quantity::memory_text(*limit),
            "executors were killed because their memory was exhausted: new ones of this profile get more"
        ),
        Notice::Spent { why } => {
            tracing::error!(
                why = &**why,
                "the application has failed too often: it ends"
            );
        }
        _ => {}
    }
}

fn log_of_calls(notice: &Notice) {
    match notice {
        Notice::Degraded { why } => {
            tracing::warn!(error = &**why, "requests for executors fail: backing off");
        }
        Notice::Recovered { after } => {
            tracing::info!(
                duration_ms = millis(*after),
                "requests for executors are answered again"
            );
        }
        Notice::Claims(Change::Fails(why)) => tracing::warn!(
            error = &**why,
            "executors' claims on volumes cannot be made or read: trying again"
        ),
        Notice::Claims(Change::Works) => {
            tracing::info!("executors' claims on volumes can be made and read again");
        }
        _ => {}
    }
}

fn log_of_queue(notice: &Notice) {
    match notice {
        Notice::Queued { profile, why } => tracing::info!(
            profile = profile.as_str(),
            why = &**why,
            "executors of this profile wait for their queue"
        ),
        Notice::Admitted { profile, after } => tracing::info!(
            profile = profile.as_str(),
            duration_ms = millis(*after),
            "executors of this profile no longer wait for their queue"
        ),
        Notice::QueuedTwice { queue } => tracing::warn!(
            queue = &**queue,
            hint = TWICE,
            "Kueue has queued executors' pods once more, each by itself: they need their quota twice"
        ),
        Notice::QueueTrouble { why } => tracing::warn!(
            error = &**why,
            "degraded: the queue cannot be used as it should, and fewer executors may be requested than are wanted"
        ),
        Notice::QueueWorks { after } => tracing::info!(
            duration_ms = millis(*after),
            "recovered: the queue can be used"
        ),
        _ => {}
    }
}

/// What the operator can do about pods that are queued twice.
pub const TWICE: &str = "it does so with pods that have its label queue-name, and with all pods of a namespace that has a LocalQueue \
                         named default: remove that, or exclude the namespace in Kueue's managedJobsNamespaceSelector";

/// What the operator can do about a refusal.
fn hint(kind: RefusalKind, wait: Duration) -> &'static str {
    match kind {
        RefusalKind::Blocked if wait < Duration::from_secs(60) => {
            "earlier ones were accepted: look for a policy, limit or webhook that is new: it is tried again within seconds"
        }
        RefusalKind::Quota => {
            "raise the quota, or want fewer executors: it is tried again when one ends"
        }
        RefusalKind::Blocked => {
            "mend the profile as the server says: it is tried again in 5 minutes"
        }
        RefusalKind::Rights => {
            "grant it, or run with an account that has it: see docs/kubernetes.md, \"Rights\""
        }
        RefusalKind::Credentials => "check the kubeconfig's user, or the pod's service account",
        RefusalKind::Namespace => "create the namespace, or set cluster.namespace",
    }
}
