//! Connections to the API, with TLS or without: a client's first byte tells which it speaks.

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

/// The first byte of whoever speaks TLS: the record of a handshake.
const HANDSHAKE: u8 = 22;

/// A client that has not said anything by then, or not shaken hands, is sent away.
const GREETING: Duration = Duration::from_secs(60);

/// So many clients may be about to say their first byte; more wait to be let in.
const MOST_GREETING: usize = 1024;

/// Clients that are let in wait here until they are served, which is at once.
const LET_IN: usize = 16;

/// A client that takes nothing of what it is sent for so long is cut off.
const UNREAD: Duration = Duration::from_secs(30);

/// Taking connections failed for want of something, such as file descriptors: another one may end meanwhile.
const AGAIN: Duration = Duration::from_millis(100);

/// Lets clients in. Dropped, it lets go of the address, and of those who have not said anything yet.
#[derive(Debug)]
pub struct Door {
    address: SocketAddr,
    let_in: mpsc::Receiver<(Connection, SocketAddr)>,
    _keeper: JoinSet<()>,
}

impl Door {
    /// Listens there; port 0 takes any that is free.
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

    /// The address it was given.
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
            // The keeper ends with this door only.
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
                    tracing::debug!(target: "apiserver.serve", %error, "a connection was not taken");
                    sleep(AGAIN).await;
                }
            }
        }
    }
}

/// Finds out what a client speaks, and lets it in.
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
        // Where nobody serves any more, nobody is let in.
        Ok(Ok(Some(client))) => drop(greeted.send((client, from)).await),
        Ok(Ok(None)) | Err(_) => {}
        Ok(Err(error)) => {
            let error: io::Error = error;
            tracing::debug!(target: "apiserver.serve", %error, "a client went before it asked anything");
        }
    }
}

fn set_up(connection: &TcpStream) {
    // Otherwise an event of a watch may wait for the client's acknowledgement of the one before.
    if let Err(error) = connection.set_nodelay(true) {
        tracing::debug!(target: "apiserver.serve", %error, "a connection keeps its delay");
    }
    // A watcher that reads nothing is never asked for its next event, so what it holds only ends with its connection.
    let unread = u32::try_from(UNREAD.as_millis()).unwrap_or(u32::MAX);
    if let Err(error) = set_tcp_user_timeout(connection, unread) {
        tracing::debug!(target: "apiserver.serve", %error, "a connection stays though nothing is read from it");
    }
}
