//! Reading and writing the blocks, and what a profile that waits says (spec A-94).

use super::*;

// spec: A-109
#[test]
fn nothing_is_requested_while_the_blocks_cannot_be_read() {
    let mut world = World::with(2, &[block(1, 2, admitted(2))]);
    assert_eq!(world.free(), 2);
    let looks = |world: &mut World, millis| {
        world.scenario.pass(millis);
        world.round().is_some()
    };
    assert!(looks(&mut world, 5_000));
    world.answer(None, Some("Kueue is not installed"));
    assert_eq!(world.free(), 0);
    assert_eq!(
        world.queue.why(&"default".into()).as_ref(),
        "Kueue is not installed"
    );
    for wait in [500, 1_000, 2_000] {
        assert!(!looks(&mut world, wait - 1));
        assert!(looks(&mut world, 1));
        world.answer(None, Some("Kueue is not installed"));
    }
    let trouble = |notice: &&Notice| matches!(notice, Notice::QueueTrouble { .. });
    assert_eq!(world.said.iter().filter(trouble).count(), 1);
    world.queue.server_is_back(world.scenario.now().tick);
    assert!(looks(&mut world, 0));
    world.read(&[block(1, 2, admitted(2))]);
    assert_eq!(world.free(), 2);
    let works = world.said.last();
    assert!(
        matches!(works, Some(Notice::QueueWorks { .. })),
        "{works:?}"
    );
}

// spec: A-109
#[test]
fn a_write_that_is_refused_is_repeated_and_executors_are_requested_meanwhile() {
    let mut world = World::with(2, &[block(1, 1, admitted(1))]);
    assert_eq!(world.writes(), [create(2, (1, 1))]);
    world.answer(Some(vec![block(1, 1, admitted(1))]), Some("forbidden"));
    assert_eq!(world.free(), 1);
    world.scenario.pass(4_000);
    assert_eq!(world.writes(), [create(2, (1, 1))]);
}

// spec
#[test]
fn a_profile_that_lacks_executors_is_paused_at_once_while_the_queue_cannot_be_used() {
    let mut world = World::with(2, &[block(1, 2, admitted(2))]);
    let profile: ProfileName = "default".into();
    world.answer(None, Some("Kueue is not installed"));
    let pause = world.queue.pause_of(&profile, true).unwrap();
    assert_eq!(
        (pause.cause, &*pause.why),
        (Cause::Queued, "Kueue is not installed")
    );
    assert_eq!(world.queue.pause_of(&profile, false), None, "all run");
    world.round();
    world.answer(Some(Vec::new()), Some("quota w is used up"));
    let pause = world.queue.pause_of(&profile, true).unwrap();
    assert_eq!(pause.cause, Cause::Refused(RefusalKind::Quota));
}

// spec: A-111
#[test]
fn that_kueue_queues_pods_a_second_time_is_said_once() {
    let twice = |n| Pod {
        block: Some(7),
        queue: Some("default".into()),
        ..crate::testing::running(pending("a", n, &format!("u{n}"), n))
    };
    let mut world = World::new(2, 0);
    world.scenario = Scenario::before_adoption(&[("default", 2)], Default::default());
    world.scenario.list(vec![twice(1), twice(2)]);
    world.round();
    world.read(&[block(7, 2, admitted(2))]);
    world.round();
    assert!(
        matches!(&world.said[..], [Notice::QueuedTwice { queue }] if **queue == *"default"),
        "{:?}",
        world.said
    );
}

// spec
#[test]
fn a_profile_that_waits_for_its_queue_for_10_s_is_paused_with_kueues_words() {
    let mut world = World::with(2, &[block(1, 2, BlockState::Queued)]);
    world.round();
    let profile: ProfileName = "default".into();
    world.scenario.pass(9_999);
    world.round();
    assert_eq!(world.queue.pause_of(&profile, true), None);
    world.scenario.pass(1);
    world.round();
    let pause = world.queue.pause_of(&profile, true).unwrap();
    assert_eq!(pause.cause, Cause::Queued);
    assert_eq!(&*pause.why, "the Workload a-default-1: quota is short");
    world.round();
    world.read(&[block(1, 2, admitted(2))]);
    world.round();
    assert_eq!(world.queue.pause_of(&profile, true), None);
    assert!(
        matches!(
            &world.said[..],
            [Notice::Queued { .. }, Notice::Admitted { .. }]
        ),
        "{:?}",
        world.said
    );
}

// spec: A-106
#[test]
fn blocks_are_read_every_5_s_and_every_second_while_one_may_be_admitted_soon() {
    let mut world = World::with(1, &[block(1, 1, BlockState::Queued)]);
    let mut looks = |blocks: &[Block], seconds: u64| {
        let mut looks = 0;
        for _ in 0..seconds {
            world.scenario.pass(1_000);
            if world.round().is_some() {
                looks += 1;
                world.read(blocks);
            }
        }
        looks
    };
    assert_eq!(looks(&[block(1, 1, BlockState::Queued)], 10), 10);
    assert_eq!(looks(&[block(1, 1, BlockState::Queued)], 50), 10);
}
