use super::driven::*;
use super::*;
use crate::kubernetes::testing::FIRST;
use crate::model::pod::{Sighting, Unreadable};
use crate::model::testing::pending;

mod silence;

const S: Duration = Duration::from_secs(1);

/// The version watched from, if that is the only effect.
fn watched_from(effects: &[Effect]) -> Option<&ResourceVersion> {
    match effects {
        [Effect::Watch { from, .. }] => Some(from),
        _ => None,
    }
}

fn lists(effects: &[Effect]) -> bool {
    matches!(effects, [Effect::List { .. }])
}

fn trouble(effects: &[Effect]) -> Option<bool> {
    effects.iter().find_map(|effect| match effect {
        Effect::Report(Report::Trouble { first, .. }) => Some(*first),
        _ => None,
    })
}

// spec: W-1
#[test]
fn it_begins_with_a_list_then_watches_from_its_version_and_every_event_is_one_update() {
    let mut driven = Driven::begun();
    let effects = driven.listed(list(10, 4));
    assert_eq!(
        effects[0],
        Effect::Report(Report::Synced {
            first: true,
            objects: 3
        })
    );
    let Effect::Watch {
        from,
        timeout_seconds,
        ..
    } = &effects[1]
    else {
        panic!("{effects:?}");
    };
    assert_eq!(from, &10.into());
    assert!(TIMEOUT_SECONDS.contains(timeout_seconds));
    driven.opened();

    let epoch = Epoch(4);
    let Line::Seen(Object::Pod(pod)) = seen(11) else {
        unreachable!()
    };
    assert_eq!(
        driven.line(Line::Seen(Object::Pod(pod.clone()))),
        [Effect::Tell(News::Seen {
            pod: pod.clone(),
            epoch
        })]
    );
    assert_eq!(
        driven.line(Line::Deleted(Object::Pod(pod.clone()))),
        [Effect::Tell(News::Deleted { pod, epoch })]
    );
    let effects = driven.line(bookmark(20));
    assert_eq!(
        effects.last(),
        Some(&Effect::Tell(News::Bookmark {
            version: 20.into(),
            epoch
        }))
    );
}

// spec: W-2
#[test]
fn a_watch_that_ends_or_breaks_is_resumed_from_the_last_version_of_an_event_or_bookmark() {
    for kind in [TroubleKind::Ended, TroubleKind::Broke] {
        for (lines, from) in [
            (vec![], 10),
            (vec![seen(12)], 12),
            (vec![seen(12), bookmark(30)], 30),
            (vec![bookmark(30), seen(29)], 30),
        ] {
            let mut driven = Driven::watching();
            for line in lines {
                driven.line(line);
            }
            driven.ended(kind);
            assert_eq!(watched_from(&driven.alarm()), Some(&from.into()));
        }
    }
}

// spec: W-2
#[test]
fn a_410_at_the_start_or_in_the_stream_leads_to_a_new_list() {
    let mut at_start = Driven::begun();
    at_start.listed(list(10, 0));
    at_start.ended(TroubleKind::Expired);
    assert!(lists(&at_start.alarm()));

    let mut in_stream = Driven::watching();
    in_stream.line(seen(11));
    in_stream.ended(TroubleKind::Expired);
    assert!(lists(&in_stream.alarm()));
}

// spec: W-9
#[test]
fn a_server_that_ends_every_watch_at_once_is_asked_ever_more_rarely() {
    let mut driven = Driven::watching();
    let mut asked = 1;
    while driven.now < at(300) {
        driven.ended(TroubleKind::Ended);
        assert!(watched_from(&driven.alarm()).is_some());
        driven.opened();
        asked += 1;
    }
    assert!(asked <= 26, "asked {asked} times in five minutes");
}

// spec: W-9
#[test]
fn a_server_that_shows_one_event_and_ends_each_watch_is_asked_at_most_twice_a_second() {
    let mut driven = Driven::watching();
    let mut asked = 1;
    while driven.now < at(60) {
        driven.line(seen(11));
        driven.ended(TroubleKind::Ended);
        driven.alarm();
        driven.opened();
        asked += 1;
    }
    assert!(asked <= 121, "asked {asked} times in a minute");
}

// spec: W-9
#[test]
fn a_watch_that_lived_long_is_resumed_at_once() {
    let mut driven = Driven::watching();
    driven.line(seen(11));
    driven.now = at(400);
    let effects = driven.ended(TroubleKind::Ended);
    assert_eq!(driven.armed(), Duration::ZERO);
    assert_eq!(trouble(&effects), None, "this is its normal life");
}

// spec: W-9
#[test]
fn a_connection_alone_does_not_reset_the_backoff_but_an_event_or_a_bookmark_does() {
    for (line, resets) in [
        (seen(11), true),
        (bookmark(11), true),
        (Line::Garbage(Arc::from("?")), false),
    ] {
        let mut driven = Driven::watching();
        for _ in 0..6 {
            driven.ended(TroubleKind::Ended);
            driven.alarm();
            driven.opened();
        }
        driven.line(line);
        driven.ended(TroubleKind::Ended);
        assert_eq!(driven.armed() <= 2 * FIRST, resets);
    }
}

// spec: W-9
#[test]
fn the_server_may_ask_for_a_longer_wait_up_to_the_longest() {
    for (asked, least) in [(20, 20), (100_000, 30)] {
        let mut driven = Driven::begun();
        driven.listed(Err(Trouble {
            retry_after: Some(asked * S),
            ..trouble_of_kind(TroubleKind::Broke)
        }));
        assert_eq!(driven.armed(), least * S);
        assert!(lists(&driven.alarm()));
    }
}

// spec: W-2
#[test]
fn a_watch_that_always_breaks_on_what_comes_next_goes_around_it_by_a_list() {
    let mut driven = Driven::watching();
    for _ in 1..BREAKS_BEFORE_LIST {
        driven.ended(TroubleKind::Broke);
        assert!(watched_from(&driven.alarm()).is_some());
        driven.opened();
    }
    driven.ended(TroubleKind::Broke);
    assert!(lists(&driven.alarm()));
    driven.listed(list(20, 0));
    driven.opened();
    driven.ended(TroubleKind::Broke);
    assert_eq!(watched_from(&driven.alarm()), Some(&20.into()));
}

// spec: W-5
#[test]
fn what_cannot_be_read_is_told_counted_and_does_not_end_the_stream() {
    let mut driven = Driven::watching();
    let unreadable = |count, error: &str| {
        Effect::Report(Report::Unreadable {
            count,
            error: Arc::from(error),
        })
    };
    assert_eq!(
        driven.line(Line::Garbage(Arc::from("type NEW"))),
        [unreadable(1, "type NEW")]
    );
    let pod = Sighting::Unreadable(Unreadable {
        name: None,
        uid: None,
        version: Some(17.into()),
        identity: None,
        error: Arc::from("spec: a number"),
    });
    assert_eq!(
        driven.line(Line::Seen(Object::Pod(pod.clone()))),
        [Effect::Tell(News::Seen {
            pod,
            epoch: Epoch(0)
        })],
        "the store says it, as of lists"
    );
    driven.ended(TroubleKind::Ended);
    assert_eq!(watched_from(&driven.alarm()), Some(&17.into()));
}

// spec: S-13
#[test]
fn a_new_history_gives_up_the_watch_of_an_older_one_at_once() {
    let mut opening = Driven::begun();
    opening.listed(list(10, 1));
    for mut driven in [Driven::watching(), opening] {
        let effects = driven.step(Event::Anew { epoch: Epoch(2) });
        assert!(
            matches!(effects[..], [Effect::Cut, Effect::List { .. }]),
            "{effects:?}"
        );
        driven.listed(list(3, 2));
        driven.opened();
        assert_eq!(
            driven.step(Event::Anew { epoch: Epoch(2) }),
            [],
            "known already"
        );
        assert_eq!(
            driven.line(seen(4)).last(),
            Some(&Effect::Tell(News::Seen {
                pod: Sighting::Read(Arc::new(pending("a", 1, "u", 4))),
                epoch: Epoch(2)
            }))
        );
    }

    let mut waiting = Driven::watching();
    waiting.ended(TroubleKind::Broke);
    assert_eq!(waiting.step(Event::Anew { epoch: Epoch(2) }), []);
    assert!(
        lists(&waiting.alarm()),
        "it does not resume in a history that is over"
    );
}

// spec: S-13
#[test]
fn a_list_of_an_older_history_is_made_again_even_where_its_verdict_came_late() {
    let mut refused = Driven::begun();
    refused.listed(list(10, 1).map(|list| Listing {
        accepted: false,
        ..list
    }));
    assert!(lists(&refused.alarm()));

    let mut overtaken = Driven::begun();
    overtaken.step(Event::Anew { epoch: Epoch(2) });
    overtaken.listed(list(10, 1));
    assert!(lists(&overtaken.alarm()));
    assert!(matches!(
        overtaken.listed(list(3, 2))[..],
        [Effect::Report(_), Effect::Watch { .. }]
    ));
}

// spec: O-40
#[test]
fn trouble_is_told_once_and_so_is_its_end() {
    let mut driven = Driven::begun();
    assert_eq!(
        trouble(&driven.listed(Err(trouble_of_kind(TroubleKind::Broke)))),
        Some(true)
    );
    driven.alarm();
    assert_eq!(
        trouble(&driven.listed(Err(trouble_of_kind(TroubleKind::Broke)))),
        Some(false)
    );
    driven.alarm();
    driven.listed(list(10, 0));
    assert_eq!(trouble(&driven.ended(TroubleKind::Broke)), Some(false));
    driven.alarm();
    driven.opened();
    assert_eq!(driven.line(seen(11))[0], Effect::Report(Report::Recovered));
    assert_eq!(driven.line(seen(12)).len(), 1);
}

// spec: O-40
#[test]
fn a_watch_that_stays_open_after_trouble_works_again_although_it_shows_nothing() {
    let mut driven = Driven::watching();
    assert_eq!(trouble(&driven.ended(TroubleKind::Broke)), Some(true));
    driven.alarm();
    driven.opened();
    assert_eq!(driven.armed(), WORKS_AFTER);
    assert_eq!(trouble(&driven.ended(TroubleKind::Broke)), Some(false));
    driven.alarm();
    driven.opened();
    let said = driven.alarm();
    assert!(
        said.contains(&Effect::Report(Report::Recovered)),
        "{said:?}"
    );
    let rest = driven.machine.longest_silence(Duration::from_secs(300)) - WORKS_AFTER;
    assert!(driven.armed() >= rest, "and silence still ends it");
    assert!(!driven.alarm().contains(&Effect::Report(Report::Recovered)));
}

#[test]
fn stop_drops_what_is_in_flight_and_nothing_happens_after_it() {
    let mut idle = Driven::begun();
    idle.machine = machine();
    let mut waiting = Driven::watching();
    waiting.ended(TroubleKind::Broke);
    let mut opening = Driven::begun();
    opening.listed(list(10, 0));
    for mut driven in [idle, Driven::begun(), opening, Driven::watching(), waiting] {
        assert_eq!(driven.step(Event::Stop), [Effect::Cut]);
        for event in every_event(Serial(1)) {
            assert_eq!(driven.step(event), []);
        }
    }
}

fn every_event(serial: Serial) -> Vec<Event> {
    vec![
        Event::Begin,
        Event::Listed {
            call: serial,
            outcome: list(10, 0),
        },
        Event::Opened { call: serial },
        Event::Line {
            call: serial,
            line: seen(11),
        },
        Event::Ended {
            call: serial,
            why: trouble_of_kind(TroubleKind::Broke),
        },
        Event::Alarm { timer: serial },
        Event::Anew { epoch: Epoch(0) },
    ]
}

#[test]
fn answers_and_alarms_that_are_not_the_current_ones_change_nothing_in_any_state() {
    let mut waiting = Driven::watching();
    waiting.ended(TroubleKind::Broke);
    let mut opening = Driven::begun();
    opening.listed(list(10, 0));
    for mut driven in [Driven::begun(), opening, Driven::watching(), waiting] {
        let before = driven.machine.phase.clone();
        for event in every_event(Serial(u64::MAX)) {
            assert_eq!(driven.step(event), []);
            assert_eq!(driven.machine.phase, before);
        }
    }
    let mut idle = machine();
    for event in every_event(Serial(1)).split_off(1) {
        assert_eq!(idle.step(event, at(0)), []);
        assert_eq!(idle.phase, Phase::Idle);
    }
}

/// Fails to open the watch this often.
fn fails(driven: &mut Driven, times: u32) {
    for _ in 0..times {
        driven.ended(TroubleKind::Broke);
        driven.alarm();
    }
    driven.ended(TroubleKind::Broke);
}

// spec: W-14
#[test]
fn when_the_server_is_back_a_waiting_watch_resumes_at_once_and_its_backoff_begins_anew() {
    let back = Event::ServerIsBack { after: 20 * S };
    let mut driven = Driven::watching();
    fails(&mut driven, 8);
    assert!(driven.armed() >= 22 * S);
    let effects = driven.step(back.clone());
    assert_eq!(watched_from(&effects), Some(&10.into()));
    driven.ended(TroubleKind::Broke);
    assert!(driven.armed() < S, "{:?}", driven.armed());

    let mut driven = Driven::begun();
    for _ in 0..8 {
        driven.listed(Err(trouble_of_kind(TroubleKind::Broke)));
        driven.alarm();
    }
    driven.step(back.clone());
    driven.listed(Err(trouble_of_kind(TroubleKind::Broke)));
    assert!(driven.armed() < S, "a list that was in flight");
    assert!(lists(&driven.step(back)));
}

// spec: W-9, W-14
#[test]
fn a_wait_that_the_server_asked_for_outlasts_an_outage() {
    let mut driven = Driven::watching();
    fails(&mut driven, 8);
    driven.alarm();
    let call = driven.call();
    let why = Trouble {
        retry_after: Some(5 * S),
        ..trouble_of_kind(TroubleKind::Broke)
    };
    driven.step(Event::Ended { call, why });
    driven.now = driven.now + 2 * S;
    let effects = driven.step(Event::ServerIsBack { after: 20 * S });
    assert!(matches!(effects[..], [Effect::Arm { after, .. }] if after == 3 * S));
    assert_eq!(watched_from(&driven.alarm()), Some(&10.into()));
}

// spec: W-14
#[test]
fn a_watch_without_a_line_since_the_outage_began_is_opened_again_from_its_version() {
    let back = Event::ServerIsBack { after: 20 * S };
    let reopened = |effects: &[Effect]| {
        let watch = effects.iter().find_map(|effect| match effect {
            Effect::Watch { from, .. } => Some(from.clone()),
            _ => None,
        });
        (effects.contains(&Effect::Cut), watch)
    };
    let mut driven = Driven::watching();
    driven.line(bookmark(12));
    driven.now = driven.now + 21 * S;
    let effects = driven.step(back.clone());
    assert_eq!(reopened(&effects), (true, Some(12.into())));
    let effects = driven.step(back.clone());
    let again = (true, Some(12.into()));
    assert_eq!(reopened(&effects), again, "nor one that is being opened");

    driven.opened();
    assert_eq!(driven.step(back.clone()), [], "opened since");
    driven.now = driven.now + 21 * S;
    driven.line(seen(13));
    assert_eq!(driven.step(back), [], "it has shown something");
}

// spec: W-15
#[test]
fn without_a_poll_a_watch_that_begins_long_after_the_list_begins_with_one() {
    let mut driven = Driven::watching();
    driven.machine.list_again_after = Some(LIST_AGAIN_AFTER);
    driven.now = at(299);
    driven.line(bookmark(11));
    driven.ended(TroubleKind::Ended);
    assert_eq!(watched_from(&driven.alarm()), Some(&11.into()));
    driven.opened();
    driven.now = at(301);
    driven.ended(TroubleKind::Broke);
    assert!(lists(&driven.alarm()));
    driven.listed(list(12, 0));
    driven.opened();
    driven.now = at(560);
    driven.ended(TroubleKind::Ended);
    assert_eq!(watched_from(&driven.alarm()), Some(&12.into()));
}
