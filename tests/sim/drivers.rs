//! The drivers: each start of one in a world of tasks of its own, which can be stopped dead, or not be run for a while.

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
use boatswain::actors::snapshot_store::messages::Round;
use boatswain::clock::Clock;
use boatswain::config::{Config, OnSignal};
use boatswain::driver::{self, Environment, Handle};
use boatswain::exit::Exit;
use boatswain::kubernetes::Clients;
use boatswain::model::{Ending, ProfileName};
use tempfile::NamedTempFile;
use tokio::sync::Notify;
use tokio::task::LocalSet;
use tokio::time::Instant;

use crate::network::Network;
use crate::objects::NAMESPACE;
use crate::trace::say;

/// One start of the driver.
pub struct Driver {
    /// 1, 2, 3 … in the order of their starts.
    pub number: usize,
    /// How it was told to stop, where it was, and when.
    pub told: Option<(OnSignal, Instant)>,
    /// When it began.
    pub since: Instant,
    /// Whether it does not get to run.
    pub paused: bool,
    /// The images that it knows its profiles by.
    pub images: BTreeMap<ProfileName, Option<String>>,
    /// Speaks to it.
    pub handle: Handle,
    /// It is killed when it has had so many more turns.
    pub turns: Option<u32>,
    /// It was.
    pub fell: bool,
    wake: Arc<Notify>,
    tasks: Option<LocalSet>,
    exit: Rc<Cell<Option<Exit>>>,
    ends: Rc<RefCell<Vec<Ending>>>,
}

/// All of them, those that are over too.
pub type Fleet = Rc<RefCell<Vec<Driver>>>;

/// A subscriber to a driver's batches that writes down the ends reported in them.
struct Reader(Rc<RefCell<Vec<Ending>>>);

impl Actor for Reader {
    type Context = actix::Context<Self>;
}

impl Handler<Round> for Reader {
    type Result = ();

    fn handle(&mut self, Round(batch): Round, _: &mut Self::Context) {
        self.0.borrow_mut().extend(batch.ends().cloned());
    }
}

impl Driver {
    /// Starts one, wired as in production but for where its requests go and what time it is.
    pub fn start(
        number: usize,
        mut config: Config,
        network: &Network,
        clock: Clock,
        seed: u64,
        wake: Arc<Notify>,
    ) -> Self {
        say!("d{number} starts");
        let clients = Clients::in_process(network.of(number), NAMESPACE);
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
        let ends = Rc::new(RefCell::new(Vec::new()));
        let tasks = LocalSet::new();
        let (exits, reader, speaker) = (Rc::clone(&exit), Reader(Rc::clone(&ends)), handle.clone());
        let woken = Arc::clone(&wake);
        tasks.spawn_local(async move {
            speaker.observe(reader.start().recipient());
            exits.set(Some(running.await));
            woken.notify_one();
        });
        Self {
            number,
            told: None,
            since: Instant::now(),
            paused: false,
            images,
            handle,
            turns: None,
            fell: false,
            wake,
            tasks: Some(tasks),
            exit,
            ends,
        }
    }

    /// Stops it dead: nothing of it runs any more, and no answer reaches it.
    pub fn kill(&mut self) {
        self.tasks = None;
    }

    /// Whether anything of it is left.
    pub fn is_alive(&self) -> bool {
        self.tasks.is_some()
    }

    /// How it ended by itself, once.
    pub fn take_exit(&mut self) -> Option<Exit> {
        let exit = self.exit.take()?;
        self.kill();
        Some(exit)
    }

    /// The ends that it reported since this was last asked.
    pub fn take_ends(&self) -> Vec<Ending> {
        self.ends.take()
    }

    fn poll(&mut self, cx: &mut Context<'_>) {
        if self.paused {
            return;
        }
        match self.turns {
            Some(0) if self.is_alive() => {
                self.turns = None;
                self.fell = true;
                self.wake.notify_one();
                return self.kill();
            }
            Some(turns) => self.turns = Some(turns.saturating_sub(1)),
            None => {}
        }
        if let Some(tasks) = &mut self.tasks {
            // All its tasks are over only after its exit is known.
            let _ = Pin::new(tasks).poll(cx);
        }
    }
}

/// Runs `world`, and beside it all drivers that are alive.
pub async fn run<T>(fleet: &Fleet, world: impl Future<Output = T>) -> T {
    let mut world = pin!(world);
    poll_fn(|cx| {
        // First, so that what it stops dead does not get to run again.
        if let Poll::Ready(over) = world.as_mut().poll(cx) {
            return Poll::Ready(over);
        }
        for driver in fleet.borrow_mut().iter_mut() {
            driver.poll(cx);
        }
        Poll::Pending
    })
    .await
}

/// The file of the key that tokens are made of: the same in every run, in every process. Whoever comes first makes it,
/// and it is whole when it has its name.
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
