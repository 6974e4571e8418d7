//! `boatswain events`: prints the stream of events, and reconnects when the connection breaks.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::client::{AskError, Body, Client};
use super::tables;
use crate::cli::{complain, say};
use crate::exit::Exit;

/// The driver sends something at least every 15 s; after this time the connection is considered
/// dead.
const SILENCE: Duration = Duration::from_secs(45);

/// The delay before reconnecting.
const AGAIN: Duration = Duration::from_secs(1);

/// The longest line of the stream, in bytes: the list of all live executors is one line.
const LONGEST: usize = 64 << 20;

/// Prints events until interrupted. If the driver disappears, waits for it to return.
pub async fn follow(
    client: &Client,
    mut last: Option<String>,
    as_json: bool,
) -> Result<Exit, AskError> {
    // The first connection must succeed, so that a wrong address is reported at once.
    let mut stream = client.stream("/v1/events", last.as_deref()).await?;
    loop {
        let exit = read(&mut stream, &mut last, as_json).await;
        if exit != Exit::Clean {
            return Ok(exit);
        }
        complain("the stream has ended; waiting for the driver");
        stream = loop {
            sleep(AGAIN).await;
            match client.stream("/v1/events", last.as_deref()).await {
                Ok(stream) => break stream,
                Err(AskError::Unreachable { .. }) => {}
                Err(error) => return Err(error),
            }
        };
    }
}

async fn read(stream: &mut Body, last: &mut Option<String>, as_json: bool) -> Exit {
    let mut lines = Lines::default();
    while let Ok(Some(Ok(frame))) = timeout(SILENCE, stream.frame()).await {
        let Ok(data) = frame.into_data() else {
            continue;
        };
        for message in lines.feed(&data) {
            if let Some(id) = message.id {
                *last = Some(id);
            }
            let shown = match serde_json::from_str::<Value>(&message.data) {
                Ok(event) if !as_json => tables::event(&event),
                _ => message.data,
            };
            let exit = say(shown);
            if exit != Exit::Clean {
                return exit;
            }
        }
        if lines.rest.len() > LONGEST {
            break;
        }
    }
    Exit::Clean
}

/// A server-sent event.
#[derive(Debug, Default, PartialEq, Eq)]
struct Message {
    id: Option<String>,
    data: String,
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
