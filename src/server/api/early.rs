//! Answers API requests while the driver is still starting: the liveness probe succeeds, the OpenAPI
//! document is served, everything else is unavailable (spec O-42).

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
    use axum::body::Body;
    use axum::routing::get;

    use super::*;

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
