//! The process node: runs containers as processes on this machine.
//!
//! Each pod has a task that runs its containers and reports their status. The node's own task binds pods, and passes
//! deletions and faults on to the pods' tasks.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::cleanup::{self, remove_directory};
use super::down::{self, DownEnd};
use super::fault_injection::{FaultMessage, FaultReceiver, NodeFaults, NodeState};
use super::reaper::Reaper;
use super::report::Container;
use super::runner::{PodCommands, Runner};
use super::spawn::{pod_directory, pods_directory};
use super::{Need, bind, carry_out, need, pod_of, register, remove, volumes};
use crate::access::signing::Keys;
use crate::objects::object::{Object, list};
use crate::objects::resource::Resource;
use crate::storage::follow::{Follower, Update};
use crate::storage::server::Store;
use crate::storage::store::State;

/// The time between SIGTERM and SIGKILL when the cluster stops; a shorter grace period of the pod takes precedence.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// The directory with the containers' working directories and logs.
#[derive(Debug)]
pub(crate) struct StateDir {
    path: PathBuf,
    /// Whether it is removed when the cluster stops.
    temporary: bool,
    /// Locked while the cluster uses the directory; `None` if another cluster uses it.
    lock: Option<File>,
}

impl StateDir {
    /// The chosen directory, or a new temporary one.
    pub(crate) fn new(chosen: Option<PathBuf>) -> Self {
        let temporary = chosen.is_none();
        let path = chosen.unwrap_or_else(temporary_directory);
        Self {
            temporary,
            lock: cleanup::lock(&path),
            path,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for StateDir {
    fn drop(&mut self) {
        if self.temporary {
            // If the directory cannot be removed, the system's cleanup of temporary files does it.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Creates a directory that only its owner can access. If that fails, each container reports why it cannot start.
fn temporary_directory() -> PathBuf {
    let base = std::env::temp_dir();
    cleanup::remove_killed_clusters(&base);
    let mut path = base.clone();
    for n in 0..u16::MAX {
        path = base.join(format!("{}{}-{n}", cleanup::TEMPORARY, std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            _ => break,
        }
    }
    path
}

struct Node {
    store: Store,
    /// Whether no other cluster has pods in the state directory.
    owns_directory: bool,
    name: String,
    state_dir: Arc<Path>,
    keys: Keys,
    reaper: Reaper,
    /// The pods that run here or have terminated, by uid.
    pods: BTreeMap<String, watch::Sender<PodCommands>>,
    injected: watch::Receiver<NodeFaults>,
    tasks: JoinSet<()>,
}

/// Runs until the cluster stops and all processes have terminated. It holds `_alive` until then.
pub(crate) async fn run(
    store: Store,
    name: String,
    state_dir: StateDir,
    keys: Keys,
    mut fault_receiver: FaultReceiver,
    _alive: watch::Receiver<()>,
) {
    let mut follower = Follower::new(&store);
    let mut node = Node {
        store,
        owns_directory: state_dir.lock.is_some(),
        name,
        state_dir: state_dir.path.as_path().into(),
        keys,
        reaper: Reaper::start(),
        pods: BTreeMap::new(),
        injected: fault_receiver.injected(),
        tasks: JoinSet::new(),
    };
    loop {
        let node_state = fault_receiver.node_state();
        if node_state != NodeState::Up {
            if node_state == NodeState::Gone {
                node.kill_all();
            }
            let (store, name) = (&node.store, &node.name);
            if down::serve(store, name, &mut follower, &mut fault_receiver).await
                == DownEnd::Stopped
            {
                break;
            }
            if fault_receiver.node_state() == NodeState::Up {
                node.resync(&node.store.state()).await;
            }
            continue;
        }
        let update = tokio::select! {
            biased;
            update = follower.next() => match update {
                Some(update) => update,
                None => break,
            },
            message = fault_receiver.next() => {
                if let FaultMessage::Fault(uid, fault) = message
                    && let Some(pod) = node.pods.get(&uid)
                {
                    pod.send_modify(|commands| commands.fault = Some(fault));
                }
                continue;
            }
        };
        match update {
            Update::Reset(state) => node.resync(&state).await,
            Update::Events(events, state) => {
                for (pod, gone) in events.iter().filter_map(|e| pod_of(e)) {
                    node.handle(&state, pod, gone).await;
                }
                let unblocks =
                    |e| register::makes_schedulable(e, &node.name) || volumes::is_claim_added(e);
                if events.iter().any(|event| unblocks(event)) {
                    for pod in state.list(Resource::Pods, None) {
                        node.handle(&state, pod, false).await;
                    }
                }
            }
        }
        while node.tasks.try_join_next().is_some() {}
    }
    for pod in node.pods.values() {
        pod.send_modify(|commands| {
            commands.stop(Instant::now() + STOP_GRACE);
            commands.silent = true;
        });
    }
    while node.tasks.join_next().await.is_some() {}
    // The next cluster may use the directory as soon as this one reports its end.
    drop(state_dir);
}

impl Node {
    /// Kills all processes without a report, as a loss of the machine does.
    fn kill_all(&mut self) {
        for pod in std::mem::take(&mut self.pods).into_values() {
            pod.send_modify(PodCommands::kill);
        }
    }

    async fn resync(&mut self, state: &State) {
        let there: BTreeMap<&str, &Arc<Object>> = state
            .list(Resource::Pods, None)
            .map(|pod| (pod.uid(), pod))
            .collect();
        if self.owns_directory {
            // The tasks of pods that are gone remove their directories themselves.
            let known = self.pods.keys().cloned();
            let stay = there.keys().map(|uid| (*uid).to_owned()).chain(known);
            cleanup::remove_leftovers(pods_directory(&self.state_dir), stay.collect()).await;
        }
        self.pods.retain(|uid, pod| {
            let stays = there.contains_key(uid.as_str());
            pod.send_modify(|commands| {
                commands.report_again += 1;
                if !stays {
                    commands.kill();
                }
            });
            stays
        });
        for pod in there.values() {
            self.handle(state, pod, false).await;
        }
    }

    async fn handle(&mut self, state: &State, pod: &Object, gone: bool) {
        if gone {
            // The pod was force-deleted: there is neither a grace period nor an object to report on.
            match self.pods.remove(pod.uid()) {
                // Its task removes its directory at the end.
                Some(known) if !known.is_closed() => known.send_modify(PodCommands::kill),
                _ => drop(self.tasks.spawn(remove_directory(self.directory(pod)))),
            }
            return;
        }
        match need(pod, &self.name) {
            Some(Need::Bind) => {
                let why = register::refusal(state, &self.name, pod)
                    .map(str::to_owned)
                    .or_else(|| volumes::missing_claim(state, pod));
                let now = self.store.clock().now();
                let write = match why {
                    None => Some(bind(pod, &self.name)),
                    Some(why) => register::mark_unschedulable(pod, &why, now),
                };
                if let Some(write) = write {
                    carry_out(&self.store, write).await;
                }
            }
            Some(Need::Start) if !self.pods.contains_key(pod.uid()) => self.start(state, pod),
            Some(Need::Stop) => self.stop(pod).await,
            Some(Need::Start | Need::Nothing) | None => {}
        }
    }

    fn directory(&self, pod: &Object) -> PathBuf {
        let key = pod.key();
        pod_directory(&self.state_dir, &key.namespace, &key.name, pod.uid())
    }

    fn start(&mut self, state: &State, pod: &Object) {
        let (commands, receiver) = watch::channel(PodCommands::default());
        let key = pod.key();
        let runner = Runner {
            store: self.store.clone(),
            directory: self.directory(pod),
            reaper: self.reaper.clone(),
            keys: self.keys.clone(),
            uid: pod.uid().to_owned(),
            key: key.clone(),
            pod: pod.value().clone(),
            started: self.store.clock().now(),
            init: vec![Container::Waiting; list(pod.value(), &["spec", "initContainers"]).len()],
            containers: vec![Container::Waiting; list(pod.value(), &["spec", "containers"]).len()],
            commands: receiver,
            injected: self.injected.clone(),
            is_evicted: false,
            restarts: super::restart::Restarts::default(),
            fault_applied: false,
        };
        self.tasks.spawn(runner.run(state.clone()));
        self.pods.insert(pod.uid().to_owned(), commands);
    }

    async fn stop(&mut self, pod: &Object) {
        let grace = pod.deletion_grace().unwrap_or(0);
        let grace = u64::from(u32::try_from(grace.max(0)).unwrap_or(u32::MAX));
        let end_by = Instant::now() + Duration::from_secs(grace);
        match self.pods.get(pod.uid()) {
            Some(known) => known.send_modify(|commands| commands.stop(end_by)),
            // The pod was never started here, or by an earlier node, whose processes ended with it.
            None => carry_out(&self.store, remove(pod.key(), pod.uid())).await,
        }
    }
}
