//! The sections `[pools.NAME]`: one target over ranked profiles (spec B-74).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use boatswain_model::ProfileName;
use boatswain_model::pool::{Limits, split};

use super::declare::section;
use super::kinds::{Percent, Text, Whole, span};
use super::names::{NameRule, is_dns_label};
use super::notes::Notes;
use super::profile::MOST_EXECUTORS;
use super::reader::Section;
use super::sections::{DAY, secs};
use super::{Config, Strategy};

/// The names of profiles, as keys.
const PROFILES: NameRule = (
    |name| is_dns_label(name, 63),
    "names of the pool's profiles",
);

section! {
    /// `[pools.NAME]`: profiles that share a target.
    pub struct Pool {
        /// The profiles, the preferred one first.
        pub profiles: Vec<String> = list(Text::SOME);
        /// The initial target of all of them together.
        pub executors: u32 = value(Whole(0..=MOST_EXECUTORS)) or 0;
        /// The fewest executors of a profile, as far as the target allows.
        pub at_least: BTreeMap<String, u32> = table(PROFILES, Whole(0..=MOST_EXECUTORS));
        /// The most executors of a profile, as a share of the target.
        pub share: BTreeMap<String, u32> = table(PROFILES, Percent(0..=100));
        /// As many executors as have been missing of a profile for this long are requested of the next one.
        pub fallback_after: Duration = value(span(secs(1)..=DAY)) or secs(120);
        /// How long after that the profile is tried again. After each trial in vain twice as long, up to eight times.
        pub return_after: Duration = value(span(secs(1)..=DAY)) or secs(600);
    }
}

impl Pool {
    /// Its profiles, the preferred one first.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = ProfileName> + ExactSizeIterator {
        (self.profiles.iter()).map(|name| ProfileName::from(name.as_str()))
    }

    /// The limits of one of its profiles, whose highest target is `most`.
    pub fn limits(&self, profile: &ProfileName, most: u32) -> Limits {
        let of = |keys: &BTreeMap<String, u32>| keys.get(profile.as_str()).copied();
        Limits {
            at_least: of(&self.at_least).unwrap_or(0),
            share: of(&self.share).unwrap_or(100),
            most,
            obtainable: None,
        }
    }

    pub(super) fn checked(s: &mut Section<'_>, name: &str) -> Self {
        if !is_dns_label(name, 63) {
            s.refuse_whole(
                "not a name for a pool",
                "allowed: lowercase letters, digits and inner dashes, at most 63",
            );
        }
        Self::read(s)
    }
}

/// Sets the initial targets of the pools' profiles (spec B-74).
pub(super) fn share_out(config: &mut Config) {
    for pool in config.pools.values() {
        let profiles = &config.profiles;
        let most = |name: &ProfileName| {
            profiles
                .get(name)
                .map_or(0, |profile| profile.max_executors)
        };
        let limits: Vec<_> = pool
            .names()
            .map(|name| pool.limits(&name, most(&name)))
            .collect();
        for (name, part) in pool.names().zip(split(pool.executors, &limits)) {
            if let Some(profile) = config.profiles.get_mut(&name) {
                profile.executors = part;
            }
        }
    }
}

pub(super) fn check(config: &Config, notes: &mut Notes) {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (name, pool) in &config.pools {
        check_names(name, pool, config, &mut seen, notes);
        let most = pool.names().filter_map(|name| config.profiles.get(&name));
        let most: u32 = most.fold(0, |sum, one| sum.saturating_add(one.max_executors));
        if pool.executors > most {
            let found = format!(
                "found {}, and its profiles may have {most} at most",
                pool.executors
            );
            refuse(
                name,
                "executors",
                found,
                "lower it, or raise their max_executors",
                notes,
            );
        }
        let waits = config.allocation.pending_timeout;
        if waits.is_some_and(|waits| waits <= pool.fallback_after) {
            let found = "found a time in which pods that wait for room are replaced".to_owned();
            let fix = "make it shorter than allocation.pending_timeout, or remove that";
            refuse(name, "fallback_after", found, fix, notes);
        }
    }
    if !config.pools.is_empty() && config.allocation.strategy != Strategy::Direct {
        notes.contradict(
            &["pools", "allocation.strategy"],
            "found pools, whose replacements need pods of boatswain's own",
            "remove them, or set allocation.strategy = \"direct\"",
        );
    }
    if !config.pools.is_empty() && config.scheduling.gang.is_on() {
        notes.contradict(
            &["pools", "scheduling.gang"],
            "found pools, and a gang is of one profile",
            "remove them, or scheduling.gang",
        );
    }
}

fn refuse(pool: &ProfileName, key: &str, found: String, fix: &str, notes: &mut Notes) {
    let section = format!("pools.{pool}");
    notes.contradict(
        &[format!("{section}.{key}"), section, "profiles".to_owned()],
        found,
        fix,
    );
}

/// Its own name, and those of profiles.
fn check_names<'a>(
    name: &ProfileName,
    pool: &'a Pool,
    config: &Config,
    seen: &mut BTreeSet<&'a str>,
    notes: &mut Notes,
) {
    if pool.profiles.len() < 2 {
        let found = format!("found {} of them", pool.profiles.len());
        refuse(
            name,
            "profiles",
            found,
            "name at least two, the preferred one first",
            notes,
        );
    }
    if config.profiles.contains_key(name) {
        let found = format!("a profile is called {name}, too");
        refuse(name, "profiles", found, "give the pool another name", notes);
    }
    for profile in &pool.profiles {
        if !config
            .profiles
            .contains_key(&ProfileName::from(profile.as_str()))
        {
            let found = format!("found {profile:?}, which is no profile");
            refuse(
                name,
                "profiles",
                found,
                "add its section, or correct the name",
                notes,
            );
        } else if !seen.insert(profile) {
            let found = format!("found {profile:?}, which is of a pool already");
            refuse(name, "profiles", found, "name each profile once", notes);
        }
        let own = format!("profiles.{profile}.executors");
        if notes.is_set(&own) {
            let found = format!("found a target of its own, and the profile is of the pool {name}");
            notes.contradict(
                &[own, format!("pools.{name}")],
                found,
                "set the pool's executors instead",
            );
        }
    }
    let keys = (pool.at_least.keys().map(|profile| ("at_least", profile)))
        .chain(pool.share.keys().map(|profile| ("share", profile)));
    for (key, profile) in keys.filter(|(_, profile)| !pool.profiles.contains(profile)) {
        let found = format!("found {profile:?}, which is no profile of the pool");
        refuse(name, key, found, "name one of its profiles", notes);
    }
}
