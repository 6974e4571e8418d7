//! Free and soon free claims, by shape (spec A-60).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::model::claims::{Claim, ClaimShape, ClaimTemplate};

#[derive(Debug, Default)]
pub(super) struct Pool {
    free: BTreeMap<ClaimShape, VecDeque<Arc<str>>>,
    expected: BTreeMap<ClaimShape, u32>,
}

impl Pool {
    /// Adds a free claim.
    pub(super) fn add(&mut self, claim: &Claim) {
        let alike = self.free.entry(claim.shape.clone()).or_default();
        alike.push_back(Arc::clone(&claim.name));
    }

    /// Adds a claim that is about to become free.
    pub(super) fn expect(&mut self, claim: &Claim) {
        *self.expected.entry(claim.shape.clone()).or_default() += 1;
    }

    /// Takes a free claim that fits, the smallest of those that are otherwise alike.
    pub(super) fn take(&mut self, wanted: &ClaimShape) -> Option<Arc<str>> {
        let does = |(shape, names): &(&ClaimShape, &mut VecDeque<Arc<str>>)| {
            !names.is_empty() && shape.does_for(wanted)
        };
        let (_, names) = self.free.iter_mut().find(does)?;
        names.pop_front()
    }

    /// The numbers, to plan with.
    pub(super) fn counts(&self) -> Counts {
        let number = |names: &VecDeque<Arc<str>>| u32::try_from(names.len()).unwrap_or(u32::MAX);
        Counts {
            free: (self.free.iter())
                .map(|(shape, names)| (shape.clone(), number(names)))
                .collect(),
            expected: self.expected.clone(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Counts {
    free: BTreeMap<ClaimShape, u32>,
    expected: BTreeMap<ClaimShape, u32>,
}

impl Counts {
    /// How many of these executors need not wait. Each that waits does so for a claim that is
    /// expected, and no two for the same.
    pub(super) fn need_not_wait<'a>(
        &mut self,
        templates: impl Iterator<Item = &'a ClaimTemplate> + Clone,
        executors: u32,
    ) -> u32 {
        let mut waiting = 0;
        for _ in 0..executors {
            if self.expected.is_empty() {
                break;
            }
            let mut waits = false;
            for template in templates.clone() {
                let wanted = &template.shape;
                waits |= !take_one(&mut self.free, wanted) && take_one(&mut self.expected, wanted);
            }
            waiting += u32::from(waits);
        }
        executors - waiting
    }

    /// How many of these executors find all their claims among the free ones.
    pub(super) fn suffice_for<'a>(
        &mut self,
        templates: impl Iterator<Item = &'a ClaimTemplate> + Clone,
        executors: u32,
    ) -> u32 {
        let mut all_free =
            || (templates.clone()).all(|template| take_one(&mut self.free, &template.shape));
        let served = (0..executors).take_while(|_| all_free()).count();
        u32::try_from(served).unwrap_or(u32::MAX)
    }
}

fn take_one(counts: &mut BTreeMap<ClaimShape, u32>, wanted: &ClaimShape) -> bool {
    let does = |(shape, _): &(&ClaimShape, &mut u32)| shape.does_for(wanted);
    let Some((shape, left)) = counts.iter_mut().find(does) else {
        return false;
    };
    *left -= 1;
    if *left == 0 {
        let shape = shape.clone();
        counts.remove(&shape);
    }
    true
}
