//! What is not tested here, said in one form; in CI nothing may be passed over for the lack of a program.
//!
//! `tests/real/run` collects the lines about real clusters. Each test binary that needs this includes the file by its
//! path.

#![allow(dead_code, reason = "no test binary needs all of it")]

use std::io::{self, Write as _};
use std::process::{Command, Stdio};
use std::thread;

/// The name of the test that runs in this thread.
fn test() -> String {
    thread::current().name().unwrap_or("a test").to_owned()
}

/// Written past the test harness, which shows only the output of failed tests.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Says that this test does not run on a real cluster, which cannot do this.
pub fn on_a_real_cluster(reason: &str) {
    say(&format!(
        "not tested on a real cluster: {}: {reason}",
        test()
    ));
}

/// Says that this test does not run on the embedded cluster, which does not do this.
pub fn on_the_embedded_cluster(reason: &str) {
    say(&format!(
        "not tested on the embedded cluster: {}: {reason}",
        test()
    ));
}

/// Says that this test, or this part of it, does not run because of what this machine lacks; fails in CI.
pub fn for_lack_of(what: &str) {
    lacking(&test(), what);
}

pub fn lacking(test: &str, what: &str) {
    say(&format!("not tested: {test}: this machine lacks {what}"));
    assert!(
        !in_ci(),
        "in CI nothing may be passed over, and this machine lacks {what}"
    );
}

fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty())
}

/// Whether this program can be run; if not, that is said, and fails in CI.
pub fn has(program: &str) -> bool {
    let mut command = Command::new(program);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let found = command.spawn().and_then(|mut child| child.wait()).is_ok();
    if !found {
        for_lack_of(program);
    }
    found
}
