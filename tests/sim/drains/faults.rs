//! What happens to drivers, their pods and their controllers.

use std::ops::Range;
use std::time::Duration;

use http::Method;
use rand::RngExt;
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::{Owner, World};
use crate::lease::wire::Wire;
use crate::objects::NAMESPACE;
use crate::trace::trace_line;

impl World {
    pub(super) async fn fault(&mut self) {
        let Some(number) = self.alive().last().copied() else {
            return;
        };
        let fault = self.rng.random_range(0..14);
        trace_line!("fault {fault} of d{number}");
        let sets = self.sets();
        match (fault, sets) {
            (0..4, _) => self.drain(number).await,
            (4, _) => {
                self.interrupt(number);
                self.drain(number).await;
            }
            (5..7, Some(sets)) => {
                let patch = json!({"spec": {"replicas": 0}});
                self.ask(Method::PATCH, &format!("{sets}/driver"), patch)
                    .await;
                self.repair_after(100..90_000);
            }
            (7..9, Some(sets)) => {
                let how = if self.rng.random() {
                    "Background"
                } else {
                    "Foreground"
                };
                let options = json!({"propagationPolicy": how});
                self.may_be_anew = true;
                self.ask(Method::DELETE, &format!("{sets}/driver"), options)
                    .await;
                self.repair_after(100..90_000);
            }
            (9, Some(sets)) => {
                let version = self.rng.random_range(0..1_000_000).to_string();
                let annotations = json!({"metadata": {"annotations": {"version": version}}});
                let patch = json!({"spec": {"template": annotations}});
                self.ask(Method::PATCH, &format!("{sets}/driver"), patch)
                    .await;
            }
            (10, _) => self.drivers.borrow_mut()[number - 1].kill(),
            (11, _) => self.interrupt(number),
            (12, _) => self.set_target(number).await,
            _ => {
                // The kubelet ends it: nothing shows why.
                let state = self.cluster.state().await;
                self.signal(number, &state);
            }
        }
    }

    /// Deletes the youngest driver's pod, as a drain or by hand.
    async fn drain(&mut self, number: usize) {
        let pod = self.placed[&number].pod.clone();
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}");
        if self.rng.random() {
            let condition = json!({"type": "DisruptionTarget", "status": "True"});
            let status = json!({"status": {"conditions": [condition]}});
            self.ask(Method::PATCH, &format!("{path}/status"), status)
                .await;
        }
        // By force the pod is gone before the driver has learned anything.
        let grace = if self.rng.random() { 0 } else { 30 };
        let options = json!({"gracePeriodSeconds": grace});
        self.ask(Method::DELETE, &path, options).await;
        if self.owner == Owner::Nothing {
            self.repair_after(1_000..60_000);
        }
    }

    fn repair_after(&mut self, range: Range<u64>) {
        let after = self.ms(range);
        self.repair = Some(Instant::now() + after);
    }

    fn interrupt(&mut self, number: usize) {
        let wire = match self.rng.random_range(0..3) {
            0 => Wire::Refuses,
            1 => Wire::Silent,
            _ => Wire::Deaf,
        };
        self.wires.set(number, wire);
        let time = self.ms(500..60_000);
        self.interrupted.insert(number, Instant::now() + time);
    }

    /// Sets a target that later drivers keep, if no driver is about to end.
    async fn set_target(&mut self, number: usize) {
        let target: u32 = self.rng.random_range(2..20);
        let alone = self.alive().len() == 1 && self.placed[&number].signal.is_none();
        if !alone || self.interrupted.contains_key(&number) || self.owner == Owner::Nothing {
            return;
        }
        let handle = self.drivers.borrow()[number - 1].handle.clone();
        // A driver that still starts would set it after nobody waits for the answer any more.
        let Ok(Some(_)) = timeout(Duration::from_secs(1), handle.look()).await else {
            return;
        };
        let set = handle.set_targets([("default".into(), target)].into());
        if let Ok(Some(Ok(_))) = timeout(Duration::from_secs(1), set).await {
            trace_line!("d{number}: target {target}");
            self.wanted = target as usize;
        }
    }
}
