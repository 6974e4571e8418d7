use proptest::prelude::*;

use super::*;

/// The decoded lines of a watch with this body, abbreviated.
async fn watched(parts: Vec<&'static str>, last: Last) -> Vec<String> {
    let calls = answering(move |_| Response::new(pieces(parts.clone(), last)));
    let lines = calls.watch_pods(&1.into(), 300).await.unwrap();
    let short = |line: Result<_, Failure>| match line {
        Ok(WatchLine::Seen(pod)) => format!("seen {}", pod_text(&pod)),
        Ok(WatchLine::Deleted(pod)) => format!("deleted {}", pod_text(&pod)),
        Ok(WatchLine::Bookmark(version)) => format!("bookmark {version}"),
        Ok(WatchLine::Expired) => "expired".to_owned(),
        Ok(WatchLine::Error(failure)) => format!("error {:?}", failure.kind),
        Ok(WatchLine::UnknownType(kind)) => format!("unknown {kind}"),
        Err(failure) => format!("failure {:?}", failure.kind),
    };
    lines.map(short).collect().await
}

fn pod_text(pod: &Sighting) -> String {
    let name = pod.name().map_or("?", |name| name);
    match pod {
        Sighting::Read(_) => name.to_owned(),
        Sighting::Unreadable(_) => format!("{name} unreadable"),
    }
}

const POD: &str = r#"{"metadata":{"name":"p","uid":"u","resourceVersion":"5"}}"#;
const EXPIRED: &str = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (1000)","reason":"Expired","code":410}}"#;
const BOOKMARK: &str = r#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"6","creationTimestamp":null},"spec":{"containers":null},"status":{}}}"#;

// spec: W-2, W-3, W-5, S-15
#[tokio::test]
async fn a_watch_is_read_line_by_line_whatever_the_lines_are() {
    let parts = vec![
        r#"{"type":"ADDED","obj"#,
        "ect\":",
        POD,
        "}\n\n",
        r#"{"type":"MODIFIED","object":{"metadata":{"name":"q","uid":"u","resourceVersion":"7","labels":[]}}}"#,
        "\n<html>\n",
        r#"{"type":"DELETED","object":"#,
        POD,
        "}\r\n",
        BOOKMARK,
        "\n",
        r#"{"type":"BOOKMARK","object":{}}"#,
        "\n",
        r#"{"type":"RENAMED","object":{}}"#,
        "\n",
        r#"{"type":"ADDED"}"#,
        "\n",
        EXPIRED,
        "\n",
        r#"{"type":"ERROR","object":{"kind":"Status","code":500,"reason":"InternalError","message":"m"}}"#,
        "\n",
        r#"{"type":"ERROR","object":7}"#,
        "\n",
    ];
    assert_eq!(
        watched(parts, Last::End).await,
        [
            "seen p",
            "seen q unreadable",
            "failure Garbage",
            "deleted p",
            "bookmark 6",
            "failure Garbage",
            "unknown RENAMED",
            "seen ? unreadable",
            "expired",
            "error Server",
            "error Server",
        ]
    );
}

// spec: W-5
#[tokio::test]
async fn an_incomplete_last_line_is_dropped_and_a_complete_one_is_not() {
    let half = vec![BOOKMARK, "\n", r#"{"type":"ADDED","object":{"metad"#];
    assert_eq!(watched(half.clone(), Last::End).await, ["bookmark 6"]);
    assert_eq!(
        watched(half, Last::Reset).await,
        ["bookmark 6", "failure Broken"]
    );
    assert_eq!(watched(vec![BOOKMARK], Last::End).await, ["bookmark 6"]);
    assert_eq!(watched(vec![], Last::End).await, [""; 0]);
}

// spec: W-5
#[tokio::test]
async fn an_endless_line_ends_the_watch() {
    let endless = answering(|_| Response::new(Endless));
    let mut lines = endless.watch_pods(&1.into(), 300).await.unwrap();
    assert_eq!(
        lines.next().await.unwrap().unwrap_err().kind,
        FailureKind::Garbage
    );
    assert!(lines.next().await.is_none());
}

// spec: W-2
#[tokio::test]
async fn a_watch_that_does_not_begin_says_why() {
    let expired: Value = serde_json::from_str(EXPIRED).unwrap();
    let calls = always(410, expired["object"].to_string());
    let failure = calls.watch_pods(&1.into(), 300).await.err().unwrap();
    assert_eq!(failure.kind, FailureKind::Expired);
}

proptest! {
    // spec: W-5, S-15
    #[test]
    fn any_line_is_decoded_without_a_panic(
        kind in "(ADDED|DELETED|BOOKMARK|ERROR|\\PC{0,8})",
        object in prop::collection::vec(any::<u8>(), 0..80),
        bytes in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let reader = PodReader {
            app_id: "etl-7f3a".into(),
            prefix: "etl".into(),
            record: "etl-app".into(),
            labels: LabelScheme::Boatswain,
            container: "executor".into(),
            check_all_containers: true,
            of_sets: false,
        };
        let mut line = format!("{{\"type\":{kind:?},\"object\":").into_bytes();
        line.extend(object);
        line.push(b'}');
        let _ = read_pod_line(&line, "watch", &reader);
        let _ = read_pod_line(&bytes, "watch", &reader);
    }
}
