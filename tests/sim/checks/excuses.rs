//! Injected faults that excuse a driver's actions, each kept as narrow as the fault itself.

use std::collections::{BTreeMap, BTreeSet};

use boatswain::model::{ExecutorId, PodUid, ProfileName};
use tokio::time::Instant;

use super::Checks;
use crate::node::Mishap;
use crate::script::Tampering;

#[derive(Debug, Default)]
pub struct Excuses {
    /// When the server lost its state or was restored to an earlier one.
    pub rewritten: Vec<Instant>,
    /// Profiles whose target was changed.
    pub retargeted: BTreeSet<ProfileName>,
    /// Executors that a driver was asked to kill, with or without a pod at that time.
    pub killed: BTreeSet<ExecutorId>,
    /// Whether gangs are on: an incomplete gang may be released.
    pub gangs: bool,
    /// Pods whose labels were changed, or not set at creation.
    pub relabelled: BTreeSet<String>,
    /// Pods that no driver created.
    pub planted: BTreeSet<String>,
    /// Those of them that claim a future incarnation. They belong to no executor, because a driver cannot know that
    /// there is no such incarnation (spec I-10), until a successor adopts them.
    pub unborn: BTreeSet<String>,
    /// Pods that were undecodable when they were adopted.
    pub unread: BTreeSet<PodUid>,
    /// The application is being ended.
    pub ending: bool,
    /// When the record was edited, and how.
    tampered: Vec<(Instant, Tampering)>,
    /// When a driver ended the application; a driver that starts later starts the application again.
    ended: Vec<Instant>,
    /// When the record was last repaired.
    mended: Option<Instant>,
    /// Faults injected into pods.
    pub(super) mishaps: BTreeMap<String, Vec<Mishap>>,
}

impl Excuses {
    fn was_tampered_since(&self, since: Instant, which: impl Fn(Tampering) -> bool) -> bool {
        (self.tampered.iter()).any(|(at, what)| *at >= since && which(*what))
    }
}

impl Checks {
    pub fn was_rewritten_since(&self, since: Instant) -> bool {
        self.excuses.rewritten.iter().any(|at| *at >= since)
    }

    pub fn was_ended_since(&self, since: Instant) -> bool {
        self.excuses.ended.iter().any(|at| *at >= since)
    }

    /// Whether an earlier driver of the same application has a higher incarnation, because a restore brought back an
    /// older record from which this driver counted on.
    pub fn is_outnumbered(&self, driver: usize) -> bool {
        let number = |driver| self.drivers.get(&driver).and_then(|seen| seen.incarnation);
        (self.drivers.iter()).any(|(other, its)| {
            let since = its.began.is_some_and(|at| self.was_rewritten_since(at));
            *other < driver && its.incarnation > number(driver) && since
        })
    }

    pub fn incarnation(&self, driver: usize) -> Option<u64> {
        self.drivers.get(&driver)?.incarnation
    }

    /// Whether a driver with a higher number has requested executors, which this driver must not end.
    pub fn has_a_successor(&self, driver: usize) -> bool {
        (self.drivers.range(driver + 1..)).any(|(_, its)| !its.asked_for.is_empty())
    }

    pub fn was_raised_since(&self, since: Instant) -> bool {
        (self.excuses).was_tampered_since(since, |what| what == Tampering::Raise)
    }

    pub fn was_deleted_since(&self, since: Instant) -> bool {
        (self.excuses).was_tampered_since(since, |what| {
            matches!(what, Tampering::Delete | Tampering::Orphan)
        })
    }

    /// Whether the record was unusable for drivers at any time since then.
    pub fn was_garbled_since(&self, since: Instant) -> bool {
        let garbles = |what: Tampering| {
            matches!(
                what,
                Tampering::Nonsense
                    | Tampering::Empty
                    | Tampering::NewerFormat
                    | Tampering::AnotherApplication
            )
        };
        let last = (self.excuses.tampered.iter()).rfind(|(_, what)| garbles(*what));
        let lasted = last.is_some_and(|(at, _)| {
            (self.excuses.mended).is_none_or(|mended| mended < *at || mended >= since)
        });
        lasted || (self.excuses).was_tampered_since(since, garbles)
    }

    /// Notes an edit of the record.
    pub fn tampered(&mut self, what: Tampering) {
        self.excuses.tampered.push((Instant::now(), what));
        // The contents of the record are unknown until a driver writes it again.
        if what != Tampering::Touch {
            self.budget.forget_what_is_sure();
            self.recorded.clear();
        }
    }

    /// Notes that the record was repaired.
    pub fn mended(&mut self) {
        self.excuses.mended = Some(Instant::now());
    }

    /// Notes a fault injected into a pod.
    pub fn mishap(&mut self, uid: &str, how: Mishap) {
        let befell = self.excuses.mishaps.entry(uid.to_owned()).or_default();
        befell.push(how);
    }

    /// Notes that a driver has ended the application; no earlier executor's end has to be reported any more.
    pub fn application_ended(&mut self) {
        self.excuses.ended.push(Instant::now());
        self.budget.forget_what_is_sure();
        self.recorded.clear();
    }
}
