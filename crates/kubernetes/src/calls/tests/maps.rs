use super::*;

// spec: O-30, W-7, K-2
#[tokio::test]
async fn a_config_map_is_read_or_missing_or_a_failure() {
    let map = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"etl-app","uid":"u","resourceVersion":"5","labels":{"a":"b"}},"data":{"format":"1"}}"#;
    let read = always(200, map)
        .get_config_map("etl-app")
        .await
        .unwrap()
        .unwrap();
    assert_eq!((read.version, read.deleting), (5.into(), false));
    assert_eq!(read.data["format"], "1");
    let gone = always(404, not_found("configmaps", "etl-app"));
    assert_eq!(gone.get_config_map("etl-app").await, Ok(None));
    let page = always(404, "<html>")
        .get_config_map("etl-app")
        .await
        .unwrap_err();
    assert_eq!(page.kind, FailureKind::Garbage);
    let lost = always(404, not_found("configmaps", "etl-app"))
        .replace_config_map("etl-app", &json!({}))
        .await
        .unwrap_err();
    assert_eq!(lost.kind, FailureKind::NotFound);
    let older = always(409, conflict("the object has been modified"));
    let failure = older
        .replace_config_map("etl-app", &json!({}))
        .await
        .unwrap_err();
    assert_eq!(failure.kind, FailureKind::Conflict);
    let odd = always(200, r#"{"kind":"ConfigMap","metadata":{"name":7}}"#);
    assert_eq!(
        odd.get_config_map("etl-app").await.unwrap_err().kind,
        FailureKind::Garbage
    );

    let lines = format!(
        "{{\"type\":\"ADDED\",\"object\":{map}}}\n{{\"type\":\"ADDED\",\"object\":{{}}}}\n{{\"type\":\"DELETED\",\"object\":{map}}}\n"
    );
    let watch = always(200, lines)
        .watch_config_map("etl-app", None, 300)
        .await
        .unwrap();
    let kinds: Vec<_> = watch
        .map(|line| match line {
            Ok(WatchLine::Seen(map)) => format!("seen {}", map.uid),
            Ok(WatchLine::Deleted(map)) => format!("deleted {}", map.uid),
            other => format!("{:?}", other.map_err(|failure| failure.kind)),
        })
        .collect()
        .await;
    assert_eq!(kinds, ["seen u", "Err(Garbage)", "deleted u"]);
}

// spec: W-11
#[tokio::test]
async fn the_last_state_of_a_deleted_config_map_is_found_if_the_server_still_knows_it() {
    let line = |kind: &str, uid: &str| {
        format!(
            "{{\"type\":\"{kind}\",\"object\":{{\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"etl-app\",\"uid\":\"{uid}\",\"resourceVersion\":\"7\"}}}}}}\n"
        )
    };
    let version = 5.into();
    let lines = line("MODIFIED", "a") + &line("DELETED", "b") + &line("ADDED", "c");
    let calls = always(200, lines);
    let found = calls.deleted_config_map("etl-app", &version).await;
    assert_eq!(found.unwrap().unwrap().uid, "b".into());
    let expired = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#;
    for answer in [
        always(200, line("MODIFIED", "a")),
        always(200, format!("{expired}\n")),
        always(410, "{}"),
        always(500, "{}"),
    ] {
        assert_eq!(
            answer.deleted_config_map("etl-app", &version).await,
            Ok(None)
        );
    }
    let refused = always(401, "{}");
    let failure = refused.deleted_config_map("etl-app", &version).await;
    assert_eq!(failure.unwrap_err().kind, FailureKind::Credentials);
}
