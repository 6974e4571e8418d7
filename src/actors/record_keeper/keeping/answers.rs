//! What an answer about the record, or a watched change of it, means.

use std::cmp::Ordering;
use std::time::Duration;

use super::{Answer, Effect, Goal, Keeping, Over, RETRY, Write};
use crate::kubernetes::calls::ConfigMap;
use crate::kubernetes::record::{Record, RecordError};
use crate::kubernetes::{Failure, FailureKind};
use crate::model::{PodUid, ResourceVersion, Tick};
use crate::planted::{self, Planted};

impl Keeping {
    pub fn seen(&mut self, map: &ConfigMap) -> Vec<Effect> {
        if self.is_deleted_by(map) {
            return self.deleted();
        }
        let known = self.map.as_ref().is_some_and(|(uid, _)| *uid == map.uid);
        let newer = self.version().is_none_or(|version| map.version > *version);
        match self.over(map) {
            Some(over) if newer => return self.leave(over),
            // A watch may begin with what a server's cache held before: only a read tells.
            Some(_) => self.must_read = true,
            None => {}
        }
        if !known || (newer && self.sent.is_none()) {
            self.must_read = true;
        }
        Vec::new()
    }

    /// The watch has shown everything up to this version, so the record existed then. Where its deletion is looked for,
    /// that version is in the server's history longer than the record's own.
    pub fn came_to(&mut self, version: ResourceVersion) {
        if self.map.is_some()
            && let Some(last) = &mut self.last_version
            && *last < version
        {
            *last = version;
        }
    }

    pub fn seen_deleted(&mut self, uid: &PodUid) -> Vec<Effect> {
        if self.goal == Goal::Delete || self.uid() != Some(uid) {
            return Vec::new();
        }
        self.must_read = true;
        self.gone = true;
        vec![Effect::Lost]
    }

    pub fn answered(&mut self, answer: Answer, now: Tick) -> Vec<Effect> {
        let (sent, asked_in) = self.sent.take().unzip();
        if asked_in != Some(self.epoch) && self.goal != Goal::Delete {
            // The answer may come from the server before its restore.
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
                self.gone = true;
                vec![Effect::Lost]
            }
            Answer::GotDeleted(last) => {
                self.last_version = None;
                match last.and_then(|map| self.over(&map)) {
                    Some(over) => self.leave(over),
                    None => Vec::new(),
                }
            }
            Answer::Written(map) => {
                self.written = sent;
                self.settle();
                self.set_identity(map.uid, map.version);
                self.outdated().unwrap_or_else(|| self.confirm())
            }
            Answer::Deleted => self.deleted(),
        };
        (self.failures, self.troubled, self.not_before) = (0, false, now);
        self.refusals = 0;
        effects.extend(recovered);
        effects
    }

    fn set_identity(&mut self, uid: PodUid, version: ResourceVersion) {
        self.last_version = Some(version.clone());
        self.gone = false;
        self.map = Some((uid, version));
    }

    fn leave(&mut self, over: Over) -> Vec<Effect> {
        self.goal = Goal::Leave;
        vec![Effect::Over(over)]
    }

    /// Whether this is a successor's record, which must not be touched. Then the own record no
    /// longer exists.
    fn is_deleted_by(&self, map: &ConfigMap) -> bool {
        self.goal == Goal::Delete && self.uid() != Some(&map.uid) && !self.is_from_before(map)
    }

    /// Whether this driver or one before it has written this record. It has another uid where an emptied server got a
    /// new one, and was then restored with the one before.
    fn is_from_before(&self, map: &ConfigMap) -> bool {
        let record = Record::read_own(map, &self.wanted.app_id);
        record.is_ok_and(|record| {
            let has_same_origin = record.origin.is_some() && record.origin == self.wanted.origin;
            has_same_origin && !self.is_of_another(&record)
        })
    }

    fn deleted(&mut self) -> Vec<Effect> {
        self.map = None;
        vec![Effect::Deleted]
    }

    fn got(&mut self, map: &ConfigMap, now: Tick) -> Vec<Effect> {
        self.must_read = false;
        if self.is_deleted_by(map) {
            return self.deleted();
        }
        if let Some(over) = self.over(map) {
            return self.leave(over);
        }
        self.set_identity(map.uid.clone(), map.version.clone());
        // The record of an earlier incarnation, restored from a backup, or an unreadable one is
        // overwritten.
        let ours = Record::read_own(map, &self.wanted.app_id).ok();
        self.written = ours.filter(|record| record.incarnation == self.wanted.incarnation);
        if self.written.is_none() {
            return Vec::new();
        }
        if let Some(effects) = self.outdated() {
            return effects;
        }
        if self.written.as_ref() != Some(&self.wanted) {
            self.write.by(now);
        }
        self.settle();
        self.confirm()
    }

    /// Whether pods bear a later incarnation than the record, which this driver holds: the record of
    /// their driver was lost. Nothing tells them from pods that are requested late, so this driver
    /// raises the record's incarnation to theirs and ends, and the next one adopts them.
    fn outdated(&mut self) -> Option<Vec<Effect>> {
        let later = self.later.filter(|_| self.goal == Goal::Keep)?;
        if self.wanted.incarnation < later {
            self.wanted.incarnation = later;
            self.write = Write::Now;
            return Some(Vec::new());
        }
        Some(self.leave(Over::Outdated { later: later.0 }))
    }

    /// Cancels the scheduled write if everything is written.
    pub(super) fn settle(&mut self) {
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

    /// Why this driver is over, if the record that was read says so (spec W-7).
    pub fn over(&self, map: &ConfigMap) -> Option<Over> {
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

    /// Whether a later driver has written this. The same incarnation from another start is later
    /// too: that start has read the record after this driver wrote it. So is any incarnation with
    /// another origin: the record was created again, and its numbers began at one.
    fn is_of_another(&self, record: &Record) -> bool {
        let (theirs, ours) = (&record.holder, &self.wanted.holder);
        if planted::is(Planted::SupersededGoesOn) {
            return false;
        }
        if (record.origin.as_ref().zip(self.wanted.origin.as_ref())).is_some_and(|(a, b)| a != b) {
            return true;
        }
        match record.incarnation.cmp(&self.incarnation) {
            // This driver may have raised it.
            Ordering::Greater => self.later.is_none() || theirs.is_none() || theirs != ours,
            Ordering::Equal => theirs.is_some() && theirs != ours,
            Ordering::Less => false,
        }
    }

    fn failed(&mut self, failure: &Failure, now: Tick) -> Vec<Effect> {
        // Only a read shows whether a write was committed.
        self.must_read = true;
        let contended = matches!(
            failure.kind,
            FailureKind::Conflict | FailureKind::AlreadyExists | FailureKind::NotFound
        );
        self.failures = self.failures.saturating_add(1);
        let at_once = contended && self.failures == 1;
        let wait = if at_once {
            Duration::ZERO
        } else {
            RETRY.delay(self.failures)
        };
        self.asked_to_wait = now + failure.retry_after.unwrap_or_default();
        self.not_before = self.asked_to_wait.max(now + wait);
        self.refusals = match failure.kind {
            FailureKind::Rights => self.refusals.saturating_add(1),
            _ => 0,
        };
        let mut effects = Vec::new();
        if self.may_not_write() {
            effects.push(Effect::MayNotWrite);
        }
        if !contended && !std::mem::replace(&mut self.troubled, true) {
            effects.push(Effect::Troubled(failure.explained()));
        }
        effects
    }
}
