//! What is done about the application record next: `(state, answer, now) → effects`, pure (spec O-30, K-2, W-7).
//!
//! One call at a time. Whatever an answer leaves open, the record is read again before it is written.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::kubernetes::calls::ConfigMap;
use crate::kubernetes::record::{Record, RecordError, RecordPlace};
use crate::kubernetes::{Failure, Kind};
use crate::model::made::Made;
use crate::model::{Epoch, ExecutorId, IdSet, PodUid, ResourceVersion, Tick};
use crate::planted::{self, Planted};
use boatswain_agent::backoff::Backoff;

/// Changes that nobody waits for are gathered this long: acting twice on them would not hurt (spec O-30).
pub const DEBOUNCE: Duration = Duration::from_secs(5);

const RETRY: Backoff = Backoff {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(15),
};

/// A call about the record.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Read it.
    Get,
    /// Make it anew.
    Create(Value),
    /// Write it over the version that is known.
    Replace(Value),
    /// Delete it, as it is known: where another driver has written it since, it is that one's, and what it owns, too.
    Delete(PodUid, ResourceVersion),
}

/// What came of a call.
#[derive(Debug, Clone)]
pub enum Answer {
    /// What a read found.
    Got(Option<ConfigMap>),
    /// What was written.
    Written(ConfigMap),
    /// It is gone, as wanted.
    Deleted,
    /// The call failed.
    Failed(Failure),
}

/// What others have to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The record exists, in this history of the server's, with all that matters in it.
    Seen {
        /// Its uid.
        uid: PodUid,
        /// The history.
        epoch: Epoch,
    },
    /// It does not, as far as is known: nothing may be requested.
    Lost,
    /// Ids are reserved up to this one.
    Reserved(ExecutorId),
    /// Everything is written.
    Flushed,
    /// The record is deleted.
    Deleted,
    /// This driver is over.
    Over(Over),
    /// A call failed, for the first time in a row.
    Troubled(Arc<str>),
    /// Calls succeed again.
    Recovered,
}

/// Why this driver is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Over {
    /// Another driver has begun (spec W-7).
    Superseded {
        /// The incarnation that the record shows.
        by: u64,
    },
    /// Another driver has ended the application, with this code.
    Finished(u8),
    /// The record is not this application's any more, or cannot be understood by this program.
    Foreign(String),
}

/// The record, as it should be and as it is known to be.
#[derive(Debug)]
pub struct Keeping {
    wanted: Record,
    written: Option<Record>,
    place: RecordPlace,
    map: Option<(PodUid, ResourceVersion)>,
    epoch: Epoch,
    /// The record must be read before anything else is done.
    must_read: bool,
    write: Write,
    goal: Goal,
    failures: u32,
    troubled: bool,
    not_before: Tick,
    /// The call that is under way: the record as it was when the call was sent, and the epoch then.
    sent: Option<(Record, Epoch)>,
}

/// When changes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Write {
    /// There are none.
    Nothing,
    /// Together with other changes, at this time.
    At(Tick),
    /// At once: an actor waits for it.
    Now,
}

impl Write {
    /// At this time, unless it is to be written already.
    fn at(&mut self, due: Tick) {
        if *self == Self::Nothing {
            *self = Self::At(due);
        }
    }

    fn is_due(self, now: Tick) -> bool {
        match self {
            Self::Nothing => false,
            Self::At(due) => now >= due,
            Self::Now => true,
        }
    }
}

/// What is done about the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// It is kept as wanted.
    Keep,
    /// It is deleted, and not written any more.
    Delete,
    /// Nothing: this driver is over, and the record is another driver's.
    Leave,
}

impl Keeping {
    /// The record as the start has written it.
    pub fn new(record: Record, place: RecordPlace, uid: PodUid, version: ResourceVersion) -> Self {
        Self {
            written: Some(record.clone()),
            wanted: record,
            place,
            map: Some((uid, version)),
            epoch: Epoch::default(),
            must_read: false,
            write: Write::Nothing,
            goal: Goal::Keep,
            failures: 0,
            troubled: false,
            not_before: Tick::default(),
            sent: None,
        }
    }

    /// How many executors were made, as the record has it.
    pub fn made(&self) -> Made {
        self.wanted.made()
    }

    /// The uid of the record as last seen.
    pub fn uid(&self) -> Option<&PodUid> {
        self.map.as_ref().map(|(uid, _)| uid)
    }

    /// The version of the record as last seen.
    pub fn version(&self) -> Option<&ResourceVersion> {
        self.map.as_ref().map(|(_, version)| version)
    }

    /// Changes the record; written soon, together with other changes.
    pub fn change(&mut self, change: impl FnOnce(&mut Record), now: Tick) {
        change(&mut self.wanted);
        if self.written.as_ref() != Some(&self.wanted) {
            self.write.at(now + DEBOUNCE);
        }
    }

    /// Something changed that becomes part of the record when it is written.
    pub fn gather(&mut self, now: Tick) {
        self.write.at(now + DEBOUNCE);
    }

    /// Whether what was gathered is to be written now.
    pub fn wants_intervals(&self, now: Tick) -> bool {
        self.write.is_due(now)
    }

    /// What was gathered: ids that have ended, ids that are bound and have not, and how many were made in all.
    pub fn set_intervals(&mut self, ended: IdSet, bound: IdSet, made: u64) {
        (self.wanted.ended, self.wanted.bound) = (ended, bound);
        self.wanted.made = Some(made);
        self.settle();
    }

    /// Whether the record is written as it should be.
    pub fn is_written(&self) -> bool {
        self.sent.is_none() && !self.must_read && self.written.as_ref() == Some(&self.wanted)
    }

    /// Whether the record is known, and no call about it is under way or needed to know it.
    pub fn is_settled(&self) -> bool {
        self.sent.is_none() && !self.must_read && self.map.is_some()
    }

    /// Changes the record; somebody waits for it to be written.
    pub fn change_now(&mut self, change: impl FnOnce(&mut Record)) {
        change(&mut self.wanted);
        self.write = Write::Now;
        self.settle();
    }

    /// The server's history has begun anew: only a record seen in the new one counts (spec K-2).
    pub fn begin_epoch(&mut self, epoch: Epoch) {
        self.epoch = epoch;
        self.must_read = true;
    }

    /// The record is to be read again: the watch on it ended, or showed something that must be understood.
    pub fn check(&mut self) {
        self.must_read = true;
    }

    /// The record is to be deleted, and not written any more.
    pub fn delete(&mut self) {
        if self.goal == Goal::Keep {
            self.goal = Goal::Delete;
        }
    }

    /// The watch shows the record.
    pub fn seen(&mut self, map: &ConfigMap) -> Vec<Effect> {
        if self.is_deleted_by(map) {
            return self.deleted();
        }
        let known = self.map.as_ref().is_some_and(|(uid, _)| *uid == map.uid);
        let newer = self.version().is_none_or(|version| map.version > *version);
        if let Some(over) = self.over(map) {
            self.goal = Goal::Leave;
            return vec![Effect::Over(over)];
        }
        if !known || (newer && self.sent.is_none()) {
            self.must_read = true;
        }
        Vec::new()
    }

    /// The watch shows that the record was deleted.
    pub fn seen_deleted(&mut self, uid: &PodUid) -> Vec<Effect> {
        if self.goal == Goal::Delete || self.uid() != Some(uid) {
            return Vec::new();
        }
        self.must_read = true;
        vec![Effect::Lost]
    }

    /// The next call, if one is to be made now.
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
        } else if self.map.is_none() {
            Op::Create(self.wanted.to_config_map(&self.place, None))
        } else if self.is_due(now) {
            let replaces = self.map.as_ref().map(|(uid, version)| (uid, version));
            Op::Replace(self.wanted.to_config_map(&self.place, replaces))
        } else {
            return None;
        };
        self.sent = Some((self.wanted.clone(), self.epoch));
        Some(op)
    }

    /// When the next call is to be made, if time alone stands in the way.
    pub fn next_at(&self) -> Option<Tick> {
        if self.sent.is_some() || self.goal == Goal::Leave {
            return None;
        }
        if self.goal == Goal::Delete || self.must_read || self.map.is_none() {
            return Some(self.not_before);
        }
        match self.write {
            Write::Nothing => None,
            Write::At(due) => Some(due.max(self.not_before)),
            Write::Now => Some(self.not_before),
        }
    }

    /// A call was answered.
    pub fn answered(&mut self, answer: Answer, now: Tick) -> Vec<Effect> {
        let (sent, asked_in) = self.sent.take().unzip();
        if asked_in != Some(self.epoch) && self.goal != Goal::Delete {
            // The server whose answer this is may be the one from before the restore.
            self.must_read = true;
            return Vec::new();
        }
        let recovered = self.troubled.then_some(Effect::Recovered);
        let mut effects = match answer {
            Answer::Failed(failure) => return self.failed(&failure, now),
            Answer::Got(Some(map)) => self.got(&map, now),
            Answer::Got(None) if self.goal == Goal::Delete => self.deleted(),
            Answer::Got(None) if planted::is(Planted::RecordNotRemade) => {
                self.must_read = false;
                vec![Effect::Lost]
            }
            Answer::Got(None) => {
                self.must_read = false;
                (self.map, self.written) = (None, None);
                vec![Effect::Lost]
            }
            Answer::Written(map) => {
                self.written = sent;
                self.settle();
                self.map = Some((map.uid, map.version));
                self.confirm()
            }
            Answer::Deleted => self.deleted(),
        };
        (self.failures, self.troubled, self.not_before) = (0, false, now);
        effects.extend(recovered);
        effects
    }

    /// Whether this is the record of those who come after: the one that is to be deleted is gone, whatever was heard
    /// of that, and theirs is not to be touched.
    fn is_deleted_by(&self, map: &ConfigMap) -> bool {
        self.goal == Goal::Delete && self.uid() != Some(&map.uid)
    }

    fn deleted(&mut self) -> Vec<Effect> {
        self.map = None;
        vec![Effect::Deleted]
    }

    fn is_due(&self, now: Tick) -> bool {
        let differs = self.written.as_ref() != Some(&self.wanted);
        differs && (self.written.is_none() || self.write.is_due(now))
    }

    fn got(&mut self, map: &ConfigMap, now: Tick) -> Vec<Effect> {
        self.must_read = false;
        if self.is_deleted_by(map) {
            return self.deleted();
        }
        if let Some(over) = self.over(map) {
            self.goal = Goal::Leave;
            return vec![Effect::Over(over)];
        }
        self.map = Some((map.uid.clone(), map.version.clone()));
        // An older incarnation's, restored from a backup, and one that nobody can read are written over.
        let ours = Record::read_own(map, &self.wanted.app_id).ok();
        self.written = ours.filter(|record| record.incarnation == self.wanted.incarnation);
        if self.written.is_none() {
            return Vec::new();
        }
        if self.written.as_ref() != Some(&self.wanted) {
            self.write.at(now);
        }
        self.settle();
        self.confirm()
    }

    /// Nothing is gathered any more where all is written.
    fn settle(&mut self) {
        if self.written.as_ref() == Some(&self.wanted) {
            self.write = Write::Nothing;
        }
    }

    fn confirm(&self) -> Vec<Effect> {
        let Some((uid, _)) = &self.map else {
            return Vec::new();
        };
        let mut effects = vec![Effect::Seen {
            uid: uid.clone(),
            epoch: self.epoch,
        }];
        effects.extend(
            self.written
                .as_ref()
                .and_then(|w| w.reserved)
                .map(Effect::Reserved),
        );
        if self.written.as_ref() == Some(&self.wanted) {
            effects.push(Effect::Flushed);
        }
        effects
    }

    fn over(&self, map: &ConfigMap) -> Option<Over> {
        match Record::read_own(map, &self.wanted.app_id) {
            Ok(record) if self.is_of_another(&record) => Some(match record.finished {
                Some(code) => Over::Finished(code),
                None => Over::Superseded {
                    by: record.incarnation.0,
                },
            }),
            Ok(_) | Err(RecordError::Unreadable { .. }) => None,
            Err(error @ (RecordError::Newer { .. } | RecordError::AnotherApplication { .. })) => {
                Some(Over::Foreign(error.to_string()))
            }
        }
    }

    /// Whether another driver that has begun later wrote this. The same number from another start counts: that one has
    /// read the record since this one last wrote it. So does any number in a record of another origin: it was made when
    /// this one's was gone, and the numbers began anew.
    fn is_of_another(&self, record: &Record) -> bool {
        let (theirs, ours) = (&record.holder, &self.wanted.holder);
        if planted::is(Planted::SupersededGoesOn) {
            return false;
        }
        if (record.origin.as_ref().zip(self.wanted.origin.as_ref())).is_some_and(|(a, b)| a != b) {
            return true;
        }
        match record.incarnation.cmp(&self.wanted.incarnation) {
            Ordering::Greater => true,
            Ordering::Equal => theirs.is_some() && theirs != ours,
            Ordering::Less => false,
        }
    }

    fn failed(&mut self, failure: &Failure, now: Tick) -> Vec<Effect> {
        // What became of a write is found out by reading.
        self.must_read = true;
        let contended = matches!(
            failure.kind,
            Kind::Conflict | Kind::AlreadyExists | Kind::NotFound
        );
        self.failures = self.failures.saturating_add(1);
        let at_once = contended && self.failures == 1;
        let wait = if at_once {
            Duration::ZERO
        } else {
            RETRY.delay(self.failures)
        };
        self.not_before = now + failure.retry_after.map_or(wait, |told| told.max(wait));
        if contended || std::mem::replace(&mut self.troubled, true) {
            return Vec::new();
        }
        vec![Effect::Troubled(Arc::clone(&failure.message))]
    }
}

#[cfg(test)]
mod tests;
