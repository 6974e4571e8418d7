//! Drivers in pods of a Deployment, of a StatefulSet, of a Job or of none, as a kubelet runs them (spec O-66).
//!
//! Pods are drained, rolled over and ended by the kubelet; their controller is scaled to 0, deleted and made again;
//! wires are interrupted and drivers killed. What a driver does after a signal has to agree with what was true of its
//! controller at that time: handed over, no executor has ended; ended, none is left; let go, none is left and the record
//! is open. In the end one driver keeps as many executors as were wanted last.

mod truth;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use boatswain::clock::Clock;
use boatswain::config::Config;
use boatswain::exit::Exit;
use boatswain::planted::Planted;
use devcluster::{DevCluster, Key, NodeKind, Options, Resource, SimulatedNode, State};
use http::{Method, Request};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tower::ServiceExt as _;

use crate::checks::Verdict;
use crate::drivers::{Driver, Drivers};
use crate::lease::wire::{Wire, Wires};
use crate::objects::NAMESPACE;
use crate::runs::{run_world, run_worlds};
use crate::trace::trace_line;
use truth::{Signal, Truth, agrees, controller_of, executors, is_over, running_pods};

const SEEDS: u64 = 30;

const FAULTS: usize = 16;

/// After a signal, changes of the controller may or may not be seen for this long.
const LEARNING: Duration = Duration::from_millis(2_500);

/// A start has read its controllers by then, if its wire works.
const START: Duration = Duration::from_secs(5);

/// The kubelet's look at its pods.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The kubelet's pause before it restarts a container.
const RESTART_AFTER: Duration = Duration::from_secs(2);

/// After the last fault: the longest backoff of a Job, the poll, adoption, retries, and the deletion of what does not
/// belong there.
const CONVERGES_WITHIN: Duration = Duration::from_secs(900);

const NEVER: Duration = Duration::from_secs(1_000_000);

/// What keeps the driver's pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Deployment,
    StatefulSet,
    /// Its kubelet restarts the driver in its pod, unless it exits with 0.
    Job,
    Nothing,
}

/// A driver in its pod.
struct Placed {
    pod: String,
    uid: String,
    /// The uid of the controller; `None` without one, or if it was gone when the driver started.
    owner: Option<String>,
    since: Instant,
    signal: Option<Signal>,
}

struct World {
    rng: StdRng,
    cluster: DevCluster,
    wires: Wires,
    drivers: Drivers,
    config: Config,
    owner: Owner,
    /// By the driver's number.
    placed: BTreeMap<usize, Placed>,
    /// When the kubelet may start a container in this pod again, by uid.
    restarts: BTreeMap<String, Instant>,
    /// Wires that do not work, and until when.
    interrupted: BTreeMap<usize, Instant>,
    /// When the controller has its replica again, or is made again.
    repair: Option<Instant>,
    /// How many executors were wanted last.
    wanted: usize,
    /// Whether the application may have ended and begun again.
    may_be_anew: bool,
    seed: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let wanted = rng.random_range(2..20);
        let sets = [
            "profiles.default.image=none".to_owned(),
            format!("profiles.default.executors={wanted}"),
            format!("allocation.max_rate={}", rng.random_range(2..20)),
        ];
        let owner = match rng.random_range(0..7) {
            0..2 => Owner::Deployment,
            2..4 => Owner::StatefulSet,
            4..6 => Owner::Job,
            _ => Owner::Nothing,
        };
        let stop_delay = Duration::from_millis(rng.random_range(100..20_000));
        Self {
            rng,
            cluster: devcluster::start(Options {
                node: NodeKind::Simulated(SimulatedNode {
                    stop_delay,
                    ..SimulatedNode::default()
                }),
                seed,
                wall_clock_start: Some(jiff::Timestamp::UNIX_EPOCH),
                ..Options::default()
            }),
            wires: Wires::new(seed),
            drivers: Drivers::default(),
            config: Config::from_toml("", "none.toml", [], &sets).unwrap(),
            owner,
            placed: BTreeMap::new(),
            restarts: BTreeMap::new(),
            interrupted: BTreeMap::new(),
            repair: None,
            wanted,
            may_be_anew: false,
            seed,
        }
    }

    async fn ask(&self, method: Method, path: &str, body: Value) {
        let kind = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", kind);
        let request = request.body(Body::from(body.to_string())).unwrap();
        // What is gone cannot be changed.
        let _ = self.cluster.router().oneshot(request).await;
    }

    fn sets(&self) -> Option<String> {
        let kind = match self.owner {
            Owner::Deployment => "apps/v1/namespaces/default/deployments",
            Owner::StatefulSet => "apps/v1/namespaces/default/statefulsets",
            Owner::Job => "batch/v1/namespaces/default/jobs",
            Owner::Nothing => return None,
        };
        Some(format!("/apis/{kind}"))
    }

    /// Makes the controller or the bare pod, or scales the controller to 1.
    async fn repair(&mut self) {
        self.repair = None;
        let labels = json!({"app": "driver"});
        let spec = json!({"containers": [{"name": "driver", "image": "none"}]});
        let Some(sets) = self.sets() else {
            let metadata = json!({"name": "driver-0", "labels": labels});
            let pod = json!({"metadata": metadata, "spec": spec});
            let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
            return self.ask(Method::POST, &pods, pod).await;
        };
        if self.owner == Owner::Job {
            return self.repair_job(&sets, &labels, &spec).await;
        }
        let set = json!({
            "metadata": {"name": "driver"},
            "spec": {
                "replicas": 1, "serviceName": "driver", "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        });
        self.ask(Method::POST, &sets, set).await;
        let one = json!({"spec": {"replicas": 1}});
        self.ask(Method::PATCH, &format!("{sets}/driver"), one)
            .await;
    }

    /// Makes the Job, or resumes it. One that is over is deleted first, and made again when its dependents are gone.
    async fn repair_job(&mut self, jobs: &str, labels: &Value, spec: &Value) {
        let path = format!("{jobs}/driver");
        let state = self.cluster.state().await;
        if self.controller(&state).is_some_and(|job| is_over(&job)) {
            let options = json!({"propagationPolicy": "Background"});
            self.ask(Method::DELETE, &path, options).await;
            self.repair = Some(Instant::now() + Duration::from_secs(5));
            return;
        }
        let mut spec = spec.clone();
        spec["restartPolicy"] = "OnFailure".into();
        let template = json!({"metadata": {"labels": labels}, "spec": spec});
        let job = json!({
            "metadata": {"name": "driver"},
            "spec": {"backoffLimit": 1_000, "template": template},
        });
        self.ask(Method::POST, jobs, job).await;
        let resumed = json!({"spec": {"suspend": false}});
        self.ask(Method::PATCH, &path, resumed).await;
    }

    fn controller(&self, state: &State) -> Option<Value> {
        let kind = match self.owner {
            Owner::Deployment => Resource::Deployments,
            Owner::StatefulSet => Resource::StatefulSets,
            Owner::Job => Resource::Jobs,
            Owner::Nothing => return None,
        };
        let found = state.get(&Key::new(kind, NAMESPACE, "driver"));
        found.map(|object| object.value().clone())
    }

    /// What a signal means to this driver now.
    fn truth(&self, state: &State, placed: &Placed) -> Truth {
        if self.owner == Owner::Nothing {
            let pod = state.pod(NAMESPACE, &placed.pod);
            let stays = |pod: &&Value| {
                pod["metadata"]["uid"] == *placed.uid
                    && pod["metadata"]["deletionTimestamp"].is_null()
            };
            return match pod.filter(stays) {
                // The kubelet restarts it.
                Some(_) => Truth::HandOver,
                None => Truth::End,
            };
        }
        let owner = self.controller(state);
        let owner =
            owner.filter(|owner| owner["metadata"]["uid"].as_str() == placed.owner.as_deref());
        match owner {
            None => Truth::End,
            Some(owner) if !owner["metadata"]["deletionTimestamp"].is_null() => Truth::End,
            Some(owner) if is_over(&owner) => Truth::End,
            Some(owner) if owner["spec"]["suspend"] == true => Truth::LetGo,
            Some(owner) if owner["spec"]["replicas"] == 0 => Truth::LetGo,
            Some(_) => Truth::HandOver,
        }
    }

    /// Starts, signals and restarts drivers as the pods say. Checks those that have exited.
    async fn kubelet(&mut self) -> Result<(), String> {
        let state = self.cluster.state().await;
        let now = Instant::now();
        self.look_at_drivers(&state);
        for pod in self.check_exits(&state)? {
            let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}/status");
            let status = json!({"status": {"phase": "Succeeded"}});
            self.ask(Method::PATCH, &path, status).await;
        }
        let alive = self.alive();
        for (pod, uid) in running_pods(&state) {
            let has_driver = alive.iter().any(|number| self.placed[number].uid == uid);
            let may_start = self.restarts.get(&uid).is_none_or(|at| *at <= now);
            if !has_driver && may_start {
                self.start(&state, pod, uid);
            }
        }
        let over: Vec<_> = (self.interrupted.iter())
            .filter(|(_, until)| **until <= now)
            .map(|(number, _)| *number)
            .collect();
        for number in over {
            self.interrupted.remove(&number);
            self.wires.set(number, Wire::Works);
        }
        if self.repair.is_some_and(|at| at <= now) {
            self.repair().await;
        }
        Ok(())
    }

    /// Signals drivers whose pods are being deleted, and notes what those that were signalled may learn.
    fn look_at_drivers(&mut self, state: &State) {
        let now = Instant::now();
        let alive = self.alive();
        for number in &alive {
            let placed = &self.placed[number];
            let pod = state.pod(NAMESPACE, &placed.pod);
            let stays = pod.is_some_and(|pod| {
                pod["metadata"]["uid"] == *placed.uid
                    && pod["metadata"]["deletionTimestamp"].is_null()
            });
            if !stays {
                self.signal(*number, state);
            }
            let truth = self.truth(state, &self.placed[number]);
            let interrupted = self.interrupted.contains_key(number);
            let others = alive.len() > 1;
            let signal = self
                .placed
                .get_mut(number)
                .and_then(|placed| placed.signal.as_mut());
            if let Some(signal) = signal {
                if signal.at + LEARNING >= now {
                    signal.truths.insert(truth);
                }
                signal.excused |= interrupted || others;
            }
        }
    }

    fn start(&mut self, state: &State, pod: String, uid: String) {
        let mut config = self.config.clone();
        config.driver.pod_name = Some(pod.clone());
        let number = self.drivers.borrow().len() + 1;
        let driver = Driver::start(
            number,
            config,
            self.wires.connect(self.cluster.router()),
            Clock::starting_at(jiff::Timestamp::UNIX_EPOCH),
            self.seed,
            Arc::new(Notify::new()),
        );
        self.drivers.borrow_mut().push(driver);
        for placed in self.placed.values_mut() {
            if let Some(signal) = &mut placed.signal {
                signal.excused = true;
            }
        }
        let placed = Placed {
            pod,
            owner: controller_of(state, &uid),
            uid,
            since: Instant::now(),
            signal: None,
        };
        self.placed.insert(number, placed);
    }

    /// Sends SIGTERM, once.
    fn signal(&mut self, number: usize, state: &State) {
        let placed = &self.placed[&number];
        if placed.signal.is_some() {
            return;
        }
        let truth = self.truth(state, placed);
        trace_line!("d{number} gets a signal: {truth:?}");
        let signal = Signal {
            at: Instant::now(),
            truths: [truth].into(),
            executors: executors(state),
            // A pod can be gone before its driver has read what controls it.
            excused: placed.since.elapsed() < START,
        };
        self.drivers.borrow()[number - 1].handle.stop();
        self.placed.get_mut(&number).unwrap().signal = Some(signal);
    }

    /// Returns the pods that have succeeded.
    fn check_exits(&mut self, state: &State) -> Result<Vec<String>, String> {
        let mut succeeded = Vec::new();
        let exits: Vec<_> = (self.drivers.borrow_mut().iter_mut())
            .filter_map(|driver| Some((driver.number, driver.take_exit()?)))
            .collect();
        for (number, exit) in exits {
            trace_line!("d{number} exits with {exit:?}");
            let placed = &self.placed[&number];
            self.restarts
                .insert(placed.uid.clone(), Instant::now() + RESTART_AFTER);
            if exit == Exit::Bug {
                return Err(format!("O-12: d{number} has a bug"));
            }
            if self.owner == Owner::Job && exit.code() == 0 {
                let never = Instant::now() + NEVER;
                self.restarts.insert(placed.uid.clone(), never);
                succeeded.push(placed.pod.clone());
            }
            match &placed.signal {
                Some(signal) => agrees(number, exit, signal, state)?,
                None if exit == Exit::Clean => {
                    return Err(format!("I-12: d{number} ended by itself"));
                }
                None => {}
            }
        }
        Ok(succeeded)
    }

    fn alive(&self) -> Vec<usize> {
        let drivers = self.drivers.borrow();
        (drivers.iter().filter(|driver| driver.is_alive()))
            .map(|driver| driver.number)
            .collect()
    }

    async fn pass(&mut self, time: Duration) -> Result<(), String> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            sleep(LOOK_EVERY).await;
            self.kubelet().await?;
        }
        Ok(())
    }

    fn ms(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.rng.random_range(range))
    }

    /// Deletes the youngest driver's pod, as a drain or by hand.
    async fn drain(&mut self, number: usize) {
        let pod = self.placed[&number].pod.clone();
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}");
        if self.rng.random() {
            let condition = json!({"type": "DisruptionTarget", "status": "True"});
            let status = json!({"status": {"conditions": [condition]}});
            self.ask(Method::PATCH, &format!("{path}/status"), status)
                .await;
        }
        // By force the pod is gone before the driver has learned anything.
        let grace = if self.rng.random() { 0 } else { 30 };
        let options = json!({"gracePeriodSeconds": grace});
        self.ask(Method::DELETE, &path, options).await;
        if self.owner == Owner::Nothing {
            let after = self.ms(1_000..60_000);
            self.repair = Some(Instant::now() + after);
        }
    }

    async fn fault(&mut self) {
        let Some(number) = self.alive().last().copied() else {
            return;
        };
        let fault = self.rng.random_range(0..14);
        trace_line!("fault {fault} of d{number}");
        let sets = self.sets();
        match (fault, sets) {
            (0..4, _) => self.drain(number).await,
            (4, _) => {
                self.interrupt(number);
                self.drain(number).await;
            }
            (5..7, Some(sets)) => {
                let patch = match self.owner {
                    Owner::Job => json!({"spec": {"suspend": true}}),
                    _ => json!({"spec": {"replicas": 0}}),
                };
                self.ask(Method::PATCH, &format!("{sets}/driver"), patch)
                    .await;
                let after = self.ms(100..90_000);
                self.repair = Some(Instant::now() + after);
            }
            (7..9, Some(sets)) => {
                let how = if self.rng.random() {
                    "Background"
                } else {
                    "Foreground"
                };
                let options = json!({"propagationPolicy": how});
                self.may_be_anew = true;
                self.ask(Method::DELETE, &format!("{sets}/driver"), options)
                    .await;
                let after = self.ms(100..90_000);
                self.repair = Some(Instant::now() + after);
            }
            (9, Some(sets)) if self.owner == Owner::Job => {
                let patch = json!({"spec": {"activeDeadlineSeconds": 1}});
                self.may_be_anew = true;
                self.ask(Method::PATCH, &format!("{sets}/driver"), patch)
                    .await;
                let after = self.ms(100..90_000);
                self.repair = Some(Instant::now() + after);
            }
            (9, Some(sets)) => {
                let version = self.rng.random_range(0..1_000_000).to_string();
                let annotations = json!({"metadata": {"annotations": {"version": version}}});
                let patch = json!({"spec": {"template": annotations}});
                self.ask(Method::PATCH, &format!("{sets}/driver"), patch)
                    .await;
            }
            (10, _) => self.drivers.borrow_mut()[number - 1].kill(),
            (11, _) => self.interrupt(number),
            (12, _) => self.set_target(number).await,
            _ => {
                // The kubelet ends it: nothing shows why.
                let state = self.cluster.state().await;
                self.signal(number, &state);
            }
        }
    }

    fn interrupt(&mut self, number: usize) {
        let wire = match self.rng.random_range(0..3) {
            0 => Wire::Refuses,
            1 => Wire::Silent,
            _ => Wire::Deaf,
        };
        self.wires.set(number, wire);
        let time = self.ms(500..60_000);
        self.interrupted.insert(number, Instant::now() + time);
    }

    /// Sets a target that later drivers keep, if no driver is about to end.
    async fn set_target(&mut self, number: usize) {
        let target: u32 = self.rng.random_range(2..20);
        let alone = self.alive().len() == 1 && self.placed[&number].signal.is_none();
        if !alone || self.interrupted.contains_key(&number) || self.owner == Owner::Nothing {
            return;
        }
        let handle = self.drivers.borrow()[number - 1].handle.clone();
        let set = handle.set_targets([("default".into(), target)].into());
        if let Ok(Some(Ok(_))) = timeout(Duration::from_secs(1), set).await {
            trace_line!("d{number}: target {target}");
            self.wanted = target as usize;
        }
    }

    async fn run(mut self) -> Result<(), String> {
        self.repair().await;
        for _ in 0..FAULTS {
            let pause = self.ms(0..40_000);
            self.pass(pause).await?;
            self.fault().await;
        }
        self.pass(Duration::from_secs(120)).await?;
        self.repair().await;
        self.pass(CONVERGES_WITHIN).await?;
        let state = self.cluster.state().await;
        let running = executors(&state).len();
        // An application that was ended has begun again, with the targets of the configuration.
        let configured = self.config.profiles["default"].executors as usize;
        if running != self.wanted && !(self.may_be_anew && running == configured) {
            let wanted = self.wanted;
            return Err(format!("I-4: {running} executors run instead of {wanted}"));
        }
        Ok(())
    }
}

/// Runs this seed, and returns the trace too.
pub fn run(fault: Option<Planted>, seed: u64, traced: bool) -> (Verdict, String) {
    run_world(fault, traced, || {
        let world = World::new(seed);
        (Rc::clone(&world.drivers), world.run())
    })
}

// spec: O-66, O-67, I-4, I-9
#[test]
fn sim_a_signal_means_what_is_true_of_the_controller() {
    run_worlds("drains", SEEDS, run);
}
