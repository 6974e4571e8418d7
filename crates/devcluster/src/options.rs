//! The options of an embedded cluster.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use crate::access::auth::KnownUser;
use crate::storage::seeds::Seed;

#[derive(Clone, Debug)]
pub struct Options {
    /// The bearer token that requests must carry. `None` accepts every request, which is only safe for a router that is
    /// never served over a socket.
    pub token: Option<String>,
    /// Further users, each with a token.
    pub users: Vec<KnownUser>,
    /// The initial roles and bindings; they switch RBAC on. `None` authorizes every authenticated user to do anything.
    pub roles: Option<Vec<Seed>>,
    pub node: NodeKind,
    /// Whether the node is registered as a `Node` object, which clients can read and cordon.
    pub register_node: bool,
    /// Seeds everything that is random: uids, generated names, and what the simulated node does.
    pub seed: u64,
    /// The wall-clock time at which the cluster starts; the system's if `None`. It advances with the runtime's clock,
    /// so that a run under a paused clock always yields the same timestamps.
    pub wall_clock_start: Option<Timestamp>,
    /// Whether dependents are deleted after their owner. A kube-apiserver without a controller manager does not do
    /// that.
    pub collect_garbage: bool,
    /// How many events the log keeps for watches and for lists of earlier versions.
    pub event_log: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            token: None,
            users: Vec::new(),
            roles: None,
            node: NodeKind::None,
            register_node: false,
            seed: 0,
            wall_clock_start: None,
            collect_garbage: true,
            event_log: 20_000,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum NodeKind {
    /// No node: pods stay pending until a client binds them.
    None,
    /// Each container is a process on this machine.
    Process(ProcessNode),
    /// Only the pods' status is simulated.
    Simulated(SimulatedNode),
}

/// A node that runs containers as processes on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessNode {
    pub name: String,
    /// Where working directories, logs and the list of running processes are kept; a new temporary directory if `None`.
    pub state_dir: Option<PathBuf>,
}

impl Default for ProcessNode {
    fn default() -> Self {
        Self {
            name: "local".into(),
            state_dir: None,
        }
    }
}

/// A node that simulates pods and runs nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedNode {
    pub name: String,
    /// The time from a pod's creation to its binding.
    pub bind_delay: Duration,
    /// The time from a pod's binding until it runs.
    pub start_delay: Duration,
    /// The time from a pod's deletion until it is gone; capped at its grace period.
    pub stop_delay: Duration,
    /// The share of pods that start slowly, from 0 to 1.
    pub slow_start_rate: f64,
    /// How long a slow start takes.
    pub slow_start_delay: Duration,
    /// The share of pods that exit with code 1 some time after they started, from 0 to 1.
    pub crash_rate: f64,
    /// The share of pods that are OOM-killed some time after they started, from 0 to 1.
    pub out_of_memory_rate: f64,
    /// The share of pods that the node evicts some time after they started, from 0 to 1.
    pub eviction_rate: f64,
    /// The latest time after its start at which a pod crashes, is OOM-killed or is evicted.
    pub trouble_within: Duration,
}

impl Default for SimulatedNode {
    fn default() -> Self {
        Self {
            name: "simulated".into(),
            bind_delay: Duration::ZERO,
            start_delay: Duration::from_millis(100),
            stop_delay: Duration::from_millis(100),
            slow_start_rate: 0.0,
            slow_start_delay: Duration::from_secs(10),
            crash_rate: 0.0,
            out_of_memory_rate: 0.0,
            eviction_rate: 0.0,
            trouble_within: Duration::from_secs(60),
        }
    }
}
