//! HTTP/2, for clients that choose it in the TLS handshake (spec O-53): many requests and event streams over one
//! connection, of which a browser opens only a few.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::Request;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use tower::Service;
use tower::util::MapRequest;

/// The most requests at a time over one connection, event streams included.
const STREAMS: u32 = 32;

/// The largest header of a request, in bytes, as [RFC 9113] counts it.
///
/// [RFC 9113]: https://www.rfc-editor.org/rfc/rfc9113#section-6.5.2
const HEADER: u32 = 16 * 1024;

/// What is received of a request's body before it is read, and of all bodies of a connection, in bytes. The largest body
/// has 64 KiB (spec O-113).
const WINDOW: u32 = 64 * 1024;

/// The interval between pings, and the time for their answer. They end connections of machines that are gone.
const PING: Duration = Duration::from_secs(10);

/// How long a connection serves new requests. A client that lets answers wait in the driver, for it gives them no room,
/// keeps them there for this long at most; others reconnect without an error.
const AGE: Duration = Duration::from_secs(3600);

/// How long requests may take after that.
const GRACE: Duration = Duration::from_secs(30);

/// How much is received of a body that nobody reads, in bytes, and for how long. A request may be refused before its body
/// is there. If its stream were reset then, curl and others would show an error instead of the answer.
const UNREAD_BODY: usize = 64 * 1024;
const UNREAD_BODY_TIME: Duration = Duration::from_secs(2);

/// Serves a connection until it ends, or has its age.
pub(super) async fn talk<S, C>(connection: C, service: S)
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Body>, Response = Response, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
{
    let service = MapRequest::new(service, |request: Request<Incoming>| {
        request.map(|body| Body::new(Received(Some(body))))
    });
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADER)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING);
    let service = TowerToHyperService::new(service);
    let mut talking = pin!(builder.serve_connection(TokioIo::new(connection), service));
    let ended = tokio::select! {
        biased;
        ended = talking.as_mut() => ended,
        () = sleep(AGE) => {
            talking.as_mut().graceful_shutdown();
            timeout(GRACE, talking).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended with an error");
    }
}

/// A request's body. What is left of it when it is dropped is received and discarded.
struct Received(Option<Incoming>);

impl HttpBody for Received {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.0 {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0
            .as_ref()
            .map_or_else(SizeHint::default, HttpBody::size_hint)
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        let unread = self.0.take().filter(|body| !body.is_end_stream());
        // There is no runtime any more when the process ends.
        if let (Some(body), Ok(runtime)) = (unread, Handle::try_current()) {
            runtime.spawn(timeout(UNREAD_BODY_TIME, discard(body)));
        }
    }
}

async fn discard(mut body: Incoming) {
    let mut received = 0;
    while let Some(Ok(frame)) = body.frame().await {
        received += frame.data_ref().map_or(0, Bytes::len);
        if received > UNREAD_BODY {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::{get, put};
    use futures::stream;
    use http::StatusCode;
    use hyper::client::conn::http2::{SendRequest, handshake};
    use tokio::io::{AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::task::JoinHandle;
    use tokio::time::Instant;

    use super::*;

    /// Serves the far end: a greeting, and a stream of events that never ends.
    fn served(far: DuplexStream) -> JoinHandle<()> {
        let events = async || {
            let event = async |()| {
                sleep(Duration::from_secs(1)).await;
                Some((Ok::<_, Infallible>("event"), ()))
            };
            Body::from_stream(stream::unfold((), event))
        };
        let router = Router::new()
            .route("/", get(async || "hello"))
            .route("/events", get(events))
            .route("/refused", put(async || StatusCode::FORBIDDEN));
        tokio::spawn(talk(far, router))
    }

    async fn client() -> (SendRequest<Body>, JoinHandle<()>) {
        let (near, far) = duplex(64 * 1024);
        let serving = served(far);
        let near = TokioIo::new(near);
        let (sender, connection) = handshake(TokioExecutor::new(), near).await.unwrap();
        tokio::spawn(connection);
        (sender, serving)
    }

    async fn ask(sender: &mut SendRequest<Body>, path: &str) -> Response<Incoming> {
        let uri = format!("http://driver{path}");
        let request = Request::builder().uri(uri).body(Body::empty()).unwrap();
        sender.send_request(request).await.unwrap()
    }

    // spec: O-53
    #[tokio::test(start_paused = true)]
    async fn event_streams_and_requests_share_one_connection() {
        let (mut sender, _serving) = client().await;
        let mut streams = Vec::new();
        for _ in 0..10 {
            let mut events = ask(&mut sender, "/events").await.into_body();
            let first = events.frame().await.unwrap().unwrap();
            assert_eq!(first.into_data().unwrap(), "event");
            streams.push(events);
        }
        let answer = ask(&mut sender, "/").await.into_body();
        assert_eq!(answer.collect().await.unwrap().to_bytes(), "hello");
    }

    // spec: O-53
    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_refused_before_its_body_is_there_is_answered_and_not_reset() {
        let (mut sender, _serving) = client().await;
        let (sent, mut all) = tokio::sync::mpsc::channel(1);
        let parts = stream::unfold(0, move |part| {
            let sent = sent.clone();
            async move {
                sleep(Duration::from_millis(100)).await;
                if part == 3 {
                    sent.send(()).await.unwrap();
                    return None;
                }
                Some((Ok::<_, Infallible>("part"), part + 1))
            }
        });
        let request = Request::put("http://driver/refused").body(Body::from_stream(parts));
        let answer = sender.send_request(request.unwrap()).await.unwrap();
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
        // With a reset the client would not send the rest.
        all.recv().await.unwrap();
    }

    // spec: O-126
    #[tokio::test(start_paused = true)]
    async fn a_connection_whose_client_answers_no_ping_ends() {
        let (mut near, far) = duplex(64 * 1024);
        let serving = served(far);
        // The preface, and settings that set nothing.
        near.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
            .await
            .unwrap();
        let began = Instant::now();
        serving.await.unwrap();
        assert!(began.elapsed() <= 2 * PING + Duration::from_secs(1));
    }

    // spec: O-126
    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_at_its_age_and_what_is_still_answered_has_its_time() {
        let (mut sender, serving) = client().await;
        let mut events = ask(&mut sender, "/events").await.into_body();
        let began = Instant::now();
        let mut last = began;
        while let Some(Ok(_)) = events.frame().await {
            last = Instant::now();
        }
        serving.await.unwrap();
        let lasted = last - began;
        assert!(
            lasted > AGE && lasted <= AGE + GRACE,
            "events came for {lasted:?}"
        );
    }
}
