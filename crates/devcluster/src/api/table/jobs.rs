//! The table columns and cells of Jobs.

use jiff::Timestamp;
use serde_json::Value;

use super::columns::{CONTAINERS, IMAGES, SELECTOR};
use super::{AGE, Column, NAME, age};
use crate::objects::object::{at, condition, number, text};

pub(super) const COLUMNS: [Column; 8] = [
    NAME,
    Column::text("Status", "Status of the job."),
    Column::text(
        "Completions",
        "The number of pods that have succeeded, and how many must.",
    ),
    Column::text("Duration", "Time required to complete the job."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

/// The cells after the name and before the age.
pub(super) fn cells(job: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        state(job).into(),
        completions(job).into(),
        duration(job, now).into(),
    ]
}

fn state(job: &Value) -> &'static str {
    let holds = |kind: &str| condition(job, kind) == "True";
    let is_terminating = at(job, &["metadata", "deletionTimestamp"]).is_some();
    match () {
        () if holds("Complete") => "Complete",
        () if holds("Failed") => "Failed",
        () if is_terminating => "Terminating",
        () if holds("Suspended") => "Suspended",
        () if holds("FailureTarget") => "FailureTarget",
        () if holds("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(job: &Value) -> String {
    let succeeded = number(job, &["status", "succeeded"]).unwrap_or(0);
    let parallelism = number(job, &["spec", "parallelism"]).unwrap_or(0);
    match number(job, &["spec", "completions"]) {
        Some(completions) => format!("{succeeded}/{completions}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    }
}

fn duration(job: &Value, now: Timestamp) -> String {
    let time = |field: &str| text(job, &["status", field]).parse::<Timestamp>().ok();
    match (time("startTime"), time("completionTime")) {
        (None, _) => String::new(),
        (Some(_), end) => age::since(text(job, &["status", "startTime"]), end.unwrap_or(now)),
    }
}
