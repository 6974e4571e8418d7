//! Tests executors that end: each end is reported with its reason, and each executor is replaced.

use std::collections::BTreeSet;

use serde_json::json;

use super::api::Grace;
use super::cluster::Cluster;
use super::driver::Driver;

const MANY: usize = 50;

// spec, L-1, L-20, L-4
#[test]
fn deleted_and_relabelled_executors_are_reported_and_replaced() {
    let cluster = Cluster::any();
    let mut driver = Driver::start(&cluster, MANY, &[]);
    let before = cluster.converges(MANY);
    for id in [3, 4, 5] {
        cluster.api.delete_pod(&format!("t-exec-{id}"), Grace::Own);
    }
    for id in [17, 18] {
        cluster
            .api
            .delete_pod(&format!("t-exec-{id}"), Grace::Force);
    }
    cluster
        .api
        .label_pod("t-exec-30", &json!({"boatswain.dev/role": "stowaway"}));
    let reasons = [3, 4, 5, 17, 18, 30].map(|id| driver.end_of(id)["reason"].clone());
    let (mislabelled, deleted) = reasons.split_last().unwrap();
    assert!(
        deleted.iter().all(|reason| reason == "Deleted"),
        "{deleted:?}"
    );
    assert_eq!(mislabelled, "Mislabelled");

    let after = cluster.settles(MANY);
    assert_eq!(
        after.intersection(&before).count(),
        MANY - 6,
        "all others stay"
    );
    let log = driver.log();
    assert_eq!(log.count("executor ended"), 6, "each once");
    let wanted: BTreeSet<u64> = (1..=MANY as u64 + 6).collect();
    assert_eq!(
        log.executors("executor requested"),
        wanted,
        "no more than that"
    );
}

// spec, L-11
#[test]
fn an_executor_costs_one_create_and_at_most_one_delete() {
    let Some(cluster) = Cluster::logged() else {
        return;
    };
    let driver = Driver::start(&cluster, MANY, &[]);
    cluster.converges(MANY);
    let gone = cluster.api.pods().into_iter().take(MANY / 2);
    for pod in gone {
        let failed = json!({"phase": "Failed", "containerStatuses": [{
            "name": "executor", "image": "none", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 7, "reason": "Error"}},
        }]});
        cluster.api.set_pod_status(&pod.name, &failed);
    }
    cluster.settles(MANY);
    let creates = cluster.written("POST", "/pods");
    assert_eq!(
        creates.len(),
        MANY + MANY / 2,
        "as many as were wanted, and replaced"
    );
    let deletes = cluster.written("DELETE", "/pods/");
    assert_eq!(deletes.len(), MANY / 2, "each finished pod once");
    assert_eq!(deletes.iter().collect::<BTreeSet<_>>().len(), MANY / 2);
    let patches = cluster.written("PATCH", "/");
    assert!(patches.is_empty(), "{patches:?}");
    let log = driver.log();
    let codes = log
        .lines("executor ended")
        .into_iter()
        .map(|end| end["exit_code"].as_u64());
    assert_eq!(codes.collect::<Vec<_>>(), [Some(7); MANY / 2]);
}
