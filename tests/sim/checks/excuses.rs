//! What the world did that excuses what drivers then do: each as narrow as what was done.

use std::collections::{BTreeMap, BTreeSet};

use boatswain::model::{ExecutorId, PodUid, ProfileName};
use tokio::time::Instant;

use super::Checks;
use crate::node::Mishap;
use crate::script::Tampering;

/// What the world did, which excuses what a driver then does.
#[derive(Debug, Default)]
pub struct Excuses {
    /// When the server was emptied, or put back to an earlier state: what was true is not.
    pub rewritten: Vec<Instant>,
    /// Profiles whose target was changed.
    pub retargeted: BTreeSet<ProfileName>,
    /// Executors that somebody asked a driver to kill, whether they had a pod by then or not.
    pub killed: BTreeSet<ExecutorId>,
    /// Executors are of use only together, and those that wait may have to make room.
    pub gangs: bool,
    /// Pods whose labels were changed, or not given.
    pub relabelled: BTreeSet<String>,
    /// Pods made by others.
    pub planted: BTreeSet<String>,
    /// Those among them that say that a driver asked for them that is not born yet: nobody's, for no driver can know
    /// that there is no such driver (spec I-10), until one that takes over adopts them.
    pub unborn: BTreeSet<String>,
    /// Pods that could not be read when they were adopted.
    pub unread: BTreeSet<PodUid>,
    /// The application is being ended.
    pub ending: bool,
    /// When somebody's hands were on the record, and what they did.
    tampered: Vec<(Instant, Tampering)>,
    /// When a driver had ended the application: whoever begins after that begins it anew.
    ended: Vec<Instant>,
    /// When that was put right.
    mended: Option<Instant>,
    /// What befell pods.
    pub(super) mishaps: BTreeMap<String, Vec<Mishap>>,
}

impl Excuses {
    fn was_tampered_since(&self, since: Instant, which: impl Fn(Tampering) -> bool) -> bool {
        (self.tampered.iter()).any(|(at, what)| *at >= since && which(*what))
    }
}

impl Checks {
    /// The server's history was replaced since then.
    pub fn was_rewritten_since(&self, since: Instant) -> bool {
        self.excuses.rewritten.iter().any(|at| *at >= since)
    }

    /// A driver has ended the application since then.
    pub fn was_ended_since(&self, since: Instant) -> bool {
        self.excuses.ended.iter().any(|at| *at >= since)
    }

    /// Whether another driver of the same application has a higher number, though it began earlier: a backup has brought
    /// back a record from before its start, and this one has counted on from there.
    pub fn is_outnumbered(&self, driver: usize) -> bool {
        let number = |driver| self.drivers.get(&driver).and_then(|seen| seen.incarnation);
        (self.drivers.iter()).any(|(other, its)| {
            let since = its.began.is_some_and(|at| self.was_rewritten_since(at));
            *other < driver && its.incarnation > number(driver) && since
        })
    }

    /// A driver's number in the record.
    pub fn incarnation(&self, driver: usize) -> Option<u64> {
        self.drivers.get(&driver)?.incarnation
    }

    /// Whether a driver with a higher number asked for executors, which are not this one's to end.
    pub fn has_a_successor(&self, driver: usize) -> bool {
        (self.drivers.range(driver + 1..)).any(|(_, its)| !its.asked_for.is_empty())
    }

    /// Somebody raised the incarnation in the record since then.
    pub fn was_raised_since(&self, since: Instant) -> bool {
        (self.excuses).was_tampered_since(since, |what| what == Tampering::Raise)
    }

    /// Somebody deleted the record since then.
    pub fn was_deleted_since(&self, since: Instant) -> bool {
        (self.excuses).was_tampered_since(since, |what| {
            matches!(what, Tampering::Delete | Tampering::Orphan)
        })
    }

    /// The record was one that no driver can work with at some time since then.
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

    /// Somebody's hands are on the record.
    pub fn tampered(&mut self, what: Tampering) {
        self.excuses.tampered.push((Instant::now(), what));
        // What it knew nobody may know any more, until the driver has written it again.
        if what != Tampering::Touch {
            self.budget.forget_what_is_sure();
            self.recorded.clear();
        }
    }

    /// It was put right.
    pub fn mended(&mut self) {
        self.excuses.mended = Some(Instant::now());
    }

    /// This befell a pod.
    pub fn mishap(&mut self, uid: &str, how: Mishap) {
        let befell = self.excuses.mishaps.entry(uid.to_owned()).or_default();
        befell.push(how);
    }

    /// A driver has ended the application, and nothing of it is left that would have to be reported.
    pub fn application_ended(&mut self) {
        self.excuses.ended.push(Instant::now());
        self.budget.forget_what_is_sure();
        self.recorded.clear();
    }
}
