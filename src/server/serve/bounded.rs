//! A connection that ends when its peer takes nothing for too long (spec O-57), or sends too much before it has proved who
//! it is (spec O-116).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::admission::Admitted;

/// What an unauthenticated client may send, in bytes: more than the largest requests (spec O-113). Frames of HTTP/2 that
/// belong to no request would cost time without end.
const UNPROVED: usize = 256 * 1024;

/// Fails with [`io::ErrorKind::TimedOut`] when a write makes no progress for this long.
#[derive(Debug)]
pub(super) struct Bounded<S> {
    stream: S,
    patience: Duration,
    /// What the client may still send until it is admitted; `None` once it was.
    unproved: Option<(Admitted, usize)>,
    /// Runs while a write waits.
    waits: Option<Pin<Box<Sleep>>>,
}

impl<S> Bounded<S> {
    pub(super) fn new(stream: S, patience: Duration, admitted: Admitted) -> Self {
        Self {
            stream,
            patience,
            unproved: Some((admitted, UNPROVED)),
            waits: None,
        }
    }

    /// Fails if a client that is not admitted has sent too much with these bytes.
    fn allow(&mut self, received: usize) -> io::Result<()> {
        let Some((admitted, left)) = &mut self.unproved else {
            return Ok(());
        };
        if admitted.is_client() {
            self.unproved = None;
        } else if let Some(less) = left.checked_sub(received) {
            *left = less;
        } else {
            return Err(io::Error::other("the client sends much and proves nothing"));
        }
        Ok(())
    }

    /// The outcome of a write, or a failure if it has waited for too long.
    fn in_time<T>(
        &mut self,
        outcome: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.waits = None;
            return outcome;
        }
        let patience = self.patience;
        let waits = self.waits.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(waits.as_mut().poll(cx));
        let message = "the client reads nothing";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        Poll::Ready(self.allow(buffer.filled().len() - before))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.in_time(outcome, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.in_time(outcome, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(cx);
        self.in_time(outcome, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.in_time(outcome, cx)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::Semaphore;
    use tokio::time::Instant;

    use super::super::admission::{Admission, admit};
    use super::*;

    fn unauthenticated() -> (Admission, Admitted) {
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned();
        Admission::unauthenticated(place.unwrap())
    }

    // spec: O-57
    #[tokio::test(start_paused = true)]
    async fn a_write_fails_once_nothing_is_read_for_too_long() {
        let (mut reader, far) = tokio::io::duplex(16);
        let (_admission, admitted) = unauthenticated();
        let mut writer = Bounded::new(far, Duration::from_secs(10), admitted);
        // A slow reader is waited for, however long it takes in all.
        let reading = tokio::spawn(async move {
            let mut buffer = [0; 16];
            for _ in 0..10 {
                sleep(Duration::from_secs(9)).await;
                reader.read_exact(&mut buffer).await.unwrap();
            }
            reader
        });
        writer.write_all(&[0; 160]).await.unwrap();
        let _deaf = reading.await.unwrap();
        let began = Instant::now();
        let error = writer.write_all(&[0; 160]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), 10);
    }

    // spec: O-116
    #[tokio::test]
    async fn a_client_may_send_much_only_once_it_has_proved_who_it_is() {
        for proves in [false, true] {
            let (mut client, far) = tokio::io::duplex(UNPROVED);
            let (admission, admitted) = unauthenticated();
            let mut reader = Bounded::new(far, Duration::from_secs(10), admitted);
            let mut buffer = vec![0; UNPROVED];
            client.write_all(&buffer).await.unwrap();
            reader.read_exact(&mut buffer).await.unwrap();
            if proves {
                let mut request = http::Extensions::new();
                request.insert(admission);
                admit(&request, &Arc::new(Semaphore::new(1))).unwrap();
            }
            client.write_all(&[0]).await.unwrap();
            assert_eq!(reader.read_exact(&mut [0]).await.is_ok(), proves);
        }
    }
}
