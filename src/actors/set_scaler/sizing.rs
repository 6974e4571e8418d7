//! How many pods a set is to have, and who goes: pure (spec ).
//!
//! A set is as large as wanted, and larger by those that are told to go and still finish what they do: it shrinks when
//! they have. Of a StatefulSet only the last pods can go, so it is those that are told to; of a Deployment whoever is
//! marked as the cheapest.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::actors::pod_allocator::victims;
use crate::kubernetes::{SetKind, SetSeen};
use crate::model::executor::{How, Why};
use crate::model::{Entry, ExecutorId, ProfileName, Snapshot, Tick};

use super::decision::Action;

/// How large a set is to be, and whom it is to lose first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Size {
    pub(super) replicas: u32,
    pub(super) victims: Victims,
}

/// Who is told to go.
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

    pub(super) fn retire(self) -> impl Iterator<Item = Action> {
        let within = self.within;
        [
            (self.drained, How::Drain { within }),
            (self.deleted, How::Delete),
        ]
        .into_iter()
        .filter(|(ids, _)| !ids.is_empty())
        .map(|(ids, how)| Action::Retire(ids, Why::ScaledDown, how))
    }
}

/// Those of a profile that are to go, and whose pods are still there; without a profile, nobody.
pub(super) fn leaving<'a>(
    latest: &'a Snapshot,
    profile: Option<&ProfileName>,
) -> impl Iterator<Item = &'a Arc<Entry>> {
    let profile = profile
        .filter(|profile| latest.counts(profile).leaving > 0)
        .cloned();
    let all = profile.map(|profile| {
        (latest.entries.values()).filter(move |entry| {
            entry.profile == profile
                && entry.leaving.is_some()
                && !entry.has_ended()
                && entry.pod().is_some_and(|pod| pod.deletion.is_none())
        })
    });
    all.into_iter().flatten()
}

/// What has to be known to size a set.
pub(super) struct Going<'a> {
    pub(super) kind: SetKind,
    /// The set's name.
    pub(super) set: &'a str,
    /// Who has ended its program since it was told to go.
    pub(super) exited: &'a BTreeSet<ExecutorId>,
    pub(super) within: Duration,
    pub(super) now: Tick,
}

impl Going<'_> {
    /// Whether it still finishes what it does.
    pub(super) fn drains(&self, entry: &Entry) -> bool {
        entry.session.registered && entry.drains_at(self.now) && !self.exited.contains(&entry.id)
    }

    /// The number of a pod of a StatefulSet.
    fn ordinal(&self, entry: &Entry) -> Option<u32> {
        let rest = entry.pod()?.name.strip_prefix(self.set)?;
        rest.strip_prefix('-')?.parse().ok()
    }

    /// How large the set is to be.
    pub(super) fn size(
        &self,
        profile: Option<&ProfileName>,
        target: u32,
        seen: Option<&SetSeen>,
        latest: &Snapshot,
        ending: bool,
    ) -> Size {
        let draining: Vec<&Arc<Entry>> = leaving(latest, profile)
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
                // One that drains in the middle is replaced, at the end, until its own pod is made anew.
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

    /// Who goes when a set of `there` pods is to have `least`.
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
                let settings = victims::Settings {
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
