//! Faults on demand, for tests by hand: what the API does to requests while somebody wants it to.
//!
//! They lie between the socket and the API: what is refused here never reached the server, what is broken here
//! after it was carried out was carried out all the same.

use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use rand::rngs::{StdRng, SysRng};
use rand::{RngExt as _, SeedableRng as _};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::api::status::ApiError;

/// Which requests are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matching {
    /// Their HTTP method; any where there is none.
    pub verb: Option<String>,
    /// What their path and query have in them; anything where there is none.
    pub path: Option<String>,
}

impl Matching {
    fn means(&self, request: &Request) -> bool {
        let verb = self.verb.as_deref();
        let uri = request.uri().path_and_query().map_or("", |p| p.as_str());
        verb.is_none_or(|verb| verb.eq_ignore_ascii_case(request.method().as_str()))
            && self.path.as_deref().is_none_or(|path| uri.contains(path))
    }
}

/// How a request fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failing {
    /// Refused with this HTTP status, before it is carried out.
    Status(u16),
    /// The connection breaks, before it is carried out.
    Break,
    /// The connection breaks when it has been carried out.
    BreakAfter,
}

/// What requests suffer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Faults {
    /// Answers come later by a time between these two.
    pub latency: Option<(Duration, Duration, Matching)>,
    /// This share of requests fails so.
    pub errors: Option<(f64, Failing, Matching)>,
    /// Nothing is answered, and watches are silent.
    pub frozen: bool,
}

/// Faults by hand need not be the same each time.
fn dice() -> StdRng {
    StdRng::try_from_rng(&mut SysRng).unwrap_or_else(|_| StdRng::seed_from_u64(0))
}

/// Who meddles with requests looks here.
pub type Orders = watch::Receiver<Faults>;

/// Waits until nothing is frozen. Where nobody can give orders any more, nothing is.
async fn thawed(orders: &mut Orders) {
    // An error means that nobody is left to thaw it.
    let _ = orders.wait_for(|faults| !faults.frozen).await;
}

/// One request, with the faults that are in force.
pub async fn meddle(State(mut orders): State<Orders>, request: Request, next: Next) -> Response {
    thawed(&mut orders).await;
    let faults = orders.borrow().clone();
    if let Some((shortest, longest, matching)) = &faults.latency
        && matching.means(&request)
    {
        sleep(dice().random_range(*shortest..=*longest)).await;
    }
    let failing = faults.errors.filter(|(rate, _, matching)| {
        matching.means(&request) && dice().random_bool(rate.clamp(0.0, 1.0))
    });
    match failing {
        Some((_, Failing::Status(code), _)) => refused(code),
        Some((_, Failing::Break, _)) => broken(),
        Some((_, Failing::BreakAfter, _)) => {
            next.run(request).await;
            broken()
        }
        None => {
            let (head, body) = next.run(request).await.into_parts();
            // A watch that was open before is silent as well.
            let lines = body.into_data_stream().then(move |line| {
                let mut orders = orders.clone();
                async move {
                    thawed(&mut orders).await;
                    line
                }
            });
            Response::from_parts(head, Body::from_stream(lines))
        }
    }
}

fn refused(code: u16) -> Response {
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

/// An answer that ends before it has begun: the connection is closed.
fn broken() -> Response {
    let nothing: io::Result<Vec<u8>> = Err(io::ErrorKind::ConnectionReset.into());
    Response::new(Body::from_stream(futures::stream::iter([nothing])))
}
