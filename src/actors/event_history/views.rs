//! Executors as the API shows them (spec O-43), made from a snapshot on request.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use serde::Serialize;

use crate::actors::executor_registry::view::SessionView;
use crate::model::executor::Class;
use crate::model::node::Nodes;
use crate::model::{Entry, ExecutorId, Snapshot, Tick};

/// A live executor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExecutorView {
    pub executor: u64,
    pub profile: String,
    /// One of [`STATES`](crate::model::executor::STATES).
    pub state: &'static str,
    /// How long this driver has known it, in seconds.
    pub age_seconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its node's zone, how that is paid for, and why it is about to leave the cluster, if nodes are watched (spec
    /// W-15).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_leaves: Option<String>,
    /// Whether its node's kubelet answers, if nodes are watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_ready: Option<bool>,
    /// Its pod's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<IpAddr>,
    /// What its pod waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The incarnation that requested it.
    pub incarnation: u64,
    /// Its session, if it has registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionView>,
}

/// One of [`STATES`](crate::model::executor::STATES), or "ended". An executor is `uncertain` while its pod is missing
/// from a list or its state is unreadable.
pub fn state(class: Class) -> &'static str {
    match class {
        Class::Sent => "requested",
        Class::Unknown => "unanswered",
        Class::Pending(_) => "pending",
        Class::Running => "running",
        Class::Odd | Class::Absent => "uncertain",
        Class::Leaving | Class::Terminating => "leaving",
        Class::Finished | Class::Gone => "ended",
    }
}

impl ExecutorView {
    pub fn of(entry: &Entry, nodes: &Nodes, session: Option<SessionView>, now: Tick) -> Self {
        let pod = entry.pod();
        let node = nodes.of(entry);
        let leaving = nodes.leaving_of(entry);
        let text = |text: &Arc<str>| text.to_string();
        Self {
            executor: entry.id.get(),
            profile: entry.profile.to_string(),
            state: state(entry.class()),
            age_seconds: now.since(entry.since).as_secs(),
            pod: pod.map(|pod| pod.name.to_string()),
            node: pod.and_then(|pod| pod.node.as_deref()).map(str::to_owned),
            zone: node.and_then(|node| node.zone.as_ref().map(text)),
            capacity_type: node.and_then(|node| node.capacity_type.as_ref().map(text)),
            node_leaves: leaving.map(|(_, leaving)| text(&leaving.why)),
            node_ready: node.map(|node| node.ready),
            ip: pod.and_then(|pod| pod.ip),
            why: pod.and_then(|pod| pod.why_pending()),
            incarnation: entry.incarnation.0,
            session,
        }
    }
}

/// Which of the live executors are listed; by default all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    pub profile: Option<String>,
    /// One of [`STATES`](crate::model::executor::STATES).
    pub state: Option<String>,
    pub ip: Option<IpAddr>,
    /// Only those with higher ids.
    pub after: Option<ExecutorId>,
    /// The most that are listed.
    pub limit: Option<usize>,
}

impl Selection {
    fn takes(&self, entry: &Entry) -> bool {
        let ip = || entry.pod().and_then(|pod| pod.ip);
        let is = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|it| it == is);
        !entry.has_ended()
            && is(&self.profile, entry.profile.as_str())
            && is(&self.state, state(entry.class()))
            && (self.ip.is_none() || ip() == self.ip)
    }
}

/// Live executors, by id.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ExecutorList {
    pub executors: Vec<ExecutorView>,
    /// The last one of them, if there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_after: Option<ExecutorId>,
}

/// The executors of a selection: O(executors).
pub fn living(
    snapshot: &Snapshot,
    selection: &Selection,
    mut sessions: BTreeMap<ExecutorId, SessionView>,
    now: Tick,
) -> ExecutorList {
    let mut selected = (snapshot.entries.values())
        .skip_while(|entry| selection.after.is_some_and(|after| entry.id <= after))
        .filter(|entry| selection.takes(entry));
    let executors: Vec<ExecutorView> = (selected.by_ref())
        .take(selection.limit.unwrap_or(usize::MAX))
        .map(|entry| ExecutorView::of(entry, &snapshot.nodes, sessions.remove(&entry.id), now))
        .collect();
    let last = executors
        .last()
        .and_then(|last| ExecutorId::new(last.executor));
    ExecutorList {
        more_after: selected.next().and(last),
        executors,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::news::{News, Outcome};
    use crate::model::node::Node;
    use crate::testing::{Scenario, running};

    // spec: O-43, W-15
    #[test]
    fn an_executor_shows_its_nodes_zone_and_capacity_type_whether_it_is_ready_and_why_it_leaves() {
        let mut scenario = Scenario::new(&[("default", 1)]);
        let node = |leaves: Option<&str>| Node {
            name: "n1".into(),
            zone: Some("north".into()),
            capacity_type: Some("spot".into()),
            ready: true,
            leaves: leaves.map(Arc::from),
        };
        scenario.tell(News::Nodes(vec![node(None)]));
        let profile = "default".into();
        scenario.requested(1, Outcome::Sent { profile });
        scenario.created(1);
        let mut pod = running(scenario.pod(1));
        pod.node = Some("n1".into());
        scenario.observe(pod);
        let shown = |scenario: &Scenario| {
            let snapshot = scenario.current();
            let list = living(
                snapshot,
                &Selection::default(),
                BTreeMap::new(),
                snapshot.at,
            );
            let one = list.executors[0].clone();
            (one.zone, one.capacity_type, one.node_leaves, one.node_ready)
        };
        let text = |text: &str| Some(text.to_owned());
        let ready = Some(true);
        assert_eq!(shown(&scenario), (text("north"), text("spot"), None, ready));
        scenario.tell(News::Node(Node {
            ready: false,
            ..node(Some("it is cordoned"))
        }));
        assert_eq!(shown(&scenario).3, Some(false));
        assert_eq!(shown(&scenario).2, text("it is cordoned"));
        assert_eq!(shown(&scenario).0, text("north"));
    }
}
