//! Worlds in which sets make the executors' pods (spec ): whatever befalls drivers, sets and pods, all comes to
//! what is wanted.
//!
//! - `cargo test sim_sets`: a modest number of seeds; `BOATSWAIN_SIM_SEEDS` and `BOATSWAIN_SIM_FIRST` as for the others.
//! - `BOATSWAIN_SIM_SEED=7 cargo test --test sim sim_sets -- --nocapture`: one, with all that happened.
//!
//! Left out, for the embedded cluster's controllers do not do what real ones do then: sets that are deleted without
//! their pods (which real ones adopt), pods whose labels do not match their set's selector any more (which real ones let
//! go), claims of a StatefulSet that is deleted and made anew. Executors do not talk, and no application fails too often.

use std::collections::BTreeMap;
use std::time::Duration;

use boatswain::config::{Config, Strategy};
use boatswain::model::{ProfileName, Snapshot};
use devcluster::{Resource, State};
use serde_json::Value;

use crate::case::{Case, named_fault};
use crate::checks::{PREFIX, Verdict};
use crate::hand::{NAMESPACE, is_inactive, is_terminating, label, owner, text};
use crate::run_asked_for;
use crate::script::{Fault, Script};

/// How many seeds are run where nobody says how many.
const MODEST: u64 = 24;

/// By this label of its pod an executor has its id.
pub const EXECUTOR_ID: &str = "boatswain.dev/executor-id";

/// One too many is left for so long to the set that made its pod.
const LEFT_TO_SETS: Duration = Duration::from_secs(30);

/// A call about a set is tried again after at most this long.
const TRIES: Duration = Duration::from_secs(30);

/// What a pod takes beyond its pace until it is replaced: nodes and controllers may look at it a little later each time.
const REPLACING: Duration = Duration::from_secs(5);

// spec, I-1, I-2, I-4, I-5, I-6, I-7, I-9, I-12, O-11
#[test]
fn sim_sets_come_to_what_is_wanted_in_every_world() {
    let named = Case::named().map(|case| Case {
        of_sets: true,
        ..case
    });
    let planted = named_fault();
    run_asked_for(MODEST, named, |seed| Case::of_sets(planted, seed));
}

/// What makes the pods, as paths have it; nothing where drivers make them.
pub fn kind(config: &Config) -> Option<&'static str> {
    match config.allocation.strategy {
        Strategy::Direct => None,
        Strategy::StatefulSet => Some("statefulsets"),
        Strategy::Deployment => Some("deployments"),
    }
}

/// The name of a profile's set.
pub fn name(profile: &str) -> String {
    format!("{PREFIX}-{profile}")
}

/// How much longer coming to rest takes where sets make the pods: those that are too many are left to them first, and a
/// template that has changed has them replace all of theirs, one after the other.
pub fn bound(script: &Script) -> Duration {
    let Script { config, pace, .. } = script;
    if !script.is_of_sets() {
        return Duration::ZERO;
    }
    let told = script.steps.iter().filter_map(|step| match step.fault {
        Fault::Target { target, .. } => Some(target),
        Fault::Scale { replicas, .. } => Some(replicas),
        _ => None,
    });
    let first = config.profiles.values().map(|profile| profile.executors);
    let most = told.chain(first).max().unwrap_or(0);
    let replaced = pace.stop + pace.bind + pace.start + REPLACING;
    let call = config.cluster.request_timeout + TRIES;
    // A set is looked at, written, and looked at again; and again when its pods have come.
    let looks = 4 * (config.poll.interval + call);
    // Once as it was under way, and once back.
    looks + LEFT_TO_SETS + 2 * most * replaced
}

/// The sets of the application.
fn sets<'a>(state: &'a State, app: &str) -> impl Iterator<Item = &'a Value> {
    let kinds = [Resource::StatefulSets, Resource::Deployments];
    (kinds.into_iter())
        .flat_map(|kind| state.list(kind, Some(NAMESPACE)))
        .map(|set| set.value())
        .filter(move |set| label(set, "boatswain.dev/app-id") == app)
}

/// At rest: each set is as large as wanted and the record's, and each pod is made of the newest template and has an id.
// spec: A-80, B-1, K-2
pub fn as_wanted(
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
                "A-80: the set of {profile} is to have {size} pods, and {wanted} are wanted"
            ));
        }
    }
    for pod in state.pods(NAMESPACE).filter(|pod| !is_terminating(pod)) {
        let profile = ProfileName::from(label(pod, "boatswain.dev/profile"));
        let image = images.get(&profile).and_then(Option::as_deref);
        let has = text(pod, "/spec/containers/0/image");
        if !is_inactive(pod) && image.is_some_and(|image| image != has) {
            let name = text(pod, "/metadata/name");
            return Err(format!("A-80: {name} has the image {has}, not {image:?}"));
        }
    }
    Ok(())
}

/// At the end: no set is left.
// spec: A-80, O-11
pub fn none_is_left(state: &State, app: &str) -> Verdict {
    match sets(state, app).next() {
        Some(set) => Err(format!(
            "O-11: left when the application has ended: the set {}",
            text(set, "/metadata/name")
        )),
        None => Ok(()),
    }
}
