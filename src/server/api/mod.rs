//! The driver's HTTP API, through which operators and clients read its state, set targets and send
//! commands (spec O-41 to O-43, B-25, B-50).
//!
//! All content is JSON under /v1, and all errors are [`Problem`]s. Handlers make no decisions: they
//! query the actors and return their answers.

mod adoption;
mod answers;
mod body;
pub mod callers;
mod commands;
mod demand;
mod early;
mod events;
pub mod evidence;
pub mod monitoring;
mod openapi;
mod packed;
pub mod page;
mod profiles;
mod routes;
mod table;
mod targets;
pub mod tokens;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Handler, Message};
use axum::Router;
use axum::extract::FromRef;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::actors::driver_backend::DriverBackend;
use crate::actors::event_history::EventHistory;
use crate::metrics::Scraper;
use crate::server::limits::Limits;
use crate::server::problem::Problem;
use crate::server::serve;
use crate::server::tls::Tls;
pub use adoption::Adoption;
use answers::Room;
use callers::Callers;
pub use early::standby;
use evidence::EvidenceReader;
use tokens::{Current, Follower, Tokens, TokensError};

/// Actors answer at once unless they have stopped.
const ANSWER: Duration = Duration::from_secs(5);

/// The longest body of a request, in bytes.
const BODY: usize = 64 * 1024;

/// How long a request's body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    #[error(transparent)]
    Tokens(#[from] TokensError),
    #[error(transparent)]
    Listen(#[from] serve::ListenError),
}

/// The API with its listener bound, not yet served.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    /// The accepted tokens.
    pub tokens: Current,
    /// `None` if only service accounts may call.
    follower: Option<Follower>,
}

#[derive(Clone)]
pub struct Actors {
    pub backend: Addr<DriverBackend>,
    pub history: Addr<EventHistory>,
    pub scraper: Scraper,
    pub adoption: Adoption,
    /// `None` if no service account may call.
    pub callers: Option<Callers>,
    /// `None` if explanations have no evidence.
    pub evidence: Option<EvidenceReader>,
}

#[derive(Clone)]
struct Api {
    actors: Actors,
    tokens: Current,
    places: Arc<Semaphore>,
    followers: Arc<Semaphore>,
    unread: Room,
}

impl FromRef<Api> for Actors {
    fn from_ref(api: &Api) -> Self {
        api.actors.clone()
    }
}

/// Sends a message to an actor and waits for the answer.
async fn ask<A, M>(actor: &Addr<A>, message: M) -> Result<M::Result, Problem>
where
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message + Send + 'static,
    M::Result: Send,
{
    match timeout(ANSWER, actor.send(message)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) | Err(_) => Err(Problem::unavailable()),
    }
}

impl Server {
    /// Binds the address and reads the tokens, if there is a file.
    ///
    /// # Errors
    ///
    /// The address cannot be bound, or the token file cannot be used.
    pub async fn bind(address: SocketAddr, token_file: Option<&Path>) -> Result<Self, ApiError> {
        let follower = Follower::of_any(token_file).await?;
        let tokens = follower.as_ref().map(Follower::current);
        let (listener, address) = serve::listen(address, "api.listen").await?;
        tracing::info!(%address, "the API is listening");
        Ok(Self {
            listener,
            tokens: tokens.unwrap_or_else(|| Tokens::default().into()),
            follower,
        })
    }

    /// Serves until it is dropped, with `tls` over HTTPS. The driver's routes are served once they
    /// exist.
    pub async fn run(self, driver: early::Routes, limits: Limits, tls: Option<Tls>) {
        let router = early::router(driver, early::alone());
        let served = serve::serve(self.listener, router, limits.unauthenticated, tls);
        match self.follower {
            Some(follower) => drop(tokio::join!(served, follower.run())),
            None => served.await,
        }
    }
}

pub fn router(actors: Actors, tokens: impl Into<Current>, limits: Limits) -> Router {
    router_with(actors, tokens.into(), limits, Room::of(answers::MOST))
}

/// The same, with this room for unread answers.
fn router_with(actors: Actors, tokens: Current, limits: Limits, unread: Room) -> Router {
    routes::of(Api {
        actors,
        tokens,
        places: Arc::new(Semaphore::new(limits.api)),
        followers: Arc::new(Semaphore::new(limits.followers)),
        unread,
    })
}

#[cfg(test)]
mod tests;
