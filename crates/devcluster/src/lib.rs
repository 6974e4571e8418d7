//! The embedded cluster: an API server in this process, and a node for its pods.
//!
//! - `storage`: the state, a value (objects, one resource version, a bounded log); the one task that owns it, carries
//!   writes out and publishes what became of it; the file it may be kept in.
//! - `changes`: what writes and deletions do to that value; pure. `validation`: what is filled in and refused before.
//! - `objects`: what is kept, kind by kind.
//! - `api`: the HTTP API, as a tower service; its lists and watches read what was published. `access`: who may ask.
//! - `gc`, `controllers`: what a controller manager does: what is owned goes after its owner, a namespace's content with
//!   it; sets make pods of their templates.
//! - `node`: what runs the pods: processes, or a simulation. `control`: what makes node and API misbehave.
//!
//! It knows nothing of the driver, nor the driver of it.

mod access;
mod api;
mod changes;
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
pub use storage::keep::KeepError;
pub use storage::seeds::{Seed, SeedError};
pub use storage::server::WriteRecord;
pub use storage::store::{FIRST_VERSION, State};

use access::auth::Credentials;
use access::rights::Rights;
use access::signing::Keys;
use api::router::{self, Api};
use node::hardship::Levers;
use node::process::StateDir;
use storage::keep::Keeper;
use storage::server::{self, Clock, Command, Store};

/// A running cluster. Clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct DevCluster {
    store: Store,
    credentials: Credentials,
    rights: Rights,
    logs: Option<Arc<Path>>,
    /// The hand that the node is in, where there is one.
    levers: Option<Levers>,
    /// Whatever runs in the background holds a receiver of this for as long as it runs.
    tasks: Arc<signal::Sender<()>>,
}

/// Starts a cluster on the current runtime.
pub fn start(options: Options) -> DevCluster {
    begin(options, None, None)
}

/// Starts a cluster that keeps its state in a file, with what that holds: after a restart everything is as it was,
/// resource version and history included, so that watches go on. It survives the death of this process at any instant;
/// a crash of the machine may cost the last seconds.
///
/// # Errors
///
/// Where the file cannot be read or written, is used by another cluster, or is not this program's.
pub fn resume(options: Options, data: &Path) -> Result<DevCluster, KeepError> {
    let (keeper, kept) = Keeper::open(data, options.event_log)?;
    Ok(begin(options, Some(keeper), kept))
}

fn begin(options: Options, keeper: Option<Keeper>, kept: Option<State>) -> DevCluster {
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
    let keys = match &keeper {
        Some(keeper) => keeper.keys().clone(),
        None => Keys::generate(),
    };
    let store = server::start(seed, event_log, clock, collect_garbage, roles, keeper, kept);
    let (tasks, alive) = signal::channel(());
    tokio::spawn(gc::run(store.clone(), collect_garbage, alive.clone()));
    if collect_garbage {
        tokio::spawn(controllers::run(store.clone(), alive.clone()));
    }
    if !matches!(node, NodeKind::None) {
        tokio::spawn(node::volumes::run(store.clone(), alive.clone()));
    }
    let credentials = Credentials::new(token, users, keys);
    let node = start_node(node, register_node, seed, &store, &credentials, &alive);
    DevCluster {
        store,
        credentials,
        rights,
        logs: node.logs,
        levers: node.levers,
        tasks: Arc::new(tasks),
    }
}

/// What the cluster keeps of its node.
#[derive(Default)]
struct StartedNode {
    logs: Option<Arc<Path>>,
    levers: Option<Levers>,
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
    let register = |name: &str, provider_id, hardship| {
        if register_node {
            let (store, alive) = (store.clone(), alive.clone());
            let name = name.to_owned();
            tokio::spawn(node::register::run(
                store,
                name,
                provider_id,
                hardship,
                alive,
            ));
        }
    };
    match node {
        NodeKind::None => StartedNode::default(),
        NodeKind::Process(ProcessNode { name, state_dir }) => {
            let state_dir = StateDir::new(state_dir);
            let (hand, suffered) = Levers::new(&name);
            let logs = state_dir.path().into();
            register(&name, "process://1", suffered.hardship());
            let keys = credentials.keys().clone();
            let run = node::process::run(store, name, state_dir, keys, suffered, alive);
            tokio::spawn(run);
            StartedNode {
                logs: Some(logs),
                levers: Some(hand),
            }
        }
        NodeKind::Simulated(options) => {
            let (hand, suffered) = Levers::new(&options.name);
            register(&options.name, "simulated://1", suffered.hardship());
            tokio::spawn(node::simulated::run(store, options, seed, suffered, alive));
            StartedNode {
                logs: None,
                levers: Some(hand),
            }
        }
    }
}

impl DevCluster {
    /// The API: a service for HTTP, and for `kube::Client::new` in this process.
    pub fn router(&self) -> Router {
        router::router(Api {
            store: self.store.clone(),
            credentials: self.credentials.clone(),
            rights: self.rights,
            logs: self.logs.clone(),
        })
    }

    /// Everything the server knows now; a copy that is cheap and stays as it is.
    pub async fn state(&self) -> State {
        self.store.state()
    }

    /// Puts the server back to what it was: its version too. All watches end.
    pub async fn restore(&self, state: State) {
        let state = Box::new(state);
        self.store
            .ask(|reply| Command::Restore { state, reply })
            .await;
    }

    /// Makes it a server to which nothing was ever written. All watches end.
    pub async fn empty(&self) {
        self.store.ask(|reply| Command::Empty { reply }).await;
    }

    /// Forgets all history: what asks for an earlier version is told that it is gone.
    pub async fn compact(&self) {
        self.store.ask(|reply| Command::Compact { reply }).await;
    }

    /// Ends every open watch.
    pub async fn cut_watches(&self) {
        self.store.ask(|reply| Command::CutWatches { reply }).await;
    }

    /// How many writes clients asked for, refused ones too; what the node and the collector do is not counted.
    pub async fn writes(&self) -> u64 {
        self.store
            .ask(|reply| Command::Writes { reply })
            .await
            .unwrap_or_default()
            .0
    }

    /// The last 10,000 of those writes, oldest first.
    pub async fn write_log(&self) -> Vec<WriteRecord> {
        self.store
            .ask(|reply| Command::Writes { reply })
            .await
            .unwrap_or_default()
            .1
    }

    /// Stops it: watches end, and what the node runs.
    pub async fn shutdown(&self) {
        self.store.ask(|reply| Command::Stop { reply }).await;
        self.tasks.closed().await;
    }
}

/// The README's examples, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
