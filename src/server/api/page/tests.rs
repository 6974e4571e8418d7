//! Tests what is served as the page, without a driver.

use std::collections::BTreeSet;

use axum::body::Body;
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use super::*;

async fn answer(method: &Method, path: &str) -> (u16, HeaderMap, String) {
    let request = Request::builder().method(method).uri(path);
    let request = request.body(Body::empty()).unwrap();
    let answer = router().oneshot(request).await.unwrap();
    let (parts, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let body = String::from_utf8(body.to_vec()).unwrap();
    (parts.status.as_u16(), parts.headers, body)
}

// spec: O-44
#[tokio::test]
async fn each_file_has_its_type_and_a_policy_that_allows_nothing_from_elsewhere_and_no_inline_script()
 {
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/page.css", "text/css; charset=utf-8"),
        ("/parts.js", "text/javascript; charset=utf-8"),
        ("/page.js", "text/javascript; charset=utf-8"),
    ] {
        let (status, headers, body) = answer(&Method::GET, path).await;
        assert_eq!(status, 200, "{path}");
        for (name, value) in [
            ("content-type", kind),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-cache"),
        ] {
            assert_eq!(headers[name], value, "{path}: {name}");
        }
        let policy: BTreeSet<&str> = (headers["content-security-policy"].to_str().unwrap())
            .split(';')
            .map(str::trim)
            .collect();
        let wanted = [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ];
        assert_eq!(policy, BTreeSet::from(wanted), "{path}");
        let (status, of_head, none) = answer(&Method::HEAD, path).await;
        assert_eq!((status, none.as_str()), (200, ""), "{path}");
        assert_eq!(of_head["content-length"], body.len().to_string(), "{path}");
        assert_eq!(of_head["content-security-policy"], POLICY, "{path}");
        assert_eq!(answer(&Method::POST, path).await.0, 405, "{path}");
    }
}

// spec: O-44
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
    ] {
        for file in &FILES {
            assert!(
                !text(file).contains(forbidden),
                "{forbidden} in {}",
                file.path
            );
        }
    }
    for inline in [
        "<style",
        "style=",
        " onclick",
        " onload",
        "javascript:",
        "<script>",
    ] {
        assert!(!text(&FILES[0]).contains(inline), "{inline}");
    }
    // The token's field has no name, so that no form can put it into a URL.
    let mut fields = text(&FILES[0]).split("<input");
    let field = fields.find(|field| field.contains("id=\"token\"")).unwrap();
    assert!(!field.split('>').next().unwrap().contains("name="));
}

fn text(file: &File) -> &str {
    std::str::from_utf8(file.text).unwrap()
}

// spec: O-44
#[test]
fn the_files_are_served_without_their_comments_and_indentation_and_are_few_bytes() {
    let sources = [
        include_str!("index.html"),
        include_str!("page.css"),
        include_str!("parts.js"),
        include_str!("page.js"),
    ];
    for (file, source) in FILES.iter().zip(sources) {
        // A text over several lines would lose its blanks.
        let lines = source
            .split_inclusive('\n')
            .map(|line| line.trim_start_matches(['\t', ' ']));
        let lines: String = lines.filter(|line| !line.starts_with("//")).collect();
        assert!(text(file) == lines, "{}", file.path);
        let odd = |line: &&str| line.matches('`').count() % 2 == 1;
        assert_eq!(source.lines().find(odd), None, "{}", file.path);
    }
    let size: usize = FILES.iter().map(|file| file.text.len()).sum();
    assert!(size < 47_000, "{size}");
}
