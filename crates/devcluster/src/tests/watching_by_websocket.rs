//! Watches over a WebSocket: clients in Java request them so.

use futures::SinkExt as _;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::DuplexStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::error::Error;
use tokio_tungstenite::tungstenite::handshake::client::Request as Handshake;
use tokio_tungstenite::{WebSocketStream, client_async};

use super::*;
use crate::Server;
use crate::control::faults::{Faults, inject_faults};

/// A client's end of a connection that the cluster serves without a network.
fn connect(router: axum::Router) -> DuplexStream {
    let (client, server) = tokio::io::duplex(64 * 1024);
    let service = TowerToHyperService::new(router);
    tokio::spawn(async move {
        hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(server), service)
            .with_upgrades()
            .await
    });
    client
}

/// The handshake that clients send, with their origin.
fn handshake(path: &str) -> Handshake {
    let mut request = format!("ws://localhost{path}")
        .into_client_request()
        .expect("a request");
    let origin = "http://localhost".parse().expect("a header");
    request.headers_mut().insert("origin", origin);
    request
}

struct Socket(WebSocketStream<DuplexStream>);

async fn open(cluster: &DevCluster, path: &str) -> Socket {
    let opened = client_async(handshake(path), connect(cluster.router())).await;
    Socket(opened.expect("an upgrade").0)
}

impl Socket {
    async fn next(&mut self) -> Message {
        let message = timeout(SOON * 10, self.0.next()).await;
        message
            .expect("something happens")
            .expect("a message")
            .expect("no error")
    }

    /// The type of the next event and the name of its object.
    async fn next_named(&mut self) -> (String, String) {
        let event = self.next_event().await;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (
            text(&event["type"]),
            text(&event["object"]["metadata"]["name"]),
        )
    }

    async fn next_event(&mut self) -> Value {
        match self.next().await {
            Message::Text(text) => serde_json::from_str(&text).expect("one event for each frame"),
            other => panic!("no text: {other:?}"),
        }
    }

    async fn next_is_close(&mut self) {
        let message = self.next().await;
        assert!(matches!(message, Message::Close(_)), "{message:?}");
    }
}

/// The answer to a handshake that is refused.
async fn refused_handshake(
    cluster: &DevCluster,
    request: Handshake,
) -> http::Response<Option<Vec<u8>>> {
    match client_async(request, connect(cluster.router())).await {
        Err(Error::Http(response)) => *response,
        other => panic!("not refused: {:?}", other.map(|(_, response)| response)),
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_by_websocket_sends_each_event_as_a_text_frame() {
    let cluster = cluster();
    create(&cluster, "a").await;
    create(&cluster, "b").await;
    for path in [pods("?watch=1"), "/api/v1/pods?watch=1".to_owned()] {
        let mut socket = open(&cluster, &path).await;
        assert_eq!(socket.next_named().await, named("ADDED", "a"));
        assert_eq!(socket.next_named().await, named("ADDED", "b"));
    }
    let mut socket = open(&cluster, &pods("?watch=1&resourceVersion=1001")).await;
    assert_eq!(socket.next_named().await, named("ADDED", "b"));
    delete(&cluster, &pods("/a")).await;
    assert_eq!(socket.next_named().await, named("MODIFIED", "a"));
    assert_eq!(socket.next_named().await, named("DELETED", "a"));
}

#[tokio::test]
async fn a_watch_by_websocket_works_over_a_socket_too() {
    let cluster = super::super::start(Options {
        token: Some("own".to_owned()),
        ..options()
    });
    let server = Server::bind(cluster.clone(), ([127, 0, 0, 1], 0).into()).await;
    let server = server.expect("a server");
    let address = server.address();
    tokio::spawn(server.run());
    let mut request = handshake(&pods("?watch=1&timeoutSeconds=1"));
    let token = "Bearer own".parse().expect("a value");
    request.headers_mut().insert("authorization", token);
    let stream = tokio::net::TcpStream::connect(address).await;
    let opened = client_async(request, stream.expect("connected")).await;
    let (mut socket, answer) = opened.expect("an upgrade");
    assert_eq!(answer.status(), 101);
    let router = cluster.router();
    let request = Request::post(pods("")).header("authorization", "Bearer own");
    let request = request.body(Body::from(pod("a").to_string()));
    let created = router.oneshot(request.expect("a request")).await;
    assert_eq!(created.expect("an answer").status(), 201);
    let event = socket.next().await.expect("an event").expect("no error");
    assert!(event.is_text(), "{event:?}");
    let end = socket.next().await.expect("the end").expect("no error");
    assert!(end.is_close(), "{end:?}");
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_by_websocket_ends_at_its_timeout_after_a_bookmark() {
    let cluster = cluster();
    let path = pods("?watch=1&timeoutSeconds=10&allowWatchBookmarks=true");
    let mut socket = open(&cluster, &path).await;
    let began = tokio::time::Instant::now();
    assert_eq!(socket.next_event().await["type"], "BOOKMARK");
    assert_eq!(began.elapsed().as_secs(), 8);
    socket.next_is_close().await;
    assert_eq!(began.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_watch_by_websocket_from_an_expired_version_gets_an_error_event_and_is_closed() {
    let cluster = cluster();
    create(&cluster, "a").await;
    cluster.compact().await;
    let mut socket = open(&cluster, &pods("?watch=1&resourceVersion=1")).await;
    let error = socket.next_event().await;
    assert_eq!(
        (&error["type"], &error["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    socket.next_is_close().await;
}

#[tokio::test(start_paused = true)]
async fn cut_watches_close_websockets() {
    let cluster = cluster();
    let mut socket = open(&cluster, &pods("?watch=1")).await;
    cluster.cut_watches().await;
    socket.next_is_close().await;
}

#[tokio::test(start_paused = true)]
async fn a_frozen_api_sends_nothing_over_websockets() {
    let cluster = cluster();
    let (faults, reader) = tokio::sync::watch::channel(Faults::default());
    let router = cluster.router();
    let router = router.layer(axum::middleware::from_fn_with_state(reader, inject_faults));
    let opened = client_async(handshake(&pods("?watch=1")), connect(router)).await;
    let mut socket = Socket(opened.expect("an upgrade").0);
    faults.send_modify(|faults| faults.frozen = true);
    create(&cluster, "a").await;
    let quiet = timeout(SOON, socket.0.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    faults.send_modify(|faults| faults.frozen = false);
    assert_eq!(socket.next_named().await, named("ADDED", "a"));
}

#[tokio::test(start_paused = true)]
async fn pings_are_answered_and_messages_ignored_up_to_a_size() {
    let cluster = cluster();
    let mut socket = open(&cluster, &pods("?watch=1")).await;
    let text = Message::text("x".repeat(1000));
    socket.0.send(text).await.expect("sent");
    let ping = Message::Ping("there?".into());
    socket.0.send(ping).await.expect("sent");
    assert_eq!(socket.next().await, Message::Pong("there?".into()));
    create(&cluster, "a").await;
    assert_eq!(socket.next_named().await, named("ADDED", "a"));
    let large = Message::text("x".repeat(1024 * 1024));
    // The server may close the connection before it has read everything.
    let _ = socket.0.send(large).await;
    let ended = timeout(SOON, socket.0.next()).await.expect("it ends");
    assert!(
        matches!(ended, None | Some(Err(_) | Ok(Message::Close(_)))),
        "{ended:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_its_websocket_client_closes() {
    let cluster = cluster();
    let mut socket = open(&cluster, &pods("?watch=1")).await;
    socket.0.close(None).await.expect("closed");
    socket.next_is_close().await;
    assert!(socket.0.next().await.is_none(), "the connection ends");
}

#[tokio::test(start_paused = true)]
async fn a_handshake_is_refused_as_real_servers_refuse_it() {
    let cluster = cluster();
    for (header, value, code) in [
        ("origin", None, 403),
        ("origin", Some("null"), 403),
        ("origin", Some("localhost"), 403),
        ("sec-websocket-version", Some("8"), 400),
        ("sec-websocket-protocol", Some("a, b"), 400),
    ] {
        let mut request = handshake(&pods("?watch=1"));
        match value {
            Some(value) => {
                let value = value.parse().expect("a value");
                request.headers_mut().insert(header, value);
            }
            None => drop(request.headers_mut().remove(header)),
        }
        // The client refuses to send a handshake of another version itself.
        let (parts, ()) = request.into_parts();
        let request = Request::from_parts(parts, Body::empty());
        let answer = cluster.router().oneshot(request).await.expect("an answer");
        assert_eq!(answer.status().as_u16(), code, "{header} {value:?}");
    }
    let answer = refused_handshake(&cluster, handshake(&pods("?watch=1&resourceVersion=x"))).await;
    assert_eq!(answer.status(), 500, "the parameters are read first");
    let mut request = handshake(&pods("?watch=1"));
    request.headers_mut().remove("sec-websocket-key");
    let request = Request::from_parts(request.into_parts().0, Body::empty());
    let answer = cluster.router().oneshot(request).await.expect("an answer");
    assert_eq!(answer.status(), 400);
    assert_eq!(answer.headers()["sec-websocket-version"], "13");
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_the_connection_header_does_not_name_is_no_websocket() {
    let cluster = cluster();
    let mut request = handshake(&pods("?watch=1"));
    let close = "keep-alive".parse().expect("a value");
    request.headers_mut().insert("connection", close);
    let request = Request::from_parts(request.into_parts().0, Body::empty());
    let answer = cluster.router().oneshot(request).await.expect("an answer");
    assert_eq!(answer.status(), 200);
}
