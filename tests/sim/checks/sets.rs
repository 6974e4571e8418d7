//! Checks runs in which sets make the pods (spec A-80): drivers create no pods, each pod gets one id, no id goes to
//! two pods, and drivers write only their own sets.

use std::collections::BTreeMap;
use std::sync::Arc;

use boatswain::config::Strategy;
use boatswain::model::{Entry, ExecutorId, PodUid, Snapshot};
use serde_json::Value;
use tokio::time::Instant;

use super::{Checks, CreatedPod, PREFIX, Verdict};
use crate::objects::{label, text};
use crate::requests::{CompletedWrite, addressed_set};
use crate::sets::EXECUTOR_ID;

/// The assignment of ids to pods.
#[derive(Debug, Default)]
pub(super) struct AssignedIds {
    of_stateful_sets: bool,
    /// The one pod ever given an id of an application.
    pods: BTreeMap<(u32, ExecutorId), PodUid>,
    /// The executor that each pod was given to.
    ids: BTreeMap<PodUid, ExecutorId>,
}

impl Checks {
    /// Enables these checks; called before the run begins.
    pub fn sets_make_pods(&mut self, strategy: Strategy) {
        self.assigned = Some(AssignedIds {
            of_stateful_sets: strategy == Strategy::StatefulSet,
            ..AssignedIds::default()
        });
    }

    pub(super) fn is_of_stateful_sets(&self) -> bool {
        (self.assigned.as_ref()).is_some_and(|assigned| assigned.of_stateful_sets)
    }

    pub(super) fn is_of_sets(&self) -> bool {
        self.assigned.is_some()
    }

    /// The executor id of a pod: from its name; or, if sets make the names, from its label or the id that a driver
    /// assigned.
    pub(super) fn id_of(&self, pod: &Value, uid: &PodUid) -> Option<u64> {
        if self.is_of_sets() {
            let label = label(pod, EXECUTOR_ID).parse().ok();
            return label.or_else(|| self.created.get(uid).map(|created| created.id));
        }
        let name = text(pod, "/metadata/name").strip_prefix(PREFIX)?;
        name.strip_prefix("-exec-")?.parse().ok()
    }

    /// A driver changed a pod that a set has made. If it assigned the id, checks that neither had another one.
    // spec: A-80, I-1, I-9
    pub(super) fn check_assigned_id(
        &mut self,
        write: &CompletedWrite,
        pod: &Value,
        uid: &PodUid,
    ) -> Verdict {
        let driver = write.driver;
        let application = self.application_of(driver);
        let history_replaced = !self.excuses.history_replaced.is_empty();
        let Some(assigned) = &mut self.assigned else {
            return Ok(());
        };
        let given = label(&write.sent, EXECUTOR_ID);
        if given.is_empty() {
            return Ok(());
        }
        let id = given.parse().ok();
        let Some((number, id)) = id.and_then(|number| Some((number, ExecutorId::new(number)?)))
        else {
            return violated!("A-80: d{driver} gave {uid} the id {given}, which is invalid");
        };
        let had = label(pod, EXECUTOR_ID);
        if !had.is_empty() && !history_replaced {
            return violated!("I-9: d{driver} gave {uid} the id {id}, and it had {had}");
        }
        let holder = (assigned.pods.entry((application, id))).or_insert_with(|| uid.clone());
        if holder != uid {
            return violated!("I-1: d{driver} gave {id} to {uid}, and {holder} has it");
        }
        let created = CreatedPod {
            driver,
            id: number,
            profile: label(pod, "boatswain.dev/profile").into(),
            at: Instant::now(),
            too_late: write.late || self.is_superseded(driver),
        };
        self.created.insert(uid.clone(), created);
        let view = self.drivers.entry(driver).or_default();
        view.requested_ids.insert(number);
        Ok(())
    }

    /// Whether an injected fault changed the id of a pod that a set has made. A driver that starts later takes it
    /// for the executor of that id.
    pub(super) fn has_changed_id(&self, uid: &PodUid) -> bool {
        self.is_of_sets() && self.excuses.relabelled.contains(uid.as_str())
    }

    /// Whether such a pod is taken for this executor, instead of `uid`: it was adopted so, or seen before any driver knew
    /// that `uid` has the id.
    pub(super) fn has_other_pod_with_changed_id(
        &self,
        id: Option<ExecutorId>,
        uid: &PodUid,
        now: &Snapshot,
    ) -> bool {
        let was_known = self.first_id(uid).is_some();
        let entry = id
            .and_then(|id| now.entry(id))
            .filter(|entry| entry.adopted || !was_known);
        entry.is_some_and(|entry| entry.uid().is_some_and(|uid| self.has_changed_id(uid)))
    }

    /// Whether a pod belonged to another executor before an injected fault changed its id.
    pub(super) fn belonged_to_another(&self, uid: Option<&PodUid>, id: ExecutorId) -> bool {
        let first = uid.and_then(|uid| self.first_id(uid));
        first.is_some_and(|first| first != id) && uid.is_some_and(|uid| self.has_changed_id(uid))
    }

    /// The first executor to which a driver bound a set's pod.
    pub(super) fn first_id(&self, uid: &PodUid) -> Option<ExecutorId> {
        self.assigned.as_ref()?.ids.get(uid).copied()
    }

    /// Whether a pod got its id in a history that was replaced, so that it may have none in the restored one.
    pub(super) fn was_assigned_before_restore(&self, uid: &PodUid) -> bool {
        let created = self.created.get(uid);
        created.is_some_and(|created| self.was_history_replaced_since(created.at))
    }

    /// Whether a pod got its id from a driver that continued from an older record while another driver knew the newer
    /// one. The final record may list such an id as ended.
    pub(super) fn was_assigned_in_other_history(&self, uid: &PodUid) -> bool {
        let created = self.created.get(uid).filter(|_| self.is_of_sets());
        created.is_some_and(|created| self.has_outdated_incarnation(created.driver))
    }

    /// A driver changed or deleted a set.
    // spec: A-80, I-7
    pub(super) fn check_set_write(&mut self, write: &CompletedWrite) -> Verdict {
        let driver = write.driver;
        if !self.is_of_sets() {
            return violated!("A-80: d{driver} wrote a set, and has to create pods itself");
        }
        let Some(set) = write.before.as_ref().filter(|_| write.succeeded()) else {
            return Ok(());
        };
        let name = text(set, "/metadata/name");
        if addressed_set(&write.sent) != text(set, "/metadata/uid") {
            return violated!("I-7: d{driver} wrote {name} without its uid");
        }
        if label(set, "boatswain.dev/app-id") != self.app_id {
            return violated!("I-7: d{driver} wrote {name}, which is not its set");
        }
        Ok(())
    }

    /// No pod belongs to two executors, or to another one than before.
    // spec: I-1, I-9, A-80
    pub(super) fn check_one_id_per_pod(
        &mut self,
        driver: usize,
        now: &Snapshot,
        changed: &[Arc<Entry>],
    ) -> Verdict {
        let Some(assigned) = &mut self.assigned else {
            return Ok(());
        };
        let mut holders: BTreeMap<&PodUid, ExecutorId> = BTreeMap::new();
        for entry in now.entries.values() {
            if let Some(uid) = entry.uid()
                && let Some(other) = holders.insert(uid, entry.id)
            {
                let id = entry.id;
                return violated!("I-1: d{driver} binds {uid} to {other} and to {id}");
            }
        }
        if !self.excuses.history_replaced.is_empty() {
            return Ok(());
        }
        for entry in changed.iter().filter(|entry| entry.class().is_live()) {
            let Some(uid) = entry.uid() else { continue };
            let was = *assigned.ids.entry(uid.clone()).or_insert(entry.id);
            if was != entry.id && !self.excuses.relabelled.contains(uid.as_str()) {
                let id = entry.id;
                return violated!("I-9: d{driver} binds {uid} to {id}, and it was bound to {was}");
            }
        }
        Ok(())
    }
}
