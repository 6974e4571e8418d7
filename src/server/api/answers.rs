//! Bounds the memory of answers that clients are slow to read (spec O-133).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
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
    let Some(taken) = room.take(length) else {
        return Err(Problem::too_many("too many answers wait to be read")
            .hint("read answers as they come, and repeat the request"));
    };
    // It is there already, as it has a length.
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
    _taken: OwnedSemaphorePermit,
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
}
