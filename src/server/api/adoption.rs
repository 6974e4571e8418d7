//! Nothing is told of executors, targets or counts, and nothing is done to them, before they are adopted (spec B-55): an
//! engine would take all of its executors for lost.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use tokio::sync::watch;
use tokio::time::timeout;

use super::Api;
use crate::planted::{self, Planted};
use crate::server::problem::Problem;

/// How long a request waits for the adoption, which a list of 10,000 pods does not delay for so long.
const PATIENCE: Duration = Duration::from_secs(3);

/// Whether the executors are adopted: each actor that tells of them has seen it.
#[derive(Debug, Clone)]
pub struct Adoption(Vec<watch::Receiver<bool>>);

impl Adoption {
    pub fn told_by(actors: impl IntoIterator<Item = watch::Receiver<bool>>) -> Self {
        Self(actors.into_iter().collect())
    }

    /// Waits until all have seen it.
    ///
    /// # Errors
    ///
    /// That takes too long, or the driver has ended before.
    async fn seen(mut self) -> Result<(), Problem> {
        let seen = timeout(PATIENCE, async {
            for actor in &mut self.0 {
                let adopted = actor.wait_for(|adopted| *adopted).await;
                adopted.map_err(|_| Problem::unavailable())?;
            }
            Ok(())
        });
        seen.await.unwrap_or_else(|_| Err(Problem::not_adopted()))
    }
}

/// Has a request wait for the adoption.
pub async fn awaited(
    State(api): State<Api>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if !planted::is(Planted::ToldBeforeAdoption) {
        api.actors.adoption.clone().seen().await?;
    }
    Ok(next.run(request).await)
}
