//! Worlds with spares, whose programs are held back, and drivers that are killed while executors are lost: a spare takes a
//! lost executor's place, no program of a spare begins, and in the end there are as many of both as are wanted (spec A-117,
//! A-118, B-77).

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use axum::Router;
use boatswain::config::Config;
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
use crate::objects::{DirectClient, NAMESPACE, is_terminating, label, text};
use crate::runs::{run_world, run_worlds};
use crate::script::enable_sessions;
use crate::sizes::agent::{env, post};
use crate::trace::trace_line;

const SEEDS: u64 = 30;

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A driver that lives has learned of a loss within this time, and its call has reached the server.
const NOTICE: Duration = Duration::from_secs(5);

/// How long it takes to replace all that was lost, with pods that start slowly.
const REFILL: Duration = Duration::from_secs(180);

const PROFILE: &str = "boatswain.dev/profile";

struct World {
    rng: StdRng,
    cluster: DevCluster,
    wires: Wires,
    drivers: Drivers,
    config: Config,
    executors: usize,
    spares: usize,
    /// What is known of the pods that have not ended.
    pods: BTreeMap<String, Executor>,
    /// The driver that executors reach.
    driver: Option<(usize, Router)>,
    /// Since when a driver lives.
    lives: Option<Instant>,
    /// Since when an executor is missing although there is a spare.
    lacks: Option<Instant>,
    began: Instant,
    seed: u64,
}

/// A pod, and the agent in it.
struct Executor {
    /// When its container is started.
    starts: Instant,
    /// Whether its program has begun.
    begun: bool,
    /// The driver with which it has registered.
    registered: Option<usize>,
    /// Since when its program is due, because its pod says that it is no spare.
    due: Option<Instant>,
    /// Since when it is a spare that was passed over: an executor was requested although it ran.
    passed_over: Option<Instant>,
}

/// The pods that have not ended, by what their labels and states say.
#[derive(Debug, Default, PartialEq, Eq)]
struct Numbers {
    executors: usize,
    running_executors: usize,
    spares: usize,
    running_spares: usize,
}

fn is_spare(pod: &Value) -> bool {
    label(pod, PROFILE) != "default"
}

fn config(rng: &mut StdRng, executors: usize, spares: usize) -> Config {
    let sets = [
        "failures.max=1000000".to_owned(),
        "failures.stable_after=1s".to_owned(),
        "backend.listen=127.0.0.1:0".to_owned(),
        "profiles.default.image=none".to_owned(),
        format!("profiles.default.executors={executors}"),
        format!("profiles.default.spares={spares}"),
    ];
    let mut config = Config::from_toml("", "none.toml", [], &sets).unwrap();
    enable_sessions(rng, &mut config);
    config
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let (executors, spares) = (rng.random_range(1..8), rng.random_range(1..5));
        let config = config(&mut rng, executors, spares);
        let cluster = devcluster::start(Options {
            node: NodeKind::None,
            seed,
            wall_clock_start: Some(jiff::Timestamp::UNIX_EPOCH),
            ..Options::default()
        });
        Self {
            rng,
            cluster,
            wires: Wires::new(seed),
            drivers: Drivers::default(),
            config,
            executors,
            spares,
            pods: BTreeMap::new(),
            driver: None,
            lives: None,
            lacks: None,
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
        (self.lives, self.driver) = (None, None);
    }

    fn client(&self) -> DirectClient {
        DirectClient::new(self.cluster.router())
    }

    /// Lets time pass until the next look; does what kubelets and agents do, and checks.
    async fn look(&mut self) -> Verdict {
        sleep(LOOK_EVERY).await;
        if let Some(exit) = self
            .drivers
            .borrow_mut()
            .iter_mut()
            .find_map(Driver::take_exit)
        {
            return Err(format!("A-118: the driver exits with {exit:?}"));
        }
        self.reach().await;
        let pods = self.living().await;
        self.pods.retain(|name, _| pods.contains_key(name));
        self.note_passed_over(&pods);
        for pod in pods.values() {
            self.act(pod).await?;
        }
        let numbers = self.count().await;
        self.check(&numbers)
    }

    fn note_passed_over(&mut self, pods: &BTreeMap<String, Value>) {
        let is_alive = self.lives.is_some_and(|lives| lives.elapsed() > NOTICE);
        let is_new = |(name, pod)| !self.pods.contains_key(name) && !is_spare(pod);
        let requested = pods.iter().any(is_new);
        for (name, executor) in &mut self.pods {
            let is_old = executor.starts.elapsed() > NOTICE;
            if !is_alive || !is_spare(&pods[name]) {
                executor.passed_over = None;
            } else if requested && is_old {
                executor.passed_over.get_or_insert_with(Instant::now);
            }
        }
    }

    /// The pods that have not ended. Those that terminate are gone at once.
    async fn living(&mut self) -> BTreeMap<String, Value> {
        let state = self.cluster.state().await;
        let all: Vec<Value> = state.pods(NAMESPACE).cloned().collect();
        drop(state);
        let mut living = BTreeMap::new();
        for pod in all {
            let name = text(&pod, "/metadata/name").to_owned();
            match (is_terminating(&pod), text(&pod, "/status/phase")) {
                (true, _) => {
                    let uid = text(&pod, "/metadata/uid");
                    self.client().delete(&name, uid, Some(0)).await;
                }
                (false, "Failed") => {}
                (false, _) => drop(living.insert(name, pod)),
            }
        }
        living
    }

    /// Finds the driver that lives.
    async fn reach(&mut self) {
        let alive = (self.drivers.borrow().iter()).find_map(|driver| {
            let is_alive = driver.is_alive();
            is_alive.then(|| (driver.number, driver.handle.clone()))
        });
        let Some((number, handle)) = alive else {
            self.driver = None;
            return;
        };
        if (self.driver.as_ref()).is_none_or(|(known, _)| *known != number) {
            let sessions = timeout(Duration::from_secs(1), handle.sessions()).await;
            self.driver = sessions.ok().flatten().map(|router| (number, router));
        }
    }

    async fn act(&mut self, pod: &Value) -> Verdict {
        let name = text(pod, "/metadata/name").to_owned();
        let pause = Duration::from_millis(self.rng.random_range(0..40_000));
        let executor = self.pods.entry(name.clone()).or_insert(Executor {
            starts: Instant::now() + pause,
            begun: false,
            registered: None,
            due: None,
            passed_over: None,
        });
        if Instant::now() < executor.starts {
            return Ok(());
        }
        if text(pod, "/status/phase") == "Running" {
            return self.speak(&name, pod).await;
        }
        let now = (jiff::Timestamp::UNIX_EPOCH + self.began.elapsed()).to_string();
        self.client().bind(&name, "node-1").await;
        let status = statuses::running(pod, &now);
        self.client().status(&name, status).await;
        Ok(())
    }

    /// The agent registers with each driver; then it begins, if it has not.
    // spec: A-117, B-77
    async fn speak(&mut self, name: &str, pod: &Value) -> Verdict {
        let waits = is_spare(pod);
        let Some(driver) = self.driver.clone() else {
            return Ok(());
        };
        let Some(executor) = self.pods.get_mut(name) else {
            return Ok(());
        };
        if executor.registered == Some(driver.0) {
            return Ok(());
        }
        let register = json!({
            "type": "register", "app": env(pod, "BOATSWAIN_APP_ID"), "slots": 1,
            "executor": env(pod, "BOATSWAIN_EXECUTOR_ID").parse::<u64>().unwrap_or_default(),
            "pod_uid": text(pod, "/metadata/uid"),
        });
        let answer = post(pod, &driver.1, &register).await;
        let answer = answer.as_ref().and_then(|messages| messages.first());
        if answer.is_some_and(|answer| text(answer, "/type") == "registered") {
            trace_line!("{name} registers with d{}", driver.0);
            (executor.registered, executor.begun, executor.due) = (Some(driver.0), true, None);
            let state = self.cluster.state().await;
            let now = state
                .pods(NAMESPACE)
                .find(|pod| text(pod, "/metadata/name") == name);
            return match now.is_some_and(is_spare) {
                true => Err(format!("A-117: {name} is a spare, and its program begins")),
                false => Ok(()),
            };
        }
        let since = *executor.due.get_or_insert_with(Instant::now);
        if waits || (self.lives).is_none_or(|lives| lives.elapsed() < NOTICE) {
            executor.due = None;
        } else if since.elapsed() > NOTICE {
            return Err(format!("B-77: {name} is no spare, and is told to wait"));
        }
        Ok(())
    }

    async fn count(&mut self) -> Numbers {
        let mut numbers = Numbers::default();
        for pod in self.living().await.values() {
            let runs = usize::from(text(pod, "/status/phase") == "Running");
            let (all, running) = match is_spare(pod) {
                false => (&mut numbers.executors, &mut numbers.running_executors),
                true => (&mut numbers.spares, &mut numbers.running_spares),
            };
            *all += 1;
            *running += runs;
        }
        numbers
    }

    // spec: A-118
    fn check(&mut self, numbers: &Numbers) -> Verdict {
        let is_over = |executor: &Executor| {
            (executor.passed_over).is_some_and(|since| since.elapsed() > NOTICE)
        };
        if let Some((name, _)) = self.pods.iter().find(|(_, executor)| is_over(executor)) {
            return Err(format!(
                "A-118: {name} is a spare that runs, and another executor was requested"
            ));
        }
        let is_alive = self.lives.is_some_and(|lives| lives.elapsed() > NOTICE);
        if !is_alive || numbers.executors >= self.executors || numbers.running_spares == 0 {
            self.lacks = None;
            return Ok(());
        }
        let since = *self.lacks.get_or_insert_with(Instant::now);
        match since.elapsed() > NOTICE {
            true => Err(format!("A-118: {numbers:?}, and no spare is promoted")),
            false => Ok(()),
        }
    }

    async fn pass(&mut self, time: Duration) -> Verdict {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.look().await?;
            if self.rng.random_ratio(1, 40) {
                self.lose().await;
            }
        }
        Ok(())
    }

    /// Somebody deletes the pods of some executors that run.
    async fn lose(&mut self) {
        let pods = self.living().await;
        for pod in pods.values() {
            let name = text(pod, "/metadata/name");
            let is_old = (self.pods.get(name))
                .is_some_and(|one| one.starts + Duration::from_secs(5) < Instant::now());
            if is_old && self.rng.random_ratio(1, 3) {
                trace_line!("{name} is deleted");
                let uid = text(pod, "/metadata/uid");
                self.client().delete(name, uid, Some(0)).await;
            }
        }
    }

    /// As many executors and spares as are wanted run, in time, and stay so.
    // spec: A-117
    async fn whole(&mut self) -> Verdict {
        let wanted = Numbers {
            executors: self.executors,
            running_executors: self.executors,
            spares: self.spares,
            running_spares: self.spares,
        };
        let began = Instant::now();
        let mut since = None;
        loop {
            self.look().await?;
            let numbers = self.count().await;
            if numbers == wanted {
                let since = *since.get_or_insert_with(Instant::now);
                if since.elapsed() > Duration::from_secs(20) {
                    return Ok(());
                }
                continue;
            }
            since = None;
            if began.elapsed() > REFILL {
                return Err(format!("A-117: after {REFILL:?} there are {numbers:?}"));
            }
        }
    }

    async fn run(mut self) -> Verdict {
        trace_line!("{} executors, {} spares", self.executors, self.spares);
        self.start();
        for _ in 0..self.rng.random_range(0..5) {
            let pause = Duration::from_millis(self.rng.random_range(0..120_000));
            self.pass(pause).await?;
            self.kill();
            let pause = Duration::from_millis(self.rng.random_range(0..20_000));
            self.pass(pause).await?;
            self.start();
        }
        self.pass(Duration::from_secs(120)).await?;
        self.whole().await
    }
}

/// Runs a seed. Returns the trace too.
pub fn run(fault: Option<Planted>, seed: u64, traced: bool) -> (Verdict, String) {
    run_world(fault, traced, || {
        let world = World::new(seed);
        (Rc::clone(&world.drivers), world.run())
    })
}

// spec, B-77
#[test]
fn sim_spares_take_the_places_of_lost_executors() {
    run_worlds("spares", SEEDS, run);
}
