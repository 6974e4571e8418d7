//! Tests of registrations, and of the messages of registered executors.

use super::*;

// spec: B-1, B-21
#[test]
fn a_registration_returns_the_session_and_intervals_and_a_heartbeat_reports_idleness() {
    let mut world = World::new(config(), 1);
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
    let mut world = World::new(config(), 3);
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
    let mut world = World::new(config(), 1);
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
    let mut world = World::new(config(), 1);
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
    let mut world = World::new(config(), 1);
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
    let mut world = World::new(config(), 4);
    world.scenario.tell(News::Retire {
        ids: vec![id(1)],
        aim: TargetChange::Stay,
        why: LeaveReason::ScaledDown,
        how: crate::model::executor::LeaveMethod::Delete,
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
    let mut world = World::new(config(), 2);
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
    let mut world = World::new(config(), 1);
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
    let mut world = World::new(config(), 1);
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
    let mut world = World::new(config(), 1);
    world.registers(1);
    world.take();
    let ask = FromExecutor::DecommissionMe(AskToGo::default());
    assert_eq!(world.say(1, Via::Request, &ask), [ToExecutor::Ack]);
    assert_eq!(world.take(), [Effect::AsksToGo(id(1), String::new())]);
}

// spec: O-145
#[test]
fn what_the_last_heartbeat_said_of_use_is_told_at_the_end() {
    let mut world = World::new(config(), 2);
    let usage = Usage {
        memory_bytes: 600,
        peak_memory_bytes: Some(700),
        ..Usage::default()
    };
    for n in [1, 2] {
        world.registers(n);
    }
    let beat = Heartbeat {
        usage: Some(usage),
        ..Heartbeat::default()
    };
    world.say(1, conn(1), &FromExecutor::Heartbeat(beat));
    world.take();
    world.scenario.exits(1, 0);
    world.scenario.exits(2, 0);
    world.round();
    let is_use = |effect: &Effect| matches!(effect, Effect::Used(..));
    let told: Vec<Effect> = world.take().into_iter().filter(is_use).collect();
    assert_eq!(told, [Effect::Used(id(1), usage)]);
}

// spec: L-44
#[test]
fn an_executor_that_is_near_its_memory_limit_should_have_the_next_step() {
    const MIB: u64 = 1 << 20;
    let growing = |in_place| {
        let mut config = config();
        let default = config.profiles.get_mut("default").unwrap();
        default.memory_limit = "100Mi".parse().ok();
        default.memory_max = "200Mi".parse().ok();
        default.memory_in_place = in_place;
        config
    };
    let mut world = World::new(growing(true), 1);
    world.registers(1);
    let uses = |world: &mut World, memory: u64, limit: Option<u64>| {
        world.take();
        world.scenario.pass(2_000);
        let usage = Usage {
            memory_bytes: memory * MIB,
            memory_limit_bytes: limit.map(|limit| limit * MIB),
            ..Usage::default()
        };
        let beat = Heartbeat {
            busy_slots: 1,
            usage: Some(usage),
            ..Heartbeat::default()
        };
        world.say(1, conn(1), &FromExecutor::Heartbeat(beat));
        let wanted = |effect: &Effect| match effect {
            Effect::Session(_, session) => {
                Some(session.memory.map_or(0, |bytes| bytes.get() / MIB))
            }
            _ => None,
        };
        world.take().iter().find_map(wanted)
    };
    assert_eq!(uses(&mut world, 89, Some(100)), None);
    assert_eq!(uses(&mut world, 90, Some(100)), Some(150));
    assert_eq!(uses(&mut world, 99, Some(100)), None, "that is known");
    assert_eq!(uses(&mut world, 99, Some(150)), Some(0), "it has it");
    assert_eq!(uses(&mut world, 140, Some(150)), Some(200));
    assert_eq!(
        uses(&mut world, 199, Some(200)),
        Some(0),
        "there is no more"
    );
    assert_eq!(uses(&mut world, 500, None), None);
    let mut world = World::new(growing(false), 1);
    world.registers(1);
    assert_eq!(uses(&mut world, 99, Some(100)), None);
}
