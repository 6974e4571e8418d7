use super::*;
use crate::SimulatedNode;

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

fn simulated() -> DevCluster {
    cluster_with(NodeKind::Simulated(SimulatedNode::default()))
}

fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    })
}

/// A pod that mounts this claim.
fn using(name: &str, claim: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    pod
}

fn phase(object: &Value) -> &str {
    object["status"]["phase"].as_str().unwrap_or_default()
}

// spec: O-70, K-10
#[tokio::test(start_paused = true)]
async fn a_claim_is_bound_only_when_a_pod_uses_it() {
    let cluster = simulated();
    assert_eq!(post(&cluster, CLAIMS, &claim("a")).await.0, 201);
    tokio::time::sleep(SOON).await;
    let (_, waiting) = get(&cluster, &format!("{CLAIMS}/a")).await;
    assert_eq!(phase(&waiting), "Pending");
    assert_eq!(post(&cluster, &pods(""), &using("p", "a")).await.0, 201);
    until(&cluster, "p", |pod| {
        pod.is_some_and(|pod| phase(pod) == "Running")
    })
    .await;
    tokio::time::sleep(SOON).await;
    let (_, bound) = get(&cluster, &format!("{CLAIMS}/a")).await;
    assert_eq!(phase(&bound), "Bound");
    assert_eq!(bound["status"]["capacity"]["storage"], "1Gi");
    let volume = format!("pvc-{}", bound["metadata"]["uid"].as_str().unwrap());
    assert_eq!(bound["spec"]["volumeName"], *volume);
}

// spec: O-70, K-10
#[tokio::test(start_paused = true)]
async fn a_pod_with_a_missing_claim_is_unschedulable_until_it_exists() {
    let cluster = simulated();
    assert_eq!(post(&cluster, &pods(""), &using("p", "a")).await.0, 201);
    tokio::time::sleep(SOON).await;
    let (_, pod) = get(&cluster, &pods("/p")).await;
    assert_eq!(phase(&pod), "Pending");
    let why = pod["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(
        why.contains("persistentvolumeclaim \"a\" not found"),
        "{why}"
    );
    assert_eq!(post(&cluster, CLAIMS, &claim("a")).await.0, 201);
    until(&cluster, "p", |pod| {
        pod.is_some_and(|pod| phase(pod) == "Running")
    })
    .await;
}

// spec: O-70, K-2
#[tokio::test(start_paused = true)]
async fn a_claim_is_deleted_with_its_owner() {
    let cluster = simulated();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    let maps = "/api/v1/namespaces/default/configmaps";
    let (_, map) = post(&cluster, maps, &map).await;
    let mut owned = claim("a");
    owned["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "m", "uid": map["metadata"]["uid"]},
    ]);
    assert_eq!(post(&cluster, CLAIMS, &owned).await.0, 201);
    delete(&cluster, &format!("{maps}/m")).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(get(&cluster, &format!("{CLAIMS}/a")).await.0, 404);
}

// spec: O-70, K-10
#[tokio::test(start_paused = true)]
async fn a_deleted_claim_stays_until_no_pod_uses_it() {
    let cluster = simulated();
    assert_eq!(post(&cluster, CLAIMS, &claim("a")).await.0, 201);
    assert_eq!(post(&cluster, &pods(""), &using("p", "a")).await.0, 201);
    until(&cluster, "p", |pod| {
        pod.is_some_and(|pod| phase(pod) == "Running")
    })
    .await;
    delete(&cluster, &format!("{CLAIMS}/a")).await;
    tokio::time::sleep(SOON).await;
    let (code, kept) = get(&cluster, &format!("{CLAIMS}/a")).await;
    let deleted_at = &kept["metadata"]["deletionTimestamp"];
    assert!(code == 200 && deleted_at.is_string(), "{kept}");
    delete(&cluster, &pods("/p")).await;
    until(&cluster, "p", |pod| pod.is_none()).await;
    tokio::time::sleep(SOON).await;
    assert_eq!(get(&cluster, &format!("{CLAIMS}/a")).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_mounts_a_path_outside_of_a_volume_is_refused() {
    let cluster = cluster();
    for (mount, field) in [
        (json!({"subPath": "/x"}), ".subPath"),
        (json!({"subPath": "a/../../x"}), ".subPath"),
        (json!({"subPathExpr": "../$(A)"}), ".subPathExpr"),
        (
            json!({"subPath": "a", "subPathExpr": "b"}),
            "[0].subPathExpr",
        ),
    ] {
        let mut pod = using("p", "a");
        let mounts = &mut pod["spec"]["containers"][0]["volumeMounts"];
        *mounts = json!([{"name": "data", "mountPath": "/data"}]);
        for (name, value) in mount.as_object().expect("fields") {
            mounts[0][name] = value.clone();
        }
        let (code, status) = post(&cluster, &pods(""), &pod).await;
        let path = format!("spec.containers[0].volumeMounts{field}");
        let cause = &status["details"]["causes"][0]["field"];
        assert_eq!((code, cause), (422, &json!(path)), "{mount}");
    }
}
