use http_body_util::Either;
use tokio::sync::mpsc;

use super::*;

// spec: S-15, S-11
#[tokio::test]
async fn one_bad_item_does_not_affect_the_list() {
    let list = format!(
        r#"{{"kind":"PodList","metadata":{{"resourceVersion":"90","continue":"t"}},"items":[{REAL},7,{{"metadata":{{"name":"x","uid":"u","resourceVersion":"8","labels":7}}}},{REAL}]}}"#
    );
    let mut bytes = list.clone().into_bytes();
    let page = always(200, bytes.clone())
        .list_pods(&ListQuery::default())
        .await
        .unwrap();
    let readable = |page: &ListPage| {
        let read = |item: &Sighting| matches!(item, Sighting::Read(_));
        page.items.iter().map(read).collect::<Vec<_>>()
    };
    assert_eq!(readable(&page), [true, false, false, true]);
    assert_eq!(page.version, ResourceVersion::from(90));
    assert_eq!(page.continue_token.as_deref(), Some("t"));
    assert_eq!(page.items[2].name().map(|name| &**name), Some("x"));
    // Puts invalid UTF-8 into an annotation of the last pod.
    let at = list.rfind("10.244.1.17/32").unwrap();
    bytes[at] = 0xff;
    let page = always(200, bytes)
        .list_pods(&ListQuery::default())
        .await
        .unwrap();
    assert_eq!(readable(&page), [true, false, false, true]);
}

// spec: S-11, P-2
#[tokio::test]
async fn an_incomplete_list_is_a_failure_and_not_an_empty_list() {
    for body in [
        "",
        "{}",
        "<html>",
        r#"{"kind":"PodList","metadata":{"resourceVersion":"9"}}"#,
        r#"{"kind":"PodList","metadata":{"resourceVersion":""},"items":[]}"#,
        r#"{"kind":"PodList","items":[]}"#,
        r#"{"kind":"SecretList","metadata":{"resourceVersion":"9"},"items":[]}"#,
        r#"{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[{}"#,
        r#"{"kind":"Status","status":"Success"}"#,
    ] {
        let failure = always(200, body)
            .list_pods(&ListQuery::default())
            .await
            .unwrap_err();
        assert_eq!(failure.kind, FailureKind::Garbage, "{body}");
    }
    let empty = r#"{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":null}"#;
    let page = always(200, empty)
        .list_pods(&ListQuery::default())
        .await
        .unwrap();
    assert_eq!((page.items.len(), page.continue_token), (0, None));
    let endless = answering(|_| Response::new(Endless));
    let failure = endless.list_pods(&of_at_most(1)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Garbage);
}

fn of_at_most(pods: u32) -> ListQuery {
    ListQuery {
        limit: Some(pods),
        ..ListQuery::default()
    }
}

fn size_in(query: &str) -> u32 {
    let mut parts = query.split('&');
    let size = parts.find_map(|part| part.strip_prefix("limit="));
    size.unwrap().parse().unwrap()
}

/// A server whose pages are too long if they have more than two items; and what it was asked for.
fn with_large_items(list: &'static str) -> (Calls, mpsc::UnboundedReceiver<String>) {
    let (asked, asks) = mpsc::unbounded_channel();
    let calls = answering(move |request| {
        let query = request.uri().query().unwrap_or_default();
        let is_readable = size_in(query) <= 2;
        asked.send(query.to_owned()).unwrap();
        Response::new(match is_readable {
            true => Either::Left(Full::from(list)),
            false => Either::Right(Endless),
        })
    });
    (calls, asks)
}

// spec: P-5
#[tokio::test]
async fn a_page_that_is_too_long_is_asked_for_with_half_as_many_and_so_are_the_next_ones() {
    let list = r#"{"kind":"PodList","metadata":{"resourceVersion":"9","continue":"t"},"items":[]}"#;
    let (calls, mut asks) = with_large_items(list);
    let query = ListQuery {
        at_least: Some(ResourceVersion::from(7)),
        ..of_at_most(8)
    };
    let page = calls.list_pods(&query).await.unwrap();
    assert_eq!(page.limit, Some(2));
    let of_cache = |query: &str| query.contains("resourceVersionMatch");
    let mut sizes = Vec::new();
    while let Ok(query) = asks.try_recv() {
        sizes.push((size_in(&query), of_cache(&query)));
    }
    assert_eq!(sizes, [(8, true), (4, false), (2, false)]);
}

// spec: P-5
#[tokio::test]
async fn other_lists_too_are_read_in_pages_that_can_be_read() {
    let list = r#"{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[]}"#;
    let (calls, mut asks) = with_large_items(list);
    assert_eq!(calls.list_kept_pods().await, Ok(Vec::new()));
    let mut sizes = Vec::new();
    while let Ok(query) = asks.try_recv() {
        sizes.push(size_in(&query));
    }
    assert_eq!(sizes, [500, 250, 125, 62, 31, 15, 7, 3, 1]);
}

// spec: P-5
#[tokio::test]
async fn little_is_kept_of_a_long_pod_whoever_made_it() {
    let long = "x".repeat(400_000);
    for app in ["etl-7f3a", "somebody-else"] {
        let mut pod: Value = serde_json::from_str(REAL).unwrap();
        pod["metadata"]["labels"]["boatswain.dev/app-id"] = app.into();
        pod["metadata"]["annotations"]["note"] = long.as_str().into();
        pod["spec"]["containers"][0]["env"] = json!([{"name": "LONG", "value": long}]);
        pod["status"]["message"] = long.as_str().into();
        let metadata = json!({"resourceVersion": "9"});
        let list = json!({"kind": "PodList", "metadata": metadata, "items": [pod]});
        let calls = always(200, list.to_string());
        let page = calls.list_pods(&ListQuery::default()).await.unwrap();
        let [Sighting::Read(read)] = &page.items[..] else {
            panic!("{app}");
        };
        assert_eq!(read.identity.executor().is_some(), app == "etl-7f3a");
        let kept = format!("{read:?}");
        assert!(kept.len() < 4_096, "{} bytes of {app}'s", kept.len());
    }
}
