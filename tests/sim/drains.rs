//! Drivers in pods of a Deployment, of a StatefulSet or of none, as a kubelet runs them (spec O-66).
//!
//! Pods are drained, rolled over and ended by the kubelet; their controller is scaled to 0, deleted and made again;
//! wires are interrupted and drivers killed. What a driver does after a signal has to agree with what was true of its
//! controller at that time: handed over, no executor has ended; ended, none is left; let go, none is left and the record
//! is open. In the end one driver keeps as many executors as were wanted last.

mod faults;
mod kubelet;
mod truth;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use axum::body::Body;
use boatswain::config::Config;
use boatswain::planted::Planted;
use devcluster::{DevCluster, Key, Resource, SimulatedNode, State};
use http::{Method, Request};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tower::ServiceExt as _;

use crate::checks::Verdict;
use crate::drivers::Drivers;
use crate::lease::wire::Wires;
use crate::objects::NAMESPACE;
use crate::runs::{cluster, run_world, run_worlds};
use truth::{Signal, Truth, executors, stays};

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

/// After the last fault: the poll, adoption, retries, and the deletion of what does not belong there.
const CONVERGES_WITHIN: Duration = Duration::from_secs(900);

/// What keeps the driver's pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Deployment,
    StatefulSet,
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
        let owner = match rng.random_range(0..5) {
            0..2 => Owner::Deployment,
            2..4 => Owner::StatefulSet,
            _ => Owner::Nothing,
        };
        let stop_delay = Duration::from_millis(rng.random_range(100..20_000));
        Self {
            rng,
            cluster: cluster(
                seed,
                SimulatedNode {
                    stop_delay,
                    ..SimulatedNode::default()
                },
            ),
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

    fn controller(&self, state: &State) -> Option<Value> {
        let kind = match self.owner {
            Owner::Deployment => Resource::Deployments,
            Owner::StatefulSet => Resource::StatefulSets,
            Owner::Nothing => return None,
        };
        let found = state.get(&Key::new(kind, NAMESPACE, "driver"));
        found.map(|object| object.value().clone())
    }

    /// What a signal means to this driver now.
    fn truth(&self, state: &State, placed: &Placed) -> Truth {
        if self.owner == Owner::Nothing {
            return match stays(state, &placed.pod, &placed.uid) {
                // The kubelet restarts it.
                true => Truth::HandOver,
                false => Truth::End,
            };
        }
        let owner = self.controller(state);
        let owner =
            owner.filter(|owner| owner["metadata"]["uid"].as_str() == placed.owner.as_deref());
        match owner {
            None => Truth::End,
            Some(owner) if !owner["metadata"]["deletionTimestamp"].is_null() => Truth::End,
            Some(owner) if owner["spec"]["replicas"] == 0 => Truth::LetGo,
            Some(_) => Truth::HandOver,
        }
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
