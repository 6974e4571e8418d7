use super::*;

#[tokio::test(start_paused = true)]
async fn an_earlier_state_can_be_restored() {
    let cluster = cluster();
    create(&cluster, "a").await;
    let kept = cluster.state().await;
    let mut events = watch(&cluster, &pods("?watch=1")).await;
    assert_eq!(events.next_named().await, named("ADDED", "a"));
    create(&cluster, "b").await;
    assert_eq!(events.next_named().await, named("ADDED", "b"));
    cluster.restore(kept).await;
    assert_eq!(events.next().await, None, "watches are cut");
    assert_eq!(cluster.state().await.resource_version(), 1_001);
    assert_eq!(get(&cluster, &pods("/b")).await.0, 404);
    let again = create(&cluster, "b").await;
    assert_eq!(
        version(&again),
        "1002",
        "versions are used again, as on a server put back from a backup"
    );
}

#[tokio::test(start_paused = true)]
async fn an_emptied_server_equals_a_new_one() {
    let cluster = cluster();
    create(&cluster, "a").await;
    cluster.empty().await;
    let state = cluster.state().await;
    assert_eq!(state.resource_version(), super::super::FIRST_VERSION);
    assert_eq!(state.pods("default").count(), 0);
    create(&cluster, "a").await;
}

#[tokio::test(start_paused = true)]
async fn cut_watches_end_and_can_be_resumed() {
    let cluster = cluster();
    let mut events = watch(&cluster, &pods("?watch=1&resourceVersion=1000")).await;
    cluster.cut_watches().await;
    create(&cluster, "a").await;
    assert_eq!(events.next().await, None);
    let mut events = watch(&cluster, &pods("?watch=1&resourceVersion=1000")).await;
    assert_eq!(events.next_named().await, named("ADDED", "a"));
}

#[tokio::test(start_paused = true)]
async fn client_writes_are_counted_and_reads_and_reviews_are_not() {
    let cluster = cluster();
    create(&cluster, "a").await;
    let review = json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}});
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(post(&cluster, reviews, &review).await.0, 201);
    post(&cluster, &pods(""), &pod("a")).await;
    post(&cluster, &pods(""), &json!([])).await;
    get(&cluster, &pods("")).await;
    assert_eq!(cluster.writes().await, 3);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_yields_the_same_run() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let cluster = cluster();
        post(
            &cluster,
            &pods(""),
            &json!({"metadata": {"generateName": "x-"}, "spec": pod("x")["spec"]}),
        )
        .await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        create(&cluster, "a").await;
        runs.push(
            cluster
                .state()
                .await
                .pods("default")
                .map(Value::to_string)
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(runs[0], runs[1]);
    assert!(runs[0][0].contains("2026-01-01T00:00:03Z"));
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_watches_and_can_be_repeated() {
    let cluster = cluster();
    let mut events = watch(&cluster, &pods("?watch=1")).await;
    cluster.shutdown().await;
    assert_eq!(events.next().await, None);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_kube_client_works_with_the_router() {
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::{Api, DeleteParams, ListParams, PostParams};

    let cluster = cluster();
    let client = kube::Client::new(cluster.router(), "default");
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    let pod: Pod = serde_json::from_value(pod("a")).expect("a pod");
    let created = api
        .create(&PostParams::default(), &pod)
        .await
        .expect("created");
    assert!(created.metadata.uid.is_some());
    let error = api
        .create(&PostParams::default(), &pod)
        .await
        .expect_err("it is there");
    assert!(
        matches!(&error, kube::Error::Api(status) if status.reason == "AlreadyExists"),
        "{error}"
    );
    let list = api
        .list(&ListParams::default().labels("app=demo"))
        .await
        .expect("a list");
    assert_eq!(
        (list.items.len(), list.metadata.resource_version.as_deref()),
        (1, Some("1001"))
    );
    api.delete("a", &DeleteParams::default())
        .await
        .expect("deleted");
    assert!(api.get_opt("a").await.expect("an answer").is_none());
    assert_eq!(
        client.apiserver_version().await.expect("a version").major,
        "1"
    );
}
