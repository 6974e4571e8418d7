//! What the calls about sets and their pods came to.

use super::*;
use crate::planted::{self, Planted};

impl Scaling {
    /// All sets were looked at, or could not be.
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

    /// A call about a set was answered, with the set as it is then; or it failed, and all are looked at again.
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

    /// How often a call about this set has failed since one succeeded.
    pub fn failures_of(&self, name: &str) -> u32 {
        self.sets.get(name).map_or(0, |trial| trial.failures)
    }

    /// A pod was given its id, or was not.
    pub fn numbered(&mut self, uid: &PodUid, succeeded: bool, now: Tick) {
        if let Some((.., trial)) = self.numbers.get_mut(uid) {
            trial.over(succeeded, &self.settings.backoff, now);
            if succeeded {
                // The news of it is on the way to the store; if it never comes, it is tried again.
                trial.not_before = now + self.settings.look_every;
            }
        }
    }

    /// A pod was said to be the first to go, or could not be: then it takes its chance.
    pub fn cheapened(&mut self, id: ExecutorId) {
        if let Some(under_way) = self.cheap.get_mut(&id) {
            *under_way = false;
        }
    }

    /// Ids were reserved up to this one, or could not be.
    pub fn reserved(&mut self, up_to: Option<ExecutorId>) {
        self.ids.answered(up_to);
    }
}
