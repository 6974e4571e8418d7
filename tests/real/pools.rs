//! Tests a pool of profiles on nodes of KWOK's that a test makes for itself: the preferred profile has little room first.

use serde_json::{Value, json};

use super::place::{API, ON_KWOK, Place, config, shape};
use super::process::until;

/// A node for a profile of this namespace's pool, with room for so many pods.
fn node(place: &Place, profile: &str, number: usize, room: usize) -> Value {
    let labels = json!({"profile": profile});
    place.kwok_node(&format!("{profile}-{number}"), &labels, room)
}

/// A profile of executors that run on its nodes only.
fn profile(place: &Place, profile: &str) -> String {
    let (name, shape) = (place.name(), shape());
    format!(
        r#"
[profiles.{profile}]
{shape}node_selector = {{ test = "{name}", profile = "{profile}" }}
{ON_KWOK}
"#
    )
}

const POOL: &str = r#"
[pools.batch]
profiles = ["spot", "on-demand"]
executors = 5
fallback_after = "5s"
return_after = "5s"
"#;

/// How many executors run on nodes of this profile.
fn on(pods: &[Value], place: &Place, profile: &str) -> usize {
    let begin = format!("{}-{profile}-", place.name());
    let runs = |pod: &&Value| {
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        pod["status"]["phase"] == "Running" && node.starts_with(&begin)
    };
    pods.iter().filter(runs).count()
}

// spec: B-74, B-75, B-76, O-43
#[test]
fn what_finds_no_room_runs_on_demand_and_returns_when_there_is_room_without_an_executor_less() {
    let place = Place::new("pools");
    place.apply(&[
        node(&place, "spot", 1, 3),
        node(&place, "on-demand", 1, 110),
    ]);
    let profiles = ["spot", "on-demand"]
        .map(|name| profile(&place, name))
        .concat();
    let driver = place.drive(
        &(config(0) + &profiles + POOL + API),
        &["--generate-secrets"],
    );
    until("three run on spot, two on demand", || {
        let pods = place.executors();
        let split = (on(&pods, &place, "spot"), on(&pods, &place, "on-demand"));
        (split == (3, 2) && pods.len() == 5).then_some(())
    });
    let status = place.ask(&["status"]);
    assert!(
        status.contains("pool batch: 5 wanted: 3 (usually 5) of spot"),
        "{status}"
    );
    place.apply(&[node(&place, "spot", 2, 110)]);
    let mut fewest = usize::MAX;
    until("all run on spot", || {
        let pods = place.executors();
        let split = (on(&pods, &place, "spot"), on(&pods, &place, "on-demand"));
        fewest = fewest.min(split.0 + split.1);
        (split == (5, 0) && pods.len() == 5).then_some(())
    });
    assert!(fewest >= 5, "{fewest} were running");
    place.ask(&["scale", "batch=6"]);
    place.run(6);
    assert_eq!(on(&place.executors(), &place, "spot"), 6);
    driver.until("the moves are logged", |log| {
        let moves = log.lines("executors of a pool move to other profiles");
        (moves.len() >= 2).then_some(())
    });
    let nodes = format!("test={}", place.name());
    place.told(&["delete", "node", "--selector", &nodes]);
}
