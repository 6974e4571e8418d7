//! Worlds whose executors need more memory than they are given, and drivers that are killed meanwhile: those that replace
//! an executor that ran out of memory get more, that is no failure, and no driver forgets it (spec L-43).

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use boatswain::config::Config;
use boatswain::exit::Exit;
use boatswain::model::failures::Growth;
use boatswain::model::quantity::Quantity;
use boatswain::planted::Planted;
use devcluster::{DevCluster, NodeKind, Options};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::checks::Verdict;
use crate::drivers::{Driver, Drivers, start_next};
use crate::lease::wire::Wires;
use crate::node::statuses;
use crate::objects::{DirectClient, NAMESPACE, is_terminating, text};
use crate::runs::{run_world, run_worlds};
use crate::trace::trace_line;

const SEEDS: u64 = 30;

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A driver that lives has learned of an end within this time, has recorded it, and no earlier request is under way.
const NOTICE: Duration = Duration::from_secs(5);

/// How long it takes to request what is missing once more.
const REFILL: Duration = Duration::from_secs(30);

const MEBIBYTE: u64 = 1 << 20;

struct World {
    rng: StdRng,
    cluster: DevCluster,
    wires: Wires,
    drivers: Drivers,
    config: Config,
    growth: Growth,
    /// What an executor needs, in bytes.
    need: u64,
    /// The executors that run, and when each ends if it has too little memory.
    running: BTreeMap<String, Instant>,
    /// The limit of each pod that was seen.
    limits: BTreeMap<String, u64>,
    /// The limits that those have whose driver knows of an end, and when it knows.
    known: Vec<(Instant, u64)>,
    /// Since when a driver lives.
    lives: Option<Instant>,
    began: Instant,
    seed: u64,
}

fn config(rng: &mut StdRng) -> Config {
    let from = rng.random_range(16..1_000);
    let max = from * rng.random_range(1..12) + rng.random_range(0..3);
    let growth = rng.random_range(11..40);
    let mut sets = vec![
        "failures.max=0".to_owned(),
        "profiles.default.image=none".to_owned(),
        format!("profiles.default.executors={}", rng.random_range(1..12)),
        format!("profiles.default.memory_limit={from}Mi"),
        format!("profiles.default.memory_max={max}Mi"),
        format!(
            "profiles.default.memory_growth={}.{}",
            growth / 10,
            growth % 10
        ),
    ];
    if rng.random_ratio(1, 2) {
        sets.push(format!(
            "profiles.default.memory={}Mi",
            rng.random_range(1..=from)
        ));
    }
    Config::from_toml("", "none.toml", [], &sets).unwrap()
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let config = config(&mut rng);
        let growth = config.profiles["default"].growth().unwrap();
        let cluster = devcluster::start(Options {
            node: NodeKind::None,
            seed,
            wall_clock_start: Some(jiff::Timestamp::UNIX_EPOCH),
            ..Options::default()
        });
        Self {
            cluster,
            wires: Wires::new(seed),
            drivers: Drivers::default(),
            need: rng.random_range(1..=growth.max / MEBIBYTE) * MEBIBYTE,
            rng,
            config,
            growth,
            running: BTreeMap::new(),
            limits: BTreeMap::new(),
            known: Vec::new(),
            lives: None,
            began: Instant::now(),
            seed,
        }
    }

    fn start(&mut self) {
        let clients = self.wires.connect(self.cluster.router());
        start_next(&self.drivers, self.config.clone(), clients, self.seed);
        self.lives = Some(Instant::now());
    }

    fn kill(&mut self) {
        trace_line!("the driver is killed");
        self.drivers.borrow_mut().iter_mut().for_each(Driver::kill);
        self.lives = None;
        // What it has just learned need not be in the record.
        self.known.retain(|(at, _)| at.elapsed() > NOTICE);
    }

    fn exit(&self) -> Option<Exit> {
        let mut drivers = self.drivers.borrow_mut();
        drivers.iter_mut().find_map(Driver::take_exit)
    }

    /// Lets time pass until the next look; checks the pods, and does what kubelets do.
    async fn look(&mut self) -> Verdict {
        sleep(LOOK_EVERY).await;
        let state = self.cluster.state().await;
        let pods: Vec<Value> = state.pods(NAMESPACE).cloned().collect();
        drop(state);
        for pod in &pods {
            self.check(pod)?;
        }
        for pod in &pods {
            self.act(pod).await;
        }
        Ok(())
    }

    /// A new pod has as much memory as those before it have shown to be too little, and never more than is allowed.
    // spec: L-43
    fn check(&mut self, pod: &Value) -> Verdict {
        let name = text(pod, "/metadata/name").to_owned();
        if self.limits.contains_key(&name) {
            return Ok(());
        }
        let amount = |kind: &str| -> u64 {
            let path = format!("/spec/containers/0/resources/{kind}/memory");
            // The API server writes amounts in its own way.
            let amount = text(pod, &path).parse::<Quantity>();
            amount.map_or(0, |amount| amount.bytes())
        };
        let (limit, request) = (amount("limits"), amount("requests"));
        let known = self.known.iter().filter(|(at, _)| at.elapsed() > NOTICE);
        let least = known.map(|(_, limit)| *limit).max();
        let least = least.unwrap_or_default().max(self.growth.from);
        trace_line!("{name} has {limit}");
        self.limits.insert(name.clone(), limit);
        if limit < least || limit > self.growth.max || request > limit {
            let Growth { max, .. } = self.growth;
            return Err(format!(
                "L-43: {name} has {limit} bytes and requests {request}; at least {least} is known, {max} allowed"
            ));
        }
        Ok(())
    }

    async fn act(&mut self, pod: &Value) {
        let now = (jiff::Timestamp::UNIX_EPOCH + self.began.elapsed()).to_string();
        let (name, client) = (
            text(pod, "/metadata/name"),
            DirectClient::new(self.cluster.router()),
        );
        let limit = self.limits.get(name).copied().unwrap_or_default();
        match text(pod, "/status/phase") {
            _ if is_terminating(pod) => {
                let uid = text(pod, "/metadata/uid");
                client.delete(name, uid, Some(0)).await;
            }
            "Failed" => {}
            "Running" => {
                let ends = self
                    .running
                    .get(name)
                    .is_some_and(|at| *at <= Instant::now());
                if limit < self.need && ends {
                    trace_line!("{name} is killed: it needs {}", self.need);
                    let status = statuses::ended(pod, 137, "OOMKilled", &now);
                    client.status(name, status).await;
                    self.running.remove(name);
                    if let Some(grown) = self.growth.after(limit) {
                        self.known.push((Instant::now(), grown));
                    }
                }
            }
            _ => {
                client.bind(name, "node-1").await;
                client.status(name, statuses::running(pod, &now)).await;
                let lives = Duration::from_millis(self.rng.random_range(0..60_000));
                self.running.insert(name.to_owned(), Instant::now() + lives);
            }
        }
    }

    async fn pass(&mut self, time: Duration) -> Verdict {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.look().await?;
            match self.exit() {
                // A failure would be one too many.
                Some(exit) => return Err(format!("L-43: the driver exits with {exit:?}")),
                None if self.lives.is_none() => {
                    // Nobody learns of an end meanwhile. The next driver finds its pod, and needs its time.
                    let now = Instant::now();
                    self.known.iter_mut().for_each(|(at, _)| {
                        if at.elapsed() < NOTICE {
                            *at = now;
                        }
                    });
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Each step adds a tenth at least, and no executor lives longer than a minute with too little.
    fn time_to_grow(&self) -> Duration {
        let steps = (self.growth.max / self.growth.from).ilog2() * 8 + 8;
        (REFILL + Duration::from_secs(60)) * steps
    }

    /// As many executors as are wanted have the memory that they need, in time.
    // spec: L-43
    async fn whole(&mut self) -> Verdict {
        let wanted = self.config.profiles["default"].executors as usize;
        let (began, within) = (Instant::now(), self.time_to_grow());
        loop {
            let enough = self
                .running
                .keys()
                .filter(|name| self.limits[*name] >= self.need);
            if enough.count() >= wanted {
                return Ok(());
            }
            if began.elapsed() > within {
                let (running, need) = (self.running.len(), self.need);
                return Err(format!(
                    "L-43: after {within:?} {running} run, and not {wanted} with {need} bytes"
                ));
            }
            self.pass(LOOK_EVERY).await?;
        }
    }

    async fn run(mut self) -> Verdict {
        trace_line!("{:?}, {} needed", self.growth, self.need);
        self.start();
        for _ in 0..self.rng.random_range(0..5) {
            let pause = Duration::from_millis(self.rng.random_range(0..60_000));
            self.pass(pause).await?;
            self.kill();
            let pause = Duration::from_millis(self.rng.random_range(0..20_000));
            self.pass(pause).await?;
            self.start();
        }
        self.whole().await?;
        self.pass(REFILL).await?;
        if self.rng.random_ratio(1, 2) {
            return Ok(());
        }
        trace_line!("more is needed than is allowed");
        self.need = self.growth.max + 1;
        let (began, within) = (Instant::now(), self.time_to_grow());
        while began.elapsed() < within {
            self.look().await?;
            match self.exit() {
                Some(Exit::Finished(11)) => return Ok(()),
                Some(exit) => return Err(format!("L-43: the driver exits with {exit:?}")),
                None => {}
            }
        }
        Err("L-43: all executors run out of memory, and that is no failure".to_owned())
    }
}

/// Runs a seed. Returns the trace too.
pub fn run(fault: Option<Planted>, seed: u64, traced: bool) -> (Verdict, String) {
    run_world(fault, traced, || {
        let world = World::new(seed);
        (Rc::clone(&world.drivers), world.run())
    })
}

// spec: L-43
#[test]
fn sim_executors_that_run_out_of_memory_get_more() {
    run_worlds("sizes", SEEDS, run);
}
