use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::figures::{BringUp, Ends, PhaseSeconds, Shortfalls, Spread};
use super::page;
use super::sizes::{Requests, Size};
use super::timeline::{End, Life, Phase, Timeline, TimelineError};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Events of one incarnation: second, name, further fields.
fn events(events: &[(i64, &str, Value)]) -> String {
    let lines = events
        .iter()
        .zip(1..)
        .map(|((second, name, more), number)| {
            let mut event =
                json!({"id": format!("1-{number}"), "time": at(*second), "event": name});
            let more = more.as_object().cloned().unwrap_or_default();
            event.as_object_mut().unwrap().extend(more);
            format!("{event}\n")
        });
    lines.collect()
}

fn of(executor: u64) -> Value {
    json!({"executor": executor, "profile": "p"})
}

fn ended(executor: u64, reason: &str, failure: bool) -> Value {
    json!({"executor": executor, "profile": "p", "reason": reason, "failure": failure, "why": "because"})
}

/// Two executors come up, one dies and is replaced, the application ends.
fn a_run() -> String {
    events(&[
        (
            0,
            "began",
            json!({"app": "a<b", "adopted": 0, "targets": {"p": 2}}),
        ),
        (0, "requested", of(1)),
        (0, "requested", of(2)),
        (1, "pending", of(1)),
        (1, "pending", of(2)),
        (3, "running", of(1)),
        (4, "running", of(2)),
        (5, "registered", of(1)),
        (7, "registered", of(2)),
        (20, "requested", of(3)),
        (20, "ended", ended(1, "OomKilled", true)),
        (21, "running", of(3)),
        (24, "registered", of(3)),
        (30, "ending", json!({"exit_code": 0})),
        (30, "leaving", of(2)),
        (30, "leaving", of(3)),
        (32, "ended", ended(2, "Killed", false)),
        (32, "ended", ended(3, "Killed", false)),
    ])
}

fn read(lines: &str) -> Timeline {
    Timeline::read(lines).unwrap()
}

// spec: O-111
#[test]
fn the_numbers_tell_bring_up_losses_and_time_without_work() {
    let figures = read(&a_run()).figures("p");
    assert_eq!(
        (
            figures.requested,
            figures.ran,
            figures.ended,
            figures.failures
        ),
        (3, 3, 3, 1)
    );
    let bring_up = BringUp {
        executors: 2,
        seconds: 7.0,
    };
    assert_eq!(figures.bring_up, Some(bring_up));
    let to_registered = Spread {
        median: 5.0,
        p99: 7.0,
        most: 7.0,
    };
    assert_eq!(figures.to_registered, Some(to_registered));
    // From the loss at 20 to the registration at 24. After 30 nothing is missing: the application ends.
    let shortfalls = Shortfalls {
        number: 1,
        seconds: 4.0,
        longest: 4.0,
        executor_seconds: 4.0,
    };
    assert_eq!(figures.shortfalls, Some(shortfalls));
    let seconds = PhaseSeconds {
        requested: 1.0 + 1.0 + 1.0,
        pending: 2.0 + 3.0,
        unregistered: 2.0 + 3.0 + 3.0,
        working: 15.0 + 23.0 + 6.0,
        uncertain: 0.0,
        leaving: 2.0 + 2.0,
    };
    assert_eq!(figures.seconds, seconds);
    let killed = Ends {
        number: 2,
        failures: 0,
        why: "because".to_owned(),
    };
    assert_eq!(figures.ends.get("Killed"), Some(&killed));
}

// spec: O-111, A-118
#[test]
fn a_spare_has_waited_for_a_loss_and_not_for_its_own_start() {
    let spare = || json!({"executor": 2, "profile": "p-spares"});
    let lines = events(&[
        (
            0,
            "began",
            json!({"adopted": 0, "targets": {"p": 1, "p-spares": 1}}),
        ),
        (0, "requested", of(1)),
        (0, "requested", spare()),
        (2, "running", of(1)),
        (2, "running", spare()),
        (5, "registered", of(1)),
        (50, "ended", ended(1, "Exited", true)),
        (50, "promoted", of(2)),
        (51, "registered", of(2)),
        (60, "ended", ended(2, "Exited", true)),
    ]);
    let figures = read(&lines).figures("p");
    let to_registered = figures.to_registered.unwrap();
    assert_eq!((to_registered.median, to_registered.most), (1.0, 5.0));
    let shortfalls = figures.shortfalls.unwrap();
    assert_eq!(shortfalls.longest, 1.0);
}

// spec: O-111
#[test]
fn executors_that_never_register_work_while_their_pods_run() {
    let lines = events(&[
        (0, "target-changed", json!({"profile": "p", "target": 1})),
        (0, "requested", of(1)),
        (2, "running", of(1)),
        (9, "ended", ended(1, "Exited", true)),
    ]);
    let figures = read(&lines).figures("p");
    assert_eq!(figures.to_registered, None);
    assert_eq!(figures.seconds.working, 7.0);
    assert_eq!(figures.seconds.unregistered, 0.0);
}

// spec: O-83
#[test]
fn an_event_that_a_reader_got_twice_counts_once() {
    let once = read(&a_run());
    let twice = read(&(a_run() + &a_run()));
    assert_eq!(once, twice);
}

// spec: O-111
#[test]
fn a_pods_own_time_never_reverses_an_executors_phases() {
    let lines = events(&[
        (0, "requested", of(1)),
        // Noticed at 5, when the pod had been running since 3.
        (5, "pending", of(1)),
        (3, "running", of(1)),
        (8, "running", of(1)),
    ]);
    let timeline = read(&lines);
    let phases = [
        (at(0), Phase::Requested),
        (at(3), Phase::Pending),
        (at(3), Phase::Running),
    ];
    assert_eq!(timeline.lives[&1].phases, phases);
}

// spec: O-83
#[test]
fn a_stream_with_a_gap_begins_with_who_is_alive_and_who_has_ended() {
    let living = json!({
        "event": "living", "gap": true, "time": at(100),
        "executors": [{"executor": 7, "profile": "p", "state": "running", "age_seconds": 40, "node": "n", "session": {}}],
        "ended": [{"id": "1-9", "time": at(60), "event": "ended", "executor": 6, "profile": "p", "reason": "Evicted", "failure": false, "why": "w"}],
    });
    let next = events(&[(130, "disabled", of(7))]);
    let timeline = read(&format!("{living}\n{next}"));
    let six = Life {
        profile: "p".to_owned(),
        end: Some(End {
            time: at(60),
            reason: "Evicted".to_owned(),
            failure: false,
            why: "w".to_owned(),
        }),
        ..Life::default()
    };
    assert_eq!(timeline.lives[&6], six);
    let phases = [(at(60), Phase::Registered), (at(130), Phase::Uncertain)];
    assert_eq!(timeline.lives[&7].phases, phases);
    let gap = &timeline.incidents[0];
    assert_eq!((&*gap.event, gap.time), ("gap", at(100)));
    assert!(gap.what.contains("no longer had them"));
    let figures = timeline.figures("p");
    assert_eq!((figures.requested, figures.earlier), (0, 2));
    assert_eq!((figures.ran, figures.ended), (1, 1));
}

// spec: O-111
#[test]
fn the_executors_that_a_driver_adopted_are_there_from_its_start() {
    let lines = events(&[
        (100, "began", json!({"adopted": 2, "targets": {"p": 2}})),
        (110, "ended", ended(6, "OomKilled", true)),
        (110, "requested", of(8)),
        (112, "running", of(8)),
    ]);
    let living = json!({
        "event": "living", "time": at(120),
        "executors": [
            {"executor": 7, "profile": "p", "state": "running", "age_seconds": 20},
            {"executor": 8, "profile": "p", "state": "running", "age_seconds": 10},
        ],
    });
    let timeline = read(&format!("{lines}{living}\n"));
    assert_eq!((timeline.begin, timeline.end), (at(100), at(120)));
    for adopted in [6, 7] {
        assert_eq!(timeline.lives[&adopted].phases, [(at(100), Phase::Running)]);
    }
    let figures = timeline.figures("p");
    assert_eq!((figures.requested, figures.earlier, figures.ran), (1, 2, 3));
    let shortfalls = figures.shortfalls.unwrap();
    assert_eq!((shortfalls.number, shortfalls.seconds), (1, 2.0));
    assert_eq!(figures.bring_up, None);
    let page = page::page(&timeline);
    assert!(page.contains("1 executors were requested, 2 were there before; 3 ran"));
}

// spec: O-83
#[test]
fn a_stream_that_goes_on_with_the_next_driver_says_so() {
    let first = events(&[(0, "requested", of(1))]);
    let living = json!({
        "event": "living", "gap": true, "time": at(8),
        "executors": [{"executor": 1, "profile": "p", "state": "running", "age_seconds": 4}],
        "ended": [],
    });
    let next =
        json!({"event": "running", "executor": 1001, "profile": "p", "id": "2-7", "time": at(9)});
    let timeline = read(&format!("{first}\n{living}\n{next}"));
    let what = &timeline.incidents[0].what;
    assert!(
        what.starts_with("the next driver took over (incarnation 2)"),
        "{what}"
    );
    let figures = timeline.figures("p");
    assert_eq!((figures.requested, figures.earlier), (1, 1));
}

// spec: O-83
#[test]
fn a_gap_names_the_driver_that_follows_it() {
    let first = events(&[(0, "requested", of(1))]);
    let living = |incarnation: u64| {
        json!({
            "event": "living", "gap": true, "time": at(2), "executors": [],
            "ended": [{"id": format!("{incarnation}-0"), "time": at(1), "event": "ended", "executor": 1, "profile": "p"}],
        })
    };
    let timeline = read(&format!("{first}\n{}\n{}\n", living(2), living(3)));
    let gaps: Vec<&str> = (timeline.incidents.iter().map(|gap| &*gap.what)).collect();
    assert!(gaps[0].contains("(incarnation 2)"), "{gaps:?}");
    assert!(gaps[1].contains("(incarnation 3)"), "{gaps:?}");
}

// spec: O-83
#[test]
fn a_line_that_is_no_event_is_named() {
    let error = Timeline::read(&format!(
        "\n{}\nnonsense\n",
        events(&[(1, "ready", json!({}))]).trim()
    ))
    .unwrap_err();
    assert!(
        error.to_string().starts_with("line 3 is not an event"),
        "{error}"
    );
    assert!(matches!(Timeline::read(" \n"), Err(TimelineError::Empty)));
}

// spec: O-83
#[test]
fn a_page_shows_hostile_text_as_text_and_loads_nothing() {
    let hostile = "<script>alert('1')</script>";
    let lines = events(&[
        (
            0,
            "began",
            json!({"app": hostile, "adopted": 0, "targets": {}}),
        ),
        (0, "requested", json!({"executor": 1, "profile": hostile})),
        (1, "degraded", json!({"why": hostile})),
        (
            2,
            "ended",
            json!({"executor": 1, "profile": hostile, "reason": hostile, "failure": true, "why": hostile}),
        ),
    ]);
    let page = page::page(&read(&lines));
    assert!(
        !page.contains("<script") && page.contains("<h1>&lt;script&gt;"),
        "{page}"
    );
    for loads in ["src=", "href=", "url(", "@import"] {
        assert!(!page.contains(loads), "{loads}");
    }
}

// spec: O-83
#[test]
fn a_page_of_ten_thousand_executors_stays_a_page() {
    let many: Vec<_> = (1..=10_000_u64)
        .flat_map(|executor| {
            let second = i64::try_from(executor / 10).unwrap();
            [
                (second, "requested", of(executor)),
                (second + 1, "running", of(executor)),
                (second + 2, "ended", ended(executor, "Exited", true)),
            ]
        })
        .collect();
    let page = page::page(&read(&events(&many)));
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    assert!(page.contains("9000 later executors are not drawn"));
}

// spec: O-83, W-15
#[test]
fn ends_are_counted_by_zone_and_capacity_type_where_these_are_known() {
    let running = |executor: u64, zone: &str, capacity_type: &str| {
        let mut running = of(executor);
        running["zone"] = json!(zone);
        running["capacity_type"] = json!(capacity_type);
        running
    };
    let lines = events(&[
        (
            0,
            "began",
            json!({"app": "a", "adopted": 0, "targets": {"p": 3}}),
        ),
        (0, "requested", of(1)),
        (0, "requested", of(2)),
        (0, "requested", of(3)),
        (1, "pending", of(1)),
        (2, "running", running(1, "north", "spot")),
        (2, "running", running(2, "north", "spot")),
        (2, "running", running(3, "south", "on-demand")),
        (10, "ended", ended(1, "NodeLeaving", false)),
        (12, "ended", ended(2, "OomKilled", true)),
        (22, "ending", json!({"exit_code": 0})),
    ]);
    let timeline = read(&lines);
    let places = timeline.figures("p").places;
    let of = |name: &str| &places[name];
    let ends = [("NodeLeaving", 1), ("OomKilled", 1)];
    let ends = BTreeMap::from(ends.map(|(reason, number)| (reason.to_owned(), number)));
    assert_eq!(
        (
            of("north, spot").executors,
            of("north, spot").seconds,
            &of("north, spot").ends
        ),
        (2, 19.0, &ends)
    );
    assert_eq!(
        (
            of("south, on-demand").executors,
            of("south, on-demand").seconds
        ),
        (1, 20.0)
    );
    assert!(page::page(&timeline).contains("1 NodeLeaving, 1 OomKilled"));
}

/// An executor that ran for an hour, and what its container had used at its end.
fn used(executor: u64, reason: &str, usage: &Value) -> Vec<(i64, &'static str, Value)> {
    let mut end = ended(executor, reason, false);
    end["usage"] = usage.clone();
    vec![
        (0, "requested", of(executor)),
        (0, "running", of(executor)),
        (3_600, "ended", end),
    ]
}

// spec: O-145
#[test]
fn sizes_tell_what_99_percent_needed_and_what_was_requested_beyond_that() {
    let usage = |memory: u64, cores: f64| {
        json!({"memory_bytes": 1, "memory_limit_bytes": 1_u64 << 30, "peak_memory_bytes": memory << 20,
               "p99_cpu_cores": cores})
    };
    let mut happened: Vec<_> = (1..=99)
        .flat_map(|n| used(n, "Killed", &usage(n, 0.5)))
        .collect();
    happened.extend(used(100, "Killed", &usage(900, 4.0)));
    happened.extend(used(101, "Killed", &Value::Null));
    happened.sort_by_key(|(second, ..)| *second);
    let mut timeline = read(&events(&happened));
    let sizes = |timeline: &Timeline| timeline.figures("p").sizes.unwrap();
    let unknown = sizes(&timeline);
    assert_eq!(unknown.executors, 100);
    assert_eq!(unknown.memory_mebibytes.saved_hours, None);
    let status = json!({"container": {"requests": {"memory": "1Gi", "cpu": "2"}}});
    timeline.requests = [("p".to_owned(), Requests::of(&status))].into();
    let known = sizes(&timeline);
    let memory = Size {
        p99: 99,
        requested: Some(1_024),
        saved_hours: Some(925.0 * 101.0),
    };
    assert_eq!(known.memory_mebibytes, memory);
    let cpu = Size {
        p99: 500,
        requested: Some(2_000),
        saved_hours: Some(1_500.0 * 101.0),
    };
    assert_eq!(known.cpu_millicores, Some(cpu));
    let html = page::page(&timeline);
    let told = "99 % of 100 executors needed 99Mi or less; 1024Mi are requested, 91.2 GiB h more than that";
    assert!(html.contains(told), "{html}");
    let told = "99 % of them used 500m or less in 99 % of their time; 2 are requested, 151.5 core hours more than that";
    assert!(html.contains(told), "{html}");
}

// spec: O-145
#[test]
fn an_executor_that_was_killed_for_want_of_memory_needed_its_limit() {
    let usage =
        json!({"memory_bytes": 1, "memory_limit_bytes": 64 << 20, "peak_memory_bytes": 5 << 20});
    let sizes = read(&events(&used(1, "OomKilled", &usage)))
        .figures("p")
        .sizes
        .unwrap();
    assert_eq!(sizes.memory_mebibytes.p99, 64);
    assert_eq!(sizes.cpu_millicores, None);
}

// spec: O-145
#[test]
fn executors_that_live_tell_their_use_by_their_sessions() {
    let living = json!({"executors": [{
        "executor": 1, "profile": "p", "state": "running", "age_seconds": 5,
        "session": {"usage": {"memory_bytes": 1, "peak_memory_bytes": 7 << 20}},
    }]});
    let sizes = read(&events(&[(9, "living", living)]))
        .figures("p")
        .sizes
        .unwrap();
    assert_eq!((sizes.executors, sizes.memory_mebibytes.p99), (1, 7));
}
