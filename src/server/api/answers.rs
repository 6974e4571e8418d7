//! Bounds the memory of answers that clients are slow to read (spec O-133).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::CONTENT_TYPE;
use http_body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::server::problem::Problem;

/// The most bytes of unread answers.
pub(super) const MOST: usize = 64 << 20;

/// Answers up to this length take no room: 1,024 connections (spec O-55) hold no more of them than of all others together.
const SHORT: usize = 64 << 10;

/// How much is handed to the connection at a time.
const PIECE: usize = 16 << 10;

/// A unit of the room, in bytes.
const UNIT: usize = 1 << 10;

/// The room for unread answers.
#[derive(Debug, Clone)]
pub(super) struct Room {
    units: Arc<Semaphore>,
    /// One answer that is longer than all of it takes all.
    most: u32,
}

impl Room {
    pub fn of(bytes: usize) -> Self {
        let most = u32::try_from(bytes / UNIT).unwrap_or(u32::MAX);
        Self {
            units: Arc::new(Semaphore::new(most as usize)),
            most,
        }
    }

    fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes / UNIT).unwrap_or(u32::MAX);
        let units = units.min(self.most);
        Arc::clone(&self.units).try_acquire_many_owned(units).ok()
    }

    /// A text of which all copies together take the room of one, until the last is dropped. `None` if there is no room.
    pub fn keep(&self, mut text: Vec<u8>) -> Option<Bytes> {
        text.shrink_to_fit();
        if text.len() <= SHORT {
            return Some(text.into());
        }
        let taken = self.take(text.len())?;
        Some(Bytes::from_owner(Kept {
            text,
            _taken: taken,
        }))
    }
}

/// A text with its room.
struct Kept {
    text: Vec<u8>,
    _taken: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// Marks an answer whose text has its room already.
#[derive(Debug, Clone, Copy)]
struct Shared;

/// The answer with a JSON text that [`Room::keep`] has made. Others may be sent the same.
pub(super) fn shared(text: Bytes) -> Response {
    let mut answer = ([(CONTENT_TYPE, "application/json")], text).into_response();
    answer.extensions_mut().insert(Shared);
    answer
}

/// There is no room for an answer.
pub(super) fn full() -> Problem {
    Problem::too_many("too many answers wait to be read")
        .hint("read answers as they come, and repeat the request")
}

/// Refuses an answer for which there is no room.
pub(super) async fn bounded(
    State(room): State<Room>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let (parts, body) = next.run(request).await.into_parts();
    // Streams of events have no length, and places of their own.
    let length = body.size_hint().exact();
    let Some(length) = length.and_then(|bytes| usize::try_from(bytes).ok()) else {
        return Ok(Response::from_parts(parts, body));
    };
    if length <= SHORT {
        return Ok(Response::from_parts(parts, body));
    }
    let taken = match parts.extensions.get::<Shared>() {
        Some(Shared) => None,
        None => Some(room.take(length).ok_or_else(full)?),
    };
    // It is there already, as it has a length. A text that is shared is not copied.
    let rest = to_bytes(body, length)
        .await
        .map_err(|_| Problem::unavailable())?;
    let body = Body::new(Unread {
        rest,
        _taken: taken,
    });
    Ok(Response::from_parts(parts, body))
}

/// An answer that keeps its room until its last piece is handed over.
struct Unread {
    rest: Bytes,
    /// `None` if the text itself has it.
    _taken: Option<OwnedSemaphorePermit>,
}

impl HttpBody for Unread {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.rest.len().min(PIECE);
        // Copied: a slice would keep the whole answer in memory.
        let piece = Bytes::copy_from_slice(&self.rest.split_to(length));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use http::StatusCode;
    use tower::ServiceExt as _;

    use super::*;

    /// The answer to a request for so many KiB.
    async fn ask(router: &Router, kibibytes: usize) -> Response {
        let request = Request::get(format!("/{kibibytes}")).body(Body::empty());
        router.clone().oneshot(request.unwrap()).await.unwrap()
    }

    // spec: O-133
    #[tokio::test]
    async fn answers_that_nobody_reads_take_no_more_than_their_room() {
        let long = async |axum::extract::Path(kibibytes): axum::extract::Path<usize>| {
            vec![b'a'; kibibytes << 10]
        };
        let room = from_fn_with_state(Room::of(1 << 20), bounded);
        let router = Router::new().route("/{kibibytes}", get(long)).layer(room);
        let mut unread = Vec::new();
        for _ in 0..4 {
            unread.push(ask(&router, 250).await);
        }
        assert!(
            unread
                .iter()
                .all(|answer| answer.status() == StatusCode::OK)
        );
        let refused = ask(&router, 250).await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(
            ask(&router, 64).await.status(),
            StatusCode::OK,
            "a short one"
        );
        // Read, or given up.
        let read = to_bytes(unread.remove(0).into_body(), usize::MAX).await;
        assert_eq!(read.unwrap().len(), 250 << 10);
        let again = ask(&router, 250).await;
        assert_eq!(again.status(), StatusCode::OK);
        drop((again, unread));
        let longer_than_all = ask(&router, 4_096).await;
        assert_eq!(longer_than_all.status(), StatusCode::OK);
        let refused = ask(&router, 65).await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    }

    // spec: O-133
    #[tokio::test]
    async fn a_text_that_many_readers_share_takes_the_room_of_one_until_the_last_has_read_it() {
        let room = Room::of(1 << 20);
        let text = room.keep(vec![b'a'; 600 << 10]).unwrap();
        let router = Router::new()
            .route("/", get(async move || shared(text)))
            .layer(from_fn_with_state(room.clone(), bounded));
        let mut unread = Vec::new();
        for _ in 0..100 {
            let request = Request::get("/").body(Body::empty()).unwrap();
            unread.push(router.clone().oneshot(request).await.unwrap());
        }
        let is_json = |answer: &Response| answer.headers()[CONTENT_TYPE] == "application/json";
        let is_given = |answer: &Response| answer.status() == StatusCode::OK && is_json(answer);
        assert!(unread.iter().all(is_given));
        assert!(room.keep(vec![b'b'; 600 << 10]).is_none());
        assert!(room.keep(vec![b'b'; 400 << 10]).is_some());
        drop(router);
        let last = unread.pop().unwrap();
        drop(unread);
        assert!(room.keep(vec![b'b'; 600 << 10]).is_none(), "one is left");
        let read = to_bytes(last.into_body(), usize::MAX).await.unwrap();
        assert!(read.len() == 600 << 10 && read.iter().all(|byte| *byte == b'a'));
        assert!(room.keep(vec![b'b'; 600 << 10]).is_some());
    }
}
