use super::*;

#[tokio::test(start_paused = true)]
async fn a_write_is_not_carried_out_after_its_timeout() {
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
async fn a_write_without_changes_keeps_the_resource_version() {
    let cluster = cluster();
    let before = create(&cluster, "a").await;
    let (code, after) = patch(
        &cluster,
        &pods("/a"),
        &json!({"metadata": {"labels": {"app": "demo"}}}),
    )
    .await;
    assert_eq!((code, version(&after)), (200, version(&before)));
    let (code, after) = ask(&cluster, Method::PUT, &pods("/a"), Some(&before)).await;
    assert_eq!((code, version(&after)), (200, version(&before)), "{after}");
    assert_eq!(cluster.state().await.resource_version(), 1_001);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_answers_without_changing_the_state() {
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
async fn invalid_objects_are_refused_with_their_causes() {
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
            "metadata.annotations[container.apparmor.security.beta.kubernetes.io/other]",
            json!({"metadata": {"name": "a", "annotations":
                {"container.apparmor.security.beta.kubernetes.io/other": "unconfined"}}, "spec": pod("a")["spec"]}),
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
async fn only_mutable_fields_of_a_pod_can_be_changed() {
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
        refused(400, "BadRequest")
    );
    let uid = json!({"metadata": {"uid": "other"}});
    assert_eq!(
        refusal(patch(&cluster, &pods("/a"), &uid).await),
        refused(422, "Invalid")
    );
    let mut other = pod("a");
    other["metadata"]["uid"] = "other".into();
    let replaced = ask(&cluster, Method::PUT, &pods("/a"), Some(&other)).await;
    assert_eq!(refusal(replaced), refused(409, "Conflict"));
}

#[tokio::test(start_paused = true)]
async fn patch_errors_have_the_messages_of_a_real_server() {
    let cluster = cluster();
    create(&cluster, "a").await;
    let message = async |path: &str, body: Value| {
        let (_, status) = patch(&cluster, &pods(path), &body).await;
        status["message"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(
        message("/a", json!({"metadata": {"name": "b"}})).await,
        "the name of the object (b) does not match the name on the URL (a)"
    );
    assert_eq!(
        message("/a", json!({"metadata": {"name": null}})).await,
        "the name of the object (a based on URL) was undeterminable: name must be provided"
    );
    assert_eq!(
        message("/a", json!({"metadata": {"uid": "u"}})).await,
        "Pod \"a\" is invalid: metadata.uid: Invalid value: \"u\": field is immutable"
    );
    let node = message("/a", json!({"spec": {"nodeName": "n"}})).await;
    assert!(
        node.starts_with("Pod \"a\" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"),
        "{node}"
    );
    let odd = message("/a?fieldValidation=Strict", json!({"spec": {"odd": 1}})).await;
    assert!(
        odd.starts_with(" \"\" is invalid: patch: Invalid value: \"{"),
        "{odd}"
    );
    assert!(
        odd.ends_with("strict decoding error: unknown field \"spec.odd\""),
        "{odd}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_generated_name_is_validated_with_its_prefix() {
    let cluster = cluster();
    let mut new = pod("");
    new["metadata"] = json!({"generateName": "exec-"});
    let (code, object) = post(&cluster, &pods(""), &new).await;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    assert_eq!((code, name.len()), (201, 10), "{object}");
    new["metadata"] = json!({"generateName": "Exec-"});
    let (_, status) = post(&cluster, &pods(""), &new).await;
    let fields: Vec<&Value> = status["details"]["causes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|cause| &cause["field"])
        .collect();
    assert_eq!(fields, ["metadata.generateName", "metadata.name"]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_update_requires_a_resource_version() {
    let cluster = cluster();
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}});
    assert_eq!(ask(&cluster, Method::PUT, path, Some(&lease)).await.0, 201);
    let (code, status) = ask(&cluster, Method::PUT, path, Some(&lease)).await;
    assert_eq!(
        (code, status["message"].as_str()),
        (
            422,
            Some(
                "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
            )
        )
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

// spec: O-72
#[tokio::test(start_paused = true)]
async fn without_a_token_a_server_answers_health_checks_only() {
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
async fn a_put_creates_a_lease_and_checks_its_resource_version() {
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
async fn unknown_fields_cause_warnings_or_errors() {
    let cluster = cluster();
    let mut odd = pod("a");
    odd["nonsense"] = json!(1);
    let response = send(
        &cluster,
        Method::POST,
        &pods("?fieldValidation=Warn&dryRun=All"),
        Some(&odd),
    )
    .await;
    assert_eq!(
        response.headers()["warning"],
        "299 - \"unknown field \\\"nonsense\\\"\""
    );
    let response = send(
        &cluster,
        Method::POST,
        &pods("?fieldValidation=Ignore&dryRun=All"),
        Some(&odd),
    )
    .await;
    assert!(!response.headers().contains_key("warning"));
    assert_eq!(
        refusal(post(&cluster, &pods("?fieldValidation=Strict"), &odd).await),
        refused(400, "BadRequest")
    );
}

#[tokio::test(start_paused = true)]
async fn a_patch_with_an_invalid_result_is_unprocessable() {
    let cluster = cluster();
    create(&cluster, "a").await;
    for bad in [
        json!({"metadata": {"labels": {"x": 1}}}),
        json!({"kind": "ConfigMap"}),
        json!({"spec": "none"}),
    ] {
        assert_eq!(
            refusal(patch(&cluster, &pods("/a"), &bad).await),
            refused(422, "Invalid"),
            "{bad}"
        );
    }
    assert_eq!(
        refusal(patch(&cluster, &pods("/a"), &json!([])).await),
        refused(400, "BadRequest")
    );
}
