//! Keeps the agent's session with the driver: opens it, and reopens it for as long as the child
//! runs (spec O-122, B-10, B-11).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use http::Request;
use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_util::either::Either;

use super::Ended;
use super::identity::{Identity, of_container};
use super::status::Status;
use crate::backoff::Backoff;
use crate::file;
use crate::protocol::{Exiting, FromExecutor, NO_KEYS, Registered, ToExecutor};
use crate::state::is_away;
use crate::trust::{self, Ca, TrustError};

/// What the agent must react to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Received {
    /// The driver orders the executor to exit.
    Stop { within: Duration },
    /// The driver orders the executor to finish its work and exit.
    Decommission { within: Duration },
    /// The driver refuses the executor for good.
    Unwanted,
    /// The driver was unreachable for too long.
    DriverGone,
}

/// The delays between attempts to connect.
const RECONNECT: Backoff = Backoff {
    initial: Duration::from_millis(200),
    max: Duration::from_secs(10),
};

/// A driver that expects heartbeats often gives up silent executors soon, and gives them that time again when the path
/// to it was broken.
fn reconnect(interval: Duration) -> Backoff {
    Backoff {
        max: interval.clamp(RECONNECT.initial, RECONNECT.max),
        ..RECONNECT
    }
}

/// The timeout of the driver's answers.
const ANSWER: Duration = Duration::from_secs(10);

/// The size of read and write buffers, in bytes; messages are short.
const BUFFER: usize = 4 * 1024;

/// The longest message that is accepted from the driver, in bytes. It may contain the application's
/// properties.
const LONGEST: usize = 1024 * 1024;

/// A connection with TLS or without.
type Connection = Either<TlsStream<TcpStream>, TcpStream>;

type Socket = WebSocketStream<Connection>;

/// Why a session ended or could not be opened.
#[derive(Debug, thiserror::Error)]
enum Over {
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
    fn needs_operator(&self) -> bool {
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

/// The agent's session with the driver, across reconnections.
pub(super) struct Conversation {
    identity: Identity,
    /// The busy slots and metrics that the child reports.
    status: Status,
    driver_timeout: Option<Duration>,
    /// When the driver was last heard, or when the agent started.
    last_heard: Instant,
    /// Whether the driver's name was ever resolved. Right after a Service is created its name does
    /// not exist yet.
    resolved: bool,
    failures: u32,
    reconnect: Backoff,
    /// Whether one of these failures needs an operator.
    needs_operator: bool,
    rng: StdRng,
}

impl Conversation {
    pub(super) fn new(
        identity: Identity,
        status: Status,
        driver_timeout: Option<Duration>,
    ) -> Self {
        Self {
            identity,
            status,
            driver_timeout,
            last_heard: Instant::now(),
            resolved: false,
            failures: 0,
            reconnect: RECONNECT,
            needs_operator: false,
            rng: rand::make_rng(),
        }
    }

    /// Runs until the child has ended and this was reported to the driver, or could not be.
    pub(super) async fn run(
        mut self,
        heard: mpsc::Sender<Received>,
        mut ended: watch::Receiver<Option<Ended>>,
    ) {
        loop {
            let heard_before = self.last_heard;
            let over = match self.open(&heard).await {
                Ok((socket, registered)) => self.hold(socket, registered, &heard, &mut ended).await,
                Err(over) => over,
            };
            if ended.borrow().is_some() {
                return;
            }
            self.failures += 1;
            self.over(&over);
            self.log(&over);
            if self.is_away(heard_before) {
                tracing::error!(
                    "the driver has been unreachable for too long: stopping the command"
                );
                self.driver_timeout = None;
                tell(&heard, Received::DriverGone).await;
            }
            let pause = match over {
                Over::Superseded => RECONNECT.max,
                _ => self.reconnect.jittered(self.failures, self.rng.random()),
            };
            tokio::select! {
                biased;
                _ = ended.changed() => return,
                () = sleep(pause) => {}
            }
        }
    }

    /// The time in which the driver's name was never resolved does not count towards the driver's
    /// timeout.
    fn over(&mut self, over: &Over) {
        match over {
            Over::Unresolved(_) if !self.resolved => self.last_heard = Instant::now(),
            Over::Unresolved(_) | Over::Token(..) => {}
            // It is there, and cannot tell yet whose token this is.
            Over::Deferred(_) => (self.resolved, self.last_heard) = (true, Instant::now()),
            _ => self.resolved = true,
        }
    }

    fn is_away(&self, heard_before: Instant) -> bool {
        let now = Instant::now();
        is_away(self.driver_timeout, heard_before, self.last_heard, now)
    }

    /// Opens a session and registers.
    async fn open(&mut self, heard: &mpsc::Sender<Received>) -> Result<(Socket, Registered), Over> {
        let token = &self.identity.token;
        let read = token.read().await;
        let token = read.map_err(|error| Over::Token(token.place(), error))?;
        let mut socket = in_time(connect(&self.identity, &token)).await??;
        loop {
            let registration = FromExecutor::Register(self.identity.registration.clone());
            say(&mut socket, &registration).await?;
            let answer = in_time(hear(&mut socket)).await??;
            self.last_heard = Instant::now();
            match answer {
                ToExecutor::Registered(registered) => return Ok((socket, registered)),
                ToExecutor::Later { in_ms } => {
                    sleep(Duration::from_millis(in_ms).min(RECONNECT.max)).await;
                }
                ToExecutor::Refused {
                    code,
                    message,
                    exit,
                } => {
                    if exit {
                        tracing::warn!(
                            code,
                            message,
                            "the driver refuses this executor: it must exit"
                        );
                        tell(heard, Received::Unwanted).await;
                    }
                    return Err(Over::Refused(message));
                }
                other => return Err(Over::Refused(format!("unexpected answer {other:?}"))),
            }
        }
    }

    /// Runs a session until it breaks or the child ends.
    async fn hold(
        &mut self,
        mut socket: Socket,
        registered: Registered,
        heard: &mpsc::Sender<Received>,
        ended: &mut watch::Receiver<Option<Ended>>,
    ) -> Over {
        let (executor, session) = (registered.executor, registered.session);
        tracing::info!(executor, session, "registered with the driver");
        self.failures = 0;
        self.needs_operator = false;
        let interval = Duration::from_millis(registered.heartbeat_interval_ms.max(1));
        self.reconnect = reconnect(interval);
        // The first heartbeat is sent at once: until then the driver does not know the busy slots.
        let mut beat_at = Instant::now();
        // The deadline of the answer, while one is outstanding.
        let mut answer_by = None;
        loop {
            let silent_at = answer_by.unwrap_or(beat_at);
            let went = tokio::select! {
                biased;
                _ = ended.changed() => {
                    let Some(end) = *ended.borrow_and_update() else {
                        return Over::Done;
                    };
                    return self.last_word(&mut socket, session, end).await;
                }
                message = hear(&mut socket) => match message {
                    Ok(message) => {
                        self.last_heard = Instant::now();
                        answer_by = None;
                        self.heard(message, &mut socket, heard).await
                    }
                    Err(over) => Err(over),
                },
                () = sleep_until(silent_at), if answer_by.is_some() => Err(Over::Silence),
                () = sleep_until(beat_at), if answer_by.is_none() => {
                    let jitter = 0.9 + 0.2 * self.rng.random::<f64>();
                    beat_at = Instant::now() + interval.mul_f64(jitter);
                    answer_by = Some(Instant::now() + ANSWER);
                    let slots = self.identity.registration.slots;
                    let heartbeat = self.status.heartbeat(session, slots);
                    say(&mut socket, &FromExecutor::Heartbeat(heartbeat)).await
                }
            };
            if let Err(over) = went {
                return over;
            }
        }
    }

    async fn heard(
        &self,
        message: ToExecutor,
        socket: &mut Socket,
        heard: &mpsc::Sender<Received>,
    ) -> Result<(), Over> {
        match message {
            ToExecutor::Stop { deadline_ms, why } => {
                tracing::info!(deadline_ms, why, "the driver orders this executor to stop");
                let within = Duration::from_millis(deadline_ms);
                tell(heard, Received::Stop { within }).await;
                Ok(())
            }
            ToExecutor::Decommission { deadline_ms, why } => {
                tracing::info!(deadline_ms, why, "the driver orders this executor to drain");
                let within = Duration::from_millis(deadline_ms);
                tell(heard, Received::Decommission { within }).await;
                Ok(())
            }
            ToExecutor::Refused { message, exit, .. } => {
                if exit {
                    tell(heard, Received::Unwanted).await;
                }
                Err(Over::Refused(message))
            }
            ToExecutor::Register => {
                let registration = self.identity.registration.clone();
                say(socket, &FromExecutor::Register(registration)).await
            }
            ToExecutor::Superseded => Err(Over::Superseded),
            ToExecutor::Problem { code, message, .. } => {
                tracing::warn!(code, message, "the driver refused a message");
                Ok(())
            }
            ToExecutor::Ack | ToExecutor::Later { .. } | ToExecutor::Registered(_) => Ok(()),
        }
    }

    /// Logs as warnings the first of consecutive failures and, because the first may only be the end of a connection, the
    /// first one that needs an operator.
    fn log(&mut self, over: &Over) {
        let error = over as &dyn std::error::Error;
        let failures = self.failures;
        if failures == 1 || (over.needs_operator() && !self.needs_operator) {
            tracing::warn!(error, "no session with the driver: retrying");
        } else {
            tracing::debug!(error, failures, "no session with the driver");
        }
        self.needs_operator |= over.needs_operator();
    }

    async fn last_word(&self, socket: &mut Socket, session: u64, end: Ended) -> Over {
        let exiting = FromExecutor::Exiting(Exiting {
            session: Some(session),
            code: i32::from(end.code()),
            why: String::new(),
        });
        // The answer confirms that the message arrived. It is not needed: the container's state
        // shows the same exit code.
        if say(socket, &exiting).await.is_ok() {
            let _ = in_time(hear(socket)).await;
        }
        let _ = socket.close(None).await;
        Over::Done
    }
}

/// The agent receives at once; if it has stopped, this task ends too.
async fn tell(heard: &mpsc::Sender<Received>, what: Received) {
    let _ = heard.send(what).await;
}

async fn in_time<T>(doing: impl Future<Output = T>) -> Result<T, Over> {
    timeout(ANSWER, doing).await.map_err(|_| Over::Silence)
}

async fn connect(identity: &Identity, token: &str) -> Result<Socket, Over> {
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
fn refusal(status: u16, body: &[u8]) -> Over {
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

async fn say(socket: &mut Socket, message: &FromExecutor) -> Result<(), Over> {
    // Serialising texts and numbers cannot fail.
    let text = serde_json::to_string(message).unwrap_or_default();
    let sent = in_time(socket.send(Message::text(text))).await?;
    sent.map_err(|error| Over::Broken(Box::new(error)))
}

/// The next message. Messages of unknown types are skipped, because the driver may be newer.
async fn hear(socket: &mut Socket) -> Result<ToExecutor, Over> {
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

#[cfg(test)]
mod tests;
