//! The stream of events, which is opened again when its connection breaks.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt as _;
use tokio::time::{sleep, timeout};

use crate::client::{Body, Client, ClientError};
use crate::types::Event;

/// The driver sends something at least every 15 s; after this time the connection is considered
/// dead.
const SILENCE: Duration = Duration::from_secs(45);

/// The delay before reconnecting.
const AGAIN: Duration = Duration::from_secs(1);

/// The longest line of the stream, in bytes: the list of all live executors is one line.
const LONGEST: usize = 64 << 20;

/// The events of a driver, and of its successors.
pub struct Events<'a> {
    client: &'a Client,
    last: Option<String>,
    /// `None` after the connection broke.
    stream: Option<Body>,
    lines: Lines,
    ready: VecDeque<Message>,
}

impl Client {
    /// Opens the stream of events: after the event with this id, or with `living`, the list of live executors, first.
    ///
    /// # Errors
    ///
    /// The driver cannot be reached, or refuses.
    pub async fn events(&self, after: Option<&str>) -> Result<Events<'_>, ClientError> {
        Ok(Events {
            stream: Some(self.stream(after).await?),
            client: self,
            last: after.map(str::to_owned),
            lines: Lines::default(),
            ready: VecDeque::new(),
        })
    }
}

impl Events<'_> {
    /// Waits for the next message. `None`: the connection broke; the next call waits until a driver answers again, and
    /// goes on after the last message. It can be cancelled at any time without losing a message.
    ///
    /// # Errors
    ///
    /// The driver refuses.
    pub async fn next(&mut self) -> Result<Option<Message>, ClientError> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                if message.id.is_some() {
                    self.last.clone_from(&message.id);
                }
                return Ok(Some(message));
            }
            let Some(stream) = &mut self.stream else {
                self.reconnect().await?;
                continue;
            };
            match timeout(SILENCE, stream.frame()).await {
                Ok(Some(Ok(frame))) if self.lines.rest.len() <= LONGEST => {
                    if let Ok(data) = frame.into_data() {
                        self.ready.extend(self.lines.feed(&data));
                    }
                }
                _ => {
                    self.stream = None;
                    self.lines = Lines::default();
                    return Ok(None);
                }
            }
        }
    }

    async fn reconnect(&mut self) -> Result<(), ClientError> {
        loop {
            sleep(AGAIN).await;
            match self.client.stream(self.last.as_deref()).await {
                Ok(stream) => {
                    self.stream = Some(stream);
                    return Ok(());
                }
                Err(ClientError::Unreachable { .. }) => {}
                // It starts, or has too many readers.
                Err(ClientError::Refused { status, .. })
                    if [
                        StatusCode::SERVICE_UNAVAILABLE,
                        StatusCode::TOO_MANY_REQUESTS,
                    ]
                    .contains(&status) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A server-sent event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// The place in the stream, after which it can be resumed.
    pub id: Option<String>,
    /// A JSON object.
    pub data: String,
}

impl Message {
    /// The message as an event. What else it has is in [`Event::more`]. The message `living`, which begins a stream, has no
    /// id of its own, but the executors that are alive.
    ///
    /// # Errors
    ///
    /// The driver is of another version.
    pub fn event(&self) -> Result<Event, serde_json::Error> {
        serde_json::from_str(&self.data)
    }
}

/// Parses a stream of server-sent events that arrives in chunks.
#[derive(Debug, Default)]
struct Lines {
    rest: Vec<u8>,
    message: Message,
}

impl Lines {
    /// The messages that this chunk completes.
    fn feed(&mut self, piece: &Bytes) -> Vec<Message> {
        let mut messages = Vec::new();
        for byte in piece {
            if *byte != b'\n' {
                self.rest.push(*byte);
                continue;
            }
            let line = std::mem::take(&mut self.rest);
            let line = String::from_utf8_lossy(&line);
            match line.trim_end_matches('\r').split_once(':') {
                None if line.trim().is_empty() => {
                    let message = std::mem::take(&mut self.message);
                    if !message.data.is_empty() {
                        messages.push(message);
                    }
                }
                Some(("id", id)) => self.message.id = Some(id.trim().to_owned()),
                Some(("data", data)) => {
                    if !self.message.data.is_empty() {
                        self.message.data.push('\n');
                    }
                    self.message
                        .data
                        .push_str(data.strip_prefix(' ').unwrap_or(data));
                }
                // Comments are keep-alives; other fields are not used.
                Some(_) | None => {}
            }
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: B-50
    #[test]
    fn messages_are_put_together_from_any_pieces() {
        let text = b": alive\n\nid: 1-1\nevent: began\ndata: {\"a\":1}\n\nid: 1-2\r\ndata: x\ndata: y\r\n\r\ndata: cut";
        let want = [
            Message {
                id: Some("1-1".to_owned()),
                data: "{\"a\":1}".to_owned(),
            },
            Message {
                id: Some("1-2".to_owned()),
                data: "x\ny".to_owned(),
            },
        ];
        for size in [1, 2, 7, text.len()] {
            let mut lines = Lines::default();
            let messages: Vec<Message> = text
                .chunks(size)
                .flat_map(|piece| lines.feed(&Bytes::copy_from_slice(piece)))
                .collect();
            assert_eq!(messages, want, "pieces of {size}");
        }
    }
}
