//! Tests of the registry over a real ledger.

use proptest::prelude::*;

use super::*;
use crate::actors::snapshot_store::ledger::Inheritance;
use crate::model::news::{Aim, News};
use crate::testing::{Scenario, at, id};
use boatswain_agent::protocol::{AskToGo, Demand, Exiting, Heartbeat, Register};

mod liveness;
mod orders;
mod properties;
mod rates;
mod references;

const INTERVAL: u64 = 10_000;
const TIMEOUT: u64 = 120_000;
const LOSS: u64 = 60_000;

fn settings() -> Settings {
    Settings {
        app: AppId::from("app"),
        prefix: "a".to_owned(),
        incarnation: Incarnation(2),
        heartbeat_interval: Duration::from_millis(INTERVAL),
        heartbeat_timeout: Duration::from_millis(TIMEOUT),
        loss_reason_timeout: Duration::from_millis(LOSS),
        mass_loss: 20,
        registration_timeout: None,
        adoption_grace: Duration::from_secs(60),
        properties: BTreeMap::from([("mode".to_owned(), "batch".to_owned())]),
        graces: BTreeMap::from([("default".into(), Duration::from_secs(5))]),
    }
}

/// A registry, its ledger, and the effects.
struct World {
    scenario: Scenario,
    registry: Registry,
    effects: Vec<Effect>,
    begun: bool,
    /// Whether the record is found to be this driver's; `None`: it cannot be read.
    is_own_record: Option<bool>,
}

impl World {
    fn new(settings: Settings, executors: u64) -> Self {
        let mut world = Self {
            scenario: Scenario::new(&[("default", 100)]),
            registry: Registry::new(settings),
            effects: Vec::new(),
            begun: false,
            is_own_record: Some(true),
        };
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
        let first = !std::mem::replace(&mut self.begun, true);
        self.registry.round(&batch, first, now, &mut self.effects);
        self.carry_out();
    }

    /// Carries out the effects on the ledger.
    fn carry_out(&mut self) {
        for effect in self.effects.clone() {
            match effect {
                Effect::Session {
                    id,
                    registered,
                    idle,
                } => {
                    self.scenario.tell(News::Session {
                        id,
                        registered,
                        idle,
                    });
                }
                Effect::Retire(id, why) => self.scenario.tell(News::Retire {
                    ids: vec![id],
                    aim: Aim::Stay,
                    why,
                    how: crate::model::executor::How::Delete,
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
        (self.registry).said(proof, via, message, snapshot, now, &mut self.effects)
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
    fn given_up(&mut self) -> Vec<(u64, Why)> {
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
    let (id, registered) = (id(n), true);
    Effect::Session {
        id,
        registered,
        idle,
    }
}

// spec: B-1, B-21
#[test]
fn a_registration_returns_the_session_and_intervals_and_a_heartbeat_reports_idleness() {
    let mut world = World::new(settings(), 1);
    let answer = world.registers(1);
    let [ToExecutor::Registered(registered)] = &answer[..] else {
        panic!("{answer:?}");
    };
    assert_eq!(
        (registered.executor, registered.session),
        (1, 2_000_000_001)
    );
    assert_eq!(registered.heartbeat_interval_ms, INTERVAL);
    assert_eq!(registered.properties["mode"], "batch");
    let (address, slots) = ("10.0.0.1:7000".to_owned(), 2);
    let session = 2_000_000_001;
    let step = SessionStep::Registered {
        address,
        slots,
        session,
    };
    assert_eq!(world.take(), [news(1, false), told(1, step)]);
    assert_eq!(world.beats(1, 0), [ToExecutor::Ack]);
    assert_eq!(world.beats(1, 0), [ToExecutor::Ack]);
    assert_eq!(world.take(), [news(1, true)]);
    assert_eq!(world.beats(1, 2), [ToExecutor::Ack]);
    assert_eq!(world.take(), [news(1, false)]);
    assert!(
        matches!(&world.beats(1, 3)[..], [ToExecutor::Problem { field: Some(f), .. }] if f == "busy_slots")
    );
    assert_eq!(world.take(), []);
}

// spec: B-1
#[test]
fn an_executor_that_knows_only_its_pod_gets_its_id() {
    let mut world = World::new(settings(), 3);
    let by_pod = |pod: &str| {
        FromExecutor::Register(Register {
            app: "app".to_owned(),
            pod: Some(pod.to_owned()),
            pod_uid: "u3".to_owned(),
            slots: 1,
            ..Register::default()
        })
    };
    let pod = Proof::Pod {
        name: "a-exec-3".into(),
        uid: "u3".into(),
    };
    let answer = world.say_as(&pod, conn(1), &by_pod("a-exec-3"));
    assert!(
        matches!(&answer[..], [ToExecutor::Registered(r)] if r.executor == 3),
        "{answer:?}"
    );
    assert_eq!(
        refusal(&world.say_as(&pod, conn(2), &by_pod("a-exec-2"))).0,
        "not-yours"
    );
    let unrecognised = Proof::Pod {
        name: "b-exec-3".into(),
        uid: "u3".into(),
    };
    assert_eq!(
        refusal(&world.say_as(&unrecognised, conn(2), &by_pod("b-exec-3"))).0,
        "not-yours"
    );
}

// spec: B-2
#[test]
fn the_newest_session_supersedes_any_older_one() {
    let mut world = World::new(settings(), 1);
    let first = session(&world.registers(1));
    world.take();
    let second = session(&world.say(1, conn(9), &registration(1)));
    assert!(second > first);
    let old = ConnectionId(1);
    let superseded = [
        Effect::Send(old, ToExecutor::Superseded),
        Effect::Close(old),
    ];
    assert_eq!(world.take(), superseded);
    assert_eq!(world.beats(1, 0), [ToExecutor::Superseded]);
    world.loses(1);
    assert_eq!(
        world.take(),
        [],
        "the older connection's end says nothing of the executor"
    );
    assert_eq!(
        world.say(1, conn(9), &heartbeat(None, 1)),
        [ToExecutor::Ack]
    );
    // By request, the newest session is the one that is named.
    let third = session(&world.say(1, Via::Request, &registration(1)));
    let asks = |world: &mut World, session| world.say(1, Via::Request, &heartbeat(session, 0));
    assert_eq!(asks(&mut world, Some(second)), [ToExecutor::Superseded]);
    assert_eq!(asks(&mut world, Some(third)), [ToExecutor::Ack]);
    assert_eq!(asks(&mut world, Some(third + 1)), [ToExecutor::Register]);
    assert!(matches!(
        asks(&mut world, None)[..],
        [ToExecutor::Problem { .. }]
    ));
}

// spec: B-2
#[test]
fn a_registration_from_another_pod_is_refused() {
    let mut world = World::new(settings(), 1);
    world.asked(2);
    world.round();
    let from = |n: u64, uid: &str| {
        let FromExecutor::Register(mut register) = registration(n) else {
            unreachable!()
        };
        register.pod_uid = uid.to_owned();
        FromExecutor::Register(register)
    };
    assert_eq!(
        refusal(&world.say(1, conn(1), &from(1, "u7"))),
        ("another-pod", true)
    );
    // No pod is bound to executor 2 yet: the first that registers stays until another one is bound.
    session(&world.say(2, conn(2), &from(2, "orphan")));
    assert_eq!(
        refusal(&world.say(2, conn(3), &from(2, "u2"))),
        ("another-pod", false)
    );
    world.take();
    world.scenario.created(2);
    world.scenario.runs(2);
    world.round();
    let refused = ToExecutor::exit("another-pod", "the executor of this id runs in another pod");
    assert_eq!(
        world.effects[..2],
        [
            Effect::Send(ConnectionId(2), refused),
            Effect::Close(ConnectionId(2)),
        ]
    );
    session(&world.say(2, conn(3), &from(2, "u2")));
}

// spec: B-3
#[test]
fn an_unknown_executor_is_deferred_before_the_first_list_and_refused_after_it() {
    let mut world = World::new(settings(), 1);
    let scenario = Scenario::before_adoption(&[("default", 1)], Inheritance::default());
    let adopted = std::mem::replace(&mut world.scenario, scenario);
    assert!(matches!(
        world.registers(1)[..],
        [ToExecutor::Later { in_ms: 1.. }]
    ));
    world.scenario = adopted;
    session(&world.registers(1));
    assert_eq!(refusal(&world.registers(99)), ("unknown-executor", true));
}

// spec: B-3, B-4
#[test]
fn an_executor_that_is_leaving_or_has_ended_is_refused_and_ordered_to_exit() {
    let mut world = World::new(settings(), 4);
    world.scenario.tell(News::Retire {
        ids: vec![id(1)],
        aim: Aim::Stay,
        why: Why::ScaledDown,
        how: crate::model::executor::How::Delete,
    });
    world.scenario.terminates(2);
    world.scenario.exits(3, 0);
    assert_eq!(refusal(&world.registers(1)), ("leaving", true));
    assert_eq!(refusal(&world.registers(2)), ("leaving", true));
    assert_eq!(refusal(&world.registers(3)), ("ended", true));
    world.scenario.goes(3);
    world.scenario.report(3);
    world.round();
    world.scenario.release();
    assert!(world.scenario.entry(3).is_none());
    assert_eq!(refusal(&world.registers(3)), ("ended", true));
    session(&world.registers(4));
}

// spec: B-5
#[test]
fn a_token_is_valid_for_its_own_executor_and_application_only() {
    let mut world = World::new(settings(), 2);
    let mine = Proof::Executor(id(1));
    assert_eq!(
        refusal(&world.say_as(&mine, conn(1), &registration(2))).0,
        "not-yours"
    );
    let FromExecutor::Register(mut other) = registration(1) else {
        unreachable!()
    };
    other.app = "another".to_owned();
    let other = FromExecutor::Register(other);
    assert_eq!(
        refusal(&world.say(1, conn(1), &other)).0,
        "another-application"
    );
    let stolen = Proof::Pod {
        name: "a-exec-1".into(),
        uid: "u2".into(),
    };
    assert_eq!(
        refusal(&world.say_as(&stolen, conn(1), &registration(1))).0,
        "not-yours"
    );
    // A pod of the same name cannot continue the session of another one either.
    let session = session(&world.say(1, Via::Request, &registration(1)));
    let beat = heartbeat(Some(session), 0);
    assert_eq!(
        world.say_as(&stolen, Via::Request, &beat),
        [ToExecutor::Register]
    );
}

// spec: B-11
#[test]
fn an_unregistered_executor_is_ordered_to_register() {
    let mut world = World::new(settings(), 1);
    let exiting = FromExecutor::Exiting(Exiting {
        session: Some(1),
        code: 0,
        why: String::new(),
    });
    let asking = FromExecutor::DecommissionMe(AskToGo::default());
    for message in [heartbeat(Some(7), 0), exiting, asking] {
        assert_eq!(world.say(1, conn(1), &message), [ToExecutor::Register]);
    }
    assert_eq!(
        world.say(1, Via::Request, &heartbeat(Some(7), 0)),
        [ToExecutor::Register]
    );
    assert_eq!(world.take(), []);
}

// spec: B-30
#[test]
fn requests_for_decommissioning_and_reports_of_an_exit_are_passed_on() {
    let mut world = World::new(settings(), 1);
    world.registers(1);
    world.take();
    let why = "spot notice".to_owned();
    let ask = FromExecutor::DecommissionMe(AskToGo {
        session: None,
        why: why.clone(),
    });
    assert_eq!(world.say(1, conn(1), &ask), [ToExecutor::Ack]);
    assert_eq!(world.take(), [Effect::AsksToGo(id(1), why)]);
    let (code, why) = (3, "no work".to_owned());
    let exiting = Exiting {
        session: None,
        code,
        why: why.clone(),
    };
    world.say(1, conn(1), &FromExecutor::Exiting(exiting));
    assert_eq!(world.take(), [told(1, SessionStep::Exiting { code, why })]);
    world.loses(1);
    assert_eq!(world.take(), [], "it has said so");
}

// spec: B-30
#[test]
fn a_pre_stop_hook_asks_without_knowing_the_session() {
    let mut world = World::new(settings(), 1);
    world.registers(1);
    world.take();
    let ask = FromExecutor::DecommissionMe(AskToGo::default());
    assert_eq!(world.say(1, Via::Request, &ask), [ToExecutor::Ack]);
    assert_eq!(world.take(), [Effect::AsksToGo(id(1), String::new())]);
}

fn drain(seconds: u64) -> Order {
    Order {
        demand: Demand::Drain,
        within: Duration::from_secs(seconds),
        why: "maintenance".to_owned(),
    }
}
