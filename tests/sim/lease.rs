//! Worlds with the Lease: several drivers of one application, of which one writes (spec O-32).
//!
//! Drivers are paused, cut off, killed and replaced, each by itself; writes are held up; the Lease is deleted. No write
//! may be carried out while another driver holds the Lease, except one that was held up on its way, and for a lease's
//! duration after the Lease was deleted, because a driver that starts then cannot know of it: what such writes make must
//! not last. In the end one driver keeps the application as it should be, and writes nothing more.

pub mod wire;

use std::rc::Rc;
use std::time::Duration;

use boatswain::config::{Config, OnSignal};
use boatswain::planted::Planted;
use devcluster::{DevCluster, SimulatedNode};
use http::{Method, Request};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep};
use tower::ServiceExt as _;

use crate::checks::Verdict;
use crate::drivers::{Driver, Drivers, start_next};
use crate::objects::NAMESPACE;
use crate::runs::{cluster, run_world, run_worlds};
use crate::trace::trace_line;
use wire::{Wire, Wires};

const SEEDS: u64 = 30;

const FAULTS: usize = 14;

/// After the last fault: the lease's duration, the poll, adoption, and the deletion of what does not belong there.
const CONVERGES_WITHIN: Duration = Duration::from_secs(240);

const QUIET: Duration = Duration::from_secs(60);

struct World {
    rng: StdRng,
    cluster: DevCluster,
    wires: Wires,
    drivers: Drivers,
    config: Config,
    executors: usize,
    seed: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let executors = rng.random_range(5..40);
        let pace = rng.random_range(1..4);
        let sets = [
            "profiles.default.image=none".to_owned(),
            format!("profiles.default.executors={executors}"),
            // Bring-ups take a while, so that faults hit them.
            format!("allocation.max_rate={pace}"),
            "ha.lease=true".to_owned(),
        ];
        Self {
            rng,
            cluster: cluster(seed, SimulatedNode::default()),
            wires: Wires::new(seed),
            drivers: Drivers::default(),
            config: Config::from_toml("", "none.toml", [], &sets).unwrap(),
            executors,
            seed,
        }
    }

    fn start(&self) {
        let clients = self.wires.connect(self.cluster.router());
        start_next(&self.drivers, self.config.clone(), clients, self.seed);
    }

    /// The numbers of the drivers that have not ended.
    fn alive(&self) -> Vec<usize> {
        let drivers = self.drivers.borrow();
        (drivers.iter().filter(|driver| driver.is_alive()))
            .map(|driver| driver.number)
            .collect()
    }

    fn of(&self, number: usize, change: impl FnOnce(&mut Driver)) {
        change(&mut self.drivers.borrow_mut()[number - 1]);
    }

    /// Mostly the driver that holds the Lease.
    fn pick(&mut self) -> usize {
        let alive = self.alive();
        let holder = self.wires.holder().filter(|holder| alive.contains(holder));
        match holder.filter(|_| self.rng.random_ratio(2, 3)) {
            Some(holder) => holder,
            None => alive[self.rng.random_range(0..alive.len())],
        }
    }

    /// Lets time pass, and starts a driver for each that has ended, as the kubelet does.
    async fn pass(&self, time: Duration) -> Verdict {
        let until = Instant::now() + time;
        while Instant::now() < until {
            sleep(Duration::from_millis(250)).await;
            for driver in self.drivers.borrow_mut().iter_mut() {
                if let Some(exit) = driver.take_exit() {
                    trace_line!("d{} exits with {exit:?}", driver.number);
                }
            }
            while self.alive().len() < 2 {
                self.start();
            }
            if let Some(violation) = self.wires.violation() {
                return Err(violation);
            }
        }
        Ok(())
    }

    async fn delete(&self, path: &str) {
        let request = Request::builder().method(Method::DELETE).uri(path);
        let request = request.body(axum::body::Body::empty()).unwrap();
        let _ = self.cluster.router().oneshot(request).await;
    }

    async fn fault(&mut self) {
        let driver = self.pick();
        let time = Duration::from_millis(self.rng.random_range(500..90_000));
        let fault = self.rng.random_range(0..9);
        trace_line!("fault {fault} of d{driver} for {time:?}");
        match fault {
            0..3 => {
                // In the middle of a bring-up.
                self.delete_pods().await;
                let held_up: bool = self.rng.random();
                self.wires.hold_up(held_up.then_some(driver));
                sleep(Duration::from_secs(1)).await;
                self.wires.hold_up(None);
                self.of(driver, |driver| driver.paused = true);
                let drivers = Rc::clone(&self.drivers);
                tokio::task::spawn_local(async move {
                    sleep(time).await;
                    drivers.borrow_mut()[driver - 1].paused = false;
                });
            }
            3..5 => {
                let wire = match self.rng.random_range(0..3) {
                    0 => Wire::Refuses,
                    1 => Wire::Silent,
                    _ => Wire::Deaf,
                };
                self.wires.set(driver, wire);
                let wires = self.wires.clone();
                tokio::spawn(async move {
                    sleep(time).await;
                    wires.set(driver, Wire::Works);
                });
            }
            5 => self.of(driver, Driver::kill),
            6 => self.of(driver, |driver| driver.handle.stop_by(OnSignal::HandOver)),
            7 => {
                let path =
                    "/apis/coordination.k8s.io/v1/namespaces/default/leases/boatswain-driver";
                self.wires.lease_deleted();
                self.delete(path).await;
            }
            _ => self.delete_pods().await,
        }
    }

    /// Deletes about half of the pods.
    async fn delete_pods(&mut self) {
        let state = self.cluster.state().await;
        for pod in state.pods(NAMESPACE) {
            if let Some(name) = pod["metadata"]["name"]
                .as_str()
                .filter(|_| self.rng.random())
            {
                let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}");
                self.delete(&path).await;
            }
        }
    }

    async fn run(mut self) -> Verdict {
        self.start();
        self.start();
        for _ in 0..FAULTS {
            let pause = Duration::from_millis(self.rng.random_range(0..25_000));
            self.pass(pause).await?;
            self.fault().await;
        }
        // Until the last pause and the last held up write are over.
        self.pass(Duration::from_secs(100) + CONVERGES_WITHIN)
            .await?;
        let pods = self.pods().await;
        if pods != self.executors {
            let wanted = self.executors;
            return Err(format!("I-4: {pods} executors run instead of {wanted}"));
        }
        let before = self.wires.writes();
        self.pass(QUIET).await?;
        match self.wires.writes() - before {
            0 => Ok(()),
            more => Err(format!("I-4: {more} writes in {QUIET:?} without a fault")),
        }
    }

    /// How many pods there are, if all run.
    async fn pods(&self) -> usize {
        let state = self.cluster.state().await;
        let runs = |pod: &&serde_json::Value| {
            pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
        };
        let (all, running) = (
            state.pods(NAMESPACE).count(),
            state.pods(NAMESPACE).filter(runs).count(),
        );
        if all == running { all } else { 0 }
    }
}

/// Runs a seed. Returns the trace too.
pub fn run(fault: Option<Planted>, seed: u64, traced: bool) -> (Verdict, String) {
    run_world(fault, traced, || {
        let world = World::new(seed);
        (Rc::clone(&world.drivers), world.run())
    })
}

// spec: O-32, O-94, I-4, I-10
#[test]
fn sim_with_a_lease_only_its_holder_writes() {
    run_worlds("lease", SEEDS, run);
}
