//! Accepts connections, and limits their number and the time for the request's header (spec O-50).

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

/// How long a connection may take to send a request's header. Applies to new connections as well as
/// to idle ones.
const SILENCE: Duration = Duration::from_secs(10);

/// How long to wait after an accept failed, for example for lack of file descriptors. Another
/// connection may be closed meanwhile.
const AGAIN: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}, which is set by {key}")]
pub struct ListenError {
    address: SocketAddr,
    /// The key of the configuration that the address is from.
    key: &'static str,
    #[source]
    source: io::Error,
}

/// Binds the address that this configuration key names. Returns the bound address too, because the
/// system chooses the port where it is 0.
///
/// # Errors
///
/// The address cannot be bound.
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

/// Serves until it is dropped, which closes all connections. At most `most` connections are open;
/// more wait to be accepted. A connection that was upgraded to a WebSocket belongs to the router
/// and does not count.
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
                    tracing::debug!(%error, "accepting a connection failed");
                    sleep(AGAIN).await;
                }
            }
        }
    }
}

async fn talk(connection: TcpStream, router: Router) {
    if let Err(error) = prepare(&connection) {
        tracing::debug!(%error, "TCP_NODELAY could not be set for a connection");
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
        tracing::debug!(%error, "a connection ended with an error");
    }
}

/// Disables Nagle's algorithm: with it an event may wait for the acknowledgement of the one before.
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

    // spec: O-57
    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_disconnected() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let endless = async || {
            let part = || Ok::<_, std::convert::Infallible>(vec![b'x'; 64 * 1024]);
            axum::body::Body::from_stream(futures::stream::repeat_with(part))
        };
        let router = Router::new().route("/", get(endless));
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, router, 8));
        let mut deaf = TcpStream::connect(address).await.unwrap();
        deaf.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(60), deaf.read_to_end(&mut rest));
        assert!(ended.await.is_ok(), "it is still written to");
    }
}
