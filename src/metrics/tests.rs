use std::time::Duration;

use super::families::Families;
use super::messages::CallMade;
use crate::model::{AppId, Incarnation, LossClass};

fn families() -> Families {
    Families::new(&AppId::from("app-1"), Incarnation(3))
}

/// The value of a line.
fn value(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}

// spec: O-41
#[test]
fn each_call_is_counted_by_what_became_of_it_and_timed() {
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
