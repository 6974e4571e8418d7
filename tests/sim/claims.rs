//! Checks PersistentVolumeClaims and the ConfigMap that executors mount: no two executors share a claim, every claim
//! belongs to the application or to an executor, and none is left when the application has ended (spec A-60, K-8,
//! K-10).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use boatswain::config::{AccessMode, Claim, ClaimOwner, Config, Strategy};
use boatswain::model::{ExecutorId, Snapshot};
use devcluster::{Key, Resource, State};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

use crate::checks::{Excuses, PREFIX, Verdict};
use crate::objects::{NAMESPACE, is_terminating, label, owner, text};
use crate::script::{Fault, Script, Step};

/// Separates the random stream of [`draw`] from the others.
const CLAIMS: u64 = 0x636c_6169_6d73;

/// Separates the random stream of [`quotas`] from the others.
const CLAIM_QUOTAS: u64 = 0x7175_6f74_6173;

/// A node tries again after this long to start a pod that waits for something it mounts.
pub const MOUNT_RETRY: Duration = Duration::from_millis(500);

/// Upper bound for retries, look-ups of what waiting pods mount, and lists of claims together.
const RETRIES: Duration = Duration::from_secs(60);

/// Draws what executors mount. It uses a random stream of its own, so that the other draws of a seed do not change.
pub fn draw(seed: u64, config: &mut Config) {
    let rng = &mut StdRng::seed_from_u64(seed ^ CLAIMS);
    if rng.random_bool(0.12) {
        let properties = &mut config.app.properties;
        properties.insert("engine.mode".to_owned(), "batch".to_owned());
    }
    if !rng.random_bool(0.15) {
        return;
    }
    config.claims.reuse = rng.random_bool(0.8);
    config.claims.wait = config.claims.reuse && rng.random_bool(0.5);
    for profile in config.profiles.values_mut() {
        let names = ["data", "spill"];
        let count = rng.random_range(0..=names.len());
        profile.claims = names
            .iter()
            .take(count)
            .map(|name| claim(rng, name))
            .collect();
    }
}

/// Quotas on the claims alone, of which many executors have to wait for theirs, in half of the worlds with claims.
pub fn quotas(seed: u64, config: &Config, faults_end: Duration) -> Vec<Step> {
    let rng = &mut StdRng::seed_from_u64(seed ^ CLAIM_QUOTAS);
    if !has_claims(config) || rng.random_bool(0.5) {
        return Vec::new();
    }
    // While the executors of the start get theirs, and later.
    let later = faults_end.mul_f64(rng.random());
    let starts = [Duration::ZERO, later].into_iter();
    let quotas = starts.map(|at| Step {
        at,
        fault: Fault::Quota {
            pods: 1_000,
            claims: rng.random_range(0..6),
            time: Duration::from_secs(rng.random_range(5..120)),
        },
    });
    quotas.collect()
}

/// The same where StatefulSets make the pods, and with them the claims of their templates (spec A-102).
pub fn draw_of_sets(seed: u64, config: &mut Config) {
    let rng = &mut StdRng::seed_from_u64(seed ^ CLAIMS);
    if config.allocation.strategy != Strategy::StatefulSet || !rng.random_bool(0.25) {
        return;
    }
    for profile in config.profiles.values_mut() {
        let count = rng.random_range(0..=2);
        profile.claims = ["data", "spill"][..count]
            .iter()
            .map(|name| claim(rng, name))
            .collect();
    }
}

fn claim(rng: &mut StdRng, name: &str) -> Claim {
    Claim {
        name: name.to_owned(),
        mount_path: format!("/{name}"),
        size: ["1Gi", "2Gi"][rng.random_range(0..2)].parse().unwrap(),
        storage_class: rng.random_bool(0.5).then(|| "fast".to_owned()),
        access_modes: BTreeSet::from([AccessMode::ReadWriteOnce]),
        owner: match rng.random_bool(0.8) {
            true => ClaimOwner::Application,
            false => ClaimOwner::Executor,
        },
        volume_attributes_class: None,
        data_source: None,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    }
}

pub fn has_claims(config: &Config) -> bool {
    config
        .profiles
        .values()
        .any(|profile| !profile.claims.is_empty())
}

/// How much longer convergence may take because of what executors mount.
pub fn extra_time(config: &Config) -> Duration {
    let mounts = has_claims(config) || !config.app.properties.is_empty();
    match mounts {
        true => 3 * config.allocation.creation_timeout + RETRIES,
        false => Duration::ZERO,
    }
}

/// Names of the claims that a pod mounts.
fn claims_of(pod: &Value) -> impl Iterator<Item = &str> {
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array);
    (volumes.into_iter().flatten())
        .map(|volume| text(volume, "/persistentVolumeClaim/claimName"))
        .filter(|name| !name.is_empty())
}

/// Whether everything a pod mounts exists, so that it can run. The scheduler waits for the end of a claim that is being
/// deleted.
pub fn mounts_exist(pod: &Value, state: &State) -> bool {
    let map = (pod.pointer("/spec/volumes").and_then(Value::as_array))
        .into_iter()
        .flatten()
        .map(|volume| text(volume, "/configMap/name"))
        .find(|name| !name.is_empty());
    let is_there = |resource, name| {
        let object = state.get(&Key::new(resource, NAMESPACE, name));
        object.is_some_and(|object| !is_terminating(object.value()))
    };
    map.is_none_or(|name| is_there(Resource::ConfigMaps, name))
        && claims_of(pod).all(|name| is_there(Resource::PersistentVolumeClaims, name))
}

/// All claims by name.
fn claims(state: &State) -> impl Iterator<Item = (&str, &Value)> {
    state
        .list(Resource::PersistentVolumeClaims, Some(NAMESPACE))
        .map(|claim| (text(claim.value(), "/metadata/name"), claim.value()))
}

/// No two executors requested by the same driver share a claim. Executors of other drivers may appear late, and a
/// restored history may bring old ones back, so each driver's own requests are checked separately.
// spec: A-60
pub fn check_none_shared(driver: usize, now: &Snapshot) -> Verdict {
    let mut holders: BTreeMap<&str, ExecutorId> = BTreeMap::new();
    for entry in now.entries.values() {
        if entry.adopted || entry.is_gone() {
            continue;
        }
        let pod = entry.pod().and_then(|pod| pod.volume_claims.as_deref());
        for claim in pod.unwrap_or_default() {
            if let Some(other) = holders.insert(&claim.name, entry.id)
                && other != entry.id
            {
                let (name, id) = (&claim.name, entry.id);
                return Err(format!(
                    "A-60: d{driver} gave claim {name} to {other} and to {id}"
                ));
            }
        }
    }
    Ok(())
}

/// After convergence: what executors mount exists, has the right content, and is owned by the current record or by an
/// existing pod.
// spec: K-8, K-10
pub fn check_owners(
    state: &State,
    script: &Script,
    excuses: &Excuses,
    app: &str,
    record: &str,
) -> Verdict {
    let config = &script.config;
    if !config.app.properties.is_empty() {
        let name = format!("{PREFIX}-executor");
        let mut maps = state.config_maps(NAMESPACE);
        let Some(map) = maps.find(|map| text(map, "/metadata/name") == name) else {
            return Err("K-8: what executors mount does not exist".to_owned());
        };
        if owner(map) != record || text(map, "/data/properties.json").is_empty() {
            return Err(format!(
                "K-8: what executors mount is not the record's: {map}"
            ));
        }
    }
    let pods: BTreeSet<&str> = (state.pods(NAMESPACE))
        .map(|pod| text(pod, "/metadata/uid"))
        .collect();
    let sets: BTreeSet<&str> = (state.list(Resource::StatefulSets, Some(NAMESPACE)))
        .map(|set| text(set.value(), "/metadata/uid"))
        .collect();
    for (name, claim) in claims(state) {
        let owner = owner(claim);
        // Of an earlier application: deleted with its owner, once the pod of that name that mounts it now is gone.
        let owned = is_terminating(claim)
            || owner == record
            || pods.contains(owner)
            || sets.contains(owner)
            || is_not_given(claim, config, excuses)
            || is_orphan(script, claim)
                && !state
                    .pods(NAMESPACE)
                    .any(|pod| claims_of(pod).any(|its| its == name));
        if label(claim, "boatswain.dev/app-id") == app && !owned {
            return Err(format!("K-10: claim {name} has no owner: {claim}"));
        }
    }
    Ok(())
}

/// Whether a claim may belong to nobody: its pod was gone when an operator deleted the set without its dependents. Another
/// set of that name takes over the claims of the pods that it has only.
fn is_orphan(script: &Script, claim: &Value) -> bool {
    let orphans = |step: &Step| matches!(step.fault, Fault::DeleteSet { orphan: true, .. });
    owner(claim).is_empty() && script.is_of_sets() && script.steps.iter().any(orphans)
}

/// Whether a claim may belong to nobody because the driver that made the record anew ended before it gave it the claims.
fn is_not_given(claim: &Value, config: &Config, excuses: &Excuses) -> bool {
    owner(claim).is_empty() && excuses.claims_not_given && !has_claims(config)
}

/// After the end: no claim is left, except those of pods that were orphaned when an operator deleted the record, and that
/// no driver takes over: dead ones that are kept, and those that a relabelling made unrecognisable. A claim of the
/// application's that such a pod mounts is deleted, and goes with the pod.
// spec: K-2, K-8, K-10, O-11
pub fn check_none_left(state: &State, script: &Script, excuses: &Excuses, app: &str) -> Verdict {
    let nobodys = || (state.pods(NAMESPACE)).filter(|pod| owner(pod).is_empty());
    let owners: BTreeSet<&str> = nobodys().map(|pod| text(pod, "/metadata/uid")).collect();
    let mounted: BTreeSet<&str> = nobodys().flat_map(claims_of).collect();
    let left: Vec<&str> = claims(state)
        .filter(|(_, claim)| label(claim, "boatswain.dev/app-id") == app)
        .filter(|(name, claim)| !(is_terminating(claim) && mounted.contains(name)))
        .filter(|(_, claim)| !owners.contains(owner(claim)) && !is_orphan(script, claim))
        .filter(|(_, claim)| !is_not_given(claim, &script.config, excuses))
        .map(|(name, _)| name)
        .collect();
    let name = format!("{PREFIX}-executor");
    let maps = (state.config_maps(NAMESPACE)).filter(|map| text(map, "/metadata/name") == name);
    match (left.is_empty(), maps.count()) {
        (true, 0) => Ok(()),
        (_, maps) => Err(format!(
            "K-10: left when the application has ended: claims {left:?}, {maps} maps"
        )),
    }
}
