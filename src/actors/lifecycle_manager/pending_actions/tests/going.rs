//! Executors that are killed or decommissioned, with and without a session.

use super::*;
use crate::actors::lifecycle_manager::messages::Order;
use crate::model::executor::Session;
use crate::model::pod::{Deletion, DrainedFor, Draining};

fn killed(seconds: u64) -> (LeaveReason, LeaveMethod) {
    let grace = Duration::from_secs(seconds);
    (
        LeaveReason::Killed("me".into()),
        LeaveMethod::Kill { grace },
    )
}

fn drained(seconds: u64) -> (LeaveReason, LeaveMethod) {
    let within = Duration::from_secs(seconds);
    (
        LeaveReason::Decommissioned("me".into()),
        LeaveMethod::Drain { within },
    )
}

impl Manager {
    fn go(&mut self, n: u64, (why, how): (LeaveReason, LeaveMethod)) {
        self.retire_by(n, why, how);
    }

    fn registers(&mut self, n: u64) {
        self.scenario
            .tell(News::Session(id(n), Session::open(false)));
    }

    /// Its deletion has begun with this grace period.
    fn terminates_within(&mut self, n: u64, seconds: u64) {
        let mut pod = terminating(self.scenario.pod(n));
        pod.deletion = Some(Deletion {
            deadline: None,
            grace: Some(Duration::from_secs(seconds)),
        });
        self.scenario.observe(pod);
    }

    fn marked(&mut self, n: u64) {
        let mut pod = self.scenario.pod(n);
        pod.draining = Some(Arc::new(Draining {
            why: DrainedFor::Asked("me".into()),
            until: jiff::Timestamp::UNIX_EPOCH,
        }));
        self.scenario.observe(pod);
    }

    fn orders(&mut self) -> Vec<(u64, Order, Tick)> {
        let instructed = std::mem::take(&mut self.instructed);
        (instructed.into_iter())
            .map(|instruct| (instruct.executor.get(), instruct.order, instruct.until))
            .collect()
    }
}

// spec: B-28
#[test]
fn a_killed_executor_is_deleted_with_its_grace_and_then_without_grace() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.go(1, killed(5));
    assert_eq!(manager.rounds(), [Call::DeleteWithin("u1", 5)]);
    manager.answer(true);
    manager.terminates_within(1, 5);
    assert_eq!(manager.seconds(20), [(5, Call::DeleteWithin("u1", 0))]);
    manager.answer(true);
    manager.terminates_within(1, 0);
    assert_eq!(
        manager.seconds(60),
        [],
        "nothing shorter is left to ask for"
    );
    assert_eq!(manager.orders(), []);
    manager.scenario.goes(1);
    manager.rounds();
    assert_eq!(manager.reported, [(1, LossClass::Killed)]);
}

// spec: B-28
#[test]
fn a_killed_executor_with_a_session_is_instructed_once_and_deleted_after_its_grace() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.registers(1);
    manager.go(1, killed(5));
    assert_eq!(manager.rounds(), []);
    assert_eq!(manager.orders(), [(1, Order::Stop, at(5_000))]);
    assert_eq!(manager.seconds(10), [(5, Call::DeleteWithin("u1", 0))]);
    assert_eq!(manager.orders(), [], "it was told once");
}

// spec: B-28
#[test]
fn an_executor_that_exits_in_time_is_deleted_only_after_its_report() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.registers(1);
    manager.go(1, killed(5));
    manager.rounds();
    manager.scenario.exits(1, 143);
    assert_eq!(manager.rounds(), [Call::Delete("u1")]);
    assert_eq!(manager.reported, [(1, LossClass::Killed)]);
}

// spec: L-1
#[test]
fn an_executor_that_exits_exactly_at_its_deadline_is_reported_once() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.registers(1);
    manager.go(1, drained(30));
    manager.rounds();
    manager.marked(1);
    manager.rounds();
    manager.scenario.pass(30_000);
    manager.scenario.exits(1, 0);
    manager.rounds();
    assert_eq!(manager.reported, [(1, LossClass::Decommissioned)]);
}

// spec: B-28
#[test]
fn a_kill_with_zero_grace_is_a_delete_without_grace_at_once() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.go(1, killed(0));
    assert_eq!(manager.rounds(), [Call::DeleteWithin("u1", 0)]);
}

// spec: L-12, B-30
#[test]
fn a_pod_is_marked_first_and_without_a_session_then_deleted_at_once() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.go(1, drained(60));
    assert_eq!(manager.rounds(), [Call::MarkDraining(1)]);
    let (_, pod_call) = manager.calls.last().unwrap();
    let (why, until) = (DrainedFor::Asked("me".into()), at(60_000));
    assert!(
        matches!(pod_call, PodCall::MarkDraining { why: w, until: u, .. } if *w == why && *u == until),
        "{pod_call:?}"
    );
    manager.answer(true);
    manager.marked(1);
    assert_eq!(manager.rounds(), [Call::Delete("u1")]);
    manager.answer(true);
    manager.terminates_within(1, 30);
    assert_eq!(manager.seconds(120), []);
    manager.scenario.goes(1);
    manager.rounds();
    assert_eq!(manager.reported, [(1, LossClass::Decommissioned)]);
}

// spec: L-12, B-30
#[test]
fn an_executor_with_a_session_is_instructed_when_its_pod_is_marked_and_deleted_at_its_deadline() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.registers(1);
    manager.go(1, drained(60));
    assert_eq!(manager.rounds(), [Call::MarkDraining(1)]);
    assert_eq!(manager.orders(), [], "a successor would not know of it");
    manager.answer(true);
    manager.marked(1);
    manager.rounds();
    let until = at(60_000);
    assert_eq!(manager.orders(), [(1, Order::Drain, until)]);
    assert_eq!(manager.seconds(100), [(60, Call::Delete("u1"))]);
    assert_eq!(manager.orders(), []);
}

// spec: B-30
#[test]
fn an_executor_that_registers_while_it_drains_is_instructed_and_again_over_a_new_session() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.go(1, drained(60));
    manager.rounds();
    manager.answer(true);
    manager.registers(1);
    manager.marked(1);
    manager.rounds();
    assert_eq!(manager.orders().len(), 1);
    manager
        .scenario
        .tell(News::Session(id(1), Session::default()));
    manager.rounds();
    manager.registers(1);
    manager.rounds();
    assert_eq!(manager.orders().len(), 1);
}

// spec: L-12
#[test]
fn a_pod_that_cannot_be_marked_in_time_is_deleted_anyway() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.registers(1);
    manager.go(1, drained(20));
    let mut calls = Vec::new();
    for _ in 0..30 {
        calls.extend(manager.seconds(1));
        while !manager.calls.is_empty() {
            manager.answer(false);
        }
    }
    let first = calls.iter().find(|(_, call)| *call == Call::Delete("u1"));
    assert_eq!(first.map(|(at, _)| *at), Some(20), "{calls:?}");
    assert!(
        calls
            .iter()
            .all(|(at, call)| *at >= 20 || *call == Call::MarkDraining(1))
    );
}

// spec: B-28, A-43
#[test]
fn a_kill_shortens_a_drain_and_the_reason_stays() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.registers(1);
    manager.go(1, drained(600));
    manager.rounds();
    manager.answer(true);
    manager.marked(1);
    manager.rounds();
    manager.orders();
    manager.seconds(10);
    manager.go(1, killed(5));
    manager.rounds();
    assert_eq!(manager.orders(), [(1, Order::Stop, at(15_000))]);
    manager.go(1, drained(600));
    assert_eq!(manager.seconds(20), [(15, Call::DeleteWithin("u1", 0))]);
    manager.scenario.goes(1);
    manager.rounds();
    assert_eq!(manager.reported, [(1, LossClass::Decommissioned)]);
}

/// A successor that finds an executor whose pod is marked by a command as draining for another 300 s.
fn successor(settings: PodRules) -> Manager {
    successor_of(settings, DrainedFor::Asked("me".into()))
}

fn successor_of(settings: PodRules, why: DrainedFor) -> Manager {
    let mut scenario = Scenario::before_adoption(&[("default", 9)], Inheritance::default());
    let mut pod = running(scenario.pod(1));
    pod.draining = Some(Arc::new(Draining {
        why,
        until: jiff::Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(300),
    }));
    scenario.list(vec![pod]);
    Manager::with(settings, scenario)
}

// spec: L-36
#[test]
fn a_surplus_executor_drains_no_longer_than_usual_whatever_the_clock_of_an_earlier_driver_said() {
    let mut manager = successor_of(settings(), DrainedFor::Surplus);
    manager.registers(1);
    assert_eq!(manager.seconds(59), []);
    assert_eq!(manager.seconds(10), [(60, Call::Delete("u1"))]);
}

// spec: L-36, A-44, O-31
#[test]
fn a_draining_executor_has_the_grace_of_adoption_to_register_with_a_successor() {
    let mut manager = successor(settings());
    assert_eq!(manager.seconds(50), []);
    manager.registers(1);
    assert_eq!(manager.seconds(249), []);
    assert_eq!(manager.orders(), [(1, Order::Drain, at(300_000))]);
    assert_eq!(manager.seconds(10), [(300, Call::Delete("u1"))]);
    // One that stays away is deleted at the end of the grace, as any without a session.
    let mut manager = successor(settings());
    assert_eq!(manager.seconds(100), [(60, Call::Delete("u1"))]);
    // Without registration there is no grace.
    let mut manager = successor(PodRules {
        adoption_grace: None,
        left_to_sets: None,
        ..settings()
    });
    assert_eq!(manager.rounds(), [Call::Delete("u1")]);
}

// spec: L-12, L-36, O-31
#[test]
fn a_successor_continues_the_drain_from_the_mark_on_the_pod() {
    let mut scenario = Scenario::before_adoption(&[("default", 9)], Inheritance::default());
    let mut pod = running(scenario.pod(1));
    pod.draining = Some(Arc::new(Draining {
        why: DrainedFor::Asked("me".into()),
        until: jiff::Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(30),
    }));
    scenario.list(vec![pod]);
    assert_eq!(scenario.counts("default").live(), 0);
    let mut manager = Manager::with(settings(), scenario);
    manager.registers(1);
    assert_eq!(manager.seconds(60), [(30, Call::Delete("u1"))]);
    let until = at(30_000);
    assert_eq!(manager.orders(), [(1, Order::Drain, until)]);
    manager.scenario.goes(1);
    manager.rounds();
    assert_eq!(manager.reported, [(1, LossClass::Decommissioned)]);
}

// spec: A-86, L-11
#[test]
fn a_surplus_pod_that_its_set_has_not_deleted_30_s_later_is_deleted() {
    let sets = PodRules {
        left_to_sets: Some(Duration::from_secs(30)),
        ..settings()
    };
    let scenario = || Scenario::new(&[("default", 9)]);
    let mut manager = Manager::with(sets, scenario());
    manager.start(1);
    manager.retire(1, LeaveReason::ScaledDown);
    assert_eq!(manager.rounds(), []);
    assert_eq!(manager.seconds(60), [(30, Call::Delete("u1"))]);
    // A registered one drains before.
    let mut manager = Manager::with(sets, scenario());
    manager.start(1);
    manager.registers(1);
    let within = Duration::from_secs(60);
    manager.go(1, (LeaveReason::ScaledDown, LeaveMethod::Drain { within }));
    assert_eq!(manager.rounds(), [Call::MarkDraining(1)]);
    manager.answer(true);
    manager.marked(1);
    assert_eq!(manager.seconds(120), [(90, Call::Delete("u1"))]);
    // The set deletes it in time.
    let mut manager = Manager::with(sets, scenario());
    manager.start(1);
    manager.retire(1, LeaveReason::ScaledDown);
    assert_eq!(manager.seconds(29), []);
    manager.terminates_within(1, 30);
    assert_eq!(manager.seconds(10), []);
    // One that is replaced is deleted at once.
    let mut manager = Manager::with(sets, scenario());
    manager.start(1);
    manager.retire(1, LeaveReason::Disconnected);
    assert_eq!(manager.rounds(), [Call::Delete("u1")]);
}
