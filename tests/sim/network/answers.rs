//! Error answers as real API servers word them.

use std::io;

use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt;
use http::Response;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::BoxError;

use crate::network_conditions::RequestFault;
use crate::objects::NAMESPACE;

pub fn refusal(fault: RequestFault, code: u16, retry_after: Option<u64>) -> Response<Body> {
    let (reason, message) = reason_and_message(fault, code);
    let mut status = status(code, reason, message);
    if fault == RequestFault::NamespaceTerminating {
        status["details"] = json!({"causes": [{
            "reason": "NamespaceTerminating",
            "message": "namespace default is being terminated",
            "field": "metadata.namespace",
        }]});
    }
    answer(code, retry_after, &status)
}

/// The answer of a server that does not support streamed lists.
pub fn no_streams() -> Response<Body> {
    let message = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature \
                   gate is enabled";
    answer(422, None, &status(422, "Invalid", message))
}

/// The refusal of a request for the keys that verify tokens.
pub fn no_keys(code: u16) -> Response<Body> {
    let reason = match code {
        403 => "Forbidden",
        406 => "NotAcceptable",
        _ => "InternalError",
    };
    answer(code, None, &status(code, reason, "the keys are withheld"))
}

/// The watch line that reports an expired resource version.
pub fn expired_line() -> Bytes {
    let status = status(410, "Expired", "too old resource version: 1 (2)");
    format!("{}\n", json!({"type": "ERROR", "object": status})).into()
}

pub fn reset() -> BoxError {
    io::Error::from(io::ErrorKind::ConnectionReset).into()
}

pub fn refused() -> BoxError {
    io::Error::from(io::ErrorKind::ConnectionRefused).into()
}

/// An answer cut in half, or replaced by HTML.
pub async fn corrupted(response: Response<Body>, half: bool) -> Response<Body> {
    let (parts, body) = response.into_parts();
    if !half {
        return Response::from_parts(parts, Body::from("<html>hello</html>"));
    }
    // A watch has no end, so only its first chunk is halved.
    let whole = match body.into_data_stream().next().await {
        Some(Ok(whole)) => whole,
        _ => Bytes::new(),
    };
    Response::from_parts(parts, Body::from(whole.slice(..whole.len() / 2)))
}

/// The object without its resource version, which is how real servers answer a delete that has lost a race with the
/// object's removal.
pub async fn without_version(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let mut object: Value = serde_json::from_slice(&body).unwrap();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    parts.headers.remove("content-length");
    Response::from_parts(parts, Body::from(object.to_string()))
}

fn reason_and_message(fault: RequestFault, code: u16) -> (&'static str, &'static str) {
    match (fault, code) {
        (RequestFault::Quota, _) => (
            "Forbidden",
            "pods \"x\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=9, limited: pods=9",
        ),
        (RequestFault::Admission, _) => (
            "Forbidden",
            "pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false",
        ),
        (RequestFault::NamespaceTerminating, _) => (
            "Forbidden",
            "pods \"x\" is forbidden: unable to create new content in namespace default because it is being terminated",
        ),
        (RequestFault::RbacDenied, _) => (
            "Forbidden",
            "pods is forbidden: User \"system:serviceaccount:default:driver\" cannot create resource \"pods\" in API \
             group \"\" in the namespace \"default\"",
        ),
        (RequestFault::Webhook, _) => (
            "BadRequest",
            "admission webhook \"policy.example.com\" denied the request: no such image here",
        ),
        (RequestFault::Invalid, _) => (
            "Invalid",
            "Pod \"x\" is invalid: spec.containers[0].image: Required value",
        ),
        (_, 401) => ("Unauthorized", "Unauthorized"),
        (_, 410) => (
            "Expired",
            "The provided continue parameter is too old to display a consistent list result.",
        ),
        (_, 429) => (
            "TooManyRequests",
            "the server has received too many requests",
        ),
        (_, 503) => (
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        ),
        (_, 504) => (
            "Timeout",
            "request did not complete within the allotted timeout",
        ),
        _ => ("InternalError", "etcdserver: leader changed"),
    }
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    let message = message.replace("default", NAMESPACE);
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": message,
    })
}

fn answer(code: u16, retry_after: Option<u64>, status: &Value) -> Response<Body> {
    let mut response = Response::builder()
        .status(code)
        .header("content-type", "application/json");
    if let Some(seconds) = retry_after {
        response = response.header("retry-after", seconds);
    }
    response.body(Body::from(status.to_string())).unwrap()
}
