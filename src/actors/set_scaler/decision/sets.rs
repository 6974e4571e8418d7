//! Decides for each set whether it is created, corrected, scaled or deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Action, Scaling};
use crate::actors::set_scaler::sizing::{Going, Size, has_made};
use crate::kubernetes::{SetKind, SetSeen};
use crate::model::executor::{LeaveMethod, LeaveReason};
use crate::model::news::TargetChange;
use crate::model::snapshot::{Snapshot, UnassignedPod};
use crate::model::{Entry, ExecutorId, Pod, ProfileName, Tick};

/// Whether a profile without a set has executors: the set was deleted without its pods. A new one takes over the pods, or
/// the ReplicaSet that makes others, even if none is wanted.
fn has_executors(profile: &ProfileName, latest: &Snapshot) -> bool {
    let counts = latest.counts(profile);
    counts.live() + counts.leaving > 0 || has_new_pods(profile, latest)
}

/// Whether it has pods without an id. At the end, when none gets one, a ReplicaSet whose Deployment is gone goes on to
/// make such pods.
fn has_new_pods(profile: &ProfileName, latest: &Snapshot) -> bool {
    let is_of = |pod: &UnassignedPod| pod.profile.as_ref() == Some(profile) && !pod.terminating;
    latest.unassigned.values().any(is_of)
}

/// Whether pods that this set has made are left.
fn has_left_pods(set: &str, profile: &ProfileName, latest: &Snapshot) -> bool {
    let mut entries =
        (latest.entries.values()).filter(|entry| entry.profile == *profile && !entry.has_ended());
    let is_made = |entry: &Arc<Entry>| entry.pod().is_some_and(|pod| has_made(set, &pod.name));
    entries.any(is_made) || has_new_pods(profile, latest)
}

impl Scaling {
    pub(super) fn look_after_sets(
        &mut self,
        latest: &Snapshot,
        now: Tick,
        actions: &mut Vec<Action>,
    ) {
        let busy = self.sets.values().any(|trial| trial.in_flight);
        let Some(observed) = self.observed.clone().filter(|_| now < self.look_at) else {
            // A list concurrent with a write may not show that write.
            if !busy && self.look.may_begin(now) {
                self.look.begin();
                actions.push(Action::Look);
            }
            return;
        };
        let mut names: BTreeMap<String, Option<ProfileName>> =
            observed.keys().map(|name| (name.clone(), None)).collect();
        let left = self.left_profiles(latest);
        for profile in latest.targets.keys().chain(self.hashes.keys()).chain(&left) {
            let name = format!("{}-{profile}", self.settings.prefix);
            names.insert(name, Some(profile.clone()));
        }
        self.retire_others(latest, &names, actions);
        for (name, profile) in names {
            let seen = observed.get(&name);
            let may = self.sets.get(&name).is_none_or(|t| t.may_begin(now));
            if may && let Some(action) = self.next(&name, profile, seen, latest, now, actions) {
                self.sets.entry(name).or_default().begin();
                actions.push(action);
            }
        }
    }

    /// Profiles that are in the configuration no more and have executors. If the Deployment of one was deleted without its
    /// ReplicaSet, that makes pods for ever, unless another Deployment takes it over.
    fn left_profiles(&self, latest: &Snapshot) -> BTreeSet<ProfileName> {
        if self.settings.kind != SetKind::Deployment {
            return BTreeSet::new();
        }
        let with_executors = (latest.counts.iter())
            .filter(|(_, counts)| counts.live() + counts.leaving > 0)
            .map(|(profile, _)| profile);
        let of_new_pods = (latest.unassigned.values()).filter_map(|pod| pod.profile.as_ref());
        with_executors
            .chain(of_new_pods)
            .filter(|profile| !self.hashes.contains_key(*profile))
            .cloned()
            .collect()
    }

    /// Retires executors whose pods no set has made, as after a change of the strategy.
    fn retire_others(
        &self,
        latest: &Snapshot,
        names: &BTreeMap<String, Option<ProfileName>>,
        actions: &mut Vec<Action>,
    ) {
        let of_a_set = |pod: &Pod| names.keys().any(|set| has_made(set, &pod.name));
        let other = |entry: &&Arc<Entry>| {
            entry.leaving.is_none()
                && !entry.has_ended()
                && entry.pod().is_some_and(|pod| !of_a_set(pod))
        };
        let others = latest.entries.values().filter(other);
        let (drained, deleted): (Vec<_>, Vec<_>) = others
            .map(|entry| (entry.id, entry.session.registered))
            .partition(|(_, registered)| *registered);
        let within = self.settings.decommission_timeout;
        for (ids, how) in [
            (drained, LeaveMethod::Drain { within }),
            (deleted, LeaveMethod::Delete),
        ] {
            let ids: Vec<ExecutorId> = ids.into_iter().map(|(id, _)| id).collect();
            if !ids.is_empty() {
                actions.push(Action::Retire(
                    ids,
                    TargetChange::Stay,
                    LeaveReason::ScaledDown,
                    how,
                ));
            }
        }
    }

    fn next(
        &mut self,
        name: &str,
        profile: Option<ProfileName>,
        seen: Option<&SetSeen>,
        latest: &Snapshot,
        now: Tick,
        actions: &mut Vec<Action>,
    ) -> Option<Action> {
        let exited = self.exited.clone();
        let going = Going {
            kind: self.settings.kind,
            set: name,
            exited: &exited,
            within: self.settings.decommission_timeout,
            now,
        };
        let target = match &profile {
            Some(profile) if !self.ending => latest.target(profile),
            _ => 0,
        };
        let size = going.size(profile.as_ref(), target, seen, latest, self.ending);
        let Size { replicas, victims } = size;
        let is_known = (profile.as_ref()).is_some_and(|profile| self.hashes.contains_key(profile));
        let Some(seen) = seen else {
            let profile = profile?;
            let needed = match (self.ending, is_known) {
                (true, _) => has_new_pods(&profile, latest),
                (false, true) => replicas > 0 || has_executors(&profile, latest),
                (false, false) => has_left_pods(name, &profile, latest),
            };
            let can = is_known || self.settings.kind == SetKind::Deployment;
            let replicas = if self.ending || !is_known {
                0
            } else {
                replicas
            };
            return (needed && can).then_some(Action::Create(profile, replicas));
        };
        // The set of a profile without a template makes no pods.
        let replicas = if is_known {
            replicas
        } else {
            replicas.min(seen.replicas)
        };
        if seen.deleting {
            return None;
        }
        if self.ending {
            return (replicas == 0).then(|| Action::Delete(seen.clone()));
        }
        if let Some(profile) = &profile {
            let is_removed = latest.is_removed(profile) && seen.replicas == 0;
            if is_removed && !latest.has_executors(profile) {
                return Some(Action::Delete(seen.clone()));
            }
            let hash = self.hashes.get(profile);
            let outdated = hash.is_some() && hash != seen.template.as_ref();
            if outdated || seen.owner != latest.record {
                return Some(Action::Update(profile.clone(), seen.clone()));
            }
        }
        if !victims.is_empty() {
            actions.extend(victims.retire(self.settings.kind));
            return None;
        }
        if replicas < seen.replicas
            && self.settings.kind == SetKind::Deployment
            && self.cheapen(profile.as_ref(), &going, latest, actions)
        {
            return None;
        }
        (replicas != seen.replicas).then(|| Action::Scale(seen.clone(), replicas))
    }

    /// Marks the pods to delete first. Returns whether marks are still missing (spec A-81).
    fn cheapen(
        &mut self,
        profile: Option<&ProfileName>,
        going: &Going<'_>,
        latest: &Snapshot,
        actions: &mut Vec<Action>,
    ) -> bool {
        let mut waits = false;
        let most = self.settings.max_in_flight as usize;
        let mut room = most.saturating_sub(self.about_pods());
        for entry in going.leaving(latest, profile) {
            let Some(pod) = entry.pod().filter(|_| !going.drains(entry)) else {
                continue;
            };
            match self.cheap.get(&entry.id) {
                Some(under_way) => waits |= under_way,
                None => {
                    waits = true;
                    if room > 0 {
                        room -= 1;
                        self.cheap.insert(entry.id, true);
                        actions.push(Action::Cheapen {
                            id: entry.id,
                            uid: pod.uid.clone(),
                            name: Arc::clone(&pod.name),
                        });
                    }
                }
            }
        }
        waits
    }
}
