//! Worlds of two applications in one namespace, whose names begin alike and whose ids may be the same (spec E-1, I-7).
//!
//! Somebody with rights on ConfigMaps writes values to the record of the first one that a driver can read but never
//! wrote ([`records`]). Drivers are killed and start from such records. Other pods have names or labels like the first
//! application's. Now and then a driver of a third application starts with the first one's prefix. No driver may crash,
//! exceed its configuration, or write to an object that another made. In the end the operator deletes the record, the
//! first application converges and ends, and the second one has not noticed anything.

mod checks;
mod records;
mod wire;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use boatswain::config::{Config, OnSignal};
use boatswain::exit::Exit;
use boatswain::model::ids::id_in_pod_name;
use boatswain::planted::Planted;
use devcluster::{DevCluster, SimulatedNode};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::checks::Verdict;
use crate::drivers::{Driver, Drivers, start_next};
use crate::objects::{DirectClient, NAMESPACE, text};
use crate::runs::{cluster, run_world, run_worlds};
use crate::trace::{self, trace_line};
use wire::{Owner, Wires};

const SEEDS: u64 = 30;

const FAULTS: usize = 14;

/// `profiles.default.max_executors` of both applications.
const MOST_EXECUTORS: u32 = 12;

/// The most lost executors that a start reports (spec L-34), and the living ones.
const MOST_ENTRIES: usize = 100_000 + 4 * MOST_EXECUTORS as usize;

/// A driver that has ended starts again after this long.
const RESTART_DELAY: Duration = Duration::from_secs(5);

const CONVERGES_WITHIN: Duration = Duration::from_secs(240);

const QUIET: Duration = Duration::from_secs(60);

/// More than `shutdown.grace`.
const ENDS_WITHIN: Duration = Duration::from_secs(70);

/// The prefix of the first application, and of the third.
const PREFIX: &str = "sim";

/// The id of the application that made the other pods.
const BYSTANDER: &str = "bystander";

/// An application and its driver.
struct Application {
    owner: Owner,
    prefix: &'static str,
    config: Config,
    executors: usize,
    /// The number of its youngest driver.
    driver: Option<usize>,
    starts_at: Option<Instant>,
    last_exit: Option<Exit>,
}

pub(super) struct World {
    rng: StdRng,
    cluster: DevCluster,
    client: DirectClient,
    wires: Wires,
    drivers: Drivers,
    first: Application,
    second: Application,
    /// The other pods: uids by name.
    bystanders: BTreeMap<String, String>,
    seed: u64,
}

impl Application {
    fn new(owner: Owner, prefix: &'static str, id: Option<&str>, executors: usize) -> Self {
        let mut sets = vec![
            format!("app.name={prefix}"),
            format!("executors.pod_name_prefix={prefix}"),
            "profiles.default.image=none".to_owned(),
            format!("profiles.default.executors={executors}"),
            format!("profiles.default.max_executors={MOST_EXECUTORS}"),
        ];
        sets.extend(id.map(|id| format!("app.id={id}")));
        Self {
            owner,
            prefix,
            config: Config::from_toml("", "none.toml", [], &sets).unwrap(),
            executors,
            driver: None,
            starts_at: Some(Instant::now()),
            last_exit: None,
        }
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let (first, second) = (rng.random_range(1..9), rng.random_range(1..9));
        let prefix = ["si", "sim-exec", "sim-exec-1", "sim-app", "sim-default"];
        let prefix = prefix[rng.random_range(0..prefix.len())];
        let ids = match rng.random_range(0..3) {
            0 => (Some("one"), "one"),
            1 => (Some("one"), "two"),
            _ => (None, "two"),
        };
        let cluster = cluster(seed, SimulatedNode::default());
        Self {
            client: DirectClient::new(cluster.router()),
            wires: Wires::new(seed),
            cluster,
            drivers: Drivers::default(),
            first: Application::new(Owner::First, PREFIX, ids.0, first),
            second: Application::new(Owner::Second, prefix, Some(ids.1), second),
            bystanders: BTreeMap::new(),
            rng,
            seed,
        }
    }

    fn start(&self, application: &Application) -> usize {
        let number = self.drivers.borrow().len() + 1;
        trace_line!("d{number} is of {:?}", application.owner);
        let clients = (self.wires).connect(application.owner, number, self.cluster.router());
        start_next(
            &self.drivers,
            application.config.clone(),
            clients,
            self.seed,
        )
    }

    fn of(&self, number: usize, change: impl FnOnce(&mut Driver)) {
        change(&mut self.drivers.borrow_mut()[number - 1]);
    }

    fn is_alive(&self, application: &Application) -> bool {
        let drivers = self.drivers.borrow();
        (application.driver).is_some_and(|number| drivers[number - 1].is_alive())
    }

    /// Kills the first or the second application's driver. The next one starts after this long.
    fn kill(&mut self, second: bool, restart_after: Duration) {
        let application = if second { &self.second } else { &self.first };
        if let Some(number) = application.driver {
            trace_line!("d{number} is killed");
            self.of(number, Driver::kill);
        }
        let application = match second {
            true => &mut self.second,
            false => &mut self.first,
        };
        application.starts_at = Some(Instant::now() + restart_after);
    }

    /// Lets time pass, starts drivers that are due, and checks all of them.
    async fn pass(&mut self, time: Duration) -> Verdict {
        let until = Instant::now() + time;
        while Instant::now() < until {
            sleep(Duration::from_millis(250)).await;
            self.check_exits()?;
            for second in [false, true] {
                let application = if second { &self.second } else { &self.first };
                if application.starts_at.is_none_or(|at| at > Instant::now()) {
                    continue;
                }
                let number = self.start(application);
                let application = match second {
                    true => &mut self.second,
                    false => &mut self.first,
                };
                (application.driver, application.starts_at) = (Some(number), None);
            }
            self.check_ledgers().await?;
            self.check_pods().await?;
            if let Some(panic) = trace::panics().first() {
                return Err(format!("O-12: {panic}"));
            }
            if let Some(violation) = self.wires.violation() {
                return Err(violation);
            }
        }
        Ok(())
    }

    async fn fault(&mut self) -> Verdict {
        // The operator does what the driver's message says.
        let is_stuck = matches!(
            self.first.last_exit,
            Some(Exit::Configuration | Exit::Finished(_))
        ) && !self.is_alive(&self.first);
        if is_stuck && self.rng.random() {
            self.delete_record().await;
        }
        let restart_after = Duration::from_millis(self.rng.random_range(0..8_000));
        match self.rng.random_range(0..14) {
            0..6 => {
                self.attack().await;
                if self.rng.random_bool(0.7) {
                    let wait = Duration::from_millis(self.rng.random_range(0..3_000));
                    self.pass(wait).await?;
                    self.kill(false, restart_after);
                }
            }
            6 => self.kill(false, restart_after),
            7 => self.kill(true, restart_after),
            8 => {
                let second = self.rng.random();
                let application = if second { &self.second } else { &self.first };
                if let Some(number) = application.driver {
                    self.of(number, |driver| {
                        driver.stop_requested = Some((OnSignal::HandOver, Instant::now()));
                        driver.handle.stop_by(OnSignal::HandOver);
                    });
                }
            }
            9 => self.delete_pods().await,
            10 | 11 => self.third_application().await?,
            _ => self.bystander().await,
        }
        Ok(())
    }

    /// Writes readable but false values to the first application's record.
    async fn attack(&mut self) {
        let state = self.cluster.state().await;
        let Some(record) = record(&state, PREFIX) else {
            return;
        };
        let highest = self.highest_id(&state);
        let edits = records::draw(&mut self.rng, &record["data"], highest);
        let shown: Vec<_> = (edits.iter())
            .map(|(key, value)| format!("{key}={}", value.chars().take(80).collect::<String>()))
            .collect();
        trace_line!("the record is rewritten: {}", shown.join(" "));
        let patch = json!({"data": edits});
        (self.client.patch_config_map("sim-app", &patch)).await;
    }

    /// The operator deletes the first application's record, and its executors with it.
    async fn delete_record(&mut self) {
        self.kill(false, RESTART_DELAY);
        self.first.last_exit = None;
        let code = (self.client).delete_config_map("sim-app", "Background");
        trace_line!("the operator deletes the record: {}", code.await);
    }

    /// Deletes about half of the pods.
    async fn delete_pods(&mut self) {
        let state = self.cluster.state().await;
        for pod in state.pods(NAMESPACE) {
            let (name, uid) = (text(pod, "/metadata/name"), text(pod, "/metadata/uid"));
            if self.rng.random() && !self.bystanders.contains_key(name) {
                self.client.delete(name, uid, None).await;
            }
        }
    }

    /// A driver of another application starts with the first one's prefix. It must exit and write nothing.
    // spec: O-98, O-31, I-7
    async fn third_application(&mut self) -> Verdict {
        let state = self.cluster.state().await;
        if record(&state, PREFIX).is_none() {
            return Ok(());
        }
        let third = Application::new(Owner::Third, PREFIX, Some("three"), 3);
        let number = self.start(&third);
        let until = Instant::now() + third.config.cluster.start_timeout;
        while Instant::now() < until {
            self.pass(Duration::from_millis(500)).await?;
            let exit = self.drivers.borrow_mut()[number - 1].take_exit();
            match exit {
                None => {}
                Some(Exit::Configuration) => return Ok(()),
                Some(exit) => {
                    return Err(format!(
                        "O-30: d{number} found the record of another application and ended with {exit:?}"
                    ));
                }
            }
        }
        Err(format!(
            "O-30: d{number} found the record of another application and runs on"
        ))
    }

    fn highest_id(&self, state: &devcluster::State) -> u64 {
        let ids = pods(state, PREFIX)
            .filter_map(|pod| id_in_pod_name(PREFIX, text(pod, "/metadata/name")));
        ids.map(|id| id.get()).max().unwrap_or(0)
    }

    /// Somebody creates a pod that is like an executor of the first application, by its name or by its labels.
    async fn bystander(&mut self) {
        let state = self.cluster.state().await;
        let id = self.highest_id(&state) + self.rng.random_range(1..4);
        let first = record(&state, PREFIX)
            .map_or("one", |record| text(record, "/data/app-id"))
            .to_owned();
        let (name, app) = match self.rng.random_range(0..4) {
            0 => (format!("{PREFIX}-exec-{id}"), BYSTANDER.to_owned()),
            1 => (format!("{PREFIX}-exec-0{id}"), first),
            2 => (format!("other-exec-{id}"), first),
            _ => (format!("{PREFIX}-exec-{id}-0"), first),
        };
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {
                "boatswain.dev/app-id": app,
                "boatswain.dev/role": "executor",
                "boatswain.dev/executor-id": id.to_string(),
                "boatswain.dev/profile": "default",
            }},
            "spec": {"containers": [{"name": "executor", "image": "none"}]},
        });
        let code = self.client.create(&pod).await;
        trace_line!("a pod {name} of {app} is created: {code}");
        let state = self.cluster.state().await;
        if let Some(pod) = state.pod(NAMESPACE, &name).filter(|_| code == 201) {
            let uid = text(pod, "/metadata/uid").to_owned();
            self.wires.is_of_nobody(&name);
            self.bystanders.insert(name, uid);
        }
    }

    async fn run(mut self) -> Verdict {
        for _ in 0..FAULTS {
            let pause = Duration::from_millis(self.rng.random_range(0..25_000));
            self.pass(pause).await?;
            self.fault().await?;
        }
        trace_line!("== faults end");
        self.wires.end_faults();
        self.delete_record().await;
        self.pass(CONVERGES_WITHIN).await?;
        for application in [&self.first, &self.second] {
            self.check_converged(application).await?;
        }
        let before = self.wires.writes();
        self.pass(QUIET).await?;
        match self.wires.writes() - before {
            0 => {}
            more => return Err(format!("I-4: {more} writes in {QUIET:?} without a fault")),
        }
        for second in [false, true] {
            self.end(second).await?;
        }
        self.check_bystanders().await
    }

    /// Ends an application, which leaves nothing behind.
    // spec: O-11
    async fn end(&mut self, second: bool) -> Verdict {
        let application = if second { &self.second } else { &self.first };
        if let Some(number) = application.driver {
            trace_line!("== d{number} has to end its application");
            self.of(number, |driver| {
                driver.stop_requested = Some((OnSignal::End, Instant::now()));
                driver.handle.stop_by(OnSignal::End);
            });
        }
        self.pass(ENDS_WITHIN).await?;
        let application = if second { &self.second } else { &self.first };
        let exit = application.last_exit;
        if exit != Some(Exit::Clean) {
            let owner = application.owner;
            return Err(format!("O-11: {owner:?} did not end: {exit:?}"));
        }
        let state = self.cluster.state().await;
        let left = (state.pods(NAMESPACE))
            .chain(state.config_maps(NAMESPACE))
            .map(|object| text(object, "/metadata/name"))
            .find(|name| self.wires.is_of(name, application.owner));
        match left {
            Some(left) => Err(format!("O-11: {left} is left")),
            None if second => Ok(()),
            None => self.check_converged(&self.second).await,
        }
    }
}

/// The application record of this prefix.
fn record<'a>(state: &'a devcluster::State, prefix: &str) -> Option<&'a Value> {
    let name = format!("{prefix}-app");
    (state.config_maps(NAMESPACE)).find(|map| text(map, "/metadata/name") == name)
}

/// The pods with the names of executors of this prefix.
fn pods<'a>(state: &'a devcluster::State, prefix: &'a str) -> impl Iterator<Item = &'a Value> {
    (state.pods(NAMESPACE))
        .filter(move |pod| id_in_pod_name(prefix, text(pod, "/metadata/name")).is_some())
}

/// Runs a seed. Returns the trace too.
pub fn run(fault: Option<Planted>, seed: u64, traced: bool) -> (Verdict, String) {
    run_world(fault, traced, || {
        let world = World::new(seed);
        (Rc::clone(&world.drivers), world.run())
    })
}

// spec: E-1, I-7, I-8, I-11, O-30, O-98, O-31, O-58
#[test]
fn sim_neighbours_and_false_records_harm_nobody_else() {
    run_worlds("neighbours", SEEDS, run);
}
