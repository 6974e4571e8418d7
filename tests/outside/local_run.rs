//! Tests `boatswain run --config config/local.toml`: a driver with an embedded cluster whose executors are processes
//! on this machine; or else the same application with containers on a real node.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::cluster::Cluster;
use super::driver::Driver;
use super::process::{Log, boatswain, processes_with, until};
use super::{real, untested};

pub struct Local {
    pub driver: Driver,
    /// Where the pods are of a driver without an embedded cluster; dropped after it.
    cluster: Option<Cluster>,
    _directory: TempDir,
}

/// The cluster of a [`Local`] that is to have none embedded. The test's thread is in its network from here on.
pub struct Ground {
    cluster: Option<Cluster>,
    directory: TempDir,
}

impl Ground {
    pub fn new() -> Self {
        Self {
            cluster: real::is_given().then(|| Cluster::with_nodes().unwrap()),
            directory: tempfile::tempdir().unwrap(),
        }
    }

    /// A folder in which executors may write.
    pub fn shared(&self) -> PathBuf {
        let own = || self.directory.path().to_owned();
        self.cluster.as_ref().map_or_else(own, Cluster::shared)
    }
}

impl Local {
    pub fn start(sets: &[&str]) -> Self {
        Self::start_on(Ground::new(), sets)
    }

    /// A driver with its embedded cluster, for what cannot be had without.
    pub fn embedded(sets: &[&str], reason: &str) -> Option<Self> {
        if real::is_given() {
            untested::on_a_real_cluster(reason);
            return None;
        }
        Some(Self::start(sets))
    }

    pub fn is_embedded(&self) -> bool {
        self.cluster.is_none()
    }

    /// A driver whose executors are containers on a real node, if there is one, and otherwise processes of its embedded
    /// cluster.
    pub fn start_on(ground: Ground, sets: &[&str]) -> Self {
        let Ground { cluster, directory } = ground;
        let config = concat!(env!("CARGO_MANIFEST_DIR"), "/config/local.toml");
        let mut command = boatswain();
        command.args(["run", "--config", config, "--set", "log.format=json"]);
        let mut all = Vec::new();
        match &cluster {
            None => {
                let state = directory.path().join("state");
                all.push(format!("embedded.state_dir={}", state.display()));
                all.extend(sets.iter().map(|&set| set.to_owned()));
            }
            Some(cluster) => {
                all.extend(of_cluster(cluster));
                all.push(format!("backend.plain_http={}", are_plain(sets)));
                all.extend(sets.iter().map(|set| for_pods(set)));
            }
        }
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        Self {
            driver: Driver::run(&mut command, &all, &directory.path().join("driver.log")),
            cluster,
            _directory: directory,
        }
    }

    /// Waits until these executors have run.
    pub fn runs(&mut self, executors: &[u64]) {
        let wanted: BTreeSet<u64> = executors.iter().copied().collect();
        // A real node may report a short life when it is over.
        let may_have_ended = !self.is_embedded();
        self.driver.until(&format!("{wanted:?} have run"), |log| {
            let mut ran = log.executors("executor running");
            if may_have_ended {
                ran.extend(log.executors("executor ended"));
            }
            ran.is_superset(&wanted).then_some(())
        });
    }

    /// The environment variable with the application's id, which all descendants of an executor inherit.
    pub fn mark(&mut self) -> String {
        let taken = self.driver.says("application taken over");
        format!("BOATSWAIN_APP_ID={}", taken["app"].as_str().unwrap())
    }

    /// The processes of this executor, with their parents.
    pub fn processes_of(&mut self, executor: u64) -> Vec<(u32, u32)> {
        let of_application = processes_with(&self.mark());
        let mut found = processes_with(&format!("BOATSWAIN_EXECUTOR_ID={executor}"));
        found.retain(|process| of_application.contains(process));
        found
    }

    /// The process that the node has started for this executor.
    pub fn process_of(&mut self, executor: u64) -> Pid {
        let all = self.processes_of(executor);
        let pid = first_of(&all).expect("the executor runs");
        Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
    }
}

/// The process whose parent is none of these.
pub fn first_of(processes: &[(u32, u32)]) -> Option<u32> {
    let is_among = |pid: u32| processes.iter().any(|(other, _)| *other == pid);
    let first = processes.iter().find(|(_, parent)| !is_among(*parent));
    first.map(|(pid, _)| *pid)
}

/// What `config/local.toml` lacks for a real cluster.
fn of_cluster(cluster: &Cluster) -> Vec<String> {
    let mut sets = vec![
        "cluster.mode=kubernetes".to_owned(),
        format!("cluster.kubeconfig={}", cluster.kubeconfig.display()),
        format!("cluster.namespace={}", cluster.api.namespace),
        for_pods(
            r#"profiles.default.command=["$(BOATSWAIN_AGENT)", "agent", "--", "/bin/sh", "-c"]"#,
        ),
        for_pods("backend.listen=127.0.0.1:0"),
    ];
    sets.extend(cluster.sets());
    sets
}

/// Whether these settings have no TLS, so that sessions that others can reach have to be allowed to be plain.
fn are_plain(sets: &[&str]) -> bool {
    let tls = ["tls.generate=true", "tls.certificate_file="];
    !(sets.iter()).any(|set| tls.iter().any(|on| set.starts_with(on)))
}

/// A setting for executors in containers: only the embedded cluster says where the agent is, and the loopback address is
/// their own.
fn for_pods(set: &str) -> String {
    let set = set.replace("$(BOATSWAIN_AGENT)", env!("CARGO_BIN_EXE_boatswain"));
    match set.starts_with("backend.listen=") {
        true => set.replace("127.0.0.1", real::host_for_pods()),
        false => set,
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

// spec: L-20, A-98, A-31
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

// spec: L-20, A-98, A-31
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

// spec: A-98, A-31
#[test]
fn a_crash_loop_backs_off_exponentially_and_is_logged_once() {
    let mut local = Local::start(&["profiles.default.env.ROUNDS=\"0\""]);
    let loops = "executors end early, again and again: backing off, then one at a time is tried";
    let time = |line: &serde_json::Value| {
        let time = line["time"].as_str().unwrap();
        time.parse::<jiff::Timestamp>().unwrap()
    };
    // How many are requested before, and when the last of them ends, differs with the speed of the node.
    let probes = |log: &Log| -> Vec<serde_json::Value> {
        let after = log.0.iter().skip_while(|line| line["message"] != loops);
        let requested = after.filter(|line| line["message"] == "executor requested");
        requested.cloned().collect()
    };
    local
        .driver
        .until("four were tried, one after the other", |log| {
            (probes(log).len() >= 4).then_some(())
        });
    let log = local.driver.log();
    assert_eq!(log.count(loops), 1, "{:?}", log.lines(loops));
    let probes = probes(&log);
    // From the end before it: how soon a node starts and ends a container differs. A slow machine adds seconds to a pause,
    // but not the six by which these two differ.
    let pause = |n: usize| {
        let before = probes[n - 1]["executor"].as_u64().unwrap();
        let ended = time(log.end_of(before).unwrap());
        time(&probes[n]).duration_since(ended).as_millis()
    };
    assert!(
        pause(3) > pause(1),
        "the pauses grow: {} and {} ms",
        pause(1),
        pause(3)
    );
    assert_eq!(
        log.executors("executor running").len(),
        log.count("executor running")
    );
}
