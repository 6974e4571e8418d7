use super::*;

#[tokio::test(start_paused = true)]
async fn pages_share_one_version_and_continue_at_the_newest_if_it_expired() {
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
async fn a_list_has_the_requested_version() {
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
async fn a_list_of_a_future_version_waits_for_it() {
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
