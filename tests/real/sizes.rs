//! Tests executors that need more memory than a real kubelet lets them have.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::place::{API, Place, WORKER, config, sessions};
use super::process::until;

/// Keeps some 40 MiB, for which a shell needs two to three times as much, and then runs until it is told to exit.
const HUNGRY: &str = "x=$(head -c 40m /dev/zero | tr '\\\\0' a)";

/// Three executors that begin with 32 MiB and may have 512. No failure is allowed.
fn hungry() -> String {
    let worker = format!("args = [\"{WORKER}\"]");
    let profile = config(3).replace(&worker, &format!("args = [\"{HUNGRY}; {WORKER}\"]"));
    let grows = "memory_limit = \"32Mi\"\nmemory_max = \"512Mi\"";
    let profile = profile.replace("memory_limit = \"64Mi\"", grows);
    assert!(profile.contains(HUNGRY) && profile.contains(grows));
    profile + "[failures]\nmax = 0\n" + API
}

/// The memory limits of the executors, in bytes, by their specs.
fn limits(pods: &[Value]) -> BTreeSet<u64> {
    let limit = |pod: &Value| limit(&pod["spec"]["containers"][0]);
    pods.iter().map(limit).collect()
}

/// The memory limit of a container or its status, in bytes.
fn limit(container: &Value) -> u64 {
    let limit = container["resources"]["limits"]["memory"].as_str().unwrap();
    let limit: boatswain_model::quantity::Quantity = limit.parse().unwrap();
    limit.bytes()
}

// spec: L-43, L-41, O-43
#[test]
fn executors_that_are_out_of_memory_are_replaced_by_larger_ones_until_they_run_and_successors_know_it()
 {
    let place = Place::new("sizes");
    let driver = place.drive(&hungry(), &["--generate-secrets"]);
    let all_run = || {
        let pods = place.executors();
        let run = |pod: &Value| {
            let status = &pod["status"]["containerStatuses"][0]["state"];
            !status["running"].is_null()
        };
        (pods.len() == 3 && pods.iter().all(run)).then(|| limits(&pods))
    };
    let grown = until("three run on", || {
        // At first they run until they have used all of it.
        let limits = all_run().filter(|limits| limits.last() > Some(&(32 << 20)))?;
        // A container runs for an instant before it is killed.
        std::thread::sleep(std::time::Duration::from_secs(2));
        let log = driver.log();
        let quiet = log.count("executor ended") == log.count("executor requested") - 3;
        (quiet && all_run().as_ref() == Some(&limits)).then_some(limits)
    });
    let most = *grown.last().unwrap();
    assert!((48 << 20..=512 << 20).contains(&most), "{grown:?}");
    let log = driver.log();
    let ends = log.lines("executor ended");
    assert!(
        ends.iter().all(|end| end["reason"] == "OomKilled"),
        "{ends:?}"
    );
    assert!(log.count("executors were killed because their memory was exhausted: new ones of this profile get more") >= 1);
    let status = place.ask(&["status"]);
    let said = format!("memory grown to {}Mi", most >> 20);
    assert!(status.contains(&said), "{status}");

    let first = driver.name();
    place.told(&["delete", "pod", &first]);
    until("another driver begins", || {
        let pods = driver.pods();
        let others = pods
            .iter()
            .any(|pod| pod["metadata"]["name"] != first.as_str());
        (pods.len() == 1 && others).then_some(())
    });
    driver.says("executors adopted");
    let pods = place.executors();
    let id = &pods[0]["metadata"]["labels"]["boatswain.dev/executor-id"];
    place.ask(&["kill", "--replace", "--force", id.as_str().unwrap()]);
    until("its replacement runs", || {
        let limits = all_run()?;
        let replaced = driver.log().count("executor requested") == 1;
        (replaced && limits == grown).then_some(())
    });
    place.ask(&["reset", "default"]);
    let status = place.ask(&["status"]);
    assert!(!status.contains("memory grown"), "{status}");
}

/// Keeps 91 % of whatever memory limit it has, without the page cache that the kernel takes back first: it needs more, and
/// is never killed for it, however long a resize takes. Each `dd` has a block that its pipe does not take.
const GROWING: &str = "trap 'exit 0' TERM; cd /sys/fs/cgroup; [ -e memory.current ] || cd memory; \
    of() { cat $1 2>/dev/null || cat $2; }; \
    while true; do \
    limit=$(of memory.max memory.limit_in_bytes); \
    used=$(($(of memory.current memory.usage_in_bytes) - $(sed -n 's/^inactive_file //p' memory.stat))); \
    [ $used -ge $((limit / 100 * 91)) ] || dd bs=4M count=1 if=/dev/zero 2>/dev/null | sleep 1000000 & \
    sleep 0.2; done";

// spec: L-44, L-43, O-51
#[test]
fn executors_near_their_memory_limit_get_more_while_they_run_as_soon_as_a_quota_allows_it() {
    let place = Place::new("in-place");
    // Enough for the driver and two executors as they are at first.
    place.told(&["create", "quota", "memory", "--hard=limits.memory=600Mi"]);
    let worker = format!("args = [\"{WORKER}\"]");
    let profile = config(2).replace(&worker, &format!("args = [\"{GROWING}\"]"));
    let grows = "memory_limit = \"200Mi\"\nmemory_max = \"400Mi\"\nmemory_in_place = true";
    let profile = profile.replace("memory_limit = \"64Mi\"", grows);
    assert!(profile.contains(GROWING) && profile.contains(grows));
    // Another container of a pod has to have a limit as well, for the quota.
    let settings = profile + "[failures]\nmax = 0\n" + &sessions() + API;
    let defaults = json!({
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "defaults"},
        "spec": {"limits": [{"type": "Container", "default": {"memory": "64Mi"}}]},
    });
    place.apply(&[defaults]);
    let driver = place.drive(&settings, &["--generate-secrets"]);
    driver.registered(2);
    let first: BTreeSet<String> = place.run(2).into_iter().collect();
    driver.says("an executor near its memory limit cannot get more: tried again");
    let more = json!({"spec": {"hard": {"limits.memory": "4Gi"}}}).to_string();
    place.told(&["patch", "quota", "memory", "--patch", &more]);
    until("both have all that they may have", || {
        let pods = place.executors();
        let given = |pod: &Value| {
            limit(&pod["status"]["containerStatuses"][0]) == limit(&pod["spec"]["containers"][0])
        };
        let all = limits(&pods) == BTreeSet::from([400 << 20]);
        (all && pods.iter().all(given)).then_some(())
    });
    let log = driver.log();
    assert_eq!(log.count("executor ended"), 0);
    let steps = log.lines("executor resized: its memory limit is another one");
    assert!(steps.len() >= 4, "{steps:?}");
    for pod in place.executors() {
        assert!(
            first.contains(pod["metadata"]["name"].as_str().unwrap()),
            "{pod}"
        );
        assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
        assert_eq!(pod["status"]["qosClass"], "Burstable");
    }
    let id = steps[0]["executor"].to_string();
    let history = place.ask(&["explain", &id]);
    assert!(history.contains("memory_limit=300Mi"), "{history}");
}
