//! Reads the configuration: one TOML file, with overrides from the environment and the command
//! line, validated into a typed [`Config`] (spec C-1 to C-3).
//!
//! `document` parses the file into a tree in which every value knows its origin. `reader` takes the
//! tree apart key by key and notes every mistake. `sections`, `policy`, `failures`, `scaling`,
//! `sessions`, `listeners` and `profile` define the keys. `check` refuses contradictions between keys.

#![forbid(unsafe_code)]

mod added;
mod changes;
mod check;
mod claims;
mod declare;
mod document;
mod effective;
mod error;
mod failures;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod ha;
mod kinds;
mod listeners;
pub mod log;
mod names;
mod near;
mod nodes;
mod notes;
mod policy;
mod pools;
mod profile;
mod reader;
mod scaling;
mod secrets;
mod sections;
mod sessions;
mod spares;
pub mod spark;
mod strategy;
mod template;
#[cfg(test)]
mod tests;
mod typed;

use std::collections::BTreeMap;
use std::path::Path;

pub use added::{Where, profile_ttl};
pub use boatswain_model::quantity::{Quantity, QuantityError};
pub use changes::{Change, Changes, Reading, WHILE_RUNNING, compare};
pub use claims::{
    AccessMode, Claim, ClaimOwner, Claims, ConfigMap, DataSource, DataSourceKind, MOST_CLAIMS,
};
pub use document::ENV_PREFIX;
pub use effective::{Effective, Setting};
pub use error::{ConfigError, Mistake, Origin};
pub use failures::{FailureAction, FailureRule, Failures, NodeAvoidance, OnExceeded};
pub use ha::Ha;
pub use listeners::{Metrics, Probes, Tls};
pub use log::{History, Log, LogFormat, Traces};
pub use names::{
    LONGEST_PREFIX, is_data_key, is_dns_label, is_dns_subdomain, is_env_name, is_label_key,
    is_label_value, is_own_label,
};
pub use nodes::Nodes;
pub use policy::{Allocation, Keep, Lifecycle, Poll, ScaleDown, Scheduling, Tuning, Watch};
pub use pools::Pool;
pub use profile::{
    DEFAULT_PROFILE, EnvValue, KeyOf, MOST_EXECUTORS, Medium, Profile, PullPolicy, Security,
    Spread, TaintEffect, Toleration, TolerationOperator, Uneven, Volume, VolumeSource,
};
pub use reader::KnownKey;
pub use scaling::{Autoscaling, Roll, RollPolicy};
pub use secrets::{hide, holds_secret, is_secret};
pub use sections::{
    AccountRight, Api, App, Cluster, ClusterMode, Driver, Embedded, EmbeddedNode, Executors,
    Labels, OnSignal, Shutdown,
};
pub use sessions::{Adoption, Agent, Auth, Backend, Inject, Registration, Sessions};
pub use strategy::{Gang, Queue, Strategy};
pub use template::PodTemplate;

use declare::section;
use document::{Node, Override};
use notes::Notes;
use reader::Section;
use template::Templates;

use boatswain_model::ProfileName;

section! {
    /// The complete, validated configuration. Each field is a section. The default is not valid for
    /// a Kubernetes cluster, because it has no image: [`Config::from_toml`] refuses an empty file.
    pub struct Config {
        pub app: App = section(App::read);
        pub cluster: Cluster = section(Cluster::read);
        pub embedded: Embedded = section(Embedded::read);
        pub driver: Driver = section(Driver::read);
        pub executors: Executors = section(Executors::read);
        /// The profiles by name. [`DEFAULT_PROFILE`] is always among them.
        pub profiles: BTreeMap<ProfileName, Profile> =
            profiles(Profile::checked) or BTreeMap::from([(DEFAULT_PROFILE.into(), Profile::default())]);
        pub pools: BTreeMap<ProfileName, Pool> = profiles(Pool::checked) or BTreeMap::new();
        pub claims: Claims = section(Claims::read);
        pub config_map: ConfigMap = section(ConfigMap::read);
        pub watch: Watch = section(Watch::read);
        pub poll: Poll = section(Poll::read);
        pub allocation: Allocation = section(Allocation::read);
        pub scheduling: Scheduling = section(Scheduling::read);
        pub lifecycle: Lifecycle = section(Lifecycle::read);
        pub failures: Failures = section(Failures::read);
        pub backend: Backend = section(Backend::read);
        pub agent: Agent = section(Agent::read);
        pub adoption: Adoption = section(Adoption::read);
        pub ha: Ha = section(Ha::read);
        pub nodes: Nodes = section(Nodes::read);
        pub autoscaling: Autoscaling = section(Autoscaling::read);
        pub roll: Roll = section(Roll::read);
        pub api: Api = section(Api::read);
        pub metrics: Metrics = section(Metrics::read);
        pub probes: Probes = section(Probes::read);
        pub tls: Tls = section(Tls::read);
        pub shutdown: Shutdown = section(Shutdown::read);
        pub log: Log = section(Log::read);
        pub history: History = section(History::read);
        pub traces: Traces = section(Traces::read);
        pub tuning: Tuning = flattened(|_| Tuning::default());
    }
}

/// A file with one of each section that a file need not have, so that its keys are read.
const WITH_ALL_SECTIONS: &str = "[pools.NAME]";

impl Config {
    /// The pool of a profile.
    pub fn pool_of(&self, profile: &ProfileName) -> Option<&ProfileName> {
        let mut pools = self.pools.iter();
        let (name, _) = pools.find(|(_, pool)| pool.names().any(|one| one == *profile))?;
        Some(name)
    }

    /// Reads a file, then overrides from the environment, then those from the command line. Later
    /// ones win (spec C-3). Also returns the origin of each value (spec C-4).
    pub fn explain(
        path: &Path,
        env: impl IntoIterator<Item = (String, String)>,
        sets: &[String],
    ) -> Result<(Self, Effective), ConfigError> {
        let file = path.display().to_string();
        let refuse = |found: String, fix: &str| ConfigError {
            file: file.clone(),
            mistakes: vec![Mistake::of_file(Origin::Default, found, fix)],
        };
        let bytes = std::fs::read(path).map_err(|error| {
            let fix = "name a readable file with --config, such as config/local.toml";
            refuse(format!("cannot be read: {error}"), fix)
        })?;
        let text = String::from_utf8(bytes)
            .map_err(|error| refuse(error.to_string(), "write the file as UTF-8"))?;
        let directory = path.parent().unwrap_or_else(|| Path::new("")).to_owned();
        Self::understand(&text, &file, env, sets, Templates::Beside(directory))
    }

    /// Like [`Config::explain_toml`], without the origins.
    pub fn from_toml(
        text: &str,
        file: &str,
        env: impl IntoIterator<Item = (String, String)>,
        sets: &[String],
    ) -> Result<Self, ConfigError> {
        Self::explain_toml(text, file, env, sets).map(|(config, _)| config)
    }

    /// Like [`Config::explain`], but from a text. `file` is its name in error messages. Files that
    /// the configuration refers to are not read.
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
        // Sorted, so that the result does not depend on the order of the environment.
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
        let (config, mut notes) = Self::from_tree(root, unread.is_empty(), templates);
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

    /// Every key with its default (spec C-5).
    pub fn known_keys() -> Vec<KnownKey> {
        let (root, _) = document::parse(WITH_ALL_SECTIONS);
        Self::from_tree(root, true, Templates::Unread).1.known
    }

    /// The JSON Schema of the file: its keys, and of their values what a schema can say (spec C-11). Tools that make a
    /// file refuse by it what a driver would refuse later.
    pub fn schema() -> serde_json::Value {
        let mut notes = Notes {
            describes: true,
            ..Notes::default()
        };
        let (root, _) = document::parse(WITH_ALL_SECTIONS);
        let mut s = Section::root(root, &mut notes);
        Self::read(&mut s);
        s.schema()
    }

    /// Whether a running executor that does not register is replaced (spec A-52).
    pub fn must_register(&self) -> bool {
        self.backend.sessions.registration() == Registration::Required
    }

    /// Whether the API and the executors' sessions share a port. Two ports chosen by the system (0)
    /// are never the same.
    pub fn one_port(&self) -> bool {
        let executors = self.backend.sessions.listen;
        executors.is_some_and(|address| address.port() != 0 && self.api.listen == Some(address))
    }

    /// The prefix of the names of all objects of the application (spec K-7). The application record
    /// is `<prefix>-app`, executor N is `<prefix>-exec-N`.
    pub fn pod_name_prefix(&self) -> String {
        let fixed = self.executors.pod_name_prefix.clone();
        // Reading a file refuses a name that gives no prefix, but a Config built in code may have
        // one.
        fixed
            .or_else(|| names::prefix_of(&self.app.name))
            .unwrap_or_else(|| "boatswain".to_owned())
    }

    /// `whole`: whether every line of the file could be parsed. Only then is an absent key reported
    /// as missing.
    fn from_tree(root: Node, whole: bool, templates: Templates) -> (Self, Notes) {
        let mut notes = Notes {
            templates,
            ..Notes::default()
        };
        let mut s = Section::root(root, &mut notes);
        let mut config = Self::read(&mut s);
        s.refuse_the_rest();
        notes.place_unrecognised();
        if whole {
            check::check(&mut config, &mut notes);
        }
        (config, notes)
    }
}
