//! Fuzz target: sequences of requests to the whole API, without a socket.

use std::time::Duration;

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::{NO_MERGE_KEY, NOW, in_runtime, parts};
use crate::{DevCluster, Options, start};

/// How long a watch is read.
const READ_FOR: Duration = Duration::from_secs(10);

/// Client errors that real servers report as internal errors.
const UNCLASSIFIED: [&str; 5] = [
    "resourceVersion should not be set",
    "unknown patch type",
    NO_MERGE_KEY,
    "strconv.ParseUint",
    "more than one PodDisruptionBudget",
];

/// The input is one request per part, as in HTTP: `METHOD TARGET`, a line for each header, an empty line, the body.
/// Each gets a valid answer that is not an internal error. Afterwards every collection can still be listed, at a
/// resource version that has not decreased.
pub fn requests(data: &[u8]) {
    in_runtime(async {
        let cluster = start(Options {
            wall_clock_start: NOW.parse().ok(),
            ..Options::default()
        });
        let mut version = 0;
        for part in parts(data) {
            // A part that is not a valid HTTP request is skipped.
            if let Some(request) = request(part) {
                is_answered(&cluster, request).await;
            }
            let reached = cluster.state().await.resource_version();
            assert!(reached >= version, "{reached} after {version}");
            version = reached;
        }
        if let Some(list) = request(b"GET /api/v1/pods") {
            assert_eq!(is_answered(&cluster, list).await, 200);
        }
        let state = cluster.state().await;
        for object in state.objects().values() {
            let key = object.key();
            let typed = key.resource.typed(object.value());
            assert!(typed.is_ok(), "{key:?} is no object of its type: {typed:?}");
        }
    });
}

fn request(text: &[u8]) -> Option<Request<Body>> {
    let end = text.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = match end {
        Some(at) => (&text[..at], &text[at + 2..]),
        None => (text, &[][..]),
    };
    let head = std::str::from_utf8(head).ok()?;
    let mut lines = head.lines();
    let (method, target) = lines.next()?.split_once(' ')?;
    let mut request = Request::builder().method(method).uri(target);
    for line in lines {
        let (name, value) = line.split_once(':')?;
        request = request.header(name, value.trim());
    }
    request.body(Body::from(body.to_vec())).ok()
}

async fn is_answered(cluster: &DevCluster, request: Request<Body>) -> u16 {
    let what = format!("{} {}", request.method(), request.uri());
    let Ok(response) = cluster.router().oneshot(request).await;
    let code = response.status().as_u16();
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    // A watch does not end by itself.
    let until = tokio::time::Instant::now() + READ_FOR;
    while let Ok(Some(frame)) = tokio::time::timeout_at(until, body.frame()).await {
        let Ok(frame) = frame else {
            panic!("{what}: the answer breaks off");
        };
        bytes.extend_from_slice(frame.data_ref().map(|data| &data[..]).unwrap_or_default());
    }
    let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let message = answer["message"].as_str().unwrap_or_default();
    let known = match code {
        500 => UNCLASSIFIED.iter().any(|known| message.contains(known)),
        // What is not implemented, and timeouts.
        501 | 504 => true,
        code => code < 500,
    };
    assert!(known, "{what}: {code} {answer}");
    if code >= 400 && answer.is_object() {
        assert_eq!(
            (&answer["kind"], &answer["code"]),
            (&json!("Status"), &json!(code)),
            "{what}"
        );
    }
    code
}
