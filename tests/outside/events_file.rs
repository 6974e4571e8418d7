//! Tests the file that keeps an application's events.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use super::cluster::Cluster;
use super::driver::Driver;
use super::local_run::Local;
use super::process::{boatswain, until};

fn events(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

fn of<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events
        .iter()
        .filter(|event| event["event"] == name)
        .collect()
}

/// The numbers that `boatswain report` makes of a file.
fn report(file: &Path) -> Value {
    let mut report = boatswain();
    let report = report.arg("report").arg(file).args(["-o", "json"]);
    serde_json::from_slice(&report.output().unwrap().stdout).unwrap()
}

// spec: B-70, B-50, O-83, L-30
#[test]
fn a_file_has_the_events_of_each_driver_up_to_the_applications_end_and_its_reason() {
    let cluster = Cluster::any();
    let file = cluster.file("events.jsonl");
    let set = format!("history.file={}", file.display());
    let sets = ["failures.max=0", &*set];
    let mut first = Driver::start(&cluster, 3, &sets);
    cluster.settles(3);
    let all_run = || (of(&events(&file), "running").len() == 3).then_some(());
    until("the file has all that run", all_run);
    first.kill();

    let mut second = Driver::start(&cluster, 3, &sets);
    cluster.api.kill_for_memory("t-exec-2");
    assert_eq!(second.exit(), Some(11));
    let events = events(&file);
    let began: Vec<&Value> = of(&events, "began");
    assert_eq!(began.len(), 2, "{events:?}");
    assert_ne!(began[0]["id"], began[1]["id"]);
    let ended = of(&events, "ended");
    let ended: BTreeSet<u64> = ended
        .iter()
        .filter_map(|end| end["executor"].as_u64())
        .collect();
    assert!(ended.is_superset(&BTreeSet::from([1, 2, 3])), "{ended:?}");
    let why = of(&events, "ending")[0]["why"].as_str().unwrap();
    assert!(
        why.contains("OomKilled: killed for want of memory"),
        "{why}"
    );

    let figures = &report(&file)["default"];
    assert!(figures["requested"].as_u64() >= Some(3), "{figures}");
    assert_eq!(
        figures["earlier"], 0,
        "of each executor the request is there"
    );
    assert_eq!(figures["failures"], 1);
}

// spec: B-70
#[test]
fn a_file_that_cannot_be_written_is_said_once_and_holds_nothing_up() {
    let cluster = Cluster::any();
    let file = cluster.file("no-directory/events.jsonl");
    let set = format!("history.file={}", file.display());
    let mut driver = Driver::start(&cluster, 2, &[&set]);
    cluster.settles(2);
    let said = driver
        .says("events cannot be handed over: the driver keeps the last 10,000, and tries again");
    let error = said["error"].as_str().unwrap();
    assert!(error.contains("No such file"), "{error}");
    fs::create_dir(file.parent().unwrap()).unwrap();
    driver.says("events are handed over again");
    until("the file has the events from the first on", || {
        let events = events(&file);
        (of(&events, "running").len() == 2).then_some(events[0]["event"] == "began")
    });
}

// spec: O-11, L-1, L-3, B-70, O-83
#[test]
fn executors_that_the_end_does_not_wait_for_have_their_ends_in_file_and_report() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("events.jsonl");
    let history = format!("history.file={}", file.display());
    let sets = [
        "profiles.default.command=[\"/bin/sh\", \"-c\"]",
        "profiles.default.args=[\"trap : TERM; while true; do sleep 1; done\"]",
        "profiles.default.termination_grace=1h",
        "shutdown.grace=8s",
        &*history,
    ];
    let reason = "there the executors would terminate for an hour";
    let Some(mut local) = Local::embedded(&sets, reason) else {
        return;
    };
    local.runs(&[1, 2, 3, 4]);
    local.driver.signal(Signal::TERM);
    assert_eq!(local.driver.exit(), Some(0));
    let line = local
        .driver
        .says("executors were deleted and terminate still: their ends were not waited for");
    assert_eq!(line["count"], 4, "{line}");
    assert!(line["until"].is_string(), "{line}");
    assert_ne!(line["nodes"], "", "{line}");
    local.driver.says("the application has ended");

    let events = events(&file);
    let ended = of(&events, "ended");
    let who: BTreeSet<u64> = ended
        .iter()
        .filter_map(|end| end["executor"].as_u64())
        .collect();
    assert_eq!(who, BTreeSet::from([1, 2, 3, 4]), "{events:?}");
    for end in ended {
        assert_eq!(end["reason"], "Killed");
        assert_eq!(
            end["why"],
            "the application ended; deleted, its end was not waited for"
        );
    }
    let figures = &report(&file)["default"];
    assert_eq!(figures["ended"], 4, "{figures}");
    assert_eq!(figures["ends"]["Killed"]["number"], 4, "{figures}");
}
