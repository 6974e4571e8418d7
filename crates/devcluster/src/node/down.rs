//! Stands in for the node lifecycle controller, the taint manager and the scheduler while the node is injected as not
//! ready or deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::fault_injection::{FaultReceiver, NodeState};
use super::register::{self, TAINTED};
use super::{bind, carry_out, remove};
use crate::changes::delete::DeleteOptions;
use crate::changes::write::{Part, Write, seconds};
use crate::objects::object::{Key, Object, condition, list, set, text};
use crate::objects::pod::{self, set_condition, set_explained};
use crate::objects::resource::Resource;
use crate::objects::taints::{self, UNREACHABLE};
use crate::storage::follow::Follower;
use crate::storage::server::Store;
use crate::storage::store::State;

/// The scheduler's message if there is no node.
const NO_NODES: &str = "no nodes available to schedule pods";

/// Why this stand-in ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DownEnd {
    /// The injected state has changed.
    Changed,
    /// The cluster stops.
    Stopped,
}

struct Down<'a> {
    store: &'a Store,
    name: &'a str,
    node_state: NodeState,
    /// When each pod was first seen on the tainted node, by uid.
    since: BTreeMap<String, Instant>,
}

/// Acts for the node until its injected state changes. Events until then are consumed and not passed on to the node.
pub(super) async fn serve(
    store: &Store,
    name: &str,
    follower: &mut Follower,
    fault_receiver: &mut FaultReceiver,
) -> DownEnd {
    let mut down = Down {
        store,
        name,
        node_state: fault_receiver.node_state(),
        since: BTreeMap::new(),
    };
    loop {
        let next = down.step().await;
        tokio::select! {
            biased;
            update = follower.next() => if update.is_none() {
                return DownEnd::Stopped;
            },
            () = fault_receiver.changed() => return DownEnd::Changed,
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
    }
}

impl Down<'_> {
    /// Carries out what is due, and returns when the next eviction is due.
    async fn step(&mut self) -> Option<Instant> {
        let state = self.store.state();
        self.mark_node(&state).await;
        let mut next: Option<Instant> = None;
        for pod in state.list(Resource::Pods, None) {
            let on = text(pod.value(), &["spec", "nodeName"]);
            let writes = match self.node_state {
                _ if on.is_empty() && !pod.is_terminating() => self.schedule(pod),
                NodeState::Gone if on == self.name => self.collect_garbage(pod),
                NodeState::NotReady { evict_after } if on == self.name && !pod.is_terminating() => {
                    match self.evict_at(pod, evict_after) {
                        Some(at) if at <= Instant::now() => self.evict(pod),
                        at => {
                            next = next.into_iter().chain(at).min();
                            self.mark_not_ready(pod)
                        }
                    }
                }
                _ => Vec::new(),
            };
            for write in writes {
                carry_out(self.store, write).await;
            }
        }
        next
    }

    async fn mark_node(&self, state: &State) {
        let key = Key::new(Resource::Nodes, "", self.name);
        let Some(node) = state.get(&key) else {
            return;
        };
        if self.node_state == NodeState::Gone {
            let options = DeleteOptions::default();
            return carry_out(self.store, Write::Delete { key, options }).await;
        }
        if register::is_marked_unreachable(node) {
            return;
        }
        let now = Value::from(seconds(self.store.clock().now()));
        let mut conditions = list(node.value(), &["status", "conditions"]).to_vec();
        for condition in &mut conditions {
            for (field, value) in [
                ("status", "Unknown"),
                ("reason", "NodeStatusUnknown"),
                ("message", "Kubelet stopped posting node status."),
            ] {
                set(condition, &[field], value.into());
            }
            set(condition, &["lastTransitionTime"], now.clone());
        }
        let mut taints = register::other_taints(node);
        taints.extend(
            ["NoSchedule", "NoExecute"]
                .map(|effect| json!({"key": UNREACHABLE, "effect": effect, "timeAdded": now})),
        );
        let status = json!({"status": {"conditions": conditions}});
        let spec = json!({"spec": {"taints": taints}});
        for (part, patch) in [(Part::Status, status), (Part::Main, spec)] {
            carry_out(self.store, Write::merge_patch(&key, part, patch)).await;
        }
    }

    /// Handles a pod that is not bound yet.
    fn schedule(&self, pod: &Object) -> Vec<Write> {
        let now = self.store.clock().now();
        match self.node_state {
            NodeState::Gone => register::mark_unschedulable(pod, NO_NODES, now)
                .into_iter()
                .collect(),
            _ if tolerated(pod, "NoSchedule") != Some(Duration::ZERO) => vec![bind(pod, self.name)],
            _ => register::mark_unschedulable(pod, TAINTED, now)
                .into_iter()
                .collect(),
        }
    }

    /// When a pod is to be evicted; `None` if it tolerates the taint without limit.
    fn evict_at(&mut self, pod: &Object, at_the_latest: Option<Duration>) -> Option<Instant> {
        let since = *self
            .since
            .entry(pod.uid().to_owned())
            .or_insert_with(Instant::now);
        let toleration_time = tolerated(pod, "NoExecute")?;
        let wait = at_the_latest.map_or(toleration_time, |latest| toleration_time.min(latest));
        since.checked_add(wait)
    }

    /// Sets the pod's `Ready` condition to false, as the node lifecycle controller does.
    fn mark_not_ready(&self, pod: &Object) -> Vec<Write> {
        let ready = condition(pod.value(), "Ready") == "True";
        let now = seconds(self.store.clock().now()).into();
        let not_ready = |value: &mut Value| set_condition(value, "Ready", false, &now);
        ready
            .then(|| report(pod, None, not_ready))
            .into_iter()
            .collect()
    }

    /// Evicts a pod as the taint manager does: it is deleted, but no kubelet is there to terminate it.
    fn evict(&self, pod: &Object) -> Vec<Write> {
        let message = "Taint manager: deleting due to NoExecute taint";
        let reported = self.disrupted(pod, None, ("DeletionByTaintManager", message));
        vec![reported, Write::delete(pod)]
    }

    /// Removes a pod whose node was deleted, as the pod garbage collector does.
    fn collect_garbage(&self, pod: &Object) -> Vec<Write> {
        let removed = remove(pod.key(), pod.uid());
        if pod::has_ended(pod) {
            return vec![removed];
        }
        let why = ("DeletionByPodGC", "PodGC: node no longer exists");
        let reported = self.disrupted(pod, Some("Failed"), why);
        vec![reported, removed]
    }

    fn disrupted(&self, pod: &Object, phase: Option<&str>, why: (&str, &str)) -> Write {
        let now = seconds(self.store.clock().now()).into();
        report(pod, phase, |value| {
            set_explained(value, "DisruptionTarget", true, why, &now);
        })
    }
}

fn report(pod: &Object, phase: Option<&str>, change: impl FnOnce(&mut Value)) -> Write {
    let mut value = pod.value().clone();
    change(&mut value);
    let mut status = json!({"conditions": value["status"]["conditions"]});
    if let Some(phase) = phase {
        status["phase"] = phase.into();
    }
    Write::report(pod, status)
}

/// Whether, and for how long, a pod tolerates the unreachable taint with this effect; `None` without limit.
fn tolerated(pod: &Object, effect: &str) -> Option<Duration> {
    taints::tolerated_for(pod, &[&json!({"key": UNREACHABLE, "effect": effect})])
}
