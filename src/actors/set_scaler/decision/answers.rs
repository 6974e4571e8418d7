use super::*;
use crate::planted::{self, Planted};

impl Scaling {
    /// The sets were listed; `None`: the list failed.
    pub fn looked(&mut self, sets: Option<Vec<SetSeen>>, now: Tick) {
        self.look.over(sets.is_some(), &self.settings.backoff, now);
        if let Some(sets) = sets {
            let sets = sets.into_iter().map(|set| (set.name.clone(), set));
            self.observed = Some(sets.collect());
            let soon = self.settings.backoff.initial;
            let pause = if self.ending {
                soon
            } else if planted::is(Planted::SetsLookedAtOnce) {
                Duration::MAX / 2
            } else {
                self.settings.look_every
            };
            self.look_at = now + pause;
        }
    }

    /// A call about a set returned the set. After a failure all sets are listed again.
    pub fn written(&mut self, name: &str, seen: Result<SetSeen, ()>, now: Tick) {
        let trial = self.sets.entry(name.to_owned()).or_default();
        trial.over(seen.is_ok(), &self.settings.backoff, now);
        match (seen, &mut self.observed) {
            (Ok(seen), Some(observed)) => {
                observed.insert(name.to_owned(), seen);
            }
            _ => self.look_at = Tick::default(),
        }
    }

    /// Consecutive failures of calls about this set.
    pub fn failures_of(&self, name: &str) -> u32 {
        self.sets.get(name).map_or(0, |trial| trial.failures)
    }

    /// A call to assign an id to a pod was answered.
    pub fn numbered(&mut self, uid: &PodUid, succeeded: bool, now: Tick) {
        if let Some(Numbering { trial, .. }) = self.numbers.get_mut(uid) {
            trial.over(succeeded, &self.settings.backoff, now);
            if succeeded {
                // The news is on its way to the store. If it never arrives, the call is repeated.
                trial.not_before = now + self.settings.look_every;
            }
        }
    }

    /// A call to mark a pod was answered. A failure is ignored: the set then chooses for itself.
    pub fn cheapened(&mut self, id: ExecutorId) {
        if let Some(under_way) = self.cheap.get_mut(&id) {
            *under_way = false;
        }
    }

    /// Ids up to this one were reserved; `None`: the reservation failed.
    pub fn reserved(&mut self, up_to: Option<ExecutorId>) {
        self.ids.answered(up_to);
    }
}
