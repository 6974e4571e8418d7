//! The record is read before executors are given up, and when many fall silent at once (spec B-16): those of a driver
//! that was superseded without knowing it may have moved to its successor.

use std::collections::BTreeSet;

use crate::model::ExecutorId;

/// A read of the record, and the executors whose limits had passed when it was requested.
#[derive(Debug, Default)]
pub(super) enum RecordCheck {
    #[default]
    Idle,
    Requested(BTreeSet<ExecutorId>),
    /// The record is this driver's.
    Passed(BTreeSet<ExecutorId>),
}

impl RecordCheck {
    /// Begins a check for these executors, unless one has begun. Returns whether the record must be read.
    pub(super) fn begin(&mut self, ids: BTreeSet<ExecutorId>) -> bool {
        let is_new = matches!(self, Self::Idle);
        if is_new {
            *self = Self::Requested(ids);
        }
        is_new
    }

    /// `is_own`: the record was read, and is this driver's.
    pub(super) fn end(&mut self, is_own: bool) {
        *self = match std::mem::take(self) {
            Self::Requested(ids) if is_own => Self::Passed(ids),
            _ => Self::Idle,
        };
    }

    /// Whether an executor may be given up: a function that is good for one round of decisions, so that nothing is
    /// decided by what was read long ago.
    pub(super) fn take_passed(&mut self) -> impl Fn(ExecutorId) -> bool + use<> {
        let passed = match std::mem::take(self) {
            Self::Passed(ids) => ids,
            other => {
                *self = other;
                BTreeSet::new()
            }
        };
        move |id| passed.contains(&id)
    }
}
