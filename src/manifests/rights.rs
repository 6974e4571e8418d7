//! The rights of a driver: one table, from a feature that is on to its rules (spec O-51). A new feature is one more
//! line.

use serde_json::{Value, json};

use super::WorkloadKind;
use crate::config::{Config, Gang, OnSignal, Queue, Strategy};
use crate::kubernetes::calls::SCHEDULING;
use crate::kubernetes::rights::Right;
use crate::kubernetes::workloads::GROUP;

/// One rule of a Role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    pub group: &'static str,
    pub resource: &'static str,
    pub verbs: &'static [&'static str],
    /// The rule is for the object `<prefix>-<suffix>` alone.
    pub suffix: Option<&'static str>,
    /// Whether the resource belongs to no namespace: a rule of a ClusterRole.
    pub of_cluster: bool,
}

/// From the configuration, and the kind of the driver's workload if it is known.
type IsOn = fn(&Config, Option<WorkloadKind>) -> bool;

const LEASES: &str = "coordination.k8s.io";

const TABLE: &[(IsOn, Rule)] = &[
    (
        makes_pods,
        rule(
            "",
            "pods",
            &["create", "get", "list", "watch", "patch", "delete"],
        ),
    ),
    // Kubernetes makes those of sets.
    (
        |config, kind| !makes_pods(config, kind),
        rule("", "pods", &["get", "list", "watch", "patch", "delete"]),
    ),
    // The application record, and the executors' files.
    (
        always,
        rule("", "configmaps", &["create", "get", "watch", "update"]),
    ),
    (deletes_record, rule("", "configmaps", &["delete"])),
    (always, rule("", "events", &["create", "patch"])),
    (has_evidence, rule("", "events", &["list"])),
    (has_evidence, rule("", "pods/log", &["get"])),
    (resizes, rule("", "pods/resize", &["patch"])),
    // Why the driver's pod is stopped (spec O-66).
    (
        |config, kind| kind == Some(WorkloadKind::Job) && learns(config),
        rule("batch", "jobs", &["get"]),
    ),
    (
        |config, kind| kind == Some(WorkloadKind::Deployment) && learns(config),
        rule("apps", "deployments", &["get"]),
    ),
    (
        |config, kind| kind == Some(WorkloadKind::Statefulset) && learns(config),
        rule("apps", "statefulsets", &["get"]),
    ),
    (
        has_claims,
        rule(
            "",
            "persistentvolumeclaims",
            &["create", "get", "list", "patch", "delete"],
        ),
    ),
    (
        has_service,
        rule("", "services", &["create", "get", "update"]),
    ),
    // From the driver's pod to its Deployment.
    (
        |_, kind| kind == Some(WorkloadKind::Deployment),
        rule("apps", "replicasets", &["get"]),
    ),
    // The driver's own CA.
    (own_authority, rule("", "secrets", &["create"])),
    (
        own_authority,
        rule("", "secrets", &["get", "update"]).of_one("tls"),
    ),
    (has_lease, rule(LEASES, "leases", &["create"])),
    (
        has_lease,
        rule(LEASES, "leases", &["get", "watch", "update"]).of_one("driver"),
    ),
    (
        stateful_sets,
        rule(
            "apps",
            "statefulsets",
            &["create", "list", "patch", "delete"],
        ),
    ),
    (
        stateful_sets,
        rule("apps", "statefulsets/scale", &["patch"]),
    ),
    (
        deployments,
        rule(
            "apps",
            "deployments",
            &["create", "list", "patch", "delete"],
        ),
    ),
    (deployments, rule("apps", "deployments/scale", &["patch"])),
    (
        volcano,
        rule(
            "scheduling.volcano.sh",
            "podgroups",
            &["create", "get", "patch", "delete"],
        ),
    ),
    (
        |config, _| config.scheduling.gang == Gang::Kubernetes,
        rule(
            SCHEDULING,
            "podgroups",
            &["create", "get", "patch", "delete"],
        ),
    ),
    (
        has_budgets,
        rule(
            "policy",
            "poddisruptionbudgets",
            &["create", "get", "patch", "delete"],
        ),
    ),
    (
        kueue,
        rule(GROUP, "workloads", &["create", "list", "patch", "delete"]),
    ),
    (kueue, rule(GROUP, "workloads/status", &["patch"])),
    // Which nodes are about to leave.
    (
        |config, _| config.nodes.watch,
        Rule {
            of_cluster: true,
            ..rule("", "nodes", &["list", "watch"])
        },
    ),
    // To which nodes the admitted executors go.
    (
        kueue,
        Rule {
            of_cluster: true,
            ..rule(GROUP, "resourceflavors", &["get"])
        },
    ),
];

const fn rule(group: &'static str, resource: &'static str, verbs: &'static [&'static str]) -> Rule {
    Rule {
        group,
        resource,
        verbs,
        suffix: None,
        of_cluster: false,
    }
}

impl Rule {
    fn name(&self, prefix: &str) -> Option<String> {
        self.suffix.map(|suffix| format!("{prefix}-{suffix}"))
    }

    fn to_value(self, prefix: &str) -> Value {
        let mut rule =
            json!({"apiGroups": [self.group], "resources": [self.resource], "verbs": self.verbs});
        if let Some(name) = self.name(prefix) {
            rule["resourceNames"] = json!([name]);
        }
        rule
    }

    const fn of_one(self, suffix: &'static str) -> Self {
        Self {
            suffix: Some(suffix),
            ..self
        }
    }
}

fn always(_: &Config, _: Option<WorkloadKind>) -> bool {
    true
}

fn makes_pods(config: &Config, _: Option<WorkloadKind>) -> bool {
    config.allocation.strategy == Strategy::Direct
}

/// In a pod, or with the lease, the record outlasts the application (spec O-108).
fn deletes_record(config: &Config, kind: Option<WorkloadKind>) -> bool {
    kind.is_none() && config.driver.pod_name.is_none() && !config.ha.lease
}

fn learns(config: &Config) -> bool {
    config.shutdown.on_signal == OnSignal::Auto
}

fn has_evidence(config: &Config, _: Option<WorkloadKind>) -> bool {
    config.api.evidence
}

fn resizes(config: &Config, _: Option<WorkloadKind>) -> bool {
    let mut profiles = config.profiles.values();
    profiles.any(|profile| profile.memory_in_place)
}

fn has_claims(config: &Config, _: Option<WorkloadKind>) -> bool {
    config
        .profiles
        .values()
        .any(|profile| !profile.claims.is_empty())
}

fn has_service(config: &Config, _: Option<WorkloadKind>) -> bool {
    !config.backend.sessions.service_selector.is_empty()
}

fn own_authority(config: &Config, _: Option<WorkloadKind>) -> bool {
    config.tls.generate
}

fn has_lease(config: &Config, _: Option<WorkloadKind>) -> bool {
    config.ha.lease
}

fn stateful_sets(config: &Config, _: Option<WorkloadKind>) -> bool {
    config.allocation.strategy == Strategy::StatefulSet
}

fn deployments(config: &Config, _: Option<WorkloadKind>) -> bool {
    config.allocation.strategy == Strategy::Deployment
}

fn has_budgets(config: &Config, _: Option<WorkloadKind>) -> bool {
    let mut profiles = config.profiles.values();
    profiles.any(|profile| profile.min_available.is_some())
}

fn kueue(config: &Config, _: Option<WorkloadKind>) -> bool {
    config.scheduling.queue == Queue::Kueue
}

fn volcano(config: &Config, _: Option<WorkloadKind>) -> bool {
    config.scheduling.gang == Gang::Volcano
}

/// The rules that this configuration needs, for a driver of this kind; without a kind, those that every kind needs.
pub fn needed(config: &Config, kind: Option<WorkloadKind>) -> impl Iterator<Item = Rule> {
    let on = TABLE.iter().filter(move |(is_on, _)| is_on(config, kind));
    on.map(|(_, rule)| *rule)
}

/// The same as a Role has them, or a ClusterRole.
pub(super) fn rules(config: &Config, kind: WorkloadKind, of_cluster: bool) -> Vec<Value> {
    let prefix = config.pod_name_prefix();
    needed(config, Some(kind))
        .filter(|rule| rule.of_cluster == of_cluster)
        .map(|rule| rule.to_value(&prefix))
        .collect()
}

/// The whole table, whatever is on, for the documentation's test.
#[cfg(test)]
pub(super) fn all(prefix: &str, of_cluster: bool) -> Vec<Value> {
    TABLE
        .iter()
        .filter(|(_, rule)| rule.of_cluster == of_cluster)
        .map(|(_, rule)| rule.to_value(prefix))
        .collect()
}

/// The same one by one, as the API server is asked for them (spec C-8).
pub fn one_by_one(config: &Config, kind: Option<WorkloadKind>) -> Vec<Right> {
    let prefix = config.pod_name_prefix();
    let of_rule = |rule: Rule| {
        let name = rule.name(&prefix);
        rule.verbs.iter().map(move |verb| Right {
            verb,
            group: rule.group,
            resource: rule.resource,
            name: name.clone(),
            of_cluster: rule.of_cluster,
        })
    };
    needed(config, kind).flat_map(of_rule).collect()
}
