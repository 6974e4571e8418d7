//! Applies a Job's pod failure policy to its failed pods.

use serde_json::Value;

use crate::objects::object::{Object, at, list, number, text};

/// What the first rule that matches a failed pod demands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The Job fails, with this message.
    FailJob(String),
    /// The failure does not count towards `backoffLimit`.
    Ignore,
    /// The failure counts. This is also so if no rule matches.
    Count,
}

/// The action for a failed pod.
pub(super) fn action(job: &Object, pod: &Object) -> Action {
    let rules = list(job.value(), &["spec", "podFailurePolicy", "rules"]);
    let matched = rules
        .iter()
        .enumerate()
        .find_map(|(i, rule)| Some((i, text(rule, &["action"]), matched(rule, pod)?)));
    let Some((i, action, what)) = matched else {
        return Action::Count;
    };
    match action {
        "FailJob" => Action::FailJob(format!("{what} matching FailJob rule at index {i}")),
        "Ignore" => Action::Ignore,
        _ => Action::Count,
    }
}

/// What of the pod matches a rule; `None` if nothing does.
fn matched(rule: &Value, pod: &Object) -> Option<String> {
    let place = format!("{}/{}", pod.key().namespace, pod.key().name);
    if let Some(codes) = rule.get("onExitCodes") {
        let statuses = ["containerStatuses", "initContainerStatuses"].into_iter();
        let mut statuses = statuses.flat_map(|kind| list(pod.value(), &["status", kind]));
        let (name, code) = statuses.find_map(|status| exit_code(status, codes))?;
        let what = format!("Container {name} for pod {place} failed with exit code {code}");
        return Some(what);
    }
    let patterns = list(rule, &["onPodConditions"]);
    let same = |a: &Value, b: &Value| ["type", "status"].iter().all(|f| a.get(f) == b.get(f));
    let conditions = list(pod.value(), &["status", "conditions"]);
    let condition = conditions
        .iter()
        .find(|condition| patterns.iter().any(|pattern| same(condition, pattern)))?;
    let kind = text(condition, &["type"]);
    Some(format!("Pod {place} has condition {kind}"))
}

/// The name and exit code of a container that has failed as the rule demands.
fn exit_code<'a>(status: &'a Value, codes: &Value) -> Option<(&'a str, i64)> {
    let name = text(status, &["name"]);
    if at(codes, &["containerName"]).is_some_and(|wanted| wanted != name) {
        return None;
    }
    let code = number(status, &["state", "terminated", "exitCode"]).filter(|code| *code != 0)?;
    let is_listed = list(codes, &["values"]).contains(&code.into());
    let is_wanted = match text(codes, &["operator"]) {
        "In" => is_listed,
        "NotIn" => !is_listed,
        _ => false,
    };
    is_wanted.then_some((name, code))
}
