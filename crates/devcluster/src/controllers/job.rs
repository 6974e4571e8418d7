//! The Job controller: runs pods until enough of them have succeeded, or too many have failed.
//!
//! Each pod has a finalizer until its end is counted, so that each is counted once, even if it is deleted or the cluster
//! restarts. A reconciliation first creates and deletes pods, and then writes the status from the state after that.

mod backoff;
mod failure_policy;
mod status;
mod view;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

pub(super) use backoff::Backoff;
use view::View;

use super::pods;
use crate::changes::delete::{DeleteOptions, Propagation};
use crate::changes::patch::PatchKind;
use crate::changes::write::{Part, Write};
use crate::objects::object::{Key, Object, at, list, number, set, text};
use crate::objects::pod;
use crate::objects::resource::Resource;
use crate::storage::server::Store;
use crate::storage::store::State;

/// The finalizer of a pod whose end is not counted yet.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// The most pods that one reconciliation creates or deletes. The events of these writes lead to the next one.
const MAX_PODS: usize = 500;

/// The longest time until a Job is looked at again for the same reason.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The delays of the Jobs that are not finished, with the uids of the Jobs. They are lost when the cluster restarts, as
/// those of the real controller are.
pub(super) type Backoffs = BTreeMap<Key, (String, Backoff)>;

/// Whether a write was refused, and when the Job is due again without an event.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) is_refused: bool,
    pub(super) wait: Option<Duration>,
}

impl Outcome {
    async fn write(&mut self, store: &Store, write: Write) -> bool {
        match store.write(write).await {
            Ok(_) => true,
            // Somebody else has removed it.
            Err(error) if error.code == 404 => true,
            Err(error) => {
                tracing::debug!(target: "cluster.jobs", error = error.message, "a write was refused");
                self.is_refused = true;
                false
            }
        }
    }
}

pub(super) async fn reconcile(store: &Store, backoffs: &mut Backoffs, key: &Key) -> Outcome {
    let mut outcome = Outcome::default();
    let now = store.clock().now();
    let state = store.state();
    let job = state.get(key).filter(|job| is_ours(job));
    let Some(job) = job else {
        backoffs.remove(key);
        return outcome;
    };
    if let Some(finished) = finished_at(job) {
        backoffs.remove(key);
        for release in releases(&state, job) {
            outcome.write(store, release).await;
        }
        if let Some(ttl) = number(job.value(), &["spec", "ttlSecondsAfterFinished"]) {
            let left = SignedDuration::from_secs(ttl).saturating_sub(now.duration_since(finished));
            match Duration::try_from(left) {
                Ok(left) if !left.is_zero() => outcome.wait = Some(left.min(MAX_WAIT)),
                _ if job.is_terminating() => {}
                _ => {
                    outcome.write(store, delete_after_ttl(job)).await;
                }
            }
        }
        return outcome;
    }
    let known = backoffs.remove(key).filter(|(uid, _)| uid == job.uid());
    let known = known.unwrap_or_else(|| (job.uid().to_owned(), Backoff::default()));
    let view = View::new(&state, job, &known.1, now);
    outcome.wait = view.wait().map(|wait| wait.min(MAX_WAIT));
    for write in view.pod_writes() {
        outcome.write(store, write).await;
    }
    let ending = view.ending;
    let state = store.state();
    let Some(job) = state.get(key).filter(|job| job.uid() == known.0) else {
        return outcome;
    };
    let mut view = View::new(&state, job, &known.1, now);
    if ending.is_none() && view.ending.is_some() {
        // A pod has just ended the Job. Its other pods are deleted before its status says so.
        backoffs.insert(key.clone(), known);
        outcome.wait = Some(Duration::ZERO);
        return outcome;
    }
    // The pods that were deleted for this reason would otherwise be failures, and another reason.
    view.ending = ending;
    let (status, releases) = status::next(&view);
    let is_written = match update(job, status) {
        Some(update) => outcome.write(store, update).await,
        None => true,
    };
    if !is_written {
        backoffs.insert(key.clone(), known);
        return outcome;
    }
    backoffs.insert(key.clone(), (known.0, view.backoff.clone()));
    for release in releases {
        outcome.write(store, release).await;
    }
    outcome
}

/// The write of a status, unless the Job has it. It is refused if the Job has changed.
fn update(job: &Object, status: Value) -> Option<Write> {
    if at(job.value(), &["status"]) == Some(&status) {
        return None;
    }
    let mut object = job.whole();
    set(&mut object, &["status"], status);
    Some(Write::Update {
        key: job.key().clone(),
        part: Part::Status,
        object,
    })
}

/// Whether another controller manages the Job.
fn is_ours(job: &Object) -> bool {
    let manager = text(job.value(), &["spec", "managedBy"]);
    matches!(manager, "" | "kubernetes.io/job-controller")
}

/// When a Job completed or failed for good.
fn finished_at(job: &Object) -> Option<Timestamp> {
    let conditions = list(job.value(), &["status", "conditions"]);
    let finished = conditions.iter().find(|c| {
        matches!(text(c, &["type"]), "Complete" | "Failed") && text(c, &["status"]) == "True"
    })?;
    let at = text(finished, &["lastTransitionTime"]).parse();
    Some(at.unwrap_or(Timestamp::UNIX_EPOCH))
}

fn delete_after_ttl(job: &Object) -> Write {
    Write::Delete {
        key: job.key().clone(),
        options: DeleteOptions {
            uid: Some(job.uid().to_owned()),
            propagation: Some(Propagation::Foreground),
            ..DeleteOptions::default()
        },
    }
}

fn is_tracked(pod: &Object) -> bool {
    pod.finalizers().any(|finalizer| finalizer == TRACKING)
}

/// Removes the finalizer from a pod, whatever has changed of it since.
fn release(pod: &Object) -> Write {
    let patch = json!({"metadata": {
        "uid": pod.uid(),
        "$deleteFromPrimitiveList/finalizers": [TRACKING],
    }});
    Write::Patch {
        key: pod.key().clone(),
        part: Part::Main,
        kind: PatchKind::Strategic,
        patch,
        strict: false,
    }
}

/// Removes the finalizers from all pods of a finished Job.
fn releases(state: &State, job: &Object) -> Vec<Write> {
    let pods = pods::owned(state, job, Resource::Pods);
    let tracked = pods.into_iter().filter(|pod| is_tracked(pod));
    tracked.take(MAX_PODS).map(|pod| release(pod)).collect()
}

/// Whether a pod needs more than its Job does for it: it has no Job any more, or it can never end.
pub(super) fn is_stray(state: &State, pod: &Object) -> bool {
    is_tracked(pod) && (!has_job(state, pod) || never_ends(pod))
}

fn has_job(state: &State, pod: &Object) -> bool {
    let mut owners = pod.owners().filter_map(|owner| state.by_uid(owner.uid));
    owners.any(|owner| owner.key().resource == Resource::Jobs)
}

/// Whether a deleted pod will not be reported as ended: it has no node, or its node has stopped it before it ran.
fn never_ends(pod: &Object) -> bool {
    let is_assigned = !text(pod.value(), &["spec", "nodeName"]).is_empty();
    let is_stopped = !is_assigned || pod.deletion_grace() == Some(0);
    pod.is_terminating() && is_stopped && !pod::has_ended(pod)
}

/// Handles a stray pod: fails it, as the pod garbage collector does, or removes the finalizer.
pub(super) fn settle_stray(state: &State, pod: &Object) -> Vec<Write> {
    if !is_stray(state, pod) {
        return Vec::new();
    }
    if !has_job(state, pod) {
        return vec![release(pod)];
    }
    vec![Write::report(pod, json!({"phase": "Failed"}))]
}

/// The pods with a finalizer that a deleted Job leaves.
pub(super) fn left_by(state: &State, job: &Object) -> Vec<Key> {
    let pods = pods::owned(state, job, Resource::Pods);
    let tracked = pods.into_iter().filter(|pod| is_tracked(pod));
    tracked.map(|pod| pod.key().clone()).collect()
}
