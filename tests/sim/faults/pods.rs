//! Injects faults into pods, and creates pods that no driver requested.

use boatswain::model::{ExecutorId, ResourceVersion};
use devcluster::State;
use serde_json::{Value, json};

use crate::checks::{PREFIX, is_healthy};
use crate::leaving_nodes::Ends;
use crate::node::{Exited, PodFault, node_name};
use crate::objects::{NAMESPACE, is_terminating, label, text};
use crate::script::{Fault, ForgedLabels};
use crate::trace::trace_line;
use crate::world::World;

/// A finalizer that keeps a deleted pod.
const FINALIZER: &str = "example.com/hold";

/// An incarnation that no driver reaches.
const FUTURE_INCARNATION: &str = "999";

impl World {
    /// The executors of a node that goes down are not heard again.
    fn silence_node(&mut self, pick: u64, state: &State) {
        let node = node_name(pick);
        let Some(sessions) = &mut self.sessions else {
            return;
        };
        if self.nodes.objects.are_watched() {
            let pods = (state.pods(NAMESPACE)).filter(|pod| text(pod, "/spec/nodeName") == node);
            sessions.fall_silent(pods.map(|pod| text(pod, "/metadata/uid").to_owned()));
        }
    }

    async fn inject_node_fault(&mut self, fault: Fault) {
        let state = self.cluster.state().await;
        let ended = match fault {
            Fault::NodeDown { pick, time, evicts } => {
                self.silence_node(pick, &state);
                self.nodes.take_node_down(pick, time, evicts, &state).await
            }
            Fault::NodeHasLeft { pick } => self.nodes.end_leaving(pick, &state).await,
            Fault::NodeLeaves { pick, time, ends } => {
                if let Some(node) = self.nodes.begin_leaving(pick, ends) {
                    self.checks.excuses.leaving_nodes.insert(node.to_owned());
                    if ends != Ends::Never {
                        self.undo_after(time, Fault::NodeHasLeft { pick });
                    }
                }
                return;
            }
            _ => return,
        };
        for (pod, how) in ended {
            self.note_pod_fault(&pod, how).await;
        }
    }

    pub(super) async fn inject_pod_fault(&mut self, fault: Fault) {
        match fault {
            Fault::EndExecutors { pick, count, how } => {
                // A container that has ended is never reported as anything else.
                let runs = |pod: &Value| text(pod, "/status/phase") == "Running" && is_healthy(pod);
                for pod in self.executors(pick, count, runs).await {
                    self.nodes.end(&pod, how).await;
                    self.note_pod_fault(&pod, how).await;
                }
            }
            Fault::CrashLoop { pick, time, code } => {
                if let Some(profile) = self.profile(pick) {
                    self.nodes.crash_profile(&profile, time, code);
                }
            }
            Fault::Startup { pick, what, time } => {
                if let Some(profile) = self.profile(pick) {
                    self.nodes.add_startup_fault(&profile, what, time);
                }
            }
            Fault::NodeDown { .. } | Fault::NodeLeaves { .. } | Fault::NodeHasLeft { .. } => {
                self.inject_node_fault(fault).await;
            }
            Fault::Delete { pick, count, grace } => {
                for pod in self.executors(pick, count, |_| true).await {
                    let (name, uid) = (text(&pod, "/metadata/name"), text(&pod, "/metadata/uid"));
                    let code = self.client.delete(name, uid, grace).await;
                    trace_line!("   {name} is deleted: {code}");
                }
            }
            Fault::BlockDeletion { pick } => {
                for pod in self.executors(pick, 1, |_| true).await {
                    let (name, uid) = (text(&pod, "/metadata/name"), text(&pod, "/metadata/uid"));
                    self.nodes.block_deletion(uid);
                    self.client.delete(name, uid, Some(1)).await;
                    trace_line!("   {name} is deleted and stays");
                }
            }
            Fault::Finalizer { pick, delete, time } => {
                self.add_finalizer(pick, delete).await;
                self.undo_after(time, Fault::RemoveFinalizers);
            }
            Fault::RemoveFinalizers => self.remove_finalizers().await,
            Fault::Relabel { pick, key, value } => {
                for pod in self.executors(pick, 1, |_| true).await {
                    let (name, uid) = (text(&pod, "/metadata/name"), text(&pod, "/metadata/uid"));
                    self.checks.excuses.relabelled.insert(uid.to_owned());
                    let patch = json!({"metadata": {"labels": {key: value}}});
                    let code = self.client.patch(name, &patch).await;
                    trace_line!("   {name} is relabelled: {code}");
                }
            }
            Fault::DuplicateId { pick } => self.duplicate_id(pick).await,
            Fault::DeleteUnrecognised => self.delete_unrecognised().await,
            Fault::CopyPod { pick } => {
                for pod in self.executors(pick, 1, |_| true).await {
                    let name = format!("{}-copy", text(&pod, "/metadata/name"));
                    self.create_foreign_pod(&name, pod["metadata"]["labels"].clone())
                        .await;
                }
            }
            Fault::ReuseEndedId { pick } => self.create_pod_of_ended_executor(pick).await,
            Fault::OccupyName { ahead } => {
                let next = self.newest_id().await + 1 + ahead;
                let labels = json!({"app": "something-else"});
                self.create_foreign_pod(&format!("{PREFIX}-exec-{next}"), labels)
                    .await;
            }
            Fault::ForgePod { pick, labels } => self.create_forged_pod(pick, labels).await,
            _ => {}
        }
    }

    /// Notes a fault injected into a pod. A container that is restarted does not end its executor.
    async fn note_pod_fault(&mut self, pod: &Value, how: PodFault) {
        let uid = text(pod, "/metadata/uid");
        match how {
            // Noted when the node carries it out.
            PodFault::Exit(_) if !self.script.is_of_sets() => {}
            PodFault::Exit(_) => self.checks.note_pod_fault(uid, how, None),
            PodFault::OutOfMemory if self.script.is_of_sets() => {
                // The container may be about to exit anyway, or be restarted and exit then.
                for how in [how, PodFault::Exit(137)] {
                    self.checks.note_pod_fault(uid, how, None);
                }
            }
            _ => {
                let version = self.version_of(text(pod, "/metadata/name"), uid).await;
                self.checks.note_pod_fault(uid, how, version);
            }
        }
    }

    /// The present version of a pod.
    async fn version_of(&self, name: &str, uid: &str) -> Option<ResourceVersion> {
        let state = self.cluster.state().await;
        let pod = (state.pod(NAMESPACE, name)).filter(|pod| text(pod, "/metadata/uid") == uid)?;
        ResourceVersion::parse(text(pod, "/metadata/resourceVersion"))
    }

    /// Notes the exits of containers that nodes have carried out.
    pub async fn note_exits(&mut self) {
        for exited in self.nodes.take_exited() {
            let Exited { name, uid, .. } = &exited;
            // A container that is restarted hides its exit.
            let version = match exited.is_restarted {
                true => None,
                false => self.version_of(name, uid).await,
            };
            (self.checks).note_pod_fault(uid, PodFault::Exit(exited.code), version);
        }
    }

    async fn add_finalizer(&mut self, pick: u64, delete: bool) {
        for pod in self.executors(pick, 1, |_| true).await {
            let (name, uid) = (text(&pod, "/metadata/name"), text(&pod, "/metadata/uid"));
            let patch = json!({"metadata": {"finalizers": [FINALIZER]}});
            let code = self.client.patch(name, &patch).await;
            trace_line!("   {name} gets a finalizer: {code}");
            if delete {
                self.client.delete(name, uid, None).await;
            }
        }
    }

    pub(super) fn profile(&self, pick: u64) -> Option<String> {
        let profiles = &self.script.config.profiles;
        let profile = profiles.keys().nth(pick as usize % profiles.len())?;
        Some(profile.as_str().to_owned())
    }

    /// Removes all finalizers.
    async fn remove_finalizers(&mut self) {
        let state = self.cluster.state().await;
        for pod in state.pods(NAMESPACE) {
            let finalizers = pod["metadata"]["finalizers"].as_array();
            if finalizers
                .is_some_and(|finalizers| finalizers.iter().any(|finalizer| finalizer == FINALIZER))
            {
                let name = text(pod, "/metadata/name");
                let patch = json!({"metadata": {"finalizers": null}});
                let code = self.client.patch(name, &patch).await;
                trace_line!("   {name} loses its finalizer: {code}");
            }
        }
    }

    /// Removes all scheduling gates.
    pub(super) async fn remove_gates(&mut self) {
        let state = self.cluster.state().await;
        for pod in state.pods(NAMESPACE) {
            if pod.pointer("/spec/schedulingGates").is_some() {
                let name = text(pod, "/metadata/name");
                let patch = json!({"spec": {"schedulingGates": null}});
                let code = self.client.patch(name, &patch).await;
                trace_line!("   {name} loses its scheduling gates: {code}");
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
    async fn create_foreign_pod(&mut self, name: &str, labels: Value) {
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "executor", "image": "none"}],
            },
        });
        let code = self.client.create(&pod).await;
        trace_line!("   {name} is created by no driver: {code}");
        let state = self.cluster.state().await;
        let created = state.pod(NAMESPACE, name).filter(|_| code == 201);
        let uid = created.map(|pod| text(pod, "/metadata/uid").to_owned());
        // If incarnations began again at 1, living pods may carry higher ones than the driver's, and so may their
        // copies.
        let incarnation = label(&pod, "boatswain.dev/incarnation").parse::<u64>().ok();
        if incarnation > (self.youngest()).and_then(|number| self.checks.incarnation(number)) {
            let named = &mut self.checks.excuses.future_incarnation;
            named.extend(uid.clone().zip(incarnation));
        }
        self.checks.excuses.foreign.extend(uid);
    }

    /// Creates a pod with the name and the labels of an executor that has ended.
    async fn create_pod_of_ended_executor(&mut self, pick: u64) {
        let Some(ended) = self.youngest().and_then(|number| {
            let ledger = self.checks.last_ledger(number)?;
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
        self.create_foreign_pod(&format!("{PREFIX}-exec-{ended}"), labels)
            .await;
    }

    async fn create_forged_pod(&mut self, pick: u64, forged: ForgedLabels) {
        let like = self.executors(pick, 1, |_| true).await;
        let Some(like) = like.first() else { return };
        let mut labels = like["metadata"]["labels"].clone();
        let next = self.newest_id().await + 1 + pick % 5;
        let mut name = format!("{PREFIX}-exec-{next}");
        let mut set_label =
            |key: &str, value: &str| labels[format!("boatswain.dev/{key}")] = value.into();
        match forged {
            ForgedLabels::AnotherApplication => {
                set_label("app-id", "another");
                name = format!("another-exec-{next}");
            }
            ForgedLabels::AnotherApplicationOurName => set_label("app-id", "another"),
            ForgedLabels::AnotherId => set_label("executor-id", &(next + 1).to_string()),
            ForgedLabels::FutureId => set_label("executor-id", &next.to_string()),
            ForgedLabels::FutureIncarnation => {
                set_label("executor-id", &next.to_string());
                set_label("incarnation", FUTURE_INCARNATION);
            }
            ForgedLabels::InvalidId => set_label("executor-id", "-1x"),
            ForgedLabels::UnknownProfile => {
                set_label("executor-id", &next.to_string());
                set_label("profile", "no-such-profile");
            }
        }
        self.create_foreign_pod(&name, labels).await;
    }
}
