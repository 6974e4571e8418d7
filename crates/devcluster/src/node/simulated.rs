//! A node on which nothing runs: it binds pods, says that they run, and lets befall them what was asked for.

mod steps;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::down::{self, Until};
use super::hardship::{Blow, Hardship, Suffered, Told};
use super::restart::Restarts;
use super::{Need, carry_out, containers, need, pod_of, register, volumes};
use crate::objects::object::{Key, Object, list, text};
use crate::objects::resource::Resource;
use crate::options::SimulatedNode;
use crate::storage::follow::{Follower, News};
use crate::storage::server::Store;

/// How many writes are under way at once: enough that the store carries them out in batches.
const AT_ONCE: usize = 64;

/// How long a node waits after it could not get an image before it says that it waits.
pub(super) const BACK_OFF_AFTER: Duration = Duration::from_secs(2);

/// What the node does to a pod when its time comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Bind,
    Start,
    /// It says once more that its image cannot be had.
    BackOff,
    /// It says that it runs, where that was doubted.
    Affirm,
    Suffer(Blow),
    /// It starts what has ended once more.
    Restart,
    Stop,
}

/// What the node knows of a pod: what it will do next, and when.
#[derive(Debug)]
struct Pod {
    key: Key,
    next: Option<(Instant, u64)>,
    started: Option<jiff::Timestamp>,
    address: String,
    /// Whether it waits for an image that cannot be had.
    has_no_image: bool,
    restarts: Restarts,
}

/// The simulated node.
struct Node {
    store: Store,
    options: SimulatedNode,
    seed: u64,
    pods: BTreeMap<String, Pod>,
    /// What is to be done, by when and in which order it was decided; one entry a pod, as `Pod::next` says.
    agenda: BTreeMap<(Instant, u64), (String, Step)>,
    decided: u64,
    addresses: u32,
    hardship: watch::Receiver<Hardship>,
}

/// Runs until the cluster is stopped. It holds `_alive` as long as it runs.
pub(crate) async fn run(
    store: Store,
    options: SimulatedNode,
    seed: u64,
    mut suffered: Suffered,
    _alive: watch::Receiver<()>,
) {
    let mut follower = Follower::new(&store);
    let mut node = Node {
        store,
        options,
        seed,
        pods: BTreeMap::new(),
        agenda: BTreeMap::new(),
        decided: 0,
        addresses: 0,
        hardship: suffered.hardship(),
    };
    loop {
        if !node.hardship.borrow().is_up() {
            let (store, name) = (&node.store, &node.options.name);
            if down::serve(store, name, &mut follower, &mut suffered).await == Until::Stopped {
                return;
            }
            let state = node.store.state();
            node.start_over(state.list(Resource::Pods, None));
            continue;
        }
        let next = node.agenda.first_key_value().map(|((at, _), _)| *at);
        tokio::select! {
            biased;
            news = follower.next() => match news {
                None => return,
                Some(News::StartOver(state)) => node.start_over(state.list(Resource::Pods, None)),
                Some(News::Events(events, state)) => {
                    for (pod, gone) in events.iter().filter_map(|e| pod_of(e)) {
                        node.heard(pod, gone);
                    }
                    let lets_in = |e| register::opens(e, &node.options.name) || volumes::come(e);
                    if events.iter().any(|event| lets_in(event)) {
                        for pod in state.list(Resource::Pods, None) {
                            node.heard(pod, false);
                        }
                    }
                }
            },
            told = suffered.next() => match told {
                Told::Changed if !node.hardship.borrow().is_up() => continue,
                Told::Changed => node.look_for_images(),
                Told::Blow(uid, blow) => {
                    node.plan_step(&uid, Instant::now(), Step::Suffer(blow));
                }
            },
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
        node.do_what_is_due().await;
    }
}

impl Node {
    fn start_over<'a>(&mut self, pods: impl Iterator<Item = &'a std::sync::Arc<Object>>) {
        self.pods.clear();
        self.agenda.clear();
        for pod in pods {
            self.heard(pod, false);
        }
    }

    fn heard(&mut self, pod: &Object, gone: bool) {
        if gone {
            if let Some(next) = self.pods.remove(pod.uid()).and_then(|known| known.next) {
                self.agenda.remove(&next);
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
                    .fate(pod.uid(), "start")
                    .random_bool(self.options.slow_start_rate.clamp(0.0, 1.0));
                let delay = if slow {
                    self.options.slow_start_delay
                } else {
                    self.options.start_delay
                };
                // Told of more than once, but started only once: the first plan stands.
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
            // After a restart of the store: what runs is left alone, but its fate takes its course.
            Need::Nothing if known.is_none() => {
                self.know(pod);
                if Restarts::are_wanted(pod.value()) && has_stopped(pod) {
                    self.plan_step(pod.uid(), Instant::now(), Step::Restart);
                } else if is_doubted(pod) {
                    self.plan_step(pod.uid(), Instant::now(), Step::Affirm);
                } else {
                    self.plan_trouble(pod.uid());
                }
            }
            Need::Bind | Need::Start | Need::Nothing => {}
        }
    }

    fn know(&mut self, pod: &Object) -> &mut Pod {
        let addresses = &mut self.addresses;
        self.pods.entry(pod.uid().to_owned()).or_insert_with(|| {
            let given = text(pod.value(), &["status", "podIP"]).parse::<Ipv4Addr>();
            let address = match given.map(|address| address.octets()) {
                // It was given one by the node before this one, which nobody is to be given again.
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
                // It may have been started before this node began to look.
                started: text(pod.value(), &["status", "startTime"]).parse().ok(),
                address: address.to_string(),
                has_no_image: false,
                restarts: Restarts::of(pod.value()),
            }
        })
    }

    fn is_planned(&self, uid: &str, step: Step) -> bool {
        let next = self.pods.get(uid).and_then(|pod| pod.next);
        next.and_then(|next| self.agenda.get(&next))
            .is_some_and(|(_, planned)| *planned == step)
    }

    /// Plans the next step of a pod, in place of any other.
    fn plan(&mut self, pod: &Object, after: Duration, step: Step) {
        self.know(pod);
        self.plan_step(pod.uid(), Instant::now() + after, step);
    }

    fn plan_step(&mut self, uid: &str, at: Instant, step: Step) {
        let Some(pod) = self.pods.get_mut(uid) else {
            return;
        };
        if let Some(before) = pod.next.take() {
            self.agenda.remove(&before);
        }
        self.decided += 1;
        pod.next = Some((at, self.decided));
        self.agenda
            .insert((at, self.decided), (uid.to_owned(), step));
    }

    /// Starts what waited for images that can be had now.
    fn look_for_images(&mut self) {
        let state = self.store.state();
        let missing = self.hardship.borrow().missing_images.clone();
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

    /// A random source of the pod's own, so that its fate does not depend on what befalls others.
    fn fate(&self, uid: &str, of: &str) -> StdRng {
        let mixed = uid
            .bytes()
            .chain(of.bytes())
            .fold(self.seed ^ 0xCBF2_9CE4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
            });
        StdRng::seed_from_u64(mixed)
    }

    /// Decides whether something befalls a pod that runs, and when.
    fn plan_trouble(&mut self, uid: &str) {
        let restarts = self.pods.get(uid).map_or(0, |pod| pod.restarts.count());
        let mut fate = match restarts {
            0 => self.fate(uid, "trouble"),
            // Each time anew, or whoever crashes once would do so for ever.
            n => self.fate(uid, &format!("trouble {n}")),
        };
        let mut draw: f64 = fate.random();
        let options = &self.options;
        let troubles = [
            (options.crash_rate, Blow::Crash(1)),
            (options.out_of_memory_rate, Blow::OutOfMemory),
            (options.eviction_rate, Blow::Eviction),
        ];
        let within = options.trouble_within;
        for (rate, trouble) in troubles {
            if draw < rate {
                let after = within.mul_f64(fate.random());
                self.plan_step(uid, Instant::now() + after, Step::Suffer(trouble));
                return;
            }
            draw -= rate;
        }
    }

    async fn do_what_is_due(&mut self) {
        let now = Instant::now();
        loop {
            let mut writes = Vec::new();
            while writes.len() < AT_ONCE
                && let Some(entry) = self.agenda.first_entry()
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

/// Whether the containers of a pod that goes on have ended.
fn has_stopped(pod: &Object) -> bool {
    let containers = list(pod.value(), &["status", "containerStatuses"]);
    text(pod.value(), &["status", "phase"]) == "Running"
        && !containers.is_empty()
        && containers.iter().all(|c| c["state"]["running"].is_null())
}

/// Whether it is said of a pod that runs here that it may not.
fn is_doubted(pod: &Object) -> bool {
    let ready = list(pod.value(), &["status", "conditions"])
        .iter()
        .find(|c| text(c, &["type"]) == "Ready");
    text(pod.value(), &["status", "phase"]) == "Running"
        && ready.is_some_and(|c| text(c, &["status"]) == "False")
}
