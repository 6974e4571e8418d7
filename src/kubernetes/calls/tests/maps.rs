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
    assert_eq!(page.kind, Kind::Garbage);
    let lost = always(404, not_found("configmaps", "etl-app"))
        .replace_config_map("etl-app", &json!({}))
        .await
        .unwrap_err();
    assert_eq!(lost.kind, Kind::NotFound);
    let older = always(409, conflict("the object has been modified"));
    let failure = older
        .replace_config_map("etl-app", &json!({}))
        .await
        .unwrap_err();
    assert_eq!(failure.kind, Kind::Conflict);
    let odd = always(200, r#"{"kind":"ConfigMap","metadata":{"name":7}}"#);
    assert_eq!(
        odd.get_config_map("etl-app").await.unwrap_err().kind,
        Kind::Garbage
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
