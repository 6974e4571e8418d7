use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::kubernetes::FailureKind;
use crate::kubernetes::calls::CallMade;
use crate::testing::pages::{code, rows};

fn metrics() -> Metrics {
    Metrics::new(&AppId::from("app-1"), Incarnation(3))
}

fn value(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}

// spec: O-41
#[test]
fn each_call_is_counted_by_outcome_and_timed() {
    let metrics = metrics();
    for (failure, took) in [(None, 3), (None, 30), (Some(FailureKind::Quota), 3)] {
        let call = CallMade {
            verb: "POST",
            resource: "pods",
            failure,
            took: Duration::from_millis(took),
            write: None,
        };
        metrics.count_call(&call);
    }
    let text = metrics.text().unwrap();
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

/// The metrics that a query names.
fn asked_for(query: &str) -> impl Iterator<Item = String> {
    let ends_word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    let words = query.split(ends_word);
    let is_ours = |word: &&str| word.starts_with("boatswain_") || word.starts_with("process_");
    let ours = words.filter(is_ours);
    ours.map(str::to_owned)
}

// spec: O-41
#[test]
fn the_alerts_ask_for_existing_metrics_and_the_documentation_says_what_to_do_about_each() {
    let text = include_str!("../../deploy/chart/files/alerts.yaml");
    let alerts: serde_json::Value = serde_saphyr::from_str(text).unwrap();
    let page = include_str!("../../docs/operations.md");
    let documented = page
        .lines()
        .filter_map(|line| line.strip_prefix("### Boatswain"));
    let mut documented: BTreeSet<String> =
        documented.map(|name| format!("Boatswain{name}")).collect();
    let there = names(&metrics().text().unwrap());
    for rule in alerts["groups"][0]["rules"].as_array().unwrap() {
        let name = rule["alert"].as_str().unwrap();
        let query = rule["expr"].as_str().unwrap();
        let asked: BTreeSet<String> = asked_for(query).collect();
        assert!(!asked.is_empty() && asked.is_subset(&there), "{name}");
        // The chart puts a driver's own job in the place of this.
        let selected = query.matches("{job=~\".+\"").count();
        assert_eq!(selected, query.matches('{').count(), "{name}");
        let link = format!("/docs/operations.md#{}", name.to_lowercase());
        let runbook = rule["annotations"]["runbook_url"].as_str().unwrap();
        assert!(runbook.ends_with(&link), "{runbook}");
        assert!(documented.remove(name), "docs/operations.md lacks {name}");
    }
    assert_eq!(documented, BTreeSet::new());
}

// spec: O-41
#[test]
fn the_dashboard_shows_exactly_the_existing_metrics() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/deploy/chart/files/grafana.json"
    );
    let text = std::fs::read_to_string(file).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let asked: BTreeSet<String> = (panels.iter())
        .flat_map(|panel| panel["targets"].as_array().unwrap())
        .flat_map(|target| asked_for(target["expr"].as_str().unwrap()))
        .collect();
    let there = names(&metrics().text().unwrap());
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
    let text = metrics().text().unwrap();
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
    let page = include_str!("../../docs/operations.md");
    let documented = rows(page, "## Metrics");
    let documented = documented.iter().flat_map(|row| code(row[0]));
    let full = |name: &str| match name.starts_with("process_") {
        true => name.to_owned(),
        false => format!("boatswain_{name}"),
    };
    let documented: BTreeSet<String> = documented.map(full).collect();
    assert_eq!(documented, there);
}

// spec: O-41
#[test]
fn the_clones_count_together_and_the_build_is_shown() {
    let metrics = metrics();
    metrics
        .clone()
        .ended
        .of(["gpu".into(), "OomKilled".into(), "true".into()])
        .inc();
    metrics.starts.of(["gpu".into()]).observe(1.5);
    let text = metrics.text().unwrap();
    let ended =
        "boatswain_executors_ended_total{profile=\"gpu\",reason=\"OomKilled\",failure=\"true\"}";
    assert_eq!(value(&text, ended), Some(1.0));
    let started = "boatswain_executor_start_seconds_sum{profile=\"gpu\"}";
    assert_eq!(value(&text, started), Some(1.5));
    let build = "boatswain_build_info{version=\"";
    assert!(
        text.contains(build) && text.contains("app=\"app-1\",incarnation=\"3\"}"),
        "{text}"
    );
}

// spec: O-41
#[actix::test]
async fn each_actor_is_measured_before_the_metrics_are_shown_and_one_that_has_stopped_is_skipped() {
    struct Measured;

    impl actix::Actor for Measured {
        type Context = actix::Context<Self>;
    }

    impl actix::Handler<Measure> for Measured {
        type Result = ();

        fn handle(&mut self, Measure(metrics): Measure, _: &mut Self::Context) {
            metrics.depths.of(["calls-owed".into()]).set(9);
        }
    }

    let stopped = {
        let context = actix::Context::<Measured>::new();
        actix::AsyncContext::address(&context)
    };
    let scraper = Scraper {
        metrics: metrics(),
        actors: vec![
            ("lifecycle", actix::Actor::start(Measured).recipient()),
            ("history", stopped.recipient()),
        ],
    };
    let text = scraper.scrape().await.unwrap();
    assert_eq!(
        value(&text, "boatswain_queue_depth{queue=\"calls-owed\"}"),
        Some(9.0)
    );
    let waited = |actor| {
        value(
            &text,
            &format!("boatswain_mailbox_wait_seconds_count{{actor=\"{actor}\"}}"),
        )
    };
    assert_eq!((waited("lifecycle"), waited("history")), (Some(1.0), None));
}
