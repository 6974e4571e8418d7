//! One simulation run: the cluster, the nodes and the drivers, to which the script's faults are applied and whose
//! state is checked after every step.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use boatswain::clock::Clock;
use boatswain::config::{OnSignal, Profile};
use boatswain::model::{Batch, ProfileName, Snapshot};
use devcluster::{self, DevCluster, Options, State};
use jiff::{SignedDuration, Timestamp};
use tempfile::TempPath;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use crate::beliefs::{self, ExpectedState};
use crate::budget::Budget;
use crate::checks::{Checks, Deadlines, Verdict};
use crate::credentials;
use crate::drivers::{Driver, Drivers};
use crate::engine::{self, Engine};
use crate::faults::UnusableRecord;
use crate::network::Network;
use crate::node::Nodes;
use crate::objects::DirectClient;
use crate::outages::OutageCheck;
use crate::script::{ClockStep, Fault, Script};
use crate::sessions::Sessions;
use crate::tokens::Issuer;
use crate::trace::{self, trace_line};

/// Longest interval between two checks of all drivers.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Delay before a new driver starts after the last one has ended, unless the script starts one.
const RESTART_DELAY: Duration = Duration::from_secs(1);

/// Most drivers alive at once.
const MAX_DRIVERS: usize = 3;
/// No script starts nearly as many drivers of one application, although its end costs some twenty starts before it is
/// begun anew. A run with more has a loop of drivers that end at once.
const MAX_STARTS: usize = 1_000;

pub struct World {
    pub script: Script,
    pub cluster: DevCluster,
    pub network: Network,
    pub client: DirectClient,
    pub nodes: Nodes,
    pub drivers: Drivers,
    pub checks: Checks,
    pub expected: ExpectedState,
    pub engine: Engine,
    /// The executors' sessions, if the configuration enables them.
    pub sessions: Option<Sessions>,
    /// The file of the drivers' token, if that expires.
    pub token_file: Option<TempPath>,
    /// Issues the tokens of service accounts.
    pub issuer: Issuer,
    pub backup: Option<State>,
    /// All profiles that any driver of this run has had.
    pub profiles: BTreeMap<ProfileName, Profile>,
    /// When drivers are due to start.
    pub starts: Vec<Instant>,
    /// The faults that undo temporary ones, and when they are due.
    pub pending_undos: Vec<(Instant, Fault)>,
    /// The record's data before and after a fault made it unusable for drivers.
    pub unrepaired_record: Option<UnusableRecord>,
    /// When the server or the network last had a fault.
    pub last_fault: Option<Instant>,
    /// When the last outage of the server ended.
    pub outage_ended: Option<Instant>,
    /// The check of the watch after it, until it is due.
    pub outage_check: Option<OutageCheck>,
    /// When paused drivers resume.
    pub resumes: Vec<(usize, Instant)>,
    pub clock: Clock,
    /// Number of writes by drivers since this was last reset.
    pub writes: usize,
    /// Whether an operator holds the application; it is resumed when the faults end.
    pub held: bool,
    /// Whether a driver has ended the application and exited cleanly.
    pub ended_clean: bool,
    /// A driver that was requested to end the application has found an edited record, which says that another driver
    /// has taken over.
    pub superseded_at_end: bool,
    /// The driver that has just done so, and when it started.
    pub ended_last: Option<(usize, Instant)>,
    /// When a driver has ended the application last.
    pub ended_at: Option<Instant>,
    /// The application's id in the record when the fleet had converged.
    pub app_id: String,
    /// When the drivers' memory was last measured.
    pub memory_checked_at: Instant,
    pub began: Instant,
    /// The most executors that any driver's ledger has contained.
    pub most_executors: usize,
    wake: Arc<Notify>,
    /// The last trace line about a driver's ledger, and the driver and snapshot that it described.
    traced: String,
    traced_last: (usize, u64),
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
        let client = DirectClient::new(cluster.router());
        let issuer = Issuer::new();
        let mut checks = Checks::default();
        checks.recovery = beliefs::longest_recovery(&script.config);
        checks.budget = Budget::of(&script.config, script.clock_error());
        checks.deadlines = Deadlines::of(&script.config);
        checks.max_surge = crate::leaving_nodes::max_surge(&script.config);
        if script.is_of_sets() {
            checks.sets_make_pods(script.config.allocation.strategy);
        }
        for (profile, config) in &script.config.profiles {
            checks.target(profile, config.executors);
        }
        Self {
            network: Network::new(
                cluster.clone(),
                cache,
                Arc::clone(&wake),
                &issuer,
                clock,
                seed,
            ),
            issuer: issuer.clone(),
            nodes: Nodes::new(client.clone(), &script, clock),
            client,
            cluster,
            drivers: Rc::new(RefCell::new(Vec::new())),
            checks,
            expected: ExpectedState::of(&script),
            engine: Engine::default(),
            token_file: credentials::file(&script),
            sessions: Sessions::of(&script, issuer, clock),
            backup: None,
            profiles: script.config.profiles.clone(),
            starts: vec![Instant::now()],
            pending_undos: Vec::new(),
            unrepaired_record: None,
            last_fault: None,
            outage_ended: None,
            outage_check: None,
            resumes: Vec::new(),
            clock,
            writes: 0,
            held: false,
            ended_clean: false,
            superseded_at_end: false,
            ended_last: None,
            ended_at: None,
            app_id: String::new(),
            memory_checked_at: Instant::now(),
            began: Instant::now(),
            most_executors: 0,
            wake,
            traced: String::new(),
            traced_last: (0, 0),
            script,
        }
    }

    /// Executes the script, then ends all faults and checks convergence.
    pub async fn run_script(&mut self) -> Verdict {
        let began = Instant::now();
        for step in self.script.steps.clone() {
            self.run_until(began + step.at).await?;
            trace_line!("-- {:?}", step.fault);
            self.excuse_watch(&step.fault);
            self.inject(step.fault).await;
            self.step().await?;
        }
        self.run_until(began + self.script.faults_end).await?;
        self.check_convergence().await
    }

    /// Runs the world until this instant, checking it after every step.
    pub async fn run_until(&mut self, then: Instant) -> Verdict {
        loop {
            let now = Instant::now();
            if now >= then {
                return Ok(());
            }
            let starts = self.starts.iter().copied();
            let resumes = self.resumes.iter().map(|(_, at)| *at);
            let pending_undos = self.pending_undos.iter().map(|(at, _)| *at);
            let due = starts
                .chain(resumes)
                .chain(pending_undos)
                .chain(self.outage_check_due())
                .chain(self.node_due());
            let next = due.fold(then.min(now + CHECK_INTERVAL), Instant::min);
            tokio::select! {
                biased;
                () = self.wake.notified() => {}
                () = sleep_until(next) => {}
            }
            self.step().await?;
            self.check_memory().await?;
        }
    }

    /// When the nodes have work to do; they need the API server for it.
    fn node_due(&self) -> Option<Instant> {
        self.nodes.due().filter(|_| !self.is_down())
    }

    /// Does everything that is due now, then checks all drivers.
    async fn step(&mut self) -> Verdict {
        let killed = self.network.shared().killed.take();
        if let Some(number) = killed {
            self.kill(number);
        }
        let killed = (self.drivers.borrow_mut().iter_mut())
            .filter_map(|driver| {
                std::mem::take(&mut driver.killed_at_poll).then_some(driver.number)
            })
            .collect::<Vec<_>>();
        for number in killed {
            trace_line!("d{number} reaches its last poll");
            self.kill(number);
        }
        self.request_early_stops();
        self.undo().await;
        self.restart_ended_application(false).await;
        let writes = std::mem::take(&mut self.network.shared().completed_writes);
        self.writes += writes.len();
        for write in &writes {
            self.expected.note_write(write);
            self.checks.check_write(write)?;
        }
        let refused = std::mem::take(&mut self.network.shared().refused_templates);
        self.checks.budget.refused(refused);
        self.check_exits()?;
        let starts = self.drivers.borrow().len() - self.checks.budget.started_before;
        if starts > MAX_STARTS {
            return Err(format!("O-30: {starts} drivers of one application"));
        }
        self.check_watch_after_outage()?;
        self.check_tokens()?;
        let now = Instant::now();
        if self.is_down() || !self.network.shared().is_faultless() {
            self.last_fault = Some(now);
        }
        let falsifies = self.network.shared().conditions.falsifies();
        let paused = self.drivers.borrow().iter().any(|driver| driver.paused);
        self.expected
            .update_excuses(falsifies, paused || self.last_fault == Some(now));
        for (number, at) in self.resumes.extract_if(.., |(_, at)| *at <= now) {
            if let Some(driver) = find_driver(&mut self.drivers.borrow_mut(), number) {
                trace_line!("d{number} resumes");
                driver.paused = false;
                // A paused driver receives the request to stop only now.
                driver.stop_requested = driver
                    .stop_requested
                    .map(|(on_signal, requested)| (on_signal, requested.max(at)));
            }
        }
        let starting = self.starts.extract_if(.., |at| *at <= now).count();
        for _ in 0..starting {
            self.start();
        }
        let state = self.cluster.state().await;
        if !self.is_down() {
            self.nodes.work(&state).await;
            for ended in self.nodes.take_restarted() {
                self.checks.budget.restarted(&ended);
            }
            self.note_exits().await;
        }
        self.check_record_is_gone(&state)?;
        self.network.shared().remember(state);
        self.check_ledgers().await?;
        self.check_what_is_told().await?;
        self.update_sessions().await?;
        match trace::panics().first() {
            Some(panic) => Err(format!("O-12: {panic}")),
            None => Ok(()),
        }
    }

    /// Checks the ledgers of all drivers that are alive and not paused.
    async fn check_ledgers(&mut self) -> Verdict {
        let handles: Vec<_> = (self.drivers.borrow().iter())
            .filter(|driver| driver.is_alive() && !driver.paused)
            .map(|driver| {
                let is_stopping = driver.stop_requested.is_some();
                (
                    driver.number,
                    driver.handle.clone(),
                    is_stopping,
                    driver.since,
                )
            })
            .collect();
        let alive: BTreeSet<usize> = handles.iter().map(|(number, ..)| *number).collect();
        for (number, handle, is_stopping, since) in handles {
            let Ok(seen) = timeout(Duration::from_secs(1), handle.look()).await else {
                return Err(format!("O-12: d{number} does not answer"));
            };
            self.collect_reports().await?;
            if let Some(snapshot) = seen {
                self.trace_ledger(number, &snapshot);
                self.most_executors = self.most_executors.max(snapshot.entries.len());
                self.expected.check_ledger(&beliefs::Observation {
                    driver: number,
                    before: self.checks.last_ledger(number),
                    now: &snapshot,
                    server: &self.cluster.state().await,
                    excuses: &self.checks.excuses,
                })?;
                self.check_silence(number, &snapshot)?;
                self.checks.deadlines.listed(number, since, &snapshot);
                self.checks.check_ledger(number, snapshot)?;
            } else {
                self.checks.ledger_is_gone(number);
            }
            if !is_stopping && !self.checks.is_superseded(number) {
                self.checks.deadlines.check(number)?;
            }
        }
        self.collect_reports().await?;
        let server = self.cluster.state().await;
        self.checks.check_number_of_pods(&server)?;
        (self.checks).check_spent_budget(|number| alive.contains(&number))
    }

    /// Collects and checks the ends that drivers reported.
    async fn collect_reports(&mut self) -> Verdict {
        // The state is read first: this await lets reports arrive that are already under way.
        let server = self.cluster.state().await;
        let reported: Vec<_> = (self.drivers.borrow().iter())
            .map(|driver| (driver.number, driver.take_batches()))
            .collect();
        for (number, batches) in reported {
            batches
                .iter()
                .for_each(|batch| self.checks.note_marks(batch));
            let ends: Vec<_> = batches.iter().flat_map(Batch::ends).cloned().collect();
            for end in &ends {
                let (id, class) = (end.entry.id, end.reason.class);
                trace_line!("d{number} reports: {id} {class}");
            }
            self.expected.check_reports(number, &ends, &server)?;
            self.checks.check_reports(number, ends)?;
        }
        Ok(())
    }

    fn trace_ledger(&mut self, number: usize, snapshot: &Snapshot) {
        if self.traced_last == (number, snapshot.seq) || !trace::is_kept() {
            return;
        }
        self.traced_last = (number, snapshot.seq);
        let entries: String = (snapshot.entries.iter())
            .map(|(id, entry)| format!(" {id}:{:?}", entry.class()))
            .collect();
        let orphans = snapshot.orphans.len();
        let unassigned = match snapshot.unassigned.len() {
            0 => String::new(),
            unassigned => format!(", {unassigned} pods without an id"),
        };
        let traced = format!(
            "d{number} has, in epoch {},{entries}, {orphans} orphans{unassigned}",
            snapshot.epoch
        );
        if traced != self.traced {
            trace_line!("{traced}");
            self.traced = traced;
        }
    }

    /// Starts a driver, unless there are enough.
    pub fn start(&mut self) {
        let mut drivers = self.drivers.borrow_mut();
        if drivers.iter().filter(|driver| driver.is_alive()).count() >= MAX_DRIVERS {
            return;
        }
        let number = drivers.len() + 1;
        let token_file = self.token_file.as_deref().map(Arc::from);
        let started = Driver::start(
            number,
            self.script.config.clone(),
            credentials::clients(&self.network.of(number), token_file),
            self.clock_of(number),
            self.script.seed,
            Arc::clone(&self.wake),
        );
        let last = engine::last_place(&drivers);
        drivers.push(match self.script.is_of_sets() {
            true => started,
            false => started.followed(last),
        });
    }

    /// The clock of a driver that starts now.
    fn clock_of(&self, number: usize) -> Clock {
        let mut wall = self.clock.now().wall + self.clock_offset(number);
        let mut steps = Vec::new();
        for step in &self.script.clock_steps {
            match step.after.checked_sub(self.began.elapsed()) {
                Some(after) if !after.is_zero() => steps.push(ClockStep { after, ..*step }),
                _ => wall += step.by,
            }
        }
        // The clock is a copied value. A run leaks a few bytes for each start.
        Clock::stepping_from(wall, steps.leak())
    }

    /// The offset of a driver's wall clock.
    fn clock_offset(&self, number: usize) -> SignedDuration {
        let skew = SignedDuration::try_from(self.script.skew).unwrap();
        let (share, sign) = (
            number as i32 % 5,
            if number.is_multiple_of(2) { 1 } else { -1 },
        );
        skew * sign * share / 4
    }

    pub fn kill(&mut self, number: usize) {
        if let Some(driver) =
            find_driver(&mut self.drivers.borrow_mut(), number).filter(|d| d.is_alive())
        {
            trace_line!("d{number} is killed");
            driver.kill();
        }
        self.resumes.retain(|(paused, _)| *paused != number);
        self.checks.driver_ended(number);
        self.checks.budget.driver_ended(number, self.last_fault);
        self.ensure_driver();
    }

    /// The youngest driver that is alive and was not requested to stop.
    pub fn youngest(&self) -> Option<usize> {
        (self.drivers.borrow().iter().rev())
            .find(|driver| driver.is_alive() && driver.stop_requested.is_none())
            .map(|driver| driver.number)
    }

    /// The youngest driver that is alive, even if it is stopping.
    pub fn last_alive(&self) -> Option<usize> {
        (self.drivers.borrow().iter().rev())
            .find(|driver| driver.is_alive())
            .map(|driver| driver.number)
    }

    /// Requests that a driver stops.
    pub fn request_stop(&mut self, number: usize, on_signal: OnSignal) {
        if let Some(driver) = find_driver(&mut self.drivers.borrow_mut(), number) {
            driver.stop_requested = Some((on_signal, Instant::now()));
            driver.handle.stop_by(on_signal);
        }
        if on_signal == OnSignal::End {
            self.checks.ended_by.insert(number);
        }
    }

    /// Requests drivers to stop that have reached the poll of that.
    fn request_early_stops(&mut self) {
        let due: Vec<_> = (self.drivers.borrow_mut().iter_mut())
            .filter(|driver| driver.is_alive() && driver.stop_requested.is_none())
            .filter_map(|driver| Some((driver.number, driver.stop_due.take()?)))
            .collect();
        for (number, on_signal) in due {
            trace_line!("d{number} is requested to stop early: {on_signal:?}");
            self.request_stop(number, on_signal);
        }
    }

    /// Starts a driver if none is left, as a Deployment would.
    pub fn ensure_driver(&mut self) {
        let alive = self.drivers.borrow().iter().any(Driver::is_alive);
        if !alive && self.starts.is_empty() && !self.checks.excuses.ending {
            self.starts.push(Instant::now() + RESTART_DELAY);
        }
    }
}

pub fn find_driver(drivers: &mut [Driver], number: usize) -> Option<&mut Driver> {
    drivers.iter_mut().find(|driver| driver.number == number)
}
