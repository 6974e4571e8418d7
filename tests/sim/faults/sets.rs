//! Injects faults into sets and into pods that sets have made (spec A-80).

use boatswain::model::ProfileName;
use serde_json::json;

use crate::objects::{NAMESPACE, is_terminating, label, owner, text};
use crate::script::Fault;
use crate::sets::{self, EXECUTOR_ID};
use crate::trace::trace_line;
use crate::world::World;

impl World {
    pub(super) async fn inject_set_fault(&mut self, fault: Fault) {
        let (Fault::ScaleSet { pick, .. } | Fault::DeleteSet { pick, .. }) = fault else {
            return;
        };
        let Some((kind, profile)) = sets::kind(&self.script.config).zip(self.profile(pick)) else {
            return;
        };
        let name = sets::name(&profile);
        let code = match fault {
            Fault::ScaleSet { replicas, .. } => {
                let scale = json!({"spec": {"replicas": replicas}});
                self.client.patch_set(kind, &name, &scale).await
            }
            Fault::DeleteSet { orphan: true, .. } => {
                self.client.delete_set(kind, &name, "Orphan").await
            }
            _ => self.client.delete_set(kind, &name, "Background").await,
        };
        trace_line!("   {name}: {code}");
    }

    /// Changes the image of a profile in the configuration of later drivers.
    pub(super) fn change_image(&mut self, pick: u64, image: u32) {
        let Some(name) = self.profile(pick) else {
            return;
        };
        let name = ProfileName::from(&*name);
        let known = [&mut self.script.config.profiles, &mut self.profiles];
        for profile in known.into_iter().filter_map(|all| all.get_mut(&name)) {
            profile.image = Some(format!("image-{image}"));
        }
    }

    /// Gives a pod the executor id of another one.
    pub(super) async fn duplicate_id(&mut self, pick: u64) {
        let numbered = |pod: &_| !label(pod, EXECUTOR_ID).is_empty();
        let pods = self.executors(pick, 2, numbered).await;
        let [pod, other] = &pods[..] else {
            return;
        };
        let (name, uid) = (text(pod, "/metadata/name"), text(pod, "/metadata/uid"));
        let id = label(other, EXECUTOR_ID);
        self.checks.excuses.relabelled.insert(uid.to_owned());
        let patch = json!({"metadata": {"labels": {EXECUTOR_ID: id}}});
        let code = self.client.patch(name, &patch).await;
        trace_line!("   {name} gets the id {id}: {code}");
    }

    /// Deletes the unrecognised pods, and those that their sets have released, as the operator who labelled them would.
    // spec: E-2
    pub(super) async fn delete_unrecognised(&mut self) {
        let state = self.cluster.state().await;
        for pod in state.pods(NAMESPACE).filter(|pod| !is_terminating(pod)) {
            let (name, uid) = (text(pod, "/metadata/name"), text(pod, "/metadata/uid"));
            let id = label(pod, EXECUTOR_ID);
            let invalid = !id.is_empty() && id.parse::<u64>().is_err();
            let released = owner(pod).is_empty() && self.checks.excuses.relabelled.contains(uid);
            if invalid || released {
                let code = self.client.delete(name, uid, Some(1)).await;
                trace_line!("   {name} with the id {id:?} is deleted: {code}");
            }
        }
    }
}
