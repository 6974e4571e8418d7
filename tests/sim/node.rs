//! The simulated nodes: they bind pods, start, end and remove them at a drawn pace, and inject faults into pods and
//! nodes.

mod injected_faults;
mod pending;
mod places;
mod restarts;
mod statuses;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use boatswain::clock::Clock;
use devcluster::State;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::claims;
use crate::objects::{Hand, NAMESPACE, is_terminating, label, text};
use crate::trace::say;

use pending::Pending;
use places::{NODES, allowed, name_of};
use restarts::Restarts;

pub use injected_faults::{Mishap, Pace, Plague};
pub use places::{NODE_NAMES, avoided};
pub use statuses::SIDECAR;

/// The fates of this many deleted pods are kept, because a restore may bring the pods back.
const FORGOTTEN_BEYOND: usize = 1_000;

/// How long a node takes to reject a pod that a set has made.
const REJECTS_AFTER: Duration = Duration::from_secs(1);

/// The longest slow start.
const SLOW: Duration = Duration::from_secs(120);

/// What will happen to a pod, and when.
#[derive(Debug)]
struct Fate {
    node: u64,
    bind: Instant,
    run: Instant,
    /// When the container ends by itself, and its exit code.
    end: Option<(Instant, i32)>,
    /// Whether that end is an out-of-memory kill.
    out_of_memory: bool,
    /// Restarts of the container within the pod.
    restarts: Restarts,
    plague: Option<(Plague, Instant)>,
    /// Whether the injected fault has been reported in the pod's status.
    reported: bool,
    /// Until when the pod's phase is `Unknown`.
    unknown: Option<Instant>,
    /// When the pod is removed.
    gone: Option<Instant>,
    /// Whether the status reports the container's exit before the pod is removed.
    reports: bool,
    /// The pod ignores its deletion until the faults end.
    stuck: bool,
    /// The pod's version when it was last processed, and when it is due again.
    attended: String,
    due: Option<Instant>,
}

/// All nodes of the simulated cluster.
pub struct Node {
    hand: Hand,
    pace: Pace,
    clock: Clock,
    rng: StdRng,
    /// Looked up only by uid, for every change of every pod.
    fates: HashMap<String, Fate>,
    /// Profiles whose executors crash soon after their start: until when, and with which exit code.
    crashing: BTreeMap<String, (Instant, i32)>,
    /// Faults of a profile's new executors, and until when.
    plagues: BTreeMap<String, (Plague, Instant)>,
    /// Until when a node is down.
    down: BTreeMap<u64, Instant>,
    due: Option<Instant>,
    /// When the pod being processed is due again.
    pod_due: Option<Instant>,
    /// Whether to process every pod, changed or not.
    all: bool,
    seen: u64,
    /// How the containers ended that were restarted since [`Node::take_restarted`] was last called.
    restarted: Vec<Value>,
}

impl Node {
    pub fn new(hand: Hand, pace: Pace, clock: Clock, seed: u64) -> Self {
        Self {
            hand,
            pace,
            clock,
            rng: StdRng::seed_from_u64(seed),
            fates: HashMap::new(),
            crashing: BTreeMap::new(),
            plagues: BTreeMap::new(),
            down: BTreeMap::new(),
            due: None,
            pod_due: None,
            all: false,
            seen: 0,
            restarted: Vec::new(),
        }
    }

    /// How the containers ended that were restarted since the last call.
    pub fn take_restarted(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.restarted)
    }

    /// When a node has work to do if nothing else changes.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Makes the executors of this profile crash soon after their start, for this long.
    pub fn crash_all(&mut self, profile: &str, time: Duration, code: i32) {
        let until = Instant::now() + time;
        self.crashing.insert(profile.to_owned(), (until, code));
    }

    /// Applies a fault to the executors of this profile that are created from now on, for this long.
    pub fn plague(&mut self, profile: &str, what: Plague, time: Duration) {
        let until = Instant::now() + time;
        self.plagues.insert(profile.to_owned(), (what, until));
    }

    /// Takes a node down for this long; pods evicted meanwhile are removed when it is back. Returns the faults by pod
    /// uid. A pod whose executor had exited before has two, and a driver that saw only the first one reports that.
    pub async fn go_down(
        &mut self,
        pick: u64,
        time: Duration,
        evicts: bool,
        state: &State,
    ) -> Vec<(String, Mishap)> {
        let mut evicted = Vec::new();
        let node = pick % NODES;
        let until = Instant::now() + time;
        self.down.insert(node, until);
        self.wake(until);
        for pod in state.pods(NAMESPACE) {
            if text(pod, "/spec/nodeName") != name_of(node) || is_terminating(pod) {
                continue;
            }
            let (name, uid) = (text(pod, "/metadata/name"), text(pod, "/metadata/uid"));
            self.hand.status(name, statuses::not_ready()).await;
            if evicts {
                say!("   {name} is evicted from {}", name_of(node));
                let taint = statuses::disrupted("DeletionByTaintManager");
                self.hand.status(name, taint).await;
                self.hand.delete(name, uid, None).await;
                evicted.push((uid.to_owned(), Mishap::TaintManager));
                if let Some(code) = statuses::exit_code(pod) {
                    evicted.push((uid.to_owned(), Mishap::Exit(code)));
                }
            }
        }
        evicted
    }

    /// Ends this pod in this way now.
    pub async fn end(&mut self, pod: &Value, how: Mishap) {
        let (name, uid) = (text(pod, "/metadata/name"), text(pod, "/metadata/uid"));
        let wall = self.wall();
        let status = match how {
            Mishap::Exit(code) => {
                if let Some(fate) = self.fates.get_mut(uid) {
                    fate.end = Some((Instant::now(), code));
                    self.attend_to_all();
                }
                return;
            }
            Mishap::OutOfMemory if restarts::are_wanted(pod) => {
                if let Some(fate) = self.fates.get_mut(uid) {
                    fate.end = Some((Instant::now(), 137));
                    fate.out_of_memory = true;
                    self.attend_to_all();
                }
                return;
            }
            Mishap::OutOfMemory => statuses::ended(pod, 137, "OOMKilled", &wall),
            Mishap::Evicted => statuses::failed(
                pod,
                "Evicted",
                "The node was low on resource: memory.",
                &wall,
            ),
            Mishap::NodeShutdown => statuses::failed(
                pod,
                "Terminated",
                "Pod was terminated in response to imminent node shutdown.",
                &wall,
            ),
            Mishap::Preempted => statuses::disrupted("PreemptionByScheduler"),
            Mishap::TaintManager => statuses::disrupted("DeletionByTaintManager"),
            Mishap::NodeLost => json!({"reason": "NodeLost", "message": "Node is gone"}),
            Mishap::Sidecar(code) => statuses::sidecar_ended(pod, code, &wall),
            Mishap::PhaseUnknown => {
                if let Some(fate) = self.fates.get_mut(uid) {
                    let until = Instant::now() + SLOW.mul_f64(self.rng.random());
                    fate.unknown = Some(until);
                    self.wake(until);
                }
                statuses::unknown()
            }
        };
        let code = self.hand.status(name, status).await;
        say!("   {name} {}: {how:?} {code}", short(uid));
        if matches!(
            how,
            Mishap::Preempted | Mishap::TaintManager | Mishap::NodeLost
        ) {
            self.hand.delete(name, uid, None).await;
        }
    }

    /// Makes this pod ignore its deletion until the faults end.
    pub fn get_stuck(&mut self, uid: &str) {
        if let Some(fate) = self.fates.get_mut(uid) {
            fate.stuck = true;
        }
    }

    /// Ends all injected faults.
    pub fn calm(&mut self) {
        self.crashing.clear();
        self.plagues.clear();
        self.down.clear();
        let now = Instant::now();
        for fate in self.fates.values_mut() {
            fate.stuck = false;
            fate.plague = fate.plague.map(|(plague, _)| (plague, now));
            fate.unknown = fate.unknown.map(|_| now);
            fate.restarts.hurry(now);
            fate.run = fate.run.min(now + self.pace.bind + self.pace.start);
            if fate.end.is_some_and(|(at, _)| at > now) {
                fate.end = None;
            }
        }
        self.attend_to_all();
    }

    fn attend_to_all(&mut self) {
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
        let all = std::mem::take(&mut self.all) || self.down.len() < down;
        self.due = self.down.values().copied().min();
        if self.fates.len() > FORGOTTEN_BEYOND + 2 * state.pods(NAMESPACE).count() {
            let there: BTreeSet<&str> = (state.pods(NAMESPACE))
                .map(|pod| text(pod, "/metadata/uid"))
                .collect();
            self.fates.retain(|uid, _| there.contains(uid.as_str()));
        }
        for pod in state.pods(NAMESPACE) {
            let (uid, version) = (
                text(pod, "/metadata/uid"),
                text(pod, "/metadata/resourceVersion"),
            );
            let fate = self.fates.get(uid).filter(|_| !all);
            let unchanged = fate
                .filter(|fate| fate.attended == version && fate.due.is_none_or(|due| due > now));
            if let Some(fate) = unchanged {
                self.due = [self.due, fate.due].into_iter().flatten().min();
                continue;
            }
            self.pod_due = None;
            self.attend(pod, now, claims::is_provided(pod, state)).await;
            if let Some(fate) = self.fates.get_mut(uid) {
                fate.attended = version.to_owned();
                fate.due = self.pod_due;
            }
        }
    }

    /// `provided`: whether everything the pod mounts exists.
    async fn attend(&mut self, pod: &Value, now: Instant, provided: bool) {
        let (name, uid) = (text(pod, "/metadata/name"), text(pod, "/metadata/uid"));
        if !self.fates.contains_key(uid) {
            let fate = self.draw(pod, now);
            self.fates.insert(uid.to_owned(), fate);
        }
        let bound_to = text(pod, "/spec/nodeName");
        let down =
            (self.down.iter()).any(|(node, until)| *until > now && name_of(*node) == bound_to);
        let Some(fate) = self.fates.get_mut(uid) else {
            return;
        };
        if is_terminating(pod) {
            if fate.stuck || is_held(pod) || down {
                return;
            }
            return self.take_away(pod, now).await;
        }
        if down {
            return;
        }
        let end = fate.end;
        let plague = fate.plague.filter(|(_, until)| *until > now);
        let pending = Pending {
            bind: fate.bind,
            run: fate.run,
            end,
            node: name_of(fate.node),
            plague: plague.map(|(plague, _)| plague),
            reported: fate.reported,
        };
        fate.reported |= plague.is_some();
        let unknown = fate.unknown.filter(|until| *until > now);
        if let Some((_, until)) = plague {
            self.wake(until);
        }
        match text(pod, "/status/phase") {
            "Pending" => self.attend_pending(pod, now, provided, pending).await,
            "Running" if restarts::are_wanted(pod) => self.keep_going(pod, now).await,
            "Running" => match end {
                Some((at, code)) if at <= now => {
                    say!("node: {name} {} ends with {code}", short(uid));
                    let reason = if code == 0 { "Completed" } else { "Error" };
                    let end = statuses::ended(pod, code, reason, &self.wall());
                    self.hand.status(name, end).await;
                }
                Some((at, _)) => self.wake(at),
                None => {}
            },
            "Unknown" => match unknown {
                Some(until) => self.wake(until),
                None => {
                    let running = self.running(pod);
                    self.hand.status(name, running).await;
                }
            },
            _ => {}
        }
    }

    async fn report_once(&self, name: &str, reported: bool, status: Value) {
        if !reported {
            self.hand.status(name, status).await;
        }
    }

    /// Removes a pod that is being deleted once its drawn stop time has passed.
    async fn take_away(&mut self, pod: &Value, now: Instant) {
        let (name, uid) = (text(pod, "/metadata/name"), text(pod, "/metadata/uid"));
        let wall = self.wall();
        let Some(fate) = self.fates.get_mut(uid) else {
            return;
        };
        let gone = *fate.gone.get_or_insert_with(|| {
            let grace = pod.pointer("/metadata/deletionGracePeriodSeconds");
            let grace = Duration::from_secs(grace.and_then(Value::as_u64).unwrap_or(0));
            now + self.pace.stop.min(grace).mul_f64(self.rng.random())
        });
        if gone > now {
            return self.wake(gone);
        }
        if fate.reports && text(pod, "/status/phase") == "Running" {
            let end = statuses::ended(pod, 143, "Error", &wall);
            self.hand.status(name, end).await;
        }
        say!("node: {name} {} is gone", short(uid));
        self.hand.delete(name, uid, Some(0)).await;
    }

    fn draw(&mut self, pod: &Value, now: Instant) -> Fate {
        let profile = label(pod, "boatswain.dev/profile");
        let plague = (self.plagues.get(profile).copied()).filter(|(_, until)| now < *until);
        let bind = now + self.pace.bind.mul_f64(self.rng.random());
        let start = match plague {
            Some((Plague::Slow, _)) => SLOW,
            _ => self.pace.start,
        };
        let run = bind + start.mul_f64(self.rng.random());
        let crash = self.crashing.get(profile);
        let life = Duration::from_millis(self.rng.random_range(0..2_000));
        Fate {
            node: allowed(self.rng.random_range(0..NODES), pod),
            bind,
            run,
            end: (crash.filter(|(until, _)| now < *until)).map(|(_, code)| (run + life, *code)),
            out_of_memory: false,
            restarts: Restarts::default(),
            plague,
            reported: false,
            unknown: None,
            gone: None,
            reports: self.rng.random_bool(0.5),
            stuck: false,
            attended: String::new(),
            due: None,
        }
    }

    fn wall(&self) -> String {
        self.clock.now().wall.strftime("%FT%TZ").to_string()
    }

    fn wake(&mut self, at: Instant) {
        self.pod_due = Some(self.pod_due.map_or(at, |due| due.min(at)));
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}

/// Whether only a finalizer keeps the object.
fn is_held(pod: &Value) -> bool {
    let grace = pod.pointer("/metadata/deletionGracePeriodSeconds");
    pod.pointer("/metadata/finalizers").is_some() && grace.and_then(Value::as_u64) == Some(0)
}

/// A prefix of the uid, long enough to be unique.
pub fn short(uid: &str) -> &str {
    uid.get(..8).unwrap_or(uid)
}
