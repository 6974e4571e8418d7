//! Runs one pod as processes, from its first process to its removal.

mod start;

use std::path::PathBuf;

use futures::stream::{FuturesUnordered, StreamExt as _};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use tokio::process::Child;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::fault_injection::{Fault, NodeFaults, changed};
use super::reaper::Reaper;
use super::report::{Container, Report, Termination, evicted};
use super::restart::Restarts;
use super::simulated::BACK_OFF_AFTER;
use super::spawn::POD_IP;
use super::{carry_out, cleanup, remove, termination_message};
use crate::access::signing::Keys;
use crate::changes::write::Write;
use crate::objects::object::{Key, list, set, text};
use crate::storage::server::Store;
use crate::storage::store::State;

/// The node's instructions to a pod's task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PodCommands {
    /// When the processes must have terminated, once the pod is being stopped.
    pub(super) end_by: Option<Instant>,
    /// Whether to report nothing more, as the pod or the cluster is gone.
    pub(super) silent: bool,
    /// How often the state was restored; each time the status is reported again.
    pub(super) report_again: u64,
    /// A fault to inject into the containers.
    pub(super) fault: Option<Fault>,
}

impl PodCommands {
    /// Ends the processes by `latest`, or earlier if that was ordered before.
    pub(super) fn stop(&mut self, latest: Instant) {
        self.end_by = Some(self.end_by.map_or(latest, |by| by.min(latest)));
    }

    /// Ends the processes now, without a report.
    pub(super) fn kill(&mut self) {
        self.end_by = Some(Instant::now());
        self.silent = true;
    }
}

pub(super) struct Runner {
    pub(super) store: Store,
    pub(super) directory: PathBuf,
    pub(super) reaper: Reaper,
    pub(super) keys: Keys,
    pub(super) uid: String,
    pub(super) key: Key,
    pub(super) pod: Value,
    pub(super) started: jiff::Timestamp,
    pub(super) init: Vec<Container>,
    pub(super) containers: Vec<Container>,
    pub(super) commands: watch::Receiver<PodCommands>,
    /// The lasting faults of its node.
    pub(super) injected: watch::Receiver<NodeFaults>,
    pub(super) is_evicted: bool,
    pub(super) restarts: Restarts,
    /// Whether the injected fault has taken effect.
    pub(super) fault_applied: bool,
}

struct Running {
    child: Child,
    group: u32,
    since: jiff::Timestamp,
    /// Where it may leave a message for its status.
    message: PathBuf,
    /// Its log, where the end of that stands for a message that it did not leave.
    log: Option<PathBuf>,
    /// When its files must be written again, because a token expires.
    renew: Option<Instant>,
}

impl Runner {
    /// Runs the pod from its first process to its removal.
    pub(super) async fn run(mut self, state: State) {
        self.run_to_removal(state).await;
        let state = self.store.state();
        if state.get(&self.key).is_none_or(|pod| pod.uid() != self.uid) {
            cleanup::remove_directory(self.directory).await;
        }
    }

    async fn run_to_removal(&mut self, state: State) {
        if self.pull().await && self.run_init(&state).await && !self.is_stopping() {
            self.run_containers(&state).await;
            while self.restarts_next().await {
                let state = self.store.state();
                self.run_containers(&state).await;
            }
        }
        cleanup::remove_secrets(&self.pod, &self.directory);
        self.report().await;
        // If a restored state lacks the final status, it is reported again, until the pod is deleted.
        while !self.is_stopping() {
            if self.commands.changed().await.is_err() {
                return;
            }
            self.report().await;
        }
        self.until_reachable().await;
        if !self.is_silent() {
            carry_out(&self.store, remove(&self.key, &self.uid)).await;
        }
    }

    fn is_silent(&self) -> bool {
        self.commands.borrow().silent
    }

    fn is_reachable(&self) -> bool {
        self.injected.borrow().is_up()
    }

    /// Waits while the node cannot report, then reports what has changed.
    async fn until_reachable(&mut self) {
        let was_unreachable = !self.is_reachable();
        while !self.is_reachable() && !self.is_silent() {
            tokio::select! {
                biased;
                changed = self.commands.changed() => if changed.is_err() {
                    return;
                },
                () = changed(&mut self.injected) => {}
            }
        }
        if was_unreachable {
            self.report().await;
        }
    }

    /// Waits until the terminated containers are due for a restart. Returns whether to restart them.
    async fn restarts_next(&mut self) -> bool {
        if !Restarts::are_enabled(&self.pod) || self.is_evicted || self.is_stopping() {
            return false;
        }
        // The next attempt would be refused as well.
        let is_refused = |c: &Container| matches!(c, Container::Refused(_));
        if self.containers.iter().any(is_refused) {
            return false;
        }
        let mut status = self.status();
        let wait = self.restarts.ended(&mut status);
        let until = Instant::now() + wait;
        self.report().await;
        while Instant::now() < until && !self.is_stopping() && !self.is_silent() {
            tokio::select! {
                biased;
                changed = self.commands.changed() => if changed.is_err() {
                    return false;
                },
                () = sleep_until(until) => {}
            }
        }
        let restarts_next = !self.is_stopping() && !self.is_silent();
        if restarts_next {
            self.restarts.begin();
        }
        restarts_next
    }

    fn is_stopping(&self) -> bool {
        self.commands.borrow().end_by.is_some()
    }

    async fn report(&mut self) {
        if self.is_silent() || !self.is_reachable() {
            return;
        }
        // Other clients may have set conditions, which must be kept.
        let state = self.store.state();
        if let Some(pod) = state.get(&self.key).filter(|pod| pod.uid() == self.uid) {
            let conditions = list(pod.value(), &["status", "conditions"]).to_vec();
            set(&mut self.pod, &["status", "conditions"], conditions.into());
        }
        let (key, uid) = (self.key.clone(), self.uid.clone());
        let mut status = self.status();
        if self.is_evicted {
            evicted(&mut status, self.store.clock().now());
        } else {
            self.restarts.add_to(&mut status);
        }
        carry_out(&self.store, Write::Report { key, uid, status }).await;
    }

    fn status(&self) -> Value {
        let report = Report {
            pod: &self.pod,
            containers: &self.containers,
            init: &self.init,
            started: self.started,
            now: self.store.clock().now(),
            pod_ip: POD_IP,
        };
        report.status()
    }

    /// Waits until all images can be pulled. Returns whether to start the pod.
    async fn pull(&mut self) -> bool {
        let mut backing_off = false;
        loop {
            let missing = self.injected.borrow_and_update().missing_images.clone();
            let (mut waits, pod) = (false, &self.pod);
            for (kind, containers) in [
                ("initContainers", &mut self.init),
                ("containers", &mut self.containers),
            ] {
                for (spec, container) in list(pod, &["spec", kind]).iter().zip(containers) {
                    let is_missing = missing.contains(text(spec, &["image"]));
                    waits |= is_missing;
                    *container = if is_missing {
                        Container::NoImage { backing_off }
                    } else {
                        Container::Waiting
                    };
                }
            }
            if !waits && self.is_reachable() {
                return true;
            }
            if waits {
                self.report().await;
            }
            tokio::select! {
                biased;
                changed = self.commands.changed() => if changed.is_err() || self.is_stopping() {
                    return false;
                },
                () = changed(&mut self.injected) => {}
                () = sleep(BACK_OFF_AFTER), if waits && !backing_off => backing_off = true,
            }
        }
    }

    /// Runs the init containers one after the other. Returns whether to start the main containers.
    async fn run_init(&mut self, state: &State) -> bool {
        let specs = list(&self.pod, &["spec", "initContainers"]).to_vec();
        for (i, spec) in specs.iter().enumerate() {
            if self.is_stopping() {
                return false;
            }
            match self.start(state, spec).await {
                Ok(running) => {
                    self.init[i] = Container::Running(running.since);
                    self.report().await;
                    let mut ended = vec![None];
                    self.wait(vec![Some(running)], &mut ended, Phase::Init)
                        .await;
                    self.init[i] = ended
                        .pop()
                        .flatten()
                        .map_or(Container::Waiting, Container::Ended);
                }
                Err(not_started) => self.init[i] = not_started,
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
                Err(not_started) => {
                    self.containers[i] = not_started;
                    None
                }
            });
        }
        if running.iter().all(Option::is_none) {
            return;
        }
        self.report().await;
        let mut ended = vec![None; running.len()];
        self.wait(running, &mut ended, Phase::Main).await;
    }

    /// Waits until all containers have terminated, reports each, and stops them when ordered.
    async fn wait(
        &mut self,
        running: Vec<Option<Running>>,
        ended: &mut [Option<Termination>],
        phase: Phase,
    ) {
        let group = |running: &Option<Running>| Some(running.as_ref()?.group);
        let groups: Vec<Option<u32>> = running.iter().map(group).collect();
        let mut renew = running.iter().flatten().filter_map(|r| r.renew).min();
        let running = running.into_iter().enumerate();
        let mut left: FuturesUnordered<_> = running
            .filter_map(|(i, running)| Some((i, running?)))
            .map(|(i, mut running)| async move {
                let status = running.child.wait().await;
                (i, running, status)
            })
            .collect();
        let (mut terminated, mut abandoned) = (false, false);
        let mut applied = None;
        let mut reported = self.commands.borrow().report_again;
        loop {
            let commands = *self.commands.borrow_and_update();
            if commands.report_again > reported {
                reported = commands.report_again;
                self.report().await;
            }
            if applied.is_none() && commands.fault.is_some() && !self.fault_applied {
                applied = commands.fault;
                self.fault_applied = true;
                self.is_evicted = applied == Some(Fault::Eviction);
                signal_living(&groups, ended, Signal::KILL);
            }
            match commands.end_by {
                Some(by) if by <= Instant::now() => signal_living(&groups, ended, Signal::KILL),
                Some(_) if !terminated => {
                    terminated = true;
                    terminate_living(&groups, ended);
                }
                _ => {}
            }
            let kill_at = commands.end_by.filter(|by| *by > Instant::now());
            let (i, running, status) = tokio::select! {
                biased;
                next = left.next() => match next {
                    Some(next) => next,
                    None => return,
                },
                changed = self.commands.changed(), if !abandoned => {
                    if changed.is_err() {
                        // The node has dropped the pod: nothing waits for its processes.
                        abandoned = true;
                        signal_living(&groups, ended, Signal::KILL);
                    }
                    continue;
                }
                () = sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() => continue,
                () = sleep_until(renew.unwrap_or_else(Instant::now)), if renew.is_some() => {
                    renew = self.renew_files();
                    continue;
                }
            };
            // A container's processes end with its first one.
            signal(running.group, Signal::KILL);
            self.reaper.ended(running.group).await;
            let (since, now) = (running.since, self.store.clock().now());
            let ending = match applied {
                Some(fault) => Termination::by(fault, since, now),
                None => {
                    let code = exit_code(status);
                    let log = running.log.filter(|_| code != 0);
                    let of_log = || termination_message::of_log(&log?);
                    Termination {
                        message: termination_message::read(&running.message).or_else(of_log),
                        ..Termination::exit(code, since, now)
                    }
                }
            };
            ended[i] = Some(ending.clone());
            if phase == Phase::Main {
                self.containers[i] = Container::Ended(ending);
                if !left.is_empty() {
                    self.report().await;
                }
            }
        }
    }
}

/// Whether the init or the main containers are running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Init,
    Main,
}

/// The exit code; 128 plus the signal's number if a signal killed the process, as shells and kubelets report it.
fn exit_code(status: std::io::Result<std::process::ExitStatus>) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    match status {
        Ok(status) => status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
        Err(_) => 128,
    }
}

/// Sends SIGTERM to the first process of each container that has not ended. As with a real runtime the others learn of
/// it from that one, or not at all.
fn terminate_living(groups: &[Option<u32>], ended: &[Option<Termination>]) {
    for (group, ended) in groups.iter().zip(ended) {
        // A group has the id of its first process, which has not been waited for.
        if let (Some(first), None) = (group.and_then(pid), ended) {
            let _ = kill_process(first, Signal::TERM);
        }
    }
}

/// Signals the process groups of the containers that have not ended.
fn signal_living(groups: &[Option<u32>], ended: &[Option<Termination>], with: Signal) {
    for (group, ended) in groups.iter().zip(ended) {
        if let (Some(group), None) = (group, ended) {
            signal(*group, with);
        }
    }
}

fn signal(group: u32, signal: Signal) {
    if let Some(group) = pid(group) {
        // It fails if all processes of the group have ended, which is the purpose.
        let _ = kill_process_group(group, signal);
    }
}

fn pid(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw)
}
