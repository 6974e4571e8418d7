//! Runs a session over a WebSocket: forwards the executor's messages to ExecutorRegistry one at a
//! time, and ExecutorRegistry's messages to the executor. A silent or slow executor does not delay
//! others (spec O-50).

use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use http::HeaderMap;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::{ANSWER, PATIENCE, Sessions};
use crate::actors::executor_registry::ExecutorRegistry;
use crate::actors::executor_registry::messages::{Lost, Open, Opened, Outgoing, Say};
use crate::actors::executor_registry::rate::{Rate, Used};
use crate::actors::executor_registry::registry::{ConnectionId, Proof, Via};
use crate::metrics::Metrics;
use crate::model::Tick;
use crate::server::problem::Problem;
use boatswain_agent::protocol::{MESSAGE_LIMIT, ToExecutor, read};

/// The size of read and write buffers, in bytes. Messages are short, and each of ten thousand
/// sessions has such buffers.
const BUFFER: usize = 2 * 1024;

/// How fast the frames of a session are read. An executor's messages are bounded further (spec
/// O-56); this bounds what is no message as well.
const READING: Rate = Rate {
    burst: 100,
    interval: Duration::from_millis(50),
};

/// Upgrades to a WebSocket once the token has been verified.
pub(super) async fn open(
    State(sessions): State<Sessions>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let admission = sessions.admission;
    let proof = admission.authenticate(&headers).await?;
    let upgrade = upgrade.map_err(|error| {
        Problem::bad_request(format!("a WebSocket is opened here: {error}"))
            .hint("without one, post messages to /v1/session/messages")
    })?;
    let room = Arc::clone(&admission.sockets).try_acquire_owned();
    let room = room.map_err(|_| Problem::too_many("the limit of open sessions is reached"))?;
    let upgrade = upgrade
        .read_buffer_size(BUFFER)
        .write_buffer_size(0)
        .max_write_buffer_size(64 * 1024)
        .max_message_size(MESSAGE_LIMIT)
        .max_frame_size(MESSAGE_LIMIT);
    Ok(upgrade.on_upgrade(async move |socket| {
        let proof = Arc::new(proof);
        let open = Open {
            proof: Arc::clone(&proof),
        };
        let Ok(Opened {
            connection,
            outgoing,
        }) = admission.registry.send(open).await
        else {
            return;
        };
        let session = Session {
            proof,
            connection,
            registry: admission.registry,
            metrics: admission.metrics,
            socket,
            registered: false,
            register_by: Instant::now() + PATIENCE,
            opened: Instant::now(),
            read: Used::default(),
            _room: room,
        };
        session.run(outgoing, admission.end).await;
    }))
}

/// The next frame, not read before this time.
async fn next(socket: &mut WebSocket, from: Instant) -> Option<Result<Message, axum::Error>> {
    sleep_until(from).await;
    socket.recv().await
}

/// A session from its opening to its end. ExecutorRegistry is informed of the end in every case.
struct Session {
    proof: Arc<Proof>,
    connection: ConnectionId,
    registry: Addr<ExecutorRegistry>,
    metrics: Metrics,
    socket: WebSocket,
    registered: bool,
    /// When the connection is closed if nobody has registered. An executor that is asked to wait has more time.
    register_by: Instant,
    opened: Instant,
    /// Of the rate at which its frames are read.
    read: Used,
    _room: OwnedSemaphorePermit,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.registry.do_send(Lost(self.connection));
    }
}

/// The WebSocket close code and reason with which a session ends.
type End = Option<(u16, &'static str)>;

impl Session {
    async fn run(mut self, mut outgoing: mpsc::Receiver<Outgoing>, end: CancellationToken) {
        let mut read_from = self.opened;
        let why = loop {
            let went = tokio::select! {
                biased;
                () = end.cancelled() => Err(Some((close_code::AWAY, "the driver ends"))),
                told = outgoing.recv() => match told {
                    Some(Outgoing::Say(message)) => self.say(&message).await,
                    Some(Outgoing::Close) => Err(Some((close_code::NORMAL, "the session is over"))),
                    None => Err(Some((close_code::POLICY, "too much was left unread"))),
                },
                () = sleep_until(self.register_by), if !self.registered => {
                    Err(Some((close_code::POLICY, "nobody has registered")))
                }
                heard = next(&mut self.socket, read_from) => match heard {
                    Some(Ok(message)) => {
                        read_from = self.pace();
                        self.hear(message).await
                    }
                    Some(Err(error)) => Err(self.unreadable(&error).await),
                    None => Err(None),
                },
            };
            if let Err(why) = went {
                break why;
            }
        };
        if let Some((code, reason)) = why {
            let reason = reason.into();
            let frame = Message::Close(Some(CloseFrame { code, reason }));
            // An executor that does not read this in time is disconnected.
            let _ = timeout(PATIENCE, self.socket.send(frame)).await;
        }
    }

    /// When the next frame may be read. Until then the executor waits with what it sends.
    fn pace(&mut self) -> Instant {
        let now = Tick::after_start(self.opened.elapsed());
        Instant::now() + READING.delay(&mut self.read, now)
    }

    async fn hear(&mut self, message: Message) -> Result<(), End> {
        let message = match &message {
            Message::Text(text) => read(text.as_bytes()),
            Message::Binary(bytes) => read(bytes),
            // The WebSocket library answers these itself; after a close the stream ends.
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) => return Ok(()),
        };
        let message = match message {
            Ok(message) => message,
            Err(misread) => {
                let code = misread.code;
                self.metrics.refused.of([code.into()]).inc();
                return self.say(&misread.answer()).await;
            }
        };
        let say = Say {
            proof: Arc::clone(&self.proof),
            via: Via::Connection(self.connection),
            message,
        };
        let answers = match timeout(ANSWER, self.registry.send(say)).await {
            Ok(Ok(answers)) => answers,
            Ok(Err(_)) | Err(_) => {
                return Err(Some((close_code::AGAIN, "the driver does not answer")));
            }
        };
        for answer in &answers {
            self.registered |= matches!(answer, ToExecutor::Registered(_));
            if let ToExecutor::Later { in_ms } = answer {
                let wait = Duration::from_millis(*in_ms);
                self.register_by = Instant::now() + wait + PATIENCE;
            }
            self.say(answer).await?;
        }
        Ok(())
    }

    async fn say(&mut self, message: &ToExecutor) -> Result<(), End> {
        // Serialising texts and numbers cannot fail.
        let text = serde_json::to_string(message).unwrap_or_default();
        match timeout(PATIENCE, self.socket.send(Message::Text(text.into()))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(None),
        }
    }

    /// Ends the session after a frame that could not be decoded, because the start of the next
    /// message is unknown.
    async fn unreadable(&mut self, error: &axum::Error) -> End {
        let error = error.to_string();
        tracing::debug!(error, "a session sent a frame that could not be decoded");
        let code = "unreadable";
        let told = self.say(&ToExecutor::problem(code, error)).await;
        // If even this cannot be sent, the connection is broken, and no message was at fault.
        if told.is_ok() {
            self.metrics.refused.of([code.into()]).inc();
        }
        told.err()
            .flatten()
            .or(Some((close_code::POLICY, "a message could not be read")))
    }
}
