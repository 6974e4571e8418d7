//! Serves executors' sessions (spec B-1, O-50, O-61): as a WebSocket at `/v1/session`, or with one
//! request per message to `/v1/session/messages`. The messages are defined in
//! [`boatswain_agent::protocol`]; ExecutorRegistry acts on them.

pub mod access;
mod published;
mod request;
mod reviews;
pub mod service_account;
mod socket;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use axum::Router;
use axum::routing::{get, post};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::actors::executor_registry::ExecutorRegistry;
use crate::actors::executor_registry::registry::Proof;
use crate::metrics::Metrics;
use crate::server::limits::Limits;
use crate::server::problem::Problem;
use crate::server::serve::{self, ListenError};
use crate::server::tls::Tls;
use access::{Access, Denied};
use boatswain_agent::protocol::NO_KEYS;

/// Actors answer at once unless they have stopped.
const ANSWER: Duration = Duration::from_secs(5);

/// How long an executor may take to register after connecting, and to read a message.
const PATIENCE: Duration = Duration::from_secs(10);

/// The sessions' server with its listener bound, not yet served.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Binds the address.
    ///
    /// # Errors
    ///
    /// The address cannot be bound.
    pub async fn bind(address: SocketAddr) -> Result<Self, ListenError> {
        let (listener, address) = serve::listen(address, "backend.listen").await?;
        tracing::info!(%address, "listening for executors' sessions");
        Ok(Self { listener, address })
    }

    /// The bound address, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is dropped, which ends all sessions; with `tls` over HTTPS.
    pub async fn run(self, sessions: Sessions, limits: Limits, tls: Option<Tls>) {
        serve::serve(
            self.listener,
            sessions.router(),
            limits.unauthenticated,
            tls,
        )
        .await;
    }
}

/// The state that sessions share. All sessions end with the last copy outside of sessions.
#[derive(Clone)]
pub struct Sessions {
    admission: Admission,
    /// Ends the sessions when the server is dropped.
    _end: Arc<DropGuard>,
}

/// Admits executors: verifies their tokens and limits their connections.
#[derive(Clone)]
struct Admission {
    registry: Addr<ExecutorRegistry>,
    access: Access,
    metrics: Metrics,
    /// Limits the open WebSockets.
    sockets: Arc<Semaphore>,
    /// Limits the connections that post messages.
    requests: Arc<Semaphore>,
    /// Ends all WebSockets.
    end: CancellationToken,
}

impl Sessions {
    /// Over this driver.
    pub fn new(
        registry: Addr<ExecutorRegistry>,
        access: Access,
        limits: Limits,
        metrics: Metrics,
    ) -> Self {
        let end = CancellationToken::new();
        Self {
            admission: Admission {
                registry,
                access,
                metrics,
                sockets: Arc::new(Semaphore::new(limits.sessions)),
                requests: Arc::new(Semaphore::new(limits.requests)),
                end: end.clone(),
            },
            _end: Arc::new(end.drop_guard()),
        }
    }

    /// The routes for executors, for a listener that serves other routes as well.
    pub fn routes(&self) -> Router {
        Router::new()
            .route("/v1/session", get(socket::open))
            .route("/v1/session/messages", post(request::take))
            .method_not_allowed_fallback(async || Problem::wrong_method())
            .with_state(self.clone())
    }

    /// All routes of a listener for executors only. Works without a socket as well.
    pub fn router(&self) -> Router {
        self.routes()
            .route("/healthz", get(async || "ok\n"))
            .fallback(async || {
                Problem::not_found("this path does not exist").hint(
                    "the paths for executors are /v1/session and /v1/session/messages: see docs/protocol.md",
                )
            })
            .method_not_allowed_fallback(async || Problem::wrong_method())
    }
}

impl Admission {
    async fn authenticate(&self, headers: &HeaderMap) -> Result<Proof, Problem> {
        let token = bearer(headers).ok_or(Denied::NoToken);
        let proof = match token {
            Ok(token) => self.access.prove(token).await,
            Err(denied) => Err(denied),
        };
        proof.map_err(|denied| {
            tracing::debug!(%denied, "an executor's token was refused");
            let (code, problem) = match denied {
                Denied::NoKeys | Denied::NoReview => {
                    let problem = Problem::unavailable_for(denied.to_string());
                    (NO_KEYS, problem.coded(NO_KEYS))
                }
                Denied::NoToken | Denied::Untrue(_) => {
                    ("not-let-in", Problem::not_an_executor(denied.to_string()))
                }
            };
            self.metrics.refused.of([code.into()]).inc();
            problem
        })
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let header = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = header.split_at_checked("bearer ".len())?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer ") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests;
