//! Tests of a record that is gone: whether it is created again depends on who deleted it.

use super::*;

// spec: K-13
#[test]
fn a_deleted_record_is_created_again_and_nothing_is_requested_until_then() {
    let mut keeping = keeping(3);
    assert_eq!(keeping.seen_deleted(&"u1".into()), [Effect::Lost]);
    assert_eq!(keeping.next(at(0)), Some(Op::Get));
    assert_eq!(keeping.answered(Answer::Got(None), at(0)), [Effect::Lost]);
    assert_eq!(keeping.next(at(0)), Some(Op::GetDeleted(10.into())));
    let own = Answer::GotDeleted(Some(map(&record(3), "u1", 12)));
    assert_eq!(keeping.answered(own, at(0)), []);
    assert!(matches!(keeping.next(at(0)), Some(Op::Create(_))));
    let effects = keeping.answered(Answer::Written(map(&record(3), "u2", 20)), at(0));
    assert!(effects.contains(&seen("u2")), "{effects:?}");
    assert_eq!(keeping.uid(), Some(&"u2".into()));
}

// spec: K-13
#[test]
fn a_record_that_is_deleted_whenever_it_is_created_is_created_once_a_second() {
    let mut keeping = keeping(3);
    let mut created = Vec::new();
    for millis in (0..3_500).step_by(10) {
        let now = Tick::after_start(Duration::from_millis(millis));
        keeping.check();
        keeping.next(now);
        keeping.answered(Answer::Got(None), now);
        let mut op = keeping.next(now);
        if let Some(Op::GetDeleted(_)) = op {
            keeping.answered(Answer::GotDeleted(None), now);
            op = keeping.next(now);
        }
        match op {
            Some(Op::Create(_)) => {
                keeping.answered(Answer::Written(map(&record(3), "u2", 20)), now);
                created.push(millis);
            }
            other => {
                assert_eq!(other, None);
                let next = created.last().map_or(0, |last| last + 1_000);
                let next = Tick::after_start(Duration::from_millis(next));
                assert_eq!(keeping.next_at(), Some(next));
            }
        }
    }
    assert_eq!(created, [0, 1_000, 2_000, 3_000]);
}

// spec: W-11
#[test]
fn a_record_that_a_later_driver_deleted_is_not_created_again() {
    let mut keeping = keeping(3);
    keeping.check();
    assert_eq!(keeping.next(at(0)), Some(Op::Get));
    assert_eq!(keeping.answered(Answer::Got(None), at(0)), [Effect::Lost]);
    assert_eq!(keeping.next(at(0)), Some(Op::GetDeleted(10.into())));
    keeping.answered(broken(FailureKind::Unreachable), at(0));
    assert_eq!(keeping.next(at(60)), Some(Op::Get));
    keeping.answered(Answer::Got(None), at(60));
    assert_eq!(keeping.next(at(60)), Some(Op::GetDeleted(10.into())));
    let later = Answer::GotDeleted(Some(map(&record(4), "u1", 12)));
    let effects = keeping.answered(later, at(60));
    assert!(effects.contains(&Effect::Over(Over::Superseded { by: 4 })));
    assert_eq!(keeping.next(at(99)), None);
}

// spec: W-11, K-13, S-13
#[test]
fn a_record_whose_deletion_is_unknown_or_was_restored_is_created_again() {
    let mut forgotten = keeping(3);
    forgotten.check();
    forgotten.next(at(0));
    forgotten.answered(Answer::Got(None), at(0));
    forgotten.next(at(0));
    assert_eq!(forgotten.answered(Answer::GotDeleted(None), at(0)), []);
    assert!(matches!(forgotten.next(at(0)), Some(Op::Create(_))));

    let mut restored = keeping(3);
    restored.begin_epoch(Epoch(1));
    restored.next(at(0));
    restored.answered(Answer::Got(None), at(0));
    assert!(matches!(restored.next(at(0)), Some(Op::Create(_))));
}

// spec: W-11
#[test]
fn who_deleted_the_record_is_looked_for_from_the_last_bookmark_on() {
    let mut keeping = keeping(3);
    keeping.came_to(5_000.into());
    keeping.came_to(4_000.into());
    keeping.seen_deleted(&"u1".into());
    keeping.next(at(0));
    keeping.answered(Answer::Got(None), at(0));
    keeping.came_to(9_000.into());
    let deleted = Op::GetDeleted(5_000.into());
    assert_eq!(keeping.next(at(0)), Some(deleted), "its own is compacted");

    let mut restored = self::keeping(3);
    restored.begin_epoch(Epoch(1));
    restored.came_to(5_000.into());
    restored.next(at(0));
    restored.answered(Answer::Got(None), at(0));
    let created = restored.next(at(0));
    assert!(matches!(created, Some(Op::Create(_))), "{created:?}");
}

// spec: W-10
#[test]
fn an_old_state_with_which_a_watch_begins_ends_no_driver_before_the_record_is_read() {
    let mut keeping = keeping(3);
    let mut another = record(9);
    another.origin = Some("another".into());
    assert_eq!(keeping.seen(&map(&another, "u0", 7)), []);
    assert_eq!(keeping.next(at(0)), Some(Op::Get));
    keeping.answered(Answer::Got(Some(map(&record(3), "u1", 10))), at(0));
    assert_eq!(keeping.next(at(99)), None);
    let effects = keeping.seen(&map(&record(4), "u1", 11));
    assert_eq!(effects, [Effect::Over(Over::Superseded { by: 4 })]);
}

// spec: O-95
#[test]
fn a_record_is_gone_from_its_deletion_until_it_is_seen_again_and_a_missing_right_proves_nothing() {
    let mut keeping = keeping(3);
    keeping.check();
    keeping.next(at(0));
    keeping.answered(broken(FailureKind::Rights), at(0));
    assert!(!keeping.is_gone());
    keeping.seen_deleted(&"another".into());
    assert!(!keeping.is_gone());
    keeping.seen_deleted(&"u1".into());
    assert!(keeping.is_gone());
    keeping.next(at(60));
    keeping.answered(broken(FailureKind::Rights), at(60));
    assert!(keeping.is_gone());
    keeping.next(at(120));
    keeping.answered(Answer::Got(Some(map(&record(3), "u1", 10))), at(120));
    assert!(!keeping.is_gone(), "the server was restored");
}

// spec: O-106
#[test]
fn a_driver_that_may_not_write_the_record_says_so_at_the_second_refusal() {
    let mut keeping = keeping(3);
    reserve(&mut keeping, 5_000);
    let mut refused = |kind, second| {
        keeping.next(at(second)).unwrap();
        let effects = keeping.answered(broken(kind), at(second));
        effects.contains(&Effect::MayNotWrite)
    };
    assert!(!refused(FailureKind::Rights, 0));
    assert!(!refused(FailureKind::Server, 60), "that was no refusal");
    assert!(!refused(FailureKind::Rights, 120));
    assert!(refused(FailureKind::Rights, 180));
    assert!(refused(FailureKind::Rights, 240));
}
