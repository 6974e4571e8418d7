//! Server-side apply and field ownership.

use super::*;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn send_as(
    cluster: &DevCluster,
    method: Method,
    path: &str,
    kind: &str,
    body: impl ToString,
) -> (u16, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind)
        .header("user-agent", "tester/1.0");
    let request = request.body(Body::from(body.to_string()));
    let response = cluster
        .router()
        .oneshot(request.expect("a request"))
        .await
        .expect("an answer");
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a body");
    let answer = serde_json::from_slice(&bytes.to_bytes()).unwrap_or_default();
    (code, answer)
}

async fn apply(cluster: &DevCluster, path: &str, config: impl ToString) -> (u16, Value) {
    let kind = "application/apply-patch+yaml";
    send_as(cluster, Method::PATCH, path, kind, config).await
}

async fn merge(cluster: &DevCluster, path: &str, patch: &Value) -> (u16, Value) {
    let kind = "application/merge-patch+json";
    send_as(cluster, Method::PATCH, path, kind, patch).await
}

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data})
}

fn by(manager: &str) -> String {
    format!("{MAPS}/m?fieldManager={manager}")
}

/// The managed fields of an object, as `manager operation: fields`.
fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array();
    let each = entries.into_iter().flatten().map(|entry| {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        let fields = entry["fieldsV1"].to_string();
        format!("{} {}: {fields}", text("manager"), text("operation"))
    });
    each.collect()
}

#[tokio::test(start_paused = true)]
async fn an_applied_object_is_created_and_owned_by_its_manager() {
    let cluster = cluster();
    let (code, object) = apply(&cluster, &by("one"), map(json!({"a": "1"}))).await;
    assert_eq!((code, &object["data"]), (201, &json!({"a": "1"})));
    let entry = &object["metadata"]["managedFields"];
    let want = json!([{
        "manager": "one", "operation": "Apply", "apiVersion": "v1", "time": EPOCH,
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}},
    }]);
    assert_eq!(entry, &want);
    let (code, again) = apply(&cluster, &by("one"), map(json!({"a": "1"}))).await;
    assert_eq!(
        (code, version(&again)),
        (200, version(&object)),
        "nothing has changed"
    );
}

#[tokio::test(start_paused = true)]
async fn a_field_that_no_manager_applies_any_more_is_removed() {
    let cluster = cluster();
    apply(
        &cluster,
        &by("one"),
        map(json!({"a": "1", "b": "1", "c": "1"})),
    )
    .await;
    apply(&cluster, &by("two"), map(json!({"b": "1"}))).await;
    merge(&cluster, &format!("{MAPS}/m"), &json!({"data": {"d": "1"}})).await;
    let (code, object) = apply(&cluster, &by("one"), map(json!({"c": "2"}))).await;
    assert_eq!(code, 200, "{object}");
    // "a" had no other owner; "b" has one, and "d" was never applied.
    assert_eq!(object["data"], json!({"b": "1", "c": "2", "d": "1"}));
    assert_eq!(
        owners(&object),
        [
            "two Apply: {\"f:data\":{\"f:b\":{}}}",
            "one Apply: {\"f:data\":{\"f:c\":{}}}",
            "tester Update: {\"f:data\":{\"f:d\":{}}}"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn fields_of_other_managers_are_only_taken_by_force() {
    let cluster = cluster();
    apply(&cluster, &by("one"), map(json!({"a": "1", "b": "1"}))).await;
    let (code, status) = apply(&cluster, &by("two"), map(json!({"a": "2"}))).await;
    assert_eq!(
        (code, &status["reason"], &status["message"]),
        (
            409,
            &json!("Conflict"),
            &json!("Apply failed with 1 conflict: conflict with \"one\": .data.a")
        )
    );
    let cause = json!([{"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".data.a"}]);
    assert_eq!(status["details"]["causes"], cause);
    let (_, status) = apply(&cluster, &by("two"), map(json!({"a": "2", "b": "2"}))).await;
    let message = "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.a\n- .data.b";
    assert_eq!(status["message"], message);
    let forced = format!("{}&force=true", by("two"));
    let (code, object) = apply(&cluster, &forced, map(json!({"a": "2"}))).await;
    assert_eq!((code, &object["data"]["a"]), (200, &json!("2")));
    assert_eq!(
        owners(&object),
        [
            "one Apply: {\"f:data\":{\"f:b\":{}}}",
            "two Apply: {\"f:data\":{\"f:a\":{}}}"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_conflict_with_an_update_names_its_time() {
    let cluster = cluster();
    apply(&cluster, &by("one"), map(json!({"a": "1"}))).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    merge(&cluster, &format!("{MAPS}/m"), &json!({"data": {"a": "2"}})).await;
    let (_, status) = apply(&cluster, &by("one"), map(json!({"a": "1"}))).await;
    assert_eq!(
        status["message"],
        "Apply failed with 1 conflict: conflict with \"tester\" using v1 at 2026-01-01T00:00:05Z: .data.a"
    );
}

#[tokio::test(start_paused = true)]
async fn managers_that_apply_the_same_value_share_its_ownership() {
    let cluster = cluster();
    apply(&cluster, &by("one"), map(json!({"a": "1"}))).await;
    let (code, object) = apply(&cluster, &by("two"), map(json!({"a": "1"}))).await;
    assert_eq!(code, 200);
    assert_eq!(owners(&object).len(), 2, "{object}");
    let (_, object) = apply(&cluster, &by("one"), map(json!({}))).await;
    assert_eq!(
        object["data"],
        json!({"a": "1"}),
        "the other still wants it"
    );
}

#[tokio::test(start_paused = true)]
async fn the_creator_owns_the_defaults_of_a_new_object() {
    let cluster = cluster();
    let path = pods("?fieldManager=me");
    let mut new = pod("a");
    new["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80}]);
    let (code, object) = post(&cluster, &path, &new).await;
    assert_eq!(code, 201, "{object}");
    let entry = &object["metadata"]["managedFields"][0];
    assert_eq!(
        (&entry["manager"], &entry["operation"]),
        (&json!("me"), &json!("Update"))
    );
    let want = json!({
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {
            "f:containers": {"k:{\"name\":\"c\"}": {
                ".": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {}, "f:resources": {},
                "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {},
                "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
                    ".": {}, "f:containerPort": {}, "f:protocol": {},
                }},
            }},
            "f:dnsPolicy": {}, "f:enableServiceLinks": {}, "f:restartPolicy": {}, "f:schedulerName": {},
            "f:securityContext": {}, "f:terminationGracePeriodSeconds": {},
        },
    });
    assert_eq!(entry["fieldsV1"], want);
}

#[tokio::test(start_paused = true)]
async fn the_status_has_its_own_managed_fields_entry() {
    let cluster = cluster();
    create(&cluster, "a").await;
    let path = pods("/a/status");
    let (_, object) = merge(&cluster, &path, &json!({"status": {"phase": "Running"}})).await;
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .expect("owners");
    let status = entries.iter().find(|e| e["subresource"] == "status");
    let status = status.expect("an owner of the status");
    assert_eq!(status["manager"], "tester");
    assert_eq!(status["fieldsV1"], json!({"f:status": {"f:phase": {}}}));
}

#[tokio::test(start_paused = true)]
async fn managed_fields_can_be_reset_and_the_next_apply_assigns_existing_fields() {
    let cluster = cluster();
    apply(&cluster, &by("one"), map(json!({"a": "1"}))).await;
    let reset = json!({"metadata": {"managedFields": []}});
    let (_, object) = merge(&cluster, &format!("{MAPS}/m"), &reset).await;
    assert_eq!(object["metadata"]["managedFields"], Value::Null);
    let (_, object) = merge(&cluster, &format!("{MAPS}/m"), &json!({"data": {"b": "1"}})).await;
    assert_eq!(
        object["metadata"]["managedFields"],
        Value::Null,
        "nothing is known"
    );
    let (code, object) = apply(&cluster, &by("two"), map(json!({"c": "1"}))).await;
    assert_eq!(code, 200, "{object}");
    assert_eq!(
        owners(&object),
        [
            "two Apply: {\"f:data\":{\"f:c\":{}}}",
            "before-first-apply Update: {\"f:data\":{\".\":{},\"f:a\":{},\"f:b\":{}}}"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn lists_of_pods_are_owned_item_by_item() {
    let cluster = cluster();
    let config = |env: Value| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "finalizers": ["example.com/x"]},
            "spec": {"containers": [{"name": "c", "image": "i:1", "env": env, "args": ["x"]}]},
        })
    };
    let path = pods("/a?fieldManager=one");
    let (code, object) = apply(
        &cluster,
        &path,
        config(json!([{"name": "A", "value": "1"}])),
    )
    .await;
    assert_eq!(code, 201, "{object}");
    let fields = &object["metadata"]["managedFields"][0]["fieldsV1"];
    let want = json!({
        "f:metadata": {"f:finalizers": {"v:\"example.com/x\"": {}}},
        "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {
            ".": {}, "f:name": {}, "f:image": {}, "f:args": {},
            "f:env": {"k:{\"name\":\"A\"}": {".": {}, "f:name": {}, "f:value": {}}},
        }}},
    });
    assert_eq!(fields, &want);
    let other = pods("/a?fieldManager=two");
    let (code, status) = apply(
        &cluster,
        &other,
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "c", "image": "i:2"}]}}),
    )
    .await;
    assert_eq!(code, 409);
    let field = &status["details"]["causes"][0]["field"];
    assert_eq!(field, ".spec.containers[name=\"c\"].image");
}

#[tokio::test(start_paused = true)]
async fn yaml_is_accepted_by_apply_and_create() {
    let cluster = cluster();
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: m\ndata:\n  a: \"1\"\n";
    let (code, object) = apply(&cluster, &by("one"), text).await;
    assert_eq!((code, &object["data"]), (201, &json!({"a": "1"})));
    let text = text.replace("name: m", "name: other");
    let (code, object) = send_as(&cluster, Method::POST, MAPS, "application/yaml", text).await;
    assert_eq!(code, 201, "{object}");
}

#[tokio::test(start_paused = true)]
async fn apply_errors_have_the_messages_of_real_servers() {
    let cluster = cluster();
    let with = |field: &str, value: Value| {
        let mut map = map(json!({}));
        map[field] = value;
        map
    };
    for (path, config, code, message) in [
        (
            format!("{MAPS}/m"),
            map(json!({})),
            422,
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
        ),
        (
            by("one"),
            with("nonsense", json!(1)),
            500,
            "failed to create typed patch object (/m; /v1, Kind=ConfigMap): .nonsense: field not declared in schema",
        ),
        (
            by("one"),
            with("kind", json!("Secret")),
            400,
            "invalid object type: /v1, Kind=Secret",
        ),
        (
            by("one"),
            with("metadata", json!({"name": "m", "managedFields": []})),
            400,
            "metadata.managedFields must be nil",
        ),
        (
            by("one"),
            with("metadata", json!({"name": "n"})),
            400,
            "the name of the object (n) does not match the name on the URL (m)",
        ),
        (
            by("one"),
            with("metadata", json!({"name": "m", "uid": "u"})),
            409,
            "Operation cannot be fulfilled on configmaps \"m\": uid mismatch: the provided object specified uid u, and no existing object was found",
        ),
    ] {
        let (got, status) = apply(&cluster, &path, config).await;
        assert_eq!((got, status["message"].as_str()), (code, Some(message)));
    }
    let (code, status) = apply(&cluster, &by("one"), "a: [").await;
    assert_eq!(code, 400, "{status}");
    assert_eq!(cluster.state().await.config_maps("default").count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_apply_does_not_change_the_state() {
    let cluster = cluster();
    let path = format!("{}&dryRun=All", by("one"));
    let (code, object) = apply(&cluster, &path, map(json!({"a": "1"}))).await;
    assert_eq!((code, &object["data"]), (201, &json!({"a": "1"})));
    assert_eq!(get(&cluster, &format!("{MAPS}/m")).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn at_most_ten_update_entries_are_kept() {
    let cluster = cluster();
    post(&cluster, MAPS, &map(json!({"a": "1"}))).await;
    for i in 0..12 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let path = format!("{MAPS}/m?fieldManager=m{i}");
        merge(&cluster, &path, &json!({"data": {(format!("k{i}")): "1"}})).await;
    }
    let (_, object) = get(&cluster, &format!("{MAPS}/m")).await;
    let owners = owners(&object);
    assert_eq!(owners.len(), 10, "{owners:?}");
    assert!(
        owners[0].starts_with("ancient-changes Update"),
        "{owners:?}"
    );
}
