//! An embedded Kubernetes API server, with a node that runs its pods and the controllers they need.
//!
//! - `storage`: the cluster's state as a value (objects, one resource version, a bounded event log); the task that owns
//!   the state, carries out writes and publishes each result.
//! - `changes`: pure functions that apply writes and deletions to the state. `validation`: defaulting, and validation
//!   of what is written.
//! - `objects`: the resources this server stores, and their fields.
//! - `api`: the HTTP API as a tower service; lists and watches read the published state. `access`: authentication and
//!   authorization.
//! - `gc`, `controllers`: the parts of a controller manager: garbage collection by owner references, removal of a
//!   namespace's content, and the controllers of StatefulSets, Deployments, ReplicaSets, disruption
//!   budgets and taints.
//! - `node`: runs the pods, as processes or as a simulation. `control`: injects faults into the node and the API.
//! - `cli`: the command line.
//!
//! This crate does not depend on the driver.

mod access;
mod api;
mod changes;
pub mod cli;
pub mod control;
mod controllers;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod gc;
mod node;
mod objects;
mod options;
mod storage;
mod validation;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use jiff::Timestamp;
use tokio::sync::watch as signal;

pub use access::auth::KnownUser;
pub use api::serve::{ServeError, Server};
pub use objects::object::{Key, Object};
pub use objects::resource::Resource;
pub use options::{NodeKind, Options, ProcessNode, SimulatedNode};
pub use storage::seeds::{Seed, SeedError};
pub use storage::store::{FIRST_VERSION, State};

use access::auth::Credentials;
use access::rights::Rights;
use access::signing::Keys;
use api::router::{self, Api};
use node::fault_injection::FaultInjector;
use node::process::StateDir;
use storage::server::{self, Admin, Clock, Command, Store};

/// A running cluster. Clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct DevCluster {
    store: Store,
    credentials: Credentials,
    rights: Rights,
    logs: Option<Arc<Path>>,
    /// Fault injection for the node; `None` if pods are not run by a node of this cluster.
    fault_injector: Option<FaultInjector>,
    /// Every background task holds a receiver of this channel until it ends, so `closed()` waits for all of them.
    tasks: Arc<signal::Sender<()>>,
}

/// Starts a cluster on the current runtime.
pub fn start(options: Options) -> DevCluster {
    let Options {
        token,
        users,
        roles,
        node,
        register_node,
        seed,
        wall_clock_start,
        collect_garbage,
        event_log,
    } = options;
    let clock = Clock::starting_at(wall_clock_start.unwrap_or_else(Timestamp::now));
    let rights = match roles {
        Some(_) => Rights::Roles,
        None => Rights::All,
    };
    let store = server::start(seed, event_log, clock, collect_garbage, roles);
    let (tasks, alive) = signal::channel(());
    tokio::spawn(gc::run(store.clone(), collect_garbage, alive.clone()));
    if collect_garbage {
        tokio::spawn(controllers::run(store.clone(), alive.clone()));
        tokio::spawn(controllers::budget::run(store.clone(), alive.clone()));
        tokio::spawn(controllers::taints::run(store.clone(), alive.clone()));
    }
    if !matches!(node, NodeKind::None) {
        tokio::spawn(node::volumes::run(store.clone(), alive.clone()));
    }
    let credentials = Credentials::new(token, users, Keys::generate());
    let node = start_node(node, register_node, seed, &store, &credentials, &alive);
    DevCluster {
        store,
        credentials,
        rights,
        logs: node.logs,
        fault_injector: node.fault_injector,
        tasks: Arc::new(tasks),
    }
}

/// What the cluster keeps of its node.
#[derive(Default)]
struct StartedNode {
    logs: Option<Arc<Path>>,
    fault_injector: Option<FaultInjector>,
}

fn start_node(
    node: NodeKind,
    register_node: bool,
    seed: u64,
    store: &Store,
    credentials: &Credentials,
    alive: &signal::Receiver<()>,
) -> StartedNode {
    let (store, alive) = (store.clone(), alive.clone());
    let register = |name: &str, runtime, faults| {
        if register_node {
            let (store, alive, name) = (store.clone(), alive.clone(), name.to_owned());
            tokio::spawn(node::register::run(store, name, runtime, faults, alive));
        }
    };
    match node {
        NodeKind::None => StartedNode::default(),
        NodeKind::Process(ProcessNode { name, state_dir }) => {
            let state_dir = StateDir::new(state_dir);
            let (fault_injector, fault_receiver) = FaultInjector::new(&name);
            let logs = state_dir.path().into();
            register(&name, "process://1", fault_receiver.injected());
            let keys = credentials.keys().clone();
            let run = node::process::run(store, name, state_dir, keys, fault_receiver, alive);
            tokio::spawn(run);
            StartedNode {
                logs: Some(logs),
                fault_injector: Some(fault_injector),
            }
        }
        NodeKind::Simulated(options) => {
            let (fault_injector, fault_receiver) = FaultInjector::new(&options.name);
            register(&options.name, "simulated://1", fault_receiver.injected());
            tokio::spawn(node::simulated::run(
                store,
                options,
                seed,
                fault_receiver,
                alive,
            ));
            StartedNode {
                logs: None,
                fault_injector: Some(fault_injector),
            }
        }
    }
}

impl DevCluster {
    /// The API as an HTTP service; it can also be passed to `kube::Client::new` in this process.
    pub fn router(&self) -> Router {
        router::router(Api {
            store: self.store.clone(),
            credentials: self.credentials.clone(),
            rights: self.rights,
            logs: self.logs.clone(),
        })
    }

    /// A snapshot of the current state. It is cheap and does not change afterwards.
    pub async fn state(&self) -> State {
        self.store.state()
    }

    /// Resets the server to an earlier state, including its resource version. All watches end.
    pub async fn restore(&self, state: State) {
        self.store.administer(Admin::Restore(Box::new(state))).await;
    }

    /// Removes all objects and all history. All watches end.
    pub async fn empty(&self) {
        self.store.administer(Admin::Empty).await;
    }

    /// Drops the event log: requests for an earlier resource version are answered with 410 `Expired`.
    pub async fn compact(&self) {
        self.store.administer(Admin::Compact).await;
    }

    pub async fn cut_watches(&self) {
        self.store.administer(Admin::CutWatches).await;
    }

    /// The number of writes that clients requested, refused ones included. Writes of the node and of the controllers
    /// are not counted.
    pub async fn writes(&self) -> u64 {
        let writes = self.store.ask(|reply| Command::Writes { reply }).await;
        writes.unwrap_or_default()
    }

    /// Stops the cluster and waits until it has ended: all watches end, and the node terminates what it runs.
    pub async fn shutdown(&self) {
        self.store.administer(Admin::Stop).await;
        self.tasks.closed().await;
    }
}

/// The README's examples, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
