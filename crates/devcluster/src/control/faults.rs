//! Injected faults of the API: latency, errors, and freezing.
//!
//! They apply between the socket and the API. A request that is refused here never reached the server; one whose
//! connection breaks after it was carried out has taken effect.

use std::io;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode};
use rand::rngs::{StdRng, SysRng};
use rand::{RngExt as _, SeedableRng as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::api::status::ApiError;
use crate::objects::object::{number, unset};

/// Selects the requests that a fault applies to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestFilter {
    /// The HTTP method; any if `None`.
    pub verb: Option<String>,
    /// A part of the path and query; any if `None`.
    pub path: Option<String>,
}

impl RequestFilter {
    fn matches(&self, request: &Request) -> bool {
        let verb = self.verb.as_deref();
        let uri = request.uri().path_and_query().map_or("", |p| p.as_str());
        verb.is_none_or(|verb| verb.eq_ignore_ascii_case(request.method().as_str()))
            && self.path.as_deref().is_none_or(|path| uri.contains(path))
    }
}

/// How a request fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureMode {
    /// It is refused with this HTTP status and not carried out.
    Status(u16),
    /// The connection breaks before the request is carried out.
    Break,
    /// The connection breaks after the request was carried out.
    BreakAfter,
    /// A DELETE that removes an object is answered like one that another request anticipates: with the object, but
    /// without its resource version. Other requests do not fail.
    LostRace,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Faults {
    /// Delays responses by a random time between these two.
    pub latency: Option<(Duration, Duration, RequestFilter)>,
    /// Lets this share of requests fail, from 0 to 1.
    pub errors: Option<(f64, FailureMode, RequestFilter)>,
    /// Delays all responses and watch events until this ends.
    pub frozen: bool,
}

/// Faults injected by hand need not be reproducible, so the seed is random.
fn random() -> StdRng {
    StdRng::try_from_rng(&mut SysRng).unwrap_or_else(|_| StdRng::seed_from_u64(0))
}

/// The active faults, as the middleware observes them.
pub type FaultsReader = watch::Receiver<Faults>;

/// Waits until the API is not frozen. It returns at once if the control socket is gone.
pub(crate) async fn until_unfrozen(orders: &mut FaultsReader) {
    // An error means that nothing is left that could unfreeze the API.
    let _ = orders.wait_for(|faults| !faults.frozen).await;
}

/// Middleware that applies the active faults to a request.
pub async fn inject_faults(
    State(mut orders): State<FaultsReader>,
    mut request: Request,
    next: Next,
) -> Response {
    until_unfrozen(&mut orders).await;
    let faults = orders.borrow().clone();
    if let Some((shortest, longest, matching)) = &faults.latency
        && matching.matches(&request)
    {
        sleep(random().random_range(*shortest..=*longest)).await;
    }
    let failing = faults.errors.filter(|(rate, _, matching)| {
        matching.matches(&request) && random().random_bool(rate.clamp(0.0, 1.0))
    });
    match failing {
        Some((_, FailureMode::Status(code), _)) => refusal(code),
        Some((_, FailureMode::Break, _)) => broken_connection(),
        Some((_, FailureMode::BreakAfter, _)) => {
            next.run(request).await;
            broken_connection()
        }
        Some((_, FailureMode::LostRace, _)) if request.method() == Method::DELETE => {
            without_version(next.run(request).await).await
        }
        Some((_, FailureMode::LostRace, _)) | None => {
            // A WebSocket sends events beside the response's body.
            request.extensions_mut().insert(orders.clone());
            let response = next.run(request).await;
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                return response;
            }
            let (head, body) = response.into_parts();
            // Open watches freeze as well.
            let lines = body.into_data_stream().then(move |line| {
                let mut orders = orders.clone();
                async move {
                    until_unfrozen(&mut orders).await;
                    line
                }
            });
            Response::from_parts(head, Body::from_stream(lines))
        }
    }
}

/// Removes the resource version from the last state of an object that a request removed.
async fn without_version(response: Response) -> Response {
    let (mut head, body) = response.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return broken_connection();
    };
    let mut object: Value = serde_json::from_slice(&body).unwrap_or_default();
    if number(&object, &["metadata", "deletionGracePeriodSeconds"]) != Some(0) {
        return Response::from_parts(head, Body::from(body));
    }
    unset(&mut object, &["metadata", "resourceVersion"]);
    head.headers.remove(CONTENT_LENGTH);
    Response::from_parts(head, Body::from(object.to_string()))
}

fn refusal(code: u16) -> Response {
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let reason = match status.as_u16() {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let error = ApiError::plain(status.as_u16(), reason, "a fault that was asked for");
    let mut response = (status, error.to_value().to_string()).into_response();
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// A response whose body fails at once, which closes the connection.
fn broken_connection() -> Response {
    let nothing: io::Result<Vec<u8>> = Err(io::ErrorKind::ConnectionReset.into());
    Response::new(Body::from_stream(futures::stream::iter([nothing])))
}
