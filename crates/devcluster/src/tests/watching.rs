use super::*;

// spec: O-71
#[tokio::test(start_paused = true)]
async fn a_watch_sends_events_since_its_version_and_new_ones() {
    let cluster = cluster();
    let first = create(&cluster, "a").await;
    create(&cluster, "b").await;
    let mut events = watch(
        &cluster,
        &pods(&format!("?watch=1&resourceVersion={}", version(&first))),
    )
    .await;
    assert_eq!(events.next_named().await, named("ADDED", "b"));
    events.quiet().await;
    patch(
        &cluster,
        &pods("/a"),
        &json!({"metadata": {"labels": {"x": "y"}}}),
    )
    .await;
    assert_eq!(events.next_named().await, named("MODIFIED", "a"));
    delete(&cluster, &pods("/a")).await;
    assert_eq!(events.next_named().await, named("MODIFIED", "a"));
    assert_eq!(events.next_named().await, named("DELETED", "a"));
    events.quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_at_its_timeout_after_a_bookmark() {
    let cluster = cluster();
    create(&cluster, "a").await;
    let mut events = watch(
        &cluster,
        &pods("?watch=1&timeoutSeconds=10&allowWatchBookmarks=true"),
    )
    .await;
    assert_eq!(events.next_named().await, named("ADDED", "a"));
    let began = tokio::time::Instant::now();
    let bookmark = events.next().await.expect("a bookmark");
    assert_eq!(
        (began.elapsed().as_secs(), &bookmark["type"]),
        (8, &json!("BOOKMARK"))
    );
    assert_eq!(bookmark["object"]["metadata"]["resourceVersion"], "1001");
    assert_eq!(events.next().await, None);
    assert_eq!(began.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_is_sent_each_minute_with_the_newest_version() {
    let cluster = cluster();
    let mut events = watch(&cluster, &pods("?watch=1&allowWatchBookmarks=true")).await;
    let map = json!({"metadata": {"name": "other"}});
    post(&cluster, "/api/v1/namespaces/default/configmaps", &map).await;
    for minute in 1..=2 {
        let bookmark = events.next().await.expect("a bookmark");
        assert_eq!(
            bookmark["object"]["metadata"]["resourceVersion"], "1001",
            "minute {minute}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_an_expired_version_gets_an_error_event() {
    let cluster = cluster();
    create(&cluster, "a").await;
    cluster.compact().await;
    for old in ["1", "1000"] {
        let mut events = watch(&cluster, &pods(&format!("?watch=1&resourceVersion={old}"))).await;
        let error = events.next().await.expect("an error");
        assert_eq!(
            (&error["type"], &error["object"]["code"]),
            (&json!("ERROR"), &json!(410))
        );
        assert_eq!(error["object"]["reason"], "Expired");
        assert_eq!(events.next().await, None);
    }
    watch(&cluster, &pods("?watch=1&resourceVersion=1001"))
        .await
        .quiet()
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_future_version_is_silent_until_it_is_reached() {
    let cluster = cluster();
    create(&cluster, "a").await;
    let mut events = watch(
        &cluster,
        &pods("?watch=1&resourceVersion=1003&allowWatchBookmarks=true"),
    )
    .await;
    create(&cluster, "b").await;
    events.quiet().await;
    create(&cluster, "c").await;
    create(&cluster, "d").await;
    assert_eq!(events.next_named().await, named("ADDED", "d"));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_the_selector_is_deleted_with_its_last_content() {
    let cluster = cluster();
    create(&cluster, "a").await;
    let mut events = watch(&cluster, &pods("?watch=1&labelSelector=app=demo")).await;
    assert_eq!(events.next_named().await, named("ADDED", "a"));
    patch(
        &cluster,
        &pods("/a"),
        &json!({"metadata": {"labels": {"app": "other"}}}),
    )
    .await;
    let gone = events.next().await.expect("an event");
    assert_eq!(
        (&gone["type"], version(&gone["object"])),
        (&json!("DELETED"), "1002")
    );
    assert_eq!(gone["object"]["metadata"]["labels"]["app"], "demo");
    assert_eq!(gone["object"]["metadata"]["deletionTimestamp"], Value::Null);
    patch(
        &cluster,
        &pods("/a"),
        &json!({"metadata": {"labels": {"app": "demo"}}}),
    )
    .await;
    assert_eq!(events.next_named().await, named("ADDED", "a"));
    events.quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_watcher_behind_the_log_is_cut_off() {
    let cluster = super::super::start(Options {
        event_log: 10,
        ..options()
    });
    let mut events = watch(&cluster, &pods("?watch=1&resourceVersion=1000")).await;
    create(&cluster, "first").await;
    assert_eq!(events.next_named().await, named("ADDED", "first"));
    for i in 0..20 {
        create(&cluster, &format!("a-{i}")).await;
    }
    assert_eq!(events.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_too_slow_for_the_initial_objects_must_start_over() {
    let cluster = cluster();
    for i in 0..200 {
        create(&cluster, &format!("a-{i:03}")).await;
    }
    let mut events = watch(&cluster, &pods("?watch=1")).await;
    assert_eq!(events.next_named().await, named("ADDED", "a-000"));
    create(&cluster, "after").await;
    cluster.compact().await;
    let mut told = 1;
    let last = loop {
        let event = events.next().await.expect("an error at the end");
        if event["type"] != "ADDED" {
            break event;
        }
        told += 1;
    };
    assert!(told < 200, "the rest is of no use to it any more");
    assert_eq!(last["object"]["code"], 410);
    assert_eq!(events.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn many_initial_objects_are_all_sent_in_chunks() {
    let cluster = cluster();
    for i in 0..200 {
        create(&cluster, &format!("a-{i:03}")).await;
    }
    let path = "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut events = watch(&cluster, &pods(path)).await;
    for i in 0..200 {
        assert_eq!(
            events.next_named().await,
            named("ADDED", &format!("a-{i:03}"))
        );
    }
    let end = events.next().await.expect("a bookmark");
    assert_eq!(
        end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
}

#[tokio::test(start_paused = true)]
async fn an_invalid_version_is_a_server_error_for_watches_and_a_client_error_for_lists() {
    let cluster = cluster();
    assert_eq!(
        get(&cluster, &pods("?watch=1&resourceVersion=x")).await.0,
        500
    );
    assert_eq!(get(&cluster, &pods("?resourceVersion=x")).await.0, 400);
}

#[tokio::test(start_paused = true)]
async fn contradictory_watch_parameters_are_refused() {
    let cluster = cluster();
    for query in [
        "watch=1&resourceVersionMatch=NotOlderThan",
        "watch=1&sendInitialEvents=true",
        "sendInitialEvents=true",
        "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=5",
    ] {
        let (code, status) = get(&cluster, &pods(&format!("?{query}"))).await;
        assert_eq!(
            (code, &status["reason"]),
            (422, &json!("Invalid")),
            "{query}"
        );
    }
}
