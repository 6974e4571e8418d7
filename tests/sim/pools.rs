//! Worlds with a pool of profiles whose room in the cluster changes, and drivers that are killed meanwhile: what finds no
//! room falls back in time, no executor is given up for one that does not run yet, and everything comes back where it is
//! preferred (spec B-74, B-75, B-76).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use boatswain::config::Config;
use boatswain::model::pool::split;
use boatswain::planted::Planted;
use devcluster::{DevCluster, NodeKind, Options};
use http::{Method, StatusCode};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::checks::Verdict;
use crate::drivers::{Driver, Drivers, start_next};
use crate::faults::commands::call;
use crate::lease::wire::Wires;
use crate::node::statuses;
use crate::objects::{DirectClient, NAMESPACE, is_terminating, label, text};
use crate::runs::{run_world, run_worlds};
use crate::trace::trace_line;

const SEEDS: u64 = 30;

const POOL: &str = "batch";

/// The profiles, the preferred one first.
const PROFILES: [&str; 3] = ["spot", "reserved", "on-demand"];

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A driver learns of a pod that runs within this time, and its delete reaches the server within it.
const NOTICE: Duration = Duration::from_secs(3);

/// `allocation.cancel_delay`: those whose places others have taken may run on for this long.
const CANCEL_DELAY: Duration = Duration::from_secs(10);

/// How long it takes to request what is missing, and to place it.
const REFILL: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waits,
    /// Since then.
    Runs(Instant),
    Terminates,
}

#[derive(Debug, Clone)]
struct Pod {
    profile: String,
    state: State,
    value: Value,
}

struct World {
    rng: StdRng,
    cluster: DevCluster,
    wires: Wires,
    drivers: Drivers,
    config: Config,
    /// What of the pool is wanted.
    target: u32,
    /// When the target fell last, or a driver began with too many executors, so that executors end.
    fell: Option<Instant>,
    /// When executors were lost last, which a driver does not know at once.
    lost: Option<Instant>,
    /// How many executors of each profile the cluster has room for.
    room: BTreeMap<&'static str, usize>,
    pods: BTreeMap<String, Pod>,
    began: Instant,
    seed: u64,
}

/// Two or three profiles, with limits that are drawn.
fn config(rng: &mut StdRng, target: u32) -> Config {
    let profiles = match rng.random_ratio(1, 2) {
        true => &PROFILES[..],
        false => &[PROFILES[0], PROFILES[2]],
    };
    let mut sets: Vec<String> = profiles
        .iter()
        .map(|name| format!("profiles.{name}.image=none"))
        .collect();
    let (fallback, again) = (rng.random_range(10..90), rng.random_range(20..120));
    sets.extend([
        "profiles.default.image=none".to_owned(),
        "profiles.default.executors=0".to_owned(),
        format!("pools.{POOL}.profiles={profiles:?}"),
        format!("pools.{POOL}.executors={target}"),
        format!("pools.{POOL}.fallback_after={fallback}s"),
        format!("pools.{POOL}.return_after={again}s"),
    ]);
    if rng.random_ratio(1, 3) {
        let least = rng.random_range(1..4);
        sets.push(format!("pools.{POOL}.at_least={{ on-demand = {least} }}"));
    }
    if rng.random_ratio(1, 3) {
        let share = rng.random_range(10..100);
        sets.push(format!("pools.{POOL}.share={{ spot = \"{share}%\" }}"));
    }
    Config::from_toml("", "none.toml", [], &sets).unwrap()
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let target = rng.random_range(2..30);
        let config = config(&mut rng, target);
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
            target,
            fell: None,
            lost: None,
            room: BTreeMap::new(),
            pods: BTreeMap::new(),
            began: Instant::now(),
            seed,
        }
    }

    fn pool(&self) -> &boatswain::config::Pool {
        &self.config.pools[POOL]
    }

    fn start(&mut self) {
        // What the one before it had to remove is left to this one.
        if self.pods.len() > self.target as usize {
            self.fell = Some(Instant::now());
        }
        let clients = self.wires.connect(self.cluster.router());
        start_next(&self.drivers, self.config.clone(), clients, self.seed);
    }

    fn kill(&self) {
        trace_line!("the driver is killed");
        self.drivers.borrow_mut().iter_mut().for_each(Driver::kill);
    }

    fn client(&self) -> DirectClient {
        DirectClient::new(self.cluster.router())
    }

    fn running(&self, profile: &str) -> usize {
        let pods = self.pods.values().filter(|pod| pod.profile == profile);
        pods.filter(|pod| matches!(pod.state, State::Runs(_)))
            .count()
    }

    fn all_running(&self) -> usize {
        PROFILES.iter().map(|profile| self.running(profile)).sum()
    }

    /// Lets time pass until the next look, places pods, and looks.
    async fn look(&mut self) -> Verdict {
        sleep(LOOK_EVERY).await;
        for driver in self.drivers.borrow_mut().iter_mut() {
            if let Some(exit) = driver.take_exit() {
                return Err(format!(
                    "B-74: driver {} exits with {exit:?}",
                    driver.number
                ));
            }
        }
        self.read().await?;
        self.place().await;
        Ok(())
    }

    /// Only drivers delete pods here. They delete none that runs as long as it is needed.
    // spec: B-75
    async fn read(&mut self) -> Verdict {
        let state = self.cluster.state().await;
        let mut pods = BTreeMap::new();
        let mut ended_early = None;
        for value in state.pods(NAMESPACE) {
            let name = text(value, "/metadata/name");
            let before = self.pods.get(name).map(|pod| pod.state);
            let state = match (is_terminating(value), text(value, "/status/phase")) {
                (true, _) => State::Terminates,
                (false, "Failed") => continue,
                (false, "Running") => match before {
                    Some(State::Runs(since)) => State::Runs(since),
                    _ => State::Runs(Instant::now()),
                },
                (false, _) => State::Waits,
            };
            if let (State::Terminates, Some(State::Runs(since))) = (state, before)
                && since.elapsed() > NOTICE
            {
                ended_early = Some(name.to_owned());
            }
            let profile = label(value, "boatswain.dev/profile").to_owned();
            let value = value.clone();
            pods.insert(
                name.to_owned(),
                Pod {
                    profile,
                    state,
                    value,
                },
            );
        }
        self.pods = pods;
        let has_fallen = self.fell.is_some_and(|at| at.elapsed() < NOTICE + REFILL);
        let has_lost = self
            .lost
            .is_some_and(|at| at.elapsed() < NOTICE + CANCEL_DELAY);
        let (running, target) = (self.all_running(), self.target as usize);
        match ended_early {
            Some(name) if running < target && !has_fallen && !has_lost => Err(format!(
                "B-75: {name} is deleted while it runs, and then {running} of {target} run"
            )),
            _ if self.pods.len() > 3 * target + 3 && !has_fallen => Err(format!(
                "B-75: {} pods for {target} executors",
                self.pods.len()
            )),
            _ => Ok(()),
        }
    }

    /// What a scheduler and kubelets do.
    async fn place(&mut self) {
        let now = (jiff::Timestamp::UNIX_EPOCH + self.began.elapsed()).to_string();
        let client = self.client();
        let mut free: BTreeMap<&str, usize> = (PROFILES.iter())
            .map(|profile| {
                let room = self.room.get(profile).copied().unwrap_or(usize::MAX);
                (*profile, room.saturating_sub(self.running(profile)))
            })
            .collect();
        for (name, pod) in &self.pods {
            match pod.state {
                State::Terminates => {
                    let uid = text(&pod.value, "/metadata/uid");
                    client.delete(name, uid, Some(0)).await;
                }
                State::Waits => {
                    let free = free.get_mut(pod.profile.as_str());
                    if let Some(free) = free.filter(|free| **free > 0) {
                        *free -= 1;
                        client.bind(name, "node-1").await;
                        client
                            .status(name, statuses::running(&pod.value, &now))
                            .await;
                    } else if text(&pod.value, "/status/conditions/0/reason") != "Unschedulable" {
                        client.status(name, statuses::unschedulable()).await;
                    }
                }
                State::Runs(_) => {}
            }
        }
    }

    async fn pass(&mut self, time: Duration) -> Verdict {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.look().await?;
        }
        Ok(())
    }

    /// The target is reached in time: after one fallback for each profile but the last.
    // spec: B-74
    async fn whole(&mut self) -> Verdict {
        let (began, stages) = (Instant::now(), self.pool().profiles.len() as u32);
        let within = (self.pool().fallback_after + REFILL) * stages + REFILL;
        while self.all_running() < self.target as usize {
            if began.elapsed() > within {
                return Err(format!(
                    "B-74: {} of {} executors run after {within:?}, room {:?}",
                    self.all_running(),
                    self.target,
                    self.room
                ));
            }
            self.look().await?;
        }
        trace_line!("all run after {:?}", began.elapsed());
        Ok(())
    }

    /// Where there is room for all, each profile has as many as B-74 says, in the end and from then on.
    // spec: B-74, B-75
    async fn returns(&mut self) -> Verdict {
        self.room.clear();
        trace_line!("there is room for all");
        let pool = self.pool().clone();
        let limits = pool.names().map(|name| pool.limits(&name, u32::MAX));
        let wanted = split(self.target, &limits.collect::<Vec<_>>());
        // The longest wait for a trial, for each profile, and the trials: 1, 2, 4 …
        let trials = self.target.ilog2() + 2;
        let within = (pool.return_after * 8 + pool.fallback_after + REFILL * trials) * 2;
        let began = Instant::now();
        let is_split = |world: &Self| {
            let running = pool.profiles.iter().map(|name| world.running(name) as u32);
            running.eq(wanted.iter().copied())
        };
        while !is_split(self) {
            if began.elapsed() > within {
                let running: Vec<_> = pool
                    .profiles
                    .iter()
                    .map(|name| (name, self.running(name)))
                    .collect();
                return Err(format!(
                    "B-75: {running:?} run after {within:?}, wanted {wanted:?}"
                ));
            }
            self.look().await?;
        }
        trace_line!("as preferred after {:?}: {wanted:?}", began.elapsed());
        for _ in 0..60 {
            self.look().await?;
            if !is_split(self) {
                return Err("B-74: executors move although there is room for all".to_owned());
            }
        }
        Ok(())
    }

    /// Some executors that run are lost, with their nodes.
    async fn interrupt(&mut self, profile: &str) {
        let now = (jiff::Timestamp::UNIX_EPOCH + self.began.elapsed()).to_string();
        let running = self
            .pods
            .iter()
            .filter(|(_, pod)| pod.profile == profile && matches!(pod.state, State::Runs(_)));
        let names: BTreeSet<String> = running.map(|(name, _)| name.clone()).collect();
        let lost = self.rng.random_range(0..=names.len());
        let room = self.room.get(profile).copied().unwrap_or(names.len());
        trace_line!("{lost} of {profile} are lost");
        self.lost = Some(Instant::now());
        for name in names.iter().take(lost) {
            let Some(pod) = self.pods.remove(name) else {
                continue;
            };
            let status = statuses::failed(&pod.value, "Terminated", "the node is taken back", &now);
            self.client().status(name, status).await;
        }
        if let Some(profile) = PROFILES.iter().find(|name| **name == profile) {
            self.room.insert(profile, room.saturating_sub(lost));
        }
    }

    async fn set_target(&mut self, target: u32) -> Verdict {
        let handle = self
            .drivers
            .borrow()
            .last()
            .map(|driver| driver.handle.clone());
        let body = json!({"targets": {POOL: target}});
        let status = call(handle, Method::PUT, "/v1/targets", &body).await;
        trace_line!("{body}: {status:?}");
        if status != Some(StatusCode::OK) {
            return Err(format!("B-74: {body} is answered {status:?}"));
        }
        if target < self.target {
            self.fell = Some(Instant::now());
        }
        self.target = target;
        Ok(())
    }

    async fn step(&mut self) -> Verdict {
        let pool = self.pool().clone();
        let names = pool.profiles.len() - 1;
        let profile = pool.profiles[self.rng.random_range(0..names)].clone();
        match self.rng.random_range(0..10) {
            0..3 => self.interrupt(&profile).await,
            3..6 => {
                let room = self.rng.random_range(0..self.target as usize + 5);
                let room = room.max(self.running(&profile));
                trace_line!("room for {room} of {profile}");
                if let Some(profile) = PROFILES.iter().find(|name| **name == profile) {
                    self.room.insert(profile, room);
                }
            }
            6..8 => {
                let target = self.rng.random_range(1..40);
                self.set_target(target).await?;
            }
            _ => {
                self.kill();
                let pause = Duration::from_millis(self.rng.random_range(0..20_000));
                self.pass(pause).await?;
                self.start();
                self.pass(REFILL).await?;
                // A target that was set just before the kill may not be in the record: applications set it again.
                self.fell = Some(Instant::now());
                self.set_target(self.target).await?;
            }
        }
        let pause = Duration::from_millis(self.rng.random_range(0..100_000));
        match self.rng.random_ratio(1, 2) {
            true => self.pass(pause).await,
            false => self.whole().await,
        }
    }

    async fn run(mut self) -> Verdict {
        if self.rng.random_ratio(1, 2) {
            let room = self.rng.random_range(0..self.target as usize);
            self.room.insert(PROFILES[0], room);
        }
        trace_line!("{:?}, room {:?}", self.pool(), self.room);
        self.start();
        self.whole().await?;
        for _ in 0..self.rng.random_range(0..6) {
            self.step().await?;
        }
        self.whole().await?;
        // What was decided before has been carried out.
        self.pass(CANCEL_DELAY + REFILL).await?;
        self.returns().await
    }
}

/// Runs a seed. Returns the trace too.
pub fn run(fault: Option<Planted>, seed: u64, traced: bool) -> (Verdict, String) {
    run_world(fault, traced, || {
        let world = World::new(seed);
        (Rc::clone(&world.drivers), world.run())
    })
}

// spec: B-74, B-75, B-76
#[test]
fn sim_pools_keep_their_target_wherever_there_is_room() {
    run_worlds("pools", SEEDS, run);
}
