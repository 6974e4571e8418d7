//! Falsified lists and watch lines: an object is missing, or cannot be decoded.

use axum::body::Body;
use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::network_conditions::Falsification;
use crate::trace::trace_line;

/// Falsifies the answer to a list.
pub async fn falsified_list(
    response: Response<Body>,
    how: Falsification,
    pick: u32,
) -> Response<Body> {
    let (parts, body) = response.into_parts();
    // The embedded cluster's own answers never break off.
    let body = body.collect().await.unwrap().to_bytes();
    let Ok(mut list) = serde_json::from_slice::<Value>(&body) else {
        return Response::from_parts(parts, Body::from(body));
    };
    let items = list.get_mut("items").and_then(Value::as_array_mut);
    if let Some(items) = items.filter(|items| !items.is_empty()) {
        let at = pick as usize % items.len();
        trace_line!("   {how:?}: {}", items[at]["metadata"]["name"]);
        match how {
            Falsification::ObjectMissing => {
                items.remove(at);
            }
            Falsification::ObjectUndecodable => make_undecodable(&mut items[at], pick),
        }
    }
    Response::from_parts(parts, Body::from(list.to_string()))
}

/// Makes a line's pod undecodable; other lines are returned unchanged.
pub fn undecodable_line(line: &Bytes, pick: u32) -> Bytes {
    let Ok(mut event) = serde_json::from_slice::<Value>(line) else {
        return line.clone();
    };
    if event["object"]["kind"] != "Pod" || event["type"] == "BOOKMARK" {
        return line.clone();
    }
    make_undecodable(&mut event["object"], pick);
    format!("{event}\n").into()
}

/// Makes a pod undecodable except for its name and uid.
fn make_undecodable(pod: &mut Value, pick: u32) {
    match pick % 5 {
        0 => pod["spec"] = json!(7),
        1 => pod["status"] = json!([]),
        2 => pod["status"]["phase"] = json!({"a": 1}),
        3 => pod["metadata"]["labels"] = json!("none"),
        _ => pod["status"]["containerStatuses"] = json!({"name": 1}),
    }
}
