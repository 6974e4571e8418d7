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

/// An accepted connection that is ready for requests.
pub type Connection = Either<TcpStream, TlsStream<TcpStream>>;

/// The first byte of a TLS connection: the content type of a handshake record.
const HANDSHAKE: u8 = 22;

/// A client must send its first byte and complete the TLS handshake within this time.
const GREETING: Duration = Duration::from_secs(60);

/// At most this many connections wait for their first byte or their handshake; further clients wait to be accepted.
const MOST_GREETING: usize = 1024;

/// The queue of accepted connections; the server takes them at once.
const LET_IN: usize = 16;

/// A connection is closed if the client acknowledges none of the sent data for this long (`TCP_USER_TIMEOUT`).
const UNREAD: Duration = Duration::from_secs(30);

/// The delay before the next attempt when accepting fails for lack of a resource, such as file descriptors.
const AGAIN: Duration = Duration::from_millis(100);

/// The listener. Dropping it releases the address and closes connections that have not completed their handshake.
#[derive(Debug)]
pub struct Door {
    address: SocketAddr,
    let_in: mpsc::Receiver<(Connection, SocketAddr)>,
    _keeper: JoinSet<()>,
}

impl Door {
    /// Listens on an address; port 0 selects a free port.
    pub async fn open(address: SocketAddr, tls: TlsAcceptor) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (greeted, let_in) = mpsc::channel(LET_IN);
        let mut keeper = JoinSet::new();
        keeper.spawn(keep(listener, tls, greeted));
        Ok(Self {
            address,
            let_in,
            _keeper: keeper,
        })
    }

    /// The local address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Listener for Door {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        match self.let_in.recv().await {
            Some(client) => client,
            // The accepting task ends only with this listener.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

async fn keep(
    listener: TcpListener,
    tls: TlsAcceptor,
    greeted: mpsc::Sender<(Connection, SocketAddr)>,
) {
    let mut greetings = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(_) = greetings.join_next() => {}
            taken = listener.accept(), if greetings.len() < MOST_GREETING => match taken {
                Ok((client, from)) => {
                    greetings.spawn(greet(client, from, tls.clone(), greeted.clone()));
                }
                Err(error) => {
                    tracing::debug!(target: "apiserver.serve", %error, "cannot accept a connection");
                    sleep(AGAIN).await;
                }
            }
        }
    }
}

/// Detects TLS, completes the handshake and queues the connection.
async fn greet(
    client: TcpStream,
    from: SocketAddr,
    tls: TlsAcceptor,
    greeted: mpsc::Sender<(Connection, SocketAddr)>,
) {
    set_up(&client);
    let greeting = async {
        let mut first = [0];
        Ok(match client.peek(&mut first).await? {
            0 => None,
            _ if first[0] == HANDSHAKE => Some(Either::Right(tls.accept(client).await?)),
            _ => Some(Either::Left(client)),
        })
    };
    match timeout(GREETING, greeting).await {
        // If nothing serves any more, the connection is dropped.
        Ok(Ok(Some(client))) => drop(greeted.send((client, from)).await),
        Ok(Ok(None)) | Err(_) => {}
        Ok(Err(error)) => {
            let error: io::Error = error;
            tracing::debug!(target: "apiserver.serve", %error, "a connection failed before its first request");
        }
    }
}

fn set_up(connection: &TcpStream) {
    // With Nagle's algorithm, a watch event could wait for the acknowledgement of the one before.
    if let Err(error) = connection.set_nodelay(true) {
        tracing::debug!(target: "apiserver.serve", %error, "cannot set TCP_NODELAY");
    }
    // A watcher that does not read is never polled for its next event, so only closing its connection frees what it
    // holds.
    let unread = u32::try_from(UNREAD.as_millis()).unwrap_or(u32::MAX);
    if let Err(error) = set_tcp_user_timeout(connection, unread) {
        tracing::debug!(target: "apiserver.serve", %error, "cannot set TCP_USER_TIMEOUT");
    }
}
