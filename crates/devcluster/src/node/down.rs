//! What a cluster does about a node from which nothing is heard, or that is gone: the work of the controllers and the
//! scheduler, done in place of the node's own as long as that lasts.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::hardship::{Standing, Suffered};
use super::register::{self, UNREACHABLE};
use super::{bind, carry_out, remove};
use crate::changes::delete::DeleteOptions;
use crate::changes::write::{Part, Write, seconds};
use crate::objects::object::{Key, Object, list, set, text};
use crate::objects::pod::{set_condition, set_explained};
use crate::objects::resource::Resource;
use crate::storage::follow::Follower;
use crate::storage::server::Store;
use crate::storage::store::State;

/// What a scheduler says where every node is tainted.
const TAINTED: &str = "0/1 nodes are available: 1 node(s) had untolerated taint(s).";

/// What a scheduler says where there is no node.
const NO_NODES: &str = "no nodes available to schedule pods";

/// Why nothing is done about it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// The node suffers something else, or nothing.
    Changed,
    /// The cluster is being stopped.
    Stopped,
}

struct Down<'a> {
    store: &'a Store,
    name: &'a str,
    standing: Standing,
    /// Since when each pod has been on a node that is tainted, by uid.
    since: BTreeMap<String, Instant>,
}

/// Stands in for the node until it suffers something else. What happens meanwhile is not handed over.
pub(super) async fn serve(
    store: &Store,
    name: &str,
    follower: &mut Follower,
    suffered: &mut Suffered,
) -> Until {
    let mut down = Down {
        store,
        name,
        standing: suffered.standing(),
        since: BTreeMap::new(),
    };
    loop {
        let next = down.look().await;
        tokio::select! {
            biased;
            news = follower.next() => if news.is_none() {
                return Until::Stopped;
            },
            () = suffered.changed() => return Until::Changed,
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
    }
}

impl Down<'_> {
    /// Does what is to be done now, and tells when there will be more.
    async fn look(&mut self) -> Option<Instant> {
        let state = self.store.state();
        self.mark_node(&state).await;
        let mut next: Option<Instant> = None;
        for pod in state.list(Resource::Pods, None) {
            let on = text(pod.value(), &["spec", "nodeName"]);
            let writes = match self.standing {
                _ if on.is_empty() && !pod.is_terminating() => self.schedule(pod),
                Standing::Gone if on == self.name => self.collect(pod),
                Standing::NotReady { evict_after } if on == self.name && !pod.is_terminating() => {
                    match self.evict_at(pod, evict_after) {
                        Some(at) if at <= Instant::now() => self.evict(pod),
                        at => {
                            next = next.into_iter().chain(at).min();
                            self.doubt(pod)
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
        if self.standing == Standing::Gone {
            let options = DeleteOptions::default();
            return carry_out(self.store, Write::Delete { key, options }).await;
        }
        if register::is_unheard_of(node) {
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
        carry_out(
            self.store,
            register::patch(key.clone(), Part::Status, status),
        )
        .await;
        carry_out(self.store, register::patch(key, Part::Main, spec)).await;
    }

    /// A pod that has no node yet.
    fn schedule(&self, pod: &Object) -> Vec<Write> {
        let now = self.store.clock().now();
        match self.standing {
            Standing::Gone => register::refuse(pod, NO_NODES, now).into_iter().collect(),
            _ if tolerations(pod, "NoSchedule").next().is_some() => vec![bind(pod, self.name)],
            _ => register::refuse(pod, TAINTED, now).into_iter().collect(),
        }
    }

    /// When a pod is to be evicted, if it does not tolerate the node as it is for ever.
    fn evict_at(&mut self, pod: &Object, at_the_latest: Option<Duration>) -> Option<Instant> {
        let since = *self
            .since
            .entry(pod.uid().to_owned())
            .or_insert_with(Instant::now);
        let patience = patience(pod)?;
        let wait = at_the_latest.map_or(patience, |latest| patience.min(latest));
        since.checked_add(wait)
    }

    /// Whether a pod runs is not known any more.
    fn doubt(&self, pod: &Object) -> Vec<Write> {
        let ready = list(pod.value(), &["status", "conditions"])
            .iter()
            .any(|c| text(c, &["type"]) == "Ready" && text(c, &["status"]) == "True");
        let now = seconds(self.store.clock().now()).into();
        let doubted = |value: &mut Value| set_condition(value, "Ready", false, &now);
        ready
            .then(|| report(pod, None, doubted))
            .into_iter()
            .collect()
    }

    /// The taint manager's eviction: the pod is told to go, and nobody is there to hear it.
    fn evict(&self, pod: &Object) -> Vec<Write> {
        let told = self.disrupted(
            pod,
            None,
            "DeletionByTaintManager",
            "Taint manager: deleting due to NoExecute taint",
        );
        let options = DeleteOptions {
            uid: Some(pod.uid().to_owned()),
            ..DeleteOptions::default()
        };
        let key = pod.key().clone();
        vec![told, Write::Delete { key, options }]
    }

    /// The garbage collection of a pod whose node is gone.
    fn collect(&self, pod: &Object) -> Vec<Write> {
        let ended = matches!(
            text(pod.value(), &["status", "phase"]),
            "Succeeded" | "Failed"
        );
        let removed = remove(pod.key(), pod.uid());
        if ended {
            return vec![removed];
        }
        let told = self.disrupted(
            pod,
            Some("Failed"),
            "DeletionByPodGC",
            "PodGC: node no longer exists",
        );
        vec![told, removed]
    }

    fn disrupted(
        &self,
        pod: &Object,
        phase: Option<&'static str>,
        reason: &str,
        message: &str,
    ) -> Write {
        let now = seconds(self.store.clock().now()).into();
        let change = |value: &mut Value| {
            set_explained(value, "DisruptionTarget", true, (reason, message), &now);
        };
        report(pod, phase, change)
    }
}

/// A report on a pod whose conditions change so.
fn report(pod: &Object, phase: Option<&'static str>, change: impl FnOnce(&mut Value)) -> Write {
    let mut value = pod.value().clone();
    change(&mut value);
    let mut status = json!({"conditions": value["status"]["conditions"]});
    if let Some(phase) = phase {
        status["phase"] = phase.into();
    }
    Write::Report {
        key: pod.key().clone(),
        uid: pod.uid().to_owned(),
        status,
    }
}

/// A pod's tolerations of a node that cannot be reached, for one effect of the taint.
fn tolerations<'a>(pod: &'a Object, effect: &'a str) -> impl Iterator<Item = &'a Value> {
    list(pod.value(), &["spec", "tolerations"])
        .iter()
        .filter(move |t| {
            let of = |field: &str| text(t, &[field]);
            let any_value = of("operator") == "Exists";
            let key = of("key") == UNREACHABLE || (of("key").is_empty() && any_value);
            // The taint has no value.
            key && (any_value || of("value").is_empty())
                && (of("effect").is_empty() || of("effect") == effect)
        })
}

/// How long a pod stays on a node that cannot be reached: for ever where there is nothing here.
fn patience(pod: &Object) -> Option<Duration> {
    let mut tolerated = tolerations(pod, "NoExecute").peekable();
    if tolerated.peek().is_none() {
        return Some(Duration::ZERO);
    }
    // The shortest counts. One that has passed before it began is none at all.
    tolerated
        .filter_map(|t| t.get("tolerationSeconds").and_then(Value::as_i64))
        .min()
        .map(|s| Duration::from_secs(s.try_into().unwrap_or(0)))
}
