//! Accepts connections to the API, with TLS or without: the client's first byte tells which.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use rustix::net::sockopt::set_tcp_user_timeout;
use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsAcceptor;
use tokio_util::either::Either;

use super::connection::{self, Authentication, Connection, Deadline};

/// The first byte of a TLS connection: the content type of a handshake record.
const HANDSHAKE: u8 = 22;

/// At most this many connections wait for their client to authenticate.
const MAX_PENDING: usize = 1024;

/// At most one of this many file descriptors is used for such connections.
const PENDING_SHARE: usize = 4;

/// If there are too many such connections, the oldest is closed to accept the next one, but not before this age.
const MIN_AGE: Duration = Duration::from_secs(1);

/// The interval in which a full listener looks for room.
const ROOM_INTERVAL: Duration = Duration::from_millis(20);

/// The queue of accepted connections; the server takes them at once.
const QUEUE: usize = 16;

/// A connection is closed if the client acknowledges none of the sent data for this long (`TCP_USER_TIMEOUT`).
const USER_TIMEOUT: Duration = Duration::from_secs(30);

/// The delay before the next attempt when accepting fails for lack of a resource, such as file descriptors.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// The listener. Dropping it releases the address and closes connections that have not completed their handshake.
#[derive(Debug)]
pub struct ApiListener {
    address: SocketAddr,
    accepted: mpsc::Receiver<(Connection, SocketAddr)>,
    _acceptor: JoinSet<()>,
}

impl ApiListener {
    /// Listens on an address; port 0 selects a free port.
    pub async fn open(address: SocketAddr, tls: TlsAcceptor) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (ready, accepted) = mpsc::channel(QUEUE);
        let mut acceptor = JoinSet::new();
        let pending = Pending::new(pending_limit());
        acceptor.spawn(accept_all(listener, tls, ready, pending));
        Ok(Self {
            address,
            accepted,
            _acceptor: acceptor,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Listener for ApiListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        match self.accepted.recv().await {
            Some(client) => client,
            // The accepting task ends only with this listener.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl Connected<IncomingStream<'_, ApiListener>> for Authentication {
    fn connect_info(stream: IncomingStream<'_, ApiListener>) -> Self {
        stream.io().authentication().clone()
    }
}

/// The most connections without authentication, by how many files this process may have open.
fn pending_limit() -> usize {
    let files = getrlimit(Resource::Nofile).current;
    let files = files.and_then(|files| usize::try_from(files).ok());
    files.map_or(MAX_PENDING, |files| {
        (files / PENDING_SHARE).clamp(1, MAX_PENDING)
    })
}

/// The connections whose clients have not authenticated, oldest first.
struct Pending {
    limit: usize,
    connections: VecDeque<(Instant, Authentication)>,
}

impl Pending {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            connections: VecDeque::new(),
        }
    }

    /// Whether one more connection can be accepted at this time. Closes the oldest one for it, if that is old enough.
    fn has_room(&mut self, now: Instant) -> bool {
        self.connections
            .retain(|(_, connection)| connection.is_pending());
        if self.connections.len() < self.limit {
            return true;
        }
        let oldest = self.connections.front();
        if oldest.is_some_and(|(since, _)| now.duration_since(*since) < MIN_AGE) {
            return false;
        }
        self.close_oldest();
        true
    }

    fn close_oldest(&mut self) {
        if let Some((_, oldest)) = self.connections.pop_front() {
            oldest.close();
        }
    }
}

async fn accept_all(
    listener: TcpListener,
    tls: TlsAcceptor,
    ready: mpsc::Sender<(Connection, SocketAddr)>,
    mut pending: Pending,
) {
    let mut handshakes = JoinSet::new();
    loop {
        let has_room = pending.has_room(Instant::now());
        tokio::select! {
            biased;
            Some(_) = handshakes.join_next() => {}
            () = sleep(ROOM_INTERVAL), if !has_room => {}
            taken = listener.accept(), if has_room => match taken {
                Ok((client, from)) => {
                    let (authentication, deadline) = connection::pending();
                    pending.connections.push_back((Instant::now(), authentication.clone()));
                    let ready = ready.clone();
                    handshakes.spawn(prepare(client, from, tls.clone(), authentication, deadline, ready));
                }
                Err(error) => {
                    tracing::debug!(target: "apiserver.serve", %error, "cannot accept a connection");
                    // It may have been for lack of descriptors.
                    pending.close_oldest();
                    sleep(RETRY_DELAY).await;
                }
            }
        }
    }
}

/// Detects TLS, completes the handshake and queues the connection.
async fn prepare(
    client: TcpStream,
    from: SocketAddr,
    tls: TlsAcceptor,
    authentication: Authentication,
    mut deadline: Deadline,
    ready: mpsc::Sender<(Connection, SocketAddr)>,
) {
    set_options(&client);
    let handshake = async {
        let mut first = [0];
        io::Result::Ok(match client.peek(&mut first).await? {
            0 => None,
            _ if first[0] == HANDSHAKE => Some(Either::Right(tls.accept(client).await?)),
            _ => Some(Either::Left(client)),
        })
    };
    let client = tokio::select! {
        biased;
        _ = &mut deadline => return,
        client = handshake => client,
    };
    match client {
        // If nothing serves any more, the connection is dropped.
        Ok(Some(client)) => {
            let client = Connection::new(client, authentication, deadline);
            drop(ready.send((client, from)).await);
        }
        Ok(None) => {}
        Err(error) => {
            tracing::debug!(target: "apiserver.serve", %error, "a connection failed before its first request");
        }
    }
}

fn set_options(connection: &TcpStream) {
    // With Nagle's algorithm, a watch event could wait for the acknowledgement of the one before.
    if let Err(error) = connection.set_nodelay(true) {
        tracing::debug!(target: "apiserver.serve", %error, "cannot set TCP_NODELAY");
    }
    // A watcher that does not read is never polled for its next event, so only closing its connection frees what it
    // holds.
    let unread = u32::try_from(USER_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
    if let Err(error) = set_tcp_user_timeout(connection, unread) {
        tracing::debug!(target: "apiserver.serve", %error, "cannot set TCP_USER_TIMEOUT");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::time::{advance, timeout};

    use super::*;
    use crate::api::tls::Tls;
    use crate::tests::hold_clock;

    #[tokio::test(start_paused = true)]
    async fn clients_that_do_not_authenticate_do_not_block_others() {
        const LIMIT: usize = 8;
        const CLIENTS: usize = 40;
        let _held = hold_clock();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let (ready, mut accepted) = mpsc::channel(CLIENTS);
        let tls = Tls::of("token").expect("a certificate").acceptor;
        let mut acceptor = JoinSet::new();
        acceptor.spawn(accept_all(listener, tls, ready, Pending::new(LIMIT)));
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let mut client = TcpStream::connect(address).await.expect("connected");
            client.write_all(b"G").await.expect("sent");
            clients.push(client);
        }
        let mut connections = Vec::new();
        for n in 0..CLIENTS {
            if n >= LIMIT {
                advance(MIN_AGE).await;
            }
            let next = timeout(MIN_AGE, accepted.recv()).await;
            connections.push(next.expect("room").expect("open").0);
            let pending = connections
                .iter()
                .filter(|c| c.authentication().is_pending());
            assert!(pending.count() <= LIMIT);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn authenticated_clients_are_not_counted_and_not_closed() {
        let mut pending = Pending::new(1);
        let (first, _first) = connection::pending();
        pending
            .connections
            .push_back((Instant::now(), first.clone()));
        assert!(!pending.has_room(Instant::now()), "it has just connected");
        first.succeeded();
        assert!(pending.has_room(Instant::now()));
        let (second, deadline) = connection::pending();
        pending
            .connections
            .push_back((Instant::now(), second.clone()));
        assert!(pending.has_room(Instant::now() + MIN_AGE));
        assert!(!deadline.await, "the second is closed");
    }
}
