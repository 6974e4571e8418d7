use std::collections::BTreeSet;
use std::time::Duration;

use super::families::Families;
use super::messages::SessionMeasures;
use crate::actors::snapshot_store::messages::{Measures, RoundMade, Subscriber};
use crate::kubernetes::calls::CallMade;
use crate::model::{AppId, Incarnation, LossClass, Snapshot};
use crate::testing::at;
use crate::testing::pages::{code, rows};

fn families() -> Families {
    Families::new(&AppId::from("app-1"), Incarnation(3))
}

fn value(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}

// spec: O-41
#[test]
fn each_call_is_counted_by_outcome_and_timed() {
    let families = families();
    for (outcome, took) in [("ok", 3), ("ok", 30), ("quota", 3)] {
        families.called(&CallMade {
            verb: "POST",
            resource: "pods",
            outcome,
            answered: true,
            took: Duration::from_millis(took),
        });
    }
    let text = families.text().unwrap();
    let of = "{verb=\"POST\",resource=\"pods\"";
    let calls = |outcome: &str| {
        value(
            &text,
            &format!("boatswain_api_calls_total{of},outcome=\"{outcome}\"}}"),
        )
    };
    assert_eq!(
        (calls("ok"), calls("quota"), calls("wait")),
        (Some(2.0), Some(1.0), None)
    );
    assert_eq!(
        value(&text, &format!("boatswain_api_call_seconds_count{of}}}")),
        Some(3.0)
    );
    assert_eq!(
        value(
            &text,
            "boatswain_api_call_seconds_bucket{le=\"0.005\",verb=\"POST\",resource=\"pods\"}"
        ),
        Some(2.0)
    );
}

// spec: O-41
#[test]
fn ends_and_starts_are_counted_by_profile() {
    let families = families();
    let gpu = "gpu".into();
    families.ended(&gpu, LossClass::OomKilled, true);
    families.started(&gpu, Duration::from_millis(1_500));
    let text = families.text().unwrap();
    let ended =
        "boatswain_executors_ended_total{profile=\"gpu\",reason=\"OomKilled\",failure=\"true\"}";
    assert_eq!(value(&text, ended), Some(1.0));
    assert_eq!(
        value(
            &text,
            "boatswain_executor_start_seconds_sum{profile=\"gpu\"}"
        ),
        Some(1.5)
    );
    let build = "boatswain_build_info{version=\"";
    assert!(
        text.contains(build) && text.contains("app=\"app-1\",incarnation=\"3\"}"),
        "{text}"
    );
}

/// The metric names that may appear in queries.
fn names(text: &str) -> BTreeSet<String> {
    let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    kinds
        .flat_map(|line| {
            let (name, kind) = line.split_once(' ').unwrap();
            let endings: &[&str] = match kind {
                "counter" => &["_total"],
                "histogram" => &["_bucket", "_sum", "_count"],
                "info" => &["_info"],
                _ => &[""],
            };
            endings.iter().map(move |ending| format!("{name}{ending}"))
        })
        .collect()
}

// spec: O-41
#[test]
fn the_dashboard_shows_exactly_the_existing_metrics() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/grafana.json");
    let text = std::fs::read_to_string(file).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let asked: BTreeSet<String> = (panels.iter())
        .flat_map(|panel| panel["targets"].as_array().unwrap())
        .map(|target| target["expr"].as_str().unwrap())
        .flat_map(|expr| {
            let word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
            expr.split(word)
                .filter(|word| word.starts_with("boatswain_"))
        })
        .map(str::to_owned)
        .collect();
    let there = names(&families().text().unwrap());
    assert!(asked.is_subset(&there), "{:?}", asked.difference(&there));
    // Of a histogram the dashboard needs the buckets only.
    let shown = |name: &&String| !name.ends_with("_sum") && !name.ends_with("_count");
    let unseen: Vec<&String> = there
        .iter()
        .filter(shown)
        .filter(|n| !asked.contains(*n))
        .collect();
    assert!(unseen.is_empty(), "{unseen:?}");
    let places: BTreeSet<String> = panels
        .iter()
        .map(|panel| panel["gridPos"].to_string())
        .collect();
    assert_eq!(places.len(), panels.len(), "no panel lies on another");
}

// spec: O-41
#[test]
fn the_documentation_lists_exactly_the_existing_metrics() {
    let text = families().text().unwrap();
    let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let there: BTreeSet<String> = kinds
        .map(|line| {
            let (name, kind) = line.split_once(' ').unwrap();
            let ending = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            format!("{name}{ending}")
        })
        .collect();
    let page = include_str!("../../../docs/operations.md");
    let documented = rows(page, "## Metrics");
    let documented = documented.iter().flat_map(|row| code(row[0]));
    let documented: BTreeSet<String> = documented.map(|name| format!("boatswain_{name}")).collect();
    assert_eq!(documented, there);
}

// spec: O-41
#[test]
fn rounds_are_timed_by_subscriber_and_ages_count_from_the_last_news() {
    let families = families();
    families.decided(RoundMade {
        subscriber: Subscriber::Allocator,
        took: Duration::from_millis(3),
    });
    let measures = Measures {
        tombstones: 0,
        unrecognised: 0,
        suspects: 0,
        waiting: 7,
        changed: Some(at(10_000)),
        bookmark: None,
    };
    families.measure(&measures, at(42_000));
    let text = families.text().unwrap();
    let value = |name| value(&text, name);
    assert_eq!(
        value("boatswain_round_seconds_count{subscriber=\"allocator\"}"),
        Some(1.0)
    );
    assert_eq!(
        value("boatswain_round_seconds_sum{subscriber=\"allocator\"}"),
        Some(0.003)
    );
    assert_eq!(value("boatswain_snapshots_waiting"), Some(7.0));
    assert_eq!(value("boatswain_snapshot_age_seconds"), Some(32.0));
}

// spec: O-41, O-114
#[test]
fn the_expiry_of_the_certificate_is_shown_where_there_is_one() {
    let families = families();
    let name = "boatswain_tls_certificate_expiration_timestamp_seconds{listeners=\"api,sessions\"}";
    assert_eq!(value(&families.text().unwrap(), name), None);
    families.expires(jiff::Timestamp::from_second(1_800_000_000).unwrap());
    let shown = value(&families.text().unwrap(), name);
    assert_eq!(shown, Some(1_800_000_000.0));
}

// spec: O-41
#[test]
fn sessions_are_shown_by_state_and_their_messages_are_counted_once() {
    let families = families();
    let measures = SessionMeasures {
        connected: 3,
        disabled: 1,
        heard: [("heartbeat", 40), ("register", 4)].into(),
        refused: [("bad-message".to_owned(), 2)].into(),
        degraded: vec![("keys", true), ("mass-loss", false)],
        ..SessionMeasures::default()
    };
    families.sessions(&measures);
    families.sessions(&measures);
    families.depths(&[("calls-owed", 9)]);
    families.answered("backend", Duration::from_millis(2));
    families.registered(&"gpu".into(), Duration::from_secs(3));
    let text = families.text().unwrap();
    for (name, expected) in [
        ("sessions{state=\"connected\"}", 3.0),
        ("sessions{state=\"disabled\"}", 1.0),
        ("degraded{why=\"keys\"}", 1.0),
        ("degraded{why=\"mass-loss\"}", 0.0),
        ("session_messages_total{type=\"heartbeat\"}", 40.0),
        ("session_messages_refused_total{code=\"bad-message\"}", 2.0),
        ("queue_depth{queue=\"calls-owed\"}", 9.0),
        ("mailbox_wait_seconds_sum{actor=\"backend\"}", 0.002),
        ("executor_registration_seconds_sum{profile=\"gpu\"}", 3.0),
    ] {
        let found = value(&text, &format!("boatswain_{name}"));
        assert_eq!(found, Some(expected), "{name}\n{text}");
    }
}

// spec: B-57, O-41
#[test]
fn nothing_of_a_removed_profile_is_shown() {
    let families = families();
    let (gpu, cpu) = ("gpu".into(), "cpu".into());
    let mut snapshot = Snapshot::default();
    for profile in [&gpu, &cpu] {
        families.ended(profile, LossClass::Exited, false);
        families.started(profile, Duration::from_secs(1));
        families.registered(profile, Duration::from_secs(2));
        let target = crate::model::snapshot::Target::removed(at(0));
        snapshot.targets.insert(profile.clone(), target);
    }
    families.show(&snapshot, at(0));
    families.forget(&gpu);
    let text = families.text().unwrap();
    assert!(!text.contains("profile=\"gpu\""), "{text}");
    assert!(text.contains("profile=\"cpu\""), "{text}");
}
