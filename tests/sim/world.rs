//! One simulation run: the cluster, the nodes and the drivers, to which the script's faults are applied and whose
//! state is checked after every step.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use boatswain::clock::Clock;
use boatswain::config::{OnSignal, Profile};
use boatswain::model::{ProfileName, Snapshot};
use devcluster::{self, DevCluster, Options, State};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use crate::beliefs::{self, Truth};
use crate::budget::Budget;
use crate::checks::{Checks, Deadlines, Verdict};
use crate::drivers::{Driver, Fleet};
use crate::faults::Tampered;
use crate::network::Network;
use crate::network_conditions::Ill;
use crate::node::Node;
use crate::objects::Hand;
use crate::script::{Fault, Script};
use crate::sessions::Talk;
use crate::trace::{self, say};

/// Longest interval between two checks of all drivers.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Delay before a new driver starts after the last one has ended, unless the script starts one.
const RESTART: Duration = Duration::from_secs(1);

/// Most drivers alive at once.
const MOST_DRIVERS: usize = 3;

pub struct World {
    pub script: Script,
    pub cluster: DevCluster,
    pub network: Network,
    pub hand: Hand,
    pub node: Node,
    pub fleet: Fleet,
    pub checks: Checks,
    pub truth: Truth,
    /// The executors' sessions, if the configuration enables them.
    pub talk: Option<Talk>,
    pub backup: Option<State>,
    /// All profiles that any driver of this run has had.
    pub profiles: BTreeMap<ProfileName, Profile>,
    /// When drivers are due to start.
    pub starts: Vec<Instant>,
    /// The faults that undo temporary ones, and when they are due.
    pub later: Vec<(Instant, Fault)>,
    /// The record's data before and after a fault made it unusable for drivers.
    pub tampered: Option<Tampered>,
    /// When the server or the network last had a fault.
    pub last_trouble: Option<Instant>,
    /// When paused drivers resume.
    pub resumes: Vec<(usize, Instant)>,
    pub clock: Clock,
    /// Number of writes by drivers since this was last reset.
    pub writes: usize,
    /// Whether an operator holds the application; it is resumed when the faults end.
    pub held: bool,
    /// Whether a driver has ended the application and exited cleanly.
    pub ended_clean: bool,
    /// The application's id in the record when the fleet had converged.
    pub app_id: String,
    /// When the drivers' memory was last measured.
    pub measured: Instant,
    pub began: Instant,
    /// The most executors that any driver's ledger has contained.
    pub largest_fleet: usize,
    wake: Arc<Notify>,
    /// The last trace line about a driver's ledger, and the driver and snapshot that it described.
    shown: String,
    shown_last: (usize, u64),
}

impl World {
    pub fn new(script: Script) -> Self {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::starting_at(start);
        let seed = script.seed;
        let options = Options {
            seed,
            wall_clock_start: Some(start),
            ..Options::default()
        };
        let cache = devcluster::start(Options {
            collect_garbage: false,
            ..options.clone()
        });
        let cluster = devcluster::start(options);
        let wake = Arc::new(Notify::new());
        let hand = Hand::new(cluster.router());
        let mut checks = Checks::default();
        checks.budget = Budget::of(&script.config, script.skew);
        checks.deadlines = Deadlines::of(&script.config);
        checks.excuses.gangs = script.config.scheduling.gang.is_on();
        if script.is_of_sets() {
            checks.sets_make_pods();
        }
        for (profile, config) in &script.config.profiles {
            checks.target(profile, config.executors);
        }
        Self {
            network: Network::new(cluster.clone(), cache, Arc::clone(&wake), seed),
            node: Node::new(hand.clone(), script.pace, clock, seed),
            hand,
            cluster,
            fleet: Rc::new(RefCell::new(Vec::new())),
            checks,
            truth: Truth::of(&script),
            talk: Talk::of(&script.config, seed),
            backup: None,
            profiles: script.config.profiles.clone(),
            starts: vec![Instant::now()],
            later: Vec::new(),
            tampered: None,
            last_trouble: None,
            resumes: Vec::new(),
            clock,
            writes: 0,
            held: false,
            ended_clean: false,
            app_id: String::new(),
            measured: Instant::now(),
            began: Instant::now(),
            largest_fleet: 0,
            wake,
            shown: String::new(),
            shown_last: (0, 0),
            script,
        }
    }

    /// Executes the script, then ends all faults and checks convergence.
    pub async fn play(&mut self) -> Verdict {
        let began = Instant::now();
        for step in self.script.steps.clone() {
            self.until(began + step.at).await?;
            say!("-- {:?}", step.fault);
            self.befall(step.fault).await;
            self.step().await?;
        }
        self.until(began + self.script.calm).await?;
        self.calm_down().await
    }

    /// Runs the world until this instant, checking it after every step.
    pub async fn until(&mut self, then: Instant) -> Verdict {
        loop {
            let now = Instant::now();
            if now >= then {
                return Ok(());
            }
            let starts = self.starts.iter().copied();
            let resumes = self.resumes.iter().map(|(_, at)| *at);
            let later = self.later.iter().map(|(at, _)| *at);
            let due = starts.chain(resumes).chain(later).chain(self.node_due());
            let next = due.fold(then.min(now + LOOK_EVERY), Instant::min);
            tokio::select! {
                biased;
                () = self.wake.notified() => {}
                () = sleep_until(next) => {}
            }
            self.step().await?;
            self.note_memory().await?;
        }
    }

    /// When the nodes have work to do; they need the API server for it.
    fn node_due(&self) -> Option<Instant> {
        self.node.due().filter(|_| !self.is_down())
    }

    /// Does everything that is due now, then checks all drivers.
    async fn step(&mut self) -> Verdict {
        let sprung = self.network.net().sprung.take();
        if let Some(number) = sprung {
            self.kill(number);
        }
        let fallen = (self.fleet.borrow_mut().iter_mut())
            .filter_map(|driver| std::mem::take(&mut driver.fell).then_some(driver.number))
            .collect::<Vec<_>>();
        for number in fallen {
            say!("d{number} fell");
            self.kill(number);
        }
        self.undo().await;
        self.forgive(false).await;
        let done = std::mem::take(&mut self.network.net().done);
        self.writes += done.len();
        for done in &done {
            self.truth.done(done);
            self.checks.done(done)?;
        }
        let template = [Ill::Admission, Ill::Webhook, Ill::Invalid];
        let blocked = (self.network.net().refused.values())
            .any(|dealt| template.iter().any(|ill| dealt.contains(ill)));
        if blocked {
            self.checks.budget.refused();
        }
        self.see_exits()?;
        let now = Instant::now();
        if self.is_down() || !self.network.net().weather.is_calm() {
            self.last_trouble = Some(now);
        }
        for (number, at) in self.resumes.extract_if(.., |(_, at)| *at <= now) {
            if let Some(driver) = find(&mut self.fleet.borrow_mut(), number) {
                say!("d{number} goes on");
                driver.paused = false;
                // A paused driver receives the order to stop only now.
                driver.told = driver.told.map(|(way, told)| (way, told.max(at)));
            }
        }
        let starting = self.starts.extract_if(.., |at| *at <= now).count();
        for _ in 0..starting {
            self.start();
        }
        let state = self.cluster.state().await;
        if !self.is_down() {
            self.node.work(&state).await;
            for ended in self.node.take_restarted() {
                self.checks.budget.restarted(&ended);
            }
        }
        self.network.net().remember(state);
        self.look().await?;
        self.talk().await?;
        match trace::panics().first() {
            Some(panic) => Err(format!("O-12: {panic}")),
            None => Ok(()),
        }
    }

    /// Checks the ledgers of all drivers that are alive and not paused.
    async fn look(&mut self) -> Verdict {
        let handles: Vec<_> = (self.fleet.borrow().iter())
            .filter(|driver| driver.is_alive() && !driver.paused)
            .map(|driver| (driver.number, driver.handle.clone(), driver.told.is_some()))
            .collect();
        let alive: BTreeSet<usize> = handles.iter().map(|(number, ..)| *number).collect();
        for (number, handle, is_to_stop) in handles {
            let Ok(seen) = timeout(Duration::from_secs(1), handle.look()).await else {
                return Err(format!("O-12: d{number} does not answer"));
            };
            self.hear().await?;
            if let Some(snapshot) = seen {
                self.show(number, &snapshot);
                self.largest_fleet = self.largest_fleet.max(snapshot.entries.len());
                self.truth.look(&beliefs::Look {
                    driver: number,
                    before: self.checks.last(number),
                    now: &snapshot,
                    server: &self.cluster.state().await,
                    excuses: &self.checks.excuses,
                })?;
                self.checks.look(number, snapshot)?;
            }
            if !is_to_stop && !self.checks.is_superseded(number) {
                self.checks.deadlines.hold(number)?;
            }
        }
        self.hear().await?;
        (self.checks).is_spent_for_a_reason(|number| alive.contains(&number))
    }

    /// Takes in the ends that drivers reported.
    async fn hear(&mut self) -> Verdict {
        // The state is read first: this await lets reports arrive that are already under way.
        let server = self.cluster.state().await;
        let reported: Vec<_> = (self.fleet.borrow().iter())
            .map(|driver| (driver.number, driver.take_ends()))
            .collect();
        for (number, ends) in reported {
            for end in &ends {
                let (id, class) = (end.entry.id, end.reason.class);
                say!("d{number} reports: {id} {class}");
            }
            if self.checks.excuses.rewritten.is_empty() {
                self.truth.reported(number, &ends, &server)?;
            }
            self.silence_is_real(number, &ends)?;
            self.checks.reported(number, ends)?;
        }
        Ok(())
    }

    fn show(&mut self, number: usize, snapshot: &Snapshot) {
        if self.shown_last == (number, snapshot.seq) || !trace::is_kept() {
            return;
        }
        self.shown_last = (number, snapshot.seq);
        let entries: String = (snapshot.entries.iter())
            .map(|(id, entry)| format!(" {id}:{:?}", entry.class()))
            .collect();
        let orphans = snapshot.orphans.len();
        let unassigned = match snapshot.unassigned.len() {
            0 => String::new(),
            unassigned => format!(", {unassigned} pods without an id"),
        };
        let shown = format!(
            "d{number} has, in epoch {},{entries}, {orphans} orphans{unassigned}",
            snapshot.epoch
        );
        if shown != self.shown {
            say!("{shown}");
            self.shown = shown;
        }
    }

    /// Starts a driver, unless there are enough.
    pub fn start(&mut self) {
        let mut fleet = self.fleet.borrow_mut();
        if fleet.iter().filter(|driver| driver.is_alive()).count() >= MOST_DRIVERS {
            return;
        }
        let number = fleet.len() + 1;
        let started = Driver::start(
            number,
            self.script.config.clone(),
            &self.network,
            Clock::starting_at(self.clock.now().wall + self.wrong_by(number)),
            self.script.seed,
            Arc::clone(&self.wake),
        );
        fleet.push(started);
    }

    /// The offset of a driver's wall clock.
    fn wrong_by(&self, number: usize) -> SignedDuration {
        let skew = SignedDuration::try_from(self.script.skew).unwrap();
        let (share, sign) = (
            number as i32 % 5,
            if number.is_multiple_of(2) { 1 } else { -1 },
        );
        skew * sign * share / 4
    }

    pub fn kill(&mut self, number: usize) {
        if let Some(driver) = find(&mut self.fleet.borrow_mut(), number).filter(|d| d.is_alive()) {
            say!("d{number} is killed");
            driver.kill();
        }
        self.resumes.retain(|(paused, _)| *paused != number);
        self.checks.over(number);
        self.checks.budget.driver_over(number, self.last_trouble);
        self.keep_one_alive();
    }

    /// The youngest driver that is alive and was not asked to stop.
    pub fn youngest(&self) -> Option<usize> {
        (self.fleet.borrow().iter().rev())
            .find(|driver| driver.is_alive() && driver.told.is_none())
            .map(|driver| driver.number)
    }

    /// The youngest driver that is alive, even if it is stopping.
    pub fn last_alive(&self) -> Option<usize> {
        (self.fleet.borrow().iter().rev())
            .find(|driver| driver.is_alive())
            .map(|driver| driver.number)
    }

    /// Asks a driver to stop.
    pub fn tell_to_stop(&mut self, number: usize, way: OnSignal) {
        if let Some(driver) = find(&mut self.fleet.borrow_mut(), number) {
            driver.told = Some((way, Instant::now()));
            driver.handle.stop_by(way);
        }
        if way == OnSignal::End {
            self.checks.ended_by.insert(number);
        }
    }

    /// Starts a driver if none is left, as a Deployment would.
    pub fn keep_one_alive(&mut self) {
        let alive = self.fleet.borrow().iter().any(Driver::is_alive);
        if !alive && self.starts.is_empty() && !self.checks.excuses.ending {
            self.starts.push(Instant::now() + RESTART);
        }
    }
}

pub fn find(fleet: &mut [Driver], number: usize) -> Option<&mut Driver> {
    fleet.iter_mut().find(|driver| driver.number == number)
}
