//! What is answered before there is a driver to ask: that this process lives, and that there is nothing to see yet
//! (spec O-42).

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

/// The driver's routes, as soon as it has some.
pub type Routes = watch::Receiver<Option<Router>>;

/// Hands everything on to the driver, where there is one.
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
            .hint("it is taking over from the one before; its log tells")
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
    async fn before_there_is_a_driver_only_its_life_can_be_asked_for() {
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
