//! Tests evictions, disruption budgets and the drain of a node.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::place::{Place, WORKER, config, sessions, state};
use super::process::until;

/// Asks for an eviction: the status code, 201 if it is granted. By curl, because Kubernetes' own clients ask again after
/// a 429.
pub fn evict(place: &Place, pod: &str) -> u16 {
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": pod, "namespace": place.name()},
    });
    let at = |file: &str| state().join("pki").join(file);
    let mut curl = Command::new("curl");
    curl.args([
        "--silent",
        "--output",
        "/dev/null",
        "--write-out",
        "%{http_code}",
    ])
    .arg("--cacert")
    .arg(at("ca.crt"))
    .arg("--cert")
    .arg(at("admin.crt"))
    .arg("--key")
    .arg(at("admin.key"))
    .args(["--header", "content-type: application/json"])
    .args(["--data", &eviction.to_string()])
    .arg(format!(
        "https://10.88.0.1:6443/api/v1/namespaces/{}/pods/{pod}/eviction",
        place.name()
    ));
    let output = curl.output().unwrap();
    String::from_utf8(output.stdout).unwrap().parse().unwrap()
}

// spec: L-20, L-13
#[test]
fn an_evicted_executor_ends_as_disrupted_which_is_no_failure_and_is_replaced() {
    let place = Place::new("evict");
    let driver = place.drive(&config(2), &[]);
    place.run(2);
    assert_eq!(evict(&place, "t-exec-1"), 201);
    let end = driver.end_of(1);
    assert_eq!(
        (&end["reason"], &end["failure"]),
        (&json!("Disrupted"), &json!(false)),
        "{end}"
    );
    assert!(
        end["why"]
            .as_str()
            .unwrap()
            .contains("EvictionByEvictionAPI"),
        "{end}"
    );
    until("another one runs", || {
        place.run(2).contains(&"t-exec-3".to_owned()).then_some(())
    });
    // The same of the driver's own pod: it hands over, and its Job goes on.
    let pod = driver.name();
    assert_eq!(evict(&place, &pod), 201);
    until("another driver has adopted both", || {
        let next = driver.name();
        let log = (next != pod).then(|| driver.log_of(&next))?;
        let adopted = log.lines("executors adopted").first()?["found"].clone();
        (adopted == 2).then_some(())
    });
    let job = place.get("apis/batch/v1", "jobs", "boatswain").unwrap();
    assert_eq!(job["status"]["failed"].as_u64().unwrap_or(0), 0, "{job}");
}

// spec: K-12
#[test]
fn a_drain_leaves_as_many_ready_executors_as_the_budget_says_and_ends() {
    let place = Place::new("drain");
    let own = format!(
        "executors = 4\nmin_available = 3\nlabels = {{ test = \"{}\" }}",
        place.name()
    );
    let budget = config(4).replace("executors = 4", &own);
    let driver = place.drive(&budget, &[]);
    place.run(4);
    until("the budget counts them", || {
        let budget = place.get("apis/policy/v1", "poddisruptionbudgets", "t-default")?;
        (budget["status"]["disruptionsAllowed"] == 1).then_some(())
    });
    // All at once: one of them may go.
    let place = &place;
    let answers: Vec<u16> = std::thread::scope(|scope| {
        let asked: Vec<_> = (1..=4)
            .map(|id| scope.spawn(move || evict(place, &format!("t-exec-{id}"))))
            .collect();
        asked
            .into_iter()
            .map(|asked| asked.join().unwrap())
            .collect()
    });
    assert!(
        answers.contains(&201) && answers.contains(&429),
        "{answers:?}"
    );
    place.run(4);
    let node = place.executors()[0]["spec"]["nodeName"].clone();
    let node = node.as_str().unwrap();
    let mut drain = Command::new("kubectl")
        .args([
            "drain",
            node,
            "--ignore-daemonsets",
            "--delete-emptydir-data",
            "--timeout=220s",
        ])
        .arg(format!(
            "--pod-selector=boatswain.dev/app-id=t,test={}",
            place.name()
        ))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut fewest = usize::MAX;
    let ready = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|c| c["type"] == "Ready" && c["status"] == "True")
    };
    let status = until("the drain has ended", || {
        fewest = fewest.min(place.executors().iter().filter(|pod| ready(pod)).count());
        drain.try_wait().unwrap()
    });
    place.told(&["uncordon", node]);
    assert!(status.success());
    assert!(fewest >= 3, "{fewest} were ready");
    place.run(4);
    let log = driver.log();
    let reasons: Vec<_> = log
        .lines("executor ended")
        .iter()
        .map(|line| line["reason"].clone())
        .collect();
    assert!(
        reasons.iter().all(|reason| reason == "Disrupted"),
        "{reasons:?}"
    );
}

// spec: O-121, O-65
#[test]
fn an_evicted_executor_finishes_its_work_within_its_grace_if_its_agent_knows_how() {
    let place = Place::new("evict-busy");
    // A program that ends at once when it is terminated, and in its own time when it is drained.
    let worker =
        "trap 'exit 3' TERM; trap 'sleep 2; exit 0' USR1; while true; do sleep 1 & wait $!; done";
    let config = config(1)
        .replace(WORKER, worker)
        .replace("termination_grace = \"3s\"", "termination_grace = \"12s\"")
        + &sessions()
        + "decommission_command = \"kill -USR1 $PPID\"\n";
    let driver = place.drive(&config, &["--generate-secrets"]);
    driver.registered(1);
    assert_eq!(evict(&place, "t-exec-1"), 201);
    let end = driver.end_of(1);
    assert_eq!(
        (&end["reason"], &end["exit_code"], &end["failure"]),
        (&json!("Disrupted"), &json!(0), &json!(false)),
        "{end}"
    );
}
