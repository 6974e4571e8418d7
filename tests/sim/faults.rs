//! What the script does to the world, one thing at a time.

use std::collections::BTreeMap;
use std::time::Duration;

use boatswain::config::OnSignal;
use boatswain::model::ProfileName;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::checks::PREFIX;
use crate::hand::{NAMESPACE, is_terminating, label, text};
use crate::script::Fault;
use crate::trace::say;
use crate::world::{World, find};

impl World {
    /// Does it.
    pub async fn befall(&mut self, fault: Fault) {
        match fault {
            Fault::Weather(weather) => self.network.net().weather = weather,
            Fault::CutWatches => self.cluster.cut_watches().await,
            Fault::SilenceWatches => self.network.net().silence_watches(),
            Fault::TearWatches => self.network.net().tear_watches(),
            Fault::Compact { cut } => {
                self.cluster.compact().await;
                if cut {
                    self.cluster.cut_watches().await;
                }
            }
            Fault::Empty => {
                self.cluster.empty().await;
                self.rewritten();
            }
            Fault::Backup => self.backup = Some(self.cluster.state().await),
            Fault::Restore => {
                if let Some(backup) = self.backup.clone() {
                    self.cluster.restore(backup).await;
                    self.rewritten();
                }
            }
            Fault::End { pick, count, code } => {
                for pod in self
                    .executors(pick, count, |pod| text(pod, "/status/phase") == "Running")
                    .await
                {
                    self.node.end(text(&pod, "/metadata/uid"), code);
                }
            }
            Fault::CrashLoop { pick, time, code } => {
                let profiles = &self.script.config.profiles;
                let profile = profiles.keys().nth(pick as usize % profiles.len());
                if let Some(profile) = profile {
                    self.node.crash_all(profile.as_str(), time, code);
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
            Fault::Relabel { pick, key, value } => {
                for pod in self.executors(pick, 1, |_| true).await {
                    let (name, uid) = (text(&pod, "/metadata/name"), text(&pod, "/metadata/uid"));
                    self.checks.excuses.relabelled.insert(uid.to_owned());
                    let patch = json!({"metadata": {"labels": {key: value}}});
                    let code = self.hand.patch(name, &patch).await;
                    say!("   {name} is relabelled: {code}");
                }
            }
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
            Fault::Kill { late } => {
                if let Some(number) = self.youngest() {
                    self.starts.push(Instant::now() + late);
                    self.kill(number);
                }
            }
            Fault::KillAtRequest { requests, late } => {
                self.network.net().trap = Some(requests);
                self.starts.push(Instant::now() + late);
            }
            Fault::HandOver { late } => self.hand_over(late),
            Fault::Reconfigure { pick } => {
                self.reconfigure(pick);
                self.hand_over(Duration::ZERO);
            }
            Fault::Second => self.start(),
            Fault::Pause { time } => {
                if let Some(number) = self.youngest()
                    && let Some(driver) = find(&mut self.fleet.borrow_mut(), number)
                {
                    driver.paused = true;
                    self.resumes.push((number, Instant::now() + time));
                }
            }
            Fault::Target { pick, target } => self.set_target(pick, target).await,
        }
    }

    fn hand_over(&mut self, late: Duration) {
        if let Some(number) = self.youngest() {
            self.starts.push(Instant::now() + late);
            self.tell_to_stop(number, OnSignal::HandOver);
        }
    }

    /// The drivers that start from now on lack a profile, or have it again.
    fn reconfigure(&mut self, pick: u64) {
        let profiles = &mut self.script.config.profiles;
        let all = self.profiles.len();
        let Some((name, profile)) = self.profiles.iter().nth(pick as usize % all) else {
            return;
        };
        self.checks.excuses.retargeted.insert(name.clone());
        if profiles.remove(name).is_none() || profiles.is_empty() {
            profiles.insert(name.clone(), profile.clone());
        }
    }

    fn rewritten(&mut self) {
        self.network.net().forget();
        self.checks.rewritten();
    }

    /// Some of the executors' pods, in the order of their names from a picked one on.
    async fn executors(
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

    /// Makes a pod that no driver asked for.
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
        self.checks.excuses.planted.extend(uid);
    }

    /// Makes a pod that bears the name and the labels of an executor that has ended.
    async fn raise_the_dead(&mut self, pick: u64) {
        let Some(ended) = self.youngest().and_then(|number| {
            let ledger = self.checks.last(number)?;
            let newest = ledger.entries.keys().next_back()?.get();
            let oldest = ledger.first_free?.get();
            let ended = (oldest..newest).filter_map(boatswain::model::ExecutorId::new);
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

    async fn set_target(&mut self, pick: u64, target: u32) {
        let profiles = &self.script.config.profiles;
        let profile = profiles.keys().nth(pick as usize % profiles.len()).cloned();
        let (Some(profile), Some(number)) = (profile, self.youngest()) else {
            return;
        };
        let runs = self.checks.last(number).is_some();
        let handle = find(&mut self.fleet.borrow_mut(), number)
            .filter(|driver| runs && !driver.paused)
            .map(|driver| driver.handle.clone());
        if let Some(handle) = handle {
            self.checks.excuses.retargeted.insert(profile.clone());
            self.checks.target(&profile, target);
            let targets: BTreeMap<ProfileName, u32> = [(profile, target)].into();
            // One that is just ending does not answer.
            let _ = timeout(Duration::from_secs(1), handle.set_targets(targets)).await;
        }
    }
}
