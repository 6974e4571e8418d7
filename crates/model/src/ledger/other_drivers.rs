//! Pods that prove that another driver runs or ran: of a later incarnation, or of an application record
//! that this driver never held (spec W-12, W-13, I-10).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::{Incarnation, Pod, PodUid};

use super::{Draft, Ledger, MAX_REMEMBERED_UNRECOGNISED, Note};

/// A pod whose incarnation exceeds this driver's by more than this was not made by a driver.
const PLAUSIBLE_LEAD: u64 = 1_000;

/// The most records that are remembered of each kind.
const MAX_RECORDS: usize = 16;

/// The uids of application records.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// Those that this driver has held.
    own: BTreeSet<PodUid>,
    /// Others that own pods. For each, the application record was read again.
    others: BTreeSet<PodUid>,
}

impl Records {
    pub(super) fn held(&mut self, record: &PodUid) {
        if self.own.len() < MAX_RECORDS {
            self.own.insert(record.clone());
        }
    }
}

impl Ledger {
    /// A later incarnation of this record requested the pod, so this driver leaves it alone, and requests nothing
    /// until the record shows which driver is current.
    pub(super) fn found_later_driver(
        &mut self,
        pod: &Arc<Pod>,
        incarnation: Incarnation,
        draft: &mut Draft,
    ) {
        self.drop_orphan(&pod.uid, draft);
        let room = self.unrecognised.len() < MAX_REMEMBERED_UNRECOGNISED;
        if room && self.unrecognised.insert(pod.uid.clone()) {
            let lead = incarnation.0.saturating_sub(self.identity.incarnation.0);
            if lead <= PLAUSIBLE_LEAD {
                self.current.later = self.current.later.max(Some(incarnation));
            }
            draft.notes.push(Note::OfLaterIncarnation(Arc::clone(pod)));
            self.current.record = None;
            draft.other = true;
        }
    }

    /// Whether a record owns the pod that this driver never held. Sets own their pods themselves.
    pub(super) fn is_of_other_record(&self, pod: &Pod) -> bool {
        let Records { own, .. } = &self.records;
        let other = |owner: &PodUid| !own.contains(owner) && own.len() < MAX_RECORDS;
        !self.current.of_sets && pod.owner.as_ref().is_some_and(other)
    }

    /// Whether a pod may be an executor of another driver, whose record was created while this one
    /// saw nothing. Such a record begins at incarnation 1 again, so that only the owner tells
    /// whose pod it is. The pod is judged after the record was read again, at its next sight.
    pub(super) fn must_read_record_before(&mut self, pod: &Arc<Pod>, draft: &mut Draft) -> bool {
        let known = self.current.orphans.contains_key(&pod.uid);
        let Some(owner) = &pod.owner else {
            return false;
        };
        if known || !self.is_of_other_record(pod) {
            return false;
        }
        if self.current.record.is_none() {
            return true;
        }
        let Records { others, .. } = &mut self.records;
        let must_read = others.len() < MAX_RECORDS && others.insert(owner.clone());
        if must_read {
            draft.notes.push(Note::OfOtherRecord(Arc::clone(pod)));
            self.current.record = None;
            draft.other = true;
        }
        must_read
    }
}
