//! Tests the client commands of the binary against a running driver: status, explanations, targets and commands.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use super::api::Grace;
use super::cluster::Cluster;
use super::driver::Driver;
use super::process::{boatswain, until};

pub struct Asked {
    pub driver: Driver,
    pub server: String,
    /// The file with the API token.
    pub tokens: PathBuf,
}

impl Asked {
    pub fn start(cluster: &Cluster, executors: usize) -> Self {
        Self::start_with(cluster, executors, &[])
    }

    fn start_with(cluster: &Cluster, executors: usize, sets: &[&str]) -> Self {
        let drive = |api: &[&str]| Driver::start(cluster, executors, &[api, sets].concat());
        Self::of(cluster, drive)
    }

    /// A driver that is started with these settings of the API.
    pub fn of(cluster: &Cluster, drive: impl FnOnce(&[&str]) -> Driver) -> Self {
        let tokens = cluster.directory.path().join("api-token");
        let file = format!("api.token_file={}", tokens.display());
        let mut driver = drive(&["api.listen=127.0.0.1:0", &file]);
        let served = driver.says("the API is listening");
        Self {
            driver,
            server: format!("http://{}", served["address"].as_str().unwrap()),
            tokens,
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = boatswain();
        command.args(arguments).arg("--server").arg(&self.server);
        command.arg("--token-file").arg(&self.tokens);
        command
    }

    pub fn ask(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        let output = self.ask(&[arguments, &["-o", "json"]].concat());
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The number of running executors; 0 while the driver takes over and does not answer yet.
    fn running(&self) -> u64 {
        let output = self.ask(&["status", "-o", "json"]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        status["profiles"]["default"]["running"]
            .as_u64()
            .unwrap_or(0)
    }
}

// spec: O-43, B-25, B-51
#[test]
fn the_client_shows_the_status_and_sets_targets() {
    let cluster = Cluster::any();
    let mut asked = Asked::start(&cluster, 2);
    until("two run", || (asked.running() == 2).then_some(()));
    let scaled = asked.json(&["scale", "default=3"]);
    assert_eq!(scaled["targets"]["default"], 3);
    until("three run", || (asked.running() == 3).then_some(()));
    let refused = asked.ask(&["scale", "default=1", "gpu=1"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(
        said.contains("there is no profile gpu") && said.contains("nothing was changed"),
        "{said}"
    );
    assert_eq!(asked.running(), 3);

    cluster.api.delete_pod("t-exec-2", Grace::Force);
    asked.driver.end_of(2);
    // The event history learns of the end one batch later than the log.
    until("the history has the end", || {
        let explained = asked.json(&["explain", "2"]);
        let last = explained["events"].as_array()?.last()?;
        let is_end = last["event"] == "ended" && last["reason"] == "Deleted";
        (explained["now"].is_null() && is_end).then_some(())
    });
    until("the status has the end", || {
        let shown = String::from_utf8(asked.ask(&["status"]).stdout).unwrap();
        (shown.contains("ended last") && shown.contains("Deleted")).then_some(())
    });
}

/// An Event about a pod.
/// The options that name the cluster to a command.
fn place(cluster: &Cluster) -> [&str; 4] {
    let kubeconfig = cluster.kubeconfig.to_str().unwrap();
    let namespace = &cluster.api.namespace;
    ["--namespace", namespace, "--kubeconfig", kubeconfig]
}

pub fn event(namespace: &str, name: &str, kind: &str, uid: &str, message: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": "t-exec-1", "uid": uid},
        "type": kind, "reason": "FailedMount", "message": message, "count": 3,
        "lastTimestamp": "2026-01-01T00:00:00Z",
    })
}

// spec: O-43
#[test]
fn a_reader_of_events_that_has_enough_ends_the_command() {
    let cluster = Cluster::any();
    let asked = Asked::start(&cluster, 0);
    let mut events = asked.command(&["events"]);
    let mut events = events.stdout(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    let mut reader = BufReader::new(events.stdout.take().unwrap());
    reader.read_line(&mut first).unwrap();
    assert!(first.contains("live executors"), "{first}");
    drop(reader);
    let mut target = 0;
    let status = until("it has ended", || {
        target = 1 - target;
        asked.ask(&["scale", &format!("default={target}")]);
        events.try_wait().unwrap()
    });
    assert!(status.success(), "{status}");
}

// spec: O-138
#[test]
fn an_executors_log_is_printed_to_its_end_by_id_and_by_pod() {
    let Some(cluster) = Cluster::with_nodes() else {
        return;
    };
    let script = r#"profiles.default.command=["sh", "-c", "trap 'echo end; exit 0' TERM; printf 'one\\ntwo\\n'; sleep infinity & wait"]"#;
    let asked = Asked::start_with(&cluster, 1, &[script]);
    let place = place(&cluster);
    let logs = |arguments: &[&str]| asked.ask(&[&["logs"], arguments, &place].concat());
    let printed = |arguments: &[&str]| String::from_utf8(logs(arguments).stdout).unwrap();
    // The event history learns of the executor one batch later than the status.
    until("it has written its log", || {
        (printed(&["1"]) == "one\ntwo\n").then_some(())
    });
    assert_eq!(printed(&["t-exec-1", "--tail", "1"]), "two\n");
    let mut following = asked.command(&[&["logs", "1", "--follow"], &place[..]].concat());
    let mut following = following.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let mut next = || lines.next().map(Result::unwrap);
    assert_eq!(
        (next().as_deref(), next().as_deref()),
        (Some("one"), Some("two"))
    );
    cluster.api.delete_pod("t-exec-1", Grace::Own);
    assert_eq!((next().as_deref(), next()), (Some("end"), None));
    assert!(following.wait().unwrap().success());
    let none = logs(&["t-exec-99"]);
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    let previous = logs(&["t-exec-2", "--previous"]);
    assert_eq!(previous.status.code(), Some(1), "{previous:?}");
    let without_app = asked.ask(&[&["status"], &place[..]].concat());
    assert_eq!(without_app.status.code(), Some(64), "{without_app:?}");
}

// spec: O-138
#[test]
fn executors_are_selected_by_the_labels_of_their_pods() {
    let cluster = Cluster::any();
    let labels = r#"profiles.default.labels={tier="batch"}"#;
    let asked = Asked::start_with(&cluster, 3, &[labels]);
    until("three run", || (asked.running() == 3).then_some(()));
    let place = place(&cluster);
    let select = |labels| {
        let given = ["executors", "-o", "name", "-l", labels];
        asked.ask(&[&given, &place[..]].concat())
    };
    let names = |labels| String::from_utf8(select(labels).stdout).unwrap();
    // The event history learns of an executor one batch later than the status.
    until("all three are listed", || {
        (names("tier=batch") == "1\n2\n3\n").then_some(())
    });
    assert_eq!(
        names("tier=batch,boatswain.dev/executor-id in (2,3,4)"),
        "2\n3\n"
    );
    assert_eq!(names("tier!=batch"), "");
    let refused = select("tier in");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
}

// spec: O-43
#[test]
fn a_shell_learns_which_applications_there_are() {
    let cluster = Cluster::any();
    let asked = Asked::start(&cluster, 1);
    until("it runs", || (asked.running() == 1).then_some(()));
    let script = boatswain().args(["completions", "bash"]).output().unwrap();
    assert!(
        String::from_utf8(script.stdout)
            .unwrap()
            .contains("BOATSWAIN_COMPLETE")
    );
    let text = std::fs::read_to_string(&cluster.kubeconfig).unwrap();
    let mut kubeconfig: Value = serde_saphyr::from_str(&text).unwrap();
    kubeconfig["contexts"][0]["context"]["namespace"] = cluster.api.namespace.as_str().into();
    let file = cluster.directory.path().join("of-the-namespace");
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    let mut shell = boatswain();
    shell.args(["--", "boatswain", "status", "--app", ""]);
    shell
        .env("BOATSWAIN_COMPLETE", "bash")
        .env("KUBECONFIG", &file);
    shell.env("_CLAP_COMPLETE_INDEX", "3").env("_CLAP_IFS", " ");
    let offered = String::from_utf8(shell.output().unwrap().stdout).unwrap();
    let status = asked.json(&["status"]);
    for name in ["t", status["app"].as_str().unwrap()] {
        assert!(
            offered.split(' ').any(|word| word == name),
            "{name}: {offered}"
        );
    }
}

// spec: O-78, O-125
#[test]
fn an_explanation_has_the_pods_warnings_and_log_and_says_when_the_pod_is_gone() {
    let Some(cluster) = Cluster::with_nodes() else {
        return;
    };
    let script =
        r#"profiles.default.command=["sh", "-c", "printf 'one\\n\\033[2Jtwo\\n'; sleep infinity"]"#;
    let asked = Asked::start_with(&cluster, 1, &[script, "api.evidence=true"]);
    until("it runs", || (asked.running() == 1).then_some(()));
    let pod = &cluster.api.pods()[0];
    for (name, kind, uid, message) in [
        ("a", "Warning", pod.uid.as_str(), "no volume"),
        ("b", "Normal", &pod.uid, "all is well"),
        ("c", "Warning", "another", "not this one"),
    ] {
        let event = event(&cluster.api.namespace, name, kind, uid, message);
        cluster.api.create("events", &event);
    }
    let warnings = json!([{
        "time": "2026-01-01T00:00:00Z", "reason": "FailedMount", "message": "no volume", "count": 3,
    }]);
    // The event history learns of the executor one batch later than the status.
    until("its history is known", || {
        asked.ask(&["explain", "1"]).status.success().then_some(())
    });
    until("it has written its log", || {
        let evidence = &asked.json(&["explain", "1"])["evidence"];
        assert_eq!(evidence["missing"], json!([]), "{evidence}");
        assert_eq!(evidence["warnings"], warnings, "{evidence}");
        (evidence["log"] == json!(["one", "\u{1b}[2Jtwo"])).then_some(())
    });
    let shown = String::from_utf8(asked.ask(&["explain", "1"]).stdout).unwrap();
    assert!(
        shown.contains("FailedMount (3 times): no volume") && shown.contains("\n     [2Jtwo"),
        "{shown}"
    );
    cluster.api.delete_pod("t-exec-1", Grace::Force);
    until("the pod is known to be gone", || {
        let explained = asked.json(&["explain", "1"]);
        let evidence = &explained["evidence"];
        assert_eq!(evidence["warnings"], warnings, "{evidence}");
        let gone = evidence["missing"] == json!(["log: the pod is gone"]);
        (explained["now"].is_null() && gone).then_some(())
    });
}

// spec: O-43, O-50
#[test]
fn a_failing_client_command_explains_why() {
    let cluster = Cluster::any();
    let asked = Asked::start(&cluster, 0);
    let unknown = asked.ask(&["explain", "99"]);
    assert_eq!(unknown.status.code(), Some(1));
    let other = cluster.directory.path().join("other-token");
    std::fs::write(&other, "not-this-one\n").unwrap();
    let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&other, owner_only).unwrap();
    let asked = Asked {
        tokens: other,
        ..asked
    };
    let unrecognised = asked.ask(&["status"]);
    assert_eq!(unrecognised.status.code(), Some(1));
    let said = String::from_utf8(unrecognised.stderr).unwrap();
    assert!(said.contains("api.token_file"), "{said}");
    let asked = Asked {
        server: "http://127.0.0.1:1".to_owned(),
        ..asked
    };
    let nobody = asked.ask(&["status"]);
    assert_eq!(nobody.status.code(), Some(69));
    let said = String::from_utf8(nobody.stderr).unwrap();
    assert!(said.contains("no driver answers"), "{said}");
}

// spec: O-50
#[test]
fn a_token_that_is_rotated_is_refused_without_a_restart() {
    let cluster = Cluster::any();
    let asked = Asked::start(&cluster, 0);
    until("it answers", || {
        asked.ask(&["status"]).status.success().then_some(())
    });
    let kept = cluster.directory.path().join("kept-token");
    std::fs::copy(&asked.tokens, &kept).unwrap();
    std::fs::write(&asked.tokens, "another-token\nlooks read\n").unwrap();
    until("the new token is accepted", || {
        asked
            .ask(&["scale", "default=0"])
            .status
            .success()
            .then_some(())
    });
    let asked = Asked {
        tokens: kept,
        ..asked
    };
    assert_eq!(asked.ask(&["status"]).status.code(), Some(1), "revoked");
}

// spec: B-28, B-30, B-31, B-35, O-43
#[test]
fn the_client_kills_holds_resumes_and_ends_with_an_exit_code() {
    let cluster = Cluster::any();
    let mut asked = Asked::start(&cluster, 3);
    until("three run", || (asked.running() == 3).then_some(()));
    let killed = asked.ask(&["kill", "1", "77", "--by", "alice", "-o", "json"]);
    assert_eq!(
        killed.status.code(),
        Some(1),
        "77 does not go, for there is none"
    );
    let answer: Value = serde_json::from_slice(&killed.stdout).unwrap();
    assert_eq!(answer["leaving"], serde_json::json!([1]));
    assert_eq!(answer["unknown"], serde_json::json!([77]));
    assert_eq!(answer["targets"]["default"], 2);
    let end = asked.driver.end_of(1);
    assert_eq!(end["why"], "killed by alice");
    let shown = asked.ask(&["decommission", "2", "--by", "bob"]);
    assert_eq!(shown.status.code(), Some(0), "{shown:?}");
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("LEAVING") && shown.contains('2'), "{shown}");
    let end = asked.driver.end_of(2);
    assert_eq!(end["reason"], "Decommissioned");
    until("it is replaced", || (asked.running() == 2).then_some(()));

    let held = asked.json(&["hold", "--by", "alice"]);
    assert_eq!(held["held"]["targets"]["default"], 2);
    until("none run", || (asked.running() == 0).then_some(()));
    let status = asked.ask(&["status"]);
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains("held by alice"), "{status}");
    asked.json(&["resume"]);
    until("two run again", || (asked.running() == 2).then_some(()));

    let stopped = asked.ask(&["stop", "--exit-code", "5"]);
    assert_eq!(stopped.status.code(), Some(0), "{stopped:?}");
    assert_eq!(asked.driver.exit(), Some(5));
    let both = asked.ask(&["stop", "--exit-code", "5", "--hand-over"]);
    assert_eq!(both.status.code(), Some(64));
}

// spec: O-43, O-140
#[test]
fn a_restart_replaces_those_that_are_named_and_ends_when_as_many_run_again() {
    let cluster = Cluster::any();
    let asked = Asked::start(&cluster, 3);
    until("three run", || (asked.running() == 3).then_some(()));
    let restarted = asked.ask(&["restart", "1-2", "--at-a-time", "2"]);
    let said = String::from_utf8(restarted.stdout).unwrap();
    assert_eq!(said, "2 executors were replaced\n");
    assert_eq!(asked.running(), 3);
    let named = asked.ask(&["executors", "--state", "running", "-o", "name"]);
    assert_eq!(String::from_utf8(named.stdout).unwrap(), "3\n4\n5\n");
    let yaml = asked.ask(&["scale", "default=3", "-o", "yaml"]);
    let yaml: Value = serde_saphyr::from_slice(&yaml.stdout).unwrap();
    assert_eq!(yaml, json!({"targets": {"default": 3}}));
    for (arguments, why) in [
        (["restart", "1"], "no such executor lives"),
        (
            ["restart", "--profile=nope"],
            "no such executor of profile nope lives",
        ),
        (["executors", "--state=runing"], "the states are requested"),
        (["executors", "--profile=nope"], "the profiles are default"),
        (
            ["restart", "t-exec-1"],
            "no living executor of this application has the pod t-exec-1",
        ),
    ] {
        let refused = asked.ask(&arguments);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains(why), "{said}");
    }
    asked.json(&["hold"]);
    let held = asked.ask(&["restart", "--timeout", "20s"]);
    assert_eq!(held.status.code(), Some(1), "{held:?}");
}

// spec: O-42
#[test]
fn before_the_takeover_the_driver_is_live_but_not_ready() {
    let Some(mut cluster) = Cluster::own() else {
        return;
    };
    cluster.kill();
    let asked = Asked::start(&cluster, 1);
    let get = |path: &str| {
        use std::io::{Read as _, Write as _};
        let address = asked.server.strip_prefix("http://").unwrap();
        let mut connection = std::net::TcpStream::connect(address).unwrap();
        write!(
            connection,
            "GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer
    };
    let (health, readiness) = (get("/healthz"), get("/readyz"));
    assert!(health.starts_with("HTTP/1.1 200 "), "{health}");
    assert!(readiness.starts_with("HTTP/1.1 503 "), "{readiness}");
    let refused = asked.ask(&["status"]);
    assert_eq!(refused.status.code(), Some(1));
    cluster.start();
    until("it runs", || {
        (asked.ask(&["status"]).status.success()).then_some(())
    });
    until("it has taken over", || {
        (get("/readyz").starts_with("HTTP/1.1 200 ")).then_some(())
    });
}
