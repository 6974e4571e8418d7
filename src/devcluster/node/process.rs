//! A node whose containers are processes on this machine.
//!
//! One task a pod runs its containers and tells what becomes of them; this one binds pods, and passes on to each
//! task when its pod is told to go.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt as _};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tokio::process::Child;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::reaper::Reaper;
use super::report::{Container, Ending, Report};
use super::spawn::{self, POD_IP, Place, pod_directory};
use super::{Need, bind, carry_out, need, pod_of, remove};
use crate::devcluster::follow::{Follower, News};
use crate::devcluster::object::{Key, Object, list, set, text};
use crate::devcluster::resource::Resource;
use crate::devcluster::server::Store;
use crate::devcluster::store::State;
use crate::devcluster::write::Write;

/// When the cluster stops, processes have this long after SIGTERM, or their pod's grace if that is shorter.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// What a pod's task is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Orders {
    /// By when its processes must have ended, once they shall.
    end_by: Option<Instant>,
    /// Whether nothing is to be told any more, as the pod, or the cluster, is gone.
    silent: bool,
    /// How often the store was put back, after which all must be told again.
    tell_again: u64,
}

/// Where working directories and logs are kept.
#[derive(Debug)]
pub(in crate::devcluster) struct StateDir {
    path: PathBuf,
    /// Whether it goes when the cluster stops.
    temporary: bool,
}

impl StateDir {
    /// The directory chosen, or a temporary one that no other cluster has.
    pub(in crate::devcluster) fn new(chosen: Option<PathBuf>) -> Self {
        match chosen {
            Some(path) => Self {
                path,
                temporary: false,
            },
            None => Self {
                path: make_temporary(),
                temporary: true,
            },
        }
    }

    /// Where it is.
    pub(in crate::devcluster) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for StateDir {
    fn drop(&mut self) {
        if self.temporary {
            // What cannot be removed is left to whatever clears the temporary files.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Makes a directory for its owner only. Where that is not possible, each container tells why it cannot start.
fn make_temporary() -> PathBuf {
    let base = std::env::temp_dir();
    let mut path = base.clone();
    for n in 0..u16::MAX {
        path = base.join(format!("boatswain-{}-{n}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            _ => break,
        }
    }
    path
}

/// A pod that this node runs, or ran.
struct Pod {
    orders: watch::Sender<Orders>,
}

struct Node {
    store: Store,
    name: String,
    state_dir: Arc<Path>,
    reaper: Reaper,
    pods: BTreeMap<String, Pod>,
    tasks: JoinSet<()>,
}

/// Runs until the cluster is stopped, and then until all processes have ended. It holds `_alive` so long.
pub(in crate::devcluster) async fn run(
    store: Store,
    name: String,
    state_dir: StateDir,
    _alive: watch::Receiver<()>,
) {
    let mut follower = Follower::new(&store);
    let mut node = Node {
        store,
        name,
        state_dir: state_dir.path.as_path().into(),
        reaper: Reaper::start(),
        pods: BTreeMap::new(),
        tasks: JoinSet::new(),
    };
    while let Some(news) = follower.next().await {
        match news {
            News::StartOver(state) => node.start_over(&state).await,
            News::Events(events, state) => {
                for (pod, gone) in events.iter().filter_map(|e| pod_of(e)) {
                    node.heard(&state, pod, gone).await;
                }
            }
        }
        while node.tasks.try_join_next().is_some() {}
    }
    for pod in node.pods.values() {
        pod.orders.send_modify(|orders| {
            let latest = Instant::now() + STOP_GRACE;
            orders.end_by = Some(orders.end_by.map_or(latest, |by| by.min(latest)));
            orders.silent = true;
        });
    }
    while node.tasks.join_next().await.is_some() {}
}

impl Node {
    async fn start_over(&mut self, state: &State) {
        let there: BTreeMap<&str, &Arc<Object>> = state
            .list(Resource::Pods, None)
            .map(|pod| (pod.uid(), pod))
            .collect();
        self.pods.retain(|uid, pod| {
            let stays = there.contains_key(uid.as_str());
            pod.orders.send_modify(|orders| {
                orders.tell_again += 1;
                if !stays {
                    orders.end_by = Some(Instant::now());
                    orders.silent = true;
                }
            });
            stays
        });
        for pod in there.values() {
            self.heard(state, pod, false).await;
        }
    }

    async fn heard(&mut self, state: &State, pod: &Object, gone: bool) {
        if gone {
            // Removed by force: there is no grace left, and nothing to tell.
            if let Some(known) = self.pods.remove(pod.uid()) {
                known.orders.send_modify(|orders| {
                    orders.end_by = Some(Instant::now());
                    orders.silent = true;
                });
            }
            return;
        }
        match need(pod, &self.name) {
            Some(Need::Bind) => carry_out(&self.store, bind(pod, &self.name)).await,
            Some(Need::Start) if !self.pods.contains_key(pod.uid()) => self.start(state, pod),
            Some(Need::Stop) => self.stop(pod).await,
            Some(Need::Nothing) if !self.pods.contains_key(pod.uid()) => self.lost(pod).await,
            Some(Need::Start | Need::Nothing) | None => {}
        }
    }

    fn start(&mut self, state: &State, pod: &Object) {
        let (orders, told) = watch::channel(Orders::default());
        let key = pod.key();
        let runner = Runner {
            store: self.store.clone(),
            directory: pod_directory(&self.state_dir, &key.namespace, &key.name, pod.uid()),
            reaper: self.reaper.clone(),
            uid: pod.uid().to_owned(),
            key: key.clone(),
            pod: pod.value().clone(),
            started: self.store.clock().now(),
            init: vec![Container::Waiting; list(pod.value(), &["spec", "initContainers"]).len()],
            containers: vec![Container::Waiting; list(pod.value(), &["spec", "containers"]).len()],
            orders: told,
        };
        self.tasks.spawn(runner.run(state.clone()));
        self.pods.insert(pod.uid().to_owned(), Pod { orders });
    }

    async fn stop(&mut self, pod: &Object) {
        let grace = pod
            .deletion_grace()
            .and_then(|s| u64::try_from(s).ok())
            .unwrap_or(0);
        let end_by = Instant::now() + Duration::from_secs(grace.min(u64::from(u32::MAX)));
        match self.pods.get(pod.uid()) {
            Some(known) => known.orders.send_modify(|orders| {
                orders.end_by = Some(orders.end_by.map_or(end_by, |by| by.min(end_by)));
            }),
            // It was never started here, or by a node before this one, whose processes ended with it.
            None => carry_out(&self.store, remove(pod.key(), pod.uid())).await,
        }
    }

    /// A pod that is said to run here and does not: its processes ended with the node before this one.
    async fn lost(&self, pod: &Object) {
        if text(pod.value(), &["status", "phase"]) != "Running" {
            return;
        }
        let now = self.store.clock().now();
        let ending = Ending {
            reason: "ContainerStatusUnknown",
            ..Ending::exit(137, now, now)
        };
        let count = list(pod.value(), &["spec", "containers"]).len();
        let init = list(pod.value(), &["spec", "initContainers"]).len();
        let report = Report {
            pod: pod.value(),
            containers: &vec![Container::Ended(ending); count],
            init: &vec![Container::Ended(Ending::exit(0, now, now)); init],
            started: now,
            now,
            pod_ip: POD_IP,
        };
        let (key, uid) = (pod.key().clone(), pod.uid().to_owned());
        carry_out(
            &self.store,
            Write::Report {
                key,
                uid,
                status: report.status(),
            },
        )
        .await;
    }
}

/// The task of one pod.
struct Runner {
    store: Store,
    directory: PathBuf,
    reaper: Reaper,
    uid: String,
    key: Key,
    pod: Value,
    started: jiff::Timestamp,
    init: Vec<Container>,
    containers: Vec<Container>,
    orders: watch::Receiver<Orders>,
}

/// A process that runs.
struct Running {
    child: Child,
    group: u32,
    since: jiff::Timestamp,
}

impl Runner {
    async fn run(mut self, state: State) {
        if self.run_init(&state).await && !self.told_to_go() {
            self.run_containers(&state).await;
        }
        self.tell().await;
        // What has ended is told again if the store forgets it, until the pod is told to go.
        while !self.told_to_go() {
            if self.orders.changed().await.is_err() {
                return;
            }
            self.tell().await;
        }
        if !self.is_silent() {
            carry_out(&self.store, remove(&self.key, &self.uid)).await;
        }
    }

    fn is_silent(&self) -> bool {
        self.orders.borrow().silent
    }

    fn told_to_go(&self) -> bool {
        self.orders.borrow().end_by.is_some()
    }

    async fn tell(&mut self) {
        if self.is_silent() {
            return;
        }
        let report = Report {
            pod: &self.pod,
            containers: &self.containers,
            init: &self.init,
            started: self.started,
            now: self.store.clock().now(),
            pod_ip: POD_IP,
        };
        let (key, uid, status) = (self.key.clone(), self.uid.clone(), report.status());
        // A condition keeps the time at which it came to hold.
        set(
            &mut self.pod,
            &["status", "conditions"],
            status["conditions"].clone(),
        );
        carry_out(&self.store, Write::Report { key, uid, status }).await;
    }

    /// Runs the init containers one after the other; whether the others may run.
    async fn run_init(&mut self, state: &State) -> bool {
        let specs = list(&self.pod, &["spec", "initContainers"]).to_vec();
        for (i, spec) in specs.iter().enumerate() {
            if self.told_to_go() {
                return false;
            }
            match self.start(state, spec).await {
                Ok(running) => {
                    self.init[i] = Container::Running(running.since);
                    self.tell().await;
                    let mut ended = vec![None];
                    self.wait(vec![Some(running)], &mut ended, Phase::Init)
                        .await;
                    self.init[i] = ended
                        .pop()
                        .flatten()
                        .map_or(Container::Waiting, Container::Ended);
                }
                Err(ending) => self.init[i] = Container::Ended(ending),
            }
            if !matches!(&self.init[i], Container::Ended(e) if e.exit_code == 0) {
                return false;
            }
        }
        true
    }

    async fn run_containers(&mut self, state: &State) {
        let specs = list(&self.pod, &["spec", "containers"]).to_vec();
        let mut running = Vec::new();
        for (i, spec) in specs.iter().enumerate() {
            running.push(match self.start(state, spec).await {
                Ok(process) => {
                    self.containers[i] = Container::Running(process.since);
                    Some(process)
                }
                Err(ending) => {
                    self.containers[i] = Container::Ended(ending);
                    None
                }
            });
        }
        if running.iter().all(Option::is_none) {
            return;
        }
        self.tell().await;
        let mut ended = vec![None; running.len()];
        self.wait(running, &mut ended, Phase::Main).await;
    }

    async fn start(&self, state: &State, spec: &Value) -> Result<Running, Ending> {
        let since = self.store.clock().now();
        let failed = |message: String| Ending {
            exit_code: 128,
            reason: "StartError",
            message: Some(message),
            started: since,
            finished: since,
        };
        let plan = spawn::plan(state, &self.pod, spec).map_err(&failed)?;
        let place = Place::make(&self.directory, text(spec, &["name"]))
            .map_err(|e| failed(format!("failed to make a working directory: {e}")))?;
        let child =
            spawn::start(&plan, &place).map_err(|e| failed(format!("failed to start: {e}")))?;
        let group = child
            .id()
            .ok_or_else(|| failed("failed to start: it has no id".to_owned()))?;
        self.reaper.began(group).await;
        Ok(Running {
            child,
            group,
            since,
        })
    }

    /// Waits until all have ended, telling of each, and ends them once that is ordered.
    async fn wait(
        &mut self,
        running: Vec<Option<Running>>,
        ended: &mut [Option<Ending>],
        phase: Phase,
    ) {
        let groups: Vec<Option<u32>> = running
            .iter()
            .map(|r| r.as_ref().map(|r| r.group))
            .collect();
        let mut left: FuturesUnordered<_> = running
            .into_iter()
            .enumerate()
            .filter_map(|(i, running)| running.map(|r| (i, r)))
            .map(|(i, mut running)| async move {
                let status = running.child.wait().await;
                (i, running, status)
            })
            .collect();
        let (mut terminated, mut abandoned) = (false, false);
        let mut told = self.orders.borrow().tell_again;
        loop {
            let Orders {
                end_by, tell_again, ..
            } = *self.orders.borrow_and_update();
            if tell_again > told {
                told = tell_again;
                self.tell().await;
            }
            let living = |ended: &[Option<Ending>]| -> Vec<u32> {
                groups
                    .iter()
                    .zip(ended)
                    .filter_map(|(g, e)| g.filter(|_| e.is_none()))
                    .collect()
            };
            match end_by {
                Some(by) if by <= Instant::now() => living(ended)
                    .into_iter()
                    .for_each(|g| signal(g, Signal::KILL)),
                Some(_) if !terminated => {
                    terminated = true;
                    living(ended)
                        .into_iter()
                        .for_each(|g| signal(g, Signal::TERM));
                }
                _ => {}
            }
            let kill_at = end_by.filter(|by| *by > Instant::now());
            let (i, running, status) = tokio::select! {
                biased;
                next = left.next() => match next {
                    Some(next) => next,
                    None => return,
                },
                changed = self.orders.changed(), if !abandoned => {
                    if changed.is_err() {
                        // The node has let go of the pod: nobody is left to wait for.
                        abandoned = true;
                        living(ended).into_iter().for_each(|g| signal(g, Signal::KILL));
                    }
                    continue;
                }
                () = sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() => continue,
            };
            // A container's processes end with its first one.
            signal(running.group, Signal::KILL);
            self.reaper.ended(running.group).await;
            let ending = Ending::exit(exit_code(status), running.since, self.store.clock().now());
            ended[i] = Some(ending.clone());
            if phase == Phase::Main {
                self.containers[i] = Container::Ended(ending);
                if !left.is_empty() {
                    self.tell().await;
                }
            }
        }
    }
}

/// Which containers are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Init,
    Main,
}

/// As shells and kubelets have it: 128 and the number of the signal that ended a process.
fn exit_code(status: std::io::Result<std::process::ExitStatus>) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    match status {
        Ok(status) => status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
        Err(_) => 128,
    }
}

fn signal(group: u32, signal: Signal) {
    let group = i32::try_from(group).ok().and_then(Pid::from_raw);
    if let Some(group) = group {
        // It fails if all of them have ended, which is what it is for.
        let _ = kill_process_group(group, signal);
    }
}
