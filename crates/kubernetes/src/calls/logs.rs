//! The API call that reads the log of an executor's container, as it is written (spec O-138).

use bytes::Bytes;
use http::Method;

use super::Calls;
use super::lines::{LineReader, Next};
use super::transport::{Call, OBJECT_LIMIT, Query, path};
use crate::pod_template::EXECUTOR_CONTAINER;
use crate::refusal::{Failure, FailureKind};

/// Which part of a log is read.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogPart {
    /// Also what is written from now on, until the container ends.
    pub follow: bool,
    /// The log of the container's previous run.
    pub previous: bool,
    /// At most so many lines from the end.
    pub tail: Option<u64>,
}

/// A log's lines.
pub struct LogLines {
    reader: LineReader,
    place: String,
}

impl Calls {
    /// Opens the log of the executor's container of this pod.
    ///
    /// # Errors
    /// If there is no such pod or no log yet, or a right is missing.
    pub async fn log(&self, pod: &str, part: LogPart) -> Result<LogLines, Failure> {
        let yes_or_no = |yes| if yes { "true" } else { "false" };
        let mut query = Query::default()
            .with("container", EXECUTOR_CONTAINER)
            .with("follow", yes_or_no(part.follow))
            .with("previous", yes_or_no(part.previous));
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
