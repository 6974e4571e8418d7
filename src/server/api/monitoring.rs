//! Metrics and probes on listeners of their own, over plain HTTP: for Prometheus and the kubelet,
//! which have no token of the API (spec O-59).

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::early::{self, Routes};
use super::routes::{bearer, health, metrics, readiness};
use super::tokens::{Current, Follower};
use super::{Actors, ApiError};
use crate::server::limits::Limits;
use crate::server::problem::{NO_PLACE, Problem};
use crate::server::serve::{self, Full};

/// The most connections with a token that read metrics at a time.
const SCRAPERS: usize = 16;

/// What a listener serves.
#[derive(Debug, Clone, Default)]
pub struct Served {
    probes: bool,
    metrics: Option<Metrics>,
}

/// Who may read the metrics.
#[derive(Debug, Clone)]
enum Metrics {
    Everyone,
    Tokens {
        tokens: Current,
        places: Arc<Semaphore>,
    },
}

/// A bound listener, not yet served.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    pub served: Served,
    follower: Option<Follower>,
}

impl Server {
    /// Binds the address that this configuration key names.
    ///
    /// # Errors
    ///
    /// The address cannot be bound.
    pub async fn bind(address: SocketAddr, key: &'static str) -> Result<Self, ApiError> {
        let (listener, _) = serve::listen(address, key).await?;
        Ok(Self {
            listener,
            served: Served::default(),
            follower: None,
        })
    }

    /// Serves probes, beside what is served already.
    pub fn with_probes(mut self) -> Self {
        self.served.probes = true;
        tracing::info!(address = self.address(), "probes are answered");
        self
    }

    /// Serves metrics, beside what is served already; with a file of tokens, only to its tokens.
    ///
    /// # Errors
    ///
    /// The token file cannot be used.
    pub async fn with_metrics(mut self, token_file: Option<&Path>) -> Result<Self, ApiError> {
        self.follower = Follower::of_any(token_file).await?;
        self.served.metrics = Some(match &self.follower {
            None => Metrics::Everyone,
            Some(follower) => Metrics::Tokens {
                tokens: follower.current(),
                places: Arc::new(Semaphore::new(SCRAPERS)),
            },
        });
        tracing::info!(address = self.address(), "metrics are served");
        Ok(self)
    }

    fn address(&self) -> String {
        let address = self.listener.local_addr();
        address.map_or_else(|error| error.to_string(), |address| address.to_string())
    }

    /// Serves until it is dropped. The driver's routes are served once they exist.
    pub async fn run(self, driver: Routes, limits: Limits) {
        let router = early::router(driver, starting(&self.served));
        let serving = serve::serve(self.listener, router, limits.unauthenticated, None);
        match self.follower {
            Some(follower) => drop(tokio::join!(serving, follower.run())),
            None => serving.await,
        }
    }
}

/// The routes over a running driver.
pub fn router(actors: Actors, served: &Served) -> Router {
    let mut routes = Router::new();
    if let Some(who) = &served.metrics {
        let scrape = Router::new().route("/metrics", get(metrics));
        routes = routes.merge(scrape.layer(from_fn_with_state(who.clone(), admit)));
    }
    if served.probes {
        routes = routes
            .route("/healthz", get(health))
            .route("/readyz", get(readiness));
    }
    nothing_else(routes.with_state(actors))
}

/// The routes while the driver is starting.
fn starting(served: &Served) -> Router {
    let mut routes = Router::new();
    let not_yet = async || Problem::starting();
    if served.metrics.is_some() {
        routes = routes.route("/metrics", get(not_yet));
    }
    if served.probes {
        routes = routes
            .route("/healthz", get(async || "ok\n"))
            .route("/readyz", get(not_yet));
    }
    nothing_else(routes)
}

/// The routes of a driver that stands by (spec O-89).
pub fn standby(served: &Served, why: &str) -> Router {
    let mut routes = Router::new();
    if served.metrics.is_some() {
        let refusal = early::inactive(why);
        routes = routes.route("/metrics", get(async move || refusal));
    }
    if served.probes {
        let line = early::ready_standby(why);
        routes = routes
            .route("/healthz", get(async || "ok\n"))
            .route("/readyz", get(async move || line));
    }
    nothing_else(routes)
}

fn nothing_else(routes: Router) -> Router {
    routes
        .fallback(async || {
            Problem::not_found("this path does not exist here")
                .hint("this listener serves only what metrics.listen and probes.listen say")
        })
        .method_not_allowed_fallback(async || Problem::wrong_method())
}

async fn admit(
    State(who): State<Metrics>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if let Metrics::Tokens { tokens, places } = &who {
        let right = bearer(request.headers()).and_then(|token| tokens.right(token));
        right.ok_or_else(|| {
            Problem::unauthorized()
                .hint("send `Authorization: Bearer TOKEN` with a token of the driver's metrics.token_file")
        })?;
        serve::admit(request.extensions(), places).map_err(|Full| Problem::too_many(NO_PLACE))?;
    }
    Ok(next.run(request).await)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use tower::ServiceExt as _;

    use super::*;

    // spec: O-59, O-42
    #[tokio::test]
    async fn during_the_start_the_process_is_alive_and_nothing_else_is_known() {
        let metrics = Served {
            probes: false,
            metrics: Some(Metrics::Everyone),
        };
        let probes = Served {
            probes: true,
            metrics: None,
        };
        for (served, path, status) in [
            (&probes, "/healthz", 200),
            (&probes, "/readyz", 503),
            (&probes, "/metrics", 404),
            (&metrics, "/metrics", 503),
            (&metrics, "/healthz", 404),
            (&metrics, "/openapi.json", 404),
        ] {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let answer = starting(served).oneshot(request).await.unwrap();
            assert_eq!(answer.status().as_u16(), status, "{path}");
        }
    }
}
