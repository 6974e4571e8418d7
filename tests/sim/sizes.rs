//! Worlds whose executors need more memory than they are given, and drivers that are killed meanwhile: those that replace
//! an executor that ran out of memory get more, that is no failure, and no driver forgets it (spec L-43). In some worlds
//! those that are near their limit get more while they run (spec L-44), from nodes that do it, cannot, or have no room.

pub mod agent;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use axum::Router;
use boatswain::config::Config;
use boatswain::exit::Exit;
use boatswain::model::failures::Growth;
use boatswain::model::quantity::Quantity;
use boatswain::planted::Planted;
use devcluster::{DevCluster, NodeKind, Options};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::checks::Verdict;
use crate::drivers::{Driver, Drivers, start_next};
use crate::lease::wire::Wires;
use crate::node::statuses;
use crate::objects::{DirectClient, NAMESPACE, is_terminating, text};
use crate::runs::{run_world, run_worlds};
use crate::script::enable_sessions;
use crate::trace::trace_line;

use agent::Agent;

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
    /// The executors that run.
    running: BTreeMap<String, Container>,
    /// The driver that executors reach.
    driver: Option<(usize, Router)>,
    /// The limit that each pod's spec has.
    limits: BTreeMap<String, u64>,
    /// The limits that those have whose driver knows of an end, and when it knows.
    known: Vec<(Instant, u64)>,
    /// Since when a driver lives.
    lives: Option<Instant>,
    began: Instant,
    seed: u64,
}

/// What a node does when a pod's spec has more memory than a container that runs on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resizing {
    /// It gives the container that, after this time.
    After(Duration),
    /// It has no room.
    NoRoom,
    /// Its kubelet cannot, so that the API server refuses it.
    Cannot,
}

struct Container {
    since: Instant,
    /// When it uses what it needs.
    rise: Duration,
    limit: u64,
    resizing: Resizing,
    /// Since when the spec has more.
    resized: Option<Instant>,
    agent: Agent,
}

impl Container {
    fn used(&self, need: u64) -> u64 {
        let risen = self.since.elapsed().as_secs_f64() / self.rise.as_secs_f64();
        (need as f64 * risen.min(1.0)) as u64
    }

    /// Whether this is near its limit, as L-44 has it.
    fn is_near(&self, used: u64) -> bool {
        used / 9 * 10 >= self.limit
    }
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
    let mut config = Config::from_toml("", "none.toml", [], &sets).unwrap();
    if rng.random_ratio(1, 2) {
        enable_sessions(rng, &mut config);
        let default = config.profiles.get_mut("default").unwrap();
        default.memory_in_place = true;
    }
    config
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
            driver: None,
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
        self.reach().await;
        for pod in &pods {
            self.check(pod)?;
        }
        for pod in &pods {
            self.act(pod).await;
        }
        Ok(())
    }

    /// Finds the driver that lives.
    async fn reach(&mut self) {
        let alive = (self.drivers.borrow().iter()).find_map(|driver| {
            let is_alive = driver.is_alive() && self.growth.in_place;
            is_alive.then(|| (driver.number, driver.handle.clone()))
        });
        let Some((number, handle)) = alive else {
            self.driver = None;
            return;
        };
        if self
            .driver
            .as_ref()
            .is_none_or(|(known, _)| *known != number)
        {
            let sessions = timeout(Duration::from_secs(1), handle.sessions()).await;
            self.driver = sessions.ok().flatten().map(|router| (number, router));
        }
    }

    /// A new pod has as much memory as those before it have shown to be too little, and never more than is allowed. One
    /// that runs gets the next step of what its container has, if it is near that.
    // spec: L-43, L-44
    fn check(&mut self, pod: &Value) -> Verdict {
        let name = text(pod, "/metadata/name").to_owned();
        let amount = |kind: &str| -> u64 {
            let path = format!("/spec/containers/0/resources/{kind}/memory");
            // The API server writes amounts in its own way.
            let amount = text(pod, &path).parse::<Quantity>();
            amount.map_or(0, |amount| amount.bytes())
        };
        let (limit, request) = (amount("limits"), amount("requests"));
        match self.limits.get(&name) {
            Some(before) if *before == limit => return self.is_helped(&name, limit),
            Some(before) => {
                trace_line!("{name} is to have {limit}");
                let before = *before;
                self.limits.insert(name.clone(), limit);
                let Some(container) = self.running.get(&name) else {
                    return Ok(());
                };
                let next = self.growth.after(container.limit);
                let is_near = container.is_near(container.used(self.need));
                if !self.growth.in_place || Some(limit) != next || request > limit || !is_near {
                    return Err(format!(
                        "L-44: {name} has {limit} bytes instead of {before}, requests {request}; its container has {}",
                        container.limit
                    ));
                }
                return Ok(());
            }
            None => {}
        }
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

    /// The driver asks for more, soon after it has heard that an executor is near its limit.
    // spec: L-44
    fn is_helped(&self, name: &str, limit: u64) -> Verdict {
        let helped = || {
            let (container, (driver, _)) = (self.running.get(name)?, self.driver.as_ref()?);
            let waits = container.agent.scarce_for(*driver)? > NOTICE;
            let is_owed = container.resizing != Resizing::Cannot && limit < self.growth.max;
            (waits && is_owed && limit == container.limit).then_some(container.limit)
        };
        match helped() {
            Some(limit) => Err(format!(
                "L-44: {name} is near its limit of {limit} bytes, and gets no more"
            )),
            None => Ok(()),
        }
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
            "Running" => self.live(pod, &client, &now).await,
            _ => {
                client.bind(name, "node-1").await;
                let container = Container {
                    since: Instant::now(),
                    rise: Duration::from_millis(self.rng.random_range(1..60_000)),
                    limit,
                    resizing: match self.rng.random_range(0..6) {
                        0 => Resizing::NoRoom,
                        1 => Resizing::Cannot,
                        _ => {
                            Resizing::After(Duration::from_millis(self.rng.random_range(0..10_000)))
                        }
                    },
                    resized: None,
                    agent: Agent::default(),
                };
                let mut status = statuses::running(pod, &now);
                report(&mut status, &container);
                client.status(name, status).await;
                self.running.insert(name.to_owned(), container);
            }
        }
    }

    /// A container uses more and more memory, and is killed when it has no more.
    async fn live(&mut self, pod: &Value, client: &DirectClient, now: &str) {
        let (name, wanted) = (
            text(pod, "/metadata/name"),
            self.limits[text(pod, "/metadata/name")],
        );
        let Some(container) = self.running.get_mut(name) else {
            return;
        };
        let used = container.used(self.need);
        if used > container.limit {
            trace_line!("{name} is killed: it needs {}", self.need);
            let mut status = statuses::ended(pod, 137, "OOMKilled", now);
            report(&mut status, container);
            if let Some(grown) = self.growth.after(container.limit) {
                self.known.push((Instant::now(), grown));
            }
            self.running.remove(name);
            client.status(name, status).await;
            return;
        }
        if wanted > container.limit
            && let Resizing::After(pause) = container.resizing
        {
            let since = *container.resized.get_or_insert_with(Instant::now);
            if since.elapsed() >= pause {
                trace_line!("{name} gets {wanted}");
                (container.limit, container.resized) = (wanted, None);
                container.agent.has_more();
                let mut status = statuses::running(pod, &statuses::since(pod, now));
                report(&mut status, container);
                client.status(name, status).await;
            }
        }
        if let Some(driver) = &self.driver {
            let is_near = container.is_near(used);
            let memory = (used, container.limit);
            container.agent.speak(pod, driver, memory, is_near).await;
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
            let enough = (self.running.values()).filter(|one| one.limit >= self.need);
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

/// The kubelet reports what the container has, if it can resize any.
fn report(status: &mut Value, container: &Container) {
    if container.resizing != Resizing::Cannot {
        let limits = json!({"memory": container.limit.to_string()});
        status["containerStatuses"][0]["resources"] = json!({"limits": limits});
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
