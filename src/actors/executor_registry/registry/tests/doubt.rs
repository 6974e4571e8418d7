//! Tests of when the driver suspects itself, and gives up no executor.

use super::*;
use crate::model::node::Node;

fn turns(world: &mut World) -> Vec<Effect> {
    let effects = world.take().into_iter();
    effects
        .filter(|effect| matches!(effect, Effect::Degraded(_) | Effect::Recovered))
        .collect()
}

// spec: B-13, B-58, I-12
#[test]
fn if_all_executors_fall_silent_the_driver_is_degraded_and_gives_none_up() {
    let mut world = World::new(config(), 10);
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

// spec: B-59
#[test]
fn a_mass_loss_while_others_send_messages_is_accepted_after_one_more_timeout() {
    let mut world = World::new(config(), 10);
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

// spec: B-58, B-59, I-12
#[test]
fn two_interruptions_of_the_path_with_an_instant_between_them_give_up_nobody() {
    let mut world = World::new(config(), 6);
    for n in 1..=6 {
        world.registers(n);
    }
    world.pass(240, &[]);
    assert!(world.registry.doubt().is_some());
    // The doubt has had its time, so it ends although only one is heard.
    world.pass(10, &[1]);
    assert_eq!(turns(&mut world).pop(), Some(Effect::Recovered));
    world.pass(400, &[]);
    assert_eq!(world.given_up(), []);
    let back: Vec<u64> = (2..=6).collect();
    world.pass(135, &back);
    assert_eq!(world.given_up().len(), 1, "it alone is silent");
}

// spec: B-58
#[test]
fn many_connections_lost_at_once_are_a_mass_loss_too() {
    let mut world = World::new(config(), 10);
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

// spec: B-13, B-59
#[test]
fn after_a_pause_of_the_driver_every_executor_gets_one_more_timeout() {
    let mut world = World::new(config(), 2);
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

// spec: B-59, I-12
#[test]
fn a_path_that_is_cut_again_and_again_ends_no_executor_of_a_small_fleet() {
    for of in [1, 2] {
        let mut world = World::new(config(), of);
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

// spec: B-58, I-12
#[test]
fn an_executor_whose_pod_is_being_deleted_for_long_is_none_of_the_fleet() {
    let mut world = World::new(config(), 2);
    world.registers(1);
    world.registers(2);
    world.scenario.terminates(2);
    world.round();
    world.pass(300, &[1]);
    // The only other one loses the path.
    world.loses(1);
    world.pass(50, &[]);
    let pods = vec![
        running(world.scenario.pod(1)),
        terminating(world.scenario.pod(2)),
    ];
    world.scenario.list(pods);
    world.pass(100, &[]);
    assert_eq!(world.given_up(), []);
    let doubt = world.registry.doubt().map(|(why, _)| why);
    assert_eq!(doubt, Some(WhyDoubt::MassLoss { silent: 1, of: 1 }));
}

// spec: B-58, B-15
#[test]
fn a_lost_connection_is_no_reason_to_give_an_executor_up_while_the_others_are_silent_too() {
    let mut world = World::new(config(), 5);
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
    assert_eq!(world.given_up(), [(1, LeaveReason::Disconnected)]);
}

// spec: B-59, B-60
#[test]
fn a_lone_executor_that_stays_silent_is_given_up_after_ten_timeouts_without_blame() {
    let mut world = World::new(config(), 1);
    world.registers(1);
    world.pass(1_300, &[]);
    assert_eq!(world.given_up(), []);
    world.pass(200, &[]);
    assert!(matches!(
        world.given_up()[..],
        [(1, LeaveReason::Unreachable(silent))] if silent > Duration::from_secs(1_300)
    ));
}

// spec: B-60
#[test]
fn executors_that_fall_silent_together_are_given_up_without_blame() {
    let mut world = World::new(config(), 20);
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
    let mut world = World::new(config(), 2);
    world.registers(1);
    world.registers(2);
    let now = world.now();
    world.registry.unanswered(Some(now));
    world.pass(125, &[2]);
    assert_eq!(
        world.registry.doubt().map(|(why, _)| why),
        Some(WhyDoubt::NoApiServer)
    );
    assert_eq!(world.given_up(), []);
}

// spec: A-52, B-13, I-12
#[test]
fn while_tokens_cannot_be_verified_none_is_given_up_and_the_time_to_register_begins_anew_after_that()
 {
    let mut world = World::new(required(), 4);
    world.registers(1);
    world.pass(200, &[1]);
    world.registry.tokens(Some(NoKeys::Refused(406)));
    world.pass(20_000, &[1]);
    let why = WhyDoubt::NoKeys(NoKeys::Refused(406));
    assert_eq!(turns(&mut world), [Effect::Degraded(why)]);
    assert_eq!(world.given_up(), []);
    world.registry.tokens(None);
    world.pass(299, &[1]);
    assert_eq!(turns(&mut world), [Effect::Recovered]);
    assert_eq!(world.registry.doubt(), None);
    // One of those that waited is taken in now; the others are replaced, and not blamed for it.
    world.registers(2);
    world.pass(2, &[1, 2]);
    let given_up = world.given_up();
    assert!(
        matches!(
            given_up[..],
            [
                (3, LeaveReason::Unreachable(_)),
                (4, LeaveReason::Unreachable(_))
            ]
        ),
        "{given_up:?}"
    );
}

// spec: B-13, B-15, I-12
#[test]
fn a_session_that_cannot_come_back_because_tokens_cannot_be_verified_is_not_ended() {
    let mut world = World::new(config(), 20);
    let rest: Vec<u64> = (2..=20).collect();
    (1..=20).for_each(|n| drop(world.registers(n)));
    world.pass(60, &rest);
    world.loses(1);
    world.registry.tokens(Some(NoKeys::Unanswered));
    let pods = (1..=20).map(|n| running(world.scenario.pod(n))).collect();
    world.scenario.list(pods);
    world.pass(5_000, &rest);
    assert_eq!(world.given_up(), []);
    world.registry.tokens(None);
    world.pass(5, &rest);
    world.registers(1);
    let all: Vec<u64> = (1..=20).collect();
    world.pass(5_000, &all);
    assert_eq!(world.given_up(), []);
}

// spec: A-44, B-58, I-12
#[test]
fn if_no_adopted_executor_registers_the_driver_is_degraded() {
    let mut world = adopted(required(), 5);
    world.pass(2_000, &[]);
    assert_eq!(world.given_up(), []);
    let why = WhyDoubt::MassLoss { silent: 5, of: 5 };
    assert_eq!(world.registry.doubt().map(|(why, _)| why), Some(why));
}

// spec: B-58, B-15, O-31
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

// spec: B-58
#[test]
fn executors_that_miss_no_heartbeat_cause_no_doubt_however_short_the_timeouts() {
    let mut short = config();
    short.backend.sessions.heartbeat_interval = Duration::from_millis(300);
    short.backend.sessions.heartbeat_timeout = Duration::from_secs(1);
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

// spec: B-58, A-52
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
        matches!(given_up[..], [(3, LeaveReason::Unreachable(_))]),
        "{given_up:?}"
    );
}

// spec: B-58, I-12
#[test]
fn executors_that_fall_silent_just_before_a_doubt_is_settled_are_a_reason_for_another_one() {
    let mut world = World::new(config(), 3);
    (1..=3).for_each(|n| drop(world.registers(n)));
    let now = world.now();
    world.registry.unanswered(Some(now));
    world.pass(125, &[1, 2, 3]);
    // The path is cut, seconds before the doubt has lasted for a timeout.
    world.pass(20, &[]);
    assert_eq!(world.registry.doubt(), None);
    world.pass(1_000, &[]);
    assert_eq!(world.given_up(), []);
    let why = WhyDoubt::MassLoss { silent: 3, of: 3 };
    assert_eq!(world.registry.doubt().map(|(why, _)| why), Some(why));
}

/// Half of ten registered executors are on a node that is not ready.
fn half_on_a_lost_node() -> World {
    let mut world = World::new(config(), 10);
    let node = |name: &str, ready| Node {
        name: name.into(),
        zone: None,
        capacity_type: None,
        ready,
        leaves: None,
    };
    let nodes = vec![node("lost", false), node("well", true)];
    world.scenario.tell(News::Nodes(nodes));
    for n in 1..=10 {
        let mut pod = running(world.scenario.pod(n));
        pod.node = Some(if n <= 5 { "lost" } else { "well" }.into());
        world.scenario.observe(pod);
        world.registers(n);
    }
    world.round();
    world
}

// spec: B-73, B-12
#[test]
fn executors_that_are_silent_on_a_node_that_is_not_ready_are_no_mass_loss_and_no_failures() {
    let mut world = half_on_a_lost_node();
    let well: Vec<u64> = (6..=10).collect();
    world.pass(119, &well);
    assert_eq!((world.given_up(), world.registry.doubt()), (vec![], None));
    world.pass(1, &well);
    let why = LeaveReason::NodeNotReady(Duration::from_secs(120), "lost".into());
    let lost: Vec<_> = (1..=5).map(|n| (n, why.clone())).collect();
    assert_eq!(world.given_up(), lost);
    assert_eq!(turns(&mut world), []);
}

// spec: B-73, B-58, I-12
#[test]
fn while_nobody_is_heard_a_node_that_is_not_ready_explains_nothing() {
    let mut world = half_on_a_lost_node();
    world.pass(400, &[]);
    assert_eq!(world.given_up(), []);
    let why = WhyDoubt::MassLoss { silent: 10, of: 10 };
    assert_eq!(world.registry.doubt().map(|(why, _)| why), Some(why));
}
