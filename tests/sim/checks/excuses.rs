//! Injected faults that excuse a driver's actions, each kept as narrow as the fault itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use boatswain::model::{Entry, ExecutorId, PodUid, ResourceVersion};
use tokio::time::Instant;

use super::{Checks, CreatedPod, InjectedPodFault};
use crate::node::PodFault;
use crate::script::RecordEdit;

#[derive(Debug, Default)]
pub struct Excuses {
    /// When the server lost its state or was restored to an earlier one.
    pub history_replaced: Vec<Instant>,
    /// Executors that a driver was requested to kill, with or without a pod at that time.
    pub killed: BTreeSet<ExecutorId>,
    /// Executors that a driver was requested to decommission.
    pub decommissioned: BTreeSet<ExecutorId>,
    /// Pods of executors that request their own decommissioning, or whose removal was requested in an earlier application:
    /// the mark stays on a pod whose record was lost (spec A-43).
    pub may_leave: BTreeSet<String>,
    /// Nodes of which drivers may have known that they are about to leave.
    pub leaving_nodes: BTreeSet<String>,
    /// When an operator held the application, which decommissions all executors.
    pub held: Vec<Instant>,
    /// Pods whose labels were changed, or not set at creation.
    pub relabelled: BTreeSet<String>,
    /// Pods that no driver created.
    pub foreign: BTreeSet<String>,
    /// Those of them whose labels name a future incarnation. They belong to no executor until a successor adopts them,
    /// because a driver cannot know that there is no such incarnation (spec I-10).
    pub future_incarnation: BTreeMap<String, u64>,
    /// Pods that were undecodable when they were adopted.
    pub unread: BTreeSet<PodUid>,
    /// The application is being ended.
    pub ending: bool,
    /// When the record was edited, and how.
    record_edits: Vec<(Instant, RecordEdit)>,
    /// When a driver ended the application; a driver that starts later starts the application again.
    application_ended: Vec<Instant>,
    /// When the record was last repaired.
    record_repaired_at: Option<Instant>,
    /// The driver that made the record last, and when.
    record_made: Option<(usize, Instant)>,
    /// It ended right after that, perhaps before it gave the claims to the record. A successor whose configuration has
    /// no claims does not list any (spec K-10).
    pub claims_not_given: bool,
    /// Faults injected into pods.
    pub(super) pod_faults: BTreeMap<String, Vec<InjectedPodFault>>,
}

impl Excuses {
    pub(super) fn was_history_replaced_since(&self, since: Instant) -> bool {
        self.history_replaced.iter().any(|at| *at >= since)
    }

    /// Whether a pod's label names a later incarnation than this one.
    pub fn has_future_incarnation(&self, than: Option<u64>) -> bool {
        let mut named = self.future_incarnation.values();
        named.any(|incarnation| Some(*incarnation) > than)
    }

    pub(super) fn has_to_leave(&self, entry: &Entry) -> bool {
        let node = entry.pod().and_then(|pod| pod.node.as_deref());
        node.is_some_and(|node| self.leaving_nodes.contains(node))
    }

    fn was_record_edited_since(&self, since: Instant, which: impl Fn(RecordEdit) -> bool) -> bool {
        (self.record_edits.iter()).any(|(at, what)| *at >= since && which(*what))
    }
}

/// Within this time a driver gives the claims to a record that it made, or has tried as often as it does.
const CLAIMS_GIVEN_WITHIN: Duration = Duration::from_secs(10);

impl Checks {
    /// The executors of the next application have the ids of others.
    pub(super) fn keep_requested_removals(&mut self) {
        let killed = std::mem::take(&mut self.excuses.killed);
        let decommissioned = std::mem::take(&mut self.excuses.decommissioned);
        let requested = |created: &CreatedPod| {
            let id = ExecutorId::new(created.id);
            id.is_some_and(|id| killed.contains(&id) || decommissioned.contains(&id))
                && self.application_of(created.driver) == self.applications
        };
        let pods = self.created.iter().filter(|(_, pod)| requested(pod));
        let pods: Vec<String> = pods.map(|(uid, _)| uid.to_string()).collect();
        self.excuses.may_leave.extend(pods);
    }

    pub(super) fn record_made(&mut self, driver: usize) {
        let has_ended = self.drivers.get(&driver).is_some_and(|view| view.ended);
        self.excuses.record_made = Some((driver, Instant::now()));
        self.excuses.claims_not_given |= has_ended;
    }

    pub(super) fn ended_after_making_the_record(&mut self, driver: usize) {
        let made = self.excuses.record_made.filter(|(by, _)| *by == driver);
        let just_now = made.is_some_and(|(_, at)| at.elapsed() < CLAIMS_GIVEN_WITHIN);
        self.excuses.claims_not_given |= just_now;
    }

    pub fn was_history_replaced_since(&self, since: Instant) -> bool {
        self.excuses.was_history_replaced_since(since)
    }

    pub fn was_application_ended_since(&self, since: Instant) -> bool {
        self.excuses.application_ended.iter().any(|at| *at >= since)
    }

    /// Whether an earlier driver of the same application has a higher incarnation, because a restore brought back an
    /// older record from which this driver counted on.
    pub fn has_outdated_incarnation(&self, driver: usize) -> bool {
        let number = |driver| self.drivers.get(&driver).and_then(|view| view.incarnation);
        (self.drivers.iter()).any(|(other, its)| {
            let since = its
                .began
                .is_some_and(|at| self.was_history_replaced_since(at));
            *other < driver && its.incarnation > number(driver) && since
        })
    }

    /// Whether another driver has a higher incarnation, and the record that knew it was deleted, by an edit or because
    /// the application had ended.
    pub fn has_lost_a_later_incarnation(&self, driver: usize) -> bool {
        let own = self.incarnation(driver);
        (self.drivers.values())
            .filter(|its| its.incarnation > own)
            .filter_map(|its| its.began)
            .any(|at| self.was_record_deleted_since(at) || self.was_application_ended_since(at))
    }

    /// Whether nobody could read the record since then, so that an earlier driver, which did not know of this one, may
    /// have written its own.
    pub fn may_be_overwritten_by_an_earlier_one(&self, driver: usize, since: Instant) -> bool {
        let is_earlier = |other: &usize| self.is_younger(driver, *other);
        self.was_record_unusable_since(since) && self.drivers.keys().any(is_earlier)
    }

    /// The origin of the record that a driver wrote last; empty if it wrote none.
    pub fn origin(&self, driver: usize) -> &str {
        (self.drivers.get(&driver)).map_or("", |view| view.origin.as_str())
    }

    pub fn incarnation(&self, driver: usize) -> Option<u64> {
        self.drivers.get(&driver)?.incarnation
    }

    /// Whether a driver with a higher number has requested executors, which this driver must not end.
    pub fn has_a_successor(&self, driver: usize) -> bool {
        (self.drivers.range(driver + 1..)).any(|(_, its)| !its.requested_ids.is_empty())
    }

    pub fn was_incarnation_raised_since(&self, since: Instant) -> bool {
        (self.excuses).was_record_edited_since(since, |what| what == RecordEdit::RaiseIncarnation)
    }

    pub fn was_record_deleted_since(&self, since: Instant) -> bool {
        (self.excuses).was_record_edited_since(since, |what| {
            matches!(what, RecordEdit::Delete | RecordEdit::Orphan)
        })
    }

    /// Whether the record was unusable for drivers at any time since then.
    pub fn was_record_unusable_since(&self, since: Instant) -> bool {
        let makes_unusable = |what: RecordEdit| {
            matches!(
                what,
                RecordEdit::InvalidData
                    | RecordEdit::RemoveData
                    | RecordEdit::NewerFormat
                    | RecordEdit::AnotherApplication
            )
        };
        let last = (self.excuses.record_edits.iter()).rfind(|(_, what)| makes_unusable(*what));
        let lasted = last.is_some_and(|(at, _)| {
            (self.excuses.record_repaired_at)
                .is_none_or(|repaired| repaired < *at || repaired >= since)
        });
        lasted || (self.excuses).was_record_edited_since(since, makes_unusable)
    }

    /// Notes an edit of the record.
    pub fn note_record_edit(&mut self, what: RecordEdit) {
        self.excuses.record_edits.push((Instant::now(), what));
        // The contents of the record are unknown until a driver writes it again.
        if what != RecordEdit::AddLabel {
            self.budget.forget_certain_failures();
            self.budget.unreported(self.unreported_ends());
            self.recorded.clear();
            self.recorded_ends.clear();
            self.record_sent.clear();
        }
    }

    /// Notes that the record was repaired.
    pub fn note_record_repair(&mut self) {
        self.excuses.record_repaired_at = Some(Instant::now());
    }

    /// Notes a fault injected into a pod, and the pod's version that shows it.
    pub fn note_pod_fault(&mut self, uid: &str, how: PodFault, version: Option<ResourceVersion>) {
        let faults = self.excuses.pod_faults.entry(uid.to_owned()).or_default();
        faults.push(InjectedPodFault {
            how,
            at: Instant::now(),
            version,
        });
    }

    /// Notes that a driver has ended the application; no earlier executor's end has to be reported any more.
    pub fn application_ended(&mut self) {
        self.excuses.application_ended.push(Instant::now());
        self.budget.forget_certain_failures();
        self.recorded.clear();
        self.recorded_ends.clear();
        self.reported_now.clear();
        self.record_sent.clear();
    }

    /// Whether a superseded driver that does not know it made the pod. It had no answer to its request, and repeats it after
    /// its successor has ended the executor that the first one made.
    pub(super) fn repeats_its_own_request(&self, uid: &PodUid, driver: usize) -> bool {
        let is_own = |pod: &CreatedPod| pod.too_late && pod.driver == driver;
        self.is_superseded(driver) && self.created.get(uid).is_some_and(is_own)
    }
}
