//! A body, line by line.

use std::error::Error;

use bytes::{Bytes, BytesMut};
use http_body::Body as HttpBody;
use http_body_util::BodyExt;
use kube::client::Body;

use crate::kubernetes::transport_error::chain_text;

/// Kubernetes stores no object above 1.5 MiB, and a pod of an executor is some kB; a line that is longer would only
/// fill the memory.
pub(super) const LINE_LIMIT: usize = 1024 * 1024;

/// A body that is read line by line, with no more than one line and one frame in memory.
pub(super) struct LineReader<B = Body> {
    body: B,
    buffer: BytesMut,
    /// How much of the buffer was searched for an end of line.
    searched: usize,
    ended: bool,
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A line without its end.
    Line(Bytes),
    /// What follows the last end of line; half a line more often than not.
    Rest(Bytes),
    /// A line beyond the limit; nothing after it is read.
    TooLong,
    /// It cannot be read any further.
    Broken(String),
    /// That was all.
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
