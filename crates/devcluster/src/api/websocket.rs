//! Serves a watch over a WebSocket: one text frame for each event.
//!
//! The handshake follows golang.org/x/net/websocket, which real servers use. It demands an `Origin` and selects no
//! subprotocol: a client may offer one, which is accepted whatever it is. Clients written in Java watch in this way, as
//! Spark's own backend, which scripts/pictures runs beside boatswain.

use axum::extract::FromRequestParts as _;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::header::{
    CONNECTION, HeaderName, ORIGIN, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};

use super::accept::header;
use super::router::plain;
use super::watch::Watcher;
use crate::control::faults::{FaultsReader, until_unfrozen};

/// The largest message that a client may send, in bytes. Its content is ignored.
const MAX_RECEIVED: usize = 64 * 1024;

/// Whether a request asks for an upgrade of its connection to a WebSocket.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let upgrades = |part: &str| part.trim().eq_ignore_ascii_case("upgrade");
    header(headers, UPGRADE).eq_ignore_ascii_case("websocket")
        && header(headers, CONNECTION).split(',').any(upgrades)
}

/// The offered subprotocols, in order.
fn offered(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|protocol| !protocol.is_empty())
}

/// Whether Go's `url.ParseRequestURI` takes this for a URL: it is an absolute path or has a scheme.
fn is_request_uri(origin: &str) -> bool {
    let has_scheme = origin.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
    });
    has_scheme || origin.starts_with('/')
}

/// The status and text with which a handshake is refused.
type Refusal = (u16, &'static str);

/// Checks a handshake. Returns the subprotocol to answer with.
fn check(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let text = |name: HeaderName| header(headers, name);
    if text(SEC_WEBSOCKET_KEY).is_empty() {
        return Err((400, "mismatch challenge/response"));
    }
    if text(SEC_WEBSOCKET_VERSION) != "13" {
        return Err((400, "missing or bad WebSocket Version"));
    }
    match text(ORIGIN) {
        "null" => return Err((403, "null origin")),
        origin if is_request_uri(origin) => {}
        _ => return Err((403, "invalid origin")),
    }
    let mut protocols = offered(headers);
    let first = protocols.next();
    match protocols.next() {
        Some(_) => Err((400, "bad WebSocket protocol")),
        None => Ok(first),
    }
}

/// Answers a watch request that asks for a WebSocket, and serves the watch if the handshake is valid.
pub(crate) async fn serve(parts: &Parts, watcher: Watcher) -> Response {
    let protocol = match check(&parts.headers) {
        Ok(protocol) => protocol.map(str::to_owned),
        Err((code, why)) => {
            let mut response = plain(code, why);
            let version = HeaderValue::from_static("13");
            response
                .headers_mut()
                .insert(SEC_WEBSOCKET_VERSION, version);
            return response;
        }
    };
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts.clone(), &()).await;
    let mut upgrade = match upgrade {
        Ok(upgrade) => upgrade.max_message_size(MAX_RECEIVED),
        Err(refusal) => return refusal.into_response(),
    };
    if let Some(protocol) = protocol {
        upgrade = upgrade.protocols([protocol]);
    }
    let faults = parts.extensions.get::<FaultsReader>().cloned();
    upgrade
        .max_frame_size(MAX_RECEIVED)
        .on_upgrade(|socket| stream(socket, watcher, faults))
}

/// Sends events until the watch ends or the client closes the connection.
async fn stream(mut socket: WebSocket, mut watcher: Watcher, mut faults: Option<FaultsReader>) {
    loop {
        let lines = tokio::select! {
            biased;
            // Reading also answers pings.
            received = socket.recv() => match received {
                // After the client's close frame, the next read sends the answer to it and ends.
                Some(Ok(_)) => continue,
                Some(Err(_)) | None => return,
            },
            lines = watcher.next() => lines,
        };
        let Some(lines) = lines else {
            break;
        };
        if let Some(faults) = &mut faults {
            until_unfrozen(faults).await;
        }
        for frame in frames(&lines) {
            if socket.send(Message::Text(frame)).await.is_err() {
                return;
            }
        }
    }
    // If this fails, the client has closed the connection.
    let _ = socket.send(Message::Close(None)).await;
}

/// The lines of a chunk, each with its newline, as real servers send them.
fn frames(lines: &Bytes) -> impl Iterator<Item = Utf8Bytes> {
    lines
        .split_inclusive(|byte| *byte == b'\n')
        .filter_map(|line| Utf8Bytes::try_from(lines.slice_ref(line)).ok())
}
