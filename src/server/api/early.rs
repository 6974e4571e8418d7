//! Answers API requests while the driver is still starting or stands by: the liveness probe succeeds, the OpenAPI
//! document is served, everything else is unavailable (spec O-42). A standby is ready (spec O-32).

use std::convert::Infallible;

use axum::Json;
use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::Method;
use tokio::sync::watch;
use tower::ServiceExt as _;

use super::openapi;
use crate::server::problem::Problem;

/// The driver's routes, once they exist.
pub type Routes = watch::Receiver<Option<Router>>;

pub fn router(driver: Routes) -> Router {
    Router::new().fallback(move |request: Request| {
        let routes = driver.borrow().clone();
        async move {
            match routes {
                Some(routes) => routes.oneshot(request).await,
                None => Ok::<Response, Infallible>(alone(&request)),
            }
        }
    })
}

/// The routes of a driver that stands by. It is ready: what it waits for is another driver's end (spec O-32, O-34).
pub fn standby(why: &str) -> Router {
    let why = format!("standby: {why}");
    Router::new().fallback(move |request: Request| {
        let answer = match (request.method(), request.uri().path()) {
            (&Method::GET, "/readyz") => format!("{why}\n").into_response(),
            (&Method::GET, "/healthz" | "/openapi.json") => alone(&request),
            _ => Problem::unavailable_for(why.clone())
                .hint("ask the active driver")
                .into_response(),
        };
        async move { Ok::<Response, Infallible>(answer) }
    })
}

fn alone(request: &Request) -> Response {
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/healthz") => "ok\n".into_response(),
        (&Method::GET, "/openapi.json") => Json(openapi::document()).into_response(),
        _ => Problem::unavailable()
            .hint("it is still starting; see its log")
            .into_response(),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::routing::get;

    use super::*;

    // spec: O-32, O-42
    #[tokio::test]
    async fn a_standby_is_ready_and_says_who_is_active() {
        let router = standby("driver-7 holds the lease");
        let ask = |path: &str| {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let router = router.clone();
            async move {
                let answer = router.oneshot(request).await.unwrap();
                let status = answer.status().as_u16();
                let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
                (status, String::from_utf8(body.to_vec()).unwrap())
            }
        };
        let line = "standby: driver-7 holds the lease";
        assert_eq!(ask("/readyz").await, (200, format!("{line}\n")));
        assert_eq!(ask("/healthz").await.0, 200);
        let (status, body) = ask("/v1/status").await;
        assert_eq!(status, 503);
        assert!(body.contains(line), "{body}");
    }

    // spec: O-42
    #[tokio::test]
    async fn during_the_start_only_the_liveness_probe_and_the_document_are_served() {
        let (tell, routes) = watch::channel(None);
        let router = router(routes);
        let ask = |path: &str| {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let router = router.clone();
            async move { router.oneshot(request).await.unwrap().status().as_u16() }
        };
        for (path, status) in [
            ("/healthz", 200),
            ("/openapi.json", 200),
            ("/readyz", 503),
            ("/v1/status", 503),
        ] {
            assert_eq!(ask(path).await, status, "{path}");
        }
        tell.send_replace(Some(Router::new().route("/readyz", get(async || "ok"))));
        for (path, status) in [("/healthz", 404), ("/readyz", 200)] {
            assert_eq!(ask(path).await, status, "{path}");
        }
    }
}
