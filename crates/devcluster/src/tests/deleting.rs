use super::*;

#[tokio::test(start_paused = true)]
async fn the_grace_period_of_a_bound_pod_can_only_be_shortened() {
    let cluster = cluster();
    create(&cluster, "a").await;
    bind(&cluster, "a").await;
    let grace = |answer: (u16, Value)| answer.1["metadata"]["deletionGracePeriodSeconds"].clone();
    assert_eq!(
        grace(delete(&cluster, &pods("/a?gracePeriodSeconds=10")).await),
        10
    );
    assert_eq!(grace(delete(&cluster, &pods("/a")).await), 10);
    assert_eq!(
        grace(delete(&cluster, &pods("/a?gracePeriodSeconds=60")).await),
        10
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (_, pod) = delete(&cluster, &pods("/a?gracePeriodSeconds=4")).await;
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 4);
    assert_eq!(
        pod["metadata"]["deletionTimestamp"], "2026-01-01T00:00:04Z",
        "counted from the first delete"
    );
    assert_eq!(get(&cluster, &pods("/a")).await.0, 200);
    assert_eq!(
        delete(&cluster, &pods("/a?gracePeriodSeconds=0")).await.0,
        200
    );
    assert_eq!(get(&cluster, &pods("/a")).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn an_unbound_or_terminated_pod_is_removed_without_grace_period() {
    let cluster = cluster();
    create(&cluster, "unassigned").await;
    create(&cluster, "finished").await;
    bind(&cluster, "finished").await;
    patch(
        &cluster,
        &pods("/finished/status"),
        &json!({"status": {"phase": "Succeeded"}}),
    )
    .await;
    for name in ["unassigned", "finished"] {
        let (code, pod) = delete(&cluster, &pods(&format!("/{name}?gracePeriodSeconds=60"))).await;
        assert_eq!(
            (code, &pod["metadata"]["deletionGracePeriodSeconds"]),
            (200, &json!(0))
        );
        assert_eq!(get(&cluster, &pods(&format!("/{name}"))).await.0, 404);
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_checks_its_preconditions() {
    let cluster = cluster();
    let pod = create(&cluster, "a").await;
    let with =
        |preconditions: Value| json!({"kind": "DeleteOptions", "preconditions": preconditions});
    for wrong in [json!({"uid": "other"}), json!({"resourceVersion": "1"})] {
        let answer = ask(&cluster, Method::DELETE, &pods("/a"), Some(&with(wrong))).await;
        assert_eq!(refusal(answer), refused(409, "Conflict"));
    }
    let right = json!({"uid": pod["metadata"]["uid"], "resourceVersion": version(&pod)});
    assert_eq!(
        ask(&cluster, Method::DELETE, &pods("/a"), Some(&with(right)))
            .await
            .0,
        200
    );
}

#[tokio::test(start_paused = true)]
async fn an_eviction_deletes_the_pod_and_sets_a_condition() {
    let cluster = cluster();
    create(&cluster, "a").await;
    bind(&cluster, "a").await;
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
    assert_eq!(post(&cluster, &pods("/a/eviction"), &eviction).await.0, 201);
    let (_, pod) = get(&cluster, &pods("/a")).await;
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(
        pod["status"]["conditions"][1]["reason"],
        "EvictionByEvictionAPI"
    );
}

#[tokio::test(start_paused = true)]
async fn the_default_namespace_cannot_be_deleted() {
    let cluster = cluster();
    assert_eq!(
        refusal(delete(&cluster, "/api/v1/namespaces/default").await),
        refused(403, "Forbidden")
    );
}
