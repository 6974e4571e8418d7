//! Tests of the record with lost answers, other drivers, restored servers and deletions.

use std::collections::BTreeMap;

use super::*;
use crate::kubernetes::{FailureKind, LabelScheme};
use crate::model::{AppId, Incarnation};

mod lost;

fn at(seconds: u64) -> Tick {
    Tick::after_start(Duration::from_secs(seconds))
}

fn record(incarnation: u64) -> Record {
    let app: AppId = "app-1".into();
    let mut record = Record::succeed(None, &app, 1_000).unwrap().record;
    record.incarnation = Incarnation(incarnation);
    record
}

fn place() -> RecordPlace {
    RecordPlace {
        namespace: "ns".to_owned(),
        prefix: "a".to_owned(),
        app_name: "a".to_owned(),
        labels: LabelScheme::Boatswain,
        owner: None,
    }
}

fn map(record: &Record, uid: &str, version: u64) -> ConfigMap {
    let json = record.to_config_map(&place(), None);
    let data: BTreeMap<String, String> = serde_json::from_value(json["data"].clone()).unwrap();
    ConfigMap {
        name: "a-app".to_owned(),
        uid: uid.into(),
        version: version.into(),
        deleting: false,
        labels: BTreeMap::new(),
        data,
    }
}

fn keeping(incarnation: u64) -> Keeping {
    Keeping::new(record(incarnation), place(), "u1".into(), 10.into())
}

fn reserve(keeping: &mut Keeping, id: u64) {
    let id = ExecutorId::new(id).unwrap();
    keeping.change_now(|record| record.reserved = record.reserved.max(Some(id)));
}

fn broken(kind: FailureKind) -> Answer {
    Answer::Failed(Failure::new(kind, "it broke"))
}

fn seen(uid: &str) -> Effect {
    Effect::Seen {
        uid: uid.into(),
        epoch: Epoch::default(),
    }
}

// spec: O-30
#[test]
fn a_change_is_collected_and_written_with_the_version_as_precondition() {
    let mut keeping = keeping(3);
    keeping.change(|record| record.ended.insert(ExecutorId::FIRST), at(0));
    assert_eq!(keeping.next(at(4)), None);
    assert_eq!(keeping.next_at(), Some(at(5)));
    let Some(Op::Replace(json)) = keeping.next(at(5)) else {
        panic!("{keeping:?}")
    };
    assert_eq!(json["metadata"]["resourceVersion"], "10");
    assert_eq!(keeping.next(at(9)), None, "one call at a time");
    let mut written = record(3);
    written.ended.insert(ExecutorId::FIRST);
    let effects = keeping.answered(Answer::Written(map(&written, "u1", 11)), at(9));
    assert!(effects.contains(&Effect::Flushed), "{effects:?}");
    assert_eq!(
        (keeping.next(at(99)), keeping.next_at()),
        (None, None),
        "then silence"
    );
}

// spec: O-30
#[test]
fn a_reservation_is_written_at_once_and_answered_when_it_is() {
    let mut keeping = keeping(3);
    reserve(&mut keeping, 5_000);
    assert!(matches!(keeping.next(at(0)), Some(Op::Replace(_))));
    let mut written = record(3);
    written.reserved = ExecutorId::new(5_000);
    let effects = keeping.answered(Answer::Written(map(&written, "u1", 11)), at(1));
    assert!(effects.contains(&Effect::Reserved(ExecutorId::new(5_000).unwrap())));
}

// spec: O-30
#[test]
fn a_write_whose_outcome_is_unknown_is_settled_by_reading() {
    let mut keeping = keeping(3);
    reserve(&mut keeping, 5_000);
    keeping.next(at(0));
    let effects = keeping.answered(broken(FailureKind::TimedOut), at(1));
    assert_eq!(effects, [Effect::Troubled("it broke".into())]);
    assert_eq!(keeping.next(at(1)), None, "after a wait");
    assert_eq!(keeping.next(at(2)), Some(Op::Get));
    let mut committed = record(3);
    committed.reserved = ExecutorId::new(5_000);
    let effects = keeping.answered(Answer::Got(Some(map(&committed, "u1", 11))), at(2));
    assert!(effects.contains(&Effect::Reserved(ExecutorId::new(5_000).unwrap())));
    assert!(effects.contains(&Effect::Recovered));
    assert_eq!(keeping.next(at(99)), None);
}

// spec: W-7, I-10
#[test]
fn the_same_incarnation_from_another_start_ends_this_driver() {
    // The record was lost, and created by a driver that counts from one again.
    let held = |holder: &str| Record {
        holder: Some(holder.into()),
        ..record(2)
    };
    let mut own = Keeping::new(held("own"), place(), "u1".into(), 10.into());
    assert_eq!(own.seen(&map(&held("own"), "u1", 11)), vec![]);
    assert_eq!(
        own.seen(&map(&held("other"), "u2", 12)),
        vec![Effect::Over(Over::Superseded { by: 2 })]
    );
}

// spec: W-12, I-12
#[test]
fn a_driver_whose_record_lost_a_later_incarnation_writes_it_there_and_ends() {
    let held = |incarnation, holder: &str| Record {
        holder: Some(holder.into()),
        ..record(incarnation)
    };
    let mut own = Keeping::new(held(3, "own"), place(), "u1".into(), 10.into());
    own.found_later_driver(Incarnation(5));
    assert_eq!(own.next(at(0)), Some(Op::Get));
    let read = Answer::Got(Some(map(&held(3, "own"), "u1", 10)));
    assert_eq!(own.answered(read, at(0)), [], "nothing may be requested");
    let Some(Op::Replace(raised)) = own.next(at(0)) else {
        panic!("the record's incarnation is raised");
    };
    assert_eq!(raised["metadata"]["resourceVersion"], "10");
    // The answer is lost. Only a read shows that the write was committed.
    own.answered(broken(FailureKind::TimedOut), at(1));
    assert_eq!(own.seen(&map(&held(5, "own"), "u1", 11)), []);
    assert_eq!(own.next(at(2)), Some(Op::Get));
    let read = Answer::Got(Some(map(&held(5, "own"), "u1", 11)));
    let over = Effect::Over(Over::Outdated { later: 5 });
    assert!(own.answered(read, at(2)).contains(&over));
    assert_eq!(own.next(at(99)), None);

    // A driver of the later incarnation is there after all.
    let mut older = Keeping::new(held(3, "own"), place(), "u1".into(), 10.into());
    older.found_later_driver(Incarnation(5));
    older.next(at(0));
    let theirs = Answer::Got(Some(map(&held(5, "theirs"), "u1", 10)));
    let over = Effect::Over(Over::Superseded { by: 5 });
    assert_eq!(older.answered(theirs, at(0)), [over]);
}

// spec: W-7, I-10, I-12
#[test]
fn a_record_that_another_start_created_again_ends_this_driver_whatever_its_incarnation() {
    // This driver was paused while the server was emptied or the application ended. Its own
    // incarnation is higher.
    let made_by = |origin: Option<&str>, incarnation| Record {
        origin: origin.map(Arc::from),
        ..record(incarnation)
    };
    let mut own = Keeping::new(made_by(Some("own"), 5), place(), "u1".into(), 10.into());
    own.check();
    own.next(at(0));
    let anew = map(&made_by(Some("other"), 1), "u2", 3);
    let over = vec![Effect::Over(Over::Superseded { by: 1 })];
    assert_eq!(own.answered(Answer::Got(Some(anew)), at(0)), over);
    reserve(&mut own, 5_000);
    assert_eq!(
        (own.next(at(9)), own.next_at()),
        (None, None),
        "it is another's"
    );
    // A record from a backup, or one without an origin, is overwritten.
    for restored in [made_by(Some("own"), 4), made_by(None, 4)] {
        assert_eq!(own.seen(&map(&restored, "u1", 11)), vec![]);
    }
}

// spec: W-7
#[test]
fn a_higher_incarnation_from_any_source_ends_this_driver() {
    let over = Effect::Over(Over::Superseded { by: 4 });
    let seen = keeping(3).seen(&map(&record(4), "u1", 11));
    assert_eq!(seen, vec![over.clone()]);

    let mut conflicting = keeping(3);
    reserve(&mut conflicting, 5_000);
    conflicting.next(at(0));
    conflicting.answered(broken(FailureKind::Conflict), at(0));
    assert_eq!(
        conflicting.next(at(0)),
        Some(Op::Get),
        "a conflict is looked into at once"
    );
    let effects = conflicting.answered(Answer::Got(Some(map(&record(4), "u1", 12))), at(0));
    assert_eq!(effects, [over]);
}

// spec: W-7
#[test]
fn this_drivers_own_write_causes_no_read() {
    let mut keeping = keeping(3);
    assert_eq!(keeping.seen(&map(&record(3), "u1", 10)), []);
    assert_eq!(keeping.next(at(0)), None);
}

// spec: K-13, W-11, S-13
#[test]
fn after_a_restore_an_older_record_is_overwritten_before_it_counts() {
    let mut keeping = keeping(3);
    keeping.begin_epoch(Epoch(1));
    assert_eq!(keeping.next(at(0)), Some(Op::Get));
    let effects = keeping.answered(Answer::Got(Some(map(&record(2), "u1", 5))), at(0));
    assert_eq!(effects, [], "not seen yet: it is an older incarnation's");
    let Some(Op::Replace(json)) = keeping.next(at(0)) else {
        panic!("{keeping:?}")
    };
    assert_eq!(json["data"]["incarnation"], "3");
    let effects = keeping.answered(Answer::Written(map(&record(3), "u1", 6)), at(0));
    assert!(effects.contains(&Effect::Seen {
        uid: "u1".into(),
        epoch: Epoch(1)
    }));
}

// spec: K-13, S-13
#[test]
fn an_answer_from_before_the_restore_confirms_nothing() {
    let mut keeping = keeping(3);
    reserve(&mut keeping, 5_000);
    keeping.next(at(0));
    keeping.begin_epoch(Epoch(1));
    let effects = keeping.answered(Answer::Written(map(&record(3), "u1", 11)), at(0));
    assert_eq!(effects, []);
    assert_eq!(keeping.next(at(0)), Some(Op::Get));
}

// spec: O-30
#[test]
fn an_unreadable_record_is_overwritten_and_another_applications_record_is_not() {
    let mut mended = keeping(3);
    mended.check();
    mended.next(at(0));
    let mut rubbish = map(&record(3), "u1", 12);
    rubbish.data.insert("ended".to_owned(), "seven".to_owned());
    assert_eq!(mended.answered(Answer::Got(Some(rubbish)), at(0)), []);
    assert!(matches!(mended.next(at(0)), Some(Op::Replace(_))));

    let mut foreign = map(&record(3), "u1", 12);
    foreign
        .data
        .insert("app-id".to_owned(), "somebody-else".to_owned());
    let effects = keeping(3).seen(&foreign);
    assert!(
        matches!(&effects[..], [Effect::Over(Over::Foreign(_))]),
        "{effects:?}"
    );
}

#[test]
fn failures_are_reported_once_and_retried_without_limit() {
    let mut keeping = keeping(3);
    keeping.check();
    let mut now = at(0);
    let mut said = 0;
    for _ in 0..40 {
        assert_eq!(keeping.next(now), Some(Op::Get));
        said += keeping
            .answered(broken(FailureKind::Unreachable), now)
            .len();
        let next = keeping.next_at().unwrap();
        assert!(next > now && next.since(now) <= RETRY.max);
        now = next;
    }
    assert_eq!(said, 1);
}

fn delete(uid: &str, version: u64) -> Op {
    Op::Delete(uid.into(), version.into())
}

// spec: O-108, W-7, I-10
#[test]
fn a_record_that_a_later_driver_has_taken_over_is_not_deleted() {
    let mut keeping = keeping(3);
    keeping.delete();
    assert_eq!(keeping.next(at(0)), Some(delete("u1", 10)));
    keeping.answered(broken(FailureKind::Conflict), at(0));
    assert_eq!(keeping.next(at(0)), Some(Op::Get));
    let younger = Answer::Got(Some(map(&record(4), "u1", 11)));
    let over = Effect::Over(Over::Superseded { by: 4 });
    assert_eq!(keeping.answered(younger, at(0)), [over]);
    // spec: K-2
    assert!(!keeping.is_settled(), "no pod is given to it any more");
}

// spec: O-108
#[test]
fn a_delete_without_an_answer_is_repeated_for_the_current_version() {
    let mut keeping = keeping(3);
    keeping.delete();
    assert_eq!(keeping.next(at(0)), Some(delete("u1", 10)));
    keeping.answered(broken(FailureKind::TimedOut), at(2));
    assert!(!keeping.is_deleted());
    assert_eq!(keeping.next(at(60)), Some(Op::Get));
    keeping.answered(Answer::Got(Some(map(&record(3), "u1", 12))), at(60));
    assert_eq!(keeping.next(at(60)), Some(delete("u1", 12)));
    keeping.answered(broken(FailureKind::TimedOut), at(62));
    assert_eq!(keeping.next(at(100)), Some(Op::Get));
    assert_eq!(
        keeping.answered(Answer::Got(None), at(100)),
        [Effect::Deleted, Effect::Recovered]
    );
    // spec: L-1
    assert!(keeping.is_deleted(), "ends that wait for it are reported");
    assert_eq!(keeping.next(at(200)), None);
}

// spec: O-108, S-13
#[test]
fn the_record_of_a_restored_server_is_deleted_whatever_uid_it_has_and_whichever_driver_wrote_it() {
    let mut own = record(3);
    own.origin = Some("the first start".into());
    let mut before = own.clone();
    before.incarnation = Incarnation(2);
    let mut keeping = Keeping::new(own.clone(), place(), "u1".into(), 10.into());
    keeping.delete();
    assert_eq!(keeping.next(at(0)), Some(delete("u1", 10)));
    keeping.answered(broken(FailureKind::Conflict), at(0));
    assert_eq!(keeping.next(at(0)), Some(Op::Get));
    keeping.answered(Answer::Got(Some(map(&before, "u0", 8))), at(0));
    assert_eq!(keeping.next(at(0)), Some(delete("u0", 8)));
    assert_eq!(keeping.answered(Answer::Deleted, at(1)), [Effect::Deleted]);
}

// spec: O-108, I-7
#[test]
fn a_record_that_was_created_since_is_not_deleted_and_ends_no_driver() {
    let mut another = record(1);
    another.app_id = "app-2".into();
    for after in [another, record(1)] {
        let mut keeping = keeping(3);
        keeping.delete();
        assert_eq!(keeping.next(at(0)), Some(delete("u1", 10)));
        // The answer is lost, and the watch shows the successor's record.
        assert_eq!(keeping.seen(&map(&after, "u2", 20)), [Effect::Deleted]);
        keeping.answered(broken(FailureKind::Broken), at(1));
        assert_eq!(keeping.next(at(100)), None);

        let mut keeping = self::keeping(3);
        keeping.check();
        assert_eq!(keeping.next(at(0)), Some(Op::Get));
        keeping.delete();
        let got = Answer::Got(Some(map(&after, "u2", 20)));
        assert_eq!(keeping.answered(got, at(1)), [Effect::Deleted]);
        assert_eq!(keeping.next(at(100)), None);
    }
}

// spec: O-30, W-14
#[test]
fn a_failed_write_is_repeated_when_the_server_is_back_and_its_backoff_begins_anew() {
    let mut keeping = keeping(3);
    reserve(&mut keeping, 2_000);
    let mut now = at(0);
    for _ in 0..9 {
        assert!(keeping.next(now).is_some());
        keeping.answered(broken(FailureKind::Unreachable), now);
        now = keeping.next_at().unwrap();
    }
    assert!(keeping.next(now).is_some());
    keeping.answered(broken(FailureKind::Unreachable), now);
    assert_eq!(keeping.next(now), None);
    keeping.server_is_back();
    assert_eq!(keeping.next(now), Some(Op::Get));
    keeping.answered(broken(FailureKind::Unreachable), now);
    assert_eq!(keeping.next_at(), Some(now + Duration::from_millis(500)));
}

// spec: O-30, W-14
#[test]
fn a_write_that_was_cancelled_after_an_outage_is_read_before_it_is_repeated() {
    let mut keeping = keeping(3);
    reserve(&mut keeping, 2_000);
    assert!(matches!(keeping.next(at(0)), Some(Op::Replace(_))));
    keeping.cancelled();
    keeping.server_is_back();
    assert_eq!(keeping.next(at(1)), Some(Op::Get));
    let found = map(&record(3), "u1", 10);
    keeping.answered(Answer::Got(Some(found)), at(1));
    assert!(matches!(keeping.next(at(1)), Some(Op::Replace(_))));
}

/// The ends of new executors, by their ids.
fn ends() -> impl FnMut(u64) -> RecordedEnd {
    let mut scenario = crate::testing::Scenario::new(&[("default", 3)]);
    move |n| {
        let profile = "default".into();
        scenario.requested(n, crate::model::news::Outcome::Sent { profile });
        let entry = Arc::clone(scenario.entry(n).unwrap());
        let reason = Arc::new(crate::model::LossReason::of_a_refusal("why"));
        let ending = crate::model::Ending { entry, reason };
        RecordedEnd::new(&ending, jiff::Timestamp::UNIX_EPOCH)
    }
}

// spec: L-1, O-30
#[test]
fn the_failure_that_follows_an_end_does_not_delay_the_next_end() {
    let (mut end, mut keeping) = (ends(), keeping(3));
    keeping.add_end(end(1), at(7));
    assert!(matches!(keeping.next(at(7)), Some(Op::Replace(_))));
    let written = keeping.wanted.clone();
    keeping.answered(Answer::Written(map(&written, "u1", 11)), at(7));
    let failures = KeptFailures {
        counted: [ExecutorId::new(1).unwrap()].into_iter().collect(),
        ..KeptFailures::default()
    };
    keeping.set_failures(failures, at(7));
    let due = at(7) + ENDS_EVERY;
    assert_eq!(keeping.next_at(), Some(due));
    assert!(matches!(keeping.next(due), Some(Op::Replace(_))));
    let written = keeping.wanted.clone();
    keeping.answered(Answer::Written(map(&written, "u1", 12)), due);
    keeping.add_end(end(2), due);
    assert_eq!(keeping.next_at(), Some(due));
}

// spec: L-1, O-30
#[test]
fn an_end_is_written_at_once_and_the_following_ends_together() {
    let mut end = ends();
    let id = |n| ExecutorId::new(n).unwrap();
    let mut keeping = keeping(3);
    keeping.add_end(end(1), at(7));
    assert!(matches!(keeping.next(at(7)), Some(Op::Replace(_))));
    assert!(!keeping.has_end(id(1)));
    keeping.add_end(end(2), at(7));
    keeping.add_end(end(3), at(7));
    let mut written = keeping.wanted.clone();
    keeping.answered(Answer::Written(map(&written, "u1", 11)), at(7));
    assert!(keeping.has_end(id(1)) && !keeping.has_end(id(2)));
    assert_eq!(keeping.next(at(7)), None);
    assert_eq!(keeping.next_at(), Some(at(7) + ENDS_EVERY));
    assert!(matches!(keeping.next(at(8)), Some(Op::Replace(_))));
    // The write is lost.
    keeping.gather(at(8));
    keeping.answered(broken(FailureKind::TimedOut), at(8));
    assert!(!keeping.has_end(id(2)));
    assert_eq!(keeping.next(at(9)), Some(Op::Get));
    keeping.answered(Answer::Got(Some(map(&record(3), "u1", 11))), at(9));
    let again = keeping.next(at(9));
    assert!(matches!(again, Some(Op::Replace(_))), "at once: {again:?}");
    // The answer is lost, but the write was committed.
    keeping.answered(broken(FailureKind::TimedOut), at(9));
    assert_eq!(keeping.next(at(10)), Some(Op::Get));
    written = keeping.wanted.clone();
    keeping.answered(Answer::Got(Some(map(&written, "u1", 12))), at(9));
    assert!(keeping.has_end(id(2)) && keeping.has_end(id(3)));
    let ids = |ids: &[u64]| ids.iter().map(|n| id(*n)).collect::<IdSet>();
    // The snapshot is older than the binding of 3.
    keeping.set_intervals(ids(&[1]), ids(&[2]), 3, |_| false);
    assert_eq!(keeping.wanted.reported, ids(&[2, 3]));
    keeping.set_intervals(ids(&[1, 2]), ids(&[3]), 3, |_| false);
    assert_eq!(keeping.wanted.reported, ids(&[3]));
    keeping.set_intervals(ids(&[1, 2, 3]), ids(&[]), 3, |_| false);
    assert_eq!(keeping.wanted.reported, ids(&[]));
}
