//! Executors that talk: each that runs speaks to the driver as its protocol has it, over a WebSocket or by requests; some
//! come late, some never, some fall silent, and some lie.

mod executor;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use boatswain::config::Config;
use boatswain::model::{Ending, LossClass};
use devcluster::State;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::checks::Verdict;
use crate::hand::{NAMESPACE, is_terminating, text};
use crate::node::{Mishap, short};
use crate::trace::say;
use crate::world::World;

use executor::Executor;

/// Fewer executors than this are no mass, and may be given up though it is the driver that hears nothing (spec B-13).
const MASS: usize = 3;

/// Nor are more, where they are a smaller share of all than this.
const SHARE: f64 = 0.2;

/// How an executor behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Temper {
    /// As it should, from this long after its start on.
    Sound { after: Duration },
    /// It never says anything.
    Mute,
    /// It says nothing more after this long, and closes nothing.
    Lapses { after: Duration },
    /// It says things that it should not, and then does as it should.
    Lies,
    /// It asks to go after this long.
    AsksToGo { after: Duration },
}

/// The way from the executors to the driver.
#[derive(Clone)]
pub struct Way(Arc<Mutex<Net>>);

/// What is on the way, and what came of it.
#[derive(Default)]
pub struct Net {
    /// The driver at its end, and how it is spoken to.
    driver: Option<(usize, Router)>,
    /// Nobody gets through.
    cut: bool,
    /// What executors were answered that they should not have been.
    violations: Vec<String>,
    /// Those that were told to exit, and do.
    exits: Vec<Exit>,
    /// Those that fell silent by themselves.
    silent: BTreeSet<String>,
}

/// An executor was told to exit, and does.
struct Exit {
    uid: String,
    /// The driver said that it never wants it.
    unwanted: bool,
    /// That driver.
    driver: Option<usize>,
}

impl Way {
    fn net(&self) -> MutexGuard<'_, Net> {
        self.0.lock().unwrap()
    }

    /// An executor was told to exit.
    fn exit(&self, uid: &str, unwanted: bool) {
        let mut net = self.net();
        let driver = net.driver.as_ref().map(|(number, _)| *number);
        net.exits.push(Exit {
            uid: uid.to_owned(),
            unwanted,
            driver,
        });
    }

    /// The driver, where it can be reached.
    fn driver(&self) -> Option<Router> {
        let net = self.net();
        (!net.cut).then(|| net.driver.as_ref().map(|(_, router)| router.clone()))?
    }
}

/// All executors that talk.
pub struct Talk {
    way: Way,
    rng: StdRng,
    executors: BTreeMap<String, JoinHandle<()>>,
    /// The version of the cluster when it was last looked who runs.
    seen: Option<u64>,
    /// Whether new ones do as they should, whatever they would be like.
    calm: bool,
    /// When the way was last cut, or was so.
    cut: Option<Instant>,
    heartbeat_interval: Duration,
    heartbeat_timeout: Duration,
    /// From an executor's start to its registration, at most, where it behaves.
    latest: Duration,
    /// When executors were given up that nobody could hear.
    unheard: Vec<Instant>,
}

impl Talk {
    /// Where this configuration has executors talk.
    pub fn of(config: &Config, seed: u64) -> Option<Self> {
        let sessions = &config.backend.sessions;
        sessions.listen?;
        Some(Self {
            way: Way(Arc::default()),
            rng: StdRng::seed_from_u64(seed),
            executors: BTreeMap::new(),
            seen: None,
            calm: false,
            cut: None,
            heartbeat_interval: sessions.heartbeat_interval,
            heartbeat_timeout: sessions.heartbeat_timeout,
            latest: config.allocation.registration_timeout / 2,
            unheard: Vec::new(),
        })
    }

    /// Nobody gets through, or everybody again.
    pub fn cut(&mut self, cut: bool) {
        self.way.net().cut = cut;
        self.cut = Some(Instant::now());
    }

    /// From now on all goes well.
    pub fn calm(&mut self) {
        self.cut(false);
        self.calm = true;
    }

    /// Has those talk who run, and nobody else.
    fn see(&mut self, state: &State) {
        let version = state.resource_version();
        if self.seen.replace(version) == Some(version) {
            return;
        }
        let running: BTreeMap<&str, &Value> = (state.pods(NAMESPACE))
            .filter(|pod| matches!(text(pod, "/status/phase"), "Running" | "Unknown"))
            .map(|pod| (text(pod, "/metadata/uid"), pod))
            .collect();
        self.executors.retain(|uid, talking| {
            let runs = running.contains_key(uid.as_str());
            if !runs {
                talking.abort();
            }
            runs
        });
        for (uid, pod) in running {
            if self.executors.contains_key(uid) || is_terminating(pod) {
                continue;
            }
            let Some(executor) = Executor::of(pod, self.way.clone(), self.rng.random()) else {
                continue;
            };
            let temper = self.temper();
            say!("   {} talks: {temper:?}", text(pod, "/metadata/name"));
            let talking = tokio::spawn(executor.live(temper));
            self.executors.insert(uid.to_owned(), talking);
        }
    }

    fn temper(&mut self) -> Temper {
        let rng = &mut self.rng;
        let after = Duration::from_millis(rng.random_range(0..200_000));
        let drawn = match rng.random_range(0..100) {
            0..=4 => Temper::Mute,
            5..=11 => Temper::Lapses { after },
            12..=19 => Temper::Lies,
            20..=24 => Temper::AsksToGo { after },
            25..=34 => Temper::Sound {
                after: self.latest.mul_f64(rng.random()),
            },
            _ => Temper::Sound { after: after / 100 },
        };
        match drawn {
            _ if self.calm => Temper::Sound { after: after / 100 },
            drawn => drawn,
        }
    }

    /// Whether an executor may be given up that is not silent: nobody could be heard, and those that were given up for
    /// it at the same time are no mass.
    fn may_be_unheard(&mut self) -> bool {
        let cut = (self.cut).is_some_and(|at| at.elapsed() < 4 * self.heartbeat_timeout);
        let interval = self.heartbeat_interval;
        self.unheard.retain(|at| at.elapsed() <= interval);
        self.unheard.push(Instant::now());
        let unheard = self.unheard.len();
        cut && (unheard < MASS || unheard as f64 <= SHARE * self.executors.len() as f64)
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        for talking in self.executors.values() {
            talking.abort();
        }
    }
}

impl World {
    /// Executors find the driver that is there, and do what they were told.
    // spec: B-1, B-2, B-4, B-5
    pub async fn talk(&mut self) -> Verdict {
        let Some(way) = self.talk.as_ref().map(|talk| talk.way.clone()) else {
            return Ok(());
        };
        let handle = (self.fleet.borrow().iter().rev())
            .find(|driver| driver.is_alive() && !driver.paused && driver.told.is_none())
            .map(|driver| (driver.number, driver.handle.clone()));
        let known = way.net().driver.as_ref().map(|(number, _)| *number);
        if let Some((number, handle)) = handle.filter(|(number, _)| known != Some(*number)) {
            let asked = timeout(Duration::from_secs(1), handle.sessions()).await;
            if let Ok(Some(router)) = asked {
                say!("   executors reach d{number}");
                way.net().driver = Some((number, router));
            }
        }
        let state = self.cluster.state().await;
        if let Some(talk) = &mut self.talk {
            talk.see(&state);
        }
        let exits = std::mem::take(&mut way.net().exits);
        for exit in exits {
            self.exit(&state, &exit).await?;
        }
        match way.net().violations.pop() {
            Some(violation) => Err(violation),
            None => Ok(()),
        }
    }

    /// An executor was told to exit.
    async fn exit(&mut self, state: &State, exit: &Exit) -> Verdict {
        let uid = exit.uid.as_str();
        let mut pods = state.pods(NAMESPACE);
        let Some(pod) = pods.find(|pod| text(pod, "/metadata/uid") == uid) else {
            return Ok(());
        };
        // What a driver that was killed meanwhile had come to know last, nobody has seen.
        let teller = exit.driver.filter(|driver| !self.checks.is_over(*driver));
        let last = teller.and_then(|driver| self.checks.last(driver));
        let wanted = last.is_some_and(|last| {
            (last.entries.values()).any(|entry| {
                let its = entry.uid().is_some_and(|bound| bound.as_str() == uid);
                its && entry.class().is_live() && entry.leaving.is_none()
            })
        });
        if wanted && exit.unwanted {
            return Err(format!(
                "B-4: {} ({}) was told that nobody wants it, and it counts",
                text(pod, "/metadata/name"),
                short(uid)
            ));
        }
        self.checks.mishap(uid, Mishap::Exit(0));
        self.node.end(pod, Mishap::Exit(0)).await;
        Ok(())
    }

    /// Ends that have to do with silence are only reported of executors that were silent.
    // spec: B-12, B-13, B-15, A-44, A-52, I-12
    pub fn silence_is_real(&mut self, driver: usize, ends: &[Ending]) -> Verdict {
        let Some(talk) = &mut self.talk else {
            return Ok(());
        };
        for ending in ends {
            let of_silence = matches!(
                ending.reason.class,
                LossClass::HeartbeatTimeout
                    | LossClass::Disconnected
                    | LossClass::RegistrationTimeout
            );
            let uid = ending.entry.uid().map_or("", |uid| uid.as_str());
            // Who cannot find itself in the ledger is refused until it is found.
            let odd = self.checks.excuses.relabelled.contains(uid)
                || self.checks.excuses.planted.contains(uid)
                || !self.checks.excuses.rewritten.is_empty();
            // The dead are silent, too, though the driver may not know that they are.
            let speaks = talk
                .executors
                .get(uid)
                .is_some_and(|talking| !talking.is_finished());
            let silent = !speaks || talk.way.net().silent.contains(uid);
            if of_silence && !silent && !odd && !talk.may_be_unheard() {
                return Err(format!(
                    "I-12: d{driver} gave {} up ({}), which was not silent",
                    ending.entry.id, ending.reason.class
                ));
            }
        }
        Ok(())
    }
}
