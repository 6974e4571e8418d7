//! Conversations recorded from a real API server, with this crate's: every answer must be the recorded one.
//!
//! `README.md` in this folder has the format of the recordings.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod names;
mod paths;
mod recording;
mod replay;
mod stream;

use recording::{Scenario, scenarios};
use replay::{Difference, replay};
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn every_recorded_conversation_is_answered_as_by_a_real_api_server() {
    let scenarios = scenarios();
    let mut unlike = String::new();
    let mut alike = 0;
    for scenario in &scenarios {
        let differences = replay(scenario).await;
        if differences.is_empty() {
            alike += 1;
        }
        for Difference { step, what } in differences {
            let step = step.map_or_else(String::new, |step| format!(" step {step}"));
            unlike.push_str(&format!("{}{step}: {what}\n", scenario.name));
        }
    }
    println!("{alike} of {} conversations are alike", scenarios.len());
    assert!(unlike.is_empty(), "{unlike}");
    assert_eq!((alike, scenarios.len()), (170, 170));
}

#[tokio::test(start_paused = true)]
async fn a_recording_with_another_answer_is_not_alike() {
    for scenario in scenarios() {
        for (step, changed) in with_one_other_answer(&scenario) {
            let differences = replay(&changed).await;
            let steps: Vec<_> = differences.iter().map(|found| found.step).collect();
            assert_eq!(steps, [Some(step)], "{}", scenario.name);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_recording_with_another_order_of_versions_is_not_alike() {
    let mut changed = 0;
    for mut scenario in scenarios() {
        if scenario.rv_order.len() > 1 {
            scenario.rv_order.reverse();
            changed += 1;
            assert_eq!(replay(&scenario).await.len(), 1, "{}", scenario.name);
        }
    }
    assert!(changed > 0);
}

/// The scenario as many times as it expects answers, each time with one value of one answer changed.
fn with_one_other_answer(scenario: &Scenario) -> Vec<(usize, Scenario)> {
    let answered = (0..scenario.steps.len()).filter(|&step| {
        let expected = scenario.steps[step].get("expect");
        expected.is_some_and(|expected| expected.as_object().is_some_and(|all| !all.is_empty()))
    });
    answered
        .map(|step| {
            let mut changed = scenario.clone();
            let expected = changed.steps[step]["expect"].as_object_mut().unwrap();
            let value = expected.values_mut().next_back().unwrap();
            *value = json!({ "other": Value::take(value) });
            (step, changed)
        })
        .collect()
}
