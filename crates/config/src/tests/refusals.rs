//! Tests of what is refused, and with which message.

use super::*;

// spec: C-2
#[test]
fn a_mistake_is_told_with_its_place_its_path_what_was_found_and_what_is_allowed() {
    assert_eq!(
        with("[allocation]\n  batch_size = 0")
            .unwrap_err()
            .to_string(),
        "a.toml:2:16: allocation.batch_size: found 0\n  \
         allowed: a whole number from 1 to 10000"
    );
    assert_eq!(
        with("[poll]\ninterval = 30").unwrap_err().to_string(),
        "a.toml:2:12: poll.interval: found 30\n  \
         allowed: a duration from 100ms to 1day, such as \"30s\" or \"1h 30m\"; give the unit, in quotes"
    );
    assert_eq!(
        with("[cluster]\nmode = \"local\"").unwrap_err().to_string(),
        "a.toml:2:8: cluster.mode: found \"local\"\n  allowed: \"kubernetes\" or \"embedded\""
    );
}

// spec: C-2
#[test]
fn an_unknown_key_is_told_with_the_nearest_known_one() {
    assert_eq!(
        with("[watch]\nenable = true").unwrap_err().to_string(),
        "a.toml:2:1: watch.enable: no such key\n  did you mean enabled? known here: enabled"
    );
    let message = with("[alocation]").unwrap_err().to_string();
    assert!(
        message.starts_with("a.toml:1:2: alocation: no such section\n  did you mean allocation? "),
        "{message}"
    );
    let message = with("shutdown = { patience = \"1s\" }")
        .unwrap_err()
        .to_string();
    assert!(
        message.ends_with("no such key\n  known here: on_signal, grace"),
        "{message}"
    );
}

// spec: C-2
#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_file() {
    let text = "[lifecycle]\nkeep_most = -1\n[log]\nlevel = \"loud\"\n[watch]\nenabled = 1\nx = 1";
    let error = with(text).unwrap_err();
    assert_eq!(
        keys(&error),
        [
            "lifecycle.keep_most",
            "log.level",
            "watch.enabled",
            "watch.x"
        ]
    );
}

// spec: C-2
#[test]
fn what_is_not_toml_is_told_with_its_place() {
    let message = refused("[app]\nname = \n");
    assert!(message.starts_with("a.toml:2:"), "{message}");
    let message = refused("[app]\nname = \"a\"\nname = \"b\"\n");
    assert!(
        message.starts_with("a.toml:3:1: duplicate key"),
        "{message}"
    );
    assert!(refused(&"[".repeat(100_000)).starts_with("a.toml:1:"));
    assert!(refused(&format!("a = {}", "[".repeat(100_000))).starts_with("a.toml:1:"));
}

// spec: C-2
#[test]
fn columns_count_characters() {
    let message = with("app = { name = \"ähm\", nome = 1 }")
        .unwrap_err()
        .to_string();
    assert!(message.starts_with("a.toml:1:23: app.nome: "), "{message}");
}

/// Values that are refused: the text, the key that is named, and a part of the message.
const IMPOSSIBLE: &[(&str, &str, &str)] = &[
    ("app = 1", "app", "allowed: a section, [app]"),
    ("app.id = \"a b\"", "app.id", "label's value"),
    ("app.id = \"\"", "app.id", "label's value"),
    ("app.name = \"\"", "app.name", "not empty"),
    (
        "cluster.namespace = \"Jobs\"",
        "cluster.namespace",
        "lowercase",
    ),
    (
        "cluster.request_timeout = \"0s\"",
        "cluster.request_timeout",
        "from 100ms",
    ),
    (
        "cluster.start_timeout = \"9999999999y\"",
        "cluster.start_timeout",
        "to 1day",
    ),
    (
        "cluster.start_timeout = \"soon\"",
        "cluster.start_timeout",
        "as \"30s\"",
    ),
    (
        "driver.pod_name = \"a/b\"",
        "driver.pod_name",
        "a pod's name",
    ),
    (
        "allocation.batch_size = -1",
        "allocation.batch_size",
        "from 1 to 10000",
    ),
    (
        "allocation.batch_size = 18446744073709551616",
        "allocation.batch_size",
        "from 1 to",
    ),
    (
        "allocation.batch_size = 1.5",
        "allocation.batch_size",
        "found 1.5",
    ),
    (
        "executors.pod_name_prefix = \"1a\"",
        "executors.pod_name_prefix",
        "a letter first",
    ),
    (
        "executors.pod_name_prefix = \"a-very-long-prefix-that-fits-no-pods-name\"",
        "executors.pod_name_prefix",
        "at most 38",
    ),
    (
        "executors.labels = \"flink\"",
        "executors.labels",
        "\"boatswain\" or \"spark\"",
    ),
    ("watch.enabled = \"yes\"", "watch.enabled", "true or false"),
    (
        "watch.enabled = 2026-01-01",
        "watch.enabled",
        "found 2026-01-01",
    ),
    ("allocation.max_rate = 0", "allocation.max_rate", "from 1"),
    (
        "allocation.max_in_flight = []",
        "allocation.max_in_flight",
        "found a list",
    ),
    (
        "shutdown.grace = \"1500ms\"",
        "shutdown.grace",
        "whole seconds",
    ),
    (
        "backend.registration = \"required\"",
        "backend.registration",
        "set backend.listen",
    ),
    (
        "[backend]\nlisten = \"0.0.0.0:7078\"\nplain_http = true",
        "backend.url",
        "http://driver.jobs:7078",
    ),
    ("backend.listen = \"7078\"", "backend.listen", "with a port"),
    (
        "profiles.default = { image = \"a\", command = [\"worker\"] }\nbackend.listen = \"127.0.0.1:1\"\nagent.inject = \"init\"",
        "agent.image",
        "/usr/bin/boatswain-agent",
    ),
    (
        "profiles.default = { image = \"a\", command = [\"worker\"] }\nagent = { inject = \"init\", image = \"boatswain:1\" }",
        "agent.inject",
        "set backend.listen",
    ),
    (
        "backend.listen = \"127.0.0.1:1\"\nagent = { inject = \"image\", image = \"boatswain:1\" }",
        "profiles.default.command",
        "entrypoint",
    ),
    (
        "agent.decommission_command = \"true\"",
        "agent.decommission_command",
        "set agent.inject",
    ),
    (
        "[backend]\nlisten = \"127.0.0.1:1\"\nauth = \"derived\"",
        "backend.key_file",
        "name a file",
    ),
    (
        "backend.url = \"driver:7078\"",
        "backend.url",
        "http://driver.jobs:7078",
    ),
    (
        "[backend]\nlisten = \"127.0.0.1:1\"\nheartbeat_timeout = \"29s\"",
        "backend.heartbeat_timeout",
        "at least 30s",
    ),
    ("backend.mass_loss = 20", "backend.mass_loss", "in quotes"),
    (
        "backend.mass_loss = \"101%\"",
        "backend.mass_loss",
        "\"100%\"",
    ),
    (
        "log.format = \"xml\"",
        "log.format",
        "\"json\" or \"pretty\"",
    ),
    (
        "[profiles.\"a b\"]\nimage = \"a\"",
        "profiles.\"a b\"",
        "lowercase letters",
    ),
    (
        "[profiles.a]\nimage = \"a b\"",
        "profiles.a.image",
        "an image",
    ),
    (
        "[profiles.a]\nimage = \"a\"\ncommand = \"sleep\"",
        "profiles.a.command",
        "a list",
    ),
    (
        "[profiles.a]\nimage = \"a\"\ncommand = [\"a\", 1]",
        "profiles.a.command[1]",
        "found 1",
    ),
    (
        "[profiles.a]\nimage = \"a\"\ncommand = [\"\"]",
        "profiles.a.command",
        "name a program",
    ),
    (
        "[profiles.a]\nimage = \"a\"\nargs = [\"a\\u0000b\"]",
        "profiles.a.args[0]",
        "a text",
    ),
    (
        "[profiles.a]\nimage = \"a\"\nenv = { A = 1 }",
        "profiles.a.env.A",
        "found 1",
    ),
    (
        "[profiles.a]\nimage = \"a\"\nenv = { \"A=B\" = \"\" }",
        "profiles.a.env.\"A=B\"",
        "no digit first",
    ),
    (
        "[profiles.a]\nimage = \"a\"\nenv = { BOATSWAIN_APP_ID = \"\" }",
        "profiles.a.env.BOATSWAIN_APP_ID",
        "boatswain's own",
    ),
    (
        "[profiles.a]\nimage = \"a\"\nenv = []",
        "profiles.a.env",
        "a section of names",
    ),
    (
        "[profiles.a]\nimage = \"a\"\ncpu = \"0\"",
        "profiles.a.cpu",
        "steps of 1m",
    ),
    (
        "[profiles.a]\nimage = \"a\"\ncpu = \"1u\"",
        "profiles.a.cpu",
        "steps of 1m",
    ),
    (
        "[profiles.a]\nimage = \"a\"\nmemory = \"500m\"",
        "profiles.a.memory",
        "mebibytes are \"Mi\"",
    ),
    (
        "[profiles.a]\nimage = \"a\"\nmemory = \"1GB\"",
        "profiles.a.memory",
        "as \"512Mi\"",
    ),
    (
        "[profiles.a]\nimage = \"a\"\ntermination_grace = \"0s\"",
        "profiles.a.termination_grace",
        "from 1s",
    ),
    (
        "[profiles.a]\nimage = \"a\"\nnode_selector = { \"a/b/c\" = \"\" }",
        "profiles.a.node_selector.\"a/b/c\"",
        "a label's key",
    ),
    (
        "[profiles.a]\nimage = \"a\"\ntolerations = [1]",
        "profiles.a.tolerations[0]",
        "a section",
    ),
    (
        "[profiles.a]\nimage = \"a\"\ntolerations = [{}]",
        "profiles.a.tolerations[0]",
        "name the key",
    ),
    (
        "[profiles.a]\nimage = \"a\"\ntolerations = [{ key = \"a\", operator = \"Exists\", value = \"b\" }]",
        "profiles.a.tolerations[0].value",
        "leave the value out",
    ),
    (
        "[profiles.a]\nimage = \"a\"\ntolerations = [{ key = \"a\", tolerate_for = \"1s\" }]",
        "profiles.a.tolerations[0].tolerate_for",
        "NoExecute",
    ),
    (
        "[profiles.a]\nimage = \"a\"\ntolerations = [{ key = \"a\", efect = \"NoExecute\" }]",
        "profiles.a.tolerations[0].efect",
        "did you mean effect?",
    ),
];

/// Contradictions: the text, the key that is named, and a part of the message.
const CONTRADICTIONS: &[(&str, &str, &str)] = &[
    ("app.name = \"日本\"", "app.name", "letter or digit"),
    (
        "cluster.request_timeout = \"40s\"\nallocation.creation_timeout = \"1m\"",
        "allocation.creation_timeout",
        "at least 1m 20s",
    ),
    (
        "failures.backoff_initial = \"10m\"",
        "failures.backoff_initial",
        "at most 5m",
    ),
    (
        "embedded.node = \"process\"",
        "embedded.node",
        "only with cluster.mode = \"embedded\"",
    ),
    (
        "cluster.mode = \"embedded\"\ncluster.context = \"a\"\nembedded.node = \"simulated\"",
        "cluster.context",
        "only with cluster.mode = \"kubernetes\"",
    ),
    (
        "cluster.mode = \"embedded\"\nembedded = { node = \"simulated\", state_dir = \"/tmp\" }",
        "embedded.state_dir",
        "only with embedded.node = \"process\"",
    ),
    (
        "cluster.mode = \"embedded\"\nembedded.start_delay = \"1s\"\nprofiles.default.command = [\"a\"]",
        "embedded.start_delay",
        "only with embedded.node = \"simulated\"",
    ),
    (
        "cluster.mode = \"embedded\"",
        "profiles.default.command",
        "name a program",
    ),
    (
        "[profiles.a]\nexecutors = 1",
        "profiles.a.image",
        "name an image",
    ),
    (
        "[profiles.a]\nimage = \"a\"\ncpu = \"2\"\ncpu_limit = \"1500m\"",
        "profiles.a.cpu",
        "above cpu_limit",
    ),
    (
        "[profiles.a]\nimage = \"a\"\nmemory = \"1Gi\"\nmemory_limit = \"1G\"",
        "profiles.a.memory",
        "at most 1G",
    ),
];

// spec: C-2, K-5, W-6, A-14
#[test]
fn impossible_values_and_contradictions_are_refused() {
    for (text, key, part) in IMPOSSIBLE.iter().chain(CONTRADICTIONS) {
        // Dotted keys must come before the first section.
        let read = match text.contains("profiles.default") {
            true => read(text),
            false => with(text),
        };
        assert_refused(read, text, key, part);
    }
}

// spec: B-25, B-40, C-2
#[test]
fn nobody_can_want_more_executors_than_there_may_be() {
    for (text, key) in [
        ("max_executors = 1", "max_executors"),
        ("max_executors = 4\nexecutors = 5", "executors"),
        ("max_executors = 4\nmin_executors = 5", "min_executors"),
        ("max_executors = 4\nmin_available = 5", "min_available"),
    ] {
        let error = with_profile(text).unwrap_err();
        assert_eq!(keys(&error), [format!("profiles.default.{key}")], "{error}");
    }
}

// spec: O-50
#[test]
fn people_and_executors_may_share_a_port_but_two_free_ones_are_two() {
    let shares = |executors: &str, people: &str| {
        let text = format!(
            "{LEAST}\n[backend]\nlisten = \"{executors}\"\n[api]\nlisten = \"{people}\"\ntoken_file = \"t\""
        );
        read(&text).unwrap().one_port()
    };
    assert!(shares("127.0.0.1:7078", "127.0.0.1:7078"));
    assert!(!shares("127.0.0.1:7078", "127.0.0.1:7079"));
    assert!(!shares("127.0.0.1:0", "127.0.0.1:0"));
    assert!(!read(LEAST).unwrap().one_port());
}

// spec: C-2
#[test]
fn a_ratio_has_at_most_three_places() {
    let with = |ratio: &str| read(&format!("{LEAST}\n[autoscaling]\nratio = {ratio}"));
    for (text, thousandths) in [("1", 1_000), ("0.5", 500), ("1.25", 1_250), ("0.001", 1)] {
        assert_eq!(with(text).unwrap().autoscaling.ratio, thousandths, "{text}");
    }
    for bad in ["0", "-1.0", "0.0001", "1001", "inf", "nan", "1e3", "\"1\""] {
        assert!(with(bad).is_err(), "{bad}");
    }
}

// spec: B-35
#[test]
fn a_claim_that_nobody_can_renew_is_refused() {
    let error = read(&format!("app.ttl = \"10m\"\n{LEAST}")).unwrap_err();
    assert_eq!(error.mistakes[0].key, "app.ttl", "{error}");
}

// spec: O-92, C-2
#[test]
fn a_lease_must_outlast_the_writes_of_its_holder() {
    let refused = |text: &str| {
        let error = with(&format!("[ha]\nlease = true\n{text}")).err();
        error.map_or_else(String::new, |error| error.to_string())
    };
    assert_eq!(refused(""), "");
    let message = refused("lease_duration = \"29s\"");
    assert!(
        message.contains("ha.lease_duration: found 29s"),
        "{message}"
    );
    assert!(message.contains("allowed: at least 30s"), "{message}");
    let message = refused("retry_period = \"17s\"");
    assert!(
        message.contains("not above 1.2 times ha.retry_period, which is 17s"),
        "{message}"
    );
    let message = refused("[cluster]\nmode = \"embedded\"");
    assert!(
        message.contains("no other driver can reach the embedded cluster"),
        "{message}"
    );
    let service = "[backend]\nlisten = \"0.0.0.0:7078\"\nplain_http = true\nservice_selector = { app = \"driver\" }";
    assert!(
        refused(service).contains("driver.pod_name"),
        "{}",
        refused(service)
    );
    assert_eq!(
        refused(&format!("{service}\n[driver]\npod_name = \"driver-0\"")),
        ""
    );
}
