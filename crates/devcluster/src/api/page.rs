//! The web page of a cluster that is served (spec O-88): static files. They need no token, because they contain nothing of
//! the cluster: the page asks the API, with the token that its reader enters.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, Method};

/// A path, what is there, and its text.
type File = (&'static str, &'static str, &'static str);

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The style and `parts.js` are links to those of the driver's page.
const FILES: [File; 4] = [
    ("/", HTML, include_str!("page/cluster.html")),
    ("/page.css", STYLE, include_str!("page/page.css")),
    ("/parts.js", SCRIPT, include_str!("page/parts.js")),
    ("/cluster.js", SCRIPT, include_str!("page/cluster.js")),
];

/// Nothing from elsewhere, no inline script or style, no text that becomes markup (Trusted Types without any policy),
/// no form that is sent (so no token in a URL, even if the script does not load), no frame around the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Answers requests for the page, and leaves all others to the API.
pub async fn serve(request: Request, api: Next) -> Response {
    match file(request.method(), request.uri().path(), request.headers()) {
        Some((_, kind, text)) => {
            let headers = [
                (CONTENT_TYPE, kind),
                (CONTENT_SECURITY_POLICY, POLICY),
                (X_CONTENT_TYPE_OPTIONS, "nosniff"),
                (X_FRAME_OPTIONS, "DENY"),
                (REFERRER_POLICY, "no-referrer"),
                // Another release may answer at this address tomorrow.
                (CACHE_CONTROL, "no-cache"),
            ];
            (headers, text).into_response()
        }
        None => api.run(request).await,
    }
}

/// The file that a request asks for. `/` is the page for browsers only: to other clients it is a part of the API.
fn file(method: &Method, path: &str, headers: &HeaderMap) -> Option<File> {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let is_browser = accepted.is_some_and(|types| types.contains("text/html"));
    let file = FILES.into_iter().find(|(at, ..)| *at == path)?;
    (method == Method::GET && (path != "/" || is_browser)).then_some(file)
}

#[cfg(test)]
mod tests;
