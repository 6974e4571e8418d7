//! The web pages of a driver (spec O-44) and of an embedded cluster (O-88): static files. They need no token, because they
//! contain nothing of the application: a page asks the other routes, with the token that its reader enters.

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::Method;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::request::Parts;

use super::packed::packed;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

struct File {
    path: &'static str,
    kind: &'static str,
    text: &'static [u8],
}

macro_rules! part {
    ($path:literal, $kind:expr, $name:literal) => {
        File {
            path: $path,
            kind: $kind,
            text: packed!($name),
        }
    };
}

static STYLE: File = part!("/page.css", "text/css; charset=utf-8", "page/page.css");
static PARTS: File = part!("/parts.js", SCRIPT, "page/parts.js");

/// The page of a driver.
static DRIVER: [&File; 4] = [
    &part!("/", HTML, "page/index.html"),
    &STYLE,
    &PARTS,
    &part!("/page.js", SCRIPT, "page/page.js"),
];

/// The page of an embedded cluster.
static CLUSTER: [&File; 4] = [
    &part!("/", HTML, "page/cluster.html"),
    &STYLE,
    &PARTS,
    &part!("/cluster.js", SCRIPT, "page/cluster.js"),
];

/// Nothing from elsewhere, no inline script or style, no text that becomes markup (Trusted Types without any policy),
/// no form that is sent (so no token in a URL, even if the script does not load), no frame around the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

impl IntoResponse for &File {
    fn into_response(self) -> Response {
        let headers = [
            (CONTENT_TYPE, self.kind),
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (X_FRAME_OPTIONS, "DENY"),
            (REFERRER_POLICY, "no-referrer"),
            // Another release may answer at this address tomorrow, and its API with it.
            (CACHE_CONTROL, "no-cache"),
        ];
        (headers, self.text).into_response()
    }
}

pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    DRIVER.into_iter().fold(Router::new(), |router, file| {
        router.route(file.path, get(async move || file))
    })
}

/// The file of an embedded cluster's page that a request asks for. `/` is the page for browsers only: to other clients it
/// is a part of the Kubernetes API.
pub fn of_cluster(request: &Parts) -> Option<Response> {
    let path = request.uri.path();
    let file = CLUSTER.into_iter().find(|file| file.path == path)?;
    let accepted = request
        .headers
        .get(ACCEPT)
        .and_then(|value| value.to_str().ok());
    let is_browser = accepted.is_some_and(|types| types.contains("text/html"));
    (request.method == Method::GET && (path != "/" || is_browser)).then(|| file.into_response())
}

#[cfg(test)]
mod tests;
