//! Tests of which executors are given up, and when.

use super::*;

// spec: B-10, B-12
#[test]
fn a_silent_executor_is_given_up_once_and_to_the_second() {
    let mut world = World::new(config(), 2);
    world.registers(1);
    world.registers(2);
    world.pass(119, &[2]);
    assert_eq!(world.given_up(), []);
    world.pass(1, &[2]);
    assert_eq!(world.given_up(), [(1, timeout(120))]);
    world.pass(300, &[2]);
    assert_eq!(world.given_up(), []);
}

// spec: C-6
#[test]
fn a_new_timeout_applies_to_executors_that_are_silent_already() {
    let new = |seconds| {
        let mut config = config();
        config.backend.sessions.heartbeat_timeout = Duration::from_secs(seconds);
        Arc::new(config)
    };
    for (timeout_after, given_up_after) in [(60, 60), (200, 200)] {
        let mut world = World::new(config(), 2);
        world.registers(1);
        world.registers(2);
        world.pass(30, &[2]);
        world.registry.reconfigure(new(timeout_after), world.now());
        world.pass(given_up_after - 31, &[2]);
        assert_eq!(world.given_up(), []);
        world.pass(1, &[2]);
        assert_eq!(world.given_up(), [(1, timeout(given_up_after))]);
    }
}

// spec: B-10
#[test]
fn any_message_is_a_sign_of_life() {
    let mut world = World::new(config(), 2);
    world.registers(1);
    world.registers(2);
    for _ in 0..5 {
        world.pass(100, &[2]);
        let ask = FromExecutor::DecommissionMe(AskToGo::default());
        world.say(1, conn(1), &ask);
    }
    assert_eq!(world.given_up(), []);
    world.pass(120, &[2]);
    assert_eq!(world.given_up(), [(1, timeout(120))]);
}

// spec: B-14
#[test]
fn a_lost_connection_disables_and_a_new_session_enables() {
    let mut world = World::new(config(), 2);
    world.registers(1);
    world.registers(2);
    world.pass(10, &[2]);
    world.take();
    world.loses(1);
    assert_eq!(world.take(), [told(1, SessionStep::Disabled)]);
    assert!(world.registry.account(id(1)).unwrap().is_disabled());
    world.pass(59, &[2]);
    world.say(1, conn(9), &registration(1));
    assert_eq!(world.take(), [told(1, SessionStep::Enabled)]);
    // Also if it continues without a connection.
    world.registry.lost(
        ConnectionId(9),
        world.scenario.now().tick,
        &mut world.effects,
    );
    let session = session(&world.say(1, Via::Request, &registration(1)));
    assert_eq!(
        world.take(),
        [
            told(1, SessionStep::Disabled),
            told(1, SessionStep::Enabled)
        ]
    );
    world.pass(100, &[2]);
    world.say(1, Via::Request, &heartbeat(Some(session), 0));
    world.pass(100, &[2]);
    assert_eq!(world.given_up(), []);
}

// spec: B-15
#[test]
fn an_unexplained_loss_is_final_after_a_full_list_that_was_requested_later() {
    let mut world = World::new(config(), 2);
    world.registers(1);
    world.registers(2);
    world.pass(30, &[2]);
    world.loses(1);
    world.pass(70, &[2]);
    assert_eq!(world.given_up(), [], "no list was asked for since");
    let pods = [1, 2].map(|n| running(world.scenario.pod(n))).to_vec();
    world.scenario.list(pods);
    world.pass(1, &[2]);
    assert_eq!(world.given_up(), [(1, LeaveReason::Disconnected)]);
}

// spec: B-15, B-12
#[test]
fn without_a_full_list_a_lost_executor_is_given_up_for_its_silence() {
    let mut world = World::new(config(), 2);
    world.registers(1);
    world.registers(2);
    world.pass(30, &[2]);
    world.loses(1);
    world.pass(89, &[2]);
    assert_eq!(world.given_up(), []);
    world.pass(1, &[2]);
    assert_eq!(world.given_up(), [(1, timeout(120))]);
}

// spec: B-14
#[test]
fn a_loss_that_kubernetes_explains_is_not_given_up_by_the_registry() {
    let mut world = World::new(config(), 1);
    world.registers(1);
    world.loses(1);
    world.scenario.exits(1, 137);
    world.round();
    world.pass(500, &[]);
    assert_eq!(world.given_up(), []);
    assert!(world.registry.accounts.is_empty() && world.registry.due.is_empty());
}

// spec: B-12
#[test]
fn a_leaving_executor_is_not_given_up_and_not_counted_as_silent() {
    let mut world = World::new(config(), 8);
    for n in 1..=8 {
        world.registers(n);
    }
    world.scenario.tell(News::Retire {
        ids: (1..=6).map(id).collect(),
        aim: TargetChange::Stay,
        why: LeaveReason::ScaledDown,
        how: crate::model::executor::LeaveMethod::Delete,
    });
    world.round();
    world.pass(300, &[7, 8]);
    assert_eq!(world.given_up(), []);
    assert_eq!(world.registry.doubt(), None);
}

// spec: A-52
#[test]
fn a_running_executor_that_does_not_register_in_time_is_given_up_if_it_must_register() {
    let mut world = World::new(required(), 2);
    world.registers(2);
    world.pass(299, &[2]);
    assert_eq!(world.given_up(), []);
    world.pass(1, &[2]);
    let why = LeaveReason::RegistrationTimeout(Duration::from_secs(300));
    assert_eq!(world.given_up(), [(1, why)]);
    let mut world = World::new(config(), 1);
    world.pass(1_000, &[]);
    assert_eq!(world.given_up(), []);
}

// spec: A-52
#[test]
fn executors_that_never_registered_are_given_up_however_many_they_are() {
    let mut world = World::new(required(), 10);
    world.pass(300, &[]);
    assert_eq!(world.given_up().len(), 10);
}

// spec: A-44, O-99
#[test]
fn adopted_executors_have_the_adoption_grace_and_then_the_registration_timeout() {
    let mut world = adopted(required(), 2);
    world.registers(2);
    world.pass(359, &[2]);
    assert_eq!(world.given_up(), []);
    world.pass(1, &[2]);
    let why = LeaveReason::RegistrationTimeout(Duration::from_secs(300));
    assert_eq!(world.given_up(), [(1, why)]);
}

// spec: A-52
#[test]
fn an_executor_that_was_adopted_before_it_ran_has_the_whole_registration_timeout_when_it_runs() {
    let scenario = Scenario::before_adoption(&[("default", 100)], Inheritance::default());
    let mut world = World::over(scenario, required());
    world.scenario.list(vec![world.scenario.pod(1)]);
    world.round();
    world.pass(500, &[]);
    world.scenario.observe(running(world.scenario.pod(1)));
    world.round();
    world.pass(299, &[]);
    assert_eq!(world.given_up(), []);
    world.pass(1, &[]);
    let why = LeaveReason::RegistrationTimeout(Duration::from_secs(300));
    assert_eq!(world.given_up(), [(1, why)]);
}

// spec: B-12
#[test]
fn heartbeats_do_not_change_the_order_of_deadlines() {
    let mut world = World::new(config(), 50);
    for n in 1..=50 {
        world.registers(n);
    }
    let before = world.registry.due.clone();
    for n in 1..=50 {
        world.beats(n, 1);
    }
    assert_eq!(world.registry.due, before);
    assert_eq!(before.len(), 50);
}
