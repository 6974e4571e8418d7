//! Tests `boatswain dev-cluster ctl`, which injects faults into a cluster by hand, and a driver under these faults.

use std::path::Path;

use super::api::Grace;
use super::cluster::Cluster;
use super::driver::Driver;
use super::process::{boatswain, until};

const MANY: usize = 20;

/// A cluster with a control socket.
struct Controlled {
    cluster: Cluster,
}

impl Controlled {
    fn start() -> Option<Self> {
        let reason = "it tests `boatswain dev-cluster ctl`, which a real cluster has not";
        let cluster = Cluster::embedded(&["--node", "simulated"], reason)?;
        Some(Self { cluster })
    }

    fn asked(&self, fault: &[&str]) -> (bool, String) {
        asked(&self.cluster.directory.path().join("control"), fault)
    }

    fn ctl(&self, fault: &[&str]) -> String {
        let (obeys, said) = self.asked(fault);
        assert!(obeys, "{fault:?}: {said}");
        said.trim_end().to_owned()
    }
}

/// The output of a control command, and whether it succeeded.
fn asked(socket: &Path, fault: &[&str]) -> (bool, String) {
    let mut command = boatswain();
    command.args(["dev-cluster", "ctl", "--control"]);
    let output = command.arg(socket).args(fault).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

// spec: O-71
#[test]
fn faults_are_in_force_until_they_are_cleared() {
    let Some(controlled) = Controlled::start() else {
        return;
    };
    assert_eq!(controlled.ctl(&["status"]), "no faults");
    controlled.ctl(&["latency", "1ms..5ms", "--path", "/pods"]);
    let errors = [
        "errors", "1", "--as", "500", "--verb", "get", "--path", "limit=",
    ];
    controlled.ctl(&errors);
    assert_eq!(
        controlled.ctl(&["status"]),
        "latency of 1ms to 5ms to …/pods…\n100 % of requests of get to …limit=… are refused with 500"
    );
    let refused = controlled
        .cluster
        .api
        .call("GET", "/api/v1/pods?limit=1", None);
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("a fault that was asked for"), "{refused}");
    assert!(
        controlled
            .cluster
            .api
            .call("GET", "/api/v1/pods", None)
            .is_ok()
    );
    assert_eq!(controlled.ctl(&["clear"]), "no faults");
    assert!(
        controlled
            .cluster
            .api
            .call("GET", "/api/v1/pods?limit=1", None)
            .is_ok()
    );
}

// spec: O-71, A-13, A-14, W-2, W-3, I-1
#[test]
fn a_driver_survives_faults_injected_by_hand() {
    let Some(controlled) = Controlled::start() else {
        return;
    };
    let cluster = &controlled.cluster;
    controlled.ctl(&["errors", "0.3", "--as", "break-after", "--verb", "POST"]);
    let sets = ["cluster.request_timeout=1s"];
    let mut driver = Driver::start(cluster, MANY, &sets);
    let first = cluster.converges(MANY);
    let created = cluster.created();
    assert_eq!(
        created,
        MANY + 1,
        "the pods and the record, no pod too many"
    );
    controlled.ctl(&["clear"]);

    controlled.ctl(&["freeze", "3s"]);
    controlled.ctl(&["compact"]);
    controlled.ctl(&["cut-watches"]);
    controlled.ctl(&["restart", "500ms"]);
    assert_eq!(cluster.settles(MANY), first, "nothing is replaced");

    until("the server is there again", || {
        cluster.api.try_pods().is_ok().then_some(())
    });
    cluster.api.delete_pod("t-exec-3", Grace::Force);
    driver.end_of(3);
    cluster.converges(MANY);
    controlled.ctl(&["restart", "100ms", "--empty"]);
    until("none is left of those before", || {
        let pods = cluster.api.try_pods().ok()?;
        let anew = pods.iter().filter(|pod| !first.contains(&pod.uid)).count();
        (pods.len() == MANY && anew == MANY).then_some(())
    });
    cluster.settles(MANY);
    assert!(driver.is_alive());
}

// spec: O-71, L-13, L-20
#[test]
fn an_out_of_memory_kill_is_reported_and_the_executor_replaced() {
    let Some(controlled) = Controlled::start() else {
        return;
    };
    let cluster = &controlled.cluster;
    let mut driver = Driver::start(cluster, 3, &[]);
    let first = cluster.converges(3);
    assert_eq!(
        controlled.ctl(&["out-of-memory", "t-exec-2"]),
        "the containers of pod t-exec-2 were killed as if out of memory"
    );
    let end = driver.end_of(2);
    assert_eq!(
        (&end["reason"], &end["exit_code"]),
        (&"OomKilled".into(), &137.into())
    );
    until("another one runs in its place", || {
        let pods = cluster.api.try_pods().ok()?;
        let running = pods.iter().filter(|p| p.phase == "Running" && !p.deleting);
        let (old, new): (Vec<_>, Vec<_>) = running.partition(|p| first.contains(&p.uid));
        (old.len() == 2 && new.len() == 1).then_some(())
    });
    let (obeys, said) = controlled.asked(&["out-of-memory", "none"]);
    assert!(!obeys && said.contains("no pod none"), "{said}");
    controlled.ctl(&["node", "not-ready", "--evict-after", "1h"]);
    controlled.ctl(&["image-missing", "x:1"]);
    assert_eq!(
        controlled.ctl(&["status"]),
        "the node simulated is not ready: pods are evicted after 1h at the latest\nthe image x:1 is missing"
    );
    assert_eq!(controlled.ctl(&["clear"]), "no faults");
}

// spec: L-33, L-38, O-30
#[test]
fn a_failure_that_was_reported_just_before_a_kill_counts_for_the_successor() {
    let cluster = Cluster::any();
    let sets = ["failures.max=1"];
    let mut first = Driver::start(&cluster, 3, &sets);
    cluster.converges(3);
    cluster.api.kill_for_memory("t-exec-2");
    assert_eq!(first.end_of(2)["failure"], true);
    first.kill();
    let mut second = Driver::start(&cluster, 3, &sets);
    second.says("executors adopted");
    cluster.api.kill_for_memory("t-exec-3");
    second.end_of(3);
    assert_eq!(second.exit(), Some(11), "that was the second failure");
    assert_eq!(second.log().end_of(2), None, "it was reported before");
}

// spec: O-72
#[test]
fn invalid_control_commands_are_refused_with_advice() {
    let Some(controlled) = Controlled::start() else {
        return;
    };
    let (obeys, said) = controlled.asked(&["errors", "1", "--as", "200"]);
    assert!(!obeys && said.contains("from 400 to 599"), "{said}");
    let (obeys, said) = asked(Path::new("/nonexistent/control"), &["status"]);
    assert!(!obeys && said.contains("started with `--control"), "{said}");
}
