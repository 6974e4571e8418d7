//! The key `profiles.NAME.spares`: the spares of a profile are executors of a profile of their own (spec A-117).

use super::notes::Notes;
use super::{Config, Profile, Queue, Strategy};
use boatswain_model::ProfileName;

/// The longest name of a profile that has spares, in bytes: that of its spares' profile is a label as well.
const LONGEST: usize = 56;

/// Whether a profile may have spares, if it has no claims.
pub(super) fn are_possible(config: &Config) -> bool {
    config.backend.sessions.listen.is_some()
        && config.allocation.strategy == Strategy::Direct
        && !config.scheduling.gang.is_on()
        && config.scheduling.queue == Queue::Off
}

pub(super) fn check(config: &Config, notes: &mut Notes) {
    for (name, profile) in &config.profiles {
        if profile.spares > 0 {
            check_one(name, profile, config, notes);
        }
    }
}

fn check_one(name: &ProfileName, profile: &Profile, config: &Config, notes: &mut Notes) {
    let key = format!("profiles.{name}.spares");
    let mut refuse = |other: &str, found: &str, fix: String| {
        notes.contradict(&[key.clone(), other.to_owned()], found.to_owned(), fix);
    };
    if config.backend.sessions.listen.is_none() {
        let found = "found spares, and without sessions none can be told to begin";
        let fix = format!("set backend.listen, or remove {key}");
        refuse("backend.listen", found, fix);
    }
    if config.allocation.strategy != Strategy::Direct {
        let found = "found spares, whose pods have to be boatswain's own";
        let fix = format!("set allocation.strategy = \"direct\", or remove {key}");
        refuse("allocation.strategy", found, fix);
    }
    if config.scheduling.gang.is_on() {
        let found = "found spares, and a gang has none";
        refuse(
            "scheduling.gang",
            found,
            format!("remove one of them: {key}"),
        );
    }
    if config.scheduling.queue != Queue::Off {
        let found = "found spares, and a queue admits executors in blocks";
        refuse(
            "scheduling.queue",
            found,
            format!("remove one of them: {key}"),
        );
    }
    if !profile.claims.is_empty() {
        let found = "found spares, and claims on volumes, which a spare would hold for nothing";
        let claims = format!("profiles.{name}.claims");
        refuse(&claims, found, format!("remove one of them: {key}"));
    }
    if name.as_str().len() > LONGEST {
        let found = format!("found spares of a profile with a name of more than {LONGEST} bytes");
        refuse("profiles", &found, "shorten the name".to_owned());
    }
}

/// Adds the profiles of spares, which are like those that they are the spares of.
pub(super) fn add(config: &mut Config) {
    let spares: Vec<_> = (config.profiles.iter())
        .filter(|(_, profile)| profile.spares > 0)
        .map(|(name, profile)| {
            let spares = Profile {
                executors: profile.spares,
                spares: 0,
                min_executors: 0,
                max_executors: super::MOST_EXECUTORS,
                min_available: None,
                ..profile.clone()
            };
            (name.spares(), spares)
        })
        .collect();
    config.profiles.extend(spares);
}

/// Wants no spares of profiles that have none any more in a new reading.
pub(super) fn end(config: &mut Config, read: &Config) {
    for (name, profile) in &mut config.profiles {
        let of = name.spares_of();
        let is_over = of.is_some_and(|of| read.profiles.contains_key(&of));
        if is_over && !read.profiles.contains_key(name) {
            profile.executors = 0;
        }
    }
}
