//! Tests nodes that are about to leave the cluster, on nodes of KWOK's that each test makes for itself.

use serde_json::{Value, json};

use super::place::{API, Place, config};
use super::process::{boatswain, until};

const TAINT: &str = "karpenter.sh/disrupted";

/// Makes nodes on which only executors of this namespace run, and a configuration of such executors.
fn fleet(place: &Place, nodes: usize, executors: usize) -> String {
    let name = place.name();
    let node = |number| {
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": format!("{name}-{number}"),
                "annotations": {"kwok.x-k8s.io/node": "fake"},
                "labels": {
                    "test": name, "topology.kubernetes.io/zone": "north", "karpenter.sh/capacity-type": "spot",
                },
            },
            "spec": {"taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]},
            "status": {
                "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"},
                "capacity": {"cpu": "8", "memory": "16Gi", "pods": "110"},
            },
        })
    };
    place.apply(&(1..=nodes).map(node).collect::<Vec<_>>());
    let own = format!(
        "executors = {executors}\nnode_selector = {{ test = \"{name}\" }}\n\
         tolerations = [{{ key = \"kwok.x-k8s.io/node\", operator = \"Exists\" }}]"
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
    let mut executors = boatswain();
    executors.env("KUBECONFIG", &place.kubeconfig);
    executors.args([
        "executors",
        "--output",
        "wide",
        "--app",
        "t",
        "--namespace",
        place.name(),
    ]);
    let wide = String::from_utf8(executors.output().unwrap().stdout).unwrap();
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
