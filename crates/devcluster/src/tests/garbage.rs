use super::*;

fn owned_by(name: &str, owners: &[(&str, &Value)]) -> Value {
    let mut owned = pod(name);
    owned["metadata"]["ownerReferences"] = owners
        .iter()
        .map(|(kind, owner)| {
            json!({
                "apiVersion": "v1", "kind": kind, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
                "blockOwnerDeletion": true,
            })
        })
        .collect();
    owned
}

async fn config_map(cluster: &DevCluster, name: &str) -> Value {
    let map = json!({"metadata": {"name": name}});
    post(cluster, "/api/v1/namespaces/default/configmaps", &map)
        .await
        .1
}

fn map_path(name: &str) -> String {
    format!("/api/v1/namespaces/default/configmaps/{name}")
}

#[tokio::test(start_paused = true)]
async fn dependents_are_deleted_after_their_owner() {
    let cluster = cluster();
    let owner = config_map(&cluster, "owner").await;
    post(
        &cluster,
        &pods(""),
        &owned_by("owned", &[("ConfigMap", &owner)]),
    )
    .await;
    create(&cluster, "free").await;
    delete(&cluster, &map_path("owner")).await;
    until(&cluster, "owned", |pod| pod.is_none()).await;
    assert_eq!(get(&cluster, &pods("/free")).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn an_object_with_an_absent_owner_is_collected_after_a_delay() {
    let cluster = cluster();
    let gone = json!({"metadata": {"name": "gone", "uid": "no-such-uid"}});
    assert_eq!(
        post(&cluster, &pods(""), &owned_by("a", &[("ConfigMap", &gone)]))
            .await
            .0,
        201
    );
    assert_eq!(get(&cluster, &pods("/a")).await.0, 200);
    until(&cluster, "a", |pod| pod.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_with_another_owner_stays_and_loses_the_dangling_reference() {
    let cluster = cluster();
    let (first, second) = (
        config_map(&cluster, "first").await,
        config_map(&cluster, "second").await,
    );
    let owned = owned_by("a", &[("ConfigMap", &first), ("ConfigMap", &second)]);
    post(&cluster, &pods(""), &owned).await;
    delete(&cluster, &map_path("first")).await;
    let owners = |pod: Option<&Value>| {
        pod.and_then(|p| p["metadata"]["ownerReferences"].as_array().map(Vec::len))
    };
    until(&cluster, "a", |pod| owners(pod) == Some(1)).await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_an_unknown_kind_is_assumed_to_exist() {
    let cluster = cluster();
    let mut owned = pod("a");
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "j", "uid": "u"}]);
    post(&cluster, &pods(""), &owned).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(get(&cluster, &pods("/a")).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn orphans_stay_and_a_foreground_delete_removes_dependents_first() {
    let cluster = cluster();
    for (policy, stays) in [("Orphan", true), ("Foreground", false)] {
        let owner = config_map(&cluster, "owner").await;
        post(
            &cluster,
            &pods(""),
            &owned_by("owned", &[("ConfigMap", &owner)]),
        )
        .await;
        let (code, _) = delete(
            &cluster,
            &format!("{}?propagationPolicy={policy}", map_path("owner")),
        )
        .await;
        assert_eq!(code, 200);
        let mut published = cluster.store.published();
        let gone = published.wait_for(|p| p.state.config_maps("default").next().is_none());
        timeout(SOON, gone)
            .await
            .expect("it goes")
            .expect("the store is there");
        assert_eq!(
            get(&cluster, &pods("/owned")).await.0 == 200,
            stays,
            "{policy}"
        );
        delete(&cluster, &pods("/owned")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_garbage_collection_dependents_stay() {
    let cluster = super::super::start(Options {
        collect_garbage: false,
        ..options()
    });
    let gone = json!({"metadata": {"name": "gone", "uid": "no-such-uid"}});
    post(&cluster, &pods(""), &owned_by("a", &[("ConfigMap", &gone)])).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(get(&cluster, &pods("/a")).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_loses_its_content_and_accepts_no_objects() {
    let cluster = cluster();
    post(
        &cluster,
        "/api/v1/namespaces",
        &json!({"metadata": {"name": "ns"}}),
    )
    .await;
    let mut held = pod("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    post(&cluster, "/api/v1/namespaces/ns/pods", &held).await;
    post(&cluster, "/api/v1/namespaces/ns/pods", &pod("free")).await;
    let (code, namespace) = delete(&cluster, "/api/v1/namespaces/ns").await;
    assert_eq!(
        (code, &namespace["status"]["phase"]),
        (200, &json!("Terminating"))
    );
    let (code, status) = post(&cluster, "/api/v1/namespaces/ns/pods", &pod("late")).await;
    assert_eq!(
        (code, &status["details"]["causes"][0]["reason"]),
        (403, &json!("NamespaceTerminating"))
    );
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(
        get(&cluster, "/api/v1/namespaces/ns/pods/free").await.0,
        404
    );
    assert_eq!(get(&cluster, "/api/v1/namespaces/ns").await.0, 200);
    patch(
        &cluster,
        "/api/v1/namespaces/ns/pods/held",
        &json!({"metadata": {"finalizers": null}}),
    )
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(get(&cluster, "/api/v1/namespaces/ns").await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_drops_references_from_dependents_with_another_owner() {
    let cluster = cluster();
    let going = config_map(&cluster, "going").await;
    let staying = config_map(&cluster, "staying").await;
    for (name, owners) in [
        (
            "shared",
            vec![("ConfigMap", &going), ("ConfigMap", &staying)],
        ),
        ("owned", vec![("ConfigMap", &going)]),
    ] {
        post(&cluster, &pods(""), &owned_by(name, &owners)).await;
    }
    delete(
        &cluster,
        &(map_path("going") + "?propagationPolicy=Foreground"),
    )
    .await;
    until(&cluster, "owned", |pod| pod.is_none()).await;
    until(&cluster, "shared", |pod| {
        let owners = pod.and_then(|p| p["metadata"]["ownerReferences"].as_array());
        owners.is_some_and(|o| o.len() == 1 && o[0]["name"] == "staying")
    })
    .await;
    assert_eq!(get(&cluster, &map_path("staying")).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn each_namespace_has_a_service_account() {
    let cluster = cluster();
    let namespace = json!({"metadata": {"name": "fresh"}});
    assert_eq!(
        post(&cluster, "/api/v1/namespaces", &namespace).await.0,
        201
    );
    for name in ["default", "fresh"] {
        let path = format!("/api/v1/namespaces/{name}/serviceaccounts");
        let mut events = watch(&cluster, &format!("{path}?watch=1")).await;
        assert_eq!(events.next_named().await, named("ADDED", "default"));
    }
}
