//! Which connections belong to clients that have proved who they are (spec O-55).

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use http::Extensions;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

/// A client has at least this long to prove who it is, however many others come.
const AT_LEAST: Duration = Duration::from_secs(1);

/// The place that a connection has.
#[derive(Debug)]
enum Place {
    Unauthenticated { _of: OwnedSemaphorePermit },
    Client { _of: OwnedSemaphorePermit },
}

/// The place of a connection. It comes with each of its requests.
#[derive(Debug, Clone)]
pub(super) struct Admission(Arc<watch::Sender<Place>>);

/// Whether a connection is a client's by now.
#[derive(Debug, Clone)]
pub(super) struct Admitted(watch::Receiver<Place>);

/// All places are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

/// Gives the connection of a request one of these places, because the client has proved who it is.
/// A request without a socket needs none.
///
/// # Errors
///
/// All these places are taken.
pub(crate) fn admit(request: &Extensions, places: &Arc<Semaphore>) -> Result<(), Full> {
    let Some(Admission(place)) = request.get::<Admission>() else {
        return Ok(());
    };
    if matches!(*place.borrow(), Place::Client { .. }) {
        return Ok(());
    }
    let free = Arc::clone(places).try_acquire_owned().map_err(|_| Full)?;
    place.send_replace(Place::Client { _of: free });
    Ok(())
}

impl Admission {
    pub(super) fn unauthenticated(place: OwnedSemaphorePermit) -> (Self, Admitted) {
        let (place, admitted) = watch::channel(Place::Unauthenticated { _of: place });
        (Self(Arc::new(place)), Admitted(admitted))
    }
}

impl Admitted {
    fn is_client(&self) -> bool {
        matches!(*self.0.borrow(), Place::Client { .. })
    }

    /// Waits until the client has proved who it is.
    pub(super) async fn wait(mut self) {
        let client = self
            .0
            .wait_for(|place| matches!(place, Place::Client { .. }));
        if client.await.is_err() {
            // The connection has ended.
            pending::<()>().await;
        }
    }
}

/// The connections without a valid token so far, oldest first.
#[derive(Debug, Default)]
pub(super) struct Unauthenticated(VecDeque<Connection>);

#[derive(Debug)]
struct Connection {
    since: Instant,
    admitted: Admitted,
    connection: AbortHandle,
}

impl Unauthenticated {
    pub(super) fn add(&mut self, admitted: Admitted, connection: AbortHandle) {
        self.0.retain(Connection::is_unauthenticated);
        self.0.push_back(Connection {
            since: Instant::now(),
            admitted,
            connection,
        });
    }

    /// Closes the oldest once it has had its time.
    pub(super) async fn close_oldest(&mut self) {
        while self
            .0
            .front()
            .is_some_and(|oldest| !oldest.is_unauthenticated())
        {
            self.0.pop_front();
        }
        let Some(oldest) = self.0.front() else {
            return pending().await;
        };
        sleep_until(oldest.since + AT_LEAST).await;
        if let Some(oldest) = self.0.pop_front().filter(Connection::is_unauthenticated) {
            oldest.connection.abort();
        }
    }
}

impl Connection {
    fn is_unauthenticated(&self) -> bool {
        !self.connection.is_finished() && !self.admitted.is_client()
    }
}
