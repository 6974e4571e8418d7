//! Nodes that are about to leave the cluster: drawn for some runs, played by the simulated nodes, and checked when the
//! fleet has converged (spec W-15, B-71).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use boatswain::config::Config;
use boatswain::model::executor::Class;
use boatswain::model::{Entry, Snapshot};
use devcluster::{Resource, State};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use crate::checks::Verdict;
use crate::convergence::LONGEST_SILENCE;
use crate::node::NODE_NAMES;
use crate::objects::{DirectClient, text};
use crate::script::{Fault, Step};
use crate::sessions::UNSTEADY;
use crate::trace::trace_line;

/// Separates this random stream from the others.
const NODES: u64 = 0x6e6f_6465_7321;

/// The same, of whether busy executors are protected.
const PROTECTION: u64 = 0x6275_7379;

const TAINT: &str = "karpenter.sh/disrupted";

/// When the pod of an idle executor is protected no longer, once more if it is replaced meanwhile (spec L-42).
const UNPROTECTED_AFTER: Duration = Duration::from_secs(2 * 120);

/// How a node's leaving ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// It is taken back.
    Back,
    /// The node is deleted, with the pods on it.
    Gone,
    /// Not before the run does.
    Never,
}

/// The node objects as they should be. The world writes them again when they are otherwise, as the kubelets and
/// autoscalers do after a restore of the server.
#[derive(Debug, Default)]
pub struct NodeObjects {
    /// Whether drivers watch them, so that they are written.
    watched: bool,
    leaving: BTreeMap<&'static str, Ends>,
    gone: BTreeSet<&'static str>,
    down: BTreeSet<&'static str>,
    /// The nodes that were down at any time.
    ever_down: BTreeSet<&'static str>,
}

impl NodeObjects {
    pub fn of(config: &Config) -> Self {
        Self {
            watched: config.nodes.watch,
            ..Self::default()
        }
    }

    /// Whether drivers know of nodes, so that one that goes down shows why its executors are silent.
    pub const fn are_watched(&self) -> bool {
        self.watched
    }

    /// Exactly these nodes are down, so that their kubelets do not answer.
    pub fn set_down(&mut self, down: BTreeSet<&'static str>) {
        self.ever_down.extend(&down);
        self.down = down;
    }

    pub fn was_down(&self, node: &str) -> bool {
        self.ever_down.contains(node)
    }

    /// Whether new pods go to this node.
    pub fn is_schedulable(&self, node: &str) -> bool {
        !self.leaving.contains_key(node) && !self.gone.contains(node)
    }

    /// A node is about to leave, unless another one is: the others have to take its executors.
    pub fn leave(&mut self, node: &'static str, ends: Ends) -> bool {
        let is_first = self.leaving.is_empty() && self.gone.is_empty();
        if is_first {
            self.leaving.insert(node, ends);
        }
        is_first
    }

    /// Ends that; returns how, if this node was about to leave.
    pub fn end(&mut self, node: &'static str) -> Option<Ends> {
        let ends = self.leaving.remove(node)?;
        if ends == Ends::Gone {
            self.gone.insert(node);
        }
        Some(ends)
    }

    pub fn end_faults(&mut self) {
        self.gone.clear();
        self.leaving.retain(|_, ends| *ends == Ends::Never);
    }

    /// Writes what is otherwise on the server.
    pub async fn write(&self, client: &DirectClient, state: &State) {
        if !self.watched {
            return;
        }
        let there: BTreeMap<&str, (bool, bool)> = (state.list(Resource::Nodes, None))
            .map(|node| {
                let node = node.value();
                let leaves = text(node, "/spec/taints/0/key") == TAINT;
                let is_ready = text(node, "/status/conditions/0/status") == "True";
                (text(node, "/metadata/name"), (leaves, is_ready))
            })
            .collect();
        for name in NODE_NAMES {
            let (is, leaves) = (there.get(name), self.leaving.contains_key(name));
            let is_ready = !self.down.contains(name);
            match self.gone.contains(name) {
                true if is.is_some() => {
                    trace_line!("node: {name} is deleted");
                    client.delete_node(name).await;
                }
                false if is != Some(&(leaves, is_ready)) => {
                    trace_line!("node: {name} is there, leaves: {leaves}, is ready: {is_ready}");
                    let taints = match leaves {
                        true => json!([{"key": TAINT, "effect": "NoSchedule"}]),
                        false => json!([]),
                    };
                    client.put_node(name, is.is_some(), &taints).await;
                    client.report_node(name, is_ready).await;
                }
                _ => {}
            }
        }
    }

    /// No executor stays on a node that is about to leave, and nothing is wanted in addition any more.
    // spec: W-15, B-71, B-72
    pub fn check_converged(&self, ledger: &Snapshot) -> Verdict {
        if !self.watched {
            return Ok(());
        }
        for name in self.leaving.keys() {
            if !ledger.nodes.leaving.contains_key(*name) {
                return Err(format!("W-15: it is not known that {name} leaves"));
            }
        }
        let stays = (ledger.entries.values()).find(|entry| {
            let leaving = ledger.nodes.leaving_of(entry);
            entry.class().is_live() && leaving.is_some_and(|(_, node)| node.concerns(entry.id))
        });
        if let Some(entry) = stays {
            return Err(format!("B-71: {} stays on a node that leaves", entry.id));
        }
        match ledger.targets.iter().find(|(_, target)| target.surge > 0) {
            Some((profile, target)) => Err(format!(
                "B-71: {profile}: {} more than requested are wanted",
                target.surge
            )),
            None => Ok(()),
        }
    }
}

/// Has drivers watch the nodes in some runs, in which nodes are about to leave.
pub fn draw(seed: u64, config: &mut Config, faults_end: Duration) -> Vec<Step> {
    let rng = &mut StdRng::seed_from_u64(seed ^ NODES);
    if !rng.random_bool(0.15) {
        return Vec::new();
    }
    config.nodes.watch = true;
    config.nodes.notice = Duration::from_secs(rng.random_range(1..150));
    config.nodes.max_surge = [1, 2, 100][rng.random_range(0..3)];
    let down = (0..rng.random_range(0..3)).map(|_| Step {
        at: faults_end.mul_f64(rng.random()),
        fault: Fault::NodeDown {
            pick: rng.random(),
            time: Duration::from_millis(rng.random_range(0..400_000)),
            evicts: rng.random_bool(0.2),
        },
    });
    let mut steps: Vec<Step> = down.collect();
    let leave = (0..rng.random_range(1..4)).map(|_| {
        let ends = [Ends::Back, Ends::Gone, Ends::Never][rng.random_range(0..3)];
        Step {
            at: faults_end.mul_f64(rng.random()),
            fault: Fault::NodeLeaves {
                pick: rng.random(),
                time: Duration::from_millis(rng.random_range(0..200_000)),
                ends,
            },
        }
    });
    steps.extend(leave);
    steps
}

/// Has autoscalers leave the pods of busy executors alone in some runs.
pub fn draw_protection(seed: u64, config: &mut Config) {
    let rng = &mut StdRng::seed_from_u64(seed ^ PROTECTION);
    config.nodes.protect_busy = config.backend.sessions.listen.is_some() && rng.random_bool(0.2);
}

/// Autoscalers leave exactly the pods of executors alone that have work.
// spec: L-42
pub fn check_protection(config: &Config, ledger: &Snapshot) -> Verdict {
    if !config.nodes.protect_busy {
        return Ok(());
    }
    let is_wrong = |entry: &&Arc<Entry>| {
        let is_protected = entry.pod().is_some_and(|pod| pod.is_protected);
        entry.class() == Class::Running && entry.session.is_busy() != is_protected
    };
    match ledger.entries.values().find(is_wrong) {
        Some(entry) => Err(format!(
            "L-42: is {} busy: {}, and protected otherwise",
            entry.id,
            entry.session.is_busy()
        )),
        None => Ok(()),
    }
}

/// How many more executors than requested may be wanted of a profile.
pub fn max_surge(config: &Config) -> u32 {
    match config.nodes.watch {
        true => config.nodes.max_surge,
        false => 0,
    }
}

/// How much longer the fleet may take to converge. Only the watch shows that a node is about to leave (spec W-3).
pub fn extra_time(config: &Config) -> Duration {
    let nodes = match config.nodes.watch {
        true => config.nodes.notice + config.backend.decommission_timeout + 2 * LONGEST_SILENCE,
        false => Duration::ZERO,
    };
    match config.nodes.protect_busy {
        true => nodes + UNSTEADY + UNPROTECTED_AFTER,
        false => nodes,
    }
}
