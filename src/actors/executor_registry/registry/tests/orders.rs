//! Tests of orders, and of when executors receive them.

use super::*;

// spec: B-28, B-30
#[test]
fn an_order_is_sent_at_once_over_a_connection_and_otherwise_kept() {
    let mut world = World::new(config(), 3);
    world.registers(1);
    let second = session(&world.say(2, Via::Request, &registration(2)));
    world.take();
    let order = |world: &mut World, n, order| {
        let now = world.now();
        world.registry.order(id(n), order, now, &mut world.effects)
    };
    let told = |deadline_ms| ToExecutor::Decommission {
        deadline_ms,
        why: "maintenance".to_owned(),
    };
    order(&mut world, 1, drain(60));
    assert_eq!(world.take(), [Effect::Send(ConnectionId(1), told(60_000))]);
    // The same order or a weaker one is not sent again; a stricter one is.
    order(&mut world, 1, drain(60));
    assert_eq!(world.take(), []);
    let why = "now".to_owned();
    let stop = Order {
        demand: Demand::Stop,
        within: Duration::from_secs(5),
        why: why.clone(),
    };
    order(&mut world, 1, stop);
    let stop = ToExecutor::Stop {
        deadline_ms: 5_000,
        why,
    };
    assert_eq!(world.take(), [Effect::Send(ConnectionId(1), stop)]);
    order(&mut world, 1, drain(1));
    assert_eq!(world.take(), []);
    // Without a connection, each answer includes the order with the time that is left.
    order(&mut world, 2, drain(60));
    world.scenario.pass(20_000);
    let beat = heartbeat(Some(second), 1);
    assert_eq!(world.say(2, Via::Request, &beat), [told(40_000)]);
    // An unregistered executor gets it when it registers, even if its entry is leaving by then.
    order(&mut world, 3, drain(60));
    world.scenario.tell(News::Retire {
        ids: vec![id(3)],
        aim: TargetChange::Stay,
        why: LeaveReason::ScaledDown,
        how: crate::model::executor::LeaveMethod::Delete,
    });
    let answer = world.registers(3);
    assert_eq!(answer[1..], [told(60_000)]);
}

// spec: B-30, B-4
#[test]
fn an_unregistered_executor_with_an_order_to_drain_may_register_within_its_time_limit() {
    let mut world = World::new(config(), 2);
    let within = Duration::from_secs(60);
    world.scenario.tell(News::Retire {
        ids: vec![id(1), id(2)],
        aim: TargetChange::Stay,
        why: LeaveReason::Decommissioned("me".into()),
        how: crate::model::executor::LeaveMethod::Drain { within },
    });
    let answer = world.registers(1);
    assert!(
        matches!(answer[..], [ToExecutor::Registered(_)]),
        "{answer:?}"
    );
    // LifecycleManager learns of the session, and sends the order.
    let now = world.now();
    (world.registry).order(id(1), drain(60), now, &mut world.effects);
    let told = |effect: &Effect| matches!(effect, Effect::Send(_, ToExecutor::Decommission { .. }));
    assert!(world.take().iter().any(told));
    world.scenario.pass(60_000);
    let answer = world.registers(2);
    assert!(
        matches!(&answer[..], [ToExecutor::Refused { exit: true, .. }]),
        "{answer:?}"
    );
}

// spec: B-4, O-11
#[test]
fn a_deleted_executor_is_ordered_to_stop_and_an_ended_one_has_no_account() {
    let mut world = World::new(config(), 1);
    world.registers(1);
    world.take();
    world.scenario.tell(News::Retire {
        ids: vec![id(1)],
        aim: TargetChange::Stay,
        why: LeaveReason::ApplicationEnded,
        how: crate::model::executor::LeaveMethod::Delete,
    });
    world.round();
    let connection = ConnectionId(1);
    let why = "the application ended".to_owned();
    // As LifecycleManager sends it: the pod has its own grace.
    let order = Order {
        demand: Demand::Stop,
        within: Duration::ZERO,
        why: why.clone(),
    };
    let now = world.now();
    (world.registry).order(id(1), order, now, &mut world.effects);
    let stop = ToExecutor::Stop {
        deadline_ms: 5_000,
        why,
    };
    assert_eq!(world.take(), [Effect::Send(connection, stop)]);
    world.scenario.exits(1, 0);
    world.round();
    let exit = ToExecutor::exit("ended", "its pod has ended");
    assert_eq!(
        world.take(),
        [Effect::Send(connection, exit), Effect::Close(connection)]
    );
    assert!(world.registry.account(id(1)).is_none());
    assert_eq!(world.beats(1, 0), [ToExecutor::Register]);
    assert!(world.registry.orders.is_empty() && world.registry.due.is_empty());
}
