//! Checks for combinations of keys that are each valid alone but contradict each other (spec C-2).

mod listeners;
mod pods;

use humantime::format_duration;

use super::ha;
use super::names::prefix_of;
use super::notes::Notes;
use super::strategy;
use super::template::Templates;
use super::{Auth, ClusterMode, Config, EmbeddedNode, Gang, Registration, RollPolicy};
use super::{nodes, pools, spares};
use boatswain_model::ids::pod_name;
use boatswain_model::{ExecutorId, ProfileName};

/// Notes every contradiction, and sets the defaults that follow from other keys.
pub(super) fn check(config: &mut Config, notes: &mut Notes) {
    sources(config, notes);
    names(config, notes);
    strategy::check(config, notes);
    strategy::check_queue(config, notes);
    timeouts(config, notes);
    modes(config, notes);
    pods::check(config, notes);
    api(config, notes);
    listeners::check(config, notes);
    sessions(config, notes);
    ttl(config, notes);
    bounds(config, notes);
    gangs(config, notes);
    gangs_may_be_pending(config, notes);
    rolling(config, notes);
    claims(config, notes);
    service(config, notes);
    ha::check(config, notes);
    nodes::check(config, notes);
    memory(config, notes);
    pools::check(config, notes);
    pools::share_out(config);
    spares::check(config, notes);
    spares::add(config);
}

/// Heartbeats say how much memory a running executor uses (spec L-44).
fn memory(config: &Config, notes: &mut Notes) {
    // Only whoever adds a profile to a running driver knows whether that has sessions.
    let has_sessions =
        config.backend.sessions.listen.is_some() || matches!(notes.templates, Templates::Known(_));
    for (name, profile) in &config.profiles {
        if profile.memory_in_place && !has_sessions {
            let key = format!("profiles.{name}.memory_in_place");
            notes.contradict(
                &[key.as_str(), "backend.listen"],
                "found true, and without sessions no executor says how much memory it uses",
                format!("set backend.listen, or remove {key}"),
            );
        }
    }
}

/// Without watch and poll the driver would never see a pod (spec W-6).
fn sources(config: &Config, notes: &mut Notes) {
    if !config.watch.enabled && !config.poll.enabled {
        notes.contradict(
            &["poll.enabled", "watch.enabled"],
            "found false, and watch.enabled is false too",
            "leave at least one of them on",
        );
    }
}

fn names(config: &Config, notes: &mut Notes) {
    let name = &config.app.name;
    if config.executors.pod_name_prefix.is_none() && prefix_of(name).is_none() {
        notes.contradict(
            &["app.name", "executors.pod_name_prefix"],
            format!("found {name:?}, from which no pod name can be derived"),
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
        let shown = format_duration(least);
        if notes.is_set(keys[0]) {
            let found = format_duration(allocation.creation_timeout);
            let found = format!("found {found}, below twice cluster.request_timeout");
            notes.refuse(keys[0], found, format!("allowed: at least {shown}"));
        } else {
            let shown = format!("\"{shown}\"");
            (notes.effective).follow("allocation", "creation_timeout", shown, keys[1]);
        }
        allocation.creation_timeout = least;
    }
    let failures = &config.failures;
    if failures.backoff_initial > failures.backoff_max {
        let initial = format_duration(failures.backoff_initial);
        let most = format_duration(failures.backoff_max);
        notes.contradict(
            &["failures.backoff_initial", "failures.backoff_max"],
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
    let of_kubernetes = "cluster.mode = \"kubernetes\"";
    let of_embedded = "cluster.mode = \"embedded\"";
    let of_processes = "embedded.node = \"process\"";
    let of_simulated = "embedded.node = \"simulated\"";
    for (key, mode, fits) in [
        ("cluster.kubeconfig", of_kubernetes, !embedded),
        ("cluster.context", of_kubernetes, !embedded),
        ("embedded.node", of_embedded, embedded),
        ("embedded.state_dir", of_embedded, embedded),
        ("embedded.start_delay", of_embedded, embedded),
        ("embedded.state_dir", of_processes, !embedded || !simulated),
        ("embedded.start_delay", of_simulated, !embedded || simulated),
    ] {
        if !fits && notes.is_set(key) {
            let found = format!("found, but it is read only with {mode}");
            notes.contradict(&[key], found, format!("remove it, or set {mode}"));
        }
    }
}

/// The API never listens where nobody can prove who they are (spec O-50, O-64).
fn api(config: &Config, notes: &mut Notes) {
    let api = &config.api;
    if api.listen.is_some() && api.token_file.is_none() && api.service_accounts.is_empty() {
        notes.contradict(
            &["api.token_file", "api.listen"],
            "missing, and api.listen is set",
            "name a file, which is created with a token if it does not exist; or name callers in api.service_accounts",
        );
    }
}

/// Without the API no client could renew the TTL (spec B-35).
fn ttl(config: &Config, notes: &mut Notes) {
    if config.app.ttl.is_some() && config.api.listen.is_none() {
        notes.contradict(
            &["app.ttl", "api.listen"],
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
            ("min_available", profile.min_available.unwrap_or(0)),
        ] {
            let mut keys = [of(key), of("max_executors")];
            if found > most {
                // The key that was set is the mistake, not a default.
                if !notes.is_set(&keys[0]) {
                    keys.reverse();
                }
                notes.contradict(
                    &keys,
                    format!("{key} is {found}, above max_executors, which is {most}"),
                    format!("set {key} to at most max_executors"),
                );
            }
        }
    }
}

/// A gang needs a size, and enough initial executors to reach it (spec B-63).
fn gangs(config: &Config, notes: &mut Notes) {
    if !config.scheduling.gang.is_on() || !notes.are_sound(&["scheduling.gang"]) {
        return;
    }
    let of = |name: &ProfileName, key: &str| format!("profiles.{name}.{key}");
    for (name, profile) in &config.profiles {
        let (wanted, least) = (profile.executors, profile.min_executors);
        if (1..least).contains(&wanted) {
            notes.contradict(
                &[of(name, "executors"), of(name, "min_executors")],
                format!("executors is {wanted}, but with scheduling.gang it must be at least min_executors, {least}"),
                format!("set it to {least} or more, or to 0; or lower min_executors"),
            );
        }
    }
    if config.profiles.values().all(|p| p.min_executors == 0) {
        let sizes = config.profiles.keys().map(|name| of(name, "min_executors"));
        let gang = std::iter::once("scheduling.gang".to_owned());
        notes.contradict(
            &gang.chain(sizes).collect::<Vec<_>>(),
            "found on, but no profile sets the size of its gang",
            "set profiles.NAME.min_executors, or remove it",
        );
    }
}

/// Volcano and Kubernetes bind no executor of a gang before all of them are pending (spec A-87).
fn gangs_may_be_pending(config: &Config, notes: &mut Notes) {
    if !matches!(config.scheduling.gang, Gang::Volcano | Gang::Kubernetes) {
        return;
    }
    for (name, profile) in &config.profiles {
        let least = profile.min_executors;
        let limits = [
            (format!("profiles.{name}.max_pending"), profile.max_pending),
            (
                "allocation.max_pending".to_owned(),
                config.allocation.max_pending,
            ),
        ];
        for (key, most) in limits {
            if let Some(most) = most.filter(|most| *most < least) {
                notes.contradict(
                    &[key.clone(), format!("profiles.{name}.min_executors")],
                    format!("{key} is {most}, but this gang is scheduled only when all of its {least} executors are pending"),
                    format!("set {key} to {least} or more, or lower min_executors"),
                );
            }
        }
    }
}

/// Some policies need a metric to compare, and the least number of tasks is one (spec B-32).
fn rolling(config: &Config, notes: &mut Notes) {
    let keys = [
        "roll.policy",
        "roll.metric",
        "roll.min_tasks",
        "backend.listen",
    ];
    if !notes.are_sound(&keys) {
        return;
    }
    let policy = config.roll.policy.as_str();
    let compares = matches!(
        config.roll.policy,
        RollPolicy::Outlier | RollPolicy::Highest
    );
    let reports = config.backend.sessions.listen.is_some();
    if compares && config.roll.metric.is_none() {
        notes.refuse(
            "roll.metric",
            format!("missing, and roll.policy is \"{policy}\""),
            "name a metric of the executors' heartbeats, such as \"gc_ms\"",
        );
    } else if compares && !reports {
        notes.refuse(
            "roll.policy",
            format!(
                "found \"{policy}\", but without backend.listen executors cannot report metrics"
            ),
            "set backend.listen, or choose another policy",
        );
    }
    if config.roll.min_tasks > 0 && !reports {
        notes.refuse(
            "roll.min_tasks",
            "found, but without backend.listen executors cannot report how many tasks they have run",
            "set backend.listen, or remove it",
        );
    }
}

/// Executors must be able to reach the driver, and the driver to authenticate them.
fn sessions(config: &Config, notes: &mut Notes) {
    let sessions = &config.backend.sessions;
    let Some(address) = sessions.listen else {
        if sessions.registration == Some(Registration::Required) {
            notes.contradict(
                &["backend.registration", "backend.listen"],
                "found \"required\", and backend.listen is not set, so executors cannot register",
                "set backend.listen, or remove it",
            );
        }
        return;
    };
    let named = sessions.url.is_some() || !sessions.service_selector.is_empty();
    if address.ip().is_unspecified() && !named {
        notes.contradict(
            &["backend.url"],
            "missing, and backend.listen is not an address that other machines can reach",
            "say where executors reach this driver, such as \"http://driver.jobs:7078\"",
        );
    }
    let kept = config.cluster.mode == ClusterMode::Embedded || sessions.key_file.is_some();
    let derived = sessions.auth(config.cluster.mode) == Auth::Derived;
    if derived && !kept {
        notes.contradict(
            &["backend.key_file", "backend.auth", "cluster.mode"],
            "missing, and derived tokens have to outlast this process",
            "name a file: if it does not exist, it is created with a key",
        );
    }
    let least = sessions.heartbeat_interval * 3;
    if sessions.heartbeat_timeout < least {
        let found = format_duration(sessions.heartbeat_timeout);
        notes.contradict(
            &["backend.heartbeat_timeout", "backend.heartbeat_interval"],
            format!("found {found}, below three times backend.heartbeat_interval"),
            format!("allowed: at least {}", format_duration(least)),
        );
    }
}

/// Names of claims must fit for every executor id (spec K-7, K-10), and mount paths must not
/// collide.
fn claims(config: &Config, notes: &mut Notes) {
    if config.claims.wait && !config.claims.reuse {
        notes.contradict(
            &["claims.wait", "claims.reuse"],
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
            let (name, most) = (&claim.name, longest + claim.name.len());
            if most > 63 {
                let found = format!(
                    "claims of volume {name:?} would have names of up to {most} characters"
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
        _ => return selected_executors(config, notes),
    };
    let fix = "set backend.listen, such as \"0.0.0.0:7078\", or remove it";
    notes.refuse("backend.service_selector", found, fix);
}

/// The Service must not lead to executors. With the lease it selects the label of the active driver too.
fn selected_executors(config: &Config, notes: &mut Notes) {
    let keys = ["app.name", "profiles", "ha.lease"];
    if config.ha.lease || !notes.are_sound(&keys) {
        return;
    }
    let selector = &config.backend.sessions.service_selector;
    for (name, profile) in &config.profiles {
        let has = |key: &str, value: &str| match key {
            "app.kubernetes.io/name" => value == config.app.name,
            "app.kubernetes.io/component" => value == "executor",
            "app.kubernetes.io/managed-by" => value == "boatswain",
            _ => profile.labels.get(key).is_some_and(|own| own == value),
        };
        if selector.iter().all(|(key, value)| has(key, value)) {
            let found = format!("the executors of profile {name} have all of these labels");
            let fix = "name a label that only the driver's pod has, such as { driver = \"etl\" }";
            return notes.refuse("backend.service_selector", found, fix);
        }
    }
}
