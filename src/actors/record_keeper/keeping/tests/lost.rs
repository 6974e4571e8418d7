//! Tests of a record that is gone: whether it is created again depends on who deleted it.

use super::*;

// spec: K-2
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

// spec: W-7
#[test]
fn a_record_that_a_later_driver_deleted_is_not_created_again() {
    let mut keeping = keeping(3);
    keeping.check();
    assert_eq!(keeping.next(at(0)), Some(Op::Get));
    assert_eq!(keeping.answered(Answer::Got(None), at(0)), [Effect::Lost]);
    assert_eq!(keeping.next(at(0)), Some(Op::GetDeleted(10.into())));
    keeping.answered(broken(Kind::Unreachable), at(0));
    assert_eq!(keeping.next(at(60)), Some(Op::Get));
    keeping.answered(Answer::Got(None), at(60));
    assert_eq!(keeping.next(at(60)), Some(Op::GetDeleted(10.into())));
    let later = Answer::GotDeleted(Some(map(&record(4), "u1", 12)));
    let effects = keeping.answered(later, at(60));
    assert!(effects.contains(&Effect::Over(Over::Superseded { by: 4 })));
    assert_eq!(keeping.next(at(99)), None);
}

// spec: W-7, K-2, S-13
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
