//! Answers API requests while the driver is still starting or stands by: the liveness probe succeeds, the OpenAPI
//! document and the page are served, everything else is unavailable (spec O-42, O-44). A standby is ready (spec O-89).

use axum::Json;
use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use tokio::sync::watch;
use tower::ServiceExt as _;

use super::{openapi, page};
use crate::server::problem::Problem;

/// The driver's routes, once they exist.
pub type Routes = watch::Receiver<Option<Router>>;

/// Answers by the driver's routes once they exist, and until then by these others.
pub fn router(driver: Routes, until_then: Router) -> Router {
    Router::new().fallback(move |request: Request| {
        let routes = driver.borrow().clone();
        let routes = routes.unwrap_or_else(|| until_then.clone());
        async move { routes.oneshot(request).await }
    })
}

/// The API while the driver is starting.
pub fn alone() -> Router {
    page::router()
        .route("/healthz", get(async || "ok\n"))
        .route("/openapi.json", get(async || Json(openapi::document())))
        .fallback(async || Problem::starting())
        .method_not_allowed_fallback(async || Problem::starting())
}

/// The API of a driver that stands by. It is ready: what it waits for is another driver's end (spec O-89, O-34).
pub fn standby(why: &str) -> Router {
    let (line, refusal) = (ready_standby(why), inactive(why));
    let refusal = async move || refusal.clone();
    page::router()
        .route("/healthz", get(async || "ok\n"))
        .route("/openapi.json", get(async || Json(openapi::document())))
        .route("/readyz", get(async move || line))
        .fallback(refusal.clone())
        .method_not_allowed_fallback(refusal)
}

/// The answer to a standby's readiness probe.
pub fn ready_standby(why: &str) -> String {
    format!("standby: {why}\n")
}

/// The answer of a standby to what only the active driver can answer.
pub fn inactive(why: &str) -> Problem {
    Problem::unavailable_for(format!("standby: {why}")).hint("ask the active driver")
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};

    use super::*;

    // spec: O-89, O-42, O-44
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
        assert_eq!(ask("/").await.0, 200);
        let (status, body) = ask("/v1/status").await;
        assert_eq!(status, 503);
        assert!(body.contains(line), "{body}");
    }

    // spec: O-42, O-44
    #[tokio::test]
    async fn during_the_start_only_the_liveness_probe_the_document_and_the_page_are_served() {
        let (tell, routes) = watch::channel(None);
        let router = router(routes, alone());
        let ask = |path: &str| {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let router = router.clone();
            async move { router.oneshot(request).await.unwrap().status().as_u16() }
        };
        for (path, status) in [
            ("/healthz", 200),
            ("/openapi.json", 200),
            ("/page.js", 200),
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
