//! Checks for combinations of keys that are each valid alone but contradict each other (spec C-2).

mod pods;

use super::names::prefix_of;
use super::notes::Notes;
use super::strategy;
use super::{Auth, ClusterMode, Config, EmbeddedNode, Registration, RollPolicy};
use crate::model::ids::pod_name;
use crate::model::{ExecutorId, ProfileName};

/// Notes every contradiction, and sets the defaults that follow from other keys.
pub(super) fn check(config: &mut Config, notes: &mut Notes) {
    sources(config, notes);
    names(config, notes);
    strategy::check(config, notes);
    timeouts(config, notes);
    modes(config, notes);
    pods::check(config, notes);
    api(config, notes);
    sessions(config, notes);
    ttl(config, notes);
    bounds(config, notes);
    gangs(config, notes);
    outlier(config, notes);
    claims(config, notes);
    service(config, notes);
}

/// Without watch and poll the driver would never see a pod (spec W-6).
fn sources(config: &Config, notes: &mut Notes) {
    if !config.watch.enabled
        && !config.poll.enabled
        && notes.are_sound(&["watch.enabled", "poll.enabled"])
    {
        notes.refuse(
            "poll.enabled",
            "found false, and watch.enabled is false too",
            "leave at least one of them on",
        );
    }
}

fn names(config: &Config, notes: &mut Notes) {
    if config.executors.pod_name_prefix.is_none()
        && prefix_of(&config.app.name).is_none()
        && notes.are_sound(&["app.name", "executors.pod_name_prefix"])
    {
        notes.refuse(
            "app.name",
            format!(
                "found {:?}, from which no pod name can be derived",
                config.app.name
            ),
            "use at least one ASCII letter or digit, or set executors.pod_name_prefix",
        );
    }
}

fn timeouts(config: &mut Config, notes: &mut Notes) {
    // A look-up proves that a pod does not exist only once the request can no longer commit (spec
    //
    let least = config.cluster.request_timeout * 2;
    let allocation = &mut config.allocation;
    let keys = ["allocation.creation_timeout", "cluster.request_timeout"];
    if allocation.creation_timeout < least && notes.are_sound(&keys) {
        if notes.is_set("allocation.creation_timeout") {
            let found = humantime::format_duration(allocation.creation_timeout);
            let least = humantime::format_duration(least);
            notes.refuse(
                "allocation.creation_timeout",
                format!("found {found}, below twice cluster.request_timeout"),
                format!("allowed: at least {least}"),
            );
        } else {
            let shown = format!("\"{}\"", humantime::format_duration(least));
            let effective = &mut notes.effective;
            effective.follow(
                "allocation",
                "creation_timeout",
                shown,
                "cluster.request_timeout",
            );
        }
        allocation.creation_timeout = least;
    }
    let failures = &config.failures;
    let keys = ["failures.backoff_initial", "failures.backoff_max"];
    if failures.backoff_initial > failures.backoff_max && notes.are_sound(&keys) {
        let initial = humantime::format_duration(failures.backoff_initial);
        let most = humantime::format_duration(failures.backoff_max);
        notes.refuse(
            "failures.backoff_initial",
            format!("found {initial}, above failures.backoff_max, which is {most}"),
            format!("allowed: at most {most}"),
        );
    }
}

/// A key that the chosen mode ignores is a mistake of the user's.
fn modes(config: &Config, notes: &mut Notes) {
    if !notes.are_sound(&["cluster.mode", "embedded.node"]) {
        return;
    }
    let embedded = config.cluster.mode == ClusterMode::Embedded;
    let simulated = config.embedded.node == EmbeddedNode::Simulated;
    let (of_kubernetes, of_embedded) = (
        "cluster.mode = \"kubernetes\"",
        "cluster.mode = \"embedded\"",
    );
    let only_for = [
        ("cluster.kubeconfig", of_kubernetes, !embedded),
        ("cluster.context", of_kubernetes, !embedded),
        ("embedded.node", of_embedded, embedded),
        ("embedded.state_dir", of_embedded, embedded),
        ("embedded.start_delay", of_embedded, embedded),
        (
            "embedded.state_dir",
            "embedded.node = \"process\"",
            !embedded || !simulated,
        ),
        (
            "embedded.start_delay",
            "embedded.node = \"simulated\"",
            !embedded || simulated,
        ),
    ];
    for (key, mode, fits) in only_for {
        if !fits && notes.is_set(key) && notes.are_sound(&[key]) {
            notes.refuse(
                key,
                format!("found, but it is read only with {mode}"),
                format!("remove it, or set {mode}"),
            );
        }
    }
}

/// The API never listens without tokens (spec O-50).
fn api(config: &Config, notes: &mut Notes) {
    let keys = ["api.listen", "api.token_file"];
    if config.api.listen.is_some() && config.api.token_file.is_none() && notes.are_sound(&keys) {
        notes.refuse(
            "api.token_file",
            "missing, and api.listen is set",
            "name a file: if it does not exist, it is created with a token",
        );
    }
}

/// Without the API no client could renew the TTL (spec B-35).
fn ttl(config: &Config, notes: &mut Notes) {
    let keys = ["app.ttl", "api.listen"];
    if config.app.ttl.is_some() && config.api.listen.is_none() && notes.are_sound(&keys) {
        notes.refuse(
            "app.ttl",
            "found, but without api.listen the application cannot renew it",
            "set api.listen, or remove it",
        );
    }
}

/// Limits on the number of executors of a profile (spec B-25, B-40).
fn bounds(config: &Config, notes: &mut Notes) {
    for (name, profile) in &config.profiles {
        let of = |key: &str| format!("profiles.{name}.{key}");
        let most = profile.max_executors;
        for (key, found) in [
            ("executors", profile.executors),
            ("min_executors", profile.min_executors),
        ] {
            let keys = [of(key), of("max_executors")];
            if found > most && notes.are_sound(&keys.each_ref().map(String::as_str)) {
                notes.refuse(
                    if notes.is_set(&keys[0]) {
                        &keys[0]
                    } else {
                        &keys[1]
                    },
                    format!("{key} is {found}, above max_executors, which is {most}"),
                    format!("set {key} to at most max_executors"),
                );
            }
        }
    }
}

/// A gang needs a size, and enough initial executors to reach it (spec B-20).
fn gangs(config: &Config, notes: &mut Notes) {
    if !config.scheduling.gang.is_on() || !notes.are_sound(&["scheduling.gang"]) {
        return;
    }
    let of = |name: &ProfileName, key: &str| format!("profiles.{name}.{key}");
    for (name, profile) in &config.profiles {
        let (wanted, least) = (profile.executors, profile.min_executors);
        let keys = [of(name, "executors"), of(name, "min_executors")];
        let sound = notes.are_sound(&keys.each_ref().map(String::as_str));
        if (1..least).contains(&wanted) && sound {
            notes.refuse(
                &keys[0],
                format!("executors is {wanted}, but with scheduling.gang it must be at least min_executors, {least}"),
                format!("set it to {least} or more, or to 0; or lower min_executors"),
            );
        }
    }
    let keys: Vec<String> = (config.profiles.keys())
        .map(|name| of(name, "min_executors"))
        .collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    if config.profiles.values().all(|p| p.min_executors == 0) && notes.are_sound(&keys) {
        notes.refuse(
            "scheduling.gang",
            "found on, but no profile sets the size of its gang",
            "set profiles.NAME.min_executors, or remove it",
        );
    }
}

/// The outlier policy needs a metric to compare (spec B-32).
fn outlier(config: &Config, notes: &mut Notes) {
    let wanted = config.roll.policy == RollPolicy::Outlier;
    let keys = ["roll.policy", "roll.metric", "backend.listen"];
    if !notes.are_sound(&keys) {
        return;
    }
    if wanted && config.roll.metric.is_none() {
        notes.refuse(
            "roll.metric",
            "missing, and roll.policy is \"outlier\"",
            "name a metric of the executors' heartbeats, such as \"gc_ms\"",
        );
    } else if wanted && config.backend.sessions.listen.is_none() {
        notes.refuse(
            "roll.policy",
            "found \"outlier\", but without backend.listen executors cannot report metrics",
            "set backend.listen, or choose another policy",
        );
    }
}

/// Executors must be able to reach the driver, and the driver to authenticate them.
fn sessions(config: &Config, notes: &mut Notes) {
    let sessions = &config.backend.sessions;
    let listens = notes.are_sound(&["backend.listen"]);
    let Some(address) = sessions.listen else {
        let required = sessions.registration == Some(Registration::Required);
        if required && listens && notes.are_sound(&["backend.registration"]) {
            notes.refuse(
                "backend.registration",
                "found \"required\", and backend.listen is not set, so executors cannot register",
                "set backend.listen, or remove it",
            );
        }
        return;
    };
    let named = sessions.url.is_some() || !sessions.service_selector.is_empty();
    let anywhere = address.ip().is_unspecified() && !named;
    if anywhere && notes.are_sound(&["backend.url"]) {
        notes.refuse(
            "backend.url",
            "missing, and backend.listen is not an address that other machines can reach",
            "say where executors reach this driver, such as \"http://driver.jobs:7078\"",
        );
    }
    let keys = ["backend.auth", "backend.key_file", "cluster.mode"];
    let kept = config.cluster.mode == ClusterMode::Embedded || sessions.key_file.is_some();
    let derived = sessions.auth(config.cluster.mode) == Auth::Derived;
    if derived && !kept && notes.are_sound(&keys) {
        notes.refuse(
            "backend.key_file",
            "missing, and derived tokens have to outlast this process",
            "name a file: if it does not exist, it is created with a key",
        );
    }
    let keys = ["backend.heartbeat_timeout", "backend.heartbeat_interval"];
    let least = sessions.heartbeat_interval * 3;
    if sessions.heartbeat_timeout < least && notes.are_sound(&keys) {
        let found = humantime::format_duration(sessions.heartbeat_timeout);
        notes.refuse(
            "backend.heartbeat_timeout",
            format!("found {found}, below three times backend.heartbeat_interval"),
            format!("allowed: at least {}", humantime::format_duration(least)),
        );
    }
}

/// Names of claims must fit for every executor id (spec K-7, K-10), and mount paths must not
/// collide.
fn claims(config: &Config, notes: &mut Notes) {
    if config.claims.wait && !config.claims.reuse && notes.are_sound(&["claims"]) {
        notes.refuse(
            "claims.wait",
            "found true, and claims.reuse is false: there is nothing to wait for",
            "set claims.reuse = true, or remove it",
        );
    }
    let prefix = config.pod_name_prefix();
    let longest = pod_name(&prefix, ExecutorId::MAX).len() + 1;
    for (name, profile) in &config.profiles {
        let path = format!("profiles.{name}.claims");
        if !notes.are_sound(&[&path, "app.name", "executors.pod_name_prefix"]) {
            continue;
        }
        for claim in &profile.claims {
            if longest + claim.name.len() > 63 {
                let found = format!(
                    "claims of volume {:?} would have names of up to {} characters",
                    claim.name,
                    longest + claim.name.len()
                );
                let fix =
                    "63 are allowed: choose a shorter name, or a shorter executors.pod_name_prefix";
                notes.refuse(&path, found, fix);
            }
            if config.config_map.enabled && claim.mount_path == config.config_map.mount_path {
                let found = format!("{:?} is where config_map.mount_path is", claim.mount_path);
                notes.refuse(&path, found, "mount one of them elsewhere");
            }
        }
    }
}

/// A Service needs a fixed port and a cluster with DNS (spec K-9).
fn service(config: &Config, notes: &mut Notes) {
    let sessions = &config.backend.sessions;
    let keys = ["backend.service_selector", "backend.listen", "cluster.mode"];
    if sessions.service_selector.is_empty() || !notes.are_sound(&keys) {
        return;
    }
    let found = match (config.cluster.mode, sessions.listen) {
        (ClusterMode::Embedded, _) => "found, and the embedded cluster has no names for Services",
        (_, None) => "found, and without backend.listen there is nothing for a Service to lead to",
        (_, Some(address)) if address.port() == 0 => "found, and backend.listen has no fixed port",
        (_, Some(address)) if address.ip().is_loopback() => {
            "found, and backend.listen is an address that only this machine can reach"
        }
        _ => return,
    };
    let fix = "set backend.listen, such as \"0.0.0.0:7078\", or remove it";
    notes.refuse("backend.service_selector", found, fix);
}
