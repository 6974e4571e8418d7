//! Sends one request and reads its response, with limits on time and size.

use std::borrow::Cow;
use std::time::Duration;

use boatswain_agent::foreign;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::Client;
use kube::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::refusal::{self, Failure, FailureKind};
use crate::server_clock::ServerClock;
use crate::transport_error::{chain_text, of_error};

/// A page of 500 pods of 4 kB is 2 MB. A list from the server's cache is not paged, and 10,000 pods are 40 MB.
pub(super) const LIST_LIMIT: usize = 64 * 1024 * 1024;
/// Kubernetes stores no object above 1.5 MiB.
pub(super) const OBJECT_LIMIT: usize = 4 * 1024 * 1024;
/// Enough for a `Status` with a cause for each field of a template.
const STATUS_LIMIT: usize = 1024 * 1024;

/// The time for the network, in addition to the server's time limit.
pub(super) const MARGIN: Duration = Duration::from_secs(1);

/// Escaped in paths and queries: all but RFC 3986's unreserved characters.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

const AGENT: &str = concat!("boatswain/", env!("CARGO_PKG_VERSION"));

pub(super) struct Call {
    pub(super) method: Method,
    /// Without the query. Failure messages quote the path.
    pub(super) path: String,
    pub(super) query: Query,
    pub(super) body: Option<(&'static str, Bytes)>,
    /// The maximum size of the response, in bytes.
    pub(super) limit: usize,
}

/// Decodes a response. Invalid UTF-8 damages only the text around it. It is rare, so the faster full check comes first.
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

pub(super) const JSON: &str = "application/json";
/// What every call accepts. Not everything is offered as JSON: the keys for tokens are `application/jwk-set+json`, and a
/// real API server answers 406 to who does not accept that, or anything at all.
const ACCEPTED: &str = "application/json, */*";
/// RFC 6902.
pub(super) const JSON_PATCH: &str = "application/json-patch+json";
/// RFC 7386.
pub(super) const MERGE_PATCH: &str = "application/merge-patch+json";
pub(super) const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";

impl Call {
    /// The call in messages, without the query and thus without page tokens.
    pub(super) fn place(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// The verb as a metric label.
    pub(super) fn verb(&self) -> &'static str {
        match self.method {
            Method::GET if self.query.asks_to_watch() => "WATCH",
            Method::GET => "GET",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::PATCH => "PATCH",
            Method::DELETE => "DELETE",
            _ => "other",
        }
    }

    /// The resource, the object's name and the subresource, as far as there are any.
    fn steps(&self) -> impl Iterator<Item = &str> {
        // /api/v1/namespaces/NAMESPACE/RESOURCE/…, where a namespace may have any name.
        let steps = self.path.split('/');
        steps.skip_while(|step| *step != "namespaces").skip(2)
    }

    /// The resource, with its subresource, and the object's name; empty for one that is made.
    pub(super) fn object(&self) -> (String, String) {
        let mut steps = self.steps().map(str::to_owned);
        let (resource, name) = (steps.next(), steps.next());
        let parts: Vec<String> = resource.into_iter().chain(steps.next()).collect();
        (parts.join("/"), name.unwrap_or_default())
    }

    /// The resource as a metric label.
    pub(super) fn resource(&self) -> &'static str {
        let resource = self.steps().next();
        [
            "pods",
            "configmaps",
            "persistentvolumeclaims",
            "services",
            "events",
            "replicasets",
            "statefulsets",
            "deployments",
            "leases",
        ]
        .into_iter()
        .find(|plural| resource == Some(plural))
        .unwrap_or("other")
    }

    /// Whether it changes an object. A review only asks.
    pub(super) fn is_write(&self) -> bool {
        let is_review = [
            "/apis/authorization.k8s.io/",
            "/apis/authentication.k8s.io/",
        ]
        .iter()
        .any(|group| self.path.starts_with(group));
        self.method != Method::GET && !is_review
    }

    /// Whether only the driver that holds the lease may make this call (spec O-32).
    pub(super) fn is_guarded(&self) -> bool {
        self.is_write() && !matches!(self.resource(), "leases" | "events")
    }

    fn into_request(self) -> Result<Request<Body>, http::Error> {
        let mut request = Request::builder()
            .method(self.method)
            .uri(format!("{}{}", self.path, self.query.0))
            .header(ACCEPT, ACCEPTED)
            .header(USER_AGENT, AGENT);
        let body = match self.body {
            Some((kind, bytes)) => {
                request = request.header(CONTENT_TYPE, kind);
                Body::from(bytes)
            }
            None => Body::empty(),
        };
        request.body(body)
    }
}

#[derive(Default, Clone)]
pub(super) struct Query(String);

impl Query {
    pub(super) fn with(mut self, key: &str, value: &str) -> Self {
        self.0.push(if self.0.is_empty() { '?' } else { '&' });
        self.0.push_str(key);
        self.0.push('=');
        self.0.extend(utf8_percent_encode(value, ESCAPED));
        self
    }

    fn asks_to_watch(&self) -> bool {
        self.0
            .split(['?', '&'])
            .any(|part| part.starts_with("watch="))
    }

    /// Sets the server's time limit, after which a request can no longer commit (spec A-11).
    pub(super) fn with_timeout(self, timeout: Duration) -> Self {
        // Go takes "0s" as no limit.
        let ms = timeout.as_millis().max(1);
        let text = match ms % 1000 {
            0 => format!("{}s", ms / 1000),
            _ => format!("{ms}ms"),
        };
        self.with("timeout", &text)
    }
}

/// Builds a path. Segments are escaped, so that an external name cannot change the path's structure.
pub(super) fn path(segments: &[&str]) -> String {
    let mut path = String::new();
    for segment in segments {
        path.push('/');
        path.extend(utf8_percent_encode(segment, ESCAPED));
    }
    path
}

/// The API server's clock according to the latest successful answer that had a date.
pub(super) type LatestClock = watch::Sender<Option<ServerClock>>;

/// Sends a call and reads its whole response. Fails if there is none, or if its code is not 2xx.
pub(super) async fn answer(
    client: &Client,
    request_timeout: Duration,
    call: Call,
    clock: &LatestClock,
) -> Result<Bytes, Rejection> {
    let place = call.place();
    let limit = call.limit;
    // What a container wrote may be a page.
    let is_log = call.path.ends_with("/log");
    let whole = async {
        let response = send(client, &place, call, clock).await?;
        let body = (read(response.into_body(), limit).await).map_err(|unread| Rejection {
            is_too_long: unread.is_too_long,
            ..garbage(&place, &unread.why).into()
        })?;
        match foreign::page(&body).filter(|_| !is_log) {
            Some(page) => {
                Err(Failure::new(FailureKind::Garbage, &format!("{place}: {page}")).into())
            }
            None => Ok(body),
        }
    };
    within(request_timeout, &place, whole).await
}

/// Sends a call and waits for the response's head, with the time limit and errors of [`answer`].
pub(super) async fn opened(
    client: &Client,
    request_timeout: Duration,
    call: Call,
    clock: &LatestClock,
) -> Result<Response<Body>, Rejection> {
    let place = call.place();
    let head = send(client, &place, call, clock);
    within(request_timeout, &place, head).await
}

/// A failure, and the response's body if there was one.
#[derive(Debug)]
pub(super) struct Rejection {
    pub(super) failure: Failure,
    pub(super) body: Bytes,
    /// Whether the response was longer than the call's limit.
    pub(super) is_too_long: bool,
}

impl From<Failure> for Rejection {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            body: Bytes::new(),
            is_too_long: false,
        }
    }
}

async fn within<T>(
    request_timeout: Duration,
    place: &str,
    work: impl Future<Output = Result<T, Rejection>>,
) -> Result<T, Rejection> {
    let limit = request_timeout.saturating_add(MARGIN);
    match tokio::time::timeout(limit, work).await {
        Ok(result) => result,
        Err(_) => {
            let text = format!("{place}: no answer within {} ms", limit.as_millis());
            Err(Failure::new(FailureKind::TimedOut, &text).into())
        }
    }
}

async fn send(
    client: &Client,
    place: &str,
    call: Call,
    clock: &LatestClock,
) -> Result<Response<Body>, Rejection> {
    let request = call.into_request().map_err(|error| {
        Failure::new(
            FailureKind::Unreachable,
            &format!("{place}: no such request can be made: {error}"),
        )
    })?;
    let response = client
        .send(request)
        .await
        .map_err(|error| of_error(place, &error))?;
    if response.status().is_success() {
        // A refusal may be a proxy's, whose clock is another one.
        if let Some(dated) = ServerClock::of_answer(response.headers(), Instant::now()) {
            clock.send_replace(Some(dated));
        }
        return Ok(response);
    }
    let code = response.status().as_u16();
    let retry_after = retry_after(response.headers());
    // If the body cannot be read, classify by the code alone.
    let body = read(response.into_body(), STATUS_LIMIT)
        .await
        .unwrap_or_default();
    Err(Rejection {
        failure: refusal::of_answer(place, code, retry_after, &body),
        body,
        is_too_long: false,
    })
}

/// Accepts seconds only: API servers send no dates, and the driver's clock may differ from theirs.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

/// Why a body cannot be read.
struct Unread {
    why: String,
    is_too_long: bool,
}

async fn read(body: Body, limit: usize) -> Result<Bytes, Unread> {
    let error = match Limited::new(body, limit).collect().await {
        Ok(body) => return Ok(body.to_bytes()),
        Err(error) => error,
    };
    let is_too_long = error.is::<LengthLimitError>();
    Err(Unread {
        why: match is_too_long {
            true => format!("more than {limit} bytes"),
            false => format!("cut short: {}", chain_text(&*error)),
        },
        is_too_long,
    })
}

pub(super) fn garbage(place: &str, why: &str) -> Failure {
    Failure::new(
        FailureKind::Garbage,
        &format!("{place}: the answer cannot be read: {why}"),
    )
}
