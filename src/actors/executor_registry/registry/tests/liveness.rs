//! Tests of which executors are given up, and when.

use super::*;
use crate::actors::executor_registry::messages::Timeouts;
use crate::testing::running;

fn timeout(seconds: u64) -> Why {
    Why::HeartbeatTimeout(Duration::from_secs(seconds))
}

fn unreachable(seconds: u64) -> Why {
    Why::Unreachable(Duration::from_secs(seconds))
}

// spec: B-10, B-12
#[test]
fn a_silent_executor_is_given_up_once_and_to_the_second() {
    let mut world = World::new(settings(), 2);
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
    let new = |seconds| Timeouts {
        heartbeat: Duration::from_secs(seconds),
        loss_reason: Duration::from_millis(LOSS),
        mass_loss: 20,
        registration: Duration::from_secs(300),
    };
    for (timeout_after, given_up_after) in [(60, 60), (200, 200)] {
        let mut world = World::new(settings(), 2);
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
    let mut world = World::new(settings(), 2);
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
    let mut world = World::new(settings(), 2);
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
    let mut world = World::new(settings(), 2);
    world.registers(1);
    world.registers(2);
    world.pass(30, &[2]);
    world.loses(1);
    world.pass(70, &[2]);
    assert_eq!(world.given_up(), [], "no list was asked for since");
    let pods = [1, 2].map(|n| running(world.scenario.pod(n))).to_vec();
    world.scenario.list(pods);
    world.pass(1, &[2]);
    assert_eq!(world.given_up(), [(1, Why::Disconnected)]);
}

// spec: B-15, B-12
#[test]
fn without_a_full_list_a_lost_executor_is_given_up_for_its_silence() {
    let mut world = World::new(settings(), 2);
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
    let mut world = World::new(settings(), 1);
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
    let mut world = World::new(settings(), 8);
    for n in 1..=8 {
        world.registers(n);
    }
    world.scenario.tell(News::Retire {
        ids: (1..=6).map(id).collect(),
        aim: Aim::Stay,
        why: Why::ScaledDown,
        how: crate::model::executor::How::Delete,
    });
    world.round();
    world.pass(300, &[7, 8]);
    assert_eq!(world.given_up(), []);
    assert_eq!(world.registry.doubt(), None);
}

fn turns(world: &mut World) -> Vec<Effect> {
    let effects = world.take().into_iter();
    effects
        .filter(|effect| matches!(effect, Effect::Degraded(_) | Effect::Recovered))
        .collect()
}

// spec: B-13, I-12
#[test]
fn if_all_executors_fall_silent_the_driver_is_degraded_and_gives_none_up() {
    let mut world = World::new(settings(), 10);
    for n in 1..=10 {
        world.registers(n);
    }
    world.pass(1_000, &[]);
    let why = WhyDoubt::MassLoss { silent: 10, of: 10 };
    assert_eq!(world.registry.doubt().map(|(why, _)| why), Some(why));
    assert!(world.effects.contains(&Effect::Degraded(why)));
    assert_eq!(world.given_up(), []);
    // All but one are back: that one gets one more timeout.
    let back: Vec<u64> = (2..=10).collect();
    world.pass(12, &back);
    assert_eq!(turns(&mut world), [Effect::Recovered]);
    world.pass(116, &back);
    assert_eq!(world.given_up(), []);
    world.pass(4, &back);
    assert_eq!(world.given_up().len(), 1);
}

// spec: B-13
#[test]
fn a_mass_loss_while_others_send_messages_is_accepted_after_one_more_timeout() {
    let mut world = World::new(settings(), 10);
    for n in 1..=10 {
        world.registers(n);
    }
    let half: Vec<u64> = (6..=10).collect();
    world.pass(109 + 120 + 119, &half);
    let doubted = WhyDoubt::MassLoss { silent: 5, of: 10 };
    let turned = [Effect::Degraded(doubted), Effect::Recovered];
    assert_eq!(turns(&mut world), turned);
    assert_eq!(world.given_up(), []);
    world.pass(2, &half);
    let given_up = world.given_up();
    assert_eq!(
        given_up.iter().map(|(n, _)| *n).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5]
    );
}

// spec: B-13
#[test]
fn many_connections_lost_at_once_are_a_mass_loss_too() {
    let mut world = World::new(settings(), 10);
    for n in 1..=10 {
        world.registers(n);
    }
    world.pass(20, &[]);
    for n in 1..=4 {
        world.loses(n);
    }
    let pods = (1..=10).map(|n| running(world.scenario.pod(n))).collect();
    world.scenario.list(pods);
    let rest: Vec<u64> = (5..=10).collect();
    world.pass(60, &rest);
    assert_eq!(world.given_up(), []);
    let why = WhyDoubt::MassLoss { silent: 4, of: 10 };
    assert_eq!(world.registry.doubt().map(|(why, _)| why), Some(why));
}

// spec: B-13
#[test]
fn after_a_pause_of_the_driver_every_executor_gets_one_more_timeout() {
    let mut world = World::new(settings(), 2);
    world.registers(1);
    world.registers(2);
    world.pass(5, &[]);
    world.scenario.pass(600_000);
    world.pass(1, &[]);
    let paused = WhyDoubt::StoodStill(Duration::from_secs(600));
    assert_eq!(turns(&mut world), [Effect::Degraded(paused)]);
    world.pass(10 + 119, &[2]);
    assert_eq!(world.given_up(), []);
    world.pass(1, &[2]);
    assert_eq!(world.given_up(), [(1, unreachable(736))]);
}

// spec: B-13, I-12
#[test]
fn a_path_that_is_cut_again_and_again_ends_no_executor_of_a_small_fleet() {
    for of in [1, 2] {
        let mut world = World::new(settings(), of);
        let all: Vec<u64> = (1..=of).collect();
        for n in &all {
            world.registers(*n);
        }
        for _ in 0..3 {
            all.iter().for_each(|n| world.loses(*n));
            world.pass(900, &[]);
            assert_eq!(world.given_up(), []);
            for n in &all {
                world.registers(*n);
            }
            world.pass(30, &all);
            assert_eq!(world.registry.doubt(), None);
        }
    }
}

// spec: B-13, B-15
#[test]
fn a_lost_connection_is_no_reason_to_give_an_executor_up_while_the_others_are_silent_too() {
    let mut world = World::new(settings(), 5);
    let all: Vec<u64> = (1..=5).collect();
    for n in &all {
        world.registers(*n);
    }
    world.pass(30, &all);
    world.loses(1);
    let listed = |world: &mut World| {
        let pods = (1..=5).map(|n| running(world.scenario.pod(n))).collect();
        world.scenario.list(pods);
    };
    // Its limit comes before those of the others.
    world.pass(50, &[]);
    listed(&mut world);
    world.pass(50, &[]);
    assert_eq!(world.given_up(), []);
    let doubt = world.registry.doubt().map(|(why, _)| why);
    assert_eq!(doubt, Some(WhyDoubt::MassLoss { silent: 5, of: 5 }));
    for n in &all {
        world.registers(*n);
    }
    world.pass(30, &all);
    assert_eq!(world.registry.doubt(), None);

    // Alone it is given up.
    world.loses(1);
    world.pass(50, &all[1..]);
    listed(&mut world);
    world.pass(50, &all[1..]);
    assert_eq!(world.given_up(), [(1, Why::Disconnected)]);
}

// spec: B-13
#[test]
fn a_lone_executor_that_stays_silent_is_given_up_after_ten_timeouts_without_blame() {
    let mut world = World::new(settings(), 1);
    world.registers(1);
    world.pass(1_300, &[]);
    assert_eq!(world.given_up(), []);
    world.pass(200, &[]);
    assert!(matches!(
        world.given_up()[..],
        [(1, Why::Unreachable(silent))] if silent > Duration::from_secs(1_300)
    ));
}

// spec: B-13
#[test]
fn executors_that_fall_silent_together_are_given_up_without_blame() {
    let mut world = World::new(settings(), 20);
    let all: Vec<u64> = (1..=20).collect();
    for n in &all {
        world.registers(*n);
    }
    world.pass(60, &all);
    world.pass(40, &all[2..]);
    world.pass(100, &all[3..]);
    assert_eq!(
        world.given_up(),
        [(1, unreachable(120)), (2, unreachable(120))]
    );
    world.pass(100, &all[3..]);
    assert_eq!(world.given_up(), [(3, timeout(120))]);
}

// spec: B-13
#[test]
fn while_the_api_server_does_not_answer_no_executor_is_given_up() {
    let mut world = World::new(settings(), 2);
    world.registers(1);
    world.registers(2);
    let now = world.now();
    world.registry.call(false, now);
    world.pass(125, &[2]);
    assert_eq!(
        world.registry.doubt().map(|(why, _)| why),
        Some(WhyDoubt::NoApiServer)
    );
    assert_eq!(world.given_up(), []);
}

fn required() -> Settings {
    Settings {
        registration_timeout: Some(Duration::from_secs(300)),
        ..settings()
    }
}

// spec: A-52
#[test]
fn a_running_executor_that_does_not_register_in_time_is_given_up_if_it_must_register() {
    let mut world = World::new(required(), 2);
    world.registers(2);
    world.pass(299, &[2]);
    assert_eq!(world.given_up(), []);
    world.pass(1, &[2]);
    let why = Why::RegistrationTimeout(Duration::from_secs(300));
    assert_eq!(world.given_up(), [(1, why)]);
    let mut world = World::new(settings(), 1);
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

/// A world in which executors were adopted.
fn adopted(settings: Settings, executors: u64) -> World {
    let mut before = World::new(super::settings(), executors);
    let pods: Vec<_> = (1..=executors)
        .map(|n| running(before.scenario.pod(n)))
        .collect();
    before.scenario = Scenario::before_adoption(&[("default", 100)], Inheritance::default());
    before.scenario.list(pods);
    let mut world = World {
        registry: Registry::new(settings),
        scenario: before.scenario,
        effects: Vec::new(),
        begun: false,
        is_own_record: Some(true),
    };
    world.round();
    world
}

// spec: A-44, O-31
#[test]
fn adopted_executors_have_the_adoption_grace_and_then_the_registration_timeout() {
    let mut world = adopted(required(), 2);
    world.registers(2);
    world.pass(359, &[2]);
    assert_eq!(world.given_up(), []);
    world.pass(1, &[2]);
    let why = Why::RegistrationTimeout(Duration::from_secs(300));
    assert_eq!(world.given_up(), [(1, why)]);
}

// spec: A-44, B-13, I-12
#[test]
fn if_no_adopted_executor_registers_the_driver_is_degraded() {
    let mut world = adopted(required(), 5);
    world.pass(2_000, &[]);
    assert_eq!(world.given_up(), []);
    let why = WhyDoubt::MassLoss { silent: 5, of: 5 };
    assert_eq!(world.registry.doubt().map(|(why, _)| why), Some(why));
}

// spec: B-13, B-15, O-31
#[test]
fn adopted_executors_that_nobody_has_heard_count_as_silent_with_those_that_were_lost() {
    let mut world = adopted(required(), 5);
    world.registers(1);
    world.loses(1);
    world.pass(50, &[]);
    let pods = (1..=5).map(|n| running(world.scenario.pod(n))).collect();
    world.scenario.list(pods);
    world.pass(50, &[]);
    assert_eq!(world.given_up(), []);
    let why = WhyDoubt::MassLoss { silent: 5, of: 5 };
    assert_eq!(world.registry.doubt().map(|(why, _)| why), Some(why));
}

// spec: B-13
#[test]
fn executors_that_miss_no_heartbeat_cause_no_doubt_however_short_the_timeouts() {
    let short = Settings {
        heartbeat_interval: Duration::from_millis(300),
        heartbeat_timeout: Duration::from_secs(1),
        ..settings()
    };
    let mut world = World::new(short, 3);
    (1..=3).for_each(|n| drop(world.registers(n)));
    for _ in 0..20 {
        world.scenario.pass(1_000);
        (1..=3).for_each(|n| drop(world.beats(n, 0)));
        world.look();
        assert_eq!(world.registry.doubt(), None);
    }
    world.scenario.pass(1_000);
    world.look();
    let why = WhyDoubt::MassLoss { silent: 3, of: 3 };
    assert_eq!(world.registry.doubt().map(|(why, _)| why), Some(why));
}

// spec: B-13, A-52
#[test]
fn an_executor_that_never_registered_is_not_given_up_while_most_others_are_silent() {
    let mut world = World::new(required(), 3);
    world.registers(1);
    world.registers(2);
    world.pass(200, &[1, 2]);
    // The path is cut 90 s before the third executor has run for five minutes.
    world.pass(100, &[]);
    assert_eq!(world.given_up(), []);
    let why = WhyDoubt::MassLoss { silent: 2, of: 2 };
    assert_eq!(world.registry.doubt().map(|(why, _)| why), Some(why));
    world.beats(1, 0);
    world.beats(2, 0);
    world.pass(290, &[1, 2]);
    assert_eq!(world.given_up(), []);
    world.pass(20, &[1, 2]);
    let given_up = world.given_up();
    assert!(
        matches!(given_up[..], [(3, Why::Unreachable(_))]),
        "{given_up:?}"
    );
}

// spec: B-16
#[test]
fn no_executor_is_given_up_before_the_record_was_read() {
    let mut world = World::new(settings(), 10);
    (1..=10).for_each(|n| drop(world.registers(n)));
    let others: Vec<u64> = (2..=10).collect();
    let reads = |world: &mut World| {
        let effects = world.take();
        assert!(!effects.iter().any(|e| matches!(e, Effect::Retire(..))));
        effects.iter().filter(|e| **e == Effect::ReadRecord).count()
    };
    world.is_own_record = None;
    world.pass(500, &others);
    assert_eq!(reads(&mut world), 1, "one read, however long it takes");
    world.is_own_record = Some(false);
    world.registry.record_read(false);
    world.pass(3, &others);
    assert_eq!(reads(&mut world), 3, "one at each check");
    world.is_own_record = Some(true);
    world.pass(1, &others);
    assert_eq!(world.given_up().len(), 1);
}

// spec: B-16
#[test]
fn a_read_record_is_good_for_the_executors_whose_limit_had_passed_and_that_are_still_silent() {
    let mut world = World::new(settings(), 20);
    (1..=20).for_each(|n| drop(world.registers(n)));
    world.is_own_record = None;
    let others: Vec<u64> = (4..=20).collect();
    world.pass(30, &[&[3], &others[..]].concat());
    world.pass(105, &others);
    assert_eq!(world.given_up(), []);
    world.pass(30, &others);
    world.beats(2, 0);
    world.registry.record_read(true);
    world.look();
    let given_up: Vec<u64> = world.given_up().iter().map(|(n, _)| *n).collect();
    assert_eq!(
        given_up,
        [1],
        "2 was heard, the limit of 3 passed after the read began"
    );
    // That check requested the next read.
    world.registry.record_read(true);
    world.look();
    let given_up: Vec<u64> = world.given_up().iter().map(|(n, _)| *n).collect();
    assert_eq!(given_up, [3]);
}

// spec: B-12
#[test]
fn heartbeats_do_not_change_the_order_of_deadlines() {
    let mut world = World::new(settings(), 50);
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
