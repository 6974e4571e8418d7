//! Injects faults into pods, and creates pods that no driver requested.

use boatswain::model::ExecutorId;
use serde_json::{Value, json};

use crate::checks::PREFIX;
use crate::node::Mishap;
use crate::objects::{NAMESPACE, is_terminating, label, text};
use crate::script::{Fault, Lie};
use crate::trace::say;
use crate::world::World;

/// A finalizer that keeps a deleted pod.
const FINALIZER: &str = "example.com/hold";

/// An incarnation that no driver reaches.
const UNBORN: &str = "999";

impl World {
    pub(super) async fn befall_pods(&mut self, fault: Fault) {
        match fault {
            Fault::End { pick, count, how } => {
                let runs = |pod: &Value| text(pod, "/status/phase") == "Running";
                for pod in self.executors(pick, count, runs).await {
                    self.checks.mishap(text(&pod, "/metadata/uid"), how);
                    if self.script.is_of_sets() && how == Mishap::OutOfMemory {
                        // The container may be about to exit anyway, or be restarted and exit then.
                        let other = Mishap::Exit(137);
                        self.checks.mishap(text(&pod, "/metadata/uid"), other);
                    }
                    self.node.end(&pod, how).await;
                }
            }
            Fault::CrashLoop { pick, time, code } => {
                if let Some(profile) = self.profile(pick) {
                    self.node.crash_all(&profile, time, code);
                }
            }
            Fault::Plague { pick, what, time } => {
                if let Some(profile) = self.profile(pick) {
                    self.node.plague(&profile, what, time);
                }
            }
            Fault::NodeDown { pick, time, evicts } => {
                let state = self.cluster.state().await;
                for (uid, how) in self.node.go_down(pick, time, evicts, &state).await {
                    self.checks.mishap(&uid, how);
                }
            }
            Fault::Delete { pick, count, grace } => {
                for pod in self.executors(pick, count, |_| true).await {
                    let (name, uid) = (text(&pod, "/metadata/name"), text(&pod, "/metadata/uid"));
                    let code = self.hand.delete(name, uid, grace).await;
                    say!("   {name} is deleted: {code}");
                }
            }
            Fault::Stick { pick } => {
                for pod in self.executors(pick, 1, |_| true).await {
                    let (name, uid) = (text(&pod, "/metadata/name"), text(&pod, "/metadata/uid"));
                    self.node.get_stuck(uid);
                    self.hand.delete(name, uid, Some(1)).await;
                    say!("   {name} does not go");
                }
            }
            Fault::Finalizer { pick, delete, time } => {
                self.hold_by_finalizer(pick, delete).await;
                self.later(time, Fault::NoFinalizers);
            }
            Fault::NoFinalizers => self.let_go().await,
            Fault::Relabel { pick, key, value } => {
                for pod in self.executors(pick, 1, |_| true).await {
                    let (name, uid) = (text(&pod, "/metadata/name"), text(&pod, "/metadata/uid"));
                    self.checks.excuses.relabelled.insert(uid.to_owned());
                    let patch = json!({"metadata": {"labels": {key: value}}});
                    let code = self.hand.patch(name, &patch).await;
                    say!("   {name} is relabelled: {code}");
                }
            }
            Fault::Rename { pick } => self.rename(pick).await,
            Fault::NoStrangers => self.forget_unrecognised().await,
            Fault::Copy { pick } => {
                for pod in self.executors(pick, 1, |_| true).await {
                    let name = format!("{}-copy", text(&pod, "/metadata/name"));
                    self.plant(&name, pod["metadata"]["labels"].clone()).await;
                }
            }
            Fault::Revenant { pick } => self.raise_the_dead(pick).await,
            Fault::Namesake { ahead } => {
                let next = self.newest_id().await + 1 + ahead;
                let labels = json!({"app": "something-else"});
                self.plant(&format!("{PREFIX}-exec-{next}"), labels).await;
            }
            Fault::Liar { pick, lie } => self.plant_a_liar(pick, lie).await,
            _ => {}
        }
    }

    async fn hold_by_finalizer(&mut self, pick: u64, delete: bool) {
        for pod in self.executors(pick, 1, |_| true).await {
            let (name, uid) = (text(&pod, "/metadata/name"), text(&pod, "/metadata/uid"));
            let patch = json!({"metadata": {"finalizers": [FINALIZER]}});
            let code = self.hand.patch(name, &patch).await;
            say!("   {name} is held: {code}");
            if delete {
                self.hand.delete(name, uid, None).await;
            }
        }
    }

    pub(super) fn profile(&self, pick: u64) -> Option<String> {
        let profiles = &self.script.config.profiles;
        let profile = profiles.keys().nth(pick as usize % profiles.len())?;
        Some(profile.as_str().to_owned())
    }

    /// Removes all finalizers.
    async fn let_go(&mut self) {
        let state = self.cluster.state().await;
        for pod in state.pods(NAMESPACE) {
            let held = pod["metadata"]["finalizers"].as_array();
            if held.is_some_and(|held| held.iter().any(|finalizer| finalizer == FINALIZER)) {
                let name = text(pod, "/metadata/name");
                let patch = json!({"metadata": {"finalizers": null}});
                let code = self.hand.patch(name, &patch).await;
                say!("   {name} is held no more: {code}");
            }
        }
    }

    /// Removes all scheduling gates.
    pub(super) async fn open_gates(&mut self) {
        let state = self.cluster.state().await;
        for pod in state.pods(NAMESPACE) {
            if pod.pointer("/spec/schedulingGates").is_some() {
                let name = text(pod, "/metadata/name");
                let patch = json!({"spec": {"schedulingGates": null}});
                let code = self.hand.patch(name, &patch).await;
                say!("   {name} is held back no more: {code}");
            }
        }
    }

    /// At most `count` executor pods in the order of their names, beginning at a picked one.
    pub(super) async fn executors(
        &self,
        pick: u64,
        count: usize,
        which: impl Fn(&Value) -> bool,
    ) -> Vec<Value> {
        let state = self.cluster.state().await;
        let mut pods: Vec<Value> = state
            .pods(NAMESPACE)
            .filter(|pod| label(pod, "boatswain.dev/role") == "executor")
            .filter(|pod| !is_terminating(pod) && which(pod))
            .cloned()
            .collect();
        if !pods.is_empty() {
            let first = pick as usize % pods.len();
            pods.rotate_left(first);
        }
        pods.truncate(count);
        pods
    }

    async fn newest_id(&self) -> u64 {
        let state = self.cluster.state().await;
        state
            .pods(NAMESPACE)
            .filter_map(|pod| label(pod, "boatswain.dev/executor-id").parse().ok())
            .filter(|id| *id < 1_000_000)
            .max()
            .unwrap_or(0)
    }

    /// Creates a pod that no driver requested.
    async fn plant(&mut self, name: &str, labels: Value) {
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "executor", "image": "none"}],
            },
        });
        let code = self.hand.create(&pod).await;
        say!("   {name} is planted: {code}");
        let state = self.cluster.state().await;
        let planted = state.pod(NAMESPACE, name).filter(|_| code == 201);
        let uid = planted.map(|pod| text(pod, "/metadata/uid").to_owned());
        // If incarnations began again at 1, living pods may carry higher ones than the driver's, and so may their
        // copies.
        let asked_by = label(&pod, "boatswain.dev/incarnation").parse::<u64>().ok();
        if asked_by > (self.youngest()).and_then(|number| self.checks.incarnation(number)) {
            self.checks.excuses.unborn.extend(uid.clone());
        }
        self.checks.excuses.planted.extend(uid);
    }

    /// Creates a pod with the name and the labels of an executor that has ended.
    async fn raise_the_dead(&mut self, pick: u64) {
        let Some(ended) = self.youngest().and_then(|number| {
            let ledger = self.checks.last(number)?;
            let newest = ledger.entries.keys().next_back()?.get();
            let oldest = ledger.first_free?.get();
            let ended = (oldest..newest).filter_map(ExecutorId::new);
            let ended: Vec<_> = ended.filter(|id| ledger.ended.contains(*id)).collect();
            ended.get(pick as usize % ended.len().max(1)).copied()
        }) else {
            return;
        };
        let like = self.executors(0, 1, |_| true).await;
        let Some(mut labels) = like.first().map(|pod| pod["metadata"]["labels"].clone()) else {
            return;
        };
        labels["boatswain.dev/executor-id"] = ended.to_string().into();
        self.plant(&format!("{PREFIX}-exec-{ended}"), labels).await;
    }

    async fn plant_a_liar(&mut self, pick: u64, lie: Lie) {
        let like = self.executors(pick, 1, |_| true).await;
        let Some(like) = like.first() else { return };
        let mut labels = like["metadata"]["labels"].clone();
        let next = self.newest_id().await + 1 + pick % 5;
        let mut name = format!("{PREFIX}-exec-{next}");
        let mut says =
            |key: &str, value: &str| labels[format!("boatswain.dev/{key}")] = value.into();
        match lie {
            Lie::AnotherApplication => {
                says("app-id", "another");
                name = format!("another-exec-{next}");
            }
            Lie::AnotherApplicationsName => says("app-id", "another"),
            Lie::AnotherId => says("executor-id", &(next + 1).to_string()),
            Lie::FromTheFuture => says("executor-id", &next.to_string()),
            Lie::OfAnIncarnationToCome => {
                says("executor-id", &next.to_string());
                says("incarnation", UNBORN);
            }
            Lie::NoId => says("executor-id", "-1x"),
            Lie::NoProfile => {
                says("executor-id", &next.to_string());
                says("profile", "no-such-profile");
            }
        }
        self.plant(&name, labels).await;
    }
}
