//! The errors of the API, as `Status` objects.

use serde_json::{Value, json};

pub use super::cause::Causes;
use crate::objects::depth::MAX_LEVELS;
use crate::objects::object::Key;

/// Why a request was refused; converted to a `Status` object.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    pub code: u16,
    /// The machine-readable reason; empty where a real server sends none.
    pub reason: &'static str,
    pub message: String,
    pub details: Option<Value>,
    /// A token that continues a paged list whose resource version has expired.
    pub continue_token: Option<String>,
}

/// A resource as errors name it: `pods` or `leases.coordination.k8s.io`.
fn qualified(resource: &str, group: &str) -> String {
    if group.is_empty() {
        resource.to_owned()
    } else {
        format!("{resource}.{group}")
    }
}

fn details(kind: &str, group: &str, name: &str) -> Value {
    let mut details = json!({});
    if !kind.is_empty() {
        details["kind"] = kind.into();
    }
    if !group.is_empty() {
        details["group"] = group.into();
    }
    if !name.is_empty() {
        details["name"] = name.into();
    }
    details
}

impl ApiError {
    pub(crate) fn plain(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            continue_token: None,
        }
    }

    fn about(code: u16, reason: &'static str, message: String, details: Value) -> Self {
        Self {
            code,
            reason,
            message,
            details: Some(details),
            continue_token: None,
        }
    }

    /// 400: the request is malformed.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::plain(400, "BadRequest", message)
    }

    /// 400: the object is nested too deeply.
    pub fn too_deep() -> Self {
        Self::bad_request(format!(
            "the object has more than {MAX_LEVELS} levels of nested maps and lists"
        ))
    }

    /// 401: the credentials are not valid.
    pub fn unauthorized() -> Self {
        Self::plain(401, "Unauthorized", "Unauthorized")
    }

    /// 403 for a resource: the user is not authorized.
    pub fn forbidden(resource: &str, group: &str, name: &str, why: &str) -> Self {
        let what = qualified(resource, group);
        let message = if name.is_empty() {
            format!("{what} is forbidden: {why}")
        } else {
            format!("{what} \"{name}\" is forbidden: {why}")
        };
        Self::about(403, "Forbidden", message, details(resource, group, name))
    }

    /// 403 for a path that is no resource.
    pub fn forbidden_path(message: String) -> Self {
        Self::about(403, "Forbidden", message, json!({}))
    }

    /// 403: an object cannot be created in a terminating namespace.
    pub fn namespace_terminating(resource: &str, group: &str, name: &str, namespace: &str) -> Self {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let mut error = Self::forbidden(resource, group, name, &why);
        if let Some(details) = &mut error.details {
            details["causes"] = json!([{
                "reason": "NamespaceTerminating",
                "message": format!("namespace {namespace} is being terminated"),
                "field": "metadata.namespace",
            }]);
        }
        error
    }

    /// 404 for an object.
    pub fn not_found(resource: &str, group: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", qualified(resource, group));
        Self::about(404, "NotFound", message, details(resource, group, name))
    }

    /// 404 for a resource that this server does not serve.
    pub fn unknown_resource() -> Self {
        Self::about(
            404,
            "NotFound",
            "the server could not find the requested resource".into(),
            json!({}),
        )
    }

    /// 405: the path does not support the method.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::about(405, "MethodNotAllowed", message.into(), json!({}))
    }

    /// 406: none of the media types that the client accepts is served.
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::plain(406, "NotAcceptable", message)
    }

    /// 406: the path is served in one form only, which the client does not accept.
    pub fn not_offered(media_type: &str) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {media_type}");
        Self::about(406, "NotAcceptable", message, json!({}))
    }

    /// 409: an object of that name exists.
    pub fn already_exists(resource: &str, group: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", qualified(resource, group));
        Self::about(
            409,
            "AlreadyExists",
            message,
            details(resource, group, name),
        )
    }

    /// 409: every name that the server generated was taken.
    pub fn no_unique_name(resource: &str, group: &str, name: &str) -> Self {
        let message = format!(
            "{} \"{name}\" already exists, the server was not able to generate a unique name for the object",
            qualified(resource, group)
        );
        let mut details = details(resource, group, name);
        details["retryAfterSeconds"] = 1.into();
        Self::about(409, "AlreadyExists", message, details)
    }

    /// 409: a precondition of the request does not hold.
    pub fn conflict(resource: &str, group: &str, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            qualified(resource, group)
        );
        Self::about(409, "Conflict", message, details(resource, group, name))
    }

    /// 409: the object is newer than the resource version that the client sent.
    pub fn modified(resource: &str, group: &str, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, group, name, why)
    }

    /// 410: the requested resource version has expired.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::plain(410, "Expired", message)
    }

    /// 413: the body is larger than any object may be.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::plain(413, "RequestEntityTooLarge", message)
    }

    /// 415: the media type of the body is not supported.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::plain(415, "UnsupportedMediaType", message)
    }

    /// 422: the object is invalid, with one cause for each rule it breaks.
    pub fn invalid(kind: &str, group: &str, name: &str, causes: Causes) -> Self {
        let mut each: Vec<String> = Vec::new();
        for cause in &causes.0 {
            let text = format!("{}: {}", cause.field, cause.message);
            // A rule can be checked in more than one place; its cause is reported once.
            if !each.contains(&text) {
                each.push(text);
            }
        }
        let why = match each.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} \"{name}\" is invalid: {why}", qualified(kind, group));
        let mut details = details(kind, group, name);
        details["causes"] = causes
            .0
            .into_iter()
            .map(|c| json!({"reason": c.reason, "message": c.message, "field": c.field}))
            .collect();
        Self::about(422, "Invalid", message, details)
    }

    /// 422: a JSON patch could not be applied.
    pub fn unprocessable(why: &str) -> Self {
        let causes = json!([{"reason": "UnexpectedServerResponse", "message": why}]);
        Self::about(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request".into(),
            json!({"causes": causes}),
        )
    }

    /// 429: a disruption budget refuses an eviction.
    pub fn disruption_budget(message: &str, why: &str, retry_after: Option<u64>) -> Self {
        let mut details = json!({"causes": [{"reason": "DisruptionBudget", "message": why}]});
        if let Some(seconds) = retry_after {
            details["retryAfterSeconds"] = seconds.into();
        }
        Self::about(429, "TooManyRequests", message.to_owned(), details)
    }

    /// 500 without a reason, where a real server passes an internal error on.
    pub fn unclassified(message: impl Into<String>) -> Self {
        Self::plain(500, "", message)
    }

    /// 501: real servers support this, this one does not.
    pub fn not_implemented(message: impl Into<String>) -> Self {
        Self::plain(501, "NotImplemented", message)
    }

    /// 504: the requested resource version was not reached within the time a server waits for it.
    pub fn version_too_large(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let details = json!({
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        });
        Self::about(504, "Timeout", message, details)
    }

    /// 504: the client's timeout passed before the request was carried out.
    pub fn deadline_passed() -> Self {
        Self::plain(
            504,
            "Timeout",
            "Timeout: request did not complete within requested timeout",
        )
    }

    /// 503: the server is stopping.
    pub fn stopping() -> Self {
        Self::plain(503, "ServiceUnavailable", "the server is shutting down")
    }

    pub fn to_value(&self) -> Value {
        let mut metadata = json!({});
        if let Some(token) = &self.continue_token {
            metadata["continue"] = token.as_str().into();
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status
    }

    /// The value of `Retry-After` in seconds, if the error has one.
    pub fn retry_after(&self) -> Option<u64> {
        self.details.as_ref()?.get("retryAfterSeconds")?.as_u64()
    }
}

/// The errors about one object.
impl Key {
    /// 403: the request is not allowed.
    pub(crate) fn forbidden(&self, why: &str) -> ApiError {
        let traits = self.resource.traits();
        ApiError::forbidden(traits.plural, traits.group, &self.name, why)
    }

    pub(crate) fn not_found(&self) -> ApiError {
        let traits = self.resource.traits();
        ApiError::not_found(traits.plural, traits.group, &self.name)
    }

    /// 409: a precondition of the request does not hold.
    pub(crate) fn conflict(&self, why: &str) -> ApiError {
        let traits = self.resource.traits();
        ApiError::conflict(traits.plural, traits.group, &self.name, why)
    }

    /// 422 if there are any causes.
    pub(crate) fn check(&self, causes: Causes) -> Result<(), ApiError> {
        let traits = self.resource.traits();
        causes.check(traits.kind, traits.group, &self.name)
    }
}

/// The `Status` of a success that has no object to return.
pub fn success(code: u16, details: Option<Value>) -> Value {
    let mut status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
    });
    match details {
        Some(details) => status["details"] = details,
        None => status["code"] = code.into(),
    }
    status
}
