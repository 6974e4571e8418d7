//! The driver's API: how people and programs ask how it is going, and say what is wanted (spec O-41 to O-43, B-25, B-50).
//!
//! HTTP with JSON, under /v1; [`Problem`] is the one shape of errors. Nothing is decided here: handlers ask the
//! actors and show what they answer.

mod body;
mod commands;
mod demand;
mod early;
mod events;
mod openapi;
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
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::actors::autoscaler::Autoscaler;
use crate::actors::commands::Commands;
use crate::actors::driver_backend::DriverBackend;
use crate::actors::event_history::EventHistory;
use crate::actors::metrics::Meter;
use crate::actors::profiles::Profiles;
use crate::server::problem::Problem;
use crate::server::serve;
use tokens::{Tokens, TokensError};

/// An actor answers at once or is gone.
const ANSWER: Duration = Duration::from_secs(5);

/// So many connections may be open; more wait to be let in.
pub const CONNECTIONS: usize = 1_024;

/// So many may follow events at the same time.
const FOLLOWERS: usize = 256;

/// A request's body is not longer than that.
const BODY: usize = 64 * 1024;

/// A request's body has come whole by then.
const BODY_TIME: Duration = Duration::from_secs(10);

/// Why there is no API.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// Nobody could be let in.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// The address cannot be had.
    #[error(transparent)]
    Listen(#[from] serve::ListenError),
}

/// The API, about to be served.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    /// Who is let in.
    pub tokens: Tokens,
}

/// The actors that answer.
#[derive(Clone)]
pub struct Actors {
    /// The application's status.
    pub backend: Addr<DriverBackend>,
    /// Events and executors.
    pub history: Addr<EventHistory>,
    /// What is asked for.
    pub commands: Addr<Commands>,
    /// What the application has to do.
    pub autoscaler: Addr<Autoscaler>,
    /// New profiles.
    pub profiles: Addr<Profiles>,
    /// Metrics.
    pub meter: Addr<Meter>,
}

/// What handlers have.
#[derive(Clone)]
struct Api {
    actors: Actors,
    tokens: Arc<Tokens>,
    followers: Arc<Semaphore>,
}

/// An actor's answer.
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
    /// Takes the address, and reads the tokens.
    ///
    /// # Errors
    ///
    /// Where either cannot be had.
    pub async fn bind(address: SocketAddr, token_file: &Path) -> Result<Self, ApiError> {
        let tokens = Tokens::of_file(token_file)?;
        let (listener, address) = serve::listen(address, "api.listen").await?;
        tracing::info!(%address, "api is served");
        Ok(Self { listener, tokens })
    }

    /// Serves until it is dropped: the driver's routes, as soon as it has some, over so many connections at most.
    pub async fn run(self, driver: early::Routes, most: usize) {
        serve::serve(self.listener, early::router(driver), most).await;
    }
}

/// The routes over these actors.
pub fn router(actors: Actors, tokens: Tokens) -> Router {
    routes::of(Api {
        actors,
        tokens: Arc::new(tokens),
        followers: Arc::new(Semaphore::new(FOLLOWERS)),
    })
}

#[cfg(test)]
mod tests;
