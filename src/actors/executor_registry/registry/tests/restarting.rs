//! Executors whose containers the kubelet starts again.

use super::*;
use crate::model::Pod;
use crate::model::pod::ContainerState;

impl World {
    /// The container of executor `n` has ended, and its kubelet waits before it starts it again.
    fn waits_to_restart(&mut self, n: u64) {
        let pod = Pod {
            executor: ContainerState::Waiting {
                reason: Some("CrashLoopBackOff".into()),
                message: None,
            },
            ..running(self.scenario.pod(n))
        };
        self.scenario.observe(pod);
        self.round();
    }

    fn runs_again(&mut self, n: u64) {
        self.scenario.runs(n);
        self.round();
    }

    fn list(&mut self) {
        let pods = self.scenario.current().entries.values();
        let pods = pods
            .filter_map(|entry| entry.pod())
            .map(|pod| (**pod).clone());
        let pods = pods.collect();
        self.scenario.list(pods);
        self.round();
    }
}

// spec: B-14, B-15, B-12
#[test]
fn a_restart_explains_a_lost_connection_however_long_it_takes() {
    for required in [config(), required()] {
        let mut world = World::new(required, 2);
        world.registers(1);
        world.registers(2);
        world.pass(10, &[2]);
        world.loses(1);
        world.waits_to_restart(1);
        world.list();
        world.pass(1_000, &[2]);
        assert_eq!(world.given_up(), []);
        assert!(world.registry.account(id(1)).unwrap().is_disabled());
        // It has the usual time once it runs again, and may use it up.
        world.runs_again(1);
        world.list();
        world.pass(59, &[2]);
        assert_eq!(world.given_up(), []);
        world.pass(1, &[2]);
        assert_eq!(world.given_up(), [(1, LeaveReason::Disconnected)]);
    }
}

// spec: B-14, B-12
#[test]
fn an_executor_that_is_back_after_a_restart_is_watched_as_before() {
    let mut world = World::new(config(), 2);
    world.registers(1);
    world.registers(2);
    world.loses(1);
    world.waits_to_restart(1);
    world.pass(300, &[2]);
    // Its session may be seen before its pod runs.
    world.say(1, conn(9), &registration(1));
    world.runs_again(1);
    world.pass(119, &[2]);
    assert_eq!(world.given_up(), []);
    world.pass(1, &[2]);
    assert_eq!(world.given_up(), [(1, timeout(120))]);
}

// spec: A-52
#[test]
fn a_restart_begins_the_time_to_register_anew() {
    let mut world = World::new(required(), 2);
    world.registers(2);
    world.pass(200, &[2]);
    world.waits_to_restart(1);
    world.pass(500, &[2]);
    assert_eq!(world.given_up(), []);
    world.runs_again(1);
    world.pass(299, &[2]);
    assert_eq!(world.given_up(), []);
    world.pass(1, &[2]);
    let why = LeaveReason::RegistrationTimeout(Duration::from_secs(300));
    assert_eq!(world.given_up(), [(1, why)]);
}

// spec: B-58
#[test]
fn executors_that_all_restart_are_no_reason_to_doubt() {
    let mut world = World::new(config(), 8);
    for n in 1..=8 {
        world.registers(n);
    }
    for n in 1..=7 {
        world.loses(n);
        world.waits_to_restart(n);
    }
    world.pass(500, &[8]);
    assert_eq!(world.registry.doubt(), None);
    assert_eq!(world.given_up(), []);
}

// spec: B-14
#[test]
fn a_restarting_executor_that_is_retired_or_ends_is_forgotten() {
    let mut world = World::new(required(), 2);
    world.registers(1);
    for n in [1, 2] {
        world.waits_to_restart(n);
    }
    world.scenario.tell(News::Retire {
        ids: vec![id(1)],
        aim: TargetChange::Stay,
        why: LeaveReason::ScaledDown,
        how: crate::model::executor::LeaveMethod::Delete,
    });
    world.scenario.exits(2, 3);
    world.round();
    world.pass(1_000, &[]);
    assert_eq!(world.given_up(), []);
    assert!(world.registry.restarting.is_empty() && world.registry.due.is_empty());
}
