//! Worlds in which executors end early: a profile most of whose executors live is refilled at once, also by a driver
//! that starts meanwhile; one whose executors all end early is requested ever less often, and is whole again when its
//! executors stay (spec A-97).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use boatswain::config::Config;
use boatswain::planted::Planted;
use devcluster::{DevCluster, SimulatedNode};
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::checks::Verdict;
use crate::drivers::{Driver, Drivers, start_next};
use crate::lease::wire::Wires;
use crate::node::statuses;
use crate::objects::{DirectClient, NAMESPACE, text};
use crate::runs::{cluster, run_world, run_worlds};
use crate::trace::trace_line;

const SEEDS: u64 = 30;

/// How often the world looks at the pods.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Requests and answers take up to 400 ms each way.
const REFILLED_WITHIN: Duration = Duration::from_secs(5);

/// A driver that starts reads its record and the pods before it requests any.
const REFILLED_BY_SUCCESSOR_WITHIN: Duration = Duration::from_secs(7);

/// For this long all executors end early.
const CRASH_LOOP: Duration = Duration::from_secs(600);

/// After a crash loop: the longest backoff, and the probe's trial.
const WHOLE_AGAIN_WITHIN: Duration = Duration::from_secs(300 + 60 + 30);

/// A pod that runs.
struct Running {
    pod: Value,
    since: Instant,
}

struct World {
    rng: StdRng,
    cluster: DevCluster,
    wires: Wires,
    drivers: Drivers,
    config: Config,
    executors: usize,
    /// The pods that run, by name.
    running: BTreeMap<String, Running>,
    /// The names of all pods that there were.
    seen: BTreeSet<String>,
    began: Instant,
    seed: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let executors = rng.random_range(10..100);
        let sets = [
            "profiles.default.image=none".to_owned(),
            format!("profiles.default.executors={executors}"),
        ];
        Self {
            rng,
            cluster: cluster(seed, SimulatedNode::default()),
            wires: Wires::new(seed),
            drivers: Drivers::default(),
            config: Config::from_toml("", "none.toml", [], &sets).unwrap(),
            executors,
            running: BTreeMap::new(),
            seen: BTreeSet::new(),
            began: Instant::now(),
            seed,
        }
    }

    fn start(&self) {
        let clients = self.wires.connect(self.cluster.router());
        start_next(&self.drivers, self.config.clone(), clients, self.seed);
    }

    /// Lets time pass until the next look, and looks.
    async fn look(&mut self) -> Verdict {
        sleep(LOOK_EVERY).await;
        for driver in self.drivers.borrow_mut().iter_mut() {
            if let Some(exit) = driver.take_exit() {
                return Err(format!(
                    "A-30: driver {} exits with {exit:?}",
                    driver.number
                ));
            }
        }
        let state = self.cluster.state().await;
        let mut running = BTreeMap::new();
        for pod in state.pods(NAMESPACE) {
            let name = text(pod, "/metadata/name");
            self.seen.insert(name.to_owned());
            if text(pod, "/status/phase") == "Running"
                && pod["metadata"]["deletionTimestamp"].is_null()
            {
                let since =
                    (self.running.get(name)).map_or_else(Instant::now, |before| before.since);
                let pod = pod.clone();
                running.insert(name.to_owned(), Running { pod, since });
            }
        }
        self.running = running;
        Ok(())
    }

    async fn pass(&mut self, time: Duration) -> Verdict {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.look().await?;
        }
        Ok(())
    }

    async fn whole_within(&mut self, time: Duration) -> Verdict {
        let began = Instant::now();
        while self.running.len() != self.executors {
            if began.elapsed() > time {
                let (running, wanted) = (self.running.len(), self.executors);
                return Err(format!(
                    "A-30: {running} of {wanted} executors run after {time:?}"
                ));
            }
            self.look().await?;
        }
        trace_line!("all run after {:?}", began.elapsed());
        Ok(())
    }

    async fn end(&mut self, name: &str) {
        let Some(Running { pod, since }) = self.running.remove(name) else {
            return;
        };
        trace_line!("{name} ends after {:?}", since.elapsed());
        let now = jiff::Timestamp::UNIX_EPOCH + self.began.elapsed();
        let (code, reason) = [(137, "OOMKilled"), (1, "Error")][self.rng.random_range(0..2)];
        let status = statuses::ended(&pod, code, reason, &now.to_string());
        DirectClient::new(self.cluster.router())
            .status(name, status)
            .await;
    }

    /// Fewer than half of the executors end.
    async fn some_end(&mut self) -> Verdict {
        let age = Duration::from_millis(self.rng.random_range(2_000..50_000));
        self.pass(age).await?;
        let mut names: Vec<_> = self.running.keys().cloned().collect();
        names.shuffle(&mut self.rng);
        names.truncate(self.rng.random_range(2..names.len().div_ceil(2)));
        let replaced = self.rng.random_ratio(1, 2);
        let kill_before = self.rng.random_range(0..=names.len());
        for (n, name) in names.iter().enumerate() {
            if replaced && n == kill_before {
                self.kill();
            }
            self.end(name).await;
            if self.rng.random_ratio(1, 10) {
                self.look().await?;
            }
        }
        if !replaced {
            return self.whole_within(REFILLED_WITHIN).await;
        }
        let pause = Duration::from_millis(self.rng.random_range(0..2_000));
        self.pass(pause).await?;
        self.kill();
        self.start();
        self.whole_within(REFILLED_BY_SUCCESSOR_WITHIN).await
    }

    fn kill(&self) {
        trace_line!("the driver is killed");
        self.drivers.borrow_mut().iter_mut().for_each(Driver::kill);
    }

    /// Each executor ends when it has run for the same time.
    async fn all_end(&mut self) -> Verdict {
        let life = Duration::from_millis(self.rng.random_range(500..20_000));
        let until = Instant::now() + CRASH_LOOP;
        while Instant::now() < until {
            self.look().await?;
            let is_over = |running: &Running| running.since.elapsed() >= life;
            let over: Vec<_> = (self.running.iter())
                .filter(|(_, running)| is_over(running))
                .map(|(name, _)| name.clone())
                .collect();
            for name in over {
                self.end(&name).await;
            }
        }
        let (requested, wanted) = (self.seen.len(), self.executors);
        if requested > 3 * wanted {
            return Err(format!(
                "A-30: {requested} requests for {wanted} executors that each ran for {life:?}"
            ));
        }
        self.whole_within(WHOLE_AGAIN_WITHIN).await
    }

    async fn run(mut self) -> Verdict {
        self.start();
        self.whole_within(Duration::from_secs(30)).await?;
        match self.rng.random_ratio(2, 3) {
            true => self.some_end().await,
            false => self.all_end().await,
        }
    }
}

/// Runs a seed. Returns the trace too.
pub fn run(fault: Option<Planted>, seed: u64, traced: bool) -> (Verdict, String) {
    run_world(fault, traced, || {
        let world = World::new(seed);
        (Rc::clone(&world.drivers), world.run())
    })
}

// spec: A-97, I-4
#[test]
fn sim_early_ends_are_weighed_against_the_executors_that_live() {
    run_worlds("early_ends", SEEDS, run);
}
