use std::time::Duration;

use rand::SeedableRng;

use super::*;
use crate::testing::{at, id};

const BACKOFF: Backoff = Backoff {
    initial: Duration::from_secs(4),
    max: Duration::from_secs(16),
};

fn queue(max_in_flight: usize) -> CallQueue {
    CallQueue::new(max_in_flight, BACKOFF, StdRng::seed_from_u64(7))
}

fn subject(n: u64) -> Subject {
    Subject::Executor(id(n))
}

fn look_up(n: u64) -> PodCall {
    PodCall::LookUp(id(n))
}

fn delete(uid: &str) -> PodCall {
    PodCall::Delete {
        name: Arc::from("a-exec-1"),
        uid: PodUid::from(uid),
        grace: None,
    }
}

fn due(queue: &mut CallQueue, now: Tick) -> Vec<PodCall> {
    queue.due(now).map(|(_, pod_call)| pod_call).collect()
}

// spec: L-11
#[test]
fn the_next_attempt_is_the_earliest_waiting_one_and_none_while_there_is_no_room() {
    let mut queue = queue(1);
    assert_eq!((queue.next_try(), queue.is_empty()), (None, true));
    queue.set(subject(1), Some((look_up(1), Some(at(5_000)))), at(0));
    queue.set(subject(2), Some((look_up(2), Some(at(3_000)))), at(0));
    assert_eq!((queue.next_try(), queue.len()), (Some(at(3_000)), 2));
    assert!(!queue.is_empty());
    assert_eq!(due(&mut queue, at(2_999)), []);
    assert_eq!(due(&mut queue, at(6_000)), [look_up(2)], "one at a time");
    assert_eq!(queue.next_try(), None, "an answer has to come first");
    queue.answered(&subject(2), true, at(6_000));
    assert_eq!(queue.next_try(), Some(at(5_000)));
    assert_eq!(due(&mut queue, at(6_000)), [look_up(1)]);
}

// spec: L-35
#[test]
fn a_call_without_effect_backs_off_and_a_different_outcome_resets_the_backoff() {
    let mut queue = queue(8);
    queue.set(subject(1), Some((delete("u"), None)), at(0));
    let mut now = at(0);
    let mut waits = Vec::new();
    for succeeded in [false, false, false, false, true, true, false] {
        assert_eq!(due(&mut queue, now), [delete("u")]);
        queue.answered(&subject(1), succeeded, now);
        let next = queue.next_try().unwrap();
        waits.push(next.since(now).as_secs_f64());
        now = next;
    }
    for (wait, longest) in waits.iter().zip([4.0, 8.0, 16.0, 16.0, 4.0, 8.0, 4.0]) {
        assert!((longest * 0.75..=longest).contains(wait), "{waits:?}");
    }
}

// spec: L-11
#[test]
fn news_of_a_subject_does_not_make_its_retry_earlier() {
    let mut queue = queue(8);
    queue.set(subject(1), Some((delete("u"), None)), at(0));
    due(&mut queue, at(0));
    queue.answered(&subject(1), false, at(0));
    let next = queue.next_try().unwrap();
    queue.set(subject(1), Some((delete("u"), None)), at(100));
    assert_eq!(queue.next_try(), Some(next));
    queue.set(subject(1), Some((delete("u"), Some(at(60_000)))), at(100));
    assert_eq!(
        queue.next_try(),
        Some(at(60_000)),
        "but a later time is kept"
    );
    queue.set(subject(1), Some((delete("v"), None)), at(200));
    assert_eq!(
        queue.next_try(),
        Some(at(200)),
        "another pod_call waits for nothing"
    );
}

// spec: L-11
#[test]
fn the_answer_to_an_earlier_call_does_not_answer_the_pending_one() {
    let mut queue = queue(8);
    queue.set(subject(1), Some((look_up(1), None)), at(0));
    assert_eq!(due(&mut queue, at(0)), [look_up(1)]);
    queue.set(subject(1), Some((delete("u"), None)), at(1_000));
    assert_eq!(due(&mut queue, at(1_000)), [], "one call a subject");
    queue.answered(&subject(1), false, at(2_000));
    assert_eq!(
        queue.next_try(),
        Some(at(1_000)),
        "nothing is held against it"
    );
    assert_eq!(due(&mut queue, at(2_000)), [delete("u")]);
}

// spec: L-11
#[test]
fn a_call_that_is_no_longer_pending_is_removed_at_once_or_with_its_answer() {
    let mut queue = queue(1);
    queue.set(subject(1), Some((delete("u"), None)), at(0));
    queue.set(subject(2), Some((delete("v"), None)), at(0));
    assert_eq!(due(&mut queue, at(0)), [delete("u")]);
    queue.set(subject(1), None, at(0));
    queue.set(subject(2), None, at(0));
    assert_eq!(queue.len(), 1, "the one whose answer is out");
    queue.answered(&subject(1), true, at(1_000));
    assert_eq!((queue.len(), queue.next_try()), (0, None));
    queue.set(subject(3), Some((delete("w"), None)), at(2_000));
    assert_eq!(
        due(&mut queue, at(2_000)),
        [delete("w")],
        "there is room again"
    );
}

// spec: L-11
#[test]
fn an_unexpected_answer_makes_no_room() {
    let mut queue = queue(1);
    queue.answered(&subject(9), true, at(0));
    queue.set(subject(1), Some((delete("u"), Some(at(9_000)))), at(0));
    queue.set(subject(2), Some((delete("v"), None)), at(0));
    assert_eq!(due(&mut queue, at(0)), [delete("v")]);
    queue.answered(&subject(1), true, at(0));
    assert_eq!(due(&mut queue, at(20_000)), [], "its own call is not out");
    queue.answered(&subject(2), true, at(20_000));
    queue.answered(&subject(2), true, at(20_000));
    assert_eq!(due(&mut queue, at(20_000)), [delete("u")]);
}

// spec: L-11, W-14
#[test]
fn the_end_of_an_outage_ends_the_backoff_of_failed_calls_but_not_what_was_planned_for_later() {
    let mut queue = queue(8);
    let planned = Some((look_up(3), Some(at(90_000))));
    for n in 1..=2 {
        queue.set(subject(n), Some((look_up(n), None)), at(0));
    }
    queue.set(subject(3), planned.clone(), at(0));
    assert_eq!(due(&mut queue, at(0)), [look_up(1), look_up(2)]);
    queue.answered(&subject(1), false, at(0));
    queue.answered(&subject(2), true, at(0));
    queue.server_is_back(at(10));
    assert_eq!(due(&mut queue, at(10)), [look_up(1)], "the failed one");
    queue.server_is_back(at(20));
    queue.answered(&subject(1), false, at(30));
    let again = queue.next_try().unwrap().since(at(0));
    assert!(again < BACKOFF.max, "one in flight may fail yet: {again:?}");

    // A failed call that is not wanted before a later time.
    assert_eq!(due(&mut queue, at(90_000)).len(), 3);
    for n in 1..=3 {
        queue.answered(&subject(n), n != 3, at(90_000));
    }
    queue.set(
        subject(3),
        Some((look_up(3), Some(at(200_000)))),
        at(90_000),
    );
    queue.server_is_back(at(90_001));
    assert!(!due(&mut queue, at(199_999)).contains(&look_up(3)));
    assert!(due(&mut queue, at(200_000)).contains(&look_up(3)));
}
