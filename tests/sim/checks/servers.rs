//! Checks the number of executors on the server, whatever the ledgers count.

use std::collections::BTreeMap;

use boatswain::model::{ExecutorId, PodUid, ProfileName, Snapshot};
use devcluster::State;
use tokio::time::Instant;

use super::{Checks, CreatedPod, Verdict, is_healthy};
use crate::objects::{NAMESPACE, label, text};

impl Checks {
    /// The healthy pods that drivers of this application created and whose labels no fault has changed.
    fn living<'a>(
        &'a self,
        server: &'a State,
    ) -> impl Iterator<Item = (PodUid, &'a CreatedPod)> + 'a {
        (server.pods(NAMESPACE))
            .filter(|pod| is_healthy(pod) && label(pod, "boatswain.dev/app-id") == self.app_id)
            .filter_map(|pod| {
                let uid = PodUid::from(text(pod, "/metadata/uid"));
                let relabelled = self.excuses.relabelled.contains(uid.as_str());
                let created = self.created.get(&uid).filter(|_| !relabelled)?;
                Some((uid, created))
            })
    }

    /// No profile has more executors on the server than the highest target in force since the oldest was requested,
    /// apart from those whose removal was decided and those that a fault has made surplus.
    // spec: I-3
    pub fn check_number_of_pods(&mut self, server: &State) -> Verdict {
        let version = server.resource_version();
        if self.is_of_sets() || self.counted_version == version {
            return Ok(());
        }
        self.counted_version = version;
        // A pod is an orphan if its executor is bound to another one, which no driver created; or if a driver counts it as
        // one because the record of its own driver, which had an outdated incarnation, was overwritten.
        let is_orphan = |uid: &PodUid| {
            let created = self.created.get(uid);
            let id = created.and_then(|created| ExecutorId::new(created.id));
            let is_outdated =
                created.is_some_and(|created| self.has_outdated_incarnation(created.driver));
            let mut ledgers = self.drivers.values().filter_map(|view| view.last.as_ref());
            ledgers.any(|last| {
                let bound = id.and_then(|id| last.entry(id)?.uid());
                bound.is_some_and(|bound| bound != uid)
                    || (is_outdated && last.orphans.contains_key(uid))
            })
        };
        let is_surplus =
            |uid: &PodUid| self.was_leaving(uid) || self.is_surplus_pod(uid) || is_orphan(uid);
        let mut found: BTreeMap<&ProfileName, (u32, Instant)> = BTreeMap::new();
        for (_, created) in self.living(server).filter(|(uid, _)| !is_surplus(uid)) {
            let (count, oldest) = (found.entry(&created.profile)).or_insert((0, created.at));
            (*count, *oldest) = (*count + 1, created.at.min(*oldest));
        }
        for (profile, (count, oldest)) in found {
            let target = self.highest_target(profile, oldest);
            if count > target {
                return violated!(
                    "I-3: the server has {count} executors of {profile}, target {target}"
                );
            }
        }
        Ok(())
    }

    /// At rest, no profile has more executors on the server than its target, whatever happened before.
    // spec: I-3, I-4
    pub fn check_surplus_at_rest(&self, server: &State, ledger: &Snapshot) -> Verdict {
        let mut found: BTreeMap<&ProfileName, u32> = BTreeMap::new();
        for (_, created) in self.living(server) {
            *found.entry(&created.profile).or_default() += 1;
        }
        let surplus = (found.iter()).find(|(profile, count)| **count > ledger.target(profile));
        match surplus {
            Some((profile, count)) => violated!(
                "I-3: at rest the server has {count} executors of {profile}, target {}",
                ledger.target(profile)
            ),
            None => Ok(()),
        }
    }
}
