//! Taints of nodes, and tolerations of pods.

use std::time::Duration;

use serde_json::Value;

use super::object::{Object, list, number, text};

/// The taint of a node that does not report. What follows from it is left to the stand-in for that node.
pub(crate) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// The effect that ends pods.
pub(crate) const NO_EXECUTE: &str = "NoExecute";

/// The effect that keeps new pods away.
const NO_SCHEDULE: &str = "NoSchedule";

/// A node's taints with these effects.
pub(crate) fn of<'a>(node: &'a Object, effects: &'a [&str]) -> impl Iterator<Item = &'a Value> {
    let taints = list(node.value(), &["spec", "taints"]).iter();
    taints.filter(|taint| {
        text(taint, &["key"]) != UNREACHABLE && effects.contains(&text(taint, &["effect"]))
    })
}

/// Whether a pod tolerates all taints that keep new pods away from a node.
pub(crate) fn admits(node: &Object, pod: &Object) -> bool {
    of(node, &[NO_SCHEDULE, NO_EXECUTE]).all(|taint| toleration(pod, taint).is_some())
}

/// How long a pod stays on a node with these taints; `None` without limit.
pub(crate) fn tolerated_for(pod: &Object, taints: &[&Value]) -> Option<Duration> {
    let mut shortest: Option<i64> = None;
    for taint in taints {
        let Some(toleration) = toleration(pod, taint) else {
            return Some(Duration::ZERO);
        };
        let seconds = number(toleration, &["tolerationSeconds"]);
        shortest = shortest.into_iter().chain(seconds).min();
    }
    // A negative time counts as zero.
    shortest.map(|seconds| Duration::from_secs(seconds.try_into().unwrap_or(0)))
}

/// The first of a pod's tolerations that is for a taint.
fn toleration<'a>(pod: &'a Object, taint: &Value) -> Option<&'a Value> {
    let mut tolerations = list(pod.value(), &["spec", "tolerations"]).iter();
    tolerations.find(|toleration| {
        let of = |field: &str| text(toleration, &[field]);
        let is = |field: &str| of(field) == text(taint, &[field]);
        let any_value = of("operator") == "Exists";
        let key = is("key") || (of("key").is_empty() && any_value);
        key && (any_value || is("value")) && (of("effect").is_empty() || is("effect"))
    })
}
