//! Starts, polls, pauses and kills the simulated drivers. Each start has its own set of tasks, so that it can be
//! killed or suspended like a process.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use actix::{Actor, Handler};
use boatswain::actors::snapshot_store::messages::{Next, Round};
use boatswain::clock::Clock;
use boatswain::config::{Config, OnSignal};
use boatswain::driver::{self, Environment, Handle};
use boatswain::exit::Exit;
use boatswain::kubernetes::Clients;
use boatswain::model::{Batch, ProfileName};
use tempfile::NamedTempFile;
use tokio::sync::Notify;
use tokio::task::LocalSet;
use tokio::time::Instant;

use crate::engine::{self, Told};
use crate::trace::trace_line;

pub struct Driver {
    /// Drivers are numbered from 1 in the order of their starts.
    pub number: usize,
    /// How and when it was requested to stop.
    pub stop_requested: Option<(OnSignal, Instant)>,
    /// When it started.
    pub since: Instant,
    /// While paused, its tasks are not polled.
    pub paused: bool,
    /// The images in its configuration, by profile.
    pub images: BTreeMap<ProfileName, Option<String>>,
    pub handle: Handle,
    /// The driver is killed after this many more polls.
    pub polls_left: Option<u32>,
    /// Whether that has happened.
    pub killed_at_poll: bool,
    /// The driver is requested to stop after this many more polls.
    pub stop_after_polls: Option<(u32, OnSignal)>,
    /// The request to stop that is due.
    pub stop_due: Option<OnSignal>,
    wake: Arc<Notify>,
    tasks: Option<LocalSet>,
    exit: Rc<Cell<Option<Exit>>>,
    batches: Rc<RefCell<Vec<Batch>>>,
    /// What it has told an engine.
    pub told: Rc<RefCell<Told>>,
}

/// All drivers of a run, including those that have ended.
pub type Drivers = Rc<RefCell<Vec<Driver>>>;

/// A subscriber that collects a driver's batches, also those of its last moments.
struct Collector(Rc<RefCell<Vec<Batch>>>);

impl Actor for Collector {
    type Context = actix::Context<Self>;
}

impl Handler<Round> for Collector {
    type Result = Next;

    fn handle(&mut self, Round(batch): Round, _: &mut Self::Context) -> Next {
        self.0.borrow_mut().push(batch);
        Next::default()
    }
}

impl Driver {
    /// Starts a driver, wired as in production except for its network and its clock.
    pub fn start(
        number: usize,
        mut config: Config,
        clients: Clients,
        clock: Clock,
        seed: u64,
        wake: Arc<Notify>,
    ) -> Self {
        trace_line!("d{number} starts");
        let sessions = &mut config.backend.sessions;
        sessions.key_file = sessions.listen.map(|_| key_file());
        let images = (config.profiles.iter())
            .map(|(name, profile)| (name.clone(), profile.image.clone()))
            .collect();
        let environment = Environment {
            clients,
            clock,
            seed: seed.wrapping_add(number as u64),
            holder: number as u64,
        };
        let (handle, running) = driver::start_in(config, environment);
        let exit = Rc::new(Cell::new(None));
        let batches = Rc::new(RefCell::new(Vec::new()));
        let tasks = LocalSet::new();
        let (exits, collector, observed) = (
            Rc::clone(&exit),
            Collector(Rc::clone(&batches)),
            handle.clone(),
        );
        let woken = Arc::clone(&wake);
        tasks.spawn_local(async move {
            observed.observe(collector.start().recipient());
            exits.set(Some(running.await));
            woken.notify_one();
        });
        Self {
            number,
            stop_requested: None,
            since: Instant::now(),
            paused: false,
            images,
            handle,
            polls_left: None,
            killed_at_poll: false,
            stop_after_polls: None,
            stop_due: None,
            wake,
            tasks: Some(tasks),
            exit,
            batches,
            told: Rc::default(),
        }
    }

    /// Has an engine follow it, from this place.
    pub fn followed(self, last: Option<String>) -> Self {
        if let Some(tasks) = &self.tasks {
            let (handle, told) = (self.handle.clone(), Rc::clone(&self.told));
            tasks.spawn_local(engine::follow(handle, last, told));
        }
        self
    }

    /// Drops all its tasks. Nothing of it runs afterwards, and no answer reaches it.
    pub fn kill(&mut self) {
        self.tasks = None;
    }

    pub fn is_alive(&self) -> bool {
        self.tasks.is_some()
    }

    /// How it ended by itself; returned once.
    pub fn take_exit(&mut self) -> Option<Exit> {
        let exit = self.exit.take()?;
        self.kill();
        Some(exit)
    }

    /// Its batches since the last call.
    pub fn take_batches(&self) -> Vec<Batch> {
        self.batches.take()
    }

    /// What it has told the engine since the last call.
    pub fn take_told(&self) -> Vec<serde_json::Value> {
        self.told.borrow_mut().take()
    }

    fn poll(&mut self, cx: &mut Context<'_>) {
        if self.paused {
            return;
        }
        match self.polls_left {
            Some(0) if self.is_alive() => {
                self.polls_left = None;
                self.killed_at_poll = true;
                self.wake.notify_one();
                return self.kill();
            }
            Some(polls_left) => self.polls_left = Some(polls_left.saturating_sub(1)),
            None => {}
        }
        match &mut self.stop_after_polls {
            Some((0, on_signal)) => {
                self.stop_due = Some(*on_signal);
                self.stop_after_polls = None;
                // The driver runs on: the world may be waiting for its answer.
                self.wake.notify_one();
            }
            Some((polls, _)) => *polls -= 1,
            None => {}
        }
        if let Some(tasks) = &mut self.tasks {
            // The tasks are complete only after the exit has been recorded.
            let _ = Pin::new(tasks).poll(cx);
        }
    }
}

/// Starts the next driver, with the API server's clock and a wake-up of its own. Returns its number.
pub fn start_next(drivers: &Drivers, config: Config, clients: Clients, seed: u64) -> usize {
    let mut drivers = drivers.borrow_mut();
    let number = drivers.len() + 1;
    let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
    let wake = Arc::new(Notify::new());
    drivers.push(Driver::start(number, config, clients, clock, seed, wake));
    number
}

/// Runs `world` and all living drivers concurrently.
pub async fn run<T>(drivers: &Drivers, world: impl Future<Output = T>) -> T {
    let mut world = pin!(world);
    poll_fn(|cx| {
        // The world runs first, so that a driver that it kills is not polled again.
        if let Poll::Ready(over) = world.as_mut().poll(cx) {
            return Poll::Ready(over);
        }
        for driver in drivers.borrow_mut().iter_mut() {
            driver.poll(cx);
        }
        Poll::Pending
    })
    .await
}

/// A file with the key of the session tokens, the same in every run and process. It is created under a temporary name
/// and renamed, so that parallel processes never read half of it.
fn key_file() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    let path = PATH.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let path = directory.join("sim-key");
        let mut file = NamedTempFile::new_in(directory).unwrap();
        file.write_all(&[b'k'; 64]).unwrap();
        file.persist(&path).unwrap();
        path
    });
    path.clone()
}
