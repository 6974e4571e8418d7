//! Resource quotas: admission and accounting.

use super::*;

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

async fn limit(cluster: &DevCluster, hard: Value) {
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    let (code, answer) = post(cluster, QUOTAS, &quota).await;
    assert_eq!(code, 201, "{answer}");
}

async fn used(cluster: &DevCluster) -> Value {
    let (_, quota) = get(cluster, &format!("{QUOTAS}/q")).await;
    quota["status"]["used"].clone()
}

async fn message(cluster: &DevCluster, path: &str, body: &Value) -> String {
    let (code, status) = post(cluster, path, body).await;
    assert_eq!(
        (code, &status["reason"]),
        (403, &json!("Forbidden")),
        "{status}"
    );
    status["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn pods_are_counted_until_they_terminate_or_are_removed() {
    let cluster = cluster();
    create(&cluster, "before").await;
    limit(&cluster, json!({"pods": "2", "count/pods": "9"})).await;
    assert_eq!(
        used(&cluster).await,
        json!({"pods": "1", "count/pods": "1"})
    );
    create(&cluster, "a").await;
    assert_eq!(
        message(&cluster, &pods(""), &pod("b")).await,
        "pods \"b\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
    );
    let ended = json!({"status": {"phase": "Failed"}});
    assert_eq!(patch(&cluster, &pods("/a/status"), &ended).await.0, 200);
    assert_eq!(
        used(&cluster).await,
        json!({"pods": "1", "count/pods": "2"})
    );
    create(&cluster, "b").await;
    delete(&cluster, &pods("/b")).await;
    delete(&cluster, &pods("/a")).await;
    assert_eq!(
        used(&cluster).await,
        json!({"pods": "1", "count/pods": "1"})
    );
}

#[tokio::test(start_paused = true)]
async fn requests_of_pods_are_summed_and_mandatory() {
    let cluster = cluster();
    limit(
        &cluster,
        json!({"requests.cpu": "1", "limits.memory": "1Gi"}),
    )
    .await;
    assert_eq!(
        message(&cluster, &pods(""), &pod("a")).await,
        "pods \"a\" is forbidden: failed quota: q: must specify limits.memory for: c; requests.cpu for: c"
    );
    let asking = |name: &str| {
        let mut pod = pod(name);
        pod["spec"]["containers"][0]["resources"] =
            json!({"requests": {"cpu": "600m"}, "limits": {"memory": "256Mi"}});
        pod
    };
    assert_eq!(post(&cluster, &pods(""), &asking("a")).await.0, 201);
    assert_eq!(
        used(&cluster).await,
        json!({"requests.cpu": "600m", "limits.memory": "256Mi"})
    );
    assert_eq!(
        message(&cluster, &pods(""), &asking("b")).await,
        "pods \"b\" is forbidden: exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests.cpu=1"
    );
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_is_refused_by_a_quota_and_not_counted() {
    let cluster = cluster();
    limit(&cluster, json!({"pods": "1"})).await;
    assert_eq!(post(&cluster, &pods("?dryRun=All"), &pod("a")).await.0, 201);
    assert_eq!(used(&cluster).await, json!({"pods": "0"}));
    create(&cluster, "a").await;
    assert_eq!(post(&cluster, &pods("?dryRun=All"), &pod("b")).await.0, 403);
}

#[tokio::test(start_paused = true)]
async fn a_changed_quota_is_recounted() {
    let cluster = cluster();
    create(&cluster, "a").await;
    limit(&cluster, json!({"pods": "5"})).await;
    let hard = json!({"spec": {"hard": {"pods": null, "count/pods": "1"}}});
    assert_eq!(patch(&cluster, &format!("{QUOTAS}/q"), &hard).await.0, 200);
    assert_eq!(used(&cluster).await, json!({"count/pods": "1"}));
    assert_eq!(post(&cluster, &pods(""), &pod("b")).await.0, 403);
}

#[tokio::test(start_paused = true)]
async fn without_controllers_admission_uses_the_given_quota_status() {
    let cluster = super::super::start(Options {
        collect_garbage: false,
        ..options()
    });
    limit(&cluster, json!({"pods": "1"})).await;
    create(&cluster, "unlimited").await;
    let status = format!("{QUOTAS}/q/status");
    let unknown = json!({"status": {"hard": {"pods": "1"}}});
    assert_eq!(patch(&cluster, &status, &unknown).await.0, 200);
    assert_eq!(
        message(&cluster, &pods(""), &pod("a")).await,
        "pods \"a\" is forbidden: status unknown for quota: q, resources: pods"
    );
    let known = json!({"status": {"used": {"pods": "0"}}});
    assert_eq!(patch(&cluster, &status, &known).await.0, 200);
    create(&cluster, "a").await;
    delete(&cluster, &pods("/a")).await;
    assert_eq!(post(&cluster, &pods(""), &pod("b")).await.0, 403);
}
