//! Changes the owner of executors' pods to the current record: with another record they would be
//! garbage-collected (spec K-13).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::kubernetes::FailureKind;
use crate::model::executor::State;
use crate::model::{Entry, ExecutorId, PodState, PodUid};
use crate::planted::{self, Planted};

/// After this many failures nothing waits for a pod's owner any more. It is tried again when the record is looked at
/// the next time.
const MAX_TRIES: u32 = 5;

const MAX_IN_FLIGHT: usize = 16;

#[derive(Debug, Default)]
pub struct Owners {
    orphans: BTreeMap<ExecutorId, Orphan>,
}

#[derive(Debug, Default)]
struct Orphan {
    tries: u32,
    in_flight: bool,
}

/// A patch of a pod's owner, with the uid as precondition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adoption {
    pub id: ExecutorId,
    pub name: Arc<str>,
    pub uid: PodUid,
}

impl Owners {
    /// Processes the change of an entry. Without a record, no new owner is known. Returns whether another record is
    /// seen to own the pod for the first time: it may be a younger driver's.
    pub fn observe(
        &mut self,
        id: ExecutorId,
        entry: Option<&Entry>,
        record: Option<&PodUid>,
    ) -> bool {
        let ownership = entry.map_or(Ownership::NotNeeded, ownership);
        match (ownership, record) {
            (Ownership::NotNeeded, _) => {
                self.orphans.remove(&id);
                false
            }
            (Ownership::Missing | Ownership::Record(_), None) => false,
            (Ownership::Record(owner), Some(record)) if owner == record => {
                self.orphans.remove(&id);
                false
            }
            (Ownership::Missing, Some(_)) => {
                self.orphans.entry(id).or_default();
                false
            }
            (Ownership::Record(_), Some(_)) => {
                let is_new = !self.orphans.contains_key(&id);
                self.orphans.entry(id).or_default();
                is_new
            }
        }
    }

    pub fn next<'a>(
        &mut self,
        entry: impl Fn(ExecutorId) -> Option<&'a Arc<Entry>>,
    ) -> Vec<Adoption> {
        let busy = self
            .orphans
            .values()
            .filter(|orphan| orphan.in_flight)
            .count();
        let mut adoptions = Vec::new();
        for (&id, orphan) in &mut self.orphans {
            if busy + adoptions.len() >= MAX_IN_FLIGHT {
                break;
            }
            let pod = entry(id).and_then(|entry| entry.pod());
            if let Some(pod) = pod.filter(|_| !orphan.in_flight && orphan.tries < MAX_TRIES) {
                orphan.in_flight = true;
                orphan.tries += 1;
                let (name, uid) = (Arc::clone(&pod.name), pod.uid.clone());
                adoptions.push(Adoption { id, name, uid });
            }
        }
        adoptions
    }

    /// Processes the answer to a patch. After a success, the pod is soon seen with its new owner. A failure that says
    /// nothing about the pod does not count as a try.
    pub fn answered(&mut self, id: ExecutorId, failed: Option<FailureKind>) {
        let Some(kind) = failed else {
            self.orphans.remove(&id);
            return;
        };
        if let Some(orphan) = self.orphans.get_mut(&id) {
            orphan.in_flight = false;
            if matches!(
                kind,
                FailureKind::Credentials | FailureKind::Wait | FailureKind::Unreachable
            ) {
                // Its pod may have been seen anew meanwhile, with no tries.
                orphan.tries = orphan.tries.saturating_sub(1);
            }
        }
    }

    /// Tries the pods again that failed too often: there is another record, or the API server is back, or time has
    /// passed.
    pub fn try_again(&mut self) {
        for orphan in self.orphans.values_mut() {
            orphan.tries = u32::from(orphan.in_flight);
        }
    }

    /// Whether every pod has its owner, or has failed too often.
    pub fn is_settled(&self) -> bool {
        self.orphans
            .values()
            .all(|orphan| orphan.tries >= MAX_TRIES && !orphan.in_flight)
    }
}

enum Ownership<'a> {
    /// The pod no longer runs, or does not exist yet.
    NotNeeded,
    Missing,
    Record(&'a PodUid),
}

fn ownership(entry: &Entry) -> Ownership<'_> {
    let State::Bound(bound) = &entry.state else {
        return Ownership::NotNeeded;
    };
    let over = bound.pod.state().is_finished() || bound.pod.state() == PodState::Terminating;
    let needs_one = !over && bound.absent.is_none() && !planted::is(Planted::LivingNotGiven);
    match (needs_one, &bound.pod.owner) {
        (false, _) => Ownership::NotNeeded,
        (true, None) => Ownership::Missing,
        (true, Some(record)) => Ownership::Record(record),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::executor::Bound;
    use crate::model::testing::pending;
    use crate::model::{Epoch, Incarnation, Pod, Tick};

    fn entry(id: u64, owner: Option<&str>) -> Arc<Entry> {
        let pod = Pod {
            owner: owner.map(PodUid::from),
            ..pending("a", id, "u", 1)
        };
        let id = ExecutorId::new(id).unwrap();
        let (tick, epoch) = (Tick::default(), Epoch::default());
        let mut entry = Entry::requested(id, "default".into(), Incarnation(1), tick, epoch);
        entry.state = State::Bound(Bound {
            pod: Arc::new(pod),
            epoch,
            bound_at: 1,
            since: tick,
            running_since: None,
            absent: None,
        });
        Arc::new(entry)
    }

    // spec: K-13, K-14
    #[test]
    fn living_executors_get_a_new_record_as_owner_and_a_failing_patch_blocks_no_other() {
        let record: PodUid = "new".into();
        let fleet: Vec<_> = (1..=40).map(|id| entry(id, Some("old"))).collect();
        let find = |id: ExecutorId| fleet.get(id.get() as usize - 1);
        let mut owners = Owners::default();
        for entry in &fleet {
            owners.observe(entry.id, Some(entry), Some(&record));
        }
        let first = ExecutorId::FIRST;
        let mut patched = 0;
        while !owners.is_settled() {
            let adoptions = owners.next(find);
            assert!(!adoptions.is_empty() && adoptions.len() <= MAX_IN_FLIGHT);
            for adoption in adoptions {
                patched += 1;
                let failed = (adoption.id == first).then_some(FailureKind::Invalid);
                owners.answered(adoption.id, failed);
            }
        }
        assert_eq!(patched, 39 + MAX_TRIES);
        assert!(owners.next(find).is_empty());
        owners.try_again();
        assert!(!owners.is_settled());
        assert_eq!(owners.next(find).len(), 1);
    }

    // spec: K-14
    #[test]
    fn failures_that_say_nothing_about_a_pod_are_no_tries_of_it() {
        let lives = entry(1, Some("old"));
        let mut owners = Owners::default();
        owners.observe(lives.id, Some(&lives), Some(&"new".into()));
        let others = [
            FailureKind::Credentials,
            FailureKind::Wait,
            FailureKind::Unreachable,
        ];
        for kind in others.into_iter().cycle().take(3 * MAX_TRIES as usize) {
            assert_eq!(owners.next(|_| Some(&lives)).len(), 1);
            owners.answered(lives.id, Some(kind));
            assert!(!owners.is_settled());
        }
    }

    // spec: K-13
    #[test]
    fn an_executor_that_has_the_right_owner_is_left_alone() {
        let mut owners = Owners::default();
        let mine = entry(1, Some("new"));
        owners.observe(mine.id, Some(&mine), Some(&"new".into()));
        assert!(owners.is_settled() && owners.orphans.is_empty());
    }

    // spec: K-14
    #[test]
    fn a_pod_of_another_record_has_the_own_record_read_again_once() {
        let mut owners = Owners::default();
        let record: PodUid = "new".into();
        let theirs = entry(1, Some("theirs"));
        assert!(owners.observe(theirs.id, Some(&theirs), Some(&record)));
        assert!(!owners.observe(theirs.id, Some(&theirs), Some(&record)));
        let orphaned = entry(2, None);
        assert!(!owners.observe(orphaned.id, Some(&orphaned), Some(&record)));
    }

    // spec: K-13, I-4
    #[test]
    fn an_executor_that_ends_while_there_is_no_record_is_not_waited_for() {
        let mut owners = Owners::default();
        let (lives, ends) = (entry(1, Some("old")), entry(2, Some("old")));
        for entry in [&lives, &ends] {
            owners.observe(entry.id, Some(entry), Some(&"new".into()));
        }
        owners.observe(lives.id, Some(&lives), None);
        owners.observe(ends.id, None, None);
        assert_eq!(owners.orphans.keys().collect::<Vec<_>>(), [&lives.id]);
    }
}
