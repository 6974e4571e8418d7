//! Reads a response body line by line.

use std::error::Error;

use bytes::{Bytes, BytesMut};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use kube::client::Body;

use crate::transport_error::chain_text;

/// An executor's pod is some kB, and Kubernetes stores no object above 1.5 MiB. The limit bounds memory.
pub(super) const LINE_LIMIT: usize = 1024 * 1024;

/// Buffers at most one line and one frame.
pub(super) struct LineReader<B = Body> {
    body: B,
    buffer: BytesMut,
    /// The length of the buffer's part that contains no end of line.
    searched: usize,
    ended: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A line, without its end.
    Line(Bytes),
    /// The text after the last end of line, usually an incomplete line.
    Rest(Bytes),
    /// A line above the limit; reading stops.
    TooLong,
    Broken(String),
    End,
}

impl<B: HttpBody<Data = Bytes, Error: Error + 'static> + Unpin> LineReader<B> {
    pub(super) fn new(body: B) -> Self {
        Self {
            body,
            buffer: BytesMut::new(),
            searched: 0,
            ended: false,
        }
    }

    pub(super) async fn next(&mut self) -> Next {
        loop {
            if self.ended {
                return Next::End;
            }
            match self.split_line() {
                Some(line) if line.len() <= LINE_LIMIT => return Next::Line(line),
                None if self.buffer.len() <= LINE_LIMIT => {}
                _ => {
                    self.end();
                    return Next::TooLong;
                }
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => {
                    self.end();
                    return Next::Broken(chain_text(&error));
                }
                None => {
                    self.ended = true;
                    let rest = self.buffer.split().freeze();
                    if !rest.is_empty() {
                        return Next::Rest(rest);
                    }
                }
            }
        }
    }

    fn end(&mut self) {
        self.ended = true;
        self.buffer = BytesMut::new();
    }

    fn split_line(&mut self) -> Option<Bytes> {
        let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
        let Some(end) = unsearched.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            return None;
        };
        let mut line = self.buffer.split_to(self.searched + end + 1);
        line.truncate(line.len() - 1);
        self.searched = 0;
        Some(line.freeze())
    }
}
