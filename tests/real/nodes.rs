//! Tests nodes that are about to leave the cluster, on nodes of KWOK's that a test makes for itself, executors that
//! autoscalers leave alone, and a node that is not ready.

use std::time::Duration;

use serde_json::{Value, json};

use super::evictions::evict;
use super::place::{API, ON_KWOK, Place, cluster, config, sessions};
use super::process::{until, until_after};
use super::registration::freeze_executor;

const TAINT: &str = "karpenter.sh/disrupted";

/// Makes nodes on which only executors of this namespace run, and a configuration of such executors.
fn fleet(place: &Place, nodes: usize, executors: usize) -> String {
    let labels =
        json!({"topology.kubernetes.io/zone": "north", "karpenter.sh/capacity-type": "spot"});
    let node = |number: usize| place.kwok_node(&number.to_string(), &labels, 110);
    place.apply(&(1..=nodes).map(node).collect::<Vec<_>>());
    let own = format!(
        "executors = {executors}\nnode_selector = {{ test = \"{}\" }}\n{ON_KWOK}",
        place.name()
    );
    config(executors).replace(&format!("executors = {executors}"), &own)
        + "[nodes]\nwatch = true\nnotice = \"1m\"\n"
}

fn is_on(pod: &Value, node: &str) -> bool {
    pod["spec"]["nodeName"] == node
}

// spec: W-15, B-71, B-72, O-43
#[test]
fn executors_leave_a_node_that_is_about_to_leave_when_others_run_and_none_is_missing_meanwhile() {
    let place = Place::new("nodes");
    let driver = place.drive(&(fleet(&place, 4, 12) + API), &["--generate-secrets"]);
    place.run(12);
    let node = place.executors()[0]["spec"]["nodeName"].clone();
    let node = node.as_str().unwrap();
    let affected = place
        .executors()
        .iter()
        .filter(|pod| is_on(pod, node))
        .count();
    place.told(&["taint", "node", node, &format!("{TAINT}:NoSchedule")]);
    let mut fewest = usize::MAX;
    until("the node is empty, and all executors run elsewhere", || {
        let pods = place.executors();
        let running = pods
            .iter()
            .filter(|pod| pod["status"]["phase"] == "Running");
        fewest = fewest.min(running.count());
        let is_left = !pods.iter().any(|pod| is_on(pod, node));
        (is_left && pods.len() == 12).then_some(())
    });
    assert!(fewest >= 12, "{fewest} were running");
    let log = driver.until("all of its executors' ends are logged", |log| {
        let count = log.lines("executor ended").len();
        (count == affected).then(|| {
            log.lines("executor ended")
                .into_iter()
                .cloned()
                .collect::<Vec<_>>()
        })
    });
    for end in log {
        assert_eq!(
            (&end["reason"], &end["failure"]),
            (&json!("NodeLeaving"), &json!(false)),
            "{end}"
        );
        assert!(end["why"].as_str().unwrap().contains(TAINT), "{end}");
    }
    let wide = place.ask(&["executors", "--output", "wide"]);
    assert!(wide.contains("north") && wide.contains("spot"), "{wide}");
    place.told(&[
        "delete",
        "node",
        "--selector",
        &format!("test={}", place.name()),
    ]);
}

// spec: W-15, O-51
#[test]
fn without_the_right_to_nodes_the_driver_says_so_and_goes_on_until_it_has_it() {
    let place = Place::new("no-nodes");
    let objects = place.manifests(&fleet(&place, 1, 2), &[]);
    let is_of_cluster = |object: &&Value| {
        object["kind"]
            .as_str()
            .is_some_and(|kind| kind.starts_with("Cluster"))
    };
    let of_cluster: Vec<Value> = objects.iter().filter(is_of_cluster).cloned().collect();
    assert_eq!(of_cluster.len(), 2, "{of_cluster:?}");
    let others: Vec<Value> = objects
        .iter()
        .filter(|object| !is_of_cluster(object))
        .cloned()
        .collect();
    place.apply(&others);
    let driver = super::driver::InPod::new(&place);
    place.run(2);
    let rule = driver.says("the driver lacks a right: add the rule to its Role");
    assert!(rule["right"].as_str().unwrap().contains("nodes"), "{rule}");
    let failed = driver.says("watch failed");
    assert_eq!(failed["what"], "nodes", "{failed}");
    place.apply(&of_cluster);
    driver.until("nodes are listed", |log| {
        let lists = log.lines("first list completed, watching from its version");
        lists
            .iter()
            .any(|line| line["nodes"].as_u64() > Some(0))
            .then_some(())
    });
    place.told(&[
        "delete",
        "node",
        "--selector",
        &format!("test={}", place.name()),
    ]);
    for object in of_cluster {
        let (kind, name) = (object["kind"].as_str(), object["metadata"]["name"].as_str());
        place.told(&["delete", kind.unwrap(), name.unwrap()]);
    }
}

/// Whether both autoscalers leave this pod's node alone.
fn is_protected(pod: &Value) -> bool {
    let annotations = &pod["metadata"]["annotations"];
    annotations["karpenter.sh/do-not-disrupt"] == "true"
        && annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"
}

fn protected(place: &Place) -> Vec<String> {
    let (mut names, pods) = (Vec::new(), place.executors());
    for pod in pods.iter().filter(|pod| is_protected(pod)) {
        names.push(pod["metadata"]["name"].as_str().unwrap().to_owned());
    }
    names
}

// spec: L-42, L-12
#[test]
fn autoscalers_do_not_evict_busy_executors_until_these_are_decommissioned() {
    let place = Place::new("busy");
    // All but the first have work.
    let idle = "if [ $BOATSWAIN_EXECUTOR_ID = 1 ]; then echo '{\\\"busy_slots\\\": 0}' > $BOATSWAIN_STATUS_FILE; fi; ";
    let config = config(3).replace("args = [\"", &format!("args = [\"{idle}"))
        + &sessions()
        + "[nodes]\nprotect_busy = true\n"
        + API;
    let driver = place.drive(&config, &["--generate-secrets"]);
    driver.registered(3);
    assert_eq!(protected(&place), ["t-exec-1", "t-exec-2", "t-exec-3"]);
    let for_long = Duration::from_secs(120);
    until_after(for_long, "the idle one is not protected any more", || {
        (protected(&place) == ["t-exec-2", "t-exec-3"]).then_some(())
    });
    // As an autoscaler empties nodes: of every pod that does not forbid it.
    for pod in place.executors().iter().filter(|pod| !is_protected(pod)) {
        evict(&place, pod["metadata"]["name"].as_str().unwrap());
    }
    assert_eq!(driver.end_of(1)["reason"], "Disrupted");
    driver.registered(4);
    assert_eq!(protected(&place), ["t-exec-2", "t-exec-3", "t-exec-4"]);
    assert_eq!(driver.log().lines("executor ended").len(), 1);

    // Its pod stays until this test has looked at it.
    let keep = |finalizers: &str| {
        let patch = format!("{{\"metadata\": {{\"finalizers\": {finalizers}}}}}");
        place.told(&[
            "patch", "pod", "t-exec-2", "--type", "merge", "--patch", &patch,
        ]);
    };
    keep("[\"example.com/kept\"]");
    place.ask(&["decommission", "2"]);
    until("it drains, and its node may be emptied", || {
        let pod = place.pod("t-exec-2")?;
        let drains = pod["metadata"]["annotations"]["boatswain.dev/draining"].is_string();
        (drains && !is_protected(&pod)).then_some(())
    });
    keep("null");
    driver.end_of(2);
}

// spec: B-73, B-58
#[test]
fn alone_executors_that_are_silent_on_a_node_that_is_not_ready_are_lost_with_it_without_doubt() {
    let place = Place::new("not-ready");
    // Longer than it takes until a node is known not to be ready.
    let patient = sessions().replace("timeout = \"20s\"", "timeout = \"90s\"");
    // Some have to be on each node; KWOK's counts among those that they could be spread over evenly.
    let spread =
        "topology_spread = [{ key = \"kubernetes.io/hostname\", uneven = \"ScheduleAnyway\" }]";
    let config = config(6).replace("executors = 6", &format!("executors = 6\n{spread}"))
        + &patient
        + "[nodes]\nwatch = true\n"
        + API;
    let driver = place.drive(&config, &["--generate-secrets"]);
    driver.registered(6);
    let home = driver.pod()["spec"]["nodeName"].clone();
    let elsewhere = |pods: Vec<Value>| -> Vec<Value> {
        let is_elsewhere = |pod: &Value| pod["spec"]["nodeName"] != home;
        pods.into_iter().filter(is_elsewhere).collect()
    };
    let lost = elsewhere(place.executors());
    assert!((1..6).contains(&lost.len()), "{} are elsewhere", lost.len());
    let node = lost[0]["spec"]["nodeName"].as_str().unwrap();
    let kubelet = node.replace("node", "kubelet");
    cluster(&["pause", &kubelet]);
    lost.iter().for_each(freeze_executor);
    until_after(Duration::from_secs(90), "others run in their place", || {
        let pods = place.executors();
        let is_running = |pod: &Value| pod["status"]["phase"] == "Running";
        let are_well = pods.len() == 6 && pods.iter().all(is_running);
        (are_well && elsewhere(pods).is_empty()).then_some(())
    });
    let ids = lost.iter().map(|pod| {
        let id = &pod["metadata"]["labels"]["boatswain.dev/executor-id"];
        id.as_str().unwrap().to_owned()
    });
    let ids: Vec<String> = ids.collect();
    let said = place.ask(&["explain", &ids[0]]);
    assert!(
        said.contains(&format!("its node {node} is not ready")),
        "{said}"
    );
    cluster(&["continue", &kubelet]);
    for id in ids {
        let end = driver.end_of(id.parse().unwrap());
        assert_eq!(
            (&end["reason"], &end["failure"]),
            (&json!("NodeLost"), &json!(false)),
            "{end}"
        );
        assert!(
            end["why"].as_str().unwrap().contains("is not ready"),
            "{end}"
        );
    }
    let doubt = "degraded: no executor is given up for its silence";
    assert!(driver.log().lines(doubt).is_empty());
}
