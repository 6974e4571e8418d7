//! Executors, as the API shows them (spec O-43): made from a snapshot when they are asked for.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::actors::executor_registry::view::SessionView;
use crate::model::executor::Class;
use crate::model::{Entry, ExecutorId, Snapshot, Tick};

/// An executor that lives.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExecutorView {
    /// Its id.
    pub executor: u64,
    /// Its profile.
    pub profile: String,
    /// How far it is, in one word.
    pub state: &'static str,
    /// For how long this driver has known of it, in seconds.
    pub age_seconds: u64,
    /// Its pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// What it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Which start of the driver asked for it.
    pub incarnation: u64,
    /// What it says of itself, if it has registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionView>,
}

/// A class in one word.
pub fn state(class: Class) -> &'static str {
    match class {
        Class::Sent => "requested",
        Class::Unknown => "unanswered",
        Class::Pending(_) => "pending",
        Class::Running => "running",
        Class::Odd | Class::Absent => "in-doubt",
        Class::Leaving | Class::Terminating => "leaving",
        Class::Finished | Class::Gone => "ended",
    }
}

impl ExecutorView {
    /// How this executor is shown.
    pub fn of(entry: &Entry, session: Option<SessionView>, now: Tick) -> Self {
        let pod = entry.pod();
        Self {
            executor: entry.id.get(),
            profile: entry.profile.to_string(),
            state: state(entry.class()),
            age_seconds: now.since(entry.since).as_secs(),
            pod: pod.map(|pod| pod.name.to_string()),
            node: pod.and_then(|pod| pod.node.as_deref()).map(str::to_owned),
            why: pod.and_then(|pod| pod.why_pending()),
            incarnation: entry.incarnation.0,
            session,
        }
    }
}

/// All executors that have not ended, by id: O(executors).
pub fn living(
    snapshot: &Snapshot,
    mut sessions: BTreeMap<ExecutorId, SessionView>,
    now: Tick,
) -> Vec<ExecutorView> {
    (snapshot.entries.values())
        .filter(|entry| !entry.has_ended())
        .map(|entry| ExecutorView::of(entry, sessions.remove(&entry.id), now))
        .collect()
}
