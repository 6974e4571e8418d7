use super::*;
use crate::control::faults::{FailureMode, Faults, RequestFilter, inject_faults};

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

#[tokio::test(start_paused = true)]
async fn a_delete_that_loses_a_race_is_answered_without_a_resource_version() {
    let cluster = cluster();
    let created = create(&cluster, "a").await;
    let path = pods("/a");
    let (first, second) = tokio::join!(delete(&cluster, &path), delete(&cluster, &path));
    assert_eq!((first.0, version(&first.1)), (200, "1003"));
    let (code, pod) = second;
    assert_eq!((code, &pod["kind"]), (200, &json!("Pod")));
    assert_eq!(pod["metadata"]["uid"], created["metadata"]["uid"]);
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(pod["metadata"]["deletionTimestamp"], EPOCH);
    assert_eq!(pod["metadata"].get("resourceVersion"), None);
    assert_eq!(
        delete(&cluster, &path).await.0,
        404,
        "it is gone for later requests"
    );
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_would_not_have_removed_the_pod_at_once_loses_no_race() {
    let cluster = cluster();
    create(&cluster, "a").await;
    bind(&cluster, "a").await;
    let (forced, graceful) = (pods("/a?gracePeriodSeconds=0"), pods("/a"));
    let (first, second) = tokio::join!(delete(&cluster, &forced), delete(&cluster, &graceful));
    assert_eq!((first.0, second.0), (200, 404));
    create(&cluster, "b").await;
    let other = json!({"preconditions": {"uid": "other"}});
    let path = pods("/b");
    let (first, second) = tokio::join!(
        delete(&cluster, &path),
        ask(&cluster, Method::DELETE, &path, Some(&other))
    );
    assert_eq!((first.0, second.0), (200, 404));
}

#[tokio::test(start_paused = true)]
async fn an_injected_fault_lets_deletes_lose_their_race() {
    let cluster = cluster();
    for name in ["a", "bound"] {
        create(&cluster, name).await;
    }
    bind(&cluster, "bound").await;
    let faults = Faults {
        errors: Some((1.0, FailureMode::LostRace, RequestFilter::default())),
        ..Faults::default()
    };
    let (_faults, reader) = tokio::sync::watch::channel(faults);
    let router = cluster.router();
    let router = router.layer(axum::middleware::from_fn_with_state(reader, inject_faults));
    for (method, name, has_version) in [
        (Method::GET, "a", true),
        (Method::DELETE, "a", false),
        (Method::DELETE, "bound", true),
    ] {
        let request = Request::builder()
            .method(&method)
            .uri(pods(&format!("/{name}")))
            .body(Body::empty())
            .expect("a request");
        let answer = router.clone().oneshot(request).await.expect("an answer");
        assert_eq!(answer.status(), 200, "{method} {name}");
        let body = answer.into_body().collect().await.expect("a body");
        let pod: Value = serde_json::from_slice(&body.to_bytes()).expect("JSON");
        let version = pod["metadata"].get("resourceVersion");
        assert_eq!(version.is_some(), has_version, "{method} {name}");
    }
    assert_eq!(get(&cluster, &pods("/a")).await.0, 404);
}
