//! Connections: how many, and how long one may take to say what it wants (spec O-50).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// A connection that has not asked anything by then is closed, a new one as well as one that was used before.
const SILENCE: Duration = Duration::from_secs(10);

/// Taking connections failed for want of something, such as file descriptors: another one may end meanwhile.
const AGAIN: Duration = Duration::from_millis(100);

/// An address cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}, which {key} names")]
pub struct ListenError {
    /// The address.
    address: SocketAddr,
    /// Which key of the configuration it is from.
    key: &'static str,
    /// Why.
    #[source]
    source: io::Error,
}

/// Takes the address that this key of the configuration names; with it the one that it got, where the port is free.
///
/// # Errors
///
/// Where it cannot be had.
pub async fn listen(
    address: SocketAddr,
    key: &'static str,
) -> Result<(TcpListener, SocketAddr), ListenError> {
    let failed = |source| ListenError {
        address,
        key,
        source,
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let got = listener.local_addr().map_err(failed)?;
    Ok((listener, got))
}

/// Serves until it is dropped, and its connections with it. At most so many are open; more wait to be let in. One that
/// has become a WebSocket is the router's, and not counted here.
pub async fn serve(listener: TcpListener, router: Router, most: usize) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(_) = connections.join_next() => {}
            taken = listener.accept(), if connections.len() < most => match taken {
                Ok((connection, _)) => {
                    connections.spawn(talk(connection, router.clone()));
                }
                Err(error) => {
                    tracing::debug!(%error, "a connection was not taken");
                    sleep(AGAIN).await;
                }
            }
        }
    }
}

async fn talk(connection: TcpStream, router: Router) {
    if let Err(error) = prepare(&connection) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(SILENCE);
    let service = TowerToHyperService::new(router);
    if let Err(error) = builder
        .serve_connection(TokioIo::new(connection), service)
        .with_upgrades()
        .await
    {
        tracing::debug!(%error, "a connection broke off");
    }
}

/// Otherwise an event may wait for the reader's acknowledgement of the one before.
fn prepare(connection: &TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn served(most: usize) -> (std::net::SocketAddr, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(async || "hello"));
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, router, most));
        (address, serving)
    }

    async fn said(mut connection: TcpStream) -> String {
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        answer
    }

    // spec: O-50
    #[tokio::test(start_paused = true)]
    async fn those_that_say_nothing_are_sent_away_and_others_are_let_in() {
        let (address, _serving) = served(2).await;
        let silent = TcpStream::connect(address).await.unwrap();
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"GET / HT").await.unwrap();
        let mut patient = TcpStream::connect(address).await.unwrap();
        let ask = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        patient.write_all(ask).await.unwrap();
        assert!(said(patient).await.ends_with("hello"));
        assert_eq!(said(silent).await, "");
        assert!(!said(slow).await.contains("hello"));
    }
}
