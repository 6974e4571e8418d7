//! The pods of the Spark driver and of its executors, from Spark's keys for Kubernetes: the same conversion as `boatswain
//! convert`'s, once by the keys of the driver and once by those of executors.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value as Json, json};

use super::super::keys::{Form, Use, use_of};
use super::super::{LeftOut, assemble, profile_of};
use super::Reading;
use crate::template::Templates;
use crate::{Config, DEFAULT_PROFILE, Profile};

/// Further keys of the executors' profile, as JSON. The adapter reads it.
pub(in crate::spark) const EXECUTOR_PROFILE: &str = "spark.boatswain.profile";
/// The same for the Spark driver.
pub(in crate::spark) const DRIVER_PROFILE: &str = "spark.boatswain.driver.profile";
const IMAGE: &str = "spark.boatswain.image";

/// The keys of a profile that are Spark's.
const OWN: [&str; 3] = ["executors", "command", "args"];

/// The user of Spark's images.
const SPARK_USER: u32 = 185;

/// Keys that are used without a profile.
const USED: &[&str] = &[
    super::NAMESPACE,
    super::CONTEXT,
    super::WAITS,
    "spark.kubernetes.report.interval",
    "spark.kubernetes.executor.request.cores",
    "spark.kubernetes.executor.limit.cores",
    "spark.kubernetes.memoryOverheadFactor",
];

/// The driver's keys that begin otherwise than its others, and the executors' keys in their place.
#[rustfmt::skip]
const DRIVERS: &[(&str, &str)] = &[
    ("spark.driver.cores", "spark.executor.cores"),
    ("spark.driver.memory", "spark.executor.memory"),
    ("spark.driver.memoryOverhead", "spark.executor.memoryOverhead"),
    ("spark.driver.memoryOverheadFactor", "spark.executor.memoryOverheadFactor"),
    ("spark.driver.minMemoryOverhead", "spark.executor.minMemoryOverhead"),
    ("spark.driver.resource.", "spark.executor.resource."),
    ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"),
    ("spark.kubernetes.driverEnv.", "spark.executorEnv."),
    ("spark.kubernetes.authenticate.driver.serviceAccountName", "spark.kubernetes.authenticate.executor.serviceAccountName"),
    ("spark.kubernetes.driver.ownPersistentVolumeClaim", ""),
    ("spark.kubernetes.driver.", "spark.kubernetes.executor."),
];

/// Keys that are for the driver and for executors, and the keys of one alone that win.
const BOTH: &[(&str, &str)] = &[
    (
        "spark.kubernetes.container.image",
        "spark.kubernetes.executor.container.image",
    ),
    ("spark.kubernetes.container.image.pullPolicy", ""),
    ("spark.kubernetes.container.image.pullSecrets", ""),
    ("spark.kubernetes.node.selector.", ""),
    (
        "spark.kubernetes.scheduler.name",
        "spark.kubernetes.executor.scheduler.name",
    ),
    (
        "spark.kubernetes.memoryOverheadFactor",
        "spark.executor.memoryOverheadFactor",
    ),
    (
        "spark.kubernetes.securityContext.allowPrivilegeEscalation",
        "spark.kubernetes.executor.securityContext.allowPrivilegeEscalation",
    ),
];

type Settings = BTreeMap<String, String>;

impl Reading {
    /// Sets the executors' profile, and returns the driver's.
    pub(super) fn profiles(&mut self, is_python: bool) -> Option<Profile> {
        self.overhead_of_python(is_python);
        self.unused();
        let executors = self.executors();
        let driver = self.driver();
        let is_there = |profile: &Json| profile.get("image").is_some();
        if !is_there(&executors) && !self.settings.contains_key(IMAGE) {
            self.refuse(
                "spark.kubernetes.container.image",
                "there is none; give the image with Spark, the adapter and your program",
            );
        }
        self.settings
            .insert(EXECUTOR_PROFILE.to_owned(), executors.to_string());
        let profile = self.checked(&driver)?;
        if profile.image.is_none() && profile.template.is_none() && is_there(&executors) {
            self.refuse(
                "spark.kubernetes.driver.container.image",
                "the Spark driver has no image",
            );
        }
        if !profile.claims.is_empty() {
            self.refuse(
                DRIVER_PROFILE,
                "claims are for executors; mount one that exists as a volume",
            );
        }
        Some(profile)
    }

    /// Spark gives programs outside the JVM more memory.
    fn overhead_of_python(&mut self, is_python: bool) {
        if !is_python
            || self
                .settings
                .contains_key("spark.kubernetes.memoryOverheadFactor")
        {
            return;
        }
        for of in ["driver", "executor"] {
            let key = format!("spark.{of}.memoryOverheadFactor");
            self.settings.entry(key).or_insert_with(|| "0.4".to_owned());
        }
    }

    /// Notes the keys of Spark on Kubernetes that have no effect.
    fn unused(&mut self) {
        for key in self.settings.keys() {
            let is_used = USED.contains(&key.as_str())
                || of_driver(key).is_some_and(|key| is_of_a_profile(&key))
                || is_of_a_profile(key);
            if !key.starts_with("spark.kubernetes.") || is_used {
                continue;
            }
            let why = match use_of(key) {
                Some((_, Use::To(target, _), _)) => {
                    format!("{target} of boatswain's configuration says it")
                }
                Some((_, Use::Unused(why), _)) => why.to_owned(),
                None => "it is not known here".to_owned(),
            };
            self.notes.push(format!("{key}: {why}"));
        }
    }

    fn executors(&mut self) -> Json {
        let keys = self.settings.iter().filter(|(key, _)| is_of_executors(key));
        let mut set: Settings = keys
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if set
            .remove("spark.kubernetes.executor.podTemplateFile")
            .is_some()
        {
            self.refuse(
                "spark.kubernetes.executor.podTemplateFile",
                "boatswain reads templates from its configuration alone; describe the pods by spark.boatswain.profile",
            );
        }
        without_overridden(&mut set);
        let made = self.converted(&set, |why| why);
        self.with_given(made, EXECUTOR_PROFILE)
    }

    fn driver(&mut self) -> Json {
        let mut set = Settings::new();
        for (key, value) in &self.settings {
            if let Some(key) = of_driver(key).filter(|key| is_of_a_profile(key)) {
                set.insert(key, value.clone());
            }
        }
        without_overridden(&mut set);
        // Spark's defaults.
        for (key, default) in [
            ("spark.executor.cores", "1"),
            ("spark.executor.memory", "1g"),
        ] {
            if key.ends_with("memory")
                || !set.contains_key("spark.kubernetes.executor.request.cores")
            {
                set.entry(key.to_owned())
                    .or_insert_with(|| default.to_owned());
            }
        }
        let mut made = self.converted(&set, as_the_drivers);
        if let (None, Some(image)) = (made.get("image"), self.settings.get(IMAGE)) {
            made.insert("image".to_owned(), image.as_str().into());
        }
        self.with_given(made, DRIVER_PROFILE)
    }

    /// Converts the keys to those of a profile. `told` says whose keys they are in a mistake.
    fn converted(&mut self, set: &Settings, told: impl Fn(String) -> String) -> Map<String, Json> {
        let mut left = LeftOut::default();
        let (written, _) = assemble(set, Vec::new(), &mut left);
        let refused = left
            .refused
            .into_iter()
            .chain(left.useless)
            .chain(left.strange);
        self.mistakes.extend(refused.map(told));
        profile_of(&written)
    }

    /// Adds what is given as JSON, which wins.
    fn with_given(&mut self, made: Map<String, Json>, key: &str) -> Json {
        let mut profile = Json::Object(made);
        let given = self
            .settings
            .get(key)
            .map(|text| serde_json::from_str::<Json>(text));
        match given {
            None => {}
            Some(Ok(given @ Json::Object(_))) => {
                for own in OWN.iter().filter(|own| given.get(**own).is_some()) {
                    self.refuse(key, format_args!("it must not set {own}: Spark sets it"));
                }
                merge(&mut profile, given);
            }
            Some(Ok(_)) => self.refuse(key, "give a JSON object with keys of a profile"),
            Some(Err(error)) => self.refuse(key, format_args!("it is no JSON: {error}")),
        }
        if profile.get("security").is_none() {
            profile["security"] = json!({"run_as_user": SPARK_USER});
        }
        profile
    }

    /// The driver's profile, and the template that it names. `None` if there is a mistake.
    fn checked(&mut self, driver: &Json) -> Option<Profile> {
        let text = toml::to_string(&json!({"profiles": {DEFAULT_PROFILE: driver}}));
        let text = match text {
            Ok(text) => text,
            Err(error) => {
                self.refuse(DRIVER_PROFILE, error);
                return None;
            }
        };
        let templates = Templates::Beside(PathBuf::from("."));
        match Config::understand(&text, "", [], &[], templates) {
            Ok((mut config, _)) => config.profiles.remove(DEFAULT_PROFILE),
            Err(error) => {
                for mistake in error.mistakes {
                    let key = mistake.key.trim_start_matches("profiles.default.");
                    // That it has none is said above.
                    if key != "image" {
                        self.refuse(
                            format_args!("{DRIVER_PROFILE}: {key}"),
                            format_args!("{}; {}", mistake.found, mistake.fix),
                        );
                    }
                }
                None
            }
        }
    }
}

/// The executors' key with the meaning that this key has for the driver.
fn of_driver(key: &str) -> Option<String> {
    let fits = |known: &str| key == known || (known.ends_with('.') && key.starts_with(known));
    if let Some((known, becomes)) = DRIVERS.iter().find(|(known, _)| fits(known)) {
        let rest = &key[known.len()..];
        return (!becomes.is_empty()).then(|| format!("{becomes}{rest}"));
    }
    BOTH.iter()
        .any(|(known, _)| fits(known))
        .then(|| key.to_owned())
}

fn is_of_a_profile(key: &str) -> bool {
    let target = use_of(key);
    target.is_some_and(|(_, becomes, _)| matches!(becomes, Use::To(target, _) if target.starts_with("profiles.default.")))
}

/// Whether executors have it by their profile, and not by the adapter, which counts cores and memory.
fn is_of_executors(key: &str) -> bool {
    let counted =
        matches!(use_of(key), Some((_, Use::To(_, Form::Memory), _))) || key.ends_with(".cores");
    key.starts_with("spark.kubernetes.") && !counted && is_of_a_profile(key)
}

/// Removes the keys for both where one of them has its own.
fn without_overridden(set: &mut Settings) {
    for (both, alone) in BOTH {
        if set.contains_key(*alone) {
            set.remove(*both);
        }
    }
    if set.contains_key("spark.kubernetes.executor.request.cores") {
        set.remove("spark.executor.cores");
    }
}

/// A mistake about an executors' key that stands for one of the driver's.
pub(in crate::spark) fn as_the_drivers(mistake: String) -> String {
    let mut told = mistake;
    for (driver, executors) in DRIVERS
        .iter()
        .filter(|(_, executors)| !executors.is_empty())
    {
        told = told.replace(executors, driver);
    }
    told
}

fn merge(into: &mut Json, given: Json) {
    match (into, given) {
        (Json::Object(into), Json::Object(given)) => {
            for (key, value) in given {
                merge(into.entry(key).or_insert(Json::Null), value);
            }
        }
        (into, given) => *into = given,
    }
}
