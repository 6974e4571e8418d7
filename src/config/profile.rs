//! The shapes of executors (spec K-5).

use std::collections::BTreeMap;
use std::time::Duration;

use super::claims::Claim;
use super::kinds::{Amount, Choice, Count, Text, one_of, seconds, word_of};
use super::names::{is_dns_label, is_env_name, is_label_key, is_label_value};
use super::quantity::Quantity;
use super::reader::Section;
use super::sections::secs;

/// More executors of one profile nobody can mean.
pub const MOST_EXECUTORS: u32 = 100_000;

/// The profile that always exists.
pub const DEFAULT_PROFILE: &str = "default";

/// `[profiles.NAME]`: one shape of executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// How many executors of it are wanted at the start.
    pub executors: u32,
    /// How many pieces of work one of them does at a time, for autoscaling.
    pub slots: u32,
    /// Autoscaling wants no fewer, and a gang is so many (`scheduling.gang`).
    pub min_executors: u32,
    /// Nobody can want more.
    pub max_executors: u32,
    /// The most of it that are live and do not run yet; `None`: no limit (spec A-4).
    pub max_pending: Option<u32>,
    /// The container's image. A Kubernetes cluster needs one; the embedded one has no use for it.
    pub image: Option<String>,
    /// The program and what comes before `args`; empty: the image's own.
    pub command: Vec<String>,
    /// The program's arguments; empty: the image's own.
    pub args: Vec<String>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// The cores that are asked for.
    pub cpu: Option<Quantity>,
    /// The cores that it may use at most.
    pub cpu_limit: Option<Quantity>,
    /// The bytes of memory that are asked for.
    pub memory: Option<Quantity>,
    /// The bytes of memory beyond which it is killed.
    pub memory_limit: Option<Quantity>,
    /// The labels that a node has to have.
    pub node_selector: BTreeMap<String, String>,
    /// The taints that a node may have.
    pub tolerations: Vec<Toleration>,
    /// The claims on volumes that each of its executors has.
    pub claims: Vec<Claim>,
    /// How long it may take to exit once told to; whole seconds, at least one: with none, a pod is
    /// gone from the API while its process still runs.
    pub termination_grace: Duration,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            executors: 2,
            slots: 1,
            min_executors: 0,
            max_executors: MOST_EXECUTORS,
            max_pending: None,
            image: None,
            command: Vec::new(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cpu: None,
            cpu_limit: None,
            memory: None,
            memory_limit: None,
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            claims: Vec::new(),
            termination_grace: secs(30),
        }
    }
}

impl Profile {
    /// Reads one.
    pub(super) fn read(s: &mut Section<'_>, name: &str) -> Self {
        if !is_dns_label(name, 63) {
            s.refuse_whole(
                "not a name for a profile",
                "allowed: lowercase letters, digits and inner dashes, at most 63",
            );
        }
        let d = Self::default();
        let image = Text {
            rule: |image| {
                !image.is_empty() && !image.contains(|c: char| c.is_whitespace() || c.is_control())
            },
            allowed: "an image, as \"registry.example/engine:1.2\"",
        };
        let label_value = Text {
            rule: is_label_value,
            allowed: "a label's value: at most 63 letters, digits, dashes, dots and underscores",
        };
        let env_name = (
            is_executor_env as fn(&str) -> bool,
            "letters, digits, underscores, dashes and dots, no digit first; \
             names that begin with BOATSWAIN_ are boatswain's own",
        );
        let label_key = (
            is_label_key as fn(&str) -> bool,
            "a label's key, as disktype or kubernetes.io/arch",
        );
        let profile = Self {
            executors: s.value("executors", Count(0..=MOST_EXECUTORS), d.executors),
            slots: s.value("slots", Count(1..=100_000), d.slots),
            min_executors: s.value("min_executors", Count(0..=MOST_EXECUTORS), d.min_executors),
            max_executors: s.value("max_executors", Count(0..=MOST_EXECUTORS), d.max_executors),
            max_pending: s.option("max_pending", Count(1..=u32::MAX)),
            image: s.option("image", image),
            command: s.list("command", Text::ANY),
            args: s.list("args", Text::ANY),
            env: s.table("env", env_name, Text::ANY),
            cpu: s.option("cpu", Amount::CPU),
            cpu_limit: s.option("cpu_limit", Amount::CPU),
            memory: s.option("memory", Amount::MEMORY),
            memory_limit: s.option("memory_limit", Amount::MEMORY),
            node_selector: s.table("node_selector", label_key, label_value),
            tolerations: s.list_of_sections("tolerations", Toleration::read),
            claims: s.list_of_sections("claims", Claim::read),
            termination_grace: s.value(
                "termination_grace",
                seconds(secs(1)..=secs(24 * 3600)),
                d.termination_grace,
            ),
        };
        if profile.command.first().is_some_and(String::is_empty) {
            s.refuse("command", "the program is an empty text", "name a program");
        }
        Claim::check(s, &profile.claims);
        refuse_above(s, "cpu", profile.cpu.as_ref(), profile.cpu_limit.as_ref());
        refuse_above(
            s,
            "memory",
            profile.memory.as_ref(),
            profile.memory_limit.as_ref(),
        );
        profile
    }
}

/// Kubernetes refuses a request above its limit; so it is refused at the start (spec K-5).
fn refuse_above(
    s: &mut Section<'_>,
    key: &str,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) {
    if let (Some(request), Some(limit)) = (request, limit)
        && request > limit
    {
        s.refuse(
            key,
            format!("found {request}, above {key}_limit, which is {limit}"),
            format!("ask for at most {limit}, or raise {key}_limit"),
        );
    }
}

/// Names that boatswain sets itself (spec K-4) cannot be set here.
fn is_executor_env(name: &str) -> bool {
    is_env_name(name) && !name.starts_with("BOATSWAIN_")
}

/// How a toleration compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TolerationOperator {
    /// The taint has this value.
    #[default]
    Equal,
    /// The taint is there, whatever its value.
    Exists,
}

impl TolerationOperator {
    /// The word that Kubernetes has for it.
    pub fn as_str(self) -> &'static str {
        word_of(self)
    }
}

impl Choice for TolerationOperator {
    const ALL: &'static [(&'static str, Self)] =
        &[("Equal", Self::Equal), ("Exists", Self::Exists)];
}

/// What a taint does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaintEffect {
    /// No new pods.
    NoSchedule,
    /// No new pods where it can be helped.
    PreferNoSchedule,
    /// No pods.
    NoExecute,
}

impl TaintEffect {
    /// The word that Kubernetes has for it.
    pub fn as_str(self) -> &'static str {
        word_of(self)
    }
}

impl Choice for TaintEffect {
    const ALL: &'static [(&'static str, Self)] = &[
        ("NoSchedule", Self::NoSchedule),
        ("PreferNoSchedule", Self::PreferNoSchedule),
        ("NoExecute", Self::NoExecute),
    ];
}

/// `[[profiles.NAME.tolerations]]`: a taint that a node may have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Toleration {
    /// The taint's key; `None`: every key.
    pub key: Option<String>,
    /// How it compares.
    pub operator: TolerationOperator,
    /// The taint's value.
    pub value: Option<String>,
    /// The taint's effect; `None`: every effect.
    pub effect: Option<TaintEffect>,
    /// How long a `NoExecute` taint is put up with, whole seconds; `None`: for ever.
    pub tolerate_for: Option<Duration>,
}

impl Toleration {
    fn read(s: &mut Section<'_>) -> Option<Self> {
        let key = Text {
            rule: is_label_key,
            allowed: "a taint's key, as dedicated or node.kubernetes.io/unreachable",
        };
        let value = Text {
            rule: is_label_value,
            allowed: "a taint's value: at most 63 letters, digits, dashes, dots and underscores",
        };
        let toleration = Self {
            key: s.option("key", key),
            operator: s.value("operator", one_of(), TolerationOperator::default()),
            value: s.option("value", value),
            effect: s.option("effect", one_of()),
            tolerate_for: s.option("tolerate_for", seconds(secs(0)..=secs(365 * 24 * 3600))),
        };
        let exists = toleration.operator == TolerationOperator::Exists;
        if exists && toleration.value.is_some() {
            let fix = "leave the value out, or compare with operator = \"Equal\"";
            s.refuse("value", "found a value beside operator \"Exists\"", fix);
            return None;
        }
        if !exists && toleration.key.is_none() {
            let fix = "name the key, or tolerate every taint with operator = \"Exists\"";
            s.refuse_whole("no key to compare", fix);
            return None;
        }
        if toleration.tolerate_for.is_some() && toleration.effect != Some(TaintEffect::NoExecute) {
            let fix = "only effect = \"NoExecute\" can be tolerated for a time";
            s.refuse("tolerate_for", "found a time beside another effect", fix);
            return None;
        }
        Some(toleration)
    }
}
