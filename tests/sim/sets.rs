//! Runs in which StatefulSets or Deployments make the executors' pods (spec ): whatever happens to drivers,
//! sets and pods, the fleet converges to its targets.
//!
//! In a quarter of these runs executors have sessions, and in a quarter of those with StatefulSets claims.
//!
//! Run with `cargo test sim_sets`; the variables are those of the other runs.

use std::collections::BTreeMap;
use std::time::Duration;

use boatswain::config::{Config, Strategy};
use boatswain::model::{ProfileName, Snapshot};
use devcluster::{Resource, State};
use serde_json::Value;

use crate::case::{Case, fault_from_env};
use crate::checks::{PREFIX, Verdict};
use crate::objects::{NAMESPACE, is_executor, is_inactive, is_terminating, label, owner, text};
use crate::run_from_env;
use crate::script::{Fault, Script};

/// Number of seeds that run by default.
const DEFAULT_SEEDS: u64 = 12;

/// The label that assigns an executor id to a pod.
pub const EXECUTOR_ID: &str = "boatswain.dev/executor-id";

/// A surplus pod is left to its set for this long.
const SET_DELETE_DELAY: Duration = Duration::from_secs(30);

/// Failed calls about a set are retried after at most this long.
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// Time to replace a pod beyond its pace, as nodes and controllers may process each step a little late.
const REPLACE_TOLERANCE: Duration = Duration::from_secs(5);

// spec, I-1, I-2, I-4, I-5, I-6, I-7, I-9, I-12, O-11
#[test]
fn sim_sets_converge_in_every_run() {
    let named = Case::from_env().map(|case| Case {
        of_sets: true,
        ..case
    });
    let planted = fault_from_env();
    run_from_env(DEFAULT_SEEDS, named, |seed| Case::of_sets(planted, seed));
}

/// The kind of the sets as in API paths; `None` if drivers make the pods.
pub fn kind(config: &Config) -> Option<&'static str> {
    match config.allocation.strategy {
        Strategy::Direct => None,
        Strategy::StatefulSet => Some("statefulsets"),
        Strategy::Deployment => Some("deployments"),
    }
}

pub fn name(profile: &str) -> String {
    format!("{PREFIX}-{profile}")
}

/// How much longer convergence may take with sets: surplus pods are left to the sets first, and a changed template
/// makes them replace all their pods one by one.
pub fn extra_time(script: &Script) -> Duration {
    let Script { config, pace, .. } = script;
    if !script.is_of_sets() {
        return Duration::ZERO;
    }
    let requested = script.steps.iter().filter_map(|step| match step.fault {
        Fault::Target { target, .. } => Some(target),
        Fault::ScaleSet { replicas, .. } => Some(replicas),
        _ => None,
    });
    let first = config.profiles.values().map(|profile| profile.executors);
    let largest = requested.chain(first).max().unwrap_or(0);
    let replaced = pace.stop + pace.bind + pace.start + REPLACE_TOLERANCE;
    let call = config.cluster.request_timeout + LONGEST_RETRY;
    // A set is read, written and read again, and once more when its pods have appeared.
    let looks = 4 * (config.poll.interval + call);
    // Once for the replacement under way, and once for its reversal.
    looks + SET_DELETE_DELAY + 2 * largest * replaced
}

fn sets<'a>(state: &'a State, app: &str) -> impl Iterator<Item = &'a Value> {
    let kinds = [Resource::StatefulSets, Resource::Deployments];
    (kinds.into_iter())
        .flat_map(|kind| state.list(kind, Some(NAMESPACE)))
        .map(|set| set.value())
        .filter(move |set| label(set, "boatswain.dev/app-id") == app)
}

/// After convergence: each set has the wanted size and belongs to the record, and each pod has an id and the newest
/// template.
// spec: A-80, B-1, K-13
pub fn check_converged(
    state: &State,
    ledger: &Snapshot,
    images: &BTreeMap<ProfileName, Option<String>>,
    app: &str,
) -> Verdict {
    if let Some(pod) = ledger.unassigned.values().next() {
        return Err(format!("A-80: {} has no id", pod.name));
    }
    let record = (state.config_maps(NAMESPACE))
        .find(|map| text(map, "/metadata/name") == format!("{PREFIX}-app"))
        .map_or("", |map| text(map, "/metadata/uid"));
    let mut sizes = BTreeMap::new();
    for set in sets(state, app) {
        let profile = ProfileName::from(label(set, "boatswain.dev/profile"));
        let owner = owner(set);
        if owner != record && ledger.targets.contains_key(&profile) {
            return Err(format!("K-2: the set of {profile} is not the record's"));
        }
        sizes.insert(profile, set["spec"]["replicas"].as_u64());
    }
    for profile in ledger.targets.keys().chain(sizes.keys()) {
        let wanted = u64::from(ledger.target(profile));
        let size = sizes.get(profile).copied().flatten().unwrap_or(0);
        if size != wanted {
            return Err(format!(
                "A-80: the set of {profile} has {size} replicas, and the target is {wanted}"
            ));
        }
    }
    for pod in state.pods(NAMESPACE).filter(|pod| !is_terminating(pod)) {
        let profile = ProfileName::from(label(pod, "boatswain.dev/profile"));
        let image = images.get(&profile).and_then(Option::as_deref);
        let has = text(pod, "/spec/containers/0/image");
        // One that has ended and lost a label is nobody's: sets and driver leave it to the owner's end.
        let is_over = matches!(text(pod, "/status/phase"), "Failed" | "Succeeded");
        let is_nobodys = is_over && !is_executor(pod, app, true);
        if !is_inactive(pod) && !is_nobodys && image.is_some_and(|image| image != has) {
            let name = text(pod, "/metadata/name");
            return Err(format!("A-80: {name} has the image {has}, not {image:?}"));
        }
    }
    Ok(())
}

/// After the end: no set is left.
// spec: A-80, O-11
pub fn check_none_left(state: &State, app: &str) -> Verdict {
    match sets(state, app).next() {
        Some(set) => Err(format!(
            "O-11: left when the application has ended: the set {}",
            text(set, "/metadata/name")
        )),
        None => Ok(()),
    }
}
