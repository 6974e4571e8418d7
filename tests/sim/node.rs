//! The simulated nodes: they bind pods, start, end and remove them at a drawn pace, and inject faults into pods and
//! nodes.

mod injected_faults;
mod pending;
mod placement;
mod restarts;
pub mod statuses;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use boatswain::clock::Clock;
use devcluster::State;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::claims;
use crate::leaving_nodes::{Ends, NodeObjects};
use crate::objects::{DirectClient, NAMESPACE, is_terminating, label, text};
use crate::script::Script;
use crate::trace::trace_line;

use pending::PendingPlan;
use placement::{NODES, allowed_node};
use restarts::Restarts;

pub use injected_faults::{Pace, PodFault, StartupFault};
pub use placement::{NODE_NAMES, excluded_nodes, node_name};
pub use restarts::restarts_containers;
pub use statuses::SIDECAR;

/// The plans of this many deleted pods are kept, because a restore may bring the pods back.
const MAX_KEPT_PLANS: usize = 1_000;

/// How long a node takes to reject a pod that a set has made.
const REJECTION_DELAY: Duration = Duration::from_secs(1);

/// The longest slow start.
const LONGEST_SLOW_START: Duration = Duration::from_secs(120);

/// What will happen to a pod, and when.
#[derive(Debug)]
struct PodPlan {
    node: u64,
    bind: Instant,
    run: Instant,
    /// When the container ends by itself, and its exit code.
    end: Option<(Instant, i32)>,
    /// Whether that end is an out-of-memory kill.
    out_of_memory: bool,
    /// Restarts of the container within the pod.
    restarts: Restarts,
    startup_fault: Option<(StartupFault, Instant)>,
    /// Whether the injected fault has been reported in the pod's status.
    reported: bool,
    /// Until when the pod's phase is `Unknown`.
    unknown: Option<Instant>,
    /// When the pod is removed.
    gone: Option<Instant>,
    /// Whether the status reports the container's exit before the pod is removed.
    reports: bool,
    /// The pod stays after its deletion until the faults end.
    deletion_blocked: bool,
    /// The pod's version when it was last processed, and when it is due again.
    processed_version: String,
    due: Option<Instant>,
}

/// All nodes of the simulated cluster.
pub struct Nodes {
    client: DirectClient,
    pace: Pace,
    clock: Clock,
    rng: StdRng,
    /// Looked up only by uid, for every change of every pod.
    plans: HashMap<String, PodPlan>,
    /// Profiles whose executors crash soon after their start: until when, and with which exit code.
    crashing: BTreeMap<String, (Instant, i32)>,
    /// Faults of a profile's new executors, and until when.
    startup_faults: BTreeMap<String, (StartupFault, Instant)>,
    /// The node objects.
    pub objects: NodeObjects,
    /// Until when a node is down.
    down: BTreeMap<u64, Instant>,
    due: Option<Instant>,
    /// When the pod being processed is due again.
    pod_due: Option<Instant>,
    /// Whether to process every pod, changed or not.
    all: bool,
    seen: u64,
    /// How the containers ended that were restarted since [`Nodes::take_restarted`] was last called.
    restarted: Vec<Value>,
    /// The containers that have exited since [`Nodes::take_exited`] was last called.
    exited: Vec<Exited>,
}

/// An executor's container that has exited.
#[derive(Debug)]
pub struct Exited {
    pub name: String,
    pub uid: String,
    pub code: i32,
    pub is_restarted: bool,
}

impl Nodes {
    pub fn new(client: DirectClient, script: &Script, clock: Clock) -> Self {
        let (seed, pace) = (script.seed, script.pace);
        Self {
            client,
            pace,
            clock,
            rng: StdRng::seed_from_u64(seed),
            plans: HashMap::new(),
            crashing: BTreeMap::new(),
            startup_faults: BTreeMap::new(),
            objects: NodeObjects::of(&script.config),
            down: BTreeMap::new(),
            due: None,
            pod_due: None,
            all: false,
            seen: 0,
            restarted: Vec::new(),
            exited: Vec::new(),
        }
    }

    /// How the containers ended that were restarted since the last call.
    pub fn take_restarted(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.restarted)
    }

    /// The containers that have exited since the last call.
    pub fn take_exited(&mut self) -> Vec<Exited> {
        std::mem::take(&mut self.exited)
    }

    /// When a node has work to do if nothing else changes.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Makes the executors of this profile crash soon after their start, for this long.
    pub fn crash_profile(&mut self, profile: &str, time: Duration, code: i32) {
        let until = Instant::now() + time;
        self.crashing.insert(profile.to_owned(), (until, code));
    }

    /// Applies a fault to the executors of this profile that are created from now on, for this long.
    pub fn add_startup_fault(&mut self, profile: &str, what: StartupFault, time: Duration) {
        let until = Instant::now() + time;
        self.startup_faults
            .insert(profile.to_owned(), (what, until));
    }

    /// Takes a node down for this long. Pods that are evicted meanwhile are removed when it is back. Returns the faults
    /// by pod. A pod whose executor had exited before has two, and a driver that saw only the first one reports
    /// that.
    pub async fn take_node_down(
        &mut self,
        pick: u64,
        time: Duration,
        evicts: bool,
        state: &State,
    ) -> Vec<(Value, PodFault)> {
        let mut evicted = Vec::new();
        let node = pick % NODES;
        let until = Instant::now() + time;
        self.down.insert(node, until);
        self.wake(until);
        for pod in state.pods(NAMESPACE) {
            if text(pod, "/spec/nodeName") != node_name(node) || is_terminating(pod) {
                continue;
            }
            let (name, uid) = (text(pod, "/metadata/name"), text(pod, "/metadata/uid"));
            self.client.status(name, statuses::not_ready()).await;
            if evicts {
                trace_line!("   {name} is evicted from {}", node_name(node));
                let taint = statuses::disrupted("DeletionByTaintManager");
                self.client.status(name, taint).await;
                self.client.delete(name, uid, None).await;
                evicted.push((pod.clone(), PodFault::TaintManager));
                if let Some(code) = statuses::exit_code(pod) {
                    evicted.push((pod.clone(), PodFault::Exit(code)));
                }
            }
        }
        evicted
    }

    /// A node is about to leave, or is not any more. Returns the faults of its pods, if it is deleted.
    pub async fn end_leaving(&mut self, pick: u64, state: &State) -> Vec<(Value, PodFault)> {
        let ends = self.objects.end(node_name(pick % NODES));
        self.process_all();
        match ends {
            Some(Ends::Gone) => {
                let time = Duration::from_secs(1);
                self.take_node_down(pick, time, true, state).await
            }
            _ => Vec::new(),
        }
    }

    /// A node is about to leave, unless another one is. Returns its name.
    pub fn begin_leaving(&mut self, pick: u64, ends: Ends) -> Option<&'static str> {
        let name = node_name(pick % NODES);
        self.process_all();
        self.objects.leave(name, ends).then_some(name)
    }

    /// Ends this pod in this way now.
    pub async fn end(&mut self, pod: &Value, how: PodFault) {
        let (name, uid) = (text(pod, "/metadata/name"), text(pod, "/metadata/uid"));
        let wall_clock = self.wall_clock();
        let status = match how {
            PodFault::Exit(code) => {
                if let Some(plan) = self.plans.get_mut(uid) {
                    plan.end = Some((Instant::now(), code));
                    self.process_all();
                }
                return;
            }
            PodFault::OutOfMemory if restarts::restarts_containers(pod) => {
                if let Some(plan) = self.plans.get_mut(uid) {
                    plan.end = Some((Instant::now(), 137));
                    plan.out_of_memory = true;
                    self.process_all();
                }
                return;
            }
            PodFault::OutOfMemory => statuses::ended(pod, 137, "OOMKilled", &wall_clock),
            PodFault::Evicted => statuses::failed(
                pod,
                "Evicted",
                "The node was low on resource: memory.",
                &wall_clock,
            ),
            PodFault::NodeShutdown => statuses::failed(
                pod,
                "Terminated",
                "Pod was terminated in response to imminent node shutdown.",
                &wall_clock,
            ),
            PodFault::Preempted => statuses::disrupted("PreemptionByScheduler"),
            PodFault::TaintManager => statuses::disrupted("DeletionByTaintManager"),
            PodFault::NodeLost => json!({"reason": "NodeLost", "message": "Node is gone"}),
            PodFault::Sidecar(code) => statuses::sidecar_ended(pod, code, &wall_clock),
            PodFault::PhaseUnknown => {
                if let Some(plan) = self.plans.get_mut(uid) {
                    let until = Instant::now() + LONGEST_SLOW_START.mul_f64(self.rng.random());
                    plan.unknown = Some(until);
                    self.wake(until);
                }
                statuses::unknown()
            }
        };
        let code = self.client.status(name, status).await;
        trace_line!("   {name} {}: {how:?} {code}", short(uid));
        if matches!(
            how,
            PodFault::Preempted | PodFault::TaintManager | PodFault::NodeLost
        ) {
            self.client.delete(name, uid, None).await;
        }
    }

    /// Makes this pod stay after its deletion until the faults end.
    pub fn block_deletion(&mut self, uid: &str) {
        if let Some(plan) = self.plans.get_mut(uid) {
            plan.deletion_blocked = true;
        }
    }

    /// Ends all injected faults.
    pub fn end_faults(&mut self) {
        self.crashing.clear();
        self.startup_faults.clear();
        self.objects.end_faults();
        self.down.clear();
        let now = Instant::now();
        for plan in self.plans.values_mut() {
            plan.deletion_blocked = false;
            plan.startup_fault = plan
                .startup_fault
                .map(|(startup_fault, _)| (startup_fault, now));
            plan.unknown = plan.unknown.map(|_| now);
            plan.restarts.make_due(now);
            plan.run = plan.run.min(now + self.pace.bind + self.pace.start);
            if plan.end.is_some_and(|(at, _)| at > now) {
                plan.end = None;
            }
        }
        self.process_all();
    }

    fn process_all(&mut self) {
        self.all = true;
        self.due = Some(Instant::now());
    }

    /// Performs all due work.
    pub async fn work(&mut self, state: &State) {
        let now = Instant::now();
        let version = state.resource_version();
        if version == self.seen && self.due.is_none_or(|due| due > now) {
            return;
        }
        self.seen = version;
        let down = self.down.len();
        self.down.retain(|_, until| *until > now);
        let names = self.down.keys().map(|node| node_name(*node));
        self.objects.set_down(names.collect());
        self.objects.write(&self.client, state).await;
        let all = std::mem::take(&mut self.all) || self.down.len() < down;
        self.due = self.down.values().copied().min();
        if self.plans.len() > MAX_KEPT_PLANS + 2 * state.pods(NAMESPACE).count() {
            let there: BTreeSet<&str> = (state.pods(NAMESPACE))
                .map(|pod| text(pod, "/metadata/uid"))
                .collect();
            self.plans.retain(|uid, _| there.contains(uid.as_str()));
        }
        for pod in state.pods(NAMESPACE) {
            let (uid, version) = (
                text(pod, "/metadata/uid"),
                text(pod, "/metadata/resourceVersion"),
            );
            let plan = self.plans.get(uid).filter(|_| !all);
            let unchanged = plan.filter(|plan| {
                plan.processed_version == version && plan.due.is_none_or(|due| due > now)
            });
            if let Some(plan) = unchanged {
                self.due = [self.due, plan.due].into_iter().flatten().min();
                continue;
            }
            self.pod_due = None;
            self.process_pod(pod, now, claims::mounts_exist(pod, state))
                .await;
            if let Some(plan) = self.plans.get_mut(uid) {
                plan.processed_version = version.to_owned();
                plan.due = self.pod_due;
            }
        }
    }

    /// `mounts_exist`: whether everything the pod mounts exists.
    async fn process_pod(&mut self, pod: &Value, now: Instant, mounts_exist: bool) {
        let (name, uid) = (text(pod, "/metadata/name"), text(pod, "/metadata/uid"));
        if !self.plans.contains_key(uid) {
            let plan = self.draw_plan(pod, now);
            self.plans.insert(uid.to_owned(), plan);
        }
        let bound_to = text(pod, "/spec/nodeName");
        let down =
            (self.down.iter()).any(|(node, until)| *until > now && node_name(*node) == bound_to);
        let Some(plan) = self.plans.get_mut(uid) else {
            return;
        };
        if is_terminating(pod) {
            if plan.deletion_blocked || is_kept_by_finalizer(pod) || down {
                return;
            }
            return self.remove_pod(pod, now).await;
        }
        if down {
            return;
        }
        let end = plan.end;
        let startup_fault = plan.startup_fault.filter(|(_, until)| *until > now);
        let pending = PendingPlan {
            bind: plan.bind,
            run: plan.run,
            end,
            node: node_name(plan.node),
            startup_fault: startup_fault.map(|(startup_fault, _)| startup_fault),
            reported: plan.reported,
        };
        plan.reported |= startup_fault.is_some();
        let unknown = plan.unknown.filter(|until| *until > now);
        if let Some((_, until)) = startup_fault {
            self.wake(until);
        }
        match text(pod, "/status/phase") {
            "Pending" => self.process_pending(pod, now, mounts_exist, pending).await,
            "Running" if restarts::restarts_containers(pod) => {
                self.process_restarts(pod, now).await
            }
            "Running" => match end {
                Some((at, code)) if at <= now => {
                    trace_line!("node: {name} {} ends with {code}", short(uid));
                    let reason = if code == 0 { "Completed" } else { "Error" };
                    let end = statuses::ended(pod, code, reason, &self.wall_clock());
                    self.client.status(name, end).await;
                    self.exited.push(Exited {
                        name: name.to_owned(),
                        uid: uid.to_owned(),
                        code,
                        is_restarted: false,
                    });
                }
                Some((at, _)) => self.wake(at),
                None => {}
            },
            "Unknown" => match unknown {
                Some(until) => self.wake(until),
                None => {
                    let running = self.running(pod);
                    self.client.status(name, running).await;
                }
            },
            _ => {}
        }
    }

    async fn report_once(&self, name: &str, reported: bool, status: Value) {
        if !reported {
            self.client.status(name, status).await;
        }
    }

    /// Removes a pod that is being deleted once its drawn stop time has passed.
    async fn remove_pod(&mut self, pod: &Value, now: Instant) {
        let (name, uid) = (text(pod, "/metadata/name"), text(pod, "/metadata/uid"));
        let wall_clock = self.wall_clock();
        let Some(plan) = self.plans.get_mut(uid) else {
            return;
        };
        let gone = *plan.gone.get_or_insert_with(|| {
            let grace = pod.pointer("/metadata/deletionGracePeriodSeconds");
            let grace = Duration::from_secs(grace.and_then(Value::as_u64).unwrap_or(0));
            now + self.pace.stop.min(grace).mul_f64(self.rng.random())
        });
        if gone > now {
            return self.wake(gone);
        }
        if plan.reports && text(pod, "/status/phase") == "Running" {
            let end = statuses::ended(pod, 143, "Error", &wall_clock);
            self.client.status(name, end).await;
        }
        trace_line!("node: {name} {} is gone", short(uid));
        self.client.delete(name, uid, Some(0)).await;
    }

    fn draw_plan(&mut self, pod: &Value, now: Instant) -> PodPlan {
        let profile = label(pod, "boatswain.dev/profile");
        let startup_fault =
            (self.startup_faults.get(profile).copied()).filter(|(_, until)| now < *until);
        let bind = now + self.pace.bind.mul_f64(self.rng.random());
        let start = match startup_fault {
            Some((StartupFault::Slow, _)) => LONGEST_SLOW_START,
            _ => self.pace.start,
        };
        let run = bind + start.mul_f64(self.rng.random());
        let crash = self.crashing.get(profile);
        let life = Duration::from_millis(self.rng.random_range(0..2_000));
        PodPlan {
            node: allowed_node(self.rng.random_range(0..NODES), pod, &self.objects),
            bind,
            run,
            end: (crash.filter(|(until, _)| now < *until)).map(|(_, code)| (run + life, *code)),
            out_of_memory: false,
            restarts: Restarts::default(),
            startup_fault,
            reported: false,
            unknown: None,
            gone: None,
            reports: self.rng.random_bool(0.5),
            deletion_blocked: false,
            processed_version: String::new(),
            due: None,
        }
    }

    fn wall_clock(&self) -> String {
        self.clock.now().wall.strftime("%FT%TZ").to_string()
    }

    fn wake(&mut self, at: Instant) {
        self.pod_due = Some(self.pod_due.map_or(at, |due| due.min(at)));
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}

/// Whether only a finalizer keeps the object.
fn is_kept_by_finalizer(pod: &Value) -> bool {
    let grace = pod.pointer("/metadata/deletionGracePeriodSeconds");
    pod.pointer("/metadata/finalizers").is_some() && grace.and_then(Value::as_u64) == Some(0)
}

/// A prefix of the uid, long enough to be unique.
pub fn short(uid: &str) -> &str {
    uid.get(..8).unwrap_or(uid)
}
