//! Accepts connections to the API, with TLS or without: the client's first byte tells which.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::serve::Listener;
use rustix::net::sockopt::set_tcp_user_timeout;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

/// A connection that is ready for requests.
pub type Connection = Either<TcpStream, TlsStream<TcpStream>>;

/// The first byte of a TLS connection: the content type of a handshake record.
const HANDSHAKE: u8 = 22;

/// A client must complete its handshake, or send its first byte, within this time.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

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
        acceptor.spawn(accept_all(listener, tls, ready));
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

async fn accept_all(
    listener: TcpListener,
    tls: TlsAcceptor,
    ready: mpsc::Sender<(Connection, SocketAddr)>,
) {
    let mut handshakes = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(_) = handshakes.join_next() => {}
            taken = listener.accept() => match taken {
                Ok((client, from)) => {
                    handshakes.spawn(prepare(client, from, tls.clone(), ready.clone()));
                }
                Err(error) => {
                    tracing::debug!(target: "apiserver.serve", %error, "cannot accept a connection");
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
    match timeout(HANDSHAKE_TIMEOUT, handshake).await {
        // If nothing serves any more, the connection is dropped.
        Ok(Ok(Some(client))) => drop(ready.send((client, from)).await),
        Ok(Ok(None)) | Err(_) => {}
        Ok(Err(error)) => {
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
