//! An accepted connection. It is closed if its client does not authenticate in time, or to make room for others: clients
//! without a token must not take the descriptors of those that have one.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

/// A client must send its first request with valid credentials within this time after it has connected.
pub const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(30);

pub type Stream = Either<TcpStream, TlsStream<TcpStream>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Pending,
    Authenticated,
    Closed,
}

/// Whether the client of a connection has authenticated. Clones are handles to the same connection.
#[derive(Clone, Debug)]
pub struct Authentication(watch::Sender<State>);

impl Authentication {
    /// The client has sent no valid credentials yet, and is still connected.
    pub fn is_pending(&self) -> bool {
        *self.0.borrow() == State::Pending && !self.0.is_closed()
    }

    /// The client has sent valid credentials.
    pub fn succeeded(&self) {
        self.finish(State::Authenticated);
    }

    /// Closes the connection, unless its client has authenticated.
    pub fn close(&self) {
        self.finish(State::Closed);
    }

    fn finish(&self, state: State) {
        self.0.send_if_modified(|now| {
            let is_pending = *now == State::Pending;
            if is_pending {
                *now = state;
            }
            is_pending
        });
    }
}

/// Waits until the client has authenticated; false if the connection is to be closed instead.
pub type Deadline = Pin<Box<dyn Future<Output = bool> + Send>>;

/// The authentication of a new connection, and its deadline.
pub fn pending() -> (Authentication, Deadline) {
    let (sender, mut state) = watch::channel(State::Pending);
    let deadline = async move {
        let finished = state.wait_for(|state| *state != State::Pending);
        let finished = timeout(AUTHENTICATION_TIMEOUT, finished).await;
        matches!(finished, Ok(Ok(state)) if *state == State::Authenticated)
    };
    (Authentication(sender), Box::pin(deadline))
}

/// A connection that is ready for requests.
pub struct Connection {
    stream: Stream,
    authentication: Authentication,
    /// `None` after the client has authenticated.
    deadline: Option<Deadline>,
    is_closed: bool,
}

impl Connection {
    pub fn new(stream: Stream, authentication: Authentication, deadline: Deadline) -> Self {
        Self {
            stream,
            authentication,
            deadline: Some(deadline),
            is_closed: false,
        }
    }

    pub fn authentication(&self) -> &Authentication {
        &self.authentication
    }

    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if let Some(deadline) = &mut self.deadline
            && let Poll::Ready(is_authenticated) = deadline.as_mut().poll(cx)
        {
            self.deadline = None;
            self.is_closed = !is_authenticated;
        }
        match self.is_closed {
            true => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client did not authenticate",
            )),
            false => Ok(()),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
