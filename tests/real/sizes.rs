//! Tests executors that need more memory than a real kubelet lets them have.

use std::collections::BTreeSet;

use serde_json::Value;

use super::place::{API, Place, WORKER, config};
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

/// The memory limits of the executors, in bytes.
fn limits(pods: &[Value]) -> BTreeSet<u64> {
    let limit = |pod: &Value| {
        let limit = &pod["spec"]["containers"][0]["resources"]["limits"]["memory"];
        let limit: boatswain_model::quantity::Quantity = limit.as_str().unwrap().parse().unwrap();
        limit.bytes()
    };
    pods.iter().map(limit).collect()
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
        let limits = all_run()?;
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
