//! Classifies failed API calls: whether the API server refused the request or the outcome is unknown, and why.
//!
//! All functions are pure: they turn a status code, a body or an error chain into a [`Failure`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use boatswain_agent::foreign;
use serde::Deserialize;

use super::rights::MissingRight;
use boatswain_model::planted::{self, Planted};
use boatswain_model::pod::cut;
use boatswain_model::text::controls_display;

/// The maximum length of a kept message: enough for every cause of a refused template, short enough for a log line.
const MAX_MESSAGE_BYTES: usize = 2 * 1024;

/// The maximum number of causes kept per failure. A template with more errors takes several attempts to correct.
const MAX_CAUSES: usize = 16;

/// The upper limit of `Retry-After`; a longer one is taken as this.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60 * 60);

/// A failed API call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure, which determines how the caller reacts.
    pub kind: FailureKind,
    /// The HTTP status code; `None` without a response.
    pub code: Option<u16>,
    /// The `Status` reason, such as `Forbidden`; empty if there was none.
    pub reason: Arc<str>,
    /// The call and its result, for display.
    pub message: Arc<str>,
    /// How long the server asks the client to wait before the next request.
    pub retry_after: Option<Duration>,
    /// The `Status` causes, one for each error in the object that was sent.
    pub causes: Vec<Cause>,
}

/// One error in a refused object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The field, such as `spec.containers[0].image`; empty if the server named none.
    pub field: Arc<str>,
    /// The cause's reason, such as `FieldValueInvalid`.
    pub reason: Arc<str>,
    /// The server's message.
    pub message: Arc<str>,
}

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FailureKind {
    /// 429, or 503 with Retry-After: retry later.
    Wait,
    /// A resource quota is exceeded.
    Quota,
    /// The namespace is being deleted.
    NamespaceTerminating,
    /// The namespace does not exist.
    NamespaceMissing,
    /// An admission plugin or webhook refused the object.
    Admission,
    /// The request or its object is invalid: 400, 413, 422 and similar.
    Invalid,
    /// The driver lacks a permission.
    Rights,
    /// The API server does not accept the credentials, or the driver could not obtain them.
    Credentials,
    /// The object or a related object changed concurrently, or a precondition on the object failed.
    Conflict,
    /// The name is taken.
    AlreadyExists,
    /// The resource version or page token is too old: 410.
    Expired,
    /// The resource version is newer than the server's state.
    TooLargeVersion,
    /// The API server reports that the object does not exist.
    NotFound,
    /// 5xx.
    Server,
    /// The request timed out, at the driver or at the server.
    TimedOut,
    /// The request was never sent.
    Unreachable,
    /// The connection broke after the request was or may have been sent.
    Broken,
    /// The response is not an API server's: not JSON, another kind, truncated or too large.
    Garbage,
}

impl FailureKind {
    /// Whether the API server was unreachable or could not process the request, rather than refused it.
    pub fn is_outage(self) -> bool {
        matches!(
            self,
            Self::Server | Self::TimedOut | Self::Unreachable | Self::Broken | Self::Garbage
        )
    }

    /// The kind as a metric label.
    pub fn word(self) -> &'static str {
        match self {
            FailureKind::Wait => "wait",
            FailureKind::Quota => "quota",
            FailureKind::NamespaceTerminating => "namespace-terminating",
            FailureKind::NamespaceMissing => "namespace-missing",
            FailureKind::Admission => "admission",
            FailureKind::Invalid => "invalid",
            FailureKind::Rights => "rights",
            FailureKind::Credentials => "credentials",
            FailureKind::Conflict => "conflict",
            FailureKind::AlreadyExists => "already-exists",
            FailureKind::Expired => "expired",
            FailureKind::TooLargeVersion => "too-large-version",
            FailureKind::NotFound => "not-found",
            FailureKind::Server => "server-error",
            FailureKind::TimedOut => "timed-out",
            FailureKind::Unreachable => "unreachable",
            FailureKind::Broken => "broken",
            FailureKind::Garbage => "garbage",
        }
    }
}

impl Failure {
    /// Makes a failure without a response, or with an unusable one.
    pub fn new(kind: FailureKind, message: &str) -> Self {
        Self {
            kind,
            code: None,
            reason: Arc::from(""),
            message: clean(message, MAX_MESSAGE_BYTES),
            retry_after: None,
            causes: Vec::new(),
        }
    }

    /// Whether the server certainly did not carry out the request (spec A-12): it refused it with a 4xx, or the request
    /// was never sent. After any other failure the outcome is unknown (spec A-13).
    ///
    /// - A 4xx counts only if an API server sent it: it contains a `Status`, or it is a 401 or 429, which API servers
    ///   also send as plain text. A proxy's error page does not show what happened behind the proxy.
    /// - A 408 does not count: a proxy may have timed out after it forwarded the request.
    /// - A 3xx does not count: API servers do not redirect these calls, so another server sent it.
    pub fn is_refused(&self) -> bool {
        match self.kind {
            FailureKind::Wait => self.code == Some(429),
            FailureKind::Quota
            | FailureKind::NamespaceTerminating
            | FailureKind::NamespaceMissing
            | FailureKind::Admission
            | FailureKind::Invalid
            | FailureKind::Rights
            | FailureKind::Credentials
            | FailureKind::Conflict
            | FailureKind::AlreadyExists
            | FailureKind::Expired
            | FailureKind::NotFound
            | FailureKind::Unreachable => true,
            FailureKind::TimedOut if planted::is(Planted::TimeoutIsRefusal) => {
                self.code == Some(504)
            }
            FailureKind::TooLargeVersion
            | FailureKind::Server
            | FailureKind::TimedOut
            | FailureKind::Broken
            | FailureKind::Garbage => false,
        }
    }

    /// The missing permission, if that is the cause and the server's message names it in the usual form (spec A-21).
    pub fn missing_right(&self) -> Option<MissingRight> {
        match self.kind {
            FailureKind::Rights => MissingRight::in_message(&self.message),
            _ => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// The Kubernetes `Status` object, sent in place of the requested one. Missing or malformed parts are left out.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StatusBody {
    pub(super) kind: Option<String>,
    pub(super) message: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) code: Option<u16>,
    pub(super) details: Option<StatusDetails>,
}

/// The `details` of a `Status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct StatusDetails {
    pub(super) name: Option<String>,
    pub(super) kind: Option<String>,
    causes: Option<Vec<StatusCause>>,
    retry_after_seconds: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StatusCause {
    reason: Option<String>,
    message: Option<String>,
    field: Option<String>,
}

impl StatusBody {
    /// Parses the body; `None` if it is not a `Status`.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let status: StatusBody = serde_json::from_slice(body).ok()?;
        (status.kind.as_deref() == Some("Status")).then_some(status)
    }

    /// Whether this object does not exist. A missing namespace or path does not count.
    pub(super) fn says_missing(&self, resource: &str, name: &str) -> bool {
        self.reason.as_deref() == Some("NotFound")
            && self.details.as_ref().is_some_and(|details| {
                details.kind.as_deref() == Some(resource) && details.name.as_deref() == Some(name)
            })
    }

    fn message(&self) -> &str {
        self.message.as_deref().unwrap_or_default()
    }

    fn causes(&self) -> &[StatusCause] {
        self.details
            .as_ref()
            .and_then(|details| details.causes.as_deref())
            .unwrap_or_default()
    }

    fn has_cause(&self, reason: &str) -> bool {
        self.causes()
            .iter()
            .any(|cause| cause.reason.as_deref() == Some(reason))
    }
}

/// Classifies a response whose code is not 2xx.
///
/// `place` names the call in the message; `retry_after` is the header of that name.
pub fn of_answer(place: &str, code: u16, retry_after: Option<Duration>, body: &[u8]) -> Failure {
    let status = StatusBody::parse(body);
    let mut failure = of_status(place, code, retry_after, status.as_ref());
    if let Some(page) = foreign::page(body).filter(|_| status.is_none()) {
        failure.message = clean(&format!("{place}: {code}: {page}"), MAX_MESSAGE_BYTES);
    }
    failure
}

/// Classifies a `Status` from a response or from a watch's ERROR event.
pub(super) fn of_status(
    place: &str,
    code: u16,
    retry_after: Option<Duration>,
    status: Option<&StatusBody>,
) -> Failure {
    let told = status
        .and_then(|s| s.details.as_ref()?.retry_after_seconds)
        .map(Duration::from_secs);
    let retry_after = retry_after.or(told).map(|wait| wait.min(MAX_RETRY_AFTER));
    let reason = status.and_then(|s| s.reason.as_deref()).unwrap_or_default();
    let said = match status {
        Some(status) if !status.message().is_empty() => status.message(),
        Some(_) => "no message",
        None => "an answer that is no Kubernetes status",
    };
    let message = if reason.is_empty() {
        format!("{place}: {code}: {said}")
    } else {
        format!("{place}: {code} {reason}: {said}")
    };
    Failure {
        kind: kind_of(code, retry_after.is_some(), status),
        code: Some(code),
        reason: cut(reason),
        message: clean(&message, MAX_MESSAGE_BYTES),
        retry_after,
        causes: status.map(causes_of).unwrap_or_default(),
    }
}

fn causes_of(status: &StatusBody) -> Vec<Cause> {
    let text = |text: &Option<String>| clean(text.as_deref().unwrap_or_default(), 512);
    status
        .causes()
        .iter()
        .take(MAX_CAUSES)
        .map(|cause| Cause {
            field: text(&cause.field),
            reason: text(&cause.reason),
            message: text(&cause.message),
        })
        .collect()
}

fn kind_of(code: u16, told_to_wait: bool, status: Option<&StatusBody>) -> FailureKind {
    match (code, status) {
        // The body does not matter for either: an API server's overload filter responds with plain text.
        (429, _) => FailureKind::Wait,
        (401, _) => FailureKind::Credentials,
        (408, _) => FailureKind::TimedOut,
        (410, _) => FailureKind::Expired,
        (503, _) if told_to_wait => FailureKind::Wait,
        (504, Some(status)) => kind_of_timeout(status),
        (500..=599, _) => FailureKind::Server,
        (403, Some(status)) => kind_of_forbidden(status),
        (404, Some(status)) => kind_of_not_found(status),
        (409, Some(status)) if status.reason.as_deref() == Some("AlreadyExists") => {
            FailureKind::AlreadyExists
        }
        (409, Some(_)) => FailureKind::Conflict,
        (400..=499, Some(status)) if is_webhook(status) => FailureKind::Admission,
        (400..=499, Some(_)) => FailureKind::Invalid,
        _ => FailureKind::Garbage,
    }
}

fn kind_of_timeout(status: &StatusBody) -> FailureKind {
    if status.has_cause("ResourceVersionTooLarge")
        || status.message().contains("Too large resource version")
    {
        FailureKind::TooLargeVersion
    } else {
        FailureKind::TimedOut
    }
}

fn kind_of_forbidden(status: &StatusBody) -> FailureKind {
    let message = status.message();
    // "status unknown for quota": the quota was just created, and its usage is not computed yet.
    if message.contains("exceeded quota") || message.contains("status unknown for quota") {
        FailureKind::Quota
    } else if status.has_cause("NamespaceTerminating")
        || message.contains("because it is being terminated")
    {
        FailureKind::NamespaceTerminating
    } else if MissingRight::in_message(message).is_some() {
        FailureKind::Rights
    } else if lacks_the_default_account(message) {
        FailureKind::Server
    } else {
        FailureKind::Admission
    }
}

/// Whether the account is missing that the cluster makes for each namespace, a moment after it.
fn lacks_the_default_account(message: &str) -> bool {
    message.contains("error looking up service account")
        && message.contains("serviceaccount \"default\" not found")
}

fn kind_of_not_found(status: &StatusBody) -> FailureKind {
    let about = status.details.as_ref().and_then(|d| d.kind.as_deref());
    if about == Some("namespaces") {
        FailureKind::NamespaceMissing
    } else {
        FailureKind::NotFound
    }
}

fn is_webhook(status: &StatusBody) -> bool {
    status.message().contains("admission webhook")
        || status.message().contains("ValidatingAdmissionPolicy")
}

/// Makes external text fit for a log line: replaces characters that control the display with spaces and truncates it.
pub fn clean(text: &str, max_bytes: usize) -> Arc<str> {
    let mut kept = String::with_capacity(text.len().min(max_bytes + 4));
    for c in text.chars() {
        let c = if controls_display(c) { ' ' } else { c };
        if kept.len() + c.len_utf8() > max_bytes {
            kept.push('…');
            break;
        }
        kept.push(c);
    }
    Arc::from(kept)
}

#[cfg(test)]
mod tests;
