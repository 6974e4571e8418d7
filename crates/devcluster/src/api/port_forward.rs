//! Serves `pods/portforward` over a WebSocket, with the subprotocol that kubelets speak: each port has a channel for its
//! bytes and the next one for an error. Containers are processes, so a pod's ports are those of this machine, on
//! loopback. kubectl asks for SPDY, which is not served.

use std::net::Ipv4Addr;
use std::time::Duration;

use axum::extract::FromRequestParts as _;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::request::Parts;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::query::Query;
use super::status::ApiError;
use super::websocket;
use crate::objects::object::Object;

const PROTOCOL: &str = "v4.channel.k8s.io";

/// The number of a channel is one byte, and a port has two.
const MAX_PORTS: usize = 128;

/// The largest message of a client, and the most bytes that are sent in one.
const MAX_MESSAGE: usize = 64 * 1024;
const CHUNK: usize = 16 * 1024;

/// The messages that wait for a port, and for the client. A full queue holds up whoever fills it.
const QUEUE: usize = 8;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether a request is one that can be served.
pub(crate) fn is_wanted(parts: &Parts) -> bool {
    websocket::is_wanted(&parts.headers)
        && websocket::offered(&parts.headers).any(|protocol| protocol == PROTOCOL)
}

/// Answers with the upgrade, after which bytes are forwarded until the client or each port closes its connection.
///
/// # Errors
///
/// The request names no valid ports.
pub(crate) async fn serve(
    parts: &Parts,
    query: &Query,
    pod: &Object,
) -> Result<Response, ApiError> {
    let name = pod.key().name.to_string();
    let ports = ports(query.text("ports")).map_err(ApiError::bad_request)?;
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts.clone(), &()).await;
    Ok(match upgrade {
        Ok(upgrade) => upgrade
            .max_message_size(MAX_MESSAGE)
            .max_frame_size(MAX_MESSAGE)
            .protocols([PROTOCOL])
            .on_upgrade(move |socket| forward(socket, ports, name)),
        Err(refusal) => refusal.into_response(),
    })
}

fn ports(text: &str) -> Result<Vec<u16>, String> {
    if text.is_empty() {
        return Err("query parameter \"port\" is required".to_owned());
    }
    let ports: Result<Vec<u16>, String> = text
        .split(',')
        .map(|port| match port.parse() {
            Ok(0) | Err(_) => Err(format!("unable to parse {port:?} as a port")),
            Ok(number) => Ok(number),
        })
        .collect();
    let ports = ports?;
    match ports.len() {
        0..=MAX_PORTS => Ok(ports),
        _ => Err(format!("at most {MAX_PORTS} ports")),
    }
}

async fn forward(socket: WebSocket, ports: Vec<u16>, pod: String) {
    let (mut to_client, mut from_client) = socket.split();
    let (frames, mut queued) = mpsc::channel(QUEUE);
    let inputs: Vec<mpsc::Sender<Bytes>> = (0_u8..)
        .step_by(2)
        .zip(ports)
        .map(|(channel, port)| {
            let (input, from_client) = mpsc::channel(QUEUE);
            let port = Port {
                channel,
                port,
                pod: pod.clone(),
                frames: frames.clone(),
            };
            tokio::spawn(port.forward(from_client));
            input
        })
        .collect();
    drop(frames);
    let receive = async {
        while let Some(Ok(message)) = from_client.next().await {
            let Message::Binary(bytes) = message else {
                continue;
            };
            // Clients send nothing on the channels of errors.
            let input = bytes
                .first()
                .filter(|channel| **channel % 2 == 0)
                .and_then(|channel| inputs.get(usize::from(channel / 2)));
            if let Some(input) = input {
                // A port that has closed its connection has said so.
                let _ = input.send(bytes.slice(1..)).await;
            }
        }
    };
    let send = async {
        while let Some(frame) = queued.recv().await {
            if to_client.send(Message::Binary(frame)).await.is_err() {
                return;
            }
        }
        // If this fails, the client has closed the connection.
        let _ = to_client.send(Message::Close(None)).await;
    };
    tokio::select! {
        () = receive => {}
        () = send => {}
    }
}

/// A port of the pod, and where what it sends goes.
struct Port {
    channel: u8,
    port: u16,
    pod: String,
    frames: mpsc::Sender<Bytes>,
}

impl Port {
    /// Ends when the connection or the client does.
    async fn forward(self, from_client: mpsc::Receiver<Bytes>) {
        for channel in [self.channel, self.channel + 1] {
            self.send(channel, &self.port.to_le_bytes()).await;
        }
        if let Err(error) = self.exchange(from_client).await {
            let (port, pod) = (self.port, &self.pod);
            let why = format!("error forwarding port {port} to pod {pod}: {error}");
            self.send(self.channel + 1, why.as_bytes()).await;
        }
    }

    async fn exchange(&self, mut from_client: mpsc::Receiver<Bytes>) -> std::io::Result<()> {
        let connecting = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        let mut connection = timeout(CONNECT_TIMEOUT, connecting).await??;
        let (mut reads, mut writes) = connection.split();
        let upload = async {
            while let Some(bytes) = from_client.recv().await {
                writes.write_all(&bytes).await?;
            }
            Ok(())
        };
        let download = async {
            let mut chunk = vec![0; CHUNK];
            loop {
                let read = reads.read(&mut chunk).await?;
                if read == 0 || !self.send(self.channel, &chunk[..read]).await {
                    return Ok(());
                }
            }
        };
        tokio::select! {
            done = upload => done,
            done = download => done,
        }
    }

    /// Returns whether the client is there.
    async fn send(&self, channel: u8, bytes: &[u8]) -> bool {
        let frame: Bytes = [&[channel], bytes].concat().into();
        self.frames.send(frame).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_numbers_with_commas_between_them() {
        assert_eq!(ports("80,1234"), Ok(vec![80, 1234]));
        for refused in ["", "0", "65536", "-1", "http", "80,"] {
            assert!(ports(refused).is_err(), "{refused}");
        }
        assert!(ports(&vec!["1"; MAX_PORTS + 1].join(",")).is_err());
    }
}
