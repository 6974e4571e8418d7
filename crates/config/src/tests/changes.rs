//! Tests of a configuration that is read again.

use std::collections::BTreeSet;

use super::pools::pooled;
use super::*;

/// Each key that takes effect while the driver runs, with a value that is not its default.
const OTHER: &[&str] = &[
    "app.max_executors=70",
    "poll.interval=7s",
    "allocation.batch_size=70",
    "allocation.max_rate=7",
    "allocation.max_pending=7",
    "allocation.pending_timeout=7m",
    "allocation.stuck_after=7s",
    "allocation.registration_timeout=7m",
    "allocation.cancel_delay=7s",
    "lifecycle.keep=failed",
    "lifecycle.keep_most=7",
    "lifecycle.keep_for=7h",
    "failures.max=7",
    "failures.backoff_initial=7s",
    "failures.backoff_max=7m",
    "backend.heartbeat_timeout=7m",
    "backend.loss_reason_timeout=7m",
    "backend.mass_loss=7%",
    "backend.kill_grace=7s",
    "autoscaling.ratio=0.7",
    "autoscaling.backlog_timeout=7s",
    "autoscaling.sustained_timeout=7s",
    "autoscaling.idle_timeout=7m",
    "autoscaling.demand_ttl=7m",
    "log.level=debug",
    "profiles.default.executors=7",
    "profiles.default.spares=7",
    "profiles.default.max_executors=70",
    "profiles.default.max_pending=7",
    "pools.batch.executors=7",
];

fn reading_with(text: &str, sets: &[&str]) -> Reading {
    let (env, sets) = overrides(&[], sets);
    let (config, effective) = Config::explain_toml(text, "a.toml", env, &sets).unwrap();
    Reading { config, effective }
}

fn reading(text: &str) -> Reading {
    reading_with(&format!("{LEAST}{text}"), &[])
}

pub(super) fn changes(before: &str, after: &str) -> Changes {
    compare(&reading(before), &reading(after)).unwrap()
}

pub(super) fn at_next_start(changes: &Changes) -> Vec<&str> {
    changes.at_next_start.iter().map(String::as_str).collect()
}

fn taken(changes: &Changes) -> Vec<String> {
    changes.taken.iter().map(ToString::to_string).collect()
}

// spec: C-6
#[test]
fn exactly_the_keys_of_the_list_take_effect_while_the_driver_runs() {
    let known: BTreeSet<String> = Config::known_keys()
        .into_iter()
        .map(|key| key.path)
        .collect();
    let listed: BTreeSet<&str> = WHILE_RUNNING.iter().copied().collect();
    assert_eq!(listed.len(), WHILE_RUNNING.len(), "each once");
    let name = |set: &str| {
        let (key, _) = set.split_once('=').unwrap();
        key.replace(".default.", ".NAME.")
            .replace(".batch.", ".NAME.")
    };
    let tested: BTreeSet<String> = OTHER.iter().map(|set| name(set)).collect();
    for key in &listed {
        assert!(known.contains(*key), "{key} is no key");
        assert!(tested.contains(*key), "{key} has no value in this test");
    }
    let before = format!("{}[backend]\nlisten = \"127.0.0.1:0\"\n", pooled(""));
    let (before, text) = (reading(&before), format!("{LEAST}{before}"));
    for set in OTHER {
        let after = reading_with(&text, &[set]);
        let changes = compare(&before, &after).unwrap();
        assert_eq!(changes.taken.len(), 1, "{set}");
        assert_eq!(changes.reading.config, after.config, "{set}");
        assert_eq!(at_next_start(&changes), [""; 0], "{set}");
        let again = compare(&changes.reading, &after).unwrap();
        assert!(
            again.taken.is_empty() && again.at_next_start.is_empty(),
            "{set}"
        );
    }
    let changes = compare(&before, &reading_with(&text, OTHER)).unwrap();
    assert_eq!(changes.taken.len(), WHILE_RUNNING.len());
}

// spec: C-6
#[test]
fn the_documentation_lists_the_keys_that_take_effect_while_the_driver_runs() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = std::fs::read_to_string(path).unwrap();
    let section = text
        .split("\n## ")
        .find(|part| part.starts_with("Read it again"));
    let words = section.unwrap().split('`').skip(1).step_by(2);
    let known = Config::known_keys();
    let is_key = |word: &&str| known.iter().any(|key| key.path == *word);
    let shown: BTreeSet<&str> = words.filter(is_key).collect();
    assert_eq!(shown, WHILE_RUNNING.iter().copied().collect());
}

// spec: C-6
#[test]
fn every_other_key_is_named_and_left() {
    let sets = [
        "cluster.request_timeout=40s",
        "poll.enabled=false",
        "app.properties={ mode = \"fast\" }",
        "profiles.default.image=engine:2",
        "profiles.default.node_selector.\"a/b\"=c",
        "failures.window=2h",
        "poll.interval=7s",
    ];
    let (before, after) = (reading(""), reading_with(LEAST, &sets));
    let changes = compare(&before, &after).unwrap();
    let expected = [
        "allocation.creation_timeout",
        "app.properties",
        "cluster.request_timeout",
        "failures.window",
        "poll.enabled",
        "profiles.default.image",
        "profiles.default.node_selector",
    ];
    assert_eq!(at_next_start(&changes), expected);
    assert_eq!(taken(&changes), ["poll.interval: \"30s\" → \"7s\""]);
    let mut config = before.config.clone();
    config.poll.interval = Duration::from_secs(7);
    assert_eq!(changes.reading.config, config);
    let again = compare(&changes.reading, &after).unwrap();
    assert_eq!(at_next_start(&again), expected, "as long as they differ");
    assert!(again.taken.is_empty());
}

// spec: C-6, O-80
#[test]
fn a_new_profile_is_added_and_one_that_is_gone_stays() {
    let large = "[profiles.large]\nimage = \"b\"\nexecutors = 3\n";
    let mut added = changes("", large);
    assert_eq!(added.added, BTreeSet::from(["large".into()]));
    assert!(added.taken.is_empty() && added.at_next_start.is_empty() && added.targets.is_empty());
    assert_eq!(added.reading.config, reading(large).config);
    let more = format!("{large}slots = 2\n").replace("executors = 3", "executors = 4");
    let more = compare(&added.reading, &reading(&more)).unwrap();
    assert_eq!(more.targets, BTreeMap::from([("large".into(), 4)]));
    assert_eq!(at_next_start(&more), ["profiles.large.slots"]);
    let gone = compare(&added.reading, &reading("")).unwrap();
    assert_eq!(at_next_start(&gone), ["profiles.large"]);
    assert_eq!(gone.reading.config, added.reading.config);
    added.leave(&"large".into());
    assert_eq!(at_next_start(&added), ["profiles.large"]);
    assert_eq!(added.reading.config, reading("").config);
    let later = compare(&added.reading, &reading(large)).unwrap();
    assert_eq!(later.added, BTreeSet::from(["large".into()]));
}

// spec: C-6
#[test]
fn a_secret_that_has_changed_is_named_but_not_shown() {
    let (before, after) = (
        "env = { DB_PASSWORD = \"a\" }\nargs = [\"--password\", \"b\"]\n",
        "env = { DB_PASSWORD = \"c\" }\nargs = [\"--password\", \"d\"]\n",
    );
    let changes = changes(before, after);
    assert_eq!(
        at_next_start(&changes),
        ["profiles.default.args", "profiles.default.env"]
    );
}

// spec: C-6
#[test]
fn values_that_contradict_what_stays_are_refused() {
    let before = "[backend]\nheartbeat_interval = \"1m\"\nheartbeat_timeout = \"10m\"\nlisten = \"127.0.0.1:7078\"\n\
                  plain_http = true\nauth = \"kubernetes\"\n";
    let after = before.replace("1m", "1s").replace("10m", "10s");
    let error = compare(&reading(before), &reading(&after)).unwrap_err();
    assert_eq!(keys(&error), ["backend.heartbeat_timeout"]);
    let message = error.to_string();
    assert!(message.contains("only at the next start"), "{message}");
}

// spec: C-6
#[test]
fn a_template_whose_file_has_changed_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let (file, template) = (
        directory.path().join("a.toml"),
        directory.path().join("t.yaml"),
    );
    std::fs::write(&file, format!("{LEAST}template = \"t.yaml\"\n")).unwrap();
    let read = |grace: u32| {
        let text = format!(
            "spec:\n  terminationGracePeriodSeconds: {grace}\n  containers: [{{name: executor}}]\n"
        );
        std::fs::write(&template, text).unwrap();
        let (config, effective) = Config::explain(&file, [], &[]).unwrap();
        Reading { config, effective }
    };
    let (before, after) = (read(5), read(6));
    let changes = compare(&before, &after).unwrap();
    assert_eq!(at_next_start(&changes), ["profiles.default.template"]);
    assert_eq!(changes.reading.config, before.config);
}
