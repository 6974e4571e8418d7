//! Accepts connections, and limits their number, the time for their requests and for reading the
//! answers (spec O-113, O-55, O-57).

mod admission;
mod bounded;
mod http2;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt::{set_socket_send_buffer_size, set_tcp_user_timeout};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_rustls::server::TlsStream;
use tower::Service;
use tower::util::MapRequest;

use admission::{Admission, Admitted, Unauthenticated};
pub(crate) use admission::{Full, admit};
use bounded::Bounded;

use super::tls::{HTTP2, Tls};

/// How long a connection may take to send a request's header. Applies to new connections as well as
/// to idle ones.
const SILENCE: Duration = Duration::from_secs(10);

/// How long a client may take to prove who it is, from its connection on.
const PROOF: Duration = Duration::from_secs(5);

/// How long a client may read nothing of what is written to it.
const UNREAD: Duration = Duration::from_secs(10);

/// What is kept for one connection: of a request's head, and of an answer that is not sent yet. In bytes.
const BUFFER: usize = 64 * 1024;

/// How long the kernel waits for a client to acknowledge data or to make room for it. It ends the
/// connections of machines that are gone, to which little is written.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// The kernel's buffer of what is written to a connection, in bytes. Without a bound it grows to
/// megabytes for each client that reads nothing.
const SEND_BUFFER: usize = 64 * 1024;

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

/// Serves until it is dropped, which closes all connections. A connection is unauthenticated until
/// a request proves who the client is: see [`admit`]. At most `most` connections are; when more
/// come, the first that has had its time is closed, which is short for one that says nothing. So a
/// flood of connections keeps neither clients out nor probes.
/// A connection that was upgraded to a WebSocket belongs to the router and does not count.
///
/// With `tls` all connections are HTTPS; the time of an unauthenticated one includes the handshake.
pub async fn serve(listener: TcpListener, router: Router, most: usize, tls: Option<Tls>) {
    let places = Arc::new(Semaphore::new(most));
    let mut connections = JoinSet::new();
    let mut unauthenticated = Unauthenticated::default();
    let mut free = None;
    loop {
        tokio::select! {
            biased;
            Some(_) = connections.join_next() => {}
            place = Arc::clone(&places).acquire_owned(), if free.is_none() => free = place.ok(),
            () = unauthenticated.close_one(), if free.is_none() => {
                free = Arc::clone(&places).acquire_owned().await.ok();
            }
            taken = listener.accept(), if free.is_some() => match (taken, free.take()) {
                (Ok((connection, _)), Some(place)) => {
                    let (admission, admitted) = Admission::unauthenticated(place);
                    let talking = Talk {
                        router: router.clone(),
                        tls: tls.clone(),
                        admission,
                        admitted: admitted.clone(),
                    };
                    let talking = talking.over(connection);
                    let task = connections.spawn(talking);
                    unauthenticated.add(admitted, task);
                }
                (Err(error), place) => {
                    free = place;
                    tracing::warn!(%error, "accepting a connection failed");
                    sleep(AGAIN).await;
                }
                (Ok(_), None) => {}
            }
        }
    }
}

/// A connection's conversation.
struct Talk {
    router: Router,
    tls: Option<Tls>,
    admission: Admission,
    admitted: Admitted,
}

impl Talk {
    /// Serves a connection until it ends, or until its client has not proved who it is in time.
    async fn over(self, connection: TcpStream) {
        if let Err(error) = prepare(&connection) {
            tracing::debug!(%error, "the options of a connection could not be set");
        }
        let (router, admission) = (self.router, self.admission);
        let admitted = self.admitted.clone();
        let talking = async {
            if admission.hear(&connection).await.is_err() {
                return;
            }
            let Some(tls) = self.tls else {
                let connection = Bounded::new(connection, UNREAD, admitted);
                return http1(connection, router, admission).await;
            };
            match handshake(connection, tls, admitted).await {
                Ok(Some(connection)) if chose_http2(&connection) => {
                    http2::talk(connection, serving(router, admission)).await;
                }
                Ok(Some(connection)) => http1(connection, router, admission).await,
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, "a TLS handshake failed"),
            }
        };
        let mut talking = pin!(talking);
        tokio::select! {
            biased;
            () = &mut talking => {}
            () = self.admitted.wait() => talking.await,
            () = sleep(PROOF) => {}
        }
    }
}

/// The first byte of a TLS handshake. No HTTP request begins with it.
const HANDSHAKE: u8 = 0x16;

/// What a client is told that speaks plain HTTP to a port of HTTPS.
const HTTPS_ONLY: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    content-type: application/json\r\nconnection: close\r\ncontent-length: 106\r\n\r\n\
    {\"code\":\"https\",\"message\":\"this port speaks HTTPS only\",\"hint\":\"begin the driver's address with https://\"}";

/// Makes a TLS handshake; `None` after a client of plain HTTP was told so.
async fn handshake(
    mut connection: TcpStream,
    tls: Tls,
    admitted: Admitted,
) -> io::Result<Option<TlsStream<Bounded<TcpStream>>>> {
    let mut first = [0];
    if connection.peek(&mut first).await? == 1 && first != [HANDSHAKE] {
        // What stays unread would reset the connection, and the answer would be lost.
        let _ = connection.read(&mut [0; 4096]).await?;
        connection.write_all(HTTPS_ONLY).await?;
        connection.shutdown().await?;
        return Ok(None);
    }
    let connection = Bounded::new(connection, UNREAD, admitted);
    tls.accept(connection).await.map(Some)
}

fn chose_http2<S>(connection: &TlsStream<S>) -> bool {
    connection.get_ref().1.alpn_protocol() == Some(HTTP2)
}

/// The router, for the requests of this connection.
fn serving<B>(
    router: Router,
    admission: Admission,
) -> impl Service<Request<B>, Response = Response, Error = Infallible, Future: Send + 'static> + Clone
where
    Router: Service<Request<B>, Response = Response, Error = Infallible, Future: Send + 'static>,
{
    MapRequest::new(router, move |mut request: Request<B>| {
        request.extensions_mut().insert(admission.clone());
        request
    })
}

async fn http1<S>(connection: S, router: Router, admission: Admission)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(SILENCE)
        .max_buf_size(BUFFER);
    let service = TowerToHyperService::new(serving::<Incoming>(router, admission));
    let talking = builder
        .serve_connection(TokioIo::new(connection), service)
        .with_upgrades();
    if let Err(error) = talking.await {
        tracing::debug!(%error, "a connection ended with an error");
    }
}

/// Disables Nagle's algorithm: with it an event may wait for the acknowledgement of the one before.
/// Bounds what the kernel keeps for a client that does not read.
fn prepare(connection: &TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)?;
    set_socket_send_buffer_size(connection, SEND_BUFFER)?;
    let unacknowledged = u32::try_from(UNACKNOWLEDGED.as_millis()).unwrap_or(u32::MAX);
    Ok(set_tcp_user_timeout(connection, unacknowledged)?)
}

#[cfg(test)]
mod tests {
    use axum::routing::get;

    use super::admission::AT_LEAST;
    use super::*;

    async fn served(most: usize) -> (std::net::SocketAddr, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(async || "hello"));
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, router, most, None));
        (address, serving)
    }

    async fn said(mut connection: TcpStream) -> String {
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        answer
    }

    // spec: O-113
    #[tokio::test(start_paused = true)]
    async fn silent_connections_are_closed_and_others_are_accepted() {
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

    /// Asks over a connection that stays open; the status of the answer, or none if it is closed.
    async fn asked(connection: &mut TcpStream) -> Option<String> {
        let ask = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        connection.write_all(ask).await.ok()?;
        let mut answer = [0; 1_024];
        let read = connection.read(&mut answer).await.ok()?;
        let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
        answer.split(' ').nth(1).map(str::to_owned)
    }

    // spec: O-116
    #[tokio::test(start_paused = true)]
    async fn unauthenticated_connections_give_way_to_newer_ones_and_clients_stay() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let places = Arc::new(Semaphore::new(1));
        let prove = async move |parts: http::request::Parts| {
            admit(&parts.extensions, &places).map_err(|Full| http::StatusCode::TOO_MANY_REQUESTS)
        };
        let router = Router::new().route("/", get(prove));
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, router, 2, None));
        let mut client = TcpStream::connect(address).await.unwrap();
        assert_eq!(asked(&mut client).await.as_deref(), Some("200"));
        let mut unauthenticated = Vec::new();
        for _ in 0..8 {
            unauthenticated.push(TcpStream::connect(address).await.unwrap());
        }
        // One that comes after them is answered before they have had all the time of an unauthenticated connection.
        let began = tokio::time::Instant::now();
        let mut other = TcpStream::connect(address).await.unwrap();
        assert_eq!(asked(&mut other).await.as_deref(), Some("429"), "one place");
        assert!(began.elapsed() < PROOF, "{began:?}");
        assert_eq!(asked(&mut client).await.as_deref(), Some("200"));
        sleep(PROOF + Duration::from_secs(1)).await;
        assert_eq!(asked(&mut client).await.as_deref(), Some("200"), "it stays");
        assert_eq!(asked(&mut other).await, None, "it has proved nothing");
    }

    // spec: O-116
    #[tokio::test(start_paused = true)]
    async fn connections_that_say_nothing_give_way_sooner_than_those_that_do() {
        let (address, _serving) = served(2).await;
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        let mut silent = Vec::new();
        for _ in 0..4 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let began = tokio::time::Instant::now();
        let mut other = TcpStream::connect(address).await.unwrap();
        assert_eq!(asked(&mut other).await.as_deref(), Some("200"));
        let took = began.elapsed();
        assert!(took < AT_LEAST, "{took:?}");
        slow.write_all(b"host: a\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        assert!(said(slow).await.ends_with("hello"));
    }

    // spec: O-53, O-116
    #[tokio::test(start_paused = true)]
    async fn a_client_that_makes_no_handshake_has_the_time_of_an_unauthenticated_one() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(async || "hello"));
        // No certificate is known yet.
        let holder = crate::server::tls::Holder::empty();
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, router, 2, Some(holder.tls())));
        let silent = TcpStream::connect(address).await.unwrap();
        let mut plain = TcpStream::connect(address).await.unwrap();
        let ask = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        plain.write_all(ask).await.unwrap();
        let began = tokio::time::Instant::now();
        assert_eq!(said(silent).await, "");
        assert!(
            began.elapsed() <= PROOF + Duration::from_secs(1),
            "{began:?}"
        );
        let told = said(plain).await;
        let (head, body) = told.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
        let length = format!("content-length: {}", body.len());
        assert!(
            head.ends_with(&length) && body.contains("https://"),
            "{told}"
        );
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["code"], "https");
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
        serving.spawn(serve(listener, router, 8, None));
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
