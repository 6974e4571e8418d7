//! The one shape of every error.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use serde::Serialize;

/// Why a request was refused, for programs and for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    #[serde(skip)]
    status: StatusCode,
    /// What it is, in one word.
    pub code: &'static str,
    /// What it is, for people.
    pub message: String,
    /// Where in the request it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            field: None,
            hint: None,
        }
    }

    /// Where in the request it is.
    pub fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// What to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", message)
    }

    /// It was understood, and cannot be.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "refused", message)
    }

    /// Nobody known asks.
    pub fn unauthorized() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "no token, or one that is unknown here",
        )
        .hint("send `Authorization: Bearer TOKEN` with a token of the driver's api.token_file")
    }

    /// Who speaks has not proved to be an executor.
    pub fn not_an_executor(why: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", why).hint(
            "send `Authorization: Bearer TOKEN` with the executor's own token: docs/protocol.md, \"Who speaks\"",
        )
    }

    /// What is needed for an answer is not there, and may be soon.
    pub fn unavailable_for(why: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", why).hint("try again in a while")
    }

    /// What it is, in a word of its own.
    pub fn coded(mut self, code: &'static str) -> Self {
        self.code = code;
        self
    }

    /// The token may only look.
    pub fn read_only() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "read-only",
            "this token may only look",
        )
        .hint("use a token without \"read\" behind it in the driver's api.token_file")
    }

    /// What is asked for is not there.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", message)
    }

    /// It is there, but this cannot be done to it.
    pub fn wrong_method() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method-not-allowed",
            "this cannot be done here",
        )
        .hint("/openapi.json tells what can")
    }

    /// The driver ends, or does not answer.
    pub fn unavailable() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable",
            "the driver does not answer",
        )
        .hint("it may be ending; its log tells")
    }

    /// The body is longer than anything that could be meant, or broke off.
    pub fn too_large() -> Self {
        let message = "the body is too long, or broke off";
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message)
    }

    /// The body does not come.
    pub fn too_slow() -> Self {
        let message = "the body takes too long";
        Self::new(StatusCode::REQUEST_TIMEOUT, "too-slow", message)
    }

    /// Too many ask for the same thing.
    pub fn too_many(message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too-many", message)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // Of texts and nothing else it can always be made.
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response =
            (self.status, [(CONTENT_TYPE, "application/json")], body).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let value = http::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, value);
        }
        response
    }
}
