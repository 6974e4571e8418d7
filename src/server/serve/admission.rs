//! Which connections belong to clients that have proved who they are (spec O-116).

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::Extensions;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

/// A client that has said something has at least this long to prove who it is, however many others come.
pub(super) const AT_LEAST: Duration = Duration::from_secs(1);

/// A client has at least this long to say something. It costs an attacker nothing to say nothing,
/// and the fewer files may be open, the longer others would have to wait for those that do.
const SILENT: Duration = Duration::from_millis(100);

/// The place that a connection has.
#[derive(Debug)]
struct Place {
    of: Who,
    _permit: OwnedSemaphorePermit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    /// Nothing has been received.
    Silent,
    Unauthenticated,
    Client,
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
    if place.borrow().of == Who::Client {
        return Ok(());
    }
    let free = Arc::clone(places).try_acquire_owned().map_err(|_| Full)?;
    place.send_replace(Place {
        of: Who::Client,
        _permit: free,
    });
    Ok(())
}

impl Admission {
    pub(super) fn unauthenticated(place: OwnedSemaphorePermit) -> (Self, Admitted) {
        let (place, admitted) = watch::channel(Place {
            of: Who::Silent,
            _permit: place,
        });
        (Self(Arc::new(place)), Admitted(admitted))
    }

    /// Waits for the first byte from the client.
    pub(super) async fn hear(&self, connection: &TcpStream) -> io::Result<()> {
        connection.peek(&mut [0]).await?;
        self.0.send_modify(|place| place.of = Who::Unauthenticated);
        Ok(())
    }
}

impl Admitted {
    fn who(&self) -> Who {
        self.0.borrow().of
    }

    pub(super) fn is_client(&self) -> bool {
        self.who() == Who::Client
    }

    /// Waits until the client has proved who it is.
    pub(super) async fn wait(mut self) {
        let client = self.0.wait_for(|place| place.of == Who::Client);
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

    /// Closes one: the first that has had its time.
    pub(super) async fn close_one(&mut self) {
        loop {
            self.0.retain(Connection::is_unauthenticated);
            let connections = self.0.iter().map(Connection::until).enumerate();
            let Some((first, until)) = connections.min_by_key(|(_, until)| *until) else {
                return pending().await;
            };
            if until > Instant::now() {
                // It may say something meanwhile.
                sleep_until(until).await;
                continue;
            }
            if let Some(first) = self.0.remove(first) {
                first.connection.abort();
            }
            return;
        }
    }
}

impl Connection {
    fn is_unauthenticated(&self) -> bool {
        !self.connection.is_finished() && self.admitted.who() != Who::Client
    }

    /// Until when it may not be closed for others.
    fn until(&self) -> Instant {
        let at_least = match self.admitted.who() {
            Who::Silent => SILENT,
            Who::Unauthenticated | Who::Client => AT_LEAST,
        };
        self.since + at_least
    }
}
