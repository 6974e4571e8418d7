//! The rights of a driver: one table, from a feature that is on to its rules (spec O-51). A new feature is one more line.

use serde_json::{Value, json};

use super::Kind;
use crate::config::{Config, Gang, Strategy};

/// One rule of a Role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    pub group: &'static str,
    pub resource: &'static str,
    pub verbs: &'static [&'static str],
}

type IsOn = fn(&Config, Kind) -> bool;

const TABLE: &[(IsOn, Rule)] = &[
    (
        always,
        rule(
            "",
            "pods",
            &["create", "get", "list", "watch", "patch", "delete"],
        ),
    ),
    // The application record, and the executors' files.
    (
        always,
        rule(
            "",
            "configmaps",
            &["create", "get", "watch", "update", "delete"],
        ),
    ),
    (always, rule("", "events", &["create", "patch"])),
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
        |_, kind| kind == Kind::Deployment,
        rule("apps", "replicasets", &["get"]),
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
            &["create", "get", "patch"],
        ),
    ),
];

const fn rule(group: &'static str, resource: &'static str, verbs: &'static [&'static str]) -> Rule {
    Rule {
        group,
        resource,
        verbs,
    }
}

fn always(_: &Config, _: Kind) -> bool {
    true
}

fn has_claims(config: &Config, _: Kind) -> bool {
    config
        .profiles
        .values()
        .any(|profile| !profile.claims.is_empty())
}

fn has_service(config: &Config, _: Kind) -> bool {
    !config.backend.sessions.service_selector.is_empty()
}

fn stateful_sets(config: &Config, _: Kind) -> bool {
    config.allocation.strategy == Strategy::StatefulSet
}

fn deployments(config: &Config, _: Kind) -> bool {
    config.allocation.strategy == Strategy::Deployment
}

fn volcano(config: &Config, _: Kind) -> bool {
    config.scheduling.gang == Gang::Volcano
}

/// The rules that this configuration needs, for a driver of this kind.
pub fn needed(config: &Config, kind: Kind) -> impl Iterator<Item = Rule> {
    let on = TABLE.iter().filter(move |(is_on, _)| is_on(config, kind));
    on.map(|(_, rule)| *rule)
}

/// The same as a Role has them.
pub(super) fn rules(config: &Config, kind: Kind) -> Vec<Value> {
    let rules = needed(config, kind);
    let json = |rule: Rule| json!({"apiGroups": [rule.group], "resources": [rule.resource], "verbs": rule.verbs});
    rules.map(json).collect()
}
