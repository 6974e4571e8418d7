//! Tests that a program under the agent is told to end once, though driver and node both tell the executor, and what is
//! known of one that was told without the driver.

use std::path::Path;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::asking::Asked;
use super::cluster::Cluster;
use super::driver::Driver;
use super::local_run::{Ground, Local, nothing_is_left};
use super::talking::{agent_and_child, ask_for_decommissioning, registered};

/// A program that notes each SIGTERM in a file of its own, and needs a second after the first one to save its work.
fn noting(directory: &Path) -> String {
    let file = directory.join("told-$BOATSWAIN_EXECUTOR_ID");
    let file = file.display();
    let script = format!(
        "trap 'echo told >> {file}' TERM; echo up; until [ -s {file} ]; do sleep 0.1; done; \
         for n in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; done; exit 0"
    );
    format!("profiles.default.args=[{script:?}]")
}

fn times_told(directory: &Path, executor: u64) -> usize {
    let file = directory.join(format!("told-{executor}"));
    std::fs::read_to_string(file).map_or(0, |noted| noted.lines().count())
}

// spec: O-121, O-11, B-30
#[test]
fn a_program_is_told_to_end_once_though_agent_and_node_both_are() {
    let ground = Ground::new();
    let directory = ground.shared();
    let mut local = Local::start_on(ground, &[&noting(&directory)]);
    registered(&mut local, &[1, 2, 3, 4]);
    for executor in 1..=4 {
        agent_and_child(&mut local, executor);
    }
    ask_for_decommissioning(&mut local, 1);
    let end = local.driver.end_of(1);
    assert_eq!(end["reason"], "Decommissioned");
    registered(&mut local, &[5]);
    agent_and_child(&mut local, 5);
    let mark = local.mark();
    local.driver.signal(Signal::TERM);
    assert_eq!(local.driver.exit(), Some(0));
    nothing_is_left(&mark);
    let told = [1, 2, 3, 4, 5].map(|executor| times_told(&directory, executor));
    assert_eq!(told, [1; 5]);
}

/// The setting of a template whose container has a probe.
fn probed(directory: &Path) -> String {
    let template = directory.join("executor.yaml");
    let probe =
        "spec: {containers: [{name: executor, livenessProbe: {exec: {command: [\"true\"]}}}]}";
    std::fs::write(&template, probe).unwrap();
    format!(
        "profiles.default.template={:?}",
        template.display().to_string()
    )
}

// spec: O-121, L-20
#[test]
fn a_program_that_its_node_terminates_because_of_a_probe_has_failed() {
    let ground = Ground::new();
    let directory = ground.shared();
    let template = probed(&directory);
    let mut local = Local::start_on(ground, &[&noting(&directory), &template]);
    registered(&mut local, &[1, 2, 3, 4]);
    // As the kubelet does: only the first process of the container is told.
    let (agent, _) = agent_and_child(&mut local, 2);
    kill_process(agent, Signal::TERM).unwrap();
    let end = local.driver.end_of(2);
    assert_eq!(
        [&end["reason"], &end["exit_code"], &end["failure"]],
        [&json!("ProbeFailed"), &json!(0), &json!(true)],
        "{end}"
    );
    assert_eq!(times_told(&directory, 2), 1);
}

// spec: L-20
#[test]
fn without_an_agent_the_nodes_events_tell_of_a_probe_where_they_may_be_read() {
    let cluster = Cluster::any();
    let template = probed(cluster.directory.path());
    let mut asked = Asked::of(&cluster, |api| {
        let sets = [api, &[&template, "api.evidence=true"]].concat();
        Driver::start(&cluster, 2, &sets)
    });
    cluster.converges(2);
    let end = |name: &str| {
        let ended = json!({"phase": "Succeeded", "containerStatuses": [{
            "name": "executor", "image": "none", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 0, "reason": "Completed"}},
        }]});
        cluster.api.set_pod_status(name, &ended);
    };
    let pods = cluster.api.pods();
    let killed = pods.iter().find(|pod| pod.name == "t-exec-1").unwrap();
    for (reason, message) in [
        ("Unhealthy", "Liveness probe failed: "),
        ("Killing", "Stopping container executor"),
    ] {
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": reason.to_lowercase()},
            "involvedObject": {
                "kind": "Pod", "namespace": cluster.api.namespace, "name": killed.name, "uid": killed.uid,
                "fieldPath": "spec.containers{executor}",
            },
            "type": "Normal", "reason": reason, "message": message,
        });
        cluster.api.create("events", &event);
    }
    end("t-exec-1");
    end("t-exec-2");
    let told = |end: Value| (end["reason"].clone(), end["why"].clone());
    let words = "Liveness probe failed: it ended with exit 0";
    assert_eq!(
        told(asked.driver.end_of(1)),
        (json!("ProbeFailed"), json!(words))
    );
    assert_eq!(
        told(asked.driver.end_of(2)),
        (json!("Exited"), json!("ended with exit 0"))
    );
}
