//! Fuzz target: request bodies, also with duplicate fields.

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::{NOW, in_runtime};
use crate::api::body;
use crate::{Options, start};

/// The input is the body of a request that creates a pod or a ConfigMap. Of a duplicate field the last value counts,
/// and every duplicate field is reported. Strict validation refuses it, lenient validation warns of it.
pub fn body(data: &[u8]) {
    let read = body::json(data);
    let expected: Option<Value> = serde_json::from_slice(data).ok();
    assert_eq!(
        read.as_ref().ok().map(|read| &read.value),
        expected.as_ref()
    );
    let Ok(read) = read else { return };
    // Nesting is limited, so a deeper body may be refused.
    if let Ok(twice) = body::json(&[b"{\"a\":", data, b",\"a\":", data, b"}"].concat()) {
        assert_eq!(twice.value, json!({"a": read.value}));
        // Repetitions are reported once, and long or many messages are cut.
        let are_whole =
            read.duplicates.len() < 99 && read.duplicates.iter().all(|m| m.len() < 1_000);
        if are_whole {
            assert_eq!(twice.duplicates.len(), read.duplicates.len() + 1);
        }
    }
    let once = read.value.to_string();
    let Ok(reread) = body::json(once.as_bytes()) else {
        panic!("encoded and not readable: {once}");
    };
    assert_eq!(reread.duplicates, [""; 0], "{once}");
    // A fraction may lose its last digit.
    if reread.value == read.value {
        let collection = match read.value["kind"].as_str() {
            Some("ConfigMap") => "configmaps",
            _ => "pods",
        };
        in_runtime(check_validation(
            collection,
            data,
            &once,
            !read.duplicates.is_empty(),
        ));
    }
}

async fn check_validation(collection: &str, data: &[u8], once: &str, duplicates: bool) {
    let ignored = create(collection, "Ignore", data).await;
    let without = create(collection, "Ignore", once.as_bytes()).await;
    assert_eq!(ignored.code, without.code, "the last value counts");
    let strict = create(collection, "Strict", data).await;
    let warned = create(collection, "Warn", data).await;
    assert_eq!(warned.code, ignored.code, "a warning refuses nothing");
    if ignored.code == 201 {
        assert_eq!(ignored.object, without.object, "the last value counts");
        assert_eq!(warned.object, ignored.object);
        assert!(warned.warns || !duplicates, "no warning of a duplicate");
    }
    if strict.code == 201 {
        assert!(!duplicates, "a duplicate field is accepted");
        assert_eq!(strict.object, ignored.object);
    }
}

struct Created {
    code: u16,
    object: Value,
    warns: bool,
}

/// The answer of a new cluster.
async fn create(collection: &str, validation: &str, body: &[u8]) -> Created {
    let cluster = start(Options {
        wall_clock_start: NOW.parse().ok(),
        ..Options::default()
    });
    let path = format!("/api/v1/namespaces/default/{collection}?fieldValidation={validation}");
    let request = Request::post(path).header("content-type", "application/json");
    let Ok(request) = request.body(Body::from(body.to_vec())) else {
        panic!("no request");
    };
    let Ok(response) = cluster.router().oneshot(request).await;
    let code = response.status().as_u16();
    let warns = response.headers().contains_key("warning");
    let Ok(bytes) = response.into_body().collect().await else {
        panic!("the answer breaks off");
    };
    Created {
        code,
        object: serde_json::from_slice(&bytes.to_bytes()).unwrap_or_default(),
        warns,
    }
}
