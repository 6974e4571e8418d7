//! Pools: one target over ranked profiles (spec B-74, B-75): pure.
//!
//! A pool's target is the sum of what is requested of its profiles, so that nobody keeps it beside the ledger. What has
//! been missing of a profile for long is requested of the next ones; it comes back by trials, which are wanted in addition
//! until they run. So no executor of a later profile ends before one of an earlier profile runs in its place.

mod shortage;
mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::messages::Refused;
use super::plan::Plan;
use super::profiles::Profiles;
use crate::actors::profile_messages::Bounds;
use crate::config::{Config, Pool};
use crate::model::executor::Class;
use crate::model::news::News;
use crate::model::pod::{PendingStage, Scheduling};
use crate::model::pool::{Limits, split};
use crate::model::{Batch, Entry, ExecutorId, ProfileName, Snapshot, Tick};
use crate::planted::{self, Planted};

use shortage::Shortage;
pub use views::PoolView;

/// The longest time between two trials, as a multiple of `return_after`.
const MOST_TIMES: u32 = 8;

#[derive(Debug)]
pub struct Pools {
    config: Arc<Config>,
    /// The pool of each profile that has one.
    of: BTreeMap<ProfileName, ProfileName>,
    /// The executors for which the cluster has no room.
    without_room: BTreeMap<ProfileName, BTreeSet<ExecutorId>>,
    profiles: BTreeMap<ProfileName, Member>,
}

/// What is known of a profile of a pool that is not its last one.
#[derive(Debug, Default)]
struct Member {
    shortage: Shortage,
    /// When more of it may be tried; `None`: as far as is known there is room for more.
    next_trial: Option<Tick>,
    /// How many trials in a row found no room.
    in_vain: u32,
    trial: Option<Trial>,
}

/// So many are wanted in addition, to learn whether there is room for them again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Trial {
    of: u32,
    since: Tick,
}

/// A profile of a pool as the ledger has it.
#[derive(Debug, Clone, Copy)]
struct Seen {
    asked: u32,
    surge: u32,
    running: u32,
    live: u32,
    /// The highest target.
    most: u32,
    has_failed: bool,
}

/// What there is of a profile for a decision.
#[derive(Debug, Clone, Copy)]
struct Room {
    /// How many of its requested executors have no room.
    missing: u32,
    /// How many the pool would have of it.
    wanted: u32,
    /// How many executors of the pool run beyond its target.
    surplus: u32,
}

impl Pools {
    pub fn new(config: Arc<Config>) -> Self {
        let mut pools = Self {
            config: Arc::default(),
            of: BTreeMap::new(),
            without_room: BTreeMap::new(),
            profiles: BTreeMap::new(),
        };
        pools.reconfigure(config);
        pools
    }

    /// Takes over a configuration that was read again (spec C-6).
    pub fn reconfigure(&mut self, config: Arc<Config>) {
        self.of = (config.pools.iter())
            .flat_map(|(name, pool)| pool.names().map(move |profile| (profile, name.clone())))
            .collect();
        self.config = config;
    }

    /// The pool of a profile, or the profile itself.
    pub fn group<'a>(&'a self, profile: &'a ProfileName) -> &'a ProfileName {
        self.of.get(profile).unwrap_or(profile)
    }

    pub fn is_pool(&self, name: &ProfileName) -> bool {
        self.config.pools.contains_key(name)
    }

    /// The profiles that share the target of this name: those of a pool, or the profile.
    pub fn profiles(&self, name: &ProfileName) -> Vec<ProfileName> {
        let pool = self.config.pools.get(name);
        pool.map_or_else(|| vec![name.clone()], |pool| pool.names().collect())
    }

    /// The requested target of a pool or profile.
    pub fn target(&self, name: &ProfileName, latest: &Snapshot) -> u32 {
        let asked = |name: &ProfileName| latest.targets.get(name).map_or(0, |target| target.asked);
        self.profiles(name).iter().map(asked).sum()
    }

    /// The limits of the target of a pool, or of a profile that is of none.
    pub fn bounds(&self, name: &ProfileName, profiles: &Profiles) -> Option<Bounds> {
        if self.of.contains_key(name) {
            return None;
        }
        let names = self.profiles(name);
        let each = names.iter().filter_map(|name| profiles.bounds(name));
        each.reduce(|all, one| Bounds {
            slots: all.slots.min(one.slots),
            least: all.least.saturating_add(one.least),
            most: all.most.saturating_add(one.most),
        })
    }

    /// The targets of profiles, for those of pools and of profiles that are of no pool. What could not be had of a profile
    /// is not requested of it again.
    ///
    /// # Errors
    /// A profile that is of a pool; a pool that cannot have so many.
    pub fn expanded(
        &self,
        targets: BTreeMap<ProfileName, u32>,
        latest: &Snapshot,
    ) -> Result<BTreeMap<ProfileName, u32>, Refused> {
        let mut expanded = BTreeMap::new();
        for (name, target) in targets {
            if let Some(pool) = self.of.get(&name).cloned() {
                let profile = name;
                return Err(Refused::OfAPool { profile, pool });
            }
            let Some(pool) = self.config.pools.get(&name) else {
                expanded.insert(name, target);
                continue;
            };
            let parts = self.parts(pool, target, latest);
            let most = parts.iter().sum();
            if most < target {
                let profile = name;
                return Err(Refused::TooMany {
                    profile,
                    target,
                    most,
                });
            }
            expanded.extend(pool.names().zip(parts));
        }
        Ok(expanded)
    }

    /// What of a pool's target its profiles have, as far as they are obtainable now.
    fn parts(&self, pool: &Pool, target: u32, latest: &Snapshot) -> Vec<u32> {
        let seen = self.seen(pool, latest);
        let before = seen.iter().map(|one| one.asked).sum();
        let mut obtainable = Vec::new();
        for (at, one) in seen.iter().enumerate() {
            let lacks = one.asked < wanted(pool, &seen, before, &obtainable);
            let is_last = at + 1 == seen.len();
            obtainable.push((lacks && !is_last).then_some(one.asked));
        }
        split(target, &limits(pool, &seen, &obtainable))
    }

    /// The targets of profiles that the configuration has changed, for pools by what is to be had of each profile.
    pub fn reshare(&self, targets: &mut BTreeMap<ProfileName, u32>, latest: &Snapshot) {
        for pool in self.config.pools.values() {
            if pool.names().any(|profile| targets.contains_key(&profile)) {
                targets.extend(pool.names().zip(self.parts(pool, pool.executors, latest)));
            }
        }
    }

    /// Notes the executors for which there is no room: O(changes).
    pub fn observe(&mut self, batch: &Batch) {
        if self.of.is_empty() {
            return;
        }
        let latest = batch.latest();
        for id in batch.changed_executors() {
            for ids in self.without_room.values_mut() {
                ids.remove(&id);
            }
            let waits = latest.entry(id).filter(|entry| is_without_room(entry));
            if let Some(entry) = waits.filter(|entry| self.of.contains_key(&entry.profile)) {
                let ids = self.without_room.entry(entry.profile.clone()).or_default();
                ids.insert(id);
            }
        }
    }

    /// Moves what is missing of a profile to the next ones, and back. `is_held_back`: whether missing executors of
    /// a profile are not requested.
    pub fn decide(
        &mut self,
        latest: &Snapshot,
        is_held_back: impl Fn(&ProfileName) -> bool,
        now: Tick,
    ) -> Plan {
        let mut plan = Plan::default();
        if latest.held.is_some() || planted::is(Planted::PoolsIgnored) {
            return plan;
        }
        let config = Arc::clone(&self.config);
        for (name, pool) in &config.pools {
            self.pool(name, pool, latest, &is_held_back, now, &mut plan);
        }
        plan
    }

    fn pool(
        &mut self,
        pool_name: &ProfileName,
        pool: &Pool,
        latest: &Snapshot,
        is_held_back: &impl Fn(&ProfileName) -> bool,
        now: Tick,
        plan: &mut Plan,
    ) {
        let seen = self.seen(pool, latest);
        if seen.iter().all(|one| one.has_failed) {
            return;
        }
        let target = seen.iter().map(|one| one.asked).sum();
        let running: u32 = seen.iter().map(|one| one.running).sum();
        let mut surplus = running.saturating_sub(target);
        let last = seen.len().saturating_sub(1);
        let (mut obtainable, mut surges) = (Vec::new(), Vec::new());
        for (name, one) in pool.names().zip(&seen).take(last) {
            let room = Room {
                missing: self.missing(&name, *one, is_held_back(&name)),
                wanted: wanted(pool, &seen, target, &obtainable),
                surplus,
            };
            let member = (self.profiles.entry(name.clone()))
                .or_insert_with(|| Member::new(pool, *one, room.wanted, now));
            let (most, surge) = match member.is_disturbed(&name, latest) {
                true => member.give_way(pool, *one, now),
                false => member.decide(pool, *one, room, now),
            };
            surplus -= surplus.min(most.min(room.wanted).saturating_sub(one.asked));
            obtainable.push(Some(most));
            surges.push((name, surge, *one));
        }
        let parts = split(target, &limits(pool, &seen, &obtainable));
        let targets: BTreeMap<ProfileName, u32> = (pool.names().zip(&seen).zip(parts))
            .filter(|((_, one), part)| one.asked != *part)
            .map(|((name, _), part)| (name, part))
            .collect();
        // Another number ends what is wanted in addition.
        let is_new = |name: &ProfileName| targets.contains_key(name);
        let surges = (surges.into_iter())
            .filter(|(name, surge, one)| *surge != if is_new(name) { 0 } else { one.surge })
            .map(|(profile, by, _)| News::Surge { profile, by });
        let surges: Vec<News> = surges.collect();
        if !targets.is_empty() {
            let pool = pool_name.as_str();
            tracing::info!(pool, ?targets, "executors of a pool move to other profiles");
            plan.news.push(News::Targets(targets));
        }
        plan.news.extend(surges);
    }

    /// How many of a profile's requested executors have no room.
    fn missing(&self, name: &ProfileName, seen: Seen, is_held_back: bool) -> u32 {
        let without_room = self.without_room.get(name).map_or(0, BTreeSet::len);
        let unrequested = match is_held_back {
            true => (seen.asked + seen.surge).saturating_sub(seen.live),
            false => 0,
        };
        // Those that are tried in addition are not missing.
        let of_requested = seen.asked.saturating_sub(seen.running);
        (u32::try_from(without_room).unwrap_or(u32::MAX))
            .saturating_add(unrequested)
            .min(of_requested)
    }

    fn seen(&self, pool: &Pool, latest: &Snapshot) -> Vec<Seen> {
        let one = |name: ProfileName| {
            let target = latest.targets.get(&name);
            let counts = latest.counts(&name);
            let configured = self.config.profiles.get(&name);
            Seen {
                asked: target.map_or(0, |target| target.asked),
                surge: target.map_or(0, |target| target.surge),
                running: counts.running,
                live: counts.live(),
                most: configured.map_or(0, |profile| profile.max_executors),
                has_failed: target.is_none() || latest.failed.contains_key(&name),
            }
        };
        pool.names().map(one).collect()
    }
}

impl Member {
    /// Of a profile of which less is requested than wanted a driver before this one has found no more.
    fn new(pool: &Pool, seen: Seen, wanted: u32, now: Tick) -> Self {
        Self {
            next_trial: (seen.asked < wanted).then(|| now + pool.return_after),
            ..Self::default()
        }
    }

    /// Ends a trial for those who replace executors of the profile. As [`decide`](Self::decide).
    fn give_way(&mut self, pool: &Pool, seen: Seen, now: Tick) -> (u32, u32) {
        self.put_off(pool, now);
        (seen.asked, 0)
    }

    /// How many can be had at most, and how many are wanted in addition.
    fn decide(&mut self, pool: &Pool, seen: Seen, room: Room, now: Tick) -> (u32, u32) {
        if seen.has_failed {
            *self = Self::default();
            self.put_off(pool, now);
            return (0, 0);
        }
        match self.trial {
            Some(trial) if trial.of == seen.surge => {}
            // Another target has ended it.
            Some(_) if seen.surge == 0 => self.trial = None,
            // Whoever else replaces executors of it goes first.
            Some(_) => self.put_off(pool, now),
            None if seen.surge > 0 && self.next_trial.is_some() => self.put_off(pool, now),
            None => {}
        }
        let others = if self.trial.is_some() { 0 } else { seen.surge };
        self.shortage.note(room.missing, now);
        let lacking = self.shortage.least(pool.fallback_after, now);
        if lacking > 0 {
            let moved = lacking.min(seen.asked);
            self.shortage.moved(moved);
            self.put_off(pool, now);
            return (seen.asked - moved, others);
        }
        if room.wanted <= seen.asked {
            (self.trial, self.next_trial, self.in_vain) = (None, None, 0);
            return (u32::MAX, others);
        }
        self.try_more(pool, seen, room, now)
    }

    /// Whether executors of the profile are on nodes that are about to leave, while more of it are tried: their
    /// replacements go first.
    fn is_disturbed(&self, profile: &ProfileName, latest: &Snapshot) -> bool {
        let leaves = |entry: &Arc<Entry>| {
            entry.profile == *profile && latest.nodes.leaving_of(entry).is_some()
        };
        let may = self.trial.is_some() && !latest.nodes.leaving.is_empty();
        may && latest.entries.values().any(leaves)
    }

    /// Tries one executor, then twice as many each time.
    fn try_more(&mut self, pool: &Pool, seen: Seen, room: Room, now: Tick) -> (u32, u32) {
        if planted::is(Planted::PoolsReturnUntried) {
            return (u32::MAX, 0);
        }
        let Some(trial) = self.trial else {
            let Some(next) = self.next_trial else {
                return (u32::MAX, seen.surge);
            };
            if now < next || seen.surge > 0 {
                return (seen.asked, seen.surge);
            }
            self.trial = Some(Trial { of: 1, since: now });
            return (seen.asked, 1);
        };
        let left = room.wanted - seen.asked;
        let runs = seen
            .running
            .saturating_sub(seen.asked)
            .min(trial.of)
            .min(left);
        // As long as the pool is short of executors, none of them takes another one's place.
        let gained = runs.min(room.surplus);
        if gained == trial.of.min(left) {
            self.in_vain = 0;
            let of = trial.of.saturating_mul(2).min(left - gained);
            self.trial = (of > 0).then_some(Trial { of, since: now });
            return (seen.asked + gained, of);
        }
        let is_over = now.since(trial.since) >= pool.fallback_after && gained == runs;
        if is_over {
            self.in_vain = self.in_vain.saturating_add(1);
            self.put_off(pool, now);
            return (seen.asked + gained, 0);
        }
        (seen.asked, trial.of)
    }

    fn put_off(&mut self, pool: &Pool, now: Tick) {
        let times = 2_u32.saturating_pow(self.in_vain).min(MOST_TIMES);
        self.trial = None;
        self.next_trial = Some(now + pool.return_after * times);
    }
}

/// How many the pool would have of the first profile of which it is not said how many are obtainable.
fn wanted(pool: &Pool, seen: &[Seen], target: u32, obtainable: &[Option<u32>]) -> u32 {
    let parts = split(target, &limits(pool, seen, obtainable));
    parts.get(obtainable.len()).copied().unwrap_or(0)
}

/// The limits of a pool's profiles. `obtainable`: how many of the first ones can be had.
fn limits(pool: &Pool, seen: &[Seen], obtainable: &[Option<u32>]) -> Vec<Limits> {
    let of = |(at, (name, one)): (usize, (ProfileName, &Seen))| {
        let limits = pool.limits(&name, one.most);
        match one.has_failed {
            true => Limits {
                at_least: 0,
                obtainable: Some(0),
                ..limits
            },
            false => Limits {
                obtainable: obtainable.get(at).copied().flatten(),
                ..limits
            },
        }
    };
    (pool.names().zip(seen).enumerate()).map(of).collect()
}

/// The scheduler has found no node for it, or it waits for a quota.
fn is_without_room(entry: &Entry) -> bool {
    entry.class() == Class::Pending(PendingStage::Unscheduled)
        && entry.pod().is_some_and(|pod| {
            matches!(
                pod.scheduling,
                Scheduling::Waiting(Some(_)) | Scheduling::Gated(_)
            )
        })
}

#[cfg(test)]
mod tests;
