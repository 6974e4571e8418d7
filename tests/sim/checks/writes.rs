//! Checks what drivers write.

use std::collections::BTreeSet;

use boatswain::model::{ExecutorId, PodUid};
use tokio::time::Instant;

use super::{Checks, CreatedPod, PodDelete, Verdict, is_healthy};
use crate::node::{NODE_NAMES, excluded_nodes};
use crate::objects::{is_executor, label, text};
use crate::requests::{CompletedWrite, RequestKind, addressed_object};

impl Checks {
    /// Checks a write that the server answered.
    pub fn check_write(&mut self, write: &CompletedWrite) -> Verdict {
        let view = self.drivers.entry(write.driver).or_default();
        match &write.kind {
            RequestKind::CreatePod if self.assigned.is_some() => {
                violated!(
                    "A-80: d{} created a pod, which sets should do",
                    write.driver
                )
            }
            RequestKind::CreatePod => {
                let id = label(&write.sent, "boatswain.dev/executor-id").parse();
                let id =
                    id.map_err(|_| format!("I-7: d{} created {}", write.driver, write.sent))?;
                some_node_is_allowed(write)?;
                view.requested_ids.insert(id);
                view.open.insert(id);
                let key = (view.application, id);
                let first = (self.requested).entry(key).or_insert(write.sent_at);
                *first = write.sent_at.min(*first);
                let began = view.began;
                let superseded = self.drivers.values().any(|other| other.began > began);
                if let Some(uid) = &write.created_uid {
                    let created = CreatedPod {
                        driver: write.driver,
                        id,
                        profile: label(&write.sent, "boatswain.dev/profile").into(),
                        at: Instant::now(),
                        too_late: superseded || write.late,
                    };
                    self.created.insert(PodUid::from(uid.as_str()), created);
                    if write.relabelled {
                        self.excuses.relabelled.insert(uid.clone());
                    }
                }
                Ok(())
            }
            RequestKind::DeletePods => violated!("L-11: d{} deleted a collection", write.driver),
            RequestKind::OtherWrite | RequestKind::CreateRecord => {
                self.record_written(write);
                self.note_spent_budget(write);
                if write.kind == RequestKind::CreateRecord && write.succeeded() {
                    self.record_made(write.driver);
                }
                Ok(())
            }
            // A driver that ends the application reports no end that happens later, whether all pods are gone by then
            // or not.
            RequestKind::DeleteRecord => {
                if write.succeeded() {
                    self.application_ended();
                }
                Ok(())
            }
            RequestKind::CreateSet | RequestKind::WriteSet { .. } => self.check_set_write(write),
            RequestKind::DeletePod { name } | RequestKind::PatchPod { name } => {
                self.check_pod_write(write, name)
            }
            RequestKind::CachedList
            | RequestKind::List
            | RequestKind::Page
            | RequestKind::Watch
            | RequestKind::Read => Ok(()),
        }
    }

    fn record_written(&mut self, write: &CompletedWrite) {
        let incarnation = text(&write.sent, "/data/incarnation").parse::<u64>().ok();
        let Some(incarnation) = incarnation.filter(|_| write.succeeded()) else {
            return;
        };
        self.record_sent.insert(write.driver, write.sent_at);
        self.app_id = text(&write.sent, "/data/app-id").to_owned();
        // A superseded driver can only write after the server has lost its successor's record, and its record is then
        // overwritten.
        let bound = ids(text(&write.sent, "/data/bound"));
        if !self.is_superseded(write.driver) {
            self.recorded.extend(bound.map(|id| (id, write.driver)));
            for id in ids(text(&write.sent, "/data/reported")) {
                self.recorded_ends.entry(id).or_insert(write.driver);
            }
        } else {
            // What only its successor has bound is lost (W-7).
            let bound: BTreeSet<ExecutorId> = bound.collect();
            let mut recorded = std::mem::take(&mut self.recorded);
            recorded.retain(|id, by| !self.is_younger(*by, write.driver) || bound.contains(id));
            self.recorded = recorded;
            self.recorded_late
                .extend(ids(text(&write.sent, "/data/reported")));
        }
        let before = self.record_writer.replace(write.driver);
        let view = self.drivers.entry(write.driver).or_default();
        text(&write.sent, "/data/origin").clone_into(&mut view.origin);
        // A driver that has begun raises it only to that of a lost record, before it ends (W-7).
        let raises_own = before == Some(write.driver) && view.incarnation < Some(incarnation);
        let has_begun = view.last.is_some() || (view.incarnation.is_some() && raises_own);
        if view.incarnation == Some(incarnation) || has_begun {
            return;
        }
        // Incarnations only rise within an application.
        let highest = (self.drivers.values())
            .filter(|view| view.application == self.applications)
            .filter_map(|view| view.incarnation)
            .max();
        if highest >= Some(incarnation) {
            self.keep_requested_removals();
            self.applications += 1;
        }
        let view = self.drivers.entry(write.driver).or_default();
        view.application = self.applications;
        view.incarnation = Some(incarnation);
        view.began = Some(Instant::now());
    }

    // spec: I-7
    /// A driver deleted or changed a pod.
    fn check_pod_write(&mut self, write: &CompletedWrite, name: &str) -> Verdict {
        let driver = write.driver;
        let Some(pod) = write.before.as_ref().filter(|_| write.succeeded()) else {
            return Ok(());
        };
        let uid = PodUid::from(text(pod, "/metadata/uid"));
        if addressed_object(&write.sent) != uid.as_str() {
            return violated!("I-7: d{driver} wrote {name} without its uid");
        }
        let ours = is_executor(pod, &self.app_id, self.is_of_sets());
        let bound = self.ever_bound.contains(&uid);
        // A pod that was bound between two checks is recognised by its name and by the request that created it.
        let assigned = self.id_of(pod, &uid);
        let was_requested = assigned.is_some_and(|id: u64| {
            self.drivers
                .values()
                .any(|view| view.requested_ids.contains(&id))
        });
        let relabelled = self.excuses.relabelled.contains(uid.as_str()) && was_requested;
        if !ours && !bound && !relabelled {
            return violated!("I-7: d{driver} wrote {name}, which is not its executor");
        }
        self.check_assigned_id(write, pod, &uid)?;
        // spec: K-13
        let is_given = (write.sent).pointer("/metadata/ownerReferences").is_some();
        if is_given && self.is_of_later_application(&uid, driver) {
            return violated!(
                "K-2: d{driver} gave {name}, a pod of a later application, to its own record"
            );
        }
        if matches!(write.kind, RequestKind::DeletePod { .. }) && is_healthy(pod) {
            self.deletes.push(PodDelete {
                driver,
                id: assigned.and_then(ExecutorId::new),
                uid,
            });
        }
        Ok(())
    }
}

/// No new executor is excluded from every node.
// spec: L-32
fn some_node_is_allowed(write: &CompletedWrite) -> Verdict {
    let excluded_nodes = excluded_nodes(&write.sent);
    if NODE_NAMES.iter().all(|node| excluded_nodes.contains(node)) {
        return violated!(
            "L-32: d{} requested an executor that may run on no node",
            write.driver
        );
    }
    Ok(())
}

/// The ids of a text like `1-5,7`.
fn ids(text: &str) -> impl Iterator<Item = ExecutorId> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    text.split(',')
        .filter_map(move |part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(number(first)?..=number(last)?)
        })
        .flatten()
        .filter_map(ExecutorId::new)
}
