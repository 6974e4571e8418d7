//! The simulated node: binds pods and reports them as running, with configurable delays and failures, but runs nothing.

mod steps;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::down::{self, DownEnd};
use super::fault_injection::{Fault, FaultMessage, FaultReceiver, NodeFaults};
use super::restart::Restarts;
use super::{Need, carry_out, containers, need, pod_of, register, volumes};
use crate::objects::object::{Key, Object, condition, list, text};
use crate::objects::resource::Resource;
use crate::options::SimulatedNode;
use crate::storage::follow::{Follower, Update};
use crate::storage::server::Store;

/// How many writes are in flight at once: enough for the store to carry them out in batches.
const MAX_IN_FLIGHT: usize = 64;

/// How long after a failed image pull the node reports `ImagePullBackOff`.
pub(super) const BACK_OFF_AFTER: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Bind,
    Start,
    /// It reports again that its image cannot be pulled.
    BackOff,
    /// It reports that it is ready, after the cluster had marked it as not ready.
    ReportReady,
    Fail(Fault),
    /// Its containers are restarted.
    Restart,
    Stop,
}

/// What the node knows of a pod, and its next transition.
#[derive(Debug)]
struct Pod {
    key: Key,
    next: Option<(Instant, u64)>,
    started: Option<jiff::Timestamp>,
    address: String,
    /// Whether it waits for an image that cannot be pulled.
    has_no_image: bool,
    restarts: Restarts,
}

struct Node {
    store: Store,
    options: SimulatedNode,
    seed: u64,
    pods: BTreeMap<String, Pod>,
    /// The planned transitions by time, then by the order of planning. There is at most one for each pod, the one in
    /// `Pod::next`.
    schedule: BTreeMap<(Instant, u64), (String, Step)>,
    sequence: u64,
    addresses: u32,
    injected: watch::Receiver<NodeFaults>,
}

/// Runs until the cluster stops. It holds `_alive` until it ends.
pub(crate) async fn run(
    store: Store,
    options: SimulatedNode,
    seed: u64,
    mut fault_receiver: FaultReceiver,
    _alive: watch::Receiver<()>,
) {
    let mut follower = Follower::new(&store);
    let mut node = Node {
        store,
        options,
        seed,
        pods: BTreeMap::new(),
        schedule: BTreeMap::new(),
        sequence: 0,
        addresses: 0,
        injected: fault_receiver.injected(),
    };
    loop {
        if !node.injected.borrow().is_up() {
            let (store, name) = (&node.store, &node.options.name);
            if down::serve(store, name, &mut follower, &mut fault_receiver).await
                == DownEnd::Stopped
            {
                return;
            }
            let state = node.store.state();
            node.resync(state.list(Resource::Pods, None));
            continue;
        }
        let next = node.schedule.first_key_value().map(|((at, _), _)| *at);
        tokio::select! {
            biased;
            update = follower.next() => match update {
                None => return,
                Some(Update::Reset(state)) => node.resync(state.list(Resource::Pods, None)),
                Some(Update::Events(events, state)) => {
                    for (pod, gone) in events.iter().filter_map(|e| pod_of(e)) {
                        node.handle(pod, gone);
                    }
                    let unblocks = |e| register::makes_schedulable(e, &node.options.name) || volumes::is_claim_added(e);
                    if events.iter().any(|event| unblocks(event)) {
                        for pod in state.list(Resource::Pods, None) {
                            node.handle(pod, false);
                        }
                    }
                }
            },
            message = fault_receiver.next() => match message {
                FaultMessage::Changed if !node.injected.borrow().is_up() => continue,
                FaultMessage::Changed => node.retry_images(),
                FaultMessage::Fault(uid, fault) => {
                    node.plan_step(&uid, Instant::now(), Step::Fail(fault));
                }
            },
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
        node.run_due_steps().await;
    }
}

impl Node {
    fn resync<'a>(&mut self, pods: impl Iterator<Item = &'a std::sync::Arc<Object>>) {
        self.pods.clear();
        self.schedule.clear();
        for pod in pods {
            self.handle(pod, false);
        }
    }

    fn handle(&mut self, pod: &Object, gone: bool) {
        if gone {
            if let Some(next) = self.pods.remove(pod.uid()).and_then(|known| known.next) {
                self.schedule.remove(&next);
            }
            return;
        }
        let Some(need) = need(pod, &self.options.name) else {
            return;
        };
        let known = self.pods.get(pod.uid());
        match need {
            Need::Bind if known.is_none() => self.plan(pod, self.options.bind_delay, Step::Bind),
            Need::Start if known.is_none_or(|k| k.started.is_none() && !k.has_no_image) => {
                let slow = self
                    .random_for(pod.uid(), "start")
                    .random_bool(self.options.slow_start_rate.clamp(0.0, 1.0));
                let delay = if slow {
                    self.options.slow_start_delay
                } else {
                    self.options.start_delay
                };
                // A pod has several events before it starts; the first plan stands.
                if !self.is_planned(pod.uid(), Step::Start) {
                    self.plan(pod, delay, Step::Start);
                }
            }
            Need::Stop => {
                let grace = Duration::from_secs(
                    pod.deletion_grace()
                        .and_then(|s| s.try_into().ok())
                        .unwrap_or(0),
                );
                if !self.is_planned(pod.uid(), Step::Stop) || grace < self.options.stop_delay {
                    self.plan(pod, self.options.stop_delay.min(grace), Step::Stop);
                }
            }
            // After a restart of the cluster, running pods are left as they are, but their failures are planned again.
            Need::Nothing if known.is_none() => {
                self.track(pod);
                if Restarts::are_enabled(pod.value()) && has_stopped(pod) {
                    self.plan_step(pod.uid(), Instant::now(), Step::Restart);
                } else if is_marked_not_ready(pod) {
                    self.plan_step(pod.uid(), Instant::now(), Step::ReportReady);
                } else {
                    self.plan_failure(pod.uid());
                }
            }
            Need::Bind | Need::Start | Need::Nothing => {}
        }
    }

    fn track(&mut self, pod: &Object) -> &mut Pod {
        let addresses = &mut self.addresses;
        self.pods.entry(pod.uid().to_owned()).or_insert_with(|| {
            let given = text(pod.value(), &["status", "podIP"]).parse::<Ipv4Addr>();
            let address = match given.map(|address| address.octets()) {
                // An earlier node assigned this address; new pods must not get it.
                Ok([first, a, b, c]) => {
                    *addresses = (*addresses).max(u32::from_be_bytes([0, a & 127, b, c]));
                    Ipv4Addr::new(first, a, b, c)
                }
                Err(_) => {
                    *addresses += 1;
                    let [_, a, b, c] = addresses.to_be_bytes();
                    Ipv4Addr::new(10, 128 | (a & 127), b, c)
                }
            };
            Pod {
                key: pod.key().clone(),
                next: None,
                // An earlier node may have started the pod.
                started: text(pod.value(), &["status", "startTime"]).parse().ok(),
                address: address.to_string(),
                has_no_image: false,
                restarts: Restarts::of(pod.value()),
            }
        })
    }

    fn is_planned(&self, uid: &str, step: Step) -> bool {
        let next = self.pods.get(uid).and_then(|pod| pod.next);
        next.and_then(|next| self.schedule.get(&next))
            .is_some_and(|(_, planned)| *planned == step)
    }

    /// Plans the next transition of a pod; it replaces the planned one.
    fn plan(&mut self, pod: &Object, after: Duration, step: Step) {
        self.track(pod);
        self.plan_step(pod.uid(), Instant::now() + after, step);
    }

    fn plan_step(&mut self, uid: &str, at: Instant, step: Step) {
        let Some(pod) = self.pods.get_mut(uid) else {
            return;
        };
        if let Some(before) = pod.next.take() {
            self.schedule.remove(&before);
        }
        self.sequence += 1;
        pod.next = Some((at, self.sequence));
        self.schedule
            .insert((at, self.sequence), (uid.to_owned(), step));
    }

    /// Starts the pods whose images can be pulled now.
    fn retry_images(&mut self) {
        let state = self.store.state();
        let missing = self.injected.borrow().missing_images.clone();
        let has_all = |pod: &Pod| {
            let pod = state.get(&pod.key);
            pod.is_some_and(|p| containers(p.value()).all(|(_, image)| !missing.contains(image)))
        };
        let waiting = self.pods.iter().filter(|(_, pod)| pod.has_no_image);
        let ready: Vec<String> = waiting
            .filter(|(_, pod)| has_all(pod))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in ready {
            if !self.is_planned(&uid, Step::Stop) {
                self.plan_step(&uid, Instant::now(), Step::Start);
            }
        }
    }

    /// A random generator for each pod and purpose, so that a pod's behaviour does not depend on other pods.
    fn random_for(&self, uid: &str, of: &str) -> StdRng {
        let mixed = uid
            .bytes()
            .chain(of.bytes())
            .fold(self.seed ^ 0xCBF2_9CE4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
            });
        StdRng::seed_from_u64(mixed)
    }

    /// Decides whether and when a running pod fails.
    fn plan_failure(&mut self, uid: &str) {
        let restarts = self.pods.get(uid).map_or(0, |pod| pod.restarts.count());
        let mut random = match restarts {
            0 => self.random_for(uid, "trouble"),
            // Each restart draws anew; otherwise a pod that crashed once would always crash.
            n => self.random_for(uid, &format!("trouble {n}")),
        };
        let mut draw: f64 = random.random();
        let options = &self.options;
        let failures = [
            (options.crash_rate, Fault::Crash(1)),
            (options.out_of_memory_rate, Fault::OutOfMemory),
            (options.eviction_rate, Fault::Eviction),
        ];
        let within = options.trouble_within;
        for (rate, fault) in failures {
            if draw < rate {
                let after = within.mul_f64(random.random());
                self.plan_step(uid, Instant::now() + after, Step::Fail(fault));
                return;
            }
            draw -= rate;
        }
    }

    async fn run_due_steps(&mut self) {
        let now = Instant::now();
        loop {
            let mut writes = Vec::new();
            while writes.len() < MAX_IN_FLIGHT
                && let Some(entry) = self.schedule.first_entry()
                && entry.key().0 <= now
            {
                let (uid, step) = entry.remove();
                writes.extend(self.step(&uid, step));
            }
            if writes.is_empty() {
                return;
            }
            let store = &self.store;
            join_all(writes.into_iter().map(|writes| async move {
                for write in writes {
                    carry_out(store, write).await;
                }
            }))
            .await;
        }
    }
}

/// Whether the containers of a running pod with restarts have terminated.
fn has_stopped(pod: &Object) -> bool {
    let containers = list(pod.value(), &["status", "containerStatuses"]);
    text(pod.value(), &["status", "phase"]) == "Running"
        && !containers.is_empty()
        && containers.iter().all(|c| c["state"]["running"].is_null())
}

fn is_marked_not_ready(pod: &Object) -> bool {
    text(pod.value(), &["status", "phase"]) == "Running"
        && condition(pod.value(), "Ready") == "False"
}
