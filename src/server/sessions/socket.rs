//! A session over a WebSocket: what the executor says goes to ExecutorRegistry one message at a time, what it is told comes
//! from there; and neither a silent nor a slow one holds up anybody else (spec O-50).

use std::sync::Arc;

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
use crate::actors::executor_registry::messages::{Lost, NotTakenIn, Open, Opened, Outgoing, Say};
use crate::actors::executor_registry::registry::{ConnectionId, Proof, Via};
use crate::server::problem::Problem;
use boatswain_agent::protocol::{MESSAGE_LIMIT, ToExecutor, read};

/// An executor says little at a time; ten thousand of them have such a buffer each.
const BUFFER: usize = 2 * 1024;

/// Opens a session, once its token proves something.
pub(super) async fn open(
    State(sessions): State<Sessions>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let door = sessions.door;
    let proof = door.admit(&headers).await?;
    let upgrade = upgrade.map_err(|error| {
        Problem::bad_request(format!("a WebSocket is opened here: {error}"))
            .hint("without one, post messages to /v1/session/messages")
    })?;
    let room = Arc::clone(&door.room).try_acquire_owned();
    let room = room.map_err(|_| Problem::too_many("no more sessions can be open here"))?;
    let upgrade = upgrade
        .read_buffer_size(BUFFER)
        .write_buffer_size(0)
        .max_write_buffer_size(64 * 1024)
        .max_message_size(MESSAGE_LIMIT)
        .max_frame_size(MESSAGE_LIMIT);
    Ok(upgrade.on_upgrade(async move |socket| {
        let Ok(Opened {
            connection,
            outgoing,
        }) = door.registry.send(Open).await
        else {
            return;
        };
        let session = Session {
            proof: Arc::new(proof),
            connection,
            registry: door.registry,
            socket,
            registered: false,
            _room: room,
        };
        session.run(outgoing, door.end).await;
    }))
}

/// A session, from its opening to its end. However that comes about, ExecutorRegistry hears of it.
struct Session {
    proof: Arc<Proof>,
    connection: ConnectionId,
    registry: Addr<ExecutorRegistry>,
    socket: WebSocket,
    registered: bool,
    _room: OwnedSemaphorePermit,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.registry.do_send(Lost(self.connection));
    }
}

/// Why a session goes no further, as the WebSocket's close frame says it.
type End = Option<(u16, &'static str)>;

impl Session {
    async fn run(mut self, mut outgoing: mpsc::Receiver<Outgoing>, end: CancellationToken) {
        let register_by = Instant::now() + PATIENCE;
        let why = loop {
            let went = tokio::select! {
                biased;
                () = end.cancelled() => Err(Some((close_code::AWAY, "the driver ends"))),
                told = outgoing.recv() => match told {
                    Some(Outgoing::Say(message)) => self.say(&message).await,
                    Some(Outgoing::Close) => Err(Some((close_code::NORMAL, "the session is over"))),
                    None => Err(Some((close_code::POLICY, "too much was left unread"))),
                },
                () = sleep_until(register_by), if !self.registered => {
                    Err(Some((close_code::POLICY, "nobody has registered")))
                }
                heard = self.socket.recv() => match heard {
                    Some(Ok(message)) => self.hear(message).await,
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
            // Whoever does not take even that in is cut off.
            let _ = timeout(PATIENCE, self.socket.send(frame)).await;
        }
    }

    async fn hear(&mut self, message: Message) -> Result<(), End> {
        let message = match &message {
            Message::Text(text) => read(text.as_bytes()),
            Message::Binary(bytes) => read(bytes),
            // These the WebSocket answers by itself; the end of the stream follows.
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) => return Ok(()),
        };
        let message = match message {
            Ok(message) => message,
            Err(misread) => {
                let code = misread.code;
                self.registry.do_send(NotTakenIn { code });
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
            self.say(answer).await?;
        }
        Ok(())
    }

    async fn say(&mut self, message: &ToExecutor) -> Result<(), End> {
        // Of texts and numbers it can always be made.
        let text = serde_json::to_string(message).unwrap_or_default();
        match timeout(PATIENCE, self.socket.send(Message::Text(text.into()))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(None),
        }
    }

    /// What could not be read at all ends the session, for nobody knows where the next message begins.
    async fn unreadable(&mut self, error: &axum::Error) -> End {
        let error = error.to_string();
        tracing::debug!(error, "a session could not be read any further");
        let code = "unreadable";
        let told = self.say(&ToExecutor::problem(code, error)).await;
        // Over a connection that broke off nobody has said anything.
        if told.is_ok() {
            self.registry.do_send(NotTakenIn { code });
        }
        told.err()
            .flatten()
            .or(Some((close_code::POLICY, "a message could not be read")))
    }
}
