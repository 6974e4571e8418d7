//! The web page of a driver (spec O-44): static files. They need no token, because they contain nothing of the
//! application: the page asks the other routes, with the token that its reader enters.

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};

use super::packed::packed;

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

static FILES: [File; 4] = [
    part!("/", "text/html; charset=utf-8", "page/index.html"),
    part!("/page.css", "text/css; charset=utf-8", "page/page.css"),
    part!("/parts.js", SCRIPT, "page/parts.js"),
    part!("/page.js", SCRIPT, "page/page.js"),
];

/// Nothing from elsewhere, no inline script or style, no text that becomes markup (Trusted Types without any policy),
/// no form that is sent (so no token in a URL, even if the script does not load), no frame around the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

impl IntoResponse for &'static File {
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
    FILES.iter().fold(Router::new(), |router, file| {
        router.route(file.path, get(async move || file))
    })
}

#[cfg(test)]
mod tests;
