//! Compares two readings of the configuration: what takes effect while the driver runs, and what
//! only at its next start (spec C-6).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::notes::{Notes, join_dotted};
use super::{Config, ConfigError, Effective, Mistake, Profile, Setting};
use super::{check, pools, spares};
use boatswain_model::ProfileName;

/// Declares the keys whose new values take effect while the driver runs. All are single values.
/// `SECTION [FIELD].KEY`: the key's value is in a field of the section.
macro_rules! while_running {
    (
        $($section:ident $([$field:ident])? . $key:ident),*;
        profiles { $($of_profile:ident,)* }
    ) => {
        /// The keys whose new values take effect while the driver runs, with `NAME` for the name of a
        /// profile or pool. Every other key takes effect at the next start.
        pub const WHILE_RUNNING: &[&str] = &[
            $(concat!(stringify!($section), ".", stringify!($key)),)*
            $(concat!("profiles.NAME.", stringify!($of_profile)),)*
            "pools.NAME.executors",
        ];

        fn take_over(running: &mut Config, read: &Config) {
            $(
                running.$section$(.$field)?.$key
                    .clone_from(&read.$section$(.$field)?.$key);
            )*
        }

        fn take_over_profile(running: &mut Profile, read: &Profile) {
            $(running.$of_profile.clone_from(&read.$of_profile);)*
        }
    };
}

while_running! {
    app.max_executors,
    poll.interval,
    allocation.batch_size,
    allocation.max_rate,
    allocation.max_pending,
    allocation.pending_timeout,
    allocation.stuck_after,
    allocation.registration_timeout,
    allocation.cancel_delay,
    lifecycle.keep,
    lifecycle.keep_most,
    lifecycle.keep_for,
    failures.max,
    failures.backoff_initial,
    failures.backoff_max,
    backend [sessions].heartbeat_timeout,
    backend [sessions].loss_reason_timeout,
    backend [sessions].mass_loss,
    backend.kill_grace,
    autoscaling.ratio,
    autoscaling.backlog_timeout,
    autoscaling.sustained_timeout,
    autoscaling.idle_timeout,
    autoscaling.demand_ttl,
    log.level;
    profiles {
        executors,
        spares,
        max_executors,
        max_pending,
    }
}

/// A configuration that was read, with the origin of each value.
#[derive(Debug, Clone)]
pub struct Reading {
    pub config: Config,
    pub effective: Effective,
}

/// A changed value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The key's full path.
    pub key: String,
    /// As TOML; `None`: not set.
    pub before: Option<String>,
    pub after: Option<String>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
        let (before, after) = (shown(&self.before), shown(&self.after));
        write!(f, "{}: {before} → {after}", self.key)
    }
}

/// What a new reading changes.
#[derive(Debug, Clone)]
pub struct Changes {
    /// The configuration from now on: what takes effect while the driver runs is new, everything
    /// else as before.
    pub reading: Reading,
    pub taken: Vec<Change>,
    /// The targets that differ from those read before.
    pub targets: BTreeMap<ProfileName, u32>,
    /// The profiles that were not there before.
    pub added: BTreeSet<ProfileName>,
    /// The changed keys that take effect at the next start.
    pub at_next_start: BTreeSet<String>,
}

impl Changes {
    /// Leaves a new profile to the next start.
    pub fn leave(&mut self, profile: &ProfileName) {
        if self.added.remove(profile) {
            let section = section_of(profile);
            self.reading.config.profiles.remove(profile);
            let of_others =
                |setting: &Setting| profile_of(&path(setting)) != Some(profile.as_str());
            self.reading.effective.settings.retain(of_others);
            self.at_next_start.insert(section);
        }
    }
}

/// Compares what applies now with what was read.
///
/// # Errors
/// If the values that could take effect now contradict others that stay until the next start.
pub fn compare(running: &Reading, read: &Reading) -> Result<Changes, ConfigError> {
    let (config, targets, added) = merged(&running.config, &read.config);
    let known = Config::known_keys();
    let known: Vec<&str> = known.iter().map(|key| key.path.as_str()).collect();
    let (before, after) = (by_path(&running.effective), by_path(&read.effective));
    let (mut taken, mut at_next_start) = (Vec::new(), BTreeSet::new());
    for path in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
        let (before, after) = (before.get(path), after.get(path));
        let fingerprint = |setting: &&Setting| setting.fingerprint;
        if before.map(fingerprint) == after.map(fingerprint) {
            continue;
        }
        if profile_of(path).is_some_and(|profile| added.contains(&ProfileName::from(profile))) {
            continue;
        }
        if let Some(section) = section_at_next_start(path, &running.config, &read.config) {
            at_next_start.insert(section);
            continue;
        }
        if takes_effect(path, &known) {
            let value = |setting: Option<&&Setting>| setting.and_then(|s| s.value.clone());
            let (before, after) = (value(before), value(after));
            let key = path.clone();
            taken.push(Change { key, before, after });
        } else {
            at_next_start.insert(shown(path, &known));
        }
    }
    at_next_start.extend(changed_templates(&running.config, &read.config));
    let effective = effective_now(running, read, &added, &known);
    let reading = Reading { config, effective };
    let known_before = contradictions(running);
    let mut mistakes = contradictions(&reading);
    mistakes.retain(|mistake| !known_before.contains(mistake));
    for mistake in &mut mistakes {
        mistake.fix += "; a key that it depends on takes effect only at the next start";
    }
    if !mistakes.is_empty() {
        let file = read.effective.file.clone();
        return Err(ConfigError { file, mistakes });
    }
    Ok(Changes {
        reading,
        taken,
        targets,
        added,
        at_next_start,
    })
}

/// The origins of the configuration from now on.
fn effective_now(
    running: &Reading,
    read: &Reading,
    added: &BTreeSet<ProfileName>,
    known: &[&str],
) -> Effective {
    let after = by_path(&read.effective);
    let now = |setting: &Setting| {
        let path = path(setting);
        let new = after.get(&path).filter(|_| takes_effect(&path, known));
        new.map_or_else(|| setting.clone(), |new| (*new).clone())
    };
    let is_added = |setting: &&Setting| {
        profile_of(&path(setting)).is_some_and(|name| added.contains(&ProfileName::from(name)))
    };
    let mut settings: Vec<Setting> = running.effective.settings.iter().map(now).collect();
    settings.extend(read.effective.settings.iter().filter(is_added).cloned());
    let file = running.effective.file.clone();
    Effective { file, settings }
}

/// The configuration from now on, the changed targets, and the new profiles.
fn merged(
    running: &Config,
    read: &Config,
) -> (Config, BTreeMap<ProfileName, u32>, BTreeSet<ProfileName>) {
    let mut config = running.clone();
    take_over(&mut config, read);
    for (name, pool) in &mut config.pools {
        pool.executors = (read.pools.get(name)).map_or(pool.executors, |read| read.executors);
    }
    let is_of_pool = |name: &ProfileName| {
        [running, read]
            .iter()
            .any(|config| config.pool_of(name).is_some())
    };
    let mut added = BTreeSet::new();
    for (name, profile) in &read.profiles {
        let known = config.profiles.get(name);
        let executors = match is_of_pool(name) {
            // As the pool says that applies from now on.
            true => known.map_or(0, |known| known.executors),
            false => profile.executors,
        };
        if known.is_none() {
            added.insert(name.clone());
        }
        let known = (config.profiles.entry(name.clone())).or_insert_with(|| profile.clone());
        take_over_profile(known, profile);
        known.executors = executors;
    }
    pools::share_out(&mut config);
    spares::end(&mut config, read);
    let changed = |(name, profile): (&ProfileName, &Profile)| {
        let before = running.profiles.get(name)?.executors;
        (before != profile.executors).then(|| (name.clone(), profile.executors))
    };
    let targets = config.profiles.iter().filter_map(changed).collect();
    (config, targets, added)
}

/// The contradictions between keys.
fn contradictions(reading: &Reading) -> Vec<Mistake> {
    let mut notes = Notes::default();
    let set = reading
        .effective
        .settings
        .iter()
        .filter(|s| !s.is_default());
    notes.origins = set.map(|s| (path(s), s.origin.clone())).collect();
    check::check(&mut reading.config.clone(), &mut notes);
    notes.mistakes
}

/// A template's file may change while its path does not.
fn changed_templates(running: &Config, read: &Config) -> Vec<String> {
    let both = (running.profiles.iter())
        .filter_map(|(name, profile)| Some((name, profile, read.profiles.get(name)?)));
    both.filter(|(_, before, after)| before.template != after.template)
        .map(|(name, ..)| format!("{}.template", section_of(name)))
        .collect()
}

fn by_path(effective: &Effective) -> BTreeMap<String, &Setting> {
    let settings = effective.settings.iter();
    settings.map(|setting| (path(setting), setting)).collect()
}

fn path(setting: &Setting) -> String {
    join_dotted(&setting.section, &setting.key)
}

fn section_of(profile: &ProfileName) -> String {
    format!("profiles.{profile}")
}

/// The section of a key, if all of it takes effect at the next start: a profile that has left, a new or left pool.
fn section_at_next_start(path: &str, running: &Config, read: &Config) -> Option<String> {
    let (section, name) = named(path)?;
    let key = ProfileName::from(name);
    let is_known = match section {
        "profiles" => read.profiles.contains_key(&key),
        _ => read.pools.contains_key(&key) && running.pools.contains_key(&key),
    };
    (!is_known).then(|| format!("{section}.{name}"))
}

/// The section of profiles or pools to which a key belongs, and the name.
fn named(path: &str) -> Option<(&str, &str)> {
    let (section, rest) = path.split_once('.')?;
    let (name, _) = rest.split_once('.')?;
    ["profiles", "pools"]
        .contains(&section)
        .then_some((section, name))
}

/// The profile to which a key belongs.
fn profile_of(path: &str) -> Option<&str> {
    named(path).and_then(|(section, name)| (section == "profiles").then_some(name))
}

fn takes_effect(path: &str, known: &[&str]) -> bool {
    known_key(path, known).is_some_and(|key| WHILE_RUNNING.contains(&key))
}

/// The key that a path is, or is an item of.
fn known_key<'k>(path: &str, known: &[&'k str]) -> Option<&'k str> {
    let path = match named(path) {
        Some((_, name)) => path.replacen(&format!(".{name}."), ".NAME.", 1),
        None => path.to_owned(),
    };
    let is_within = |key: &&&str| {
        let rest = path.strip_prefix(**key);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    known
        .iter()
        .filter(is_within)
        .max_by_key(|key| key.len())
        .copied()
}

/// The key of a path, without the names and numbers of items.
fn shown(path: &str, known: &[&str]) -> String {
    let key = known_key(path, known).unwrap_or(path);
    match named(path) {
        Some((_, name)) => key.replacen("NAME", name, 1),
        None => key.to_owned(),
    }
}
