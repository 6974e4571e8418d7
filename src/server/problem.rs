//! The one JSON format of all error answers.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use serde::Serialize;

/// Why a request was refused, in machine-readable and human-readable form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    #[serde(skip)]
    status: StatusCode,
    /// The request was not carried out, and is worth repeating after so many seconds.
    #[serde(skip)]
    again: Option<u8>,
    /// A machine-readable code.
    pub code: &'static str,
    pub message: String,
    /// The field of the request that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            again: None,
            code,
            message: message.into(),
            field: None,
            hint: None,
        }
    }

    pub fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The request cannot be parsed.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", message)
    }

    /// The request is well-formed, but its content is invalid.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "refused", message)
    }

    /// The request contradicts the present state.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    /// The token is missing or unknown.
    pub fn unauthorized() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "the token is missing or unknown",
        )
        .hint(
            "send `Authorization: Bearer TOKEN` with a token of the driver's api.token_file, or of a service account \
             that api.service_accounts names",
        )
    }

    /// The token is refused for this reason.
    pub fn unauthorized_since(why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", why).hint(hint)
    }

    /// The client is known and lacks a right.
    pub fn forbidden(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message).hint(hint)
    }

    /// The token does not prove the identity of an executor.
    pub fn not_an_executor(why: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", why).hint(
            "send `Authorization: Bearer TOKEN` with the executor's own token: docs/protocol.md, \"Who speaks\"",
        )
    }

    /// Something that the answer depends on is temporarily unavailable.
    pub fn unavailable_for(why: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", why).hint("try again in a while")
    }

    /// Replaces the code by a more specific one.
    pub fn coded(mut self, code: &'static str) -> Self {
        self.code = code;
        self
    }

    /// The token has only the right to read.
    pub fn read_only() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "read-only",
            "this token may only read",
        )
        .hint("use a token that is not marked \"read\" in the driver's api.token_file")
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", message)
    }

    pub fn wrong_method() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method-not-allowed",
            "this path does not support the method",
        )
        .hint("/openapi.json lists all paths and methods")
    }

    /// The driver is ending, or does not answer.
    pub fn unavailable() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable",
            "the driver does not answer",
        )
        .hint("it may be ending; see its log")
    }

    /// The driver is still starting.
    pub fn starting() -> Self {
        Self {
            again: Some(SOON),
            ..Self::unavailable().hint("it is still starting; see its log")
        }
    }

    /// The driver has taken over, and does not know yet which executors live (spec B-55).
    pub fn not_adopted() -> Self {
        let message = "the driver has not adopted its executors yet";
        let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "not-adopted", message);
        Self {
            again: Some(SOON),
            ..problem.hint(
                "it still lists what its predecessor left: ask again; if that lasts, its log says why the API server \
                 does not answer",
            )
        }
    }

    /// The body exceeds the limit, or was truncated.
    pub fn too_large() -> Self {
        let message = "the body is too long or incomplete";
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message)
    }

    pub fn too_slow() -> Self {
        let message = "the body did not arrive in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, "too-slow", message)
    }

    /// A limit on concurrent requests is reached.
    pub fn too_many(message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too-many", message)
    }
}

/// A start takes a second, unless the API server is away.
const SOON: u8 = 1;

/// No more connections are accepted.
pub const NO_PLACE: &str = "the limit of open connections is reached";

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // Serialising texts cannot fail.
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response =
            (self.status, [(CONTENT_TYPE, "application/json")], body).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let value = http::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, value);
        }
        if let Some(seconds) = self.again {
            let value = http::HeaderValue::from(u16::from(seconds));
            response.headers_mut().insert(RETRY_AFTER, value);
        }
        response
    }
}
