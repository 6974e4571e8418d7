//! Answers API requests while the driver is still starting: the liveness probe succeeds, the OpenAPI
//! document is served, everything else is unavailable (spec O-42).

use axum::Json;
use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use tokio::sync::watch;
use tower::ServiceExt as _;

use super::openapi;
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
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/openapi.json", get(async || Json(openapi::document())))
        .fallback(async || not_yet())
        .method_not_allowed_fallback(async || not_yet())
}

pub fn not_yet() -> Problem {
    Problem::unavailable().hint("it is still starting; see its log")
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    // spec: O-42
    #[tokio::test]
    async fn during_the_start_only_the_liveness_probe_and_the_document_are_served() {
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
