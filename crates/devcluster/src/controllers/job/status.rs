//! The status of a Job, derived from its pods.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::failure_policy::{self, Action};
use super::view::{Ending, View, has_succeeded, is_failed};
use super::{is_tracked, release};
use crate::changes::write::{Write, seconds};
use crate::controllers::pods;
use crate::objects::object::{Object, at, list, number, set, text, unset};

/// The most pods that a status lists as not counted yet.
const MAX_UNCOUNTED: usize = 500;

/// The pods whose ends are about to be counted: they are listed here before their finalizers are removed, and counted
/// afterwards.
struct Uncounted<'a> {
    succeeded: Vec<&'a str>,
    failed: Vec<&'a str>,
}

impl Uncounted<'_> {
    fn len(&self) -> usize {
        self.succeeded.len() + self.failed.len()
    }
}

/// The Job's next status, and the removals of finalizers that may follow once it is written.
pub(super) fn next(view: &View<'_>) -> (Value, Vec<Write>) {
    let ending = view.ending.clone().or_else(|| success(view));
    let now = Value::from(seconds(view.now));
    let mut status = at(view.job.value(), &["status"]).cloned();
    let status = status.get_or_insert_with(|| json!({}));
    if at(status, &["startTime"]).is_none() && !view.is_suspended() {
        set(status, &["startTime"], now.clone());
    }
    if ending.is_none() && !view.job.is_terminating() {
        suspension(view, status, &now);
    }
    let mut uncounted = count(view, status);
    let released = collect(view, ending.as_ref(), &mut uncounted);
    let mut listed = json!({});
    for (field, uids) in [
        ("succeeded", &uncounted.succeeded),
        ("failed", &uncounted.failed),
    ] {
        if !uids.is_empty() {
            listed[field] = json!(uids);
        }
    }
    set(status, &["uncountedTerminatedPods"], listed);
    set_count(status, "active", view.active.len());
    let ready = view.active.iter().filter(|pod| pods::is_ready(pod)).count();
    set(status, &["ready"], ready.into());
    set(status, &["terminating"], view.terminating.into());
    if let Some(ending) = ending {
        let is_clear = view.active.is_empty()
            && view.terminating == 0
            && released.is_empty()
            && uncounted.len() == 0;
        conclude(view, &ending, is_clear, status, &now);
    }
    (status.take(), released.into_iter().map(release).collect())
}

/// The success of a Job of whose pods enough have succeeded.
fn success(view: &View<'_>) -> Option<Ending> {
    let enough = view.count("completions").unwrap_or(1);
    let complete = view.succeeded >= enough && view.active.is_empty();
    let message = "Reached expected number of succeeded pods";
    complete.then(|| Ending::new(true, "CompletionsReached", message))
}

/// Sets the condition `Suspended`. A resumed Job starts anew.
fn suspension(view: &View<'_>, status: &mut Value, now: &Value) {
    let was_suspended = view.condition("Suspended").is_some();
    if view.is_suspended() == was_suspended {
        return;
    }
    if was_suspended {
        set_condition(
            status,
            "Suspended",
            "False",
            ("JobResumed", "Job resumed"),
            now,
        );
        set(status, &["startTime"], now.clone());
    } else {
        let why = ("JobSuspended", "Job suspended");
        set_condition(status, "Suspended", "True", why, now);
    }
}

/// Counts the listed pods that have no finalizer any more. Returns the others.
fn count<'a>(view: &View<'a>, status: &mut Value) -> Uncounted<'a> {
    let tracked = view.pods.iter().filter(|pod| is_tracked(pod));
    let tracked: BTreeSet<&str> = tracked.map(|pod| pod.uid()).collect();
    let mut left = |field: &str| -> Vec<&'a str> {
        let listed = list(
            view.job.value(),
            &["status", "uncountedTerminatedPods", field],
        );
        let listed = listed.iter().filter_map(Value::as_str);
        let (left, counted): (Vec<_>, Vec<_>) = listed.partition(|uid| tracked.contains(uid));
        let before = number(status, &[field]).unwrap_or(0);
        let before = usize::try_from(before).unwrap_or(0);
        set_count(status, field, before + counted.len());
        left
    };
    Uncounted {
        succeeded: left("succeeded"),
        failed: left("failed"),
    }
}

/// Lists the pods that have ended since. Returns the pods whose finalizers are not needed any more.
fn collect<'a>(
    view: &View<'a>,
    ending: Option<&Ending>,
    uncounted: &mut Uncounted<'a>,
) -> Vec<&'a Object> {
    let fails = ending.is_some_and(|ending| !ending.succeeds);
    let mut released = Vec::new();
    for pod in view.pods.iter().filter(|pod| is_tracked(pod)) {
        let (succeeded, failed) = (has_succeeded(pod), is_failed(view.job, pod));
        if !(view.job.is_terminating() || ending.is_some() || succeeded || failed) {
            continue;
        }
        released.push(*pod);
        let uid = pod.uid();
        if uncounted.succeeded.contains(&uid) || uncounted.failed.contains(&uid) {
            continue;
        }
        let counts = || failure_policy::action(view.job, pod) != Action::Ignore;
        if succeeded {
            uncounted.succeeded.push(uid);
        } else if (failed || fails) && counts() {
            uncounted.failed.push(uid);
        }
        if uncounted.len() >= MAX_UNCOUNTED {
            break;
        }
    }
    released
}

/// Sets the condition that the Job will end, and then, when nothing of it is left, that it has ended.
fn conclude(view: &View<'_>, ending: &Ending, is_clear: bool, status: &mut Value, now: &Value) {
    let (interim, last) = match ending.succeeds {
        true => ("SuccessCriteriaMet", "Complete"),
        false => ("FailureTarget", "Failed"),
    };
    let why = (ending.reason.as_str(), ending.message.as_str());
    if view.condition(interim).is_none() {
        set_condition(status, interim, "True", why, now);
    } else if is_clear {
        set_condition(status, last, "True", why, now);
        if ending.succeeds {
            set(status, &["completionTime"], now.clone());
        }
    }
}

/// Sets a number, which is omitted if it is zero.
fn set_count(status: &mut Value, field: &str, count: usize) {
    match count {
        0 => {
            unset(status, &[field]);
        }
        count => set(status, &[field], count.into()),
    }
}

fn set_condition(
    status: &mut Value,
    kind: &str,
    holds: &str,
    (reason, message): (&str, &str),
    now: &Value,
) {
    let new = json!({
        "type": kind,
        "status": holds,
        "lastProbeTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    });
    let mut conditions = list(status, &["conditions"]).to_vec();
    match conditions.iter_mut().find(|c| text(c, &["type"]) == kind) {
        Some(condition) => *condition = new,
        None => conditions.push(new),
    }
    set(status, &["conditions"], conditions.into());
}
