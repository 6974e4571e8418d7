//! Property tests: invariants after any events in any order.

use proptest::prelude::*;
use rand::SeedableRng;

use super::driven::*;
use super::*;
use crate::kubernetes::testing::FIRST;
use crate::model::pod::Sighting;
use crate::model::testing::pending;

/// The next event, out of those that the actor could produce.
#[derive(Debug, Clone)]
enum Happening {
    Answer(Result<u64, TroubleKind>, bool),
    Opened,
    Line(u8, u64),
    Ended(TroubleKind),
    Alarm,
    Anew(u64),
    Stale(u64),
    Back(u64),
    Pass(u64),
}

fn happenings() -> impl Strategy<Value = Happening> {
    let kind = prop::sample::select(vec![
        TroubleKind::Ended,
        TroubleKind::Broke,
        TroubleKind::Expired,
        TroubleKind::Silent,
    ]);
    prop_oneof![
        (
            prop::result::maybe_ok(0_u64..50, kind.clone()),
            any::<bool>()
        )
            .prop_map(|(outcome, accepted)| Happening::Answer(outcome, accepted)),
        Just(Happening::Opened),
        (0_u8..4, 0_u64..50).prop_map(|(line, version)| Happening::Line(line, version)),
        kind.prop_map(Happening::Ended),
        Just(Happening::Alarm),
        (0_u64..4).prop_map(Happening::Anew),
        (0_u64..200).prop_map(Happening::Stale),
        (0_u64..100).prop_map(Happening::Back),
        (0_u64..200_000).prop_map(Happening::Pass),
    ]
}

proptest! {
    // spec: W-9
    #[test]
    fn it_never_ends_and_never_asks_sooner_than_the_backoff_allows(
        seed: u64,
        happenings in prop::collection::vec(happenings(), 1..200),
    ) {
        let mut driven = Driven::begun();
        driven.machine = Machine::new(StdRng::seed_from_u64(seed), None);
        driven.step(Event::Begin);
        let mut last_asked = driven.now;
        let mut rung = None;
        for happening in happenings {
            let call = driven.shell.call;
            let event = match (happening, call) {
                (Happening::Pass(ms), _) => {
                    driven.now = driven.now + Duration::from_millis(ms);
                    continue;
                }
                (Happening::Anew(epoch), _) => Event::Anew { epoch: Epoch(epoch) },
                (Happening::Back(after), _) => Event::ServerIsBack {
                    after: Duration::from_secs(after),
                },
                (Happening::Alarm, _) => match driven.shell.timer {
                    Some((timer, after)) if rung != Some(timer) => {
                        rung = Some(timer);
                        driven.now = driven.now + after;
                        Event::Alarm { timer }
                    }
                    _ => continue,
                },
                (Happening::Stale(serial), _)
                    if Some(Serial(serial)) != call
                        && driven.shell.timer.is_none_or(|(timer, _)| timer != Serial(serial)) =>
                {
                    Event::Ended { call: Serial(serial), why: trouble_of_kind(TroubleKind::Broke) }
                }
                (Happening::Answer(outcome, accepted), Some(call)) => Event::Listed {
                    call,
                    outcome: outcome
                        .map(|version| Listing {
                            version: version.into(),
                            epoch: driven.machine.epoch,
                            accepted,
                            objects: 0,
                        })
                        .map_err(trouble_of_kind),
                },
                (Happening::Opened, Some(call)) => Event::Opened { call },
                (Happening::Line(which, version), Some(call)) => Event::Line {
                    call,
                    line: match which {
                        0 => seen(version),
                        1 => bookmark(version),
                        2 => Line::Garbage(Arc::from("?")),
                        _ => Line::Deleted(Object::Pod(Sighting::Read(Arc::new(pending(
                            "a", 1, "u", version,
                        ))))),
                    },
                },
                (Happening::Ended(kind), Some(call)) => Event::Ended { call, why: trouble_of_kind(kind) },
                _ => continue,
            };
            let after_a_wait = matches!(event, Event::Alarm { .. });
            let effects = driven.step(event);
            let asks = effects
                .iter()
                .filter(|effect| matches!(effect, Effect::List { .. } | Effect::Watch { .. }))
                .count();
            prop_assert!(asks <= 1, "one call at a time");
            if asks == 1 {
                prop_assert!(!after_a_wait || driven.now.since(last_asked) >= FIRST);
                last_asked = driven.now;
            }
            let ended = |effect: &Effect| {
                matches!(effect, Effect::Report(Report::Trouble { .. } | Report::Again { .. }))
            };
            if asks == 0 && effects.iter().any(ended) {
                // Answered or cancelled.
                driven.shell.call = None;
            }
            let waiting = matches!(driven.machine.phase, Phase::Waiting { .. });
            let armed = driven.shell.timer.is_some_and(|(timer, _)| rung != Some(timer));
            prop_assert_eq!(waiting, driven.shell.call.is_none());
            prop_assert!(driven.shell.call.is_some() || armed, "a dead state");
            if matches!(driven.machine.phase, Phase::Watching(_)) {
                prop_assert!(armed, "a silent connection would never be noticed");
            }
        }
    }
}
