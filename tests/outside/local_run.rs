//! Tests `boatswain run --config config/local.toml`: a driver with an embedded cluster whose executors are processes
//! on this machine.

use std::collections::BTreeSet;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::driver::Driver;
use super::process::{boatswain, processes_with, until};

pub struct Local {
    pub driver: Driver,
    _directory: TempDir,
}

impl Local {
    pub fn start(sets: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        let config = concat!(env!("CARGO_MANIFEST_DIR"), "/config/local.toml");
        let mut command = boatswain();
        command.args([
            "run",
            "--config",
            config,
            "--set",
            "log.format=json",
            "--set",
        ]);
        command.arg(format!("embedded.state_dir={}", state.display()));
        Self {
            driver: Driver::run(&mut command, sets, &directory.path().join("driver.log")),
            _directory: directory,
        }
    }

    /// Waits until these executors have run.
    pub fn runs(&mut self, executors: &[u64]) {
        let wanted: BTreeSet<u64> = executors.iter().copied().collect();
        self.driver.until(&format!("{wanted:?} have run"), |log| {
            log.executors("executor running")
                .is_superset(&wanted)
                .then_some(())
        });
    }

    /// The environment variable with the application's id, which all descendants of an executor inherit.
    pub fn mark(&mut self) -> String {
        let taken = self.driver.says("application taken over");
        format!("BOATSWAIN_APP_ID={}", taken["app"].as_str().unwrap())
    }

    /// The process that the driver has started for this executor.
    pub fn process_of(&mut self, executor: u64) -> Pid {
        let (mark, driver) = (self.mark(), self.driver.pid());
        let of_application: BTreeSet<_> = processes_with(&mark).into_iter().collect();
        let of_executor = processes_with(&format!("BOATSWAIN_EXECUTOR_ID={executor}"));
        let mut children = of_executor
            .into_iter()
            .filter(|found| of_application.contains(found));
        let (pid, _) = children.find(|(_, parent)| *parent == driver).unwrap();
        Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
    }
}

/// Waits until no process that the application started is left.
pub fn nothing_is_left(mark: &str) {
    until("none of its processes is left", || {
        processes_with(mark).is_empty().then_some(())
    });
}

// spec: O-70, O-73, L-1, L-20, O-10, O-11
#[test]
fn a_killed_process_is_reported_and_replaced_and_an_interrupt_leaves_none() {
    let mut local = Local::start(&[]);
    local.runs(&[1, 2, 3, 4]);
    let mark = local.mark();

    kill_process(local.process_of(2), Signal::KILL).unwrap();
    let end = local.driver.end_of(2);
    assert_eq!(
        (&end["reason"], &end["exit_code"]),
        (&"Exited".into(), &137.into())
    );
    assert_eq!(end["failure"], true);
    assert!(end["why"].as_str().unwrap().contains("SIGKILL"), "{end}");
    local.runs(&[5]);

    local.driver.signal(Signal::INT);
    assert_eq!(local.driver.exit(), Some(0));
    nothing_is_left(&mark);
    let log = local.driver.log();
    assert_eq!(log.executors("executor requested"), (1..=5).collect());
}

/// Starts executors that exit with this code, and waits until the driver backs off and then tries a single one.
fn ends_with(code: u8) -> Local {
    let code = format!("profiles.default.env.CODE=\"{code}\"");
    let mut local = Local::start(&["profiles.default.env.ROUNDS=\"1\"", &code]);
    local.runs(&[1, 2, 3, 4]);
    local
        .driver
        .says("executors end early, again and again: backing off, then one at a time is tried");
    local.runs(&[5]);
    local
}

// spec: L-20, A-30, A-31
#[test]
fn executors_that_complete_early_are_not_failures_but_back_off() {
    let mut local = ends_with(0);
    let end = local.driver.end_of(1);
    assert_eq!(
        (&end["reason"], &end["exit_code"]),
        (&"Exited".into(), &0.into())
    );
    assert_eq!(end["failure"], false);
}

// spec: L-20, A-30, A-31
#[test]
fn failing_executors_are_reported_with_their_exit_code() {
    let mut local = ends_with(3);
    let end = local.driver.end_of(1);
    assert_eq!(
        (&end["reason"], &end["exit_code"]),
        (&"Exited".into(), &3.into())
    );
    assert_eq!(end["failure"], true);
}

// spec
#[test]
fn a_crash_loop_backs_off_exponentially_and_is_logged_once() {
    let mut local = Local::start(&["profiles.default.env.ROUNDS=\"0\""]);
    // Four at first, then one after each backoff of 1, 2 and 4 s. The first end may be replaced before it counts as a
    // crash loop.
    local
        .driver
        .until("several were tried after the first four", |log| {
            (log.count("executor requested") >= 7).then_some(())
        });
    let log = local.driver.log();
    let loops =
        log.lines("executors end early, again and again: backing off, then one at a time is tried");
    assert_eq!(loops.len(), 1, "{loops:?}");
    let requested = log.lines("executor requested");
    let time = |line: &serde_json::Value| {
        line["time"]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
    };
    let pause = |n: usize| {
        time(requested[n])
            .duration_since(time(requested[n - 1]))
            .as_millis()
    };
    assert!(
        pause(6) > pause(5) && pause(5) > pause(4),
        "the pauses grow"
    );
    assert_eq!(
        log.executors("executor running").len(),
        log.count("executor running")
    );
}
