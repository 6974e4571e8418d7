//! The section `[profiles.NAME]`: the shape of a profile's executors (spec K-5).

mod env;
mod placement;
mod security;
mod tolerations;
mod volumes;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value as Json;

use super::claims::Claim;
use super::declare::{choice, section};
use super::kinds::{Amount, Explained, Flag, PATH, Text, Thousandths, Whole, one_of, seconds};
use super::names::{
    NameRule, is_dns_label, is_dns_subdomain, is_env_name, is_label_key, is_label_value,
};
use super::reader::Section;
use super::sections::{DAY, secs};
use super::template::PodTemplate;
use boatswain_model::ProfileName;
use boatswain_model::failures::Growth;
use boatswain_model::quantity::Quantity;

pub use env::{EnvValue, KeyOf};
pub use placement::{Spread, Uneven};
pub use security::Security;
pub use tolerations::{TaintEffect, Toleration, TolerationOperator};
pub use volumes::{Medium, Volume, VolumeSource};
pub(super) use volumes::{OWN_VOLUMES, refuse_doubles};

/// An upper bound that catches typing errors.
pub const MOST_EXECUTORS: u32 = 100_000;

/// The profile that always exists.
pub const DEFAULT_PROFILE: &str = "default";

choice! {
    pub enum PullPolicy {
        /// At every start, unless the node's image is the same.
        Always = "Always",
        IfNotPresent = "IfNotPresent",
        /// Never; the image must be on the node.
        Never = "Never",
    }
}

section! {
    /// `[profiles.NAME]`: one shape of executor.
    pub struct Profile {
        /// The pod template; the keys below override it (spec K-1).
        pub template: Option<PodTemplate> = flattened(read_template);
        /// The initial target.
        pub executors: u32 = value(Whole(0..=MOST_EXECUTORS)) or 2;
        /// How many executors are kept ready beyond those, whose programs are held back until one is needed (spec A-117).
        pub spares: u32 = value(Whole(0..=MOST_EXECUTORS)) or 0;
        /// How many tasks an executor runs at the same time, for autoscaling.
        pub slots: u32 = value(Whole(1..=100_000)) or 1;
        /// The lower limit of autoscaling, and the size of the gang (`scheduling.gang`).
        pub min_executors: u32 = value(Whole(0..=MOST_EXECUTORS)) or 0;
        /// The upper limit of every target.
        pub max_executors: u32 = value(Whole(0..=MOST_EXECUTORS)) or MOST_EXECUTORS;
        /// The most pending executors of the profile. `None`: no limit (spec A-4).
        pub max_pending: Option<u32> = option(Whole(1..=u32::MAX));
        /// The least number of executors that evictions leave, by a PodDisruptionBudget. `None`: none
        /// is made (spec K-12).
        pub min_available: Option<u32> = option(MIN_AVAILABLE);
        /// Labels of the pods, in addition to boatswain's own.
        pub labels: BTreeMap<String, String> = table(LABEL_KEY, LABEL_VALUE);
        /// Annotations of the pods, in addition to boatswain's own.
        pub annotations: BTreeMap<String, String> = table(LABEL_KEY, Text::ANY);
        /// The container's image. Required in a Kubernetes cluster, unused in the embedded one.
        pub image: Option<String> = option(IMAGE);
        /// `None`: the default of Kubernetes.
        pub pull_policy: Option<PullPolicy> = option(one_of());
        /// The Secrets with credentials for image registries.
        pub pull_secrets: Vec<String> = list(OBJECT);
        /// The program and the arguments that come before `args`; empty: the image's own.
        pub command: Vec<String> = list(Text::ANY);
        /// The program's arguments; empty: the image's own.
        pub args: Vec<String> = list(Text::ANY);
        pub env: BTreeMap<String, EnvValue> = table(ENV_NAME, env::Env);
        /// The preStop hook: a command that is run in the container before it is terminated.
        pub pre_stop: Vec<String> = list(Text::ANY);
        /// The request, in cores.
        pub cpu: Option<Quantity> = option(Amount::CPU);
        /// The limit, in cores.
        pub cpu_limit: Option<Quantity> = option(Amount::CPU);
        /// The request, in bytes, without the overhead.
        pub memory: Option<Quantity> = option(Amount::MEMORY);
        /// The limit, in bytes, beyond which the container is killed.
        pub memory_limit: Option<Quantity> = option(Amount::MEMORY);
        /// What `memory_limit` may grow to after `OomKilled`, in bytes. `None`: it does not grow (spec L-43).
        pub memory_max: Option<Quantity> = option(Amount::MEMORY);
        /// The factor by which it grows at a time, in thousandths.
        pub memory_growth: u32 = value(Thousandths(1_100..=10_000)) or 1_500;
        /// Whether running executors near their limit get more, too (spec L-44).
        pub memory_in_place: bool = value(Flag) or false;
        /// The overhead that is added to the request for memory, in thousandths of `memory`.
        pub memory_overhead_factor: u32 = value(Thousandths(0..=100_000)) or 0;
        /// The least overhead, in bytes.
        pub memory_overhead_min: Option<Quantity> = option(Amount::MEMORY);
        /// The request, in bytes.
        pub ephemeral_storage: Option<Quantity> = option(Amount::DISK);
        /// The limit, in bytes, beyond which the pod is evicted.
        pub ephemeral_storage_limit: Option<Quantity> = option(Amount::DISK);
        /// Extended resources such as GPUs; request and limit are the same.
        pub resources: BTreeMap<String, Quantity> = table(RESOURCE, Amount::DEVICES);
        pub volumes: Vec<Volume> = list_of_sections(Volume::read);
        pub node_selector: BTreeMap<String, String> = table(LABEL_KEY, LABEL_VALUE);
        pub tolerations: Vec<Toleration> = list_of_sections(Toleration::checked);
        /// The pod's affinity, with the fields that Kubernetes defines.
        pub affinity: Option<Json> = option(placement::Affinity);
        pub topology_spread: Vec<Spread> = list_of_sections(Spread::read);
        /// `None`: the cluster's default.
        pub priority_class: Option<String> = option(OBJECT);
        /// `None`: the cluster's default.
        pub runtime_class: Option<String> = option(OBJECT);
        /// `None`: the cluster's default scheduler.
        pub scheduler_name: Option<String> = option(OBJECT);
        pub scheduling_gates: Vec<String> = list(QUALIFIED);
        /// `None`: the namespace's default.
        pub service_account: Option<String> = option(OBJECT);
        pub security: Security = section(Security::checked);
        /// Executors with lower costs are deleted first (spec A-40).
        pub deletion_cost: Option<i32> = option(Whole(i32::MIN..=i32::MAX));
        pub claims: Vec<Claim> = list_of_sections(Claim::read);
        /// How long the pod may take to exit after SIGTERM, in whole seconds. At least one: with
        /// zero, a pod disappears from the API while its process is still running.
        pub termination_grace: Duration = value(seconds(secs(1)..=DAY)) or secs(30);
    }
}

const MIN_AVAILABLE: Explained<Whole<u32>> = Explained(
    Whole(1..=MOST_EXECUTORS),
    "no percentage, which Kubernetes takes only for pods of its own controllers",
);

pub(super) const IMAGE: Text = Text {
    rule: |image| {
        !image.is_empty() && !image.contains(|c: char| c.is_whitespace() || c.is_control())
    },
    allowed: "an image, such as \"registry.example/engine:1.2\"",
};

pub(super) const LABEL_VALUE: Text = Text {
    rule: is_label_value,
    allowed: "a label's value: at most 63 letters, digits, dashes, dots and underscores",
};

pub(super) const OBJECT: Text = Text {
    rule: is_dns_subdomain,
    allowed: "a Kubernetes name: lowercase letters, digits, inner dashes and dots",
};

const CONTAINER: Text = Text {
    rule: |name| is_dns_label(name, 63),
    allowed: "a container's name: lowercase letters, digits and inner dashes",
};

pub(super) const QUALIFIED: Text = Text {
    rule: is_label_key,
    allowed: "a name, such as example.com/quota-checked",
};

pub(super) const LABEL_KEY: NameRule = (
    is_label_key,
    "a label's key, such as disktype or kubernetes.io/arch",
);

const ENV_NAME: NameRule = (
    is_executor_env,
    "letters, digits, underscores, dashes and dots, no digit first; \
     names that begin with BOATSWAIN_ are boatswain's own",
);

const RESOURCE: NameRule = (
    |name| is_label_key(name) && !KEYS_OF_THEIR_OWN.contains(&name),
    "the name of a resource, such as nvidia.com/gpu; cpu, memory and ephemeral-storage have keys of their own",
);

fn read_template(s: &mut Section<'_>) -> Option<PodTemplate> {
    let path = s.option("template", PATH);
    let container = s.option("template_container", CONTAINER);
    if container.is_some() && !s.is_set("template") {
        s.refuse(
            "template_container",
            "found, but there is no template",
            "name one, or remove it",
        );
    }
    s.template("template", path?, container.as_deref())
}

impl Profile {
    pub(super) fn checked(s: &mut Section<'_>, name: &str) -> Self {
        if !is_dns_label(name, 63) {
            s.refuse_whole(
                "not a name for a profile",
                "allowed: lowercase letters, digits and inner dashes, at most 63",
            );
        }
        if let Some(of) = ProfileName::from(name).spares_of() {
            s.refuse_whole(
                "the name of the spares of a profile",
                format!("set profiles.{of}.spares, or give it another name"),
            );
        }
        let mut profile = Self::read(s);
        let of_template = profile.template.as_ref();
        if let Some(grace) = of_template.and_then(PodTemplate::termination_grace)
            && !s.is_set("termination_grace")
        {
            profile.termination_grace = grace;
        }
        Claim::check(s, &profile.claims);
        profile.refuse_contradictions(s);
        profile
    }

    /// The request for memory, in bytes: `memory` and the overhead (spec K-5).
    pub fn memory_request(&self) -> Option<u64> {
        let base = self.memory.as_ref()?.bytes();
        let least = self.memory_overhead_min.as_ref().map_or(0, Quantity::bytes);
        let share = u128::from(base) * u128::from(self.memory_overhead_factor) / 1_000;
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        Some(base.saturating_add(share.max(least)))
    }

    /// How the executors' memory grows after `OomKilled`, if it does (spec L-43).
    pub fn growth(&self) -> Option<Growth> {
        let (from, max) = self.memory_limit.as_ref().zip(self.memory_max.as_ref())?;
        Some(Growth {
            from: from.bytes(),
            max: max.bytes(),
            thousandths: self.memory_growth,
            in_place: self.memory_in_place,
        })
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
                "found {base}, with the overhead {asked} bytes, above memory_limit, which is {limit}"
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
        self.refuse_growth(s);
        let volumes = self.volumes.iter();
        refuse_doubles(s, "volumes", volumes.map(|v| (&*v.name, &*v.mount_path)));
    }

    fn refuse_growth(&self, s: &mut Section<'_>) {
        match (&self.memory_limit, &self.memory_max) {
            (Some(limit), Some(max)) if limit > max => {
                let found = format!("found {max}, below memory_limit, which is {limit}");
                s.refuse("memory_max", found, "raise it, or remove it");
            }
            (None, Some(_)) if !s.is_set("memory_limit") => {
                let found = "found, but there is no memory_limit that would grow";
                s.refuse("memory_max", found, "set memory_limit, or remove it");
            }
            (_, None) if !s.is_set("memory_max") => {
                for key in ["memory_growth", "memory_in_place"] {
                    if s.is_set(key) {
                        let found = "found, but it is read only with memory_max";
                        s.refuse(key, found, "set memory_max, or remove it");
                    }
                }
            }
            _ => {}
        }
    }
}

/// Resources that have keys of their own and are refused in `resources`.
const KEYS_OF_THEIR_OWN: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Refuses a request above its limit when the driver starts, because Kubernetes would refuse every
/// pod (spec K-5).
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

/// Whether the name is valid and not one that boatswain sets itself (spec K-4).
fn is_executor_env(name: &str) -> bool {
    is_env_name(name) && !name.starts_with("BOATSWAIN_")
}
