//! The configuration: one TOML file, overrides from the environment and the command line, and a
//! typed [`Config`] of which nothing has to be checked again (spec C-1 to C-3).
//!
//! `document` parses into a tree in which every value knows where it came from, `reader` takes the
//! tree apart key by key and notes every mistake, `sections`, `policy`, `failures`, `scaling`, `sessions` and `profile` say
//! which keys there are, `check` refuses what contradicts itself.

mod added;
mod check;
mod claims;
mod document;
mod effective;
mod error;
mod failures;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod kinds;
mod names;
mod near;
mod notes;
mod policy;
mod profile;
mod reader;
mod scaling;
mod sections;
mod sessions;
pub mod spark;
mod strategy;
mod template;
#[cfg(test)]
mod tests;
mod typed;

use std::collections::BTreeMap;
use std::path::Path;

pub use crate::model::quantity::{Quantity, QuantityError};
pub use added::Where;
pub use claims::{AccessMode, Claim, ClaimOwner, Claims, ConfigMap, MOST_CLAIMS};
pub use document::ENV_PREFIX;
pub(crate) use effective::is_secret;
pub use effective::{Effective, Setting};
pub use error::{ConfigError, Mistake, Origin};
pub use failures::{FailureAction, FailureRule, Failures};
pub use names::{
    LONGEST_PREFIX, is_data_key, is_dns_label, is_dns_subdomain, is_env_name, is_label_key,
    is_label_value, is_own_label,
};
pub use policy::{Allocation, Lifecycle, Poll, ScaleDown, Scheduling, Watch};
pub use profile::{
    DEFAULT_PROFILE, EnvValue, KeyOf, MOST_EXECUTORS, Medium, Profile, PullPolicy, Security,
    Spread, TaintEffect, Toleration, TolerationOperator, Uneven, Volume, VolumeSource,
};
pub use reader::KnownKey;
pub use scaling::{Autoscaling, Roll, RollPolicy};
pub use sections::{
    Api, App, Cluster, ClusterMode, Driver, Embedded, EmbeddedNode, Executors, Labels, Log,
    OnSignal, Shutdown,
};
pub use sessions::{Adoption, Auth, Backend, Registration, Sessions};
pub use strategy::{Gang, Strategy};
pub use template::PodTemplate;

use document::{Node, Override};
use notes::Notes;
use reader::Section;
use template::Templates;

use crate::model::ProfileName;

/// All that can be configured, a field a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The application.
    pub app: App,
    /// The cluster.
    pub cluster: Cluster,
    /// The embedded cluster.
    pub embedded: Embedded,
    /// This process.
    pub driver: Driver,
    /// What all executors have in common.
    pub executors: Executors,
    /// The shapes of executors, by name; [`DEFAULT_PROFILE`] is always among them.
    pub profiles: BTreeMap<ProfileName, Profile>,
    /// What becomes of claims on volumes.
    pub claims: Claims,
    /// The ConfigMap that every executor mounts.
    pub config_map: ConfigMap,
    /// Being told of changes.
    pub watch: Watch,
    /// Asking for everything.
    pub poll: Poll,
    /// How executors are asked for and let go.
    pub allocation: Allocation,
    /// Executors that are of use only together.
    pub scheduling: Scheduling,
    /// What is done about executors that end.
    pub lifecycle: Lifecycle,
    /// Executors that do not stay.
    pub failures: Failures,
    /// What executors have to do with the driver.
    pub backend: Backend,
    /// Executors that were there before this driver.
    pub adoption: Adoption,
    /// Targets that follow what there is to do.
    pub autoscaling: Autoscaling,
    /// Replacing one executor after the other.
    pub roll: Roll,
    /// How people and programs speak to the driver.
    pub api: Api,
    /// How this process stops.
    pub shutdown: Shutdown,
    /// What is logged.
    pub log: Log,
}

impl Default for Config {
    /// Every default. For a real cluster an image is still missing: [`Config::from_toml`] would
    /// refuse an empty file.
    fn default() -> Self {
        Self {
            app: App::default(),
            cluster: Cluster::default(),
            embedded: Embedded::default(),
            driver: Driver::default(),
            executors: Executors::default(),
            profiles: BTreeMap::from([(ProfileName::from(DEFAULT_PROFILE), Profile::default())]),
            claims: Claims::default(),
            config_map: ConfigMap::default(),
            watch: Watch::default(),
            poll: Poll::default(),
            allocation: Allocation::default(),
            scheduling: Scheduling::default(),
            lifecycle: Lifecycle::default(),
            failures: Failures::default(),
            backend: Backend::default(),
            adoption: Adoption::default(),
            autoscaling: Autoscaling::default(),
            roll: Roll::default(),
            api: Api::default(),
            shutdown: Shutdown::default(),
            log: Log::default(),
        }
    }
}

impl Config {
    /// Reads a file, then the overrides of the environment, then those of the command line: later
    /// wins (spec C-3).
    pub fn load(
        path: &Path,
        env: impl IntoIterator<Item = (String, String)>,
        sets: &[String],
    ) -> Result<Self, ConfigError> {
        Self::explain(path, env, sets).map(|(config, _)| config)
    }

    /// As [`Config::load`], with where each value came from (spec C-4).
    pub fn explain(
        path: &Path,
        env: impl IntoIterator<Item = (String, String)>,
        sets: &[String],
    ) -> Result<(Self, Effective), ConfigError> {
        let file = path.display().to_string();
        let refuse = |found: String, fix: &str| ConfigError {
            file: file.clone(),
            mistakes: vec![Mistake {
                origin: Origin::Default,
                key: String::new(),
                found,
                fix: fix.to_owned(),
            }],
        };
        let bytes = std::fs::read(path).map_err(|error| {
            let fix = "name a readable file with --config, as config/local.toml";
            refuse(format!("cannot be read: {error}"), fix)
        })?;
        let text = String::from_utf8(bytes)
            .map_err(|error| refuse(error.to_string(), "write the file as UTF-8"))?;
        let directory = path.parent().unwrap_or_else(|| Path::new("")).to_owned();
        Self::understand(&text, &file, env, sets, Templates::Beside(directory))
    }

    /// As [`Config::load`], from a text; `file` is what messages call it. Files that it names are not looked at.
    pub fn from_toml(
        text: &str,
        file: &str,
        env: impl IntoIterator<Item = (String, String)>,
        sets: &[String],
    ) -> Result<Self, ConfigError> {
        Self::explain_toml(text, file, env, sets).map(|(config, _)| config)
    }

    /// As [`Config::explain`], from a text; `file` is what messages call it.
    pub fn explain_toml(
        text: &str,
        file: &str,
        env: impl IntoIterator<Item = (String, String)>,
        sets: &[String],
    ) -> Result<(Self, Effective), ConfigError> {
        Self::understand(text, file, env, sets, Templates::Unread)
    }

    fn understand(
        text: &str,
        file: &str,
        env: impl IntoIterator<Item = (String, String)>,
        sets: &[String],
        templates: Templates,
    ) -> Result<(Self, Effective), ConfigError> {
        let (mut root, mut mistakes) = document::parse(text);
        let unread = document::unread(text, &mistakes);
        // In the order of their names, so that the same variables always mean the same.
        let mut env: Vec<_> = env.into_iter().collect();
        env.sort();
        let env = env
            .iter()
            .filter_map(|(name, raw)| Override::from_env(name, raw));
        let sets = sets.iter().map(|argument| Override::from_set(argument));
        for parsed in env.chain(sets) {
            match parsed {
                Ok(parsed) => parsed.apply(&mut root),
                Err(mistake) => mistakes.push(mistake),
            }
        }
        let (config, mut notes) = Self::read(root, unread.is_empty(), templates);
        let told_already = |mistake: &Mistake| match mistake.origin {
            Origin::File { line, .. } => unread.iter().any(|lines| lines.contains(&line)),
            _ => false,
        };
        let found = std::mem::take(&mut notes.mistakes);
        mistakes.extend(found.into_iter().filter(|mistake| !told_already(mistake)));
        if mistakes.is_empty() {
            notes.effective.file = file.to_owned();
            return Ok((config, notes.effective));
        }
        mistakes.sort_by_key(|mistake| match mistake.origin {
            Origin::File { line, column } => (line, column),
            _ => (usize::MAX, usize::MAX),
        });
        Err(ConfigError {
            file: file.to_owned(),
            mistakes,
        })
    }

    /// Every key there is, with its default (spec C-5).
    pub fn known_keys() -> Vec<KnownKey> {
        let (root, _) = document::parse("");
        Self::read(root, true, Templates::Unread).1.known
    }

    /// Whether people and executors are let in at the same port. Two free ports are never the same.
    pub fn one_port(&self) -> bool {
        let executors = self.backend.sessions.listen;
        executors.is_some_and(|address| address.port() != 0 && self.api.listen == Some(address))
    }

    /// What the names of all that the application makes begin with (spec K-7). The driver's
    /// record is `<prefix>-app`, executor N `<prefix>-exec-N`.
    pub fn pod_name_prefix(&self) -> String {
        let fixed = self.executors.pod_name_prefix.clone();
        // A file whose name gives no prefix is refused; a Config made by hand may have one.
        fixed
            .or_else(|| names::prefix_of(&self.app.name))
            .unwrap_or_else(|| "boatswain".to_owned())
    }

    /// `whole`: whether every line of the file could be read, so that what is missing is missing.
    fn read(root: Node, whole: bool, templates: Templates) -> (Self, Notes) {
        let mut notes = Notes {
            templates,
            ..Notes::default()
        };
        let mut s = Section::root(root, &mut notes);
        let mut config = Self {
            app: s.section("app", App::read),
            cluster: s.section("cluster", Cluster::read),
            embedded: s.section("embedded", Embedded::read),
            driver: s.section("driver", Driver::read),
            executors: s.section("executors", Executors::read),
            profiles: s.profiles("profiles", &[DEFAULT_PROFILE], Profile::read),
            claims: s.section("claims", Claims::read),
            config_map: s.section("config_map", ConfigMap::read),
            watch: s.section("watch", Watch::read),
            poll: s.section("poll", Poll::read),
            allocation: s.section("allocation", Allocation::read),
            scheduling: s.section("scheduling", Scheduling::read),
            lifecycle: s.section("lifecycle", Lifecycle::read),
            failures: s.section("failures", Failures::read),
            backend: s.section("backend", Backend::read),
            adoption: s.section("adoption", Adoption::read),
            autoscaling: s.section("autoscaling", Autoscaling::read),
            roll: s.section("roll", Roll::read),
            api: s.section("api", Api::read),
            shutdown: s.section("shutdown", Shutdown::read),
            log: s.section("log", Log::read),
        };
        s.refuse_the_rest();
        notes.place_unrecognised();
        if whole {
            check::check(&mut config, &mut notes);
        }
        (config, notes)
    }
}
