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
    let failure = endless.list_pods(&ListQuery::default()).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Garbage);
}
