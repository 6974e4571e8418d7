//! What is true of a driver's controller, and whether an exit agrees with it.

use std::collections::BTreeSet;

use boatswain::exit::Exit;
use devcluster::State;
use serde_json::Value;
use tokio::time::Instant;

use crate::objects::{NAMESPACE, is_terminating};

/// What a signal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Truth {
    HandOver,
    End,
    LetGo,
}

/// A signal that a driver got, and what was true since.
pub struct Signal {
    pub at: Instant,
    /// What it may have learned.
    pub truths: BTreeSet<Truth>,
    /// The executors that were there.
    pub executors: BTreeSet<String>,
    /// Whether its wire was interrupted at any time, or another driver lived.
    pub excused: bool,
}

/// Whether this pod is there and not being deleted.
pub fn stays(state: &State, name: &str, uid: &str) -> bool {
    let pod = state.pod(NAMESPACE, name);
    pod.is_some_and(|pod| pod["metadata"]["uid"] == *uid && !is_terminating(pod))
}

/// The names and uids of the driver's pods that run and are not being deleted.
pub fn running_pods(state: &State) -> Vec<(String, String)> {
    let text = |pod: &Value, key: &str| pod["metadata"][key].as_str().unwrap().to_owned();
    state
        .pods(NAMESPACE)
        .filter(|pod| pod["metadata"]["labels"]["app"] == "driver")
        .filter(|pod| !is_terminating(pod))
        .filter(|pod| pod["status"]["phase"] == "Running")
        .map(|pod| (text(pod, "name"), text(pod, "uid")))
        .collect()
}

/// The uid of the top controller of the pod with this uid.
pub fn controller_of(state: &State, uid: &str) -> Option<String> {
    let above = |uid: &str| {
        let object = state.by_uid(uid)?;
        let owner = &object.value()["metadata"]["ownerReferences"][0];
        Some((
            owner["kind"].as_str()?.to_owned(),
            owner["uid"].as_str()?.to_owned(),
        ))
    };
    match above(uid)? {
        (kind, set) if kind == "ReplicaSet" => above(&set).map(|(_, uid)| uid),
        (_, uid) => Some(uid),
    }
}

/// The uids of the executors' pods that are not being deleted.
pub fn executors(state: &State) -> BTreeSet<String> {
    state
        .pods(NAMESPACE)
        .filter(|pod| pod["metadata"]["labels"]["app"] != "driver")
        .filter(|pod| !is_terminating(pod))
        .map(|pod| pod["metadata"]["uid"].as_str().unwrap().to_owned())
        .collect()
}

/// Whether an exit agrees with what was true when the signal came.
// spec: O-10, O-66, O-67
pub fn agrees(number: usize, exit: Exit, signal: &Signal, state: &State) -> Result<(), String> {
    let mut truths = signal.truths.iter();
    let (Some(truth), None) = (truths.next(), truths.next()) else {
        return Ok(());
    };
    let left = executors(state);
    let lost = signal.executors.difference(&left).count();
    let wrong = match truth {
        Truth::HandOver => (exit == Exit::Clean || (lost > 0 && !signal.excused))
            .then(|| format!("{lost} executors were lost")),
        _ if signal.excused => None,
        Truth::End => (exit == Exit::Superseded || (exit == Exit::Clean && !left.is_empty()))
            .then(|| format!("{} executors are left", left.len())),
        Truth::LetGo => {
            let mut maps = state.config_maps(NAMESPACE);
            let record = maps.find(|map| map["metadata"]["name"] == "boatswain-app");
            let is_closed = record.is_some_and(|record| !record["data"]["finished"].is_null());
            (exit == Exit::Clean || is_closed || (exit == Exit::Superseded && !left.is_empty()))
                .then(|| format!("{} executors are left, closed: {is_closed}", left.len()))
        }
    };
    match wrong {
        Some(what) => Err(format!(
            "O-66: d{number} exited with {exit:?} where the signal meant {truth:?}: {what}"
        )),
        None => Ok(()),
    }
}
