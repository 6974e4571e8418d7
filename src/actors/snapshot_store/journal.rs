//! Logs and counts the store's changes (spec O-40, O-41).

use std::num::NonZeroU32;

use crate::metrics::Metrics;
use crate::model::executor::GoneEvidence;
use crate::model::pod::Pod;
use crate::model::quantity::{MEBIBYTE, memory_text};
use crate::model::{Ending, Entry, PodState, ResourceVersion, State, Tick};

use crate::telemetry::millis;

use super::gauges;
use crate::model::ledger::{Contradiction, Note};

/// This many unreadable pods are logged at warn, later ones at debug.
const LOUD_UNREADABLE: u64 = 10;

/// This many differences between poll and watch are logged at warn, later ones at debug.
const LOUD_DRIFTS: u64 = 10;

pub struct Journal {
    metrics: Metrics,
    unreadable: u64,
    drifts: u64,
}

impl Journal {
    pub fn new(metrics: Metrics) -> Self {
        Self {
            metrics,
            unreadable: 0,
            drifts: 0,
        }
    }

    pub fn note(&mut self, note: &Note, now: Tick) {
        match note {
            Note::Changed(before, after) => {
                gauges::changed(&self.metrics, before.as_deref(), after, now);
                changed(before.as_deref(), after, now);
            }
            Note::Ended(ending) => {
                gauges::ended(&self.metrics, ending);
                say_ended(ending);
            }
            Note::ProfileForgotten(profile) => gauges::remove_profile(&self.metrics, profile),
            Note::Unrecognised(pod, why) => tracing::warn!(
                pod = &*pod.name,
                uid = pod.uid.as_str(),
                %why,
                "a pod bears this application's labels but is none of its executors: left alone"
            ),
            Note::OrphanPod(pod) => tracing::warn!(
                pod = &*pod.name,
                uid = pod.uid.as_str(),
                "a pod came too late, or is a copy: it is deleted"
            ),
            Note::OfLaterIncarnation(pod) => tracing::warn!(
                pod = &*pod.name,
                uid = pod.uid.as_str(),
                "a younger driver asked for this pod: left alone, and the application record is read again"
            ),
            Note::OfOtherRecord(pod) => tracing::warn!(
                pod = &*pod.name,
                uid = pod.uid.as_str(),
                "another application record owns this pod: the application record is read again before it is judged"
            ),
            Note::Unreadable(part) => {
                self.unreadable += 1;
                let (pod, error) = (part.name.as_deref().unwrap_or("?"), &part.error);
                let count = self.unreadable;
                if count <= LOUD_UNREADABLE {
                    tracing::warn!(pod, %error, count, "a pod could not be read");
                } else {
                    tracing::debug!(pod, %error, count, "a pod could not be read");
                }
            }
            Note::NewEpoch {
                epoch,
                version,
                highest,
            } => tracing::warn!(
                %epoch,
                %version,
                %highest,
                "the API server was restored or emptied: its lists are believed from here on"
            ),
            Note::Drift(contradiction) => {
                self.drifts += 1;
                drift(contradiction, self.drifts);
            }
            Note::StaleList { version, highest } => {
                tracing::debug!(%version, %highest, "a list is older than what is known");
            }
            Note::Adopted { found, lost } => {
                tracing::info!(found, lost, "executors adopted");
            }
            Note::Ignored(why) => tracing::trace!(why, "news that changes nothing"),
        }
    }
}

/// Logs what each source showed, because either may be wrong (spec P-4).
fn drift(contradiction: &Contradiction, count: u64) {
    let or_none = |version: &Option<ResourceVersion>| {
        (version.as_ref()).map_or_else(|| "none".to_owned(), ToString::to_string)
    };
    let (pod, uid) = (&*contradiction.name, contradiction.uid.as_str());
    let (watched, polled) = (
        or_none(&contradiction.watched),
        or_none(&contradiction.polled),
    );
    let at = &contradiction.at;
    if count <= LOUD_DRIFTS {
        tracing::warn!(pod, uid, watched, polled, %at, count, "drift: a poll shows what the watch should have shown");
    } else {
        tracing::debug!(pod, uid, watched, polled, %at, count, "drift: a poll shows what the watch should have shown");
    }
}

/// Logs an executor's end (spec O-40).
pub(crate) fn say_ended(ending: &Ending) {
    let Ending { entry, reason } = ending;
    let (executor, profile) = (entry.id.get(), entry.profile.as_str());
    let pod = entry.pod().map_or("", |pod| &*pod.name);
    let node = reason.evidence.node.as_deref().unwrap_or("");
    let (class, exit_code, why) = (reason.class, reason.exit_code, reason.message.as_str());
    let failure = reason.failure;
    tracing::info!(
        executor, profile, pod, node, reason = %class, exit_code, failure, why, "executor ended"
    );
}

/// The memory limits that a running executor's container had and has, if somebody changed it.
fn resized(before: Option<&Entry>, pod: &Pod) -> Option<(String, String)> {
    let before = before?.pod().filter(|before| before.uid == pod.uid)?;
    let (from, to) = (before.memory_limit?, pod.memory_limit?);
    let text = |limit: NonZeroU32| memory_text(u64::from(limit.get()) * MEBIBYTE);
    (from != to && pod.state() == PodState::Running).then(|| (text(from), text(to)))
}

fn changed(before: Option<&Entry>, after: &Entry, now: Tick) {
    let (executor, profile) = (after.id.get(), after.profile.as_str());
    if let Some(leaving) = &after.leaving
        && before.is_some_and(|before| before.leaving.is_none())
    {
        let reason = &leaving.why;
        tracing::info!(executor, profile, %reason, "executor leaving");
        return;
    }
    if before.is_some_and(|before| before.profile.is_spares_of(&after.profile)) {
        tracing::info!(executor, profile, "executor promoted: it was a spare");
        return;
    }
    match &after.state {
        State::Sent(_) => tracing::info!(executor, profile, "executor requested"),
        State::Unknown(unanswered) => {
            let (error, repeats) = (&unanswered.why, unanswered.repeats);
            tracing::debug!(executor, profile, %error, repeats, "the request's outcome is unknown");
        }
        State::Gone(gone) => match &gone.how {
            GoneEvidence::NotCreated(why) => {
                tracing::debug!(executor, profile, reason = &**why, "executor not created");
            }
            how => tracing::debug!(executor, profile, ?how, "executor gone"),
        },
        State::Bound(bound) => {
            let state = bound.pod.state();
            let ran = before
                .and_then(Entry::bound)
                .is_some_and(|b| b.running_since.is_some());
            let node = bound.pod.node.as_deref().unwrap_or("?");
            let pod = &*bound.pod.name;
            if state == PodState::Running && !ran {
                let duration_ms = millis(now.since(after.since));
                let adopted = after.adopted;
                tracing::info!(
                    executor,
                    profile,
                    pod,
                    node,
                    duration_ms,
                    adopted,
                    "executor running"
                );
            } else if let Some((from, to)) = resized(before, &bound.pod) {
                tracing::info!(
                    executor,
                    profile,
                    pod,
                    node,
                    from,
                    to,
                    "executor resized: its memory limit is another one"
                );
            } else if let Some(absence) = &bound.absent
                && absence.since == now
            {
                tracing::info!(executor, profile, pod, "executor not listed, looked up");
            } else {
                tracing::debug!(executor, profile, pod, ?state, "executor changed");
            }
        }
    }
}
