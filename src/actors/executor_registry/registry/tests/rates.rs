//! Tests of what an executor may send, and how often.

use super::*;

// spec: O-56
#[test]
fn what_an_executor_repeats_is_recorded_once() {
    let mut world = World::new(config(), 1);
    world.registers(1);
    world.take();
    let exiting = FromExecutor::Exiting(Exiting {
        session: None,
        code: 3,
        why: "again".to_owned(),
    });
    let ask = FromExecutor::DecommissionMe(AskToGo::default());
    for _ in 0..3_000 {
        world.scenario.pass(2_000);
        for message in [&exiting, &ask] {
            assert_eq!(world.say(1, conn(1), message), [ToExecutor::Ack]);
        }
    }
    let (code, why) = (3, "again".to_owned());
    assert_eq!(
        world.take(),
        [
            told(1, SessionStep::Exiting { code, why }),
            Effect::AsksToGo(id(1), String::new()),
        ]
    );
}

// spec: O-56
#[test]
fn an_executors_messages_are_bounded_in_rate_over_all_its_sessions() {
    let mut world = World::new(config(), 2);
    world.registers(2);
    world.take();
    let mut steps = 0;
    // 1,000 times within a second it registers over a new connection, and loses that.
    for n in 0..1_000 {
        world.scenario.pass(1);
        let connection = 10 + n;
        world.say(1, conn(connection), &registration(1));
        world.loses(connection);
        let happened = |effect: &&Effect| matches!(effect, Effect::Happened(..));
        steps += world.take().iter().filter(happened).count();
    }
    assert!((2..=50).contains(&steps), "{steps} events");
    let later = world.say(1, conn(5_000), &registration(1));
    assert!(
        matches!(later[..], [ToExecutor::Later { in_ms: 1..=1_000 }]),
        "{later:?}"
    );
    assert_eq!(world.beats(2, 0), [ToExecutor::Ack]);
    world.scenario.pass(2_000);
    let answer = world.say(1, conn(5_000), &registration(1));
    assert!(matches!(answer[..], [ToExecutor::Registered(_)]));
    let refused = (0..100).map(|_| world.say(1, conn(5_000), &heartbeat(None, 0)));
    let refused: Vec<_> = refused
        .filter(|answer| *answer != [ToExecutor::Ack])
        .collect();
    assert!(refused.len() >= 79, "{}", refused.len());
    assert!(
        matches!(&refused[0][..], [ToExecutor::Problem { code, .. }] if code == "too-many-messages")
    );
    // Even so it is alive.
    let seen = world.registry.account(id(1)).unwrap().last_sign;
    assert_eq!(seen, world.now());
}
