//! Spares: executors whose programs are held back until a profile lacks one (spec ).

use std::collections::BTreeMap;

use crate::actors::pod_allocator::demand::View;
use crate::model::executor::Class;
use crate::model::{Entry, ExecutorId, ProfileName, Snapshot};
use crate::planted::{self, Planted};

/// The live spares that have a pod, with the profile that each may be promoted to.
#[derive(Debug, Default)]
pub(super) struct Spares(BTreeMap<ExecutorId, ProfileName>);

impl Spares {
    pub(super) fn observe(&mut self, id: ExecutorId, entry: Option<&Entry>) {
        let profile = entry
            .filter(|entry| entry.pod().is_some() && entry.class().may_be_chosen())
            .and_then(|entry| entry.profile.spares_of());
        match profile {
            Some(profile) => drop(self.0.insert(id, profile)),
            None => drop(self.0.remove(&id)),
        }
    }

    /// The spares to promote of each profile that lacks executors and may have them now: those that run first, then the
    /// oldest. A refusal of requests, such as for want of quota, is no reason to do without.
    pub(super) fn needed(&self, view: &View<'_>) -> BTreeMap<ProfileName, Vec<ExecutorId>> {
        let mut needed = BTreeMap::new();
        if self.0.is_empty() || planted::is(Planted::SparesKept) {
            return needed;
        }
        for profile in view.latest.targets.keys() {
            let missing = view.missing(profile, None) as usize;
            if missing == 0 {
                continue;
            }
            let mut ids = self.of(profile, view.latest);
            ids.truncate(missing);
            if !ids.is_empty() {
                needed.insert(profile.clone(), ids);
            }
        }
        needed
    }

    fn of(&self, profile: &ProfileName, latest: &Snapshot) -> Vec<ExecutorId> {
        let own = self.0.iter().filter(|(_, of)| *of == profile);
        let mut own: Vec<_> = own
            .filter_map(|(id, _)| Some((latest.entry(*id)?.class() != Class::Running, *id)))
            .collect();
        own.sort_unstable();
        own.into_iter().map(|(_, id)| id).collect()
    }
}
