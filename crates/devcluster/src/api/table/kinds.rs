//! The table cells of nodes and events.

use jiff::Timestamp;
use serde_json::Value;

use super::{NOTHING, age, or_nothing};
use crate::objects::object::{condition, entries, is_true, list, number, text, text_or};

pub(super) fn event(event: &Value, now: Timestamp) -> Vec<Value> {
    let since = |path: &[&str]| super::age::since(text(event, path), now);
    let is = |path: &[&str]| !text(event, path).is_empty();
    let first = match is(&["firstTimestamp"]) {
        true => since(&["firstTimestamp"]),
        false => since(&["eventTime"]),
    };
    let (last, count) = if let Some(series) = event.get("series") {
        let count = number(series, &["count"]).unwrap_or(0);
        (since(&["series", "lastObservedTime"]), count)
    } else {
        let last = match is(&["lastTimestamp"]) {
            true => since(&["lastTimestamp"]),
            false => first.clone(),
        };
        (
            last,
            number(event, &["count"]).filter(|c| *c != 0).unwrap_or(1),
        )
    };
    let about = text(event, &["involvedObject", "kind"]).to_lowercase();
    let about = match text(event, &["involvedObject", "name"]) {
        "" => about,
        named => format!("{about}/{named}"),
    };
    let source = match text(event, &["source", "component"]) {
        "" => [&["reportingComponent"][..], &["reportingInstance"]],
        _ => [&["source", "component"][..], &["source", "host"]],
    };
    let source = source.map(|path| text(event, path)).join(", ");
    vec![
        last.into(),
        text(event, &["type"]).into(),
        text(event, &["reason"]).into(),
        about.into(),
        text(event, &["involvedObject", "fieldPath"]).into(),
        source.trim_end_matches(", ").into(),
        text(event, &["message"]).trim().into(),
        first.into(),
        count.into(),
        text(event, &["metadata", "name"]).into(),
    ]
}

pub(super) fn node(node: &Value, now: Timestamp) -> Vec<Value> {
    let mut status = match condition(node, "Ready") {
        "True" => "Ready",
        "" => "Unknown",
        _ => "NotReady",
    }
    .to_owned();
    if is_true(node, &["spec", "unschedulable"]) {
        status.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<&str> = entries(node, &["metadata", "labels"])
        .filter_map(|(key, value)| match key.as_str() {
            "kubernetes.io/role" => value.as_str().filter(|v| !v.is_empty()),
            key => key
                .strip_prefix("node-role.kubernetes.io/")
                .filter(|r| !r.is_empty()),
        })
        .collect();
    roles.sort_unstable();
    let address = |kind: &str| {
        let found = list(node, &["status", "addresses"])
            .iter()
            .find(|a| text(a, &["type"]) == kind);
        found.map_or(NOTHING, |a| text(a, &["address"]))
    };
    let info = |field: &str| text_or(node, &["status", "nodeInfo", field], "<unknown>");
    vec![
        text(node, &["metadata", "name"]).into(),
        status.into(),
        or_nothing(&roles.join(",")).into(),
        age(node, now).into(),
        text(node, &["status", "nodeInfo", "kubeletVersion"]).into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        info("osImage").into(),
        info("kernelVersion").into(),
        info("containerRuntimeVersion").into(),
    ]
}

#[cfg(test)]
mod tests;
