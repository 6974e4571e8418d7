use proptest::prelude::*;
use rand::SeedableRng;

use super::*;
use crate::kubernetes::{Failure, FailureKind};

const S: Duration = Duration::from_secs(1);

/// With a watch: every 30 s.
const BESIDE: Pace = Pace {
    interval: Duration::from_secs(30),
    from_cache: true,
    makes_first_list: false,
};
/// The same without a watch.
const ALONE: Pace = Pace {
    makes_first_list: true,
    ..BESIDE
};

/// A page could not be fetched, and the server may have asked to wait.
fn refused(retry_after: Option<Duration>) -> ListError {
    let failure = Failure::new(FailureKind::Server, "trouble");
    ListError::Page(Failure {
        retry_after,
        ..failure
    })
}

fn taken_in(accepted: bool) -> Result<Polled, ListError> {
    Ok(Polled { accepted, pods: 3 })
}

fn new_interval(interval: Duration) -> Event {
    let is_firm = false;
    Event::NewInterval(NewInterval { interval, is_firm })
}

/// A machine with the state that the actor would keep.
struct Driven {
    machine: Machine,
    now: Tick,
    call: Option<Serial>,
    timer: Option<(Serial, Duration)>,
}

impl Driven {
    fn idle(pace: Pace) -> Self {
        Self {
            machine: Machine::new(pace, StdRng::seed_from_u64(5)),
            now: Tick::after_start(1_000 * S),
            call: None,
            timer: None,
        }
    }

    fn begun(pace: Pace) -> Self {
        let mut driven = Self::idle(pace);
        driven.step(Event::Begin);
        driven
    }

    fn step(&mut self, event: Event) -> Vec<Effect> {
        let effects = self.machine.step(event, self.now);
        for effect in &effects {
            match effect {
                Effect::Poll { call, .. } => (self.call, self.timer) = (Some(*call), None),
                Effect::Arm { timer, after } => {
                    (self.call, self.timer) = (None, Some((*timer, *after)));
                }
                Effect::Cut | Effect::Report(_) => {}
            }
        }
        effects
    }

    fn polled(&mut self, outcome: Result<Polled, ListError>) -> Vec<Effect> {
        let call = self.call.unwrap();
        self.step(Event::Polled { call, outcome })
    }

    fn alarm(&mut self) -> Vec<Effect> {
        let (timer, after) = self.timer.unwrap();
        self.now = self.now + after;
        self.step(Event::Alarm { timer })
    }

    fn armed(&self) -> Duration {
        self.timer.unwrap().1
    }

    fn waits_an_interval(&self) -> bool {
        (27 * S..=33 * S).contains(&self.armed())
    }
}

fn quorum(effects: &[Effect]) -> Option<bool> {
    match effects {
        [.., Effect::Poll { quorum, .. }] => Some(*quorum),
        _ => None,
    }
}

// spec: P-1
#[test]
fn the_first_list_comes_one_interval_after_the_start_and_each_other_one_interval_after_the_last() {
    let mut driven = Driven::begun(BESIDE);
    let mut waits = std::collections::BTreeSet::new();
    for _ in 0..20 {
        assert!(driven.waits_an_interval());
        waits.insert(driven.armed());
        assert_eq!(quorum(&driven.alarm()), Some(false));
        driven.now = driven.now + 7 * S;
        driven.polled(taken_in(true));
    }
    assert!(waits.len() > 10, "with jitter: {waits:?}");
}

// spec: P-1, O-11
#[test]
fn beside_a_watch_a_large_fleet_is_listed_at_most_at_1_000_pods_a_second() {
    for (pace, least, most) in [(BESIDE, 90, 110), (ALONE, 27, 33)] {
        let mut driven = Driven::begun(pace);
        if driven.call.is_none() {
            driven.alarm();
        }
        let list = Polled {
            accepted: true,
            pods: 100_000,
        };
        driven.polled(Ok(list));
        let wait = driven.armed();
        assert!((least * S..=most * S).contains(&wait), "{wait:?}");
        let (interval, is_firm) = (15 * S, true);
        driven.step(Event::NewInterval(NewInterval { interval, is_firm }));
        assert!(driven.armed() <= 17 * S, "O-11: {:?}", driven.armed());
    }
}

// spec: P-1
#[test]
fn without_the_cache_every_list_is_a_quorum_list() {
    let mut driven = Driven::begun(Pace {
        from_cache: false,
        ..BESIDE
    });
    for _ in 0..3 {
        assert_eq!(quorum(&driven.alarm()), Some(true));
        driven.polled(taken_in(true));
    }
}

// spec: P-1, S-13
#[test]
fn after_a_list_that_failed_the_next_one_does_not_come_from_the_cache() {
    let mut driven = Driven::begun(BESIDE);
    driven.alarm();
    for _ in 0..2 {
        driven.polled(Err(refused(None)));
        assert_eq!(quorum(&driven.alarm()), Some(true));
    }
    driven.polled(taken_in(true));
    assert_eq!(quorum(&driven.alarm()), Some(false));
}

// spec: W-6
#[test]
fn without_a_watch_the_poll_begins_with_a_quorum_list_at_once() {
    let mut driven = Driven::idle(ALONE);
    assert_eq!(quorum(&driven.step(Event::Begin)), Some(true));
    let effects = driven.polled(taken_in(true));
    assert_eq!(
        effects[0],
        Effect::Report(Report::Listed {
            first: true,
            pods: 3
        })
    );
    assert!(driven.waits_an_interval());
    assert_eq!(quorum(&driven.alarm()), Some(false));
}

// spec: W-6
#[test]
fn without_a_watch_a_first_list_that_fails_is_tried_again_after_a_backoff() {
    let mut driven = Driven::begun(ALONE);
    for floor in [500, 1_000, 2_000, 4_000].map(Duration::from_millis) {
        driven.polled(Err(refused(None)));
        assert!((floor..=2 * floor).contains(&driven.armed()));
        assert_eq!(quorum(&driven.alarm()), Some(true));
    }
    driven.polled(taken_in(true));
    driven.alarm();
    driven.polled(Err(refused(None)));
    assert!(driven.waits_an_interval(), "later ones wait their turn");
}

// spec: P-2
#[test]
fn a_failed_poll_is_told_once_and_tried_again_at_the_next_interval() {
    let mut driven = Driven::begun(BESIDE);
    for first in [true, false, false] {
        driven.alarm();
        let effects = driven.polled(Err(refused(None)));
        assert!(
            matches!(effects[0], Effect::Report(Report::Trouble { first: f, .. }) if f == first),
            "{effects:?}"
        );
        assert!(driven.waits_an_interval());
    }
    driven.alarm();
    assert_eq!(
        driven.polled(taken_in(true))[0],
        Effect::Report(Report::Recovered)
    );
}

// spec: P-2
#[test]
fn the_server_may_ask_for_a_longer_wait_up_to_the_longest() {
    let mut driven = Driven::begun(Pace {
        interval: 2 * S,
        ..BESIDE
    });
    driven.alarm();
    driven.polled(Err(refused(Some(3_600 * S))));
    assert_eq!(driven.armed(), LONGEST);
}

// spec: S-13
#[test]
fn a_list_of_an_older_history_is_made_again_at_once_but_only_once() {
    let mut driven = Driven::begun(BESIDE);
    driven.alarm();
    assert_eq!(quorum(&driven.polled(taken_in(false))), Some(false));
    driven.polled(taken_in(false));
    assert!(driven.waits_an_interval());
}

fn every_event(serial: Serial) -> [Event; 3] {
    [
        Event::Begin,
        Event::Polled {
            call: serial,
            outcome: taken_in(true),
        },
        Event::Alarm { timer: serial },
    ]
}

#[test]
fn answers_and_alarms_that_are_not_the_current_ones_change_nothing_in_any_state() {
    for mut driven in [Driven::begun(BESIDE), Driven::begun(ALONE)] {
        let before = driven.machine.phase.clone();
        for event in every_event(Serial(u64::MAX)) {
            assert_eq!(driven.step(event), []);
            assert_eq!(driven.machine.phase, before);
        }
    }
    let mut idle = Driven::idle(BESIDE);
    let [_, polled, alarm] = every_event(Serial(1));
    for event in [polled, alarm] {
        assert_eq!(idle.step(event), []);
    }
}

#[test]
fn stop_drops_what_is_in_flight_and_nothing_happens_after_it() {
    for mut driven in [
        Driven::idle(BESIDE),
        Driven::begun(BESIDE),
        Driven::begun(ALONE),
    ] {
        assert_eq!(driven.step(Event::Stop), [Effect::Cut]);
        for event in every_event(Serial(1)) {
            assert_eq!(driven.step(event), []);
        }
    }
}

proptest! {
    // spec: P-2
    #[test]
    fn there_is_always_a_list_in_flight_or_a_timer_armed_and_no_two_lists_begin_at_once(
        seed: u64,
        alone: bool,
        choices in prop::collection::vec((0_u8..5, 0_u64..40_000), 1..100),
    ) {
        let pace = if alone { ALONE } else { BESIDE };
        let mut driven = Driven::begun(pace);
        driven.machine.rng = StdRng::seed_from_u64(seed);
        let mut began: Option<Tick> = None;
        for (choice, ms) in choices {
            let event = match (choice, driven.call, driven.timer) {
                (0, Some(call), _) => Event::Polled { call, outcome: taken_in(true) },
                (1, Some(call), _) => Event::Polled { call, outcome: Err(refused(None)) },
                (2, _, Some((timer, after))) => {
                    driven.now = driven.now + after;
                    Event::Alarm { timer }
                }
                (3, _, armed) if armed.is_none_or(|(timer, _)| timer != Serial(ms)) => {
                    Event::Alarm { timer: Serial(ms) }
                }
                _ => {
                    // Advances the time, but not past the alarm.
                    if driven.call.is_some() {
                        driven.now = driven.now + Duration::from_millis(ms);
                    }
                    continue;
                }
            };
            let effects = driven.step(event);
            if quorum(&effects).is_some() {
                let apart = began.map_or(LONGEST, |began| driven.now.since(began));
                prop_assert!(apart >= S / 2, "{apart:?}");
                began = Some(driven.now);
            }
            prop_assert!(driven.call.is_some() != driven.timer.is_some(), "a dead state");
        }
    }
}

// spec: P-2, W-14
#[test]
fn a_failed_list_is_made_again_when_the_server_is_back() {
    let mut driven = Driven::begun(BESIDE);
    assert_eq!(driven.step(Event::ServerIsBack), [], "none has failed");
    driven.alarm();
    driven.polled(Err(refused(None)));
    let effects = driven.step(Event::ServerIsBack);
    assert!(matches!(effects[..], [Effect::Poll { quorum: true, .. }]));
    driven.step(Event::ServerIsBack);
    driven.polled(Err(refused(None)));
    let (_, after) = driven.timer.unwrap();
    assert!(after < S, "it had begun before: {after:?}");
    driven.alarm();
    driven.polled(Err(refused(None)));
    let (_, after) = driven.timer.unwrap();
    assert!(after > 26 * S, "{after:?}");
    driven.alarm();
    let asked = refused(Some(5 * S));
    driven.polled(Err(asked));
    assert_eq!(driven.step(Event::ServerIsBack), [], "it asked to wait");
}

// spec: C-6
#[test]
fn a_new_interval_counts_from_now_unless_a_list_is_due_sooner() {
    let mut driven = Driven::begun(BESIDE);
    let (_, after) = driven.timer.unwrap();
    assert!(after >= 27 * S);
    driven.step(new_interval(10 * S));
    let (_, after) = driven.timer.unwrap();
    assert!((9 * S..=11 * S).contains(&after), "{after:?}");
    assert_eq!(driven.step(new_interval(100 * S)), []);
    driven.alarm();
    driven.polled(taken_in(true));
    let (_, after) = driven.timer.unwrap();
    assert!((90 * S..=110 * S).contains(&after), "{after:?}");
    driven.alarm();
    let failed = refused(Some(20 * S));
    driven.polled(Err(failed));
    driven.step(new_interval(S));
    let (_, after) = driven.timer.unwrap();
    assert!(after == 20 * S, "the server has asked to wait: {after:?}");
}
