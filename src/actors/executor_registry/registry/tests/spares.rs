//! Spares ask to register and wait.

use super::*;
use crate::model::pod::PodIdentity;

/// Executor 1 is a spare that runs.
fn world() -> World {
    let targets = [("default", 1), ("default-spares", 1)];
    let mut world = World::over(Scenario::new(&targets), required());
    let profile = "default-spares".into();
    let outcome = crate::model::news::Outcome::Sent { profile };
    world.scenario.requested(1, outcome);
    world.scenario.created(1);
    world.scenario.runs(1);
    world.round();
    world
}

impl World {
    fn is_promoted(&mut self) {
        self.scenario.tell(News::Promote(vec![id(1)]));
        self.round();
    }

    fn is_labelled(&mut self) {
        let mut pod = self.scenario.pod(1);
        if let PodIdentity::Executor { profile, .. } = &mut pod.identity {
            *profile = Some("default".into());
        }
        self.scenario.observe(pod);
        self.round();
    }
}

fn waits(answer: &[ToExecutor], millis: u64) -> bool {
    *answer == [ToExecutor::Later { in_ms: millis }]
}

// spec: B-77
#[test]
fn a_spare_waits_until_its_pod_says_that_it_was_promoted_and_is_told_at_once() {
    let mut world = world();
    assert!(waits(&world.registers(1), 10_000));
    world.is_promoted();
    assert!(
        waits(&world.registers(1), 10_000),
        "its label could still be lost"
    );
    assert_eq!(world.take(), []);
    world.is_labelled();
    let connection = ConnectionId(1);
    assert_eq!(
        world.take(),
        [Effect::Send(connection, ToExecutor::Register)]
    );
    assert!(
        matches!(&world.registers(1)[..], [ToExecutor::Registered(r)] if r.profile == "default")
    );
    world.is_labelled();
    assert!(
        !world
            .take()
            .contains(&Effect::Send(connection, ToExecutor::Register))
    );
}

// spec: B-77
#[test]
fn a_spare_that_sends_requests_asks_each_second() {
    let mut world = world();
    assert!(waits(&world.say(1, Via::Request, &registration(1)), 1_000));
    world.is_promoted();
    world.is_labelled();
    assert_eq!(world.take(), [], "nobody can be told");
    session(&world.say(1, Via::Request, &registration(1)));
}

// spec: B-77, A-52
#[test]
fn a_spare_that_asks_is_not_given_up_and_one_that_does_not_is() {
    let mut world = world();
    let timeout = required().allocation.registration_timeout.as_secs();
    for _ in 0..timeout {
        world.registers(1);
        world.pass(10, &[]);
    }
    assert_eq!(world.given_up(), []);
    world.registers(1);
    world.pass(timeout - 1, &[]);
    assert_eq!(world.given_up(), []);
    world.pass(2, &[]);
    assert_eq!(world.given_up().len(), 1);
}

// spec: B-77
#[test]
fn a_spare_that_ends_while_it_waits_is_told_to_exit() {
    let mut world = world();
    world.registers(1);
    world.scenario.exits(1, 1);
    world.round();
    let connection = ConnectionId(1);
    let effects = world.take();
    assert!(
        matches!(&effects[..], [Effect::Send(to, ToExecutor::Refused { exit: true, .. }), Effect::Close(closed)]
            if *to == connection && *closed == connection),
        "{effects:?}"
    );
}

// spec: B-77, A-52
#[test]
fn a_promoted_spare_whose_pod_cannot_be_labelled_is_given_up() {
    let mut world = world();
    world.registers(1);
    world.is_promoted();
    let timeout = required().allocation.registration_timeout.as_secs();
    for _ in 0..=timeout / 10 {
        assert!(waits(&world.registers(1), 10_000));
        world.pass(10, &[]);
    }
    assert_eq!(world.given_up().len(), 1);
}
