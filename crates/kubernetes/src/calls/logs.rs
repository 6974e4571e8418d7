//! The API call that reads a container's log, as it is written (spec O-138, O-139).

use bytes::Bytes;
use http::Method;
use jiff::Timestamp;

use super::Calls;
use super::lines::{LineReader, Next};
use super::transport::{Call, OBJECT_LIMIT, Query, path};
use crate::pod_template::EXECUTOR_CONTAINER;
use crate::refusal::{Failure, FailureKind};

/// Which part of a log is read.
#[derive(Debug, Clone, Copy)]
pub struct LogPart {
    pub container: &'static str,
    /// Also what is written from now on, until the container ends.
    pub follow: bool,
    /// The log of the container's previous run.
    pub previous: bool,
    /// At most so many lines from the end.
    pub tail: Option<u64>,
    /// Each line begins with the time at which it was written, and a blank.
    pub timestamps: bool,
    /// Only lines since this time, of which the server may take whole seconds only.
    pub since: Option<Timestamp>,
}

impl Default for LogPart {
    fn default() -> Self {
        Self {
            container: EXECUTOR_CONTAINER,
            follow: false,
            previous: false,
            tail: None,
            timestamps: false,
            since: None,
        }
    }
}

/// A log's lines.
pub struct LogLines {
    reader: LineReader,
    place: String,
}

impl Calls {
    /// Opens the log of a container of this pod.
    ///
    /// # Errors
    /// If there is no such pod or no log yet, or a right is missing.
    pub async fn log(&self, pod: &str, part: LogPart) -> Result<LogLines, Failure> {
        let yes_or_no = |yes| if yes { "true" } else { "false" };
        let mut query = Query::default()
            .with("container", part.container)
            .with("follow", yes_or_no(part.follow))
            .with("previous", yes_or_no(part.previous));
        if part.timestamps {
            query = query.with("timestamps", "true");
        }
        if let Some(since) = part.since {
            query = query.with("sinceTime", &since.to_string());
        }
        if let Some(lines) = part.tail {
            query = query.with("tailLines", &lines.to_string());
        }
        let call = self.log_call(pod, query, OBJECT_LIMIT);
        let place = call.place();
        let opened = self.opened(&self.clients().reads, call).await;
        let response = opened.map_err(|rejection| rejection.failure)?;
        Ok(LogLines {
            reader: LineReader::new(response.into_body()),
            place,
        })
    }

    /// The call that reads a pod's log, by this query and up to so many bytes.
    pub(super) fn log_call(&self, pod: &str, query: Query, limit: usize) -> Call {
        Call {
            method: Method::GET,
            path: format!("{}{}", self.pods_path(Some(pod)), path(&["log"])),
            query,
            body: None,
            limit,
        }
    }
}

impl LogLines {
    /// The next line, without its end; `None` at the end. It waits for as long as the container writes nothing.
    ///
    /// # Errors
    /// If the connection breaks, or a line has more than 1 MiB.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let failed = |kind, why: &str| Err(Failure::new(kind, &format!("{}: {why}", self.place)));
        match self.reader.next().await {
            Next::Line(line) | Next::Rest(line) => Ok(Some(line)),
            Next::End => Ok(None),
            Next::TooLong => failed(FailureKind::Garbage, "a line is too long"),
            Next::Broken(why) => failed(FailureKind::Broken, &why),
        }
    }
}
