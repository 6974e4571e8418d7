//! The shapes of executors (spec K-5).

mod env;
mod placement;
mod security;
mod tolerations;
mod volumes;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value as Json;

use super::claims::Claim;
use super::kinds::{
    Amount, Choice, Count, Integer, Path, Text, Thousandths, one_of, seconds, word_of,
};
use super::names::{is_dns_label, is_dns_subdomain, is_env_name, is_label_key, is_label_value};
use super::reader::Section;
use super::sections::secs;
use super::template::PodTemplate;
use crate::model::quantity::Quantity;

pub use env::{EnvValue, KeyOf};
pub use placement::{Spread, Uneven};
pub use security::Security;
pub use tolerations::{TaintEffect, Toleration, TolerationOperator};
pub(super) use volumes::OWN_VOLUMES;
pub use volumes::{Medium, Volume, VolumeSource};

/// More executors of one profile nobody can mean.
pub const MOST_EXECUTORS: u32 = 100_000;

/// The profile that always exists.
pub const DEFAULT_PROFILE: &str = "default";

/// When an image is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullPolicy {
    /// At each start, where the node's is another one.
    Always,
    /// Where the node has none of that name.
    IfNotPresent,
    /// Never: the node has to have it.
    Never,
}

impl PullPolicy {
    /// The word that Kubernetes has for it.
    pub fn as_str(self) -> &'static str {
        word_of(self)
    }
}

impl Choice for PullPolicy {
    const ALL: &'static [(&'static str, Self)] = &[
        ("Always", Self::Always),
        ("IfNotPresent", Self::IfNotPresent),
        ("Never", Self::Never),
    ];
}

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
    /// What its pods are made from before all that follows (spec K-1).
    pub template: Option<PodTemplate>,
    /// The labels of its pods beside boatswain's own.
    pub labels: BTreeMap<String, String>,
    /// The annotations of its pods beside boatswain's own.
    pub annotations: BTreeMap<String, String>,
    /// The container's image. A Kubernetes cluster needs one; the embedded one has no use for it.
    pub image: Option<String>,
    /// When it is pulled; `None`: as Kubernetes has it.
    pub pull_policy: Option<PullPolicy>,
    /// The Secrets that registries are spoken to with.
    pub pull_secrets: Vec<String>,
    /// The program and what comes before `args`; empty: the image's own.
    pub command: Vec<String>,
    /// The program's arguments; empty: the image's own.
    pub args: Vec<String>,
    /// Environment variables.
    pub env: BTreeMap<String, EnvValue>,
    /// What is run in the container before it is told to end.
    pub pre_stop: Vec<String>,
    /// The cores that are asked for.
    pub cpu: Option<Quantity>,
    /// The cores that it may use at most.
    pub cpu_limit: Option<Quantity>,
    /// The bytes of memory that are asked for, without what comes on top.
    pub memory: Option<Quantity>,
    /// The bytes of memory beyond which it is killed.
    pub memory_limit: Option<Quantity>,
    /// So much of `memory` is asked for on top, in thousandths …
    pub memory_overhead_factor: u32,
    /// … and at least so many bytes.
    pub memory_overhead_min: Option<Quantity>,
    /// The bytes of the node's disk that are asked for.
    pub ephemeral_storage: Option<Quantity>,
    /// The bytes of the node's disk beyond which it is evicted.
    pub ephemeral_storage_limit: Option<Quantity>,
    /// Other resources, such as GPUs: so many are asked for, and granted.
    pub resources: BTreeMap<String, Quantity>,
    /// What is mounted in the container.
    pub volumes: Vec<Volume>,
    /// The labels that a node has to have.
    pub node_selector: BTreeMap<String, String>,
    /// The taints that a node may have.
    pub tolerations: Vec<Toleration>,
    /// Which nodes and which neighbours it is to have, as Kubernetes has it.
    pub affinity: Option<Json>,
    /// Over what its executors are spread evenly.
    pub topology_spread: Vec<Spread>,
    /// Its priority; `None`: the cluster's default.
    pub priority_class: Option<String>,
    /// What runs its containers; `None`: the cluster's default.
    pub runtime_class: Option<String>,
    /// Who finds it a node; `None`: the cluster's own scheduler.
    pub scheduler_name: Option<String>,
    /// What has to be lifted before it is given a node.
    pub scheduling_gates: Vec<String>,
    /// The account that it acts as; `None`: the namespace's default.
    pub service_account: Option<String>,
    /// What it may do to its node and to the cluster.
    pub security: Security,
    /// How dear it is: the cheaper ones go first (spec A-40).
    pub deletion_cost: Option<i32>,
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
            template: None,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            image: None,
            pull_policy: None,
            pull_secrets: Vec::new(),
            command: Vec::new(),
            args: Vec::new(),
            env: BTreeMap::new(),
            pre_stop: Vec::new(),
            cpu: None,
            cpu_limit: None,
            memory: None,
            memory_limit: None,
            memory_overhead_factor: 0,
            memory_overhead_min: None,
            ephemeral_storage: None,
            ephemeral_storage_limit: None,
            resources: BTreeMap::new(),
            volumes: Vec::new(),
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            affinity: None,
            topology_spread: Vec::new(),
            priority_class: None,
            runtime_class: None,
            scheduler_name: None,
            scheduling_gates: Vec::new(),
            service_account: None,
            security: Security::default(),
            deletion_cost: None,
            claims: Vec::new(),
            termination_grace: secs(30),
        }
    }
}

const IMAGE: Text = Text {
    rule: |image| {
        !image.is_empty() && !image.contains(|c: char| c.is_whitespace() || c.is_control())
    },
    allowed: "an image, as \"registry.example/engine:1.2\"",
};

const LABEL_VALUE: Text = Text {
    rule: is_label_value,
    allowed: "a label's value: at most 63 letters, digits, dashes, dots and underscores",
};

const OBJECT: Text = Text {
    rule: is_dns_subdomain,
    allowed: "a name as Kubernetes has them: lowercase letters, digits, inner dashes and dots",
};

const CONTAINER: Text = Text {
    rule: |name| is_dns_label(name, 63),
    allowed: "a container's name: lowercase letters, digits and inner dashes",
};

const QUALIFIED: Text = Text {
    rule: is_label_key,
    allowed: "a name, as example.com/quota-checked",
};

/// Which keys a table may have, and how they are described to people.
type KeyRule = (fn(&str) -> bool, &'static str);

const LABEL_KEY: KeyRule = (
    is_label_key,
    "a label's key, as disktype or kubernetes.io/arch",
);

const ENV_NAME: KeyRule = (
    is_executor_env,
    "letters, digits, underscores, dashes and dots, no digit first; \
     names that begin with BOATSWAIN_ are boatswain's own",
);

const RESOURCE: KeyRule = (
    |name| is_label_key(name) && !KEYS_OF_THEIR_OWN.contains(&name),
    "the name of a resource, as nvidia.com/gpu; cpu, memory and ephemeral-storage have keys of their own",
);

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
        let (template, container) = (
            s.option("template", Path),
            s.option("template_container", CONTAINER),
        );
        if template.is_none() && container.is_some() && !s.is_set("template") {
            s.refuse(
                "template_container",
                "found, but there is no template",
                "name one, or remove it",
            );
        }
        let template = template.and_then(|path| s.template("template", path, container.as_deref()));
        let of_template = template.as_ref().and_then(PodTemplate::termination_grace);
        let mut profile = Self {
            template,
            executors: s.value("executors", Count(0..=MOST_EXECUTORS), d.executors),
            slots: s.value("slots", Count(1..=100_000), d.slots),
            min_executors: s.value("min_executors", Count(0..=MOST_EXECUTORS), d.min_executors),
            max_executors: s.value("max_executors", Count(0..=MOST_EXECUTORS), d.max_executors),
            max_pending: s.option("max_pending", Count(1..=u32::MAX)),
            labels: s.table("labels", LABEL_KEY, LABEL_VALUE),
            annotations: s.table("annotations", LABEL_KEY, Text::ANY),
            image: s.option("image", IMAGE),
            pull_policy: s.option("pull_policy", one_of()),
            pull_secrets: s.list("pull_secrets", OBJECT),
            command: s.list("command", Text::ANY),
            args: s.list("args", Text::ANY),
            env: s.table("env", ENV_NAME, env::Env),
            pre_stop: s.list("pre_stop", Text::ANY),
            cpu: s.option("cpu", Amount::CPU),
            cpu_limit: s.option("cpu_limit", Amount::CPU),
            memory: s.option("memory", Amount::MEMORY),
            memory_limit: s.option("memory_limit", Amount::MEMORY),
            memory_overhead_factor: s.value(
                "memory_overhead_factor",
                Thousandths(0..=100_000),
                d.memory_overhead_factor,
            ),
            memory_overhead_min: s.option("memory_overhead_min", Amount::MEMORY),
            ephemeral_storage: s.option("ephemeral_storage", Amount::DISK),
            ephemeral_storage_limit: s.option("ephemeral_storage_limit", Amount::DISK),
            resources: s.table("resources", RESOURCE, Amount::DEVICES),
            volumes: s.list_of_sections("volumes", Volume::read),
            node_selector: s.table("node_selector", LABEL_KEY, LABEL_VALUE),
            tolerations: s.list_of_sections("tolerations", Toleration::read),
            affinity: s.option("affinity", placement::Affinity),
            topology_spread: s.list_of_sections("topology_spread", Spread::read),
            priority_class: s.option("priority_class", OBJECT),
            runtime_class: s.option("runtime_class", OBJECT),
            scheduler_name: s.option("scheduler_name", OBJECT),
            scheduling_gates: s.list("scheduling_gates", QUALIFIED),
            service_account: s.option("service_account", OBJECT),
            security: s.section("security", Security::read),
            deletion_cost: s.option("deletion_cost", Integer(i32::MIN..=i32::MAX)),
            claims: s.list_of_sections("claims", Claim::read),
            termination_grace: s.value(
                "termination_grace",
                seconds(secs(1)..=secs(24 * 3600)),
                d.termination_grace,
            ),
        };
        if let Some(grace) = of_template.filter(|_| !s.is_set("termination_grace")) {
            profile.termination_grace = grace;
        }
        Claim::check(s, &profile.claims);
        profile.refuse_contradictions(s);
        profile
    }

    /// The bytes of memory that are asked for: `memory`, and what comes on top (spec K-5).
    pub fn memory_request(&self) -> Option<u64> {
        let base = self.memory.as_ref()?.bytes();
        let least = self.memory_overhead_min.as_ref().map_or(0, Quantity::bytes);
        let share = u128::from(base) * u128::from(self.memory_overhead_factor) / 1_000;
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        Some(base.saturating_add(share.max(least)))
    }

    fn refuse_contradictions(&self, s: &mut Section<'_>) {
        for (key, program) in [("command", &self.command), ("pre_stop", &self.pre_stop)] {
            if program.first().is_some_and(String::is_empty) {
                s.refuse(key, "the program is an empty text", "name a program");
            }
        }
        let (disk, most) = (&self.ephemeral_storage, &self.ephemeral_storage_limit);
        for (key, request, limit) in [
            ("cpu", &self.cpu, &self.cpu_limit),
            ("memory", &self.memory, &self.memory_limit),
            ("ephemeral_storage", disk, most),
        ] {
            refuse_above(s, key, request.as_ref(), limit.as_ref());
        }
        if let (Some(base), Some(asked), Some(limit)) =
            (&self.memory, self.memory_request(), &self.memory_limit)
            && base <= limit
            && asked > limit.bytes()
        {
            let found = format!(
                "found {base}, with what comes on top {asked} bytes, above memory_limit, which is {limit}"
            );
            let fix = "ask for less, lower memory_overhead_factor or memory_overhead_min, or raise memory_limit";
            s.refuse("memory", found, fix);
        }
        for (key, tops_up) in [
            ("memory_overhead_factor", self.memory_overhead_factor > 0),
            ("memory_overhead_min", self.memory_overhead_min.is_some()),
        ] {
            if tops_up && self.memory.is_none() && !s.is_set("memory") {
                let found = "found, but there is no memory that it would come on top of";
                s.refuse(key, found, "set memory, or remove it");
            }
        }
        volumes::refuse_doubles(s, &self.volumes);
    }
}

/// What has keys of its own.
const KEYS_OF_THEIR_OWN: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

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
