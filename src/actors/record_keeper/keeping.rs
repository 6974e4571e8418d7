//! Decides the next call about the application record: `(state, answer, now) → effects` (spec O-30,
//! K-13, W-7). One call is in flight at a time. After an unclear answer the record is read before it
//! is written.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::kubernetes::Failure;
use crate::kubernetes::calls::ConfigMap;
use crate::kubernetes::record::{Record, RecordPlace};
use crate::model::failures::KeptFailures;
use crate::model::made::CreatedCount;
use crate::model::recorded_end::RecordedEnd;
use crate::model::{Epoch, ExecutorId, IdSet, Incarnation, PodUid, ResourceVersion, Tick};
use boatswain_agent::backoff::Backoff;

mod answers;

/// Changes for which no actor waits are collected this long. If they are lost, acting on them twice
/// does no harm (spec O-30).
pub const DEBOUNCE: Duration = Duration::from_secs(5);

/// The least time between two writes of ends. Until an end is written it is not reported (spec L-1).
const ENDS_EVERY: Duration = Duration::from_millis(250);

/// The least time between two creations of the record. The garbage collector deletes each one whose owner is gone, at once.
const CREATED_EVERY: Duration = Duration::from_secs(1);

const RETRY: Backoff = Backoff {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(15),
};

#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    Get,
    /// The last state of the record that was deleted after this version.
    GetDeleted(ResourceVersion),
    Create(Value),
    Replace(Value),
    /// The known version only: if another driver has written the record since, the record and its
    /// owned resources are that driver's.
    Delete(PodUid, ResourceVersion),
}

#[derive(Debug, Clone)]
pub enum Answer {
    Got(Option<ConfigMap>),
    /// `None` if the API server does not know it any more.
    GotDeleted(Option<ConfigMap>),
    Written(ConfigMap),
    Deleted,
    Failed(Failure),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The record exists in this epoch, with all important content.
    Seen {
        uid: PodUid,
        epoch: Epoch,
    },
    /// The record does not exist, as far as is known: nothing may be requested.
    Lost,
    Reserved(ExecutorId),
    Flushed,
    /// The server refuses to let this driver read or write the record, again and again.
    MayNotWrite,
    Deleted,
    Over(Over),
    /// The first failure in a row.
    Troubled(Arc<str>),
    Recovered,
}

/// Why this driver must end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Over {
    /// A later driver has started.
    Superseded { by: u64 },
    /// Another driver has ended the application, with this exit code.
    Finished(u8),
    /// Pods bear this later incarnation, and the record that knew it was lost. The record has it
    /// again, so that the next driver adopts them.
    Outdated { later: u64 },
    /// The record belongs to another application, or is unreadable for this version of the program.
    Foreign(String),
}

#[derive(Debug)]
pub struct Keeping {
    /// This driver's.
    incarnation: Incarnation,
    /// A later one that pods bear.
    later: Option<Incarnation>,
    wanted: Record,
    written: Option<Record>,
    place: RecordPlace,
    map: Option<(PodUid, ResourceVersion)>,
    /// The version that was known last in this epoch. `None` if who deleted the record is known as far as it can be.
    last_version: Option<ResourceVersion>,
    epoch: Epoch,
    /// The record must be read before any other call.
    must_read: bool,
    write: Write,
    /// Executors whose end was recorded before a snapshot showed that they were bound.
    unseen: IdSet,
    /// The next end is written no earlier.
    ends_not_before: Tick,
    /// Whether the next write is the first with an end.
    has_new_ends: bool,
    goal: Goal,
    failures: u32,
    /// How many of the last calls in a row were refused for want of a right.
    refusals: u32,
    /// The record is not created earlier (spec K-13).
    create_not_before: Tick,
    /// Whether the record was seen to be deleted, and not seen since.
    gone: bool,
    troubled: bool,
    not_before: Tick,
    /// Until then the server has asked to wait.
    asked_to_wait: Tick,
    /// The call in flight: the record and the epoch when it was sent.
    sent: Option<(Record, Epoch)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Write {
    Nothing,
    /// At this time, together with other changes.
    At(Tick),
    /// At once, because an actor waits for it.
    Now,
}

impl Write {
    /// Schedules a write, unless one is scheduled already.
    fn at(&mut self, due: Tick) {
        if *self == Self::Nothing {
            *self = Self::At(due);
        }
    }

    /// Schedules a write for this time at the latest.
    fn by(&mut self, due: Tick) {
        *self = match *self {
            Self::Nothing => Self::At(due),
            Self::At(earlier) => Self::At(due.min(earlier)),
            Self::Now => Self::Now,
        };
    }

    fn is_due(self, now: Tick) -> bool {
        match self {
            Self::Nothing => false,
            Self::At(due) => now >= due,
            Self::Now => true,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    Keep,
    /// Delete the record and do not write it again.
    Delete,
    /// Do nothing: this driver is ending, and another one owns the record.
    Leave,
}

impl Keeping {
    /// `record`: as the start has written it.
    pub fn new(record: Record, place: RecordPlace, uid: PodUid, version: ResourceVersion) -> Self {
        Self {
            incarnation: record.incarnation,
            later: None,
            written: Some(record.clone()),
            wanted: record,
            place,
            last_version: Some(version.clone()),
            map: Some((uid, version)),
            epoch: Epoch::default(),
            must_read: false,
            write: Write::Nothing,
            unseen: IdSet::new(),
            ends_not_before: Tick::default(),
            has_new_ends: false,
            goal: Goal::Keep,
            failures: 0,
            refusals: 0,
            create_not_before: Tick::default(),
            gone: false,
            troubled: false,
            not_before: Tick::default(),
            asked_to_wait: Tick::default(),
            sent: None,
        }
    }

    pub fn made(&self) -> CreatedCount {
        self.wanted.made()
    }

    /// As last seen.
    pub fn uid(&self) -> Option<&PodUid> {
        self.map.as_ref().map(|(uid, _)| uid)
    }

    /// As last seen.
    pub fn version(&self) -> Option<&ResourceVersion> {
        self.map.as_ref().map(|(_, version)| version)
    }

    /// Changes the record. The change is written soon, together with others.
    pub fn change(&mut self, change: impl FnOnce(&mut Record), now: Tick) {
        change(&mut self.wanted);
        self.wanted.shorten();
        if self.written.as_ref() != Some(&self.wanted) {
            self.write.at(now + DEBOUNCE);
        }
    }

    /// Schedules a write of a change that is computed when it is written.
    pub fn gather(&mut self, now: Tick) {
        self.write.at(now + DEBOUNCE);
    }

    /// Whether [`Self::set_intervals`] must be called now.
    pub fn wants_intervals(&self, now: Tick) -> bool {
        self.write.is_due(now)
    }

    /// Adds an end, to be written at once, or soon if ends were written just before.
    pub fn add_end(&mut self, end: RecordedEnd, now: Tick) {
        self.unseen.insert(end.executor);
        self.wanted.add_end(end);
        self.has_new_ends = true;
        self.write.by(now.max(self.ends_not_before));
    }

    /// Replaces the failures, to be written as soon as an end.
    pub fn set_failures(&mut self, failures: KeptFailures, now: Tick) {
        self.wanted.set_failures(failures);
        self.wanted.shorten();
        self.write.by(now.max(self.ends_not_before));
    }

    /// Whether the written record contains this executor's end.
    pub fn has_end(&self, id: ExecutorId) -> bool {
        (self.written.as_ref()).is_some_and(|written| written.reported.contains(id))
    }

    /// `made`: the number of executors created so far. `waits`: whether an executor's end waits for being written.
    pub fn set_intervals(
        &mut self,
        ended: IdSet,
        bound: IdSet,
        made: u64,
        waits: impl Fn(ExecutorId) -> bool,
    ) {
        // The snapshot that these are from may be older than an end.
        let unseen = |id: &ExecutorId| !bound.contains(*id) && !ended.contains(*id);
        self.unseen = self.unseen.ids().filter(unseen).collect();
        let open = |id: &ExecutorId| bound.contains(*id) || waits(*id) || self.unseen.contains(*id);
        self.wanted.reported = self.wanted.reported.ids().filter(open).collect();
        (self.wanted.ended, self.wanted.bound) = (ended, bound);
        self.wanted.made = Some(made);
        self.settle();
    }

    pub fn is_written(&self) -> bool {
        self.sent.is_none() && !self.must_read && self.written.as_ref() == Some(&self.wanted)
    }

    /// Whether the record is known to be this driver's, no call is in flight, and no read is due.
    pub fn is_settled(&self) -> bool {
        let is_known = self.map.is_some() && self.goal != Goal::Leave;
        is_known && self.sent.is_none() && !self.must_read
    }

    /// Changes the record, to be written at once because an actor waits for it.
    pub fn change_now(&mut self, change: impl FnOnce(&mut Record)) {
        change(&mut self.wanted);
        self.wanted.shorten();
        self.write = Write::Now;
        self.settle();
    }

    /// Begins an epoch: only a record seen in it counts (spec K-13).
    pub fn begin_epoch(&mut self, epoch: Epoch) {
        self.epoch = epoch;
        self.last_version = None;
        self.gone = false;
        self.must_read = true;
    }

    /// Whether the server refuses to let this driver read or write the record, again and again. A right that was granted
    /// just now may not be known to each API server yet.
    pub fn may_not_write(&self) -> bool {
        self.refusals >= 2
    }

    /// Whether the record is known to be deleted, and not made anew yet.
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// Whether this driver has deleted it at the application's end: nothing is recorded any more.
    pub fn is_deleted(&self) -> bool {
        self.goal == Goal::Delete && self.map.is_none()
    }

    /// Processes that pods bear a later incarnation. The record shows whether its driver is current.
    pub fn found_later_driver(&mut self, incarnation: Incarnation) {
        if self.later < Some(incarnation) && incarnation > self.incarnation {
            self.later = Some(incarnation);
            self.must_read = true;
        }
    }

    /// Schedules a read: the watch has ended or shown an unexpected line.
    pub fn check(&mut self) {
        self.must_read = true;
    }

    /// The end of an outage ends the backoff (spec W-14). The record is read again: another driver
    /// may have taken over meanwhile, and the record's watch may be on a dead connection.
    pub fn server_is_back(&mut self) {
        self.failures = 0;
        self.not_before = self.not_before.min(self.asked_to_wait);
        self.must_read = true;
    }

    /// The call in flight was cancelled: whether it took effect, only a read shows.
    pub fn cancelled(&mut self) {
        self.sent = None;
        self.must_read = true;
    }

    pub fn delete(&mut self) {
        if self.goal == Goal::Keep {
            self.goal = Goal::Delete;
        }
    }

    pub fn next(&mut self, now: Tick) -> Option<Op> {
        if self.sent.is_some() || self.goal == Goal::Leave || now < self.not_before {
            return None;
        }
        let op = if self.goal == Goal::Delete && self.map.is_none() {
            return None;
        } else if self.must_read {
            Op::Get
        } else if self.goal == Goal::Delete {
            let (uid, version) = self.map.clone()?;
            Op::Delete(uid, version)
        } else if self.map.is_none()
            && let Some(version) = &self.last_version
        {
            Op::GetDeleted(version.clone())
        } else if self.map.is_none() {
            if now < self.create_not_before {
                return None;
            }
            self.create_not_before = now + CREATED_EVERY;
            Op::Create(self.wanted.to_config_map(&self.place, None))
        } else if self.is_due(now) {
            let replaces = self.map.as_ref().map(|(uid, version)| (uid, version));
            self.write = Write::Nothing;
            // The failures that follow an end do not delay the next end.
            if mem::take(&mut self.has_new_ends) {
                self.ends_not_before = now + ENDS_EVERY;
            }
            Op::Replace(self.wanted.to_config_map(&self.place, replaces))
        } else {
            return None;
        };
        self.sent = Some((self.wanted.clone(), self.epoch));
        Some(op)
    }

    pub fn next_at(&self) -> Option<Tick> {
        if self.sent.is_some() || self.goal == Goal::Leave {
            return None;
        }
        if self.goal == Goal::Delete || self.must_read {
            return Some(self.not_before);
        }
        if self.map.is_none() {
            let looks_up = self.last_version.is_some();
            let at = self.create_not_before.max(self.not_before);
            return Some(if looks_up { self.not_before } else { at });
        }
        match self.write {
            Write::Nothing => None,
            Write::At(due) => Some(due.max(self.not_before)),
            Write::Now => Some(self.not_before),
        }
    }

    fn is_due(&self, now: Tick) -> bool {
        // The comparison comes last because it takes the longest.
        self.written.is_none()
            || self.write.is_due(now) && self.written.as_ref() != Some(&self.wanted)
    }
}

#[cfg(test)]
mod tests;
