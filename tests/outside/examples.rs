//! Tests that the examples work. An example whose program is not installed is not tested, which fails in CI.

use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use super::local_run::{Local, nothing_is_left};
use super::talking::ask_for_decommissioning;
use super::{real, untested};

fn example(path: &str) -> String {
    format!("{}/examples/{path}", env!("CARGO_MANIFEST_DIR"))
}

// spec: B-1, B-25, O-60, L-1, I-9
#[test]
fn the_word_count_is_right_after_losing_an_executor_and_the_driver() {
    if real::is_given() {
        untested::on_a_real_cluster("the example's executors are processes that share a folder");
        return;
    }
    if !untested::has("python3") {
        return;
    }
    let mut command = Command::new("python3");
    command.arg(example("word-count/count.py"));
    command.env("BOATSWAIN", env!("CARGO_BIN_EXE_boatswain"));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{failed}");
    for line in [
        // An executor may finish before the batch that shows its pod.
        "was: requested, ",
        "registered, ",
        "exiting, ended",
        "the driver is started again, registered:",
        "nobody is left",
        "the counts are right",
        "the driver has ended with 0",
    ] {
        assert!(said.contains(line), "{line:?} in {said}");
    }
}

/// Runs executors with this client program, which have to register and send heartbeats. Without TLS, one of them is
/// decommissioned and has to drain.
fn speaks(program: &str, client: &str, with_tls: bool) {
    if !untested::has(program) {
        return;
    }
    let command = format!("profiles.default.command=[{program:?}]");
    let args = format!("profiles.default.args=[{:?}]", example(client));
    let tls = format!("tls.generate={with_tls}");
    let mut local = Local::start(&[
        &tls,
        &command,
        &args,
        "profiles.default.executors=2",
        "backend.heartbeat_interval=1s",
        "backend.heartbeat_timeout=5s",
    ]);
    local.runs(&[1, 2]);
    local.driver.says("ready");
    // Longer than the heartbeat timeout: without heartbeats they would be replaced.
    let began = std::time::Instant::now();
    local
        .driver
        .until("they have lived on their heartbeats", |log| {
            assert_eq!(log.count("executor leaving"), 0);
            (began.elapsed() > std::time::Duration::from_secs(8)).then_some(())
        });
    if !with_tls {
        ask_for_decommissioning(&mut local, 1);
        let end: Value = local.driver.end_of(1);
        assert_eq!(end["reason"], "Decommissioned");
        assert_eq!(end["exit_code"], 0);
        local.runs(&[3]);
    }
    let mark = local.mark();
    local.driver.signal(Signal::INT);
    assert_eq!(local.driver.exit(), Some(0));
    nothing_is_left(&mark);
}

// spec: O-61
#[test]
fn an_executor_in_python_implements_the_protocol() {
    speaks("python3", "clients/client.py", false);
}

// spec: O-61, O-53
#[test]
fn an_executor_in_python_trusts_the_ca_that_it_is_given() {
    speaks("python3", "clients/client.py", true);
}

// spec: O-61
#[test]
fn an_executor_in_shell_implements_the_protocol() {
    if untested::has("curl") {
        speaks("sh", "clients/client.sh", false);
    }
}

// spec: O-61, O-53
#[test]
fn an_executor_in_shell_trusts_the_ca_that_it_is_given() {
    if untested::has("curl") {
        speaks("sh", "clients/client.sh", true);
    }
}
