//! How executors reach the driver (spec B-1, O-50, O-61): a WebSocket at `/v1/session`, or each message as a request of
//! its own to `/v1/session/messages`. What they say and are told is [`boatswain_agent::protocol`]'s, what follows from it
//! ExecutorRegistry's.

pub mod access;
mod request;
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
use crate::actors::executor_registry::messages::NotTakenIn;
use crate::actors::executor_registry::registry::Proof;
use crate::server::problem::Problem;
use crate::server::serve::{self, ListenError};
use access::{Access, Denied};

/// So many sessions may be open at the same time.
const SESSIONS: usize = 50_000;

/// So many connections may be open that are none yet; more wait to be let in.
pub const CONNECTIONS: usize = 4_096;

/// An actor answers at once or is gone.
const ANSWER: Duration = Duration::from_secs(5);

/// Whoever has not registered by then is not going to; and nobody takes that long to take in a message.
const PATIENCE: Duration = Duration::from_secs(10);

/// The sessions, about to be served.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Takes the address.
    ///
    /// # Errors
    ///
    /// Where it cannot be had.
    pub async fn bind(address: SocketAddr) -> Result<Self, ListenError> {
        let (listener, address) = serve::listen(address, "backend.listen").await?;
        tracing::info!(%address, "sessions are served");
        Ok(Self { listener, address })
    }

    /// Where it listens, with the port that it got.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is dropped, and all sessions end with it.
    pub async fn run(self, sessions: Sessions) {
        serve::serve(self.listener, sessions.router(), CONNECTIONS).await;
    }
}

/// What sessions have in common. When the last copy that was not made for a session is dropped, all sessions end.
#[derive(Clone)]
pub struct Sessions {
    door: Door,
    /// Ends the sessions with the driver.
    _end: Arc<DropGuard>,
}

/// What a session has.
#[derive(Clone)]
struct Door {
    registry: Addr<ExecutorRegistry>,
    access: Access,
    room: Arc<Semaphore>,
    end: CancellationToken,
}

impl Sessions {
    /// Over this driver.
    pub fn new(registry: Addr<ExecutorRegistry>, access: Access) -> Self {
        Self::with_room(registry, access, SESSIONS)
    }

    fn with_room(registry: Addr<ExecutorRegistry>, access: Access, room: usize) -> Self {
        let end = CancellationToken::new();
        Self {
            door: Door {
                registry,
                access,
                room: Arc::new(Semaphore::new(room)),
                end: end.clone(),
            },
            _end: Arc::new(end.drop_guard()),
        }
    }

    /// What executors speak to, for a port that serves something else as well.
    pub fn routes(&self) -> Router {
        Router::new()
            .route("/v1/session", get(socket::open))
            .route("/v1/session/messages", post(request::take))
            .method_not_allowed_fallback(async || Problem::wrong_method())
            .with_state(self.clone())
    }

    /// All that is served where executors have a port of their own. It works without a socket as well.
    pub fn router(&self) -> Router {
        self.routes()
            .route("/healthz", get(async || "ok\n"))
            .fallback(async || {
                Problem::not_found("there is nothing at this path").hint(
                    "executors speak at /v1/session and /v1/session/messages: docs/protocol.md",
                )
            })
            .method_not_allowed_fallback(async || Problem::wrong_method())
    }
}

impl Door {
    /// Who speaks.
    async fn admit(&self, headers: &HeaderMap) -> Result<Proof, Problem> {
        let token = bearer(headers).ok_or(Denied::NoToken);
        let proof = match token {
            Ok(token) => self.access.prove(token).await,
            Err(denied) => Err(denied),
        };
        proof.map_err(|denied| {
            tracing::debug!(%denied, "an executor was not let in");
            let code = "not-let-in";
            self.registry.do_send(NotTakenIn { code });
            match denied {
                Denied::NoKeys => Problem::unavailable_for(denied.to_string()),
                Denied::NoToken | Denied::Untrue(_) => Problem::not_an_executor(denied.to_string()),
            }
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
