//! The targets as they were asked for, and what is held: pure (spec B-25, B-31).

use std::collections::BTreeMap;

use super::messages::{AdjustTarget, RefusedTargets};
use crate::actors::profiles::messages::Bounds;
use crate::kubernetes::record::Held;
use crate::model::ProfileName;

/// What was asked for.
///
/// The ledger's targets differ from these while executors are held (then they are 0), and by one while an executor is
/// replaced (spec B-32).
#[derive(Debug, Clone)]
pub struct Targets {
    bounds: BTreeMap<ProfileName, Bounds>,
    asked: BTreeMap<ProfileName, u32>,
    held: Option<Held>,
}

impl Targets {
    /// As they were at the start.
    pub fn new(
        bounds: BTreeMap<ProfileName, Bounds>,
        asked: BTreeMap<ProfileName, u32>,
        held: Option<Held>,
    ) -> Self {
        Self {
            bounds,
            asked,
            held,
        }
    }

    /// How many executors of each profile.
    pub fn asked(&self) -> &BTreeMap<ProfileName, u32> {
        &self.asked
    }

    /// What is held.
    pub fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    /// Executors are held, or no longer.
    pub fn set_held(&mut self, held: Option<Held>) {
        self.held = held;
    }

    /// Takes new targets in.
    ///
    /// # Errors
    /// Where one of them cannot be: then none is taken in (spec B-25).
    pub fn set(&mut self, targets: &BTreeMap<ProfileName, u32>) -> Result<(), RefusedTargets> {
        if let Some(refused) = self.refused(targets) {
            return Err(refused);
        }
        self.ask(targets);
        Ok(())
    }

    fn refused(&self, targets: &BTreeMap<ProfileName, u32>) -> Option<RefusedTargets> {
        targets.iter().find_map(|(profile, target)| {
            let profile = profile.clone();
            let Some(bounds) = self.bounds.get(&profile) else {
                let known: Vec<&str> = self.bounds.keys().map(ProfileName::as_str).collect();
                let known = known.join(", ");
                return Some(RefusedTargets::UnknownProfile { profile, known });
            };
            let (target, most) = (*target, bounds.most);
            let refused = RefusedTargets::TooMany {
                profile,
                target,
                most,
            };
            (target > most).then_some(refused)
        })
    }

    /// A profile was added.
    pub fn add(&mut self, profile: &ProfileName, bounds: Bounds, target: u32) {
        self.bounds.insert(profile.clone(), bounds);
        self.ask(&BTreeMap::from([(profile.clone(), target)]));
    }

    fn ask(&mut self, targets: &BTreeMap<ProfileName, u32>) {
        let asked = || targets.iter().map(|(profile, n)| (profile.clone(), *n));
        self.asked.extend(asked());
        if let Some(held) = &mut self.held {
            held.targets.extend(asked());
        }
    }

    /// The targets fall by this many executors; returns the new ones. Held targets stay what they were.
    pub fn fall(&mut self, by: BTreeMap<ProfileName, u32>) -> BTreeMap<ProfileName, u32> {
        let mut fallen = BTreeMap::new();
        if self.held.is_some() {
            return fallen;
        }
        for (profile, by) in by {
            if let Some(target) = self.asked.get_mut(&profile) {
                *target = target.saturating_sub(by);
                fallen.insert(profile, *target);
            }
        }
        fallen
    }

    /// Whether an automatic decision still stands; where it does and is kept, its target is what is asked for.
    pub fn adjust(&mut self, adjust: &AdjustTarget) -> bool {
        let stands = self.held.is_none() && self.asked.get(&adjust.profile) == Some(&adjust.asked);
        if stands && adjust.kept {
            self.asked.insert(adjust.profile.clone(), adjust.target);
        }
        stands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(held: bool) -> Targets {
        let bounds = Bounds {
            slots: 1,
            least: 0,
            most: 9,
        };
        let asked = BTreeMap::from([("default".into(), 3)]);
        let held = held.then(|| Held {
            targets: asked.clone(),
            by: None,
        });
        Targets::new(BTreeMap::from([("default".into(), bounds)]), asked, held)
    }

    fn of(targets: &[(&str, u32)]) -> BTreeMap<ProfileName, u32> {
        targets.iter().map(|(p, n)| ((*p).into(), *n)).collect()
    }

    fn adjust(asked: u32, kept: bool) -> AdjustTarget {
        AdjustTarget {
            profile: "default".into(),
            asked,
            target: 4,
            kept,
            retire: Vec::new(),
            by: "autoscaling".into(),
        }
    }

    // spec: B-25
    #[test]
    fn targets_are_taken_in_all_or_none() {
        let mut targets = targets(false);
        for wrong in [of(&[("default", 5), ("other", 1)]), of(&[("default", 10)])] {
            assert!(targets.set(&wrong).is_err());
            assert_eq!(*targets.asked(), of(&[("default", 3)]));
        }
        assert_eq!(targets.set(&of(&[("default", 9)])), Ok(()));
        assert_eq!(*targets.asked(), of(&[("default", 9)]));
    }

    // spec: B-31
    #[test]
    fn what_is_set_or_added_while_executors_are_held_is_held() {
        let mut targets = targets(true);
        assert_eq!(targets.set(&of(&[("default", 5)])), Ok(()));
        let bounds = targets.bounds[&ProfileName::from("default")];
        targets.add(&"large".into(), bounds, 2);
        let all = of(&[("default", 5), ("large", 2)]);
        assert_eq!(targets.held().unwrap().targets, all);
        assert_eq!(targets.fall(of(&[("default", 1)])), of(&[]));
        assert_eq!(*targets.asked(), all);
    }

    // spec: B-42, B-32
    #[test]
    fn an_automatic_decision_counts_only_while_the_target_is_the_one_that_it_stands_on() {
        let mut changed = targets(false);
        assert!(!changed.adjust(&adjust(2, true)), "another target was set");
        assert!(changed.adjust(&adjust(3, false)));
        assert_eq!(*changed.asked(), of(&[("default", 3)]));
        assert!(changed.adjust(&adjust(3, true)));
        assert_eq!(*changed.asked(), of(&[("default", 4)]));
        assert!(!targets(true).adjust(&adjust(3, true)), "they are held");
    }
}
