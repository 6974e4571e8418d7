//! Tests of the read of the record before executors are given up.

use super::*;

// spec: B-16
#[test]
fn no_executor_is_given_up_before_the_record_was_read() {
    let mut world = World::new(config(), 10);
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
    let mut world = World::new(config(), 20);
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

// spec: B-16, B-58
#[test]
fn while_many_are_silent_at_once_the_record_is_read_every_ten_seconds() {
    let mut world = World::new(config(), 10);
    (1..=10).for_each(|n| drop(world.registers(n)));
    world.is_own_record = None;
    let reads = |world: &mut World| {
        let effects = world.take();
        effects.iter().filter(|e| **e == Effect::ReadRecord).count()
    };
    world.pass(150, &[1, 2]);
    assert!(world.registry.doubt().is_some());
    assert_eq!(reads(&mut world), 1, "one read, however long it takes");
    world.registry.record_read(false);
    world.pass(1, &[1, 2]);
    assert_eq!(reads(&mut world), 1, "it could not be read");
    world.registry.record_read(true);
    world.pass(9, &[1, 2]);
    assert_eq!(reads(&mut world), 0);
    world.pass(1, &[1, 2]);
    assert_eq!(reads(&mut world), 1);
}
