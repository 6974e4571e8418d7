//! Tests what is served as the page, and what its files lack.

use axum::Router;
use axum::body::Body;
use axum::middleware::from_fn;
use http::{Method, Request};
use tower::ServiceExt as _;

use super::*;

/// The answer to a request; 404 stands for the API's.
async fn answer(method: &Method, path: &str, accept: &str) -> (u16, HeaderMap) {
    let request = Request::builder().method(method).uri(path);
    let request = request.header(ACCEPT, accept).body(Body::empty());
    let router = Router::new().layer(from_fn(serve));
    let answer = router.oneshot(request.unwrap()).await.unwrap();
    (answer.status().as_u16(), answer.headers().clone())
}

// spec: O-88
#[tokio::test]
async fn browsers_get_the_page_under_its_policy_and_the_rest_is_left_to_the_api() {
    let browser = "text/html,application/xhtml+xml,*/*;q=0.8";
    for (path, accept, kind) in [
        ("/", browser, HTML),
        ("/page.css", "text/css,*/*", STYLE),
        ("/parts.js", "*/*", SCRIPT),
        ("/cluster.js", "*/*", SCRIPT),
    ] {
        let (status, headers) = answer(&Method::GET, path, accept).await;
        assert_eq!(status, 200, "{path}");
        for (name, value) in [
            ("content-type", kind),
            ("content-security-policy", POLICY),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-cache"),
        ] {
            assert_eq!(headers[name], value, "{path}: {name}");
        }
        assert_eq!(answer(&Method::POST, path, accept).await.0, 404, "{path}");
    }
    for (path, accept) in [
        ("/", "application/json"),
        ("/api", browser),
        ("/api/v1/pods", browser),
        ("/page.js", "*/*"),
    ] {
        assert_eq!(answer(&Method::GET, path, accept).await.0, 404, "{path}");
    }
}

// spec: O-88
#[test]
fn the_policy_allows_nothing_from_elsewhere_and_no_inline_script() {
    let mut directives: Vec<&str> = POLICY.split(';').map(str::trim).collect();
    directives.sort_unstable();
    assert_eq!(
        directives,
        [
            "base-uri 'none'",
            "connect-src 'self'",
            "default-src 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "img-src data:",
            "require-trusted-types-for 'script'",
            "script-src 'self'",
            "style-src 'self'",
            "trusted-types 'none'",
        ]
    );
}

// spec: O-88
#[test]
fn the_files_have_no_way_to_make_markup_of_text_and_no_outside_or_absolute_address() {
    for forbidden in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "DOMParser",
        "setHTML",
        "eval(",
        "Function(",
        "setAttribute(\"on",
        "localStorage",
        "http:",
        "https:",
        "(\"/",
        "(`/",
        "=\"/",
        "url(",
        "@import",
        "?token",
        "<style",
        "style=",
        " onclick=",
        " onload=",
        "javascript:",
        "<script>",
    ] {
        for (path, _, text) in FILES {
            assert!(!text.contains(forbidden), "{forbidden} in {path}");
        }
    }
    // The token's field has no name, so that no form can put it into a URL.
    let (_, _, page) = FILES[0];
    let mut fields = page.split("<input");
    let field = fields.find(|field| field.contains("id=\"token\"")).unwrap();
    assert!(!field.split('>').next().unwrap().contains("name="));
}
