//! How an embedded cluster is set up.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use crate::access::auth::KnownUser;
use crate::storage::seeds::Seed;

/// How an embedded cluster is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// The bearer token that requests must bear; none lets everybody in, which only a router that is never served
    /// over a socket should.
    pub token: Option<String>,
    /// Who else is known, and by which token.
    pub users: Vec<KnownUser>,
    /// Roles and bindings that are there from the beginning; then it is they that say who may do what. Without them
    /// whoever is known may do anything.
    pub roles: Option<Vec<Seed>>,
    /// What runs the pods.
    pub node: NodeKind,
    /// Whether the node is an object that clients see, and can keep from taking pods.
    pub register_node: bool,
    /// Where all that is random begins: uids, generated names, what the simulated node does.
    pub seed: u64,
    /// The wall clock when the cluster starts; the system's where there is none. It goes on with the runtime's clock,
    /// so that a run under a paused clock always tells the same times.
    pub wall_clock_start: Option<Timestamp>,
    /// Whether what an object owns is deleted after it. A kube-apiserver without controllers does not.
    pub collect_garbage: bool,
    /// How many writes are remembered for watches and lists of earlier versions.
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

/// What runs the pods.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeKind {
    /// Nothing: pods stay pending until somebody else binds them.
    None,
    /// Each pod's containers are processes on this machine.
    Process(ProcessNode),
    /// Pods are said to run.
    Simulated(SimulatedNode),
}

/// A node whose containers are processes on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessNode {
    /// The node's name.
    pub name: String,
    /// Where working directories and logs are kept, and which processes run; a fresh temporary directory where there
    /// is none.
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

/// A node on which nothing really runs.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedNode {
    /// The node's name.
    pub name: String,
    /// From a pod's creation to its binding.
    pub bind_delay: Duration,
    /// From a pod's binding to its running.
    pub start_delay: Duration,
    /// From a pod's deletion to its being gone; never longer than its grace.
    pub stop_delay: Duration,
    /// Which share of the pods start slowly, from 0 to 1.
    pub slow_start_rate: f64,
    /// How long a slow start takes.
    pub slow_start_delay: Duration,
    /// Which share of the pods exit with code 1 some time after they started.
    pub crash_rate: f64,
    /// Which share of the pods are killed for want of memory some time after they started.
    pub out_of_memory_rate: f64,
    /// Which share of the pods are evicted by the node some time after they started.
    pub eviction_rate: f64,
    /// The longest time after its start at which one of these things befalls a pod.
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
