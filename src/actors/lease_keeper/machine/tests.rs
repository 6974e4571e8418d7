mod races;

use jiff::Timestamp;

use super::*;

pub(super) const DURATION: Duration = Duration::from_secs(30);
pub(super) const DEADLINE: Duration = Duration::from_secs(20);
pub(super) const RETRY: Duration = Duration::from_secs(4);

pub(super) fn settings(pod: Option<&str>, start: &str) -> LeaseTimes {
    LeaseTimes {
        identity: Identity {
            pod: pod.map(Arc::from),
            start: Arc::from(start),
        },
        duration: DURATION,
        renew_deadline: DEADLINE,
        retry_period: RETRY,
    }
}

fn machine(start: &str) -> Machine {
    Machine::new(settings(None, start))
}

pub(super) fn now(millis: u64) -> Now {
    let since = Duration::from_millis(millis);
    let wall = Timestamp::UNIX_EPOCH.checked_add(since).unwrap();
    Now::new(Tick::after_start(since), wall)
}

fn tick(millis: u64) -> Tick {
    now(millis).tick
}

/// A Lease in this version, renewed then.
fn lease(holder: Option<&str>, version: u64) -> Lease {
    Lease {
        uid: "u".into(),
        version: version.into(),
        spec: LeaseSpec {
            holder: holder.map(Arc::from),
            duration: DURATION,
            acquired: None,
            renewed: Some(Arc::from(format!("in version {version}"))),
            transitions: 0,
        },
    }
}

fn got(holder: Option<&str>, version: u64) -> Answer {
    Answer::Got(Some(lease(holder, version)))
}

fn failed(kind: FailureKind) -> Answer {
    Answer::Failed(Failure::new(kind, "so it is"))
}

/// What a write leaves on the server.
fn written(op: Option<Op>, version: u64) -> Answer {
    let (Some(Op::Create(spec)) | Some(Op::Replace(spec, ..))) = op else {
        panic!("no write: {op:?}")
    };
    Answer::Written(Lease {
        uid: "u".into(),
        version: version.into(),
        spec,
    })
}

fn held(effects: &[Effect]) -> Option<Tick> {
    effects.iter().find_map(|effect| match effect {
        Effect::Held { since } => Some(*since),
        _ => None,
    })
}

fn lost(effects: &[Effect]) -> Option<&Loss> {
    effects.iter().find_map(|effect| match effect {
        Effect::Lost(loss) => Some(loss),
        _ => None,
    })
}

/// A holder of the Lease in version 1, as of second 0.
fn holder() -> Machine {
    let mut machine = machine("one");
    assert_eq!(machine.next(now(0)), Some(Op::Get));
    machine.answered(Answer::Got(None), now(0));
    let create = machine.next(now(0));
    assert!(matches!(create, Some(Op::Create(_))), "{create:?}");
    let effects = machine.answered(written(create, 1), now(0));
    assert_eq!(held(&effects), Some(tick(0)));
    machine
}

/// A candidate that saw version 1 of another driver's Lease at second 0.
fn candidate() -> Machine {
    let mut machine = machine("two");
    assert_eq!(machine.next(now(0)), Some(Op::Get));
    let effects = machine.answered(got(Some("one"), 1), now(0));
    let holder = Arc::from("one");
    assert_eq!(effects, [Effect::StandBy { holder }]);
    machine
}

/// Answers each read with the same Lease, until something else is sent, and returns that and when.
fn waits(machine: &mut Machine, answer: impl Fn() -> Answer) -> (Op, Tick) {
    for millis in (0..200_000).step_by(50) {
        match machine.next(now(millis)) {
            None => {}
            Some(Op::Get) => drop(machine.answered(answer(), now(millis))),
            Some(op) => return (op, tick(millis)),
        }
    }
    panic!("it waits for ever")
}

// spec: O-91
#[test]
fn a_renewal_counts_from_when_it_was_sent() {
    let mut machine = holder();
    assert_eq!(machine.next(now(3_999)), None);
    assert_eq!(machine.next_at(), Some(tick(4_000)));
    let renewal = machine.next(now(4_000));
    assert_eq!(machine.next(now(5_000)), None, "one call at a time");
    let effects = machine.answered(written(renewal, 2), now(9_000));
    assert_eq!(held(&effects), Some(tick(4_000)));
    assert!(machine.tick(now(23_999)).is_empty());
    assert_eq!(lost(&machine.tick(now(24_000))), Some(&Loss::Expired));
}

// spec: O-90
#[test]
fn a_candidate_counts_on_its_own_clock_from_the_last_change_that_it_saw() {
    let mut machine = candidate();
    let (taken, at) = waits(&mut machine, || got(Some("one"), 1));
    assert_eq!(at, tick(30_000));
    let Op::Replace(spec, _, version) = taken else {
        panic!("{taken:?}")
    };
    assert_eq!(version, 1.into(), "only in the version that was seen");
    assert_eq!((spec.holder.as_deref(), spec.transitions), (Some("two"), 1));
    // A change of the metadata alone is no renewal.
    let mut machine = candidate();
    let touched = || {
        let mut touched = lease(Some("one"), 1);
        touched.version = 9.into();
        Answer::Got(Some(touched))
    };
    let (taken, at) = waits(&mut machine, touched);
    assert_eq!(at, tick(30_000));
    assert!(matches!(taken, Op::Replace(_, _, version) if version == 9.into()));
}

// spec: O-90
#[test]
fn a_renewal_that_a_candidate_sees_begins_its_count_anew() {
    let mut machine = candidate();
    machine.watched(Some(lease(Some("one"), 2)), now(25_000));
    let (_, at) = waits(&mut machine, || got(Some("one"), 2));
    assert_eq!(at, tick(55_000));
}

// spec: O-90
#[test]
fn a_candidate_waits_as_long_as_the_holder_has_written() {
    let slow = || {
        let mut slow = lease(Some("one"), 1);
        slow.spec.duration = Duration::from_secs(90);
        slow
    };
    let mut machine = machine("two");
    let (_, at) = waits(&mut machine, || Answer::Got(Some(slow())));
    assert_eq!(at, tick(90_000));
    let mut endless = slow();
    endless.spec.duration = Duration::MAX;
    let mut machine = super::tests::machine("two");
    machine.next(now(0));
    machine.answered(Answer::Got(Some(endless)), now(0));
    assert_eq!(machine.free_at(), Some(Tick::default() + LONGEST));
}

// spec: O-90
#[test]
fn a_released_lease_is_taken_at_once() {
    let mut machine = candidate();
    assert!(machine.wants_watch());
    assert_eq!(machine.next(now(1_000)), None);
    machine.watched(Some(lease(None, 2)), now(1_000));
    assert_eq!(machine.next_at(), Some(tick(1_000)));
    let taken = machine.next(now(1_000));
    let effects = machine.answered(written(taken, 3), now(1_010));
    assert_eq!(held(&effects), Some(tick(1_000)));
    assert!(!machine.wants_watch());
}

// spec: O-90
#[test]
fn of_two_candidates_the_one_whose_write_is_refused_waits() {
    let mut machine = candidate();
    machine.watched(Some(lease(None, 2)), now(1_000));
    assert!(matches!(machine.next(now(1_000)), Some(Op::Replace(..))));
    assert_eq!(
        machine.answered(failed(FailureKind::Conflict), now(1_001)),
        []
    );
    assert_eq!(machine.next(now(1_001)), Some(Op::Get));
    let effects = machine.answered(got(Some("three"), 3), now(1_002));
    assert!(effects.contains(&Effect::StandBy {
        holder: Arc::from("three")
    }));
    let (_, at) = waits(&mut machine, || got(Some("three"), 3));
    assert_eq!(at, tick(31_002).max(tick(31_050)));
}

// spec: O-91
#[test]
fn a_renewal_without_an_answer_is_settled_by_a_read_and_extends_nothing() {
    let mut machine = holder();
    let Some(Op::Replace(spec, ..)) = machine.next(now(4_000)) else {
        panic!()
    };
    let effects = machine.answered(failed(FailureKind::TimedOut), now(9_000));
    assert_eq!(effects, [Effect::Troubled("so it is".into())]);
    assert_eq!(machine.next(now(9_999)), None);
    assert_eq!(machine.next(now(10_000)), Some(Op::Get));
    let committed = Lease {
        spec,
        ..lease(None, 2)
    };
    let effects = machine.answered(Answer::Got(Some(committed)), now(10_010));
    assert_eq!(effects, [Effect::Recovered]);
    assert_eq!(machine.ends(), Some(tick(20_000)), "as before");
    let renewal = machine.next(now(10_010));
    assert!(matches!(&renewal, Some(Op::Replace(_, _, version)) if *version == 2.into()));
    let effects = machine.answered(written(renewal, 3), now(10_020));
    assert_eq!(held(&effects), Some(tick(10_010)));
}

// spec: O-91
#[test]
fn a_holder_that_finds_another_one_has_lost() {
    let mut machine = holder();
    machine.next(now(4_000));
    machine.answered(failed(FailureKind::Conflict), now(4_010));
    assert_eq!(machine.next(now(4_010)), Some(Op::Get));
    let effects = machine.answered(got(Some("two"), 2), now(4_020));
    let by = Arc::from("two");
    assert_eq!(lost(&effects), Some(&Loss::Taken { by }));
    assert_eq!((machine.next(now(60_000)), machine.next_at()), (None, None));
}

// spec: O-32
#[test]
fn a_lease_that_was_freed_or_touched_by_hand_is_renewed() {
    for holder_then in [None, Some("one")] {
        let mut machine = holder();
        machine.next(now(4_000));
        machine.answered(failed(FailureKind::Conflict), now(4_010));
        machine.next(now(4_010));
        machine.answered(got(holder_then, 7), now(4_020));
        let renewal = machine.next(now(4_020));
        assert!(matches!(&renewal, Some(Op::Replace(_, _, version)) if *version == 7.into()));
    }
}

// spec: O-90
#[test]
fn a_deleted_lease_is_made_again_by_its_holder_and_taken_by_others_only_after_its_time() {
    let mut holds = holder();
    holds.next(now(4_000));
    holds.answered(failed(FailureKind::NotFound), now(4_010));
    assert_eq!(holds.next(now(4_010)), Some(Op::Get));
    holds.answered(Answer::Got(None), now(4_020));
    let made = holds.next(now(4_020));
    assert!(matches!(made, Some(Op::Create(_))), "{made:?}");
    assert_eq!(
        held(&holds.answered(written(made, 9), now(4_030))),
        Some(tick(4_020))
    );

    let mut waits_for = candidate();
    assert_eq!(waits_for.watched(None, now(4_000)), []);
    assert_eq!(waits_for.next(now(4_000)), Some(Op::Get));
    waits_for.answered(Answer::Got(None), now(4_000));
    let (made, at) = waits(&mut waits_for, || Answer::Got(None));
    assert!(matches!(made, Op::Create(_)), "{made:?}");
    assert_eq!(at, tick(34_000), "counted from when it was found missing");
}

// spec: O-91
#[test]
fn a_process_that_was_paused_finds_its_lease_over_before_it_sends_anything() {
    let mut machine = holder();
    let renewal = machine.next(now(4_000));
    // The answer to the renewal waits in the socket.
    let effects = machine.answered(written(renewal, 2), now(64_000));
    assert_eq!(lost(&effects), Some(&Loss::Expired));
    assert_eq!(held(&effects), None);
    assert_eq!(machine.next(now(64_000)), None);
    // A candidate's first write may be answered as late: it does not count.
    let mut machine = candidate();
    machine.watched(Some(lease(None, 2)), now(1_000));
    let taken = machine.next(now(1_000));
    assert_eq!(
        held(&machine.answered(written(taken, 3), now(61_000))),
        None
    );
    let renewal = machine.next(now(61_000));
    assert_eq!(
        held(&machine.answered(written(renewal, 4), now(61_010))),
        Some(tick(61_000))
    );
}

// spec: O-91
#[test]
fn repeated_answers_and_what_the_watch_shows_change_nothing_for_a_holder() {
    let mut machine = holder();
    let renewal = machine.next(now(4_000));
    machine.answered(written(renewal.clone(), 2), now(4_010));
    assert_eq!(machine.answered(written(renewal, 2), now(4_020)), []);
    assert_eq!(machine.watched(Some(lease(Some("two"), 1)), now(4_030)), []);
    assert_eq!(machine.watched(None, now(4_040)), []);
    assert_eq!(machine.next_at(), Some(tick(8_000)));
}

// spec: O-90
#[test]
fn a_restarted_container_goes_on_at_once_and_another_pod_waits() {
    let of = |pod, start| Machine::new(settings(Some(pod), start));
    let before = of("driver-0_u1", "a").identity;
    for (pod, start, at_once) in [
        ("driver-0_u1", "b", true),
        ("driver-0_u2", "a", false),
        ("driver-1_u1", "a", false),
    ] {
        let mut machine = of(pod, start);
        let (_, at) = waits(&mut machine, || got(Some(&before), 1));
        assert_eq!(at <= tick(50), at_once, "{pod} {start}: {at:?}");
    }
    // Outside a cluster, each start is another holder.
    let (_, at) = waits(&mut machine("b"), || got(Some("a"), 1));
    assert_eq!(at, tick(30_000));
}

// spec: O-91
#[test]
fn a_release_frees_the_lease_and_ends_the_writes_of_this_driver() {
    let mut machine = holder();
    assert_eq!(machine.release(), []);
    let freed = machine.next(now(1_000));
    let Some(Op::Replace(spec, ..)) = &freed else {
        panic!("{freed:?}")
    };
    assert_eq!((spec.holder.as_deref(), spec.duration.as_secs()), (None, 1));
    assert_eq!(
        machine.answered(written(freed, 2), now(1_010)),
        [Effect::Released]
    );
    assert_eq!(machine.next(now(60_000)), None);
    assert_eq!(candidate().release(), [Effect::Released]);
}

// spec: O-89
#[test]
fn a_candidate_that_is_stopped_while_it_takes_the_lease_frees_it_again() {
    let mut machine = candidate();
    machine.watched(Some(lease(None, 2)), now(1_000));
    let taken = machine.next(now(1_000));
    assert_eq!(machine.release(), []);
    assert_eq!(machine.answered(written(taken, 3), now(1_010)), []);
    let freed = machine.next(now(1_010));
    let effects = machine.answered(written(freed, 4), now(1_020));
    assert_eq!(effects, [Effect::Released]);
    // A read in flight has nothing to free.
    let mut machine = candidate();
    assert_eq!(machine.next(now(4_000)), Some(Op::Get));
    assert_eq!(machine.release(), []);
    let effects = machine.answered(got(Some("one"), 1), now(4_010));
    assert_eq!(effects, [Effect::Released]);
}

// spec: O-91
#[test]
fn a_release_waits_for_a_renewal_in_flight_and_is_settled_by_a_read() {
    let mut machine = holder();
    let renewal = machine.next(now(4_000));
    machine.release();
    assert_eq!(machine.next(now(4_000)), None);
    assert_eq!(
        held(&machine.answered(written(renewal, 2), now(4_010))),
        None
    );
    assert!(
        matches!(machine.next(now(4_010)), Some(Op::Replace(spec, ..)) if spec.holder.is_none())
    );
    machine.answered(failed(FailureKind::Broken), now(4_020));
    assert_eq!(machine.next(now(5_020)), Some(Op::Get));
    assert!(
        machine
            .answered(got(None, 3), now(5_030))
            .contains(&Effect::Released)
    );
    // It is taken already.
    let mut machine = holder();
    machine.release();
    machine.next(now(1_000));
    machine.answered(failed(FailureKind::Conflict), now(1_010));
    machine.next(now(1_010));
    assert!(
        machine
            .answered(got(Some("two"), 3), now(1_020))
            .contains(&Effect::Released)
    );
}

// spec: O-89
#[test]
fn a_missing_right_ends_a_start_and_not_a_standby() {
    let mut first = machine("one");
    first.next(now(0));
    let effects = first.answered(failed(FailureKind::Rights), now(0));
    assert!(matches!(&effects[..], [Effect::Refused(_)]), "{effects:?}");
    let mut later = candidate();
    assert_eq!(later.next(now(4_000)), Some(Op::Get));
    let effects = later.answered(failed(FailureKind::Rights), now(4_000));
    assert!(matches!(&effects[..], [Effect::Troubled(_)]), "{effects:?}");
    assert_eq!(later.next(now(5_000)), Some(Op::Get));
}
