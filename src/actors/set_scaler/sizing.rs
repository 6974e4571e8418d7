//! Computes the size of a set and chooses the executors to retire (spec ).
//!
//! A set has as many pods as its target, plus those that still drain. A StatefulSet deletes its
//! last pods first, so these are retired. A Deployment deletes the pods with the lowest deletion
//! cost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::actors::pod_allocator::victims;
use crate::kubernetes::{SetKind, SetSeen};
use crate::model::executor::{LeaveMethod, LeaveReason};
use crate::model::news::TargetChange;
use crate::model::{Entry, ExecutorId, ProfileName, Snapshot, Tick};

use super::decision::Action;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Size {
    pub(super) replicas: u32,
    pub(super) victims: Victims,
}

/// The executors to retire.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Victims {
    drained: Vec<ExecutorId>,
    deleted: Vec<ExecutorId>,
    within: Duration,
}

impl Victims {
    pub(super) fn is_empty(&self) -> bool {
        self.drained.is_empty() && self.deleted.is_empty()
    }

    /// A StatefulSet deletes its last pods, even if other executors end meanwhile (spec A-86). Of a Deployment no
    /// more become leaving than still exceed the target (spec A-112).
    pub(super) fn retire(self, kind: SetKind) -> impl Iterator<Item = Action> {
        let within = self.within;
        let aim = match kind {
            SetKind::StatefulSet => TargetChange::Stay,
            SetKind::Deployment => TargetChange::Surplus,
        };
        [
            (self.drained, LeaveMethod::Drain { within }),
            (self.deleted, LeaveMethod::Delete),
        ]
        .into_iter()
        .filter(|(ids, _)| !ids.is_empty())
        .map(move |(ids, how)| Action::Retire(ids, aim.clone(), LeaveReason::ScaledDown, how))
    }
}

/// Whether a pod of this name is one of this set.
pub(super) fn has_made(set: &str, pod: &str) -> bool {
    let rest = pod.strip_prefix(set);
    rest.is_some_and(|rest| rest.starts_with('-'))
}

pub(super) struct Going<'a> {
    pub(super) kind: SetKind,
    pub(super) set: &'a str,
    /// Leaving executors whose program has ended.
    pub(super) exited: &'a BTreeSet<ExecutorId>,
    pub(super) within: Duration,
    pub(super) now: Tick,
}

impl Going<'_> {
    /// Leaving executors of a profile whose pods this set has made and are not deleted yet; none
    /// without a profile.
    pub(super) fn leaving<'s>(
        &'s self,
        latest: &'s Snapshot,
        profile: Option<&ProfileName>,
    ) -> impl Iterator<Item = &'s Arc<Entry>> {
        let profile = profile
            .filter(|profile| latest.counts(profile).leaving > 0)
            .cloned();
        let all = profile.map(|profile| {
            (latest.entries.values()).filter(move |entry| {
                entry.profile == profile
                    && entry.leaving.is_some()
                    && !entry.has_ended()
                    && entry
                        .pod()
                        .is_some_and(|pod| pod.deletion.is_none() && has_made(self.set, &pod.name))
            })
        });
        all.into_iter().flatten()
    }

    pub(super) fn drains(&self, entry: &Entry) -> bool {
        entry.session.registered && entry.drains_at(self.now) && !self.exited.contains(&entry.id)
    }

    /// The pod's ordinal in a StatefulSet.
    fn ordinal(&self, entry: &Entry) -> Option<u32> {
        let rest = entry.pod()?.name.strip_prefix(self.set)?;
        rest.strip_prefix('-')?.parse().ok()
    }

    pub(super) fn size(
        &self,
        profile: Option<&ProfileName>,
        target: u32,
        seen: Option<&SetSeen>,
        latest: &Snapshot,
        ending: bool,
    ) -> Size {
        let draining: Vec<&Arc<Entry>> = self
            .leaving(latest, profile)
            .filter(|entry| self.drains(entry))
            .collect();
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let (least, replicas) = match self.kind {
            SetKind::Deployment => {
                let size = target.saturating_add(count(draining.len()));
                (size, size)
            }
            SetKind::StatefulSet => {
                let ordinals = || draining.iter().filter_map(|entry| self.ordinal(entry));
                // One that drains in the middle is replaced at the end until its pod is recreated.
                let below = count(ordinals().filter(|ordinal| *ordinal < target).count());
                let least = target.saturating_add(below);
                let last = ordinals().max().map_or(0, |last| last.saturating_add(1));
                let keeps = ordinals().any(|ordinal| ordinal >= target);
                (least, if keeps { least.max(last) } else { least })
            }
        };
        let there = seen.map_or(0, |seen| seen.replicas);
        let victims = match profile {
            Some(profile) if there > least && !ending => {
                self.victims(profile, target, least, there, latest)
            }
            _ => Victims::default(),
        };
        Size { replicas, victims }
    }

    /// The executors to retire when a set of `there` pods shrinks to `least`.
    fn victims(
        &self,
        profile: &ProfileName,
        target: u32,
        least: u32,
        there: u32,
        latest: &Snapshot,
    ) -> Victims {
        let live = latest.counts(profile).live();
        let most = live.saturating_sub(target).min(there - least) as usize;
        let ids: Vec<ExecutorId> = match self.kind {
            SetKind::Deployment => {
                let settings = victims::SurplusRules {
                    cancel_delay: Duration::ZERO,
                    pending_only: false,
                    decommission_timeout: self.within,
                };
                let chosen = victims::choose(latest, profile, &settings, self.now).ids;
                chosen.into_iter().take(most).collect()
            }
            SetKind::StatefulSet => (latest.entries.values())
                .filter(|entry| entry.profile == *profile && entry.class().may_be_chosen())
                .filter(|entry| self.ordinal(entry).is_some_and(|n| n >= least))
                .map(|entry| entry.id)
                .collect(),
        };
        let (drained, deleted) = ids.into_iter().partition(|id| {
            let entry = latest.entry(*id);
            entry.is_some_and(|entry| entry.session.registered)
        });
        Victims {
            drained,
            deleted,
            within: self.within,
        }
    }
}
