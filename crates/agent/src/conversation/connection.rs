//! The connection to the driver.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use http::Request;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_util::either::Either;

use crate::file;
use crate::identity::{Identity, of_container};
use crate::protocol::{FromExecutor, NO_KEYS, ToExecutor};
use crate::trust::{self, Ca, TrustError};

/// The timeout of the driver's answers.
pub(super) const ANSWER: Duration = Duration::from_secs(10);

/// The size of read and write buffers, in bytes; messages are short.
const BUFFER: usize = 4 * 1024;

/// The longest message that is accepted from the driver, in bytes. It may contain the application's
/// properties.
const LONGEST: usize = 1024 * 1024;

/// A connection with TLS or without.
type Connection = Either<TlsStream<TcpStream>, TcpStream>;

pub(super) type Socket = WebSocketStream<Connection>;

/// Why a session ended or could not be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum Over {
    #[error("the token file {0} cannot be read")]
    Token(String, #[source] std::io::Error),
    #[error("the driver's host name cannot be resolved")]
    Unresolved(#[source] std::io::Error),
    #[error("the driver cannot be reached")]
    Unreachable(#[source] std::io::Error),
    #[error(transparent)]
    Untrusted(TrustError),
    #[error("the driver does not answer")]
    Silence,
    #[error("the driver refuses the connection: {0}")]
    Denied(String),
    #[error("the driver cannot verify the token now: {0}")]
    Deferred(String),
    #[error("the connection broke")]
    Broken(#[source] Box<tungstenite::Error>),
    #[error("the driver ended the connection: {0}")]
    Closed(String),
    #[error("the driver refuses the executor: {0}")]
    Refused(String),
    #[error("another session of the same executor has taken over")]
    Superseded,
    #[error("the command has ended")]
    Done,
}

impl Over {
    /// Whether another try is likely to fail in the same way, such as with a CA that did not issue the driver's certificate.
    pub(super) fn needs_operator(&self) -> bool {
        match self {
            Self::Token(..) | Self::Untrusted(_) | Self::Denied(_) | Self::Refused(_) => true,
            Self::Unresolved(_)
            | Self::Deferred(_)
            | Self::Unreachable(_)
            | Self::Silence
            | Self::Broken(_)
            | Self::Closed(_)
            | Self::Superseded
            | Self::Done => false,
        }
    }
}

pub(super) async fn in_time<T>(doing: impl Future<Output = T>) -> Result<T, Over> {
    timeout(ANSWER, doing).await.map_err(|_| Over::Silence)
}

pub(super) async fn connect(identity: &Identity, token: &str) -> Result<Socket, Over> {
    let driver = &identity.driver;
    let (host, port) = (driver.host().unwrap_or_default(), driver.port_u16());
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let with_tls = driver.scheme_str() == Some("https");
    let usual_port = if with_tls { 443 } else { 80 };
    let addresses = lookup_host((bare, port.unwrap_or(usual_port))).await;
    let addresses: Vec<SocketAddr> = addresses.map_err(Over::Unresolved)?.collect();
    let connection = TcpStream::connect(&addresses[..])
        .await
        .map_err(Over::Unreachable)?;
    connection.set_nodelay(true).map_err(Over::Unreachable)?;
    let connection = match with_tls {
        true => Either::Left(handshake(identity, bare, connection).await?),
        false => Either::Right(connection),
    };
    let authority = driver
        .authority()
        .map_or(host, |authority| authority.as_str());
    let request = Request::get(format!("ws://{authority}/v1/session"))
        .header("host", authority)
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", generate_key())
        .header("authorization", format!("Bearer {token}"))
        .body(())
        .map_err(|error| Over::Denied(error.to_string()))?;
    let config = WebSocketConfig::default()
        .read_buffer_size(BUFFER)
        .write_buffer_size(0)
        .max_message_size(Some(LONGEST))
        .max_frame_size(Some(LONGEST));
    let opened = tokio_tungstenite::client_async_with_config(request, connection, Some(config));
    match opened.await {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::Error::Http(response)) => {
            let body = response.body().as_deref().unwrap_or_default();
            Err(refusal(response.status().as_u16(), body))
        }
        Err(error) => Err(Over::Broken(Box::new(error))),
    }
}

/// What the answer to the opening of a session means.
pub(super) fn refusal(status: u16, body: &[u8]) -> Over {
    let words = String::from_utf8_lossy(body);
    let words = format!("{status}: {words}");
    let problem = serde_json::from_slice::<serde_json::Value>(body).unwrap_or_default();
    // Whatever stands between agent and driver answers 503 too when there is no driver, but not with this code.
    match status == 503 && problem["code"] == NO_KEYS {
        true => Over::Deferred(words),
        false => Over::Denied(words),
    }
}

/// Makes a TLS handshake. The CA is read each time, because its file may be rewritten.
async fn handshake(
    identity: &Identity,
    host: &str,
    connection: TcpStream,
) -> Result<TlsStream<TcpStream>, Over> {
    let ca_file = identity.ca_file.clone();
    let path = ca_file.clone();
    let reading = move || {
        let ca = path.as_deref().map(|path| Ca::File(of_container(path)));
        trust::client_config(ca.as_ref())
    };
    let config = match file::aside(reading).await {
        Ok(config) => config.map_err(Over::Untrusted)?,
        Err(error) => return Err(Over::Untrusted(TrustError::Unread(error))),
    };
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|error| Over::Denied(error.to_string()))?;
    let connector = TlsConnector::from(Arc::new(config));
    let connected = connector.connect(name, connection).await;
    connected.map_err(|error| {
        let refusal = trust::refusal(&error, ca_file.map(Ca::File).as_ref());
        Over::Untrusted(refusal.unwrap_or(TrustError::Handshake(error)))
    })
}

pub(super) async fn say(socket: &mut Socket, message: &FromExecutor) -> Result<(), Over> {
    // Serialising texts and numbers cannot fail.
    let text = serde_json::to_string(message).unwrap_or_default();
    let sent = in_time(socket.send(Message::text(text))).await?;
    sent.map_err(|error| Over::Broken(Box::new(error)))
}

/// The next message. Messages of unknown types are skipped, because the driver may be newer.
pub(super) async fn hear(socket: &mut Socket) -> Result<ToExecutor, Over> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => {
                if let Ok(message) = serde_json::from_str(&text) {
                    return Ok(message);
                }
                tracing::debug!("unknown message from the driver");
            }
            Some(Ok(Message::Close(frame))) => {
                let why = frame.map(|frame| frame.reason.to_string());
                return Err(Over::Closed(why.unwrap_or_default()));
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(Over::Broken(Box::new(error))),
            None => return Err(Over::Closed(String::new())),
        }
    }
}
