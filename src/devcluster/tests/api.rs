use super::*;

/// Code and reason of an answer.
fn refusal((code, status): (u16, Value)) -> (u16, String) {
    (
        code,
        status["reason"].as_str().unwrap_or_default().to_owned(),
    )
}

fn refused(code: u16, reason: &str) -> (u16, String) {
    (code, reason.to_owned())
}

#[tokio::test(start_paused = true)]
async fn an_assigned_pod_is_told_of_its_grace_which_may_only_become_shorter() {
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
async fn an_unassigned_or_finished_pod_goes_at_once_whatever_the_grace() {
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
async fn preconditions_must_hold_for_a_delete() {
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
async fn a_write_that_comes_after_its_timeout_is_not_carried_out() {
    let cluster = cluster();
    let (send, body) =
        futures::channel::mpsc::unbounded::<Result<bytes::Bytes, std::convert::Infallible>>();
    let request = Request::post(pods("?timeout=1s"))
        .body(Body::from_stream(body))
        .expect("a request");
    let answer = tokio::spawn(cluster.router().oneshot(request));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let _ = send.unbounded_send(Ok(pod("a").to_string().into()));
    drop(send);
    assert_eq!(
        answer.await.expect("no panic").expect("an answer").status(),
        504
    );
    assert_eq!(cluster.state().await.pods("default").count(), 0);
    assert_eq!(
        refusal(post(&cluster, &pods("?timeout=soon"), &pod("a")).await),
        refused(400, "BadRequest")
    );
    assert_eq!(
        post(&cluster, &pods("?timeout=10s"), &pod("a")).await.0,
        201
    );
}

#[tokio::test(start_paused = true)]
async fn what_changes_nothing_makes_no_version() {
    let cluster = cluster();
    let before = create(&cluster, "a").await;
    let (code, after) = patch(
        &cluster,
        &pods("/a"),
        &json!({"metadata": {"labels": {"app": "demo"}}}),
    )
    .await;
    assert_eq!((code, version(&after)), (200, version(&before)));
    let (code, after) = ask(&cluster, Method::PUT, &pods("/a"), Some(&pod("a"))).await;
    assert_eq!((code, version(&after)), (200, version(&before)), "{after}");
    assert_eq!(cluster.state().await.resource_version(), 1_001);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_answers_and_leaves_no_trace() {
    let cluster = cluster();
    create(&cluster, "a").await;
    assert_eq!(post(&cluster, &pods("?dryRun=All"), &pod("b")).await.0, 201);
    let label = json!({"metadata": {"labels": {"x": "y"}}});
    assert_eq!(
        patch(&cluster, &pods("/a?dryRun=All"), &label).await.1["metadata"]["labels"]["x"],
        "y"
    );
    assert_eq!(delete(&cluster, &pods("?dryRun=All")).await.0, 200);
    assert_eq!(
        refusal(delete(&cluster, &pods("?dryRun=Some")).await),
        refused(422, "Invalid")
    );
    assert_eq!(cluster.state().await.resource_version(), 1_001);
}

#[tokio::test(start_paused = true)]
async fn pages_are_of_one_version_and_go_on_at_the_newest_where_that_is_gone() {
    let cluster = cluster();
    for name in ["a", "b", "c", "d"] {
        create(&cluster, name).await;
    }
    let (_, first) = get(&cluster, &pods("?limit=2")).await;
    assert_eq!(first["metadata"]["remainingItemCount"], 2);
    let token = first["metadata"]["continue"].as_str().expect("a token");
    delete(&cluster, &pods("/c")).await;
    let names = |list: &Value| -> Vec<Value> {
        let items = list["items"].as_array().into_iter().flatten();
        items.map(|item| item["metadata"]["name"].clone()).collect()
    };
    let rest = pods(&format!("?limit=2&continue={token}"));
    let (_, second) = get(&cluster, &rest).await;
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(
        second["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    cluster.compact().await;
    let (code, status) = get(&cluster, &rest).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
    let token = status["metadata"]["continue"].as_str().expect("a token");
    let (_, second) = get(&cluster, &pods(&format!("?limit=2&continue={token}"))).await;
    assert_eq!(names(&second), ["d"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_of_the_version_asked_for() {
    let cluster = cluster();
    create(&cluster, "a").await;
    create(&cluster, "b").await;
    let count = |list: (u16, Value)| list.1["items"].as_array().map(Vec::len);
    assert_eq!(
        count(
            get(
                &cluster,
                &pods("?resourceVersion=1001&resourceVersionMatch=Exact")
            )
            .await
        ),
        Some(1)
    );
    assert_eq!(
        count(get(&cluster, &pods("?resourceVersion=1001&limit=5")).await),
        Some(1)
    );
    assert_eq!(
        count(get(&cluster, &pods("?resourceVersion=1001")).await),
        Some(2)
    );
    assert_eq!(
        count(get(&cluster, &pods("?resourceVersion=0&limit=1")).await),
        Some(2)
    );
    let gone = get(
        &cluster,
        &pods("?resourceVersion=5&resourceVersionMatch=Exact"),
    )
    .await;
    assert_eq!(refusal(gone), refused(410, "Expired"));
    let began = tokio::time::Instant::now();
    let (code, status) = get(&cluster, &pods("?resourceVersion=2000")).await;
    assert_eq!(
        (code, &status["details"]["causes"][0]["reason"]),
        (504, &json!("ResourceVersionTooLarge"))
    );
    assert_eq!(began.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_a_version_to_come_waits_for_it() {
    let cluster = cluster();
    let waiting = tokio::spawn({
        let cluster = cluster.clone();
        async move {
            get(
                &cluster,
                &pods("?resourceVersion=1001&resourceVersionMatch=NotOlderThan"),
            )
            .await
        }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    create(&cluster, "a").await;
    assert_eq!(waiting.await.expect("no panic").0, 200);
}

#[tokio::test(start_paused = true)]
async fn bad_objects_are_refused_with_their_causes() {
    let cluster = cluster();
    let of =
        |container: Value| json!({"metadata": {"name": "a"}, "spec": {"containers": [container]}});
    for (field, bad) in [
        (
            "metadata.name",
            json!({"metadata": {"name": "A"}, "spec": pod("a")["spec"]}),
        ),
        (
            "metadata.labels",
            json!({"metadata": {"name": "a", "labels": {"-": ""}}, "spec": pod("a")["spec"]}),
        ),
        (
            "spec.containers",
            json!({"metadata": {"name": "a"}, "spec": {"containers": []}}),
        ),
        (
            "spec.containers[0].name",
            of(json!({"name": "C", "image": "i"})),
        ),
        ("spec.containers[0].image", of(json!({"name": "c"}))),
        (
            "spec.containers[0].env[0].name",
            of(json!({"name": "c", "image": "i", "env": [{"name": "a=b"}]})),
        ),
        (
            "spec.containers[0].volumeMounts[0].name",
            of(
                json!({"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}),
            ),
        ),
        (
            "spec.containers[0].resources.requests",
            of(
                json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}),
            ),
        ),
    ] {
        let (code, status) = post(&cluster, &pods(""), &bad).await;
        assert_eq!(
            (code, &status["reason"]),
            (422, &json!("Invalid")),
            "{status}"
        );
        assert_eq!(status["details"]["causes"][0]["field"], field, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_may_change_of_a_pod_can_be_changed() {
    let cluster = cluster();
    create(&cluster, "a").await;
    let image = json!({"spec": {"containers": [{"name": "c", "image": "other:1"}]}});
    let (code, changed) = ask_strategic(&cluster, &pods("/a"), &image).await;
    assert_eq!((code, &changed["metadata"]["generation"]), (200, &json!(2)));
    let node = json!({"spec": {"nodeName": "n"}});
    assert_eq!(
        refusal(patch(&cluster, &pods("/a"), &node).await),
        refused(422, "Invalid")
    );
    let name = json!({"metadata": {"name": "b"}});
    assert_eq!(
        refusal(patch(&cluster, &pods("/a"), &name).await),
        refused(422, "Invalid")
    );
    let uid = json!({"metadata": {"uid": "other"}});
    assert_eq!(
        refusal(patch(&cluster, &pods("/a"), &uid).await),
        refused(409, "Conflict")
    );
}

async fn ask_strategic(cluster: &DevCluster, path: &str, patch: &Value) -> (u16, Value) {
    let request =
        Request::patch(path).header("content-type", "application/strategic-merge-patch+json");
    let request = request
        .body(Body::from(patch.to_string()))
        .expect("a request");
    let response = cluster.router().oneshot(request).await.expect("an answer");
    let code = response.status().as_u16();
    let bytes = response
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    (code, serde_json::from_slice(&bytes).expect("JSON"))
}

#[tokio::test(start_paused = true)]
async fn a_container_that_has_ended_does_not_run_again() {
    let cluster = cluster();
    create(&cluster, "a").await;
    let ended = json!({"status": {"phase": "Failed", "containerStatuses": [
        {"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": 1}}},
    ]}});
    assert_eq!(patch(&cluster, &pods("/a/status"), &ended).await.0, 200);
    let mut running = ended.clone();
    running["status"]["containerStatuses"][0]["state"] = json!({"running": {}});
    assert_eq!(
        refusal(patch(&cluster, &pods("/a/status"), &running).await),
        refused(422, "Invalid")
    );
}

// spec: O-72
#[tokio::test(start_paused = true)]
async fn without_its_token_a_server_tells_only_that_it_is_there() {
    let cluster = super::super::start(Options {
        token: Some("secret".into()),
        ..options()
    });
    let with = async |path: &str, token: Option<&str>| {
        let mut request = Request::get(path);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let response = cluster
            .router()
            .oneshot(request.body(Body::empty()).expect("a request"))
            .await;
        response.expect("an answer").status().as_u16()
    };
    assert_eq!(with(&pods(""), Some("secret")).await, 200);
    for wrong in ["", "secre", "secret2", "Secret"] {
        assert_eq!(with(&pods(""), Some(wrong)).await, 401, "{wrong}");
    }
    assert_eq!(with(&pods(""), None).await, 403);
    assert_eq!(with("/nothing", None).await, 403);
    assert_eq!(with("/readyz", None).await, 200);
    assert_eq!(with("/readyz", Some("wrong")).await, 401);
}

#[tokio::test(start_paused = true)]
async fn a_body_beyond_the_limit_is_413() {
    let cluster = cluster();
    let map = |size: usize| json!({"metadata": {"name": "a"}, "data": {"x": "x".repeat(size)}});
    let path = "/api/v1/namespaces/default/configmaps";
    assert_eq!(
        refusal(post(&cluster, path, &map(4 << 20)).await),
        refused(413, "RequestEntityTooLarge")
    );
    assert_eq!(
        refusal(post(&cluster, path, &map(2 << 20)).await),
        refused(422, "Invalid")
    );
    assert_eq!(post(&cluster, path, &map(1 << 19)).await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_made_by_a_put_too_and_guarded_by_its_version() {
    let cluster = cluster();
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let lease = |version: &str| json!({"metadata": {"name": "l", "resourceVersion": version}, "spec": {"holderIdentity": version}});
    let (code, first) = ask(&cluster, Method::PUT, path, Some(&lease(""))).await;
    assert_eq!((code, version(&first)), (201, "1001"));
    assert_eq!(
        ask(&cluster, Method::PUT, path, Some(&lease("1001")))
            .await
            .0,
        200
    );
    let stale = ask(&cluster, Method::PUT, path, Some(&lease("1001"))).await;
    assert_eq!(refusal(stale), refused(409, "Conflict"));
}

#[tokio::test(start_paused = true)]
async fn an_eviction_deletes_and_says_why() {
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
