use super::*;
use crate::model::AppId;
use crate::model::news::Outcome;
use crate::testing::{Scenario as World, id};

fn event_history() -> History {
    History::new(AppId::from("app"), Incarnation(1))
}

/// The names of the events after that one.
fn told(event_history: &History, after: u64) -> Vec<String> {
    let after = EventId {
        incarnation: Incarnation(1),
        number: after,
    };
    let Reading::Next(events) = event_history.after(Some(after), 1_000) else {
        panic!("event {after} is not known");
    };
    (events.iter())
        .map(|event| {
            let event = serde_json::to_value(&**event).unwrap();
            let executor = event["executor"]
                .as_u64()
                .map_or(String::new(), |id| format!("{id} "));
            format!("{executor}{}", event["event"].as_str().unwrap())
        })
        .collect()
}

fn sent(world: &mut World, n: u64) {
    let profile = "default".into();
    world.requested(n, Outcome::Sent { profile });
}

fn ends(event_history: &mut History, world: &mut World, n: u64) {
    world.report(n);
    event_history.round(&world.batch(), world.now());
}

// spec: B-50
#[test]
fn differences_between_snapshots_become_events_in_order_and_once() {
    let mut world = World::new(&[("default", 2)]);
    let mut event_history = event_history();
    event_history.round(&world.batch(), world.now());
    assert_eq!(told(&event_history, 0), ["began"]);
    sent(&mut world, 1);
    world.created(1);
    world.runs(1);
    world.want("default", 3);
    event_history.round(&world.batch(), world.now());
    let news = ["1 requested", "1 pending", "1 running", "target-changed"];
    assert_eq!(told(&event_history, 1), news);
    // A batch that repeats the same causes no event.
    world.runs(1);
    event_history.round(&world.batch(), world.now());
    assert_eq!(told(&event_history, 5), [""; 0]);
    world.exits(1, 3);
    event_history.round(&world.batch(), world.now());
    ends(&mut event_history, &mut world, 1);
    assert_eq!(told(&event_history, 5), ["1 ended"]);
}

// spec: O-145
#[test]
fn an_end_has_what_the_executor_used_if_that_was_told_before() {
    let mut world = World::new(&[("default", 2)]);
    let mut event_history = event_history();
    let usage = Usage {
        peak_memory_bytes: Some(700),
        ..Usage::default()
    };
    event_history.used(id(1), usage);
    let mut peaks = Vec::new();
    for n in [1, 2] {
        sent(&mut world, n);
        world.created(n);
        world.exits(n, 0);
        event_history.round(&world.batch(), world.now());
        if n == 2 {
            event_history.used(id(n), usage);
        }
        ends(&mut event_history, &mut world, n);
        let end = event_history.history(id(n)).unwrap().end().unwrap();
        let end = serde_json::to_value(&**end).unwrap();
        peaks.push(end["usage"]["peak_memory_bytes"].as_u64());
    }
    assert_eq!(peaks, [None, Some(700)]);
}

// spec: B-50
#[test]
fn an_event_has_the_time_at_which_the_driver_learnt_of_it() {
    let mut world = World::new(&[("default", 1)]);
    let mut event_history = event_history();
    event_history.round(&world.batch(), world.now());
    sent(&mut world, 1);
    world.created(1);
    world.pass(700);
    world.runs(1);
    world.pass(300);
    // The wall clock stands still in these tests, so earlier events have times before it.
    event_history.round(&world.batch(), world.now());
    let ago: Vec<i128> = (event_history.history(id(1)).unwrap().events.iter())
        .map(|event| -event.time.as_nanosecond() / 1_000_000)
        .collect();
    assert_eq!(ago, [1_000, 1_000, 300]);
}

// spec: B-51
#[test]
fn a_history_has_its_events_in_the_order_in_which_they_happened() {
    let mut world = World::new(&[("default", 1)]);
    let mut event_history = event_history();
    // The wall clock of such a world stands still.
    let now = |world: &World| {
        let tick = world.now().tick;
        Now::new(tick, Timestamp::UNIX_EPOCH + tick.since(Tick::default()))
    };
    event_history.round(&world.batch(), now(&world));
    sent(&mut world, 1);
    event_history.round(&world.batch(), now(&world));
    world.pass(100);
    world.created(1);
    world.pass(100);
    world.runs(1);
    world.pass(100);
    // The session's step is noticed at once, the pod's with the next batch.
    event_history.step(id(1), &"default".into(), Step::Enabled, now(&world).wall);
    world.pass(100);
    event_history.round(&world.batch(), now(&world));
    let history = event_history.history(id(1)).unwrap();
    let names: Vec<_> = (history.events.iter())
        .map(|event| serde_json::to_value(&**event).unwrap()["event"].clone())
        .collect();
    assert_eq!(names, ["requested", "pending", "running", "enabled"]);
}

// spec: B-66
#[test]
fn a_reader_resumes_after_its_last_event_or_starts_with_the_live_executors() {
    let mut world = World::new(&[("default", 1)]);
    let mut event_history = event_history();
    let place = |incarnation, number| {
        Some(EventId {
            incarnation: Incarnation(incarnation),
            number,
        })
    };
    assert!(
        matches!(event_history.after(place(1, 0), 10), Reading::Next(events) if events.is_empty())
    );
    event_history.round(&world.batch(), world.now());
    for _ in 0..KEPT_EVENTS {
        let target = 1 + world.current().target(&"default".into()) % 2;
        world.want("default", target);
        event_history.round(&world.batch(), world.now());
    }
    let last = event_history.last();
    assert_eq!(last.number, 1 + KEPT_EVENTS as u64);
    assert!(
        matches!(event_history.after(place(1, 1), 10), Reading::Next(events) if events.len() == 10)
    );
    assert!(
        matches!(event_history.after(Some(last), 10), Reading::Next(events) if events.is_empty())
    );
    // Dropped, of another incarnation, or not there yet.
    for unknown in [
        place(1, 0),
        place(0, 5),
        place(2, 5),
        place(1, last.number + 1),
        None,
    ] {
        let anew = event_history.after(unknown, 10);
        assert!(
            matches!(anew, Reading::Anew { from, .. } if from == last),
            "{unknown:?}"
        );
    }
}

// spec: B-66, B-51
#[test]
fn a_reader_that_starts_anew_gets_the_ends_that_it_may_have_missed() {
    let mut before = World::new(&[("default", 1)]);
    let mut event_history = event_history();
    event_history.round(&before.batch(), before.now());
    for n in [1, 2] {
        sent(&mut before, n);
        before.created(n);
    }
    before.exits(1, 3);
    event_history.round(&before.batch(), before.now());
    ends(&mut event_history, &mut before, 1);
    event_history.step(id(1), &"default".into(), Step::Disabled, before.now().wall);
    let ended = |after| match event_history.after(after, 10) {
        Reading::Anew { ended, .. } => ended,
        Reading::Next(_) => panic!("{after:?} is known"),
    };
    let unknown = EventId {
        incarnation: Incarnation(0),
        number: 9,
    };
    let missed = ended(Some(unknown));
    let words: Vec<_> = (missed.iter())
        .map(|event| serde_json::to_value(&**event).unwrap())
        .map(|event| (event["executor"].clone(), event["event"].clone()))
        .collect();
    assert_eq!(words, [(1.into(), "ended".into())]);
    assert!(ended(None).is_empty(), "it has missed none");
}

// spec: B-51, I-8
#[test]
fn histories_of_live_and_recently_ended_executors_are_kept() {
    let mut world = World::new(&[("default", 1)]);
    let mut event_history = event_history();
    event_history.round(&world.batch(), world.now());
    let lives = KEPT_STORIES as u64 + 5;
    for n in 1..=lives {
        sent(&mut world, n);
        if n == 1 {
            event_history.round(&world.batch(), world.now());
            continue;
        }
        world.created(n);
        world.exits(n, 1);
        event_history.round(&world.batch(), world.now());
        ends(&mut event_history, &mut world, n);
    }
    assert_eq!(event_history.histories.len(), KEPT_STORIES + 1);
    assert!(event_history.history(id(1)).is_some(), "it lives");
    assert!(
        event_history.history(id(2)).is_none(),
        "it was the first to end"
    );
    assert!(event_history.history(id(lives)).is_some());
}

/// Whether the first executor's history, and that of the second one, are kept after more ends of the second one's kind than
/// are kept.
fn kept_beside_many(code: i32, more: impl Fn(&mut History, &mut World, u64)) -> (bool, bool) {
    let mut world = World::new(&[("default", 1)]);
    let mut event_history = event_history();
    event_history.round(&world.batch(), world.now());
    exits(&mut event_history, &mut world, 1, code);
    for n in 2..=KEPT_STORIES as u64 + 5 {
        more(&mut event_history, &mut world, n);
    }
    let is_kept = |n| event_history.history(id(n)).is_some();
    (is_kept(1), is_kept(2))
}

fn exits(event_history: &mut History, world: &mut World, n: u64, code: i32) {
    sent(world, n);
    world.created(n);
    world.exits(n, code);
    event_history.round(&world.batch(), world.now());
    ends(event_history, world, n);
}

// spec: B-51
#[test]
fn many_ends_that_are_no_failures_displace_no_failure() {
    let kept = kept_beside_many(3, |history, world, n| exits(history, world, n, 0));
    assert_eq!(kept, (true, false));
}

// spec: B-51
#[test]
fn many_refused_requests_displace_no_end_of_an_executor() {
    let kept = kept_beside_many(0, |history, world, n| {
        sent(world, n);
        world.requested(n, Outcome::Refused("exceeded quota".into()));
        history.round(&world.batch(), world.now());
    });
    assert_eq!(kept, (true, false));
}

// spec: B-51, I-8
#[test]
fn a_long_history_keeps_its_first_event_and_its_last_ones() {
    let mut world = World::new(&[("default", 1)]);
    let mut event_history = event_history();
    event_history.round(&world.batch(), world.now());
    sent(&mut world, 1);
    world.created(1);
    world.runs(1);
    event_history.round(&world.batch(), world.now());
    for _ in 0..50 {
        world.list(Vec::new());
        let pod = world.pod(1);
        world.observe(pod);
        event_history.round(&world.batch(), world.now());
    }
    let history = event_history.history(id(1)).unwrap();
    assert_eq!(history.events.len(), STORY);
    assert!(history.left_out > 0);
    let words = |at: usize| serde_json::to_value(&*history.events[at]).unwrap()["event"].clone();
    assert_eq!(words(0), "requested");
    assert_eq!(words(STORY - 1), "running");
}

// spec: B-66, O-31
#[test]
fn a_successor_starts_with_the_executors_that_it_found() {
    let mut before = World::new(&[("default", 2)]);
    for n in [1, 2] {
        sent(&mut before, n);
        before.created(n);
        before.runs(n);
    }
    let pods = vec![before.pod(1), before.pod(2)];
    let mut world = World::before_adoption(&[("default", 2)], Default::default());
    let mut event_history = event_history();
    world.list(pods);
    event_history.round(&world.batch(), world.now());
    assert_eq!(told(&event_history, 0), ["began"]);
    assert_eq!(event_history.history(id(2)).unwrap().events.len(), 1);
}

// spec: L-44, B-50
#[test]
fn a_running_executor_with_another_memory_limit_is_told_again_as_running() {
    let mut world = World::new(&[("default", 1)]);
    let mut event_history = event_history();
    event_history.round(&world.batch(), world.now());
    sent(&mut world, 1);
    world.created(1);
    let mut limits = |limit: u32| {
        let mut pod = crate::testing::running(world.pod(1));
        pod.memory_limit = std::num::NonZeroU32::new(limit);
        world.observe(pod);
        event_history.round(&world.batch(), world.now());
        let history = event_history.history(id(1)).unwrap();
        let events = history.events.iter();
        let events = events.map(|event| serde_json::to_value(&**event).unwrap());
        let limits = events.filter(|event| event["event"] == "running");
        limits
            .map(|event| event["memory_limit"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(limits(100), ["100Mi"]);
    assert_eq!(limits(100), ["100Mi"]);
    assert_eq!(limits(150), ["100Mi", "150Mi"]);
}
