//! Claims on volumes and the ConfigMap that executors mount, in the worlds that have them: no claim is two executors',
//! each belongs to the application or to an executor, and nothing is left of them (spec A-60, K-8, K-10).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use boatswain::config::{AccessMode, Claim, ClaimOwner, Config};
use boatswain::model::{ExecutorId, Snapshot};
use devcluster::{Key, Resource, State};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

use crate::checks::{PREFIX, Verdict};
use crate::hand::{NAMESPACE, is_inactive, label, owner, text};

/// What sets the stream of [`draw`] apart.
const CLAIMS: u64 = 0x636c_6169_6d73;

/// A pod that waits for what it mounts is looked at again after this long.
pub const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Tries again, looks for what waiting pods mount, and lists of claims, together at most.
const AGAIN: Duration = Duration::from_secs(60);

/// What executors mount, drawn from a stream of its own: so the other draws of a seed stay as they are.
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
    }
}

/// Whether this world has claims.
pub fn has_claims(config: &Config) -> bool {
    config
        .profiles
        .values()
        .any(|profile| !profile.claims.is_empty())
}

/// How much longer coming to rest takes for the sake of what executors mount.
pub fn bound(config: &Config) -> Duration {
    let mounts = has_claims(config) || !config.app.properties.is_empty();
    match mounts {
        true => 3 * config.allocation.creation_timeout + AGAIN,
        false => Duration::ZERO,
    }
}

/// The claims that a pod mentions.
fn claims_of(pod: &Value) -> impl Iterator<Item = &str> {
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array);
    (volumes.into_iter().flatten())
        .map(|volume| text(volume, "/persistentVolumeClaim/claimName"))
        .filter(|name| !name.is_empty())
}

/// Whether all that a pod mounts is there, so that it can run.
pub fn is_provided(pod: &Value, state: &State) -> bool {
    let map = (pod.pointer("/spec/volumes").and_then(Value::as_array))
        .into_iter()
        .flatten()
        .map(|volume| text(volume, "/configMap/name"))
        .find(|name| !name.is_empty());
    let is_there = |resource, name| state.get(&Key::new(resource, NAMESPACE, name)).is_some();
    map.is_none_or(|name| is_there(Resource::ConfigMaps, name))
        && claims_of(pod).all(|name| is_there(Resource::PersistentVolumeClaims, name))
}

/// The claims there are, by name.
fn claims(state: &State) -> impl Iterator<Item = (&str, &Value)> {
    state
        .list(Resource::PersistentVolumeClaims, Some(NAMESPACE))
        .map(|claim| (text(claim.value(), "/metadata/name"), claim.value()))
}

/// No two executors that a driver asked for have the same claim. What other drivers asked for may come late, and what was
/// there may come back with a server's history; so only a driver's own are held against each other.
// spec: A-60
pub fn none_is_shared(driver: usize, now: &Snapshot) -> Verdict {
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

/// At rest: what executors mount is there, as it should be, and belongs to the record that is or to a pod that is.
// spec: K-8, K-10
pub fn belong(state: &State, config: &Config, app: &str, record: &str) -> Verdict {
    if !config.app.properties.is_empty() {
        let name = format!("{PREFIX}-executor");
        let mut maps = state.config_maps(NAMESPACE);
        let Some(map) = maps.find(|map| text(map, "/metadata/name") == name) else {
            return Err("K-8: what executors mount is not there".to_owned());
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
    for (name, claim) in claims(state) {
        let owned = owner(claim) == record || pods.contains(owner(claim));
        if label(claim, "boatswain.dev/app-id") == app && !owned {
            return Err(format!("K-10: claim {name} belongs to nobody: {claim}"));
        }
    }
    Ok(())
}

/// At the end: nothing is left of them but what dead pods have that are kept, and that somebody orphaned with the record:
/// a record that is made anew is given the living only.
// spec: K-2, K-8, K-10, O-11
pub fn none_is_left(state: &State, app: &str) -> Verdict {
    let orphans: BTreeSet<&str> = (state.pods(NAMESPACE))
        .filter(|pod| is_inactive(pod) && owner(pod).is_empty())
        .map(|pod| text(pod, "/metadata/uid"))
        .collect();
    let left: Vec<&str> = claims(state)
        .filter(|(_, claim)| label(claim, "boatswain.dev/app-id") == app)
        .filter(|(_, claim)| !orphans.contains(owner(claim)))
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
