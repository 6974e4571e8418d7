//! What a failed call means: surely not carried out, or nobody knows; and what to do about it.
//!
//! Everything here is pure: from a code, a body and an error chain to a [`Failure`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::rights::MissingRight;
use crate::model::pod::cut;
use crate::planted::{self, Planted};

/// A server's message is kept up to here: long enough for every cause of a refused template, short enough for a log line.
const MAX_MESSAGE_BYTES: usize = 2 * 1024;

/// As many causes of a refusal are kept; a template with more faults is mended in several rounds.
const MAX_CAUSES: usize = 16;

/// A `Retry-After` beyond this is nonsense, and is taken for this.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60 * 60);

/// A call that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure it is, which decides what is done about it.
    pub kind: Kind,
    /// The HTTP status code, where there was an answer.
    pub code: Option<u16>,
    /// The server's own word for it, such as `Forbidden`; empty where it gave none.
    pub reason: Arc<str>,
    /// What was called, and what came of it, for people.
    pub message: Arc<str>,
    /// How long the server asks to be left alone.
    pub retry_after: Option<Duration>,
    /// The server's causes, one a fault of the object that was sent.
    pub causes: Vec<Cause>,
}

/// One fault of an object that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The field, such as `spec.containers[0].image`; empty where none was named.
    pub field: Arc<str>,
    /// The server's word for it, such as `FieldValueInvalid`.
    pub reason: Arc<str>,
    /// In the server's words.
    pub message: Arc<str>,
}

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// 429, or 503 with Retry-After: to be asked again later (spec A-20).
    Wait,
    /// A quota is used up (spec A-21).
    Quota,
    /// The namespace is being deleted (spec A-21).
    NamespaceTerminating,
    /// There is no such namespace.
    NamespaceMissing,
    /// An admission plugin or webhook refuses the object (spec ).
    Admission,
    /// The request or the object in it is wrong: 400, 422, 413 and their like (spec A-23).
    Invalid,
    /// The caller may not do this (spec A-21).
    Rights,
    /// The caller is not known, or could not get its credentials (spec A-22).
    Credentials,
    /// The object, or another one that must change with it, was changed meanwhile; or it is not the one that was meant.
    Conflict,
    /// The name is taken (spec A-25).
    AlreadyExists,
    /// The resource version or page token is too old: 410 (spec W-2).
    Expired,
    /// The resource version is newer than anything the server knows (spec P-1).
    TooLargeVersion,
    /// There is no such object, and it is the API server that says so.
    NotFound,
    /// 5xx.
    Server,
    /// No answer in time, by the driver's clock or the server's.
    TimedOut,
    /// The request was never sent.
    Unreachable,
    /// The connection broke after the request was sent, or may have been.
    Broken,
    /// An answer that cannot be an API server's: no JSON, another kind, cut short, too large.
    Garbage,
}

impl Kind {
    /// Whether the API server was out of reach, or could not do its work, rather than refused something.
    pub fn is_outage(self) -> bool {
        matches!(
            self,
            Self::Server | Self::TimedOut | Self::Unreachable | Self::Broken | Self::Garbage
        )
    }

    /// In one word, for those who count.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Wait => "wait",
            Kind::Quota => "quota",
            Kind::NamespaceTerminating => "namespace-terminating",
            Kind::NamespaceMissing => "namespace-missing",
            Kind::Admission => "admission",
            Kind::Invalid => "invalid",
            Kind::Rights => "rights",
            Kind::Credentials => "credentials",
            Kind::Conflict => "conflict",
            Kind::AlreadyExists => "already-exists",
            Kind::Expired => "expired",
            Kind::TooLargeVersion => "too-large-version",
            Kind::NotFound => "not-found",
            Kind::Server => "server-error",
            Kind::TimedOut => "timed-out",
            Kind::Unreachable => "unreachable",
            Kind::Broken => "broken",
            Kind::Garbage => "garbage",
        }
    }
}

impl Failure {
    /// A failure without an answer, or one whose answer is of no use.
    pub fn new(kind: Kind, message: &str) -> Self {
        Self {
            kind,
            code: None,
            reason: Arc::from(""),
            message: clean(message, MAX_MESSAGE_BYTES),
            retry_after: None,
            causes: Vec::new(),
        }
    }

    /// Whether the server has surely not done what was asked (spec A-12): it said so with a 4xx, or the
    /// request was never sent. Of everything else the outcome is unknown (spec A-13).
    ///
    /// - A 4xx counts where it is an API server's own: with a `Status` in it, or a 401 or 429 of any shape, which
    ///   API servers also answer as plain text. A proxy's page says nothing of what happened behind the proxy.
    /// - A 408 does not count: somebody gave up waiting, perhaps after passing the request on.
    /// - A 3xx does not count either: API servers redirect no call of ours, so it is an unrecognised pod's answer.
    pub fn is_refused(&self) -> bool {
        match self.kind {
            Kind::Wait => self.code == Some(429),
            Kind::Quota
            | Kind::NamespaceTerminating
            | Kind::NamespaceMissing
            | Kind::Admission
            | Kind::Invalid
            | Kind::Rights
            | Kind::Credentials
            | Kind::Conflict
            | Kind::AlreadyExists
            | Kind::Expired
            | Kind::NotFound
            | Kind::Unreachable => true,
            Kind::TimedOut if planted::is(Planted::TimeoutIsRefusal) => self.code == Some(504),
            Kind::TooLargeVersion
            | Kind::Server
            | Kind::TimedOut
            | Kind::Broken
            | Kind::Garbage => false,
        }
    }

    /// Which right is missing, where that is what is wrong and the server said it in its usual words (spec A-21).
    pub fn missing_right(&self) -> Option<MissingRight> {
        match self.kind {
            Kind::Rights => MissingRight::in_message(&self.message),
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

/// The body that Kubernetes sends instead of what was asked for; parts that are missing or odd are left out.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StatusBody {
    pub(super) kind: Option<String>,
    pub(super) message: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) code: Option<u16>,
    pub(super) details: Option<StatusDetails>,
}

/// What the refusal is about.
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
    /// The body, where it is a `Status` at all.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let status: StatusBody = serde_json::from_slice(body).ok()?;
        (status.kind.as_deref() == Some("Status")).then_some(status)
    }

    /// Whether this says that this one object does not exist: a namespace or a path that is missing is something else.
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

/// What an answer with a code other than 2xx means.
///
/// `place` says what was called, for the message; `retry_after` is the header of that name.
pub(crate) fn of_answer(
    place: &str,
    code: u16,
    retry_after: Option<Duration>,
    body: &[u8],
) -> Failure {
    of_status(place, code, retry_after, StatusBody::parse(body).as_ref())
}

/// What a `Status` means, wherever it came from; a watch carries them in its ERROR lines.
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

fn kind_of(code: u16, told_to_wait: bool, status: Option<&StatusBody>) -> Kind {
    match (code, status) {
        // Both mean the same whatever comes with them: the overload filter of an API server answers plain text.
        (429, _) => Kind::Wait,
        (401, _) => Kind::Credentials,
        (408, _) => Kind::TimedOut,
        (410, _) => Kind::Expired,
        (503, _) if told_to_wait => Kind::Wait,
        (504, Some(status)) => kind_of_timeout(status),
        (500..=599, _) => Kind::Server,
        (403, Some(status)) => kind_of_forbidden(status),
        (404, Some(status)) => kind_of_not_found(status),
        (409, Some(status)) if status.reason.as_deref() == Some("AlreadyExists") => {
            Kind::AlreadyExists
        }
        (409, Some(_)) => Kind::Conflict,
        (400..=499, Some(status)) if is_webhook(status) => Kind::Admission,
        (400..=499, Some(_)) => Kind::Invalid,
        _ => Kind::Garbage,
    }
}

fn kind_of_timeout(status: &StatusBody) -> Kind {
    if status.has_cause("ResourceVersionTooLarge")
        || status.message().contains("Too large resource version")
    {
        Kind::TooLargeVersion
    } else {
        Kind::TimedOut
    }
}

fn kind_of_forbidden(status: &StatusBody) -> Kind {
    let message = status.message();
    // "status unknown for quota": it was just made, and nothing was counted yet.
    if message.contains("exceeded quota") || message.contains("status unknown for quota") {
        Kind::Quota
    } else if status.has_cause("NamespaceTerminating")
        || message.contains("because it is being terminated")
    {
        Kind::NamespaceTerminating
    } else if MissingRight::in_message(message).is_some() {
        Kind::Rights
    } else {
        Kind::Admission
    }
}

fn kind_of_not_found(status: &StatusBody) -> Kind {
    let about = status.details.as_ref().and_then(|d| d.kind.as_deref());
    if about == Some("namespaces") {
        Kind::NamespaceMissing
    } else {
        Kind::NotFound
    }
}

fn is_webhook(status: &StatusBody) -> bool {
    status.message().contains("admission webhook")
        || status.message().contains("ValidatingAdmissionPolicy")
}

/// A text of somebody else's, fit for a log line: no control characters, and cut.
pub(crate) fn clean(text: &str, max_bytes: usize) -> Arc<str> {
    let mut kept = String::with_capacity(text.len().min(max_bytes + 4));
    for c in text.chars() {
        let c = if c.is_control() { ' ' } else { c };
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
