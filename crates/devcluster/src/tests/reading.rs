//! Response formats: tables and discovery.

use super::*;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const JSON: &str = "application/json";

async fn accept(cluster: &DevCluster, path: &str, form: &str) -> Response {
    let request = Request::get(path).header("accept", form);
    let request = request.body(Body::empty()).expect("a request");
    cluster.router().oneshot(request).await.expect("an answer")
}

async fn get_as(cluster: &DevCluster, path: &str, form: &str) -> (u16, Value) {
    let response = accept(cluster, path, form).await;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a body");
    let value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    (code, value)
}

#[tokio::test(start_paused = true)]
async fn a_table_has_a_row_per_object_and_the_version_of_the_list() {
    let cluster = cluster();
    create(&cluster, "a").await;
    create(&cluster, "b").await;
    let (code, table) = get_as(&cluster, &pods("?limit=1"), TABLE).await;
    assert_eq!((code, &table["kind"]), (200, &json!("Table")));
    assert_eq!(table["metadata"]["resourceVersion"], "1002");
    assert_eq!(table["metadata"]["remainingItemCount"], 1);
    let row = &table["rows"][0];
    assert_eq!(
        row["cells"],
        json!([
            "a", "0/1", "Pending", "0", "0s", "<none>", "<none>", "<none>", "<none>"
        ])
    );
    assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(row["object"]["metadata"]["name"], "a");
    let (_, whole) = get_as(&cluster, &pods("/b?includeObject=Object"), TABLE).await;
    assert_eq!(whole["rows"][0]["object"]["kind"], "Pod");
}

#[tokio::test(start_paused = true)]
async fn a_table_watch_sends_its_columns_once() {
    let cluster = cluster();
    create(&cluster, "a").await;
    let body = accept(&cluster, &pods("?watch=1"), TABLE).await.into_body();
    let mut events = Events {
        body: body.into_data_stream(),
        lines: std::collections::VecDeque::new(),
    };
    let first = events.next().await.expect("an event");
    assert_eq!(first["object"]["columnDefinitions"][0]["name"], "Name");
    assert_eq!(first["object"]["rows"][0]["cells"][0], "a");
    create(&cluster, "b").await;
    let second = events.next().await.expect("an event");
    assert_eq!(
        (&second["type"], &second["object"]["columnDefinitions"]),
        (&json!("ADDED"), &Value::Null)
    );
    assert_eq!(second["object"]["rows"][0]["cells"][0], "b");
}

#[tokio::test(start_paused = true)]
async fn all_errors_of_the_version_parameters_are_reported_together() {
    let cluster = cluster();
    let fields = async |query: &str| -> Vec<String> {
        let (code, status) = get(&cluster, &pods(query)).await;
        assert_eq!(code, 422, "{status}");
        let causes = status["details"]["causes"].as_array().into_iter().flatten();
        causes
            .map(|c| {
                format!(
                    "{} {}",
                    c["field"].as_str().unwrap_or_default(),
                    c["message"].as_str().unwrap_or_default()
                )
            })
            .collect()
    };
    assert_eq!(
        fields("?resourceVersionMatch=Bad&sendInitialEvents=true").await,
        [
            "resourceVersionMatch Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
            "resourceVersionMatch Unsupported value: \"Bad\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
            "sendInitialEvents Forbidden: sendInitialEvents is forbidden for list",
        ]
    );
    assert_eq!(
        fields("?watch=1&resourceVersionMatch=Exact").await,
        [
            "resourceVersionMatch Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            "resourceVersionMatch Unsupported value: \"Exact\": supported values: \"NotOlderThan\"",
        ]
    );
    assert_eq!(
        fields("?watch=1&sendInitialEvents=false").await,
        [
            "resourceVersionMatch Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_discovery_documents_are_served() {
    let cluster = cluster();
    for (path, kind) in [
        ("/api", "APIVersions"),
        ("/apis", "APIGroupList"),
        ("/api/v1", "APIResourceList"),
        ("/apis/rbac.authorization.k8s.io/v1", "APIResourceList"),
    ] {
        let (code, document) = get(&cluster, path).await;
        assert_eq!((code, &document["kind"]), (200, &json!(kind)), "{path}");
    }
    assert_eq!(get(&cluster, "/apis/none.example.com/v1").await.0, 404);
    for path in [
        "/openapi/v3",
        "/openapi/v3/api/v1",
        "/openid/v1/jwks",
        "/.well-known/openid-configuration",
    ] {
        assert_eq!(get(&cluster, path).await.0, 200, "{path}");
    }
    assert_eq!(
        refusal(post(&cluster, "/version", &json!({})).await),
        refused(405, "MethodNotAllowed")
    );
}

#[tokio::test(start_paused = true)]
async fn documents_of_one_form_are_refused_to_who_does_not_accept_it_as_a_real_server_does() {
    let cluster = cluster();
    for (path, form, other) in [
        ("/openid/v1/jwks", "application/jwk-set+json", JSON),
        ("/.well-known/openid-configuration", JSON, "text/plain"),
        ("/version", JSON, "application/yaml"),
    ] {
        for accepted in [form, "application/json, */*", "*/*"] {
            let response = accept(&cluster, path, accepted).await;
            assert_eq!(response.status(), 200, "{path}: {accepted}");
            assert_eq!(response.headers()["content-type"], form, "{path}");
        }
        let message = format!("406: Not Acceptable\n\nAvailable representations: {form}");
        let refused = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": "NotAcceptable", "details": {}, "code": 406,
        });
        assert_eq!(get_as(&cluster, path, other).await, (406, refused));
    }
}

#[tokio::test(start_paused = true)]
async fn streams_into_containers_are_not_implemented() {
    let cluster = cluster();
    create(&cluster, "a").await;
    for sub in ["exec", "attach", "portforward"] {
        let (code, status) = post(&cluster, &pods(&format!("/a/{sub}")), &json!({})).await;
        assert_eq!((code, &status["reason"]), (501, &json!("NotImplemented")));
        assert!(status["message"].to_string().contains(sub), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_further_kind_can_be_created_read_and_deleted() {
    let cluster = cluster();
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let core = "/api/v1/namespaces/default";
    for (path, object) in [
        (format!("{core}/secrets"), json!({"stringData": {"a": "b"}})),
        (format!("{core}/serviceaccounts"), json!({})),
        (
            format!("{core}/resourcequotas"),
            json!({"spec": {"hard": {"pods": "5"}}}),
        ),
        (
            format!("{core}/events"),
            json!({"involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "Started"}),
        ),
        ("/api/v1/nodes".to_owned(), json!({})),
        (
            format!("{rbac}/namespaces/default/roles"),
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        ),
        (
            format!("{rbac}/clusterrolebindings"),
            json!({"roleRef": {"kind": "ClusterRole", "name": "view"}}),
        ),
    ] {
        let mut object = object;
        object["metadata"] = json!({"name": "x"});
        let (code, made) = post(&cluster, &path, &object).await;
        assert_eq!(code, 201, "{made}");
        let one = format!("{path}/x");
        let (code, read) = get(&cluster, &one).await;
        // Controllers may have changed the status after the answer.
        assert_eq!((code, &read["spec"]), (200, &made["spec"]), "{path}");
        assert_eq!(read["metadata"]["uid"], made["metadata"]["uid"], "{path}");
        let (_, list) = get(&cluster, &format!("{path}?fieldSelector=metadata.name=x")).await;
        assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{path}");
        assert_eq!(get_as(&cluster, &path, TABLE).await.0, 200);
        assert_eq!(delete(&cluster, &one).await.0, 200, "{path}");
        assert_eq!(get(&cluster, &one).await.0, 404, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn events_can_be_selected_by_their_object_and_source() {
    let cluster = cluster();
    let path = "/api/v1/namespaces/default/events";
    for (name, about, component) in [("x", "p", "kubelet"), ("y", "q", "scheduler")] {
        let event = json!({
            "metadata": {"name": name}, "reason": "R", "source": {"component": component},
            "involvedObject": {"kind": "Pod", "name": about, "namespace": "default"},
        });
        assert_eq!(post(&cluster, path, &event).await.0, 201);
    }
    for selector in [
        "involvedObject.name=p",
        "source=kubelet",
        "involvedObject.kind=Pod,involvedObject.name!=q",
    ] {
        let (_, list) = get(&cluster, &format!("{path}?fieldSelector={selector}")).await;
        assert_eq!(list["items"][0]["metadata"]["name"], "x", "{selector}");
        assert_eq!(
            list["items"].as_array().map(Vec::len),
            Some(1),
            "{selector}"
        );
    }
    let (code, status) = get(&cluster, &format!("{path}?fieldSelector=nonsense=1")).await;
    assert_eq!(
        (code, &status["message"]),
        (400, &json!("field label not supported: nonsense"))
    );
}
