//! Simulated executors' sessions: each running executor speaks the session protocol with the driver, over a WebSocket
//! or by HTTP requests. Some register late or never, some fall silent, and some send false messages.

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
use crate::node::{Mishap, short};
use crate::objects::{NAMESPACE, is_terminating, text};
use crate::trace::say;
use crate::world::World;

use executor::Executor;

/// Below this number of lost sessions the driver does not suspect its own network path, and may give the executors up
/// (spec B-13).
const MASS: usize = 3;

/// The same holds below this share of all executors.
const SHARE: f64 = 0.2;

/// How a simulated executor behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Temper {
    /// Correctly, beginning this long after its start.
    Sound { after: Duration },
    /// It never sends anything.
    Mute,
    /// It falls silent after this long, without closing its connection.
    Lapses { after: Duration },
    /// It sends invalid messages first, and then behaves correctly.
    Lies,
    /// It asks to be decommissioned after this long.
    AsksToGo { after: Duration },
}

/// The network path from the executors to the driver.
#[derive(Clone)]
pub struct Way(Arc<Mutex<Net>>);

/// State shared by the executors of a run.
#[derive(Default)]
pub struct Net {
    /// The current driver's number, and its session endpoint.
    driver: Option<(usize, Router)>,
    /// Whether the path is interrupted.
    cut: bool,
    /// Violations seen in the driver's answers.
    violations: Vec<String>,
    /// Executors that exit because the driver asked them to.
    exits: Vec<Exit>,
    /// Executors that fell silent on purpose, by pod uid.
    silent: BTreeSet<String>,
}

/// An executor's exit at the driver's request.
struct Exit {
    uid: String,
    /// Whether the driver refused the executor for good.
    unwanted: bool,
    /// The number of that driver.
    driver: Option<usize>,
}

impl Way {
    fn net(&self) -> MutexGuard<'_, Net> {
        self.0.lock().unwrap()
    }

    fn exit(&self, uid: &str, unwanted: bool) {
        let mut net = self.net();
        let driver = net.driver.as_ref().map(|(number, _)| *number);
        net.exits.push(Exit {
            uid: uid.to_owned(),
            unwanted,
            driver,
        });
    }

    /// The driver's session endpoint, if it can be reached.
    fn driver(&self) -> Option<Router> {
        let net = self.net();
        (!net.cut).then(|| net.driver.as_ref().map(|(_, router)| router.clone()))?
    }
}

/// All executors with sessions.
pub struct Talk {
    way: Way,
    rng: StdRng,
    executors: BTreeMap<String, JoinHandle<()>>,
    /// The cluster's version when the running executors were last determined.
    seen: Option<u64>,
    /// Whether new executors behave correctly in any case.
    calm: bool,
    /// When the path was last interrupted or restored.
    cut: Option<Instant>,
    heartbeat_interval: Duration,
    heartbeat_timeout: Duration,
    /// The latest registration of a correct executor after its start.
    latest: Duration,
    /// When executors were given up during an interruption of the path.
    unheard: Vec<Instant>,
}

impl Talk {
    /// `None` if the configuration has no sessions.
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

    /// Interrupts or restores the path.
    pub fn cut(&mut self, cut: bool) {
        self.way.net().cut = cut;
        self.cut = Some(Instant::now());
    }

    /// Ends all faults of the sessions.
    pub fn calm(&mut self) {
        self.cut(false);
        self.calm = true;
    }

    /// Starts a session task for each running executor, and aborts those of the others.
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

    /// Whether the driver may give up an executor that is not silent: the path was interrupted recently, and too few
    /// executors were given up at the same time for the driver to suspect its own network.
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
    /// Connects the executors to the current driver and carries out their exits.
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

    async fn exit(&mut self, state: &State, exit: &Exit) -> Verdict {
        let uid = exit.uid.as_str();
        let mut pods = state.pods(NAMESPACE);
        let Some(pod) = pods.find(|pod| text(pod, "/metadata/uid") == uid) else {
            return Ok(());
        };
        // The last changes of a driver's ledger before it was killed are unknown.
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

    /// Losses due to silence are only reported of executors that were silent.
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
            // An executor that is not in the ledger under its id is refused until it is.
            let odd = self.checks.excuses.relabelled.contains(uid)
                || self.checks.excuses.planted.contains(uid)
                || !self.checks.excuses.rewritten.is_empty();
            // An executor that has exited is silent as well, even if the driver does not know yet.
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
