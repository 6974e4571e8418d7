//! Tests of the registry over a real ledger.

use crate::model::executor::Session;
use proptest::prelude::*;

use super::*;
use crate::config::{Profile, Registration};
use crate::model::ledger::Inheritance;
use crate::model::news::{News, TargetChange};
use crate::testing::{Scenario, at, id, running, terminating};
use boatswain_agent::protocol::{AskToGo, Demand, Exiting, Heartbeat, Register};

mod doubt;
mod liveness;
mod orders;
mod properties;
mod rates;
mod record_check;
mod references;
mod registration;
mod restarting;
mod spares;

const INTERVAL: u64 = 10_000;
const TIMEOUT: u64 = 120_000;
const LOSS: u64 = 60_000;

fn config() -> Config {
    let mut config = Config::default();
    let sessions = &mut config.backend.sessions;
    sessions.heartbeat_interval = Duration::from_millis(INTERVAL);
    sessions.heartbeat_timeout = Duration::from_millis(TIMEOUT);
    sessions.loss_reason_timeout = Duration::from_millis(LOSS);
    config.app.properties = BTreeMap::from([("mode".to_owned(), "batch".to_owned())]);
    let profile = Profile {
        termination_grace: Duration::from_secs(5),
        ..Profile::default()
    };
    config.profiles = BTreeMap::from([("default".into(), profile)]);
    config
}

fn registry(config: Config) -> Registry {
    Registry::new(
        AppId::from("app"),
        "a".to_owned(),
        Incarnation(2),
        Arc::new(config),
    )
}

/// A registry, its ledger, and the effects.
struct World {
    scenario: Scenario,
    registry: Registry,
    effects: Vec<Effect>,
    /// Whether the record is found to be this driver's; `None`: it cannot be read.
    is_own_record: Option<bool>,
}

impl World {
    fn over(scenario: Scenario, config: Config) -> Self {
        Self {
            scenario,
            registry: registry(config),
            effects: Vec::new(),
            is_own_record: Some(true),
        }
    }

    fn new(config: Config, executors: u64) -> Self {
        let mut world = Self::over(Scenario::new(&[("default", 100)]), config);
        for n in 1..=executors {
            world.asked(n);
            world.scenario.created(n);
            world.scenario.runs(n);
        }
        world.round();
        world
    }

    fn asked(&mut self, n: u64) {
        let profile = "default".into();
        let outcome = crate::model::news::Outcome::Sent { profile };
        self.scenario.requested(n, outcome);
    }

    fn now(&self) -> Tick {
        at(self.scenario.millis)
    }

    /// Delivers the ledger's changes.
    fn round(&mut self) {
        let (batch, now) = (self.scenario.batch(), self.now());
        self.registry.round(&batch, now, &mut self.effects);
        self.carry_out();
    }

    /// Carries out the effects on the ledger.
    fn carry_out(&mut self) {
        for effect in self.effects.clone() {
            match effect {
                Effect::Session(id, session) => {
                    self.scenario.tell(News::Session(id, session));
                }
                Effect::Retire(id, why) => self.scenario.tell(News::Retire {
                    ids: vec![id],
                    aim: TargetChange::Stay,
                    why,
                    how: crate::model::executor::LeaveMethod::Delete,
                }),
                _ => {}
            }
        }
    }

    fn say(&mut self, n: u64, via: Via, message: &FromExecutor) -> Vec<ToExecutor> {
        self.say_as(&Proof::Executor(id(n)), via, message)
    }

    fn say_as(&mut self, proof: &Proof, via: Via, message: &FromExecutor) -> Vec<ToExecutor> {
        let (snapshot, now) = (self.scenario.current().clone(), self.now());
        let snapshot = Some(&snapshot).filter(|snapshot| snapshot.adopted);
        (self.registry).receive(proof, via, message, snapshot, now, &mut self.effects)
    }

    /// Executor `n` registers over connection `n`.
    fn registers(&mut self, n: u64) -> Vec<ToExecutor> {
        self.say(n, conn(n), &registration(n))
    }

    fn beats(&mut self, n: u64, busy_slots: u32) -> Vec<ToExecutor> {
        self.say(n, conn(n), &heartbeat(None, busy_slots))
    }

    fn loses(&mut self, n: u64) {
        let now = self.now();
        self.registry.lost(ConnectionId(n), now, &mut self.effects);
    }

    /// Advances the time with a check each second, and heartbeats of these executors.
    fn pass(&mut self, seconds: u64, beating: &[u64]) {
        for _ in 0..seconds {
            self.scenario.pass(1_000);
            if self.scenario.millis.is_multiple_of(INTERVAL) {
                for n in beating {
                    self.beats(*n, 0);
                }
            }
            let before = self.effects.len();
            self.look();
            let begins_read = self.effects[before..].contains(&Effect::ReadRecord);
            if let Some(is_own) = self.is_own_record.filter(|_| begins_read) {
                self.registry.record_read(is_own);
                if is_own {
                    self.look();
                }
            }
        }
    }

    fn look(&mut self) {
        let (snapshot, now) = (self.scenario.current().clone(), self.now());
        self.registry.look(Some(&snapshot), now, &mut self.effects);
    }

    fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// The executors that were given up, and why.
    fn given_up(&mut self) -> Vec<(u64, LeaveReason)> {
        (self.take().into_iter())
            .filter_map(|effect| match effect {
                Effect::Retire(id, why) => Some((id.get(), why)),
                _ => None,
            })
            .collect()
    }
}

fn conn(n: u64) -> Via {
    Via::Connection(ConnectionId(n))
}

fn registration(n: u64) -> FromExecutor {
    FromExecutor::Register(Register {
        app: "app".to_owned(),
        executor: Some(n),
        pod_uid: format!("u{n}"),
        address: format!("10.0.0.{n}:7000"),
        slots: 2,
        ..Register::default()
    })
}

fn heartbeat(session: Option<u64>, busy_slots: u32) -> FromExecutor {
    FromExecutor::Heartbeat(Heartbeat {
        session,
        busy_slots,
        ..Heartbeat::default()
    })
}

/// The session number in the answer to an accepted registration.
fn session(answer: &[ToExecutor]) -> u64 {
    match &answer[0] {
        ToExecutor::Registered(registered) => registered.session,
        other => panic!("not registered: {other:?}"),
    }
}

/// The code of a refusal, and whether it orders the executor to exit.
fn refusal(answer: &[ToExecutor]) -> (&str, bool) {
    match answer {
        [ToExecutor::Refused { code, exit, .. }] => (code, *exit),
        other => panic!("not refused: {other:?}"),
    }
}

fn told(n: u64, step: SessionStep) -> Effect {
    Effect::Happened(id(n), "default".into(), step)
}

fn news(n: u64, idle: bool) -> Effect {
    Effect::Session(id(n), Session::open(idle))
}

fn drain(seconds: u64) -> Order {
    Order {
        demand: Demand::Drain,
        within: Duration::from_secs(seconds),
        why: "maintenance".to_owned(),
    }
}

fn timeout(seconds: u64) -> LeaveReason {
    LeaveReason::HeartbeatTimeout(Duration::from_secs(seconds))
}

fn unreachable(seconds: u64) -> LeaveReason {
    LeaveReason::Unreachable(Duration::from_secs(seconds))
}

fn required() -> Config {
    let mut config = config();
    config.backend.sessions.registration = Some(Registration::Required);
    config
}

/// A world in which executors were adopted.
fn adopted(config: Config, executors: u64) -> World {
    let before = World::new(self::config(), executors);
    let pods: Vec<_> = (1..=executors)
        .map(|n| running(before.scenario.pod(n)))
        .collect();
    let scenario = Scenario::before_adoption(&[("default", 100)], Inheritance::default());
    let mut world = World::over(scenario, config);
    world.scenario.list(pods);
    world.round();
    world
}
